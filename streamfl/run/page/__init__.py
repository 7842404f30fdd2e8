"""The page of a federation: what is on it, and how it is drawn, live or as the report of a run."""
