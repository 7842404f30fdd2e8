"""Profile `adaptive`: a ladder of step sizes, an alarm, and a choice of who goes on."""
