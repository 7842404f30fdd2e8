"""Tells people of a federation what is worth a message: what happened, and where it is sent."""
