"""Scores and steps of one model on the records of one client, and what is needed to add them up."""
