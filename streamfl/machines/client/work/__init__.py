"""A client's work on a round, from the records that it takes to the update and what is in flight."""
