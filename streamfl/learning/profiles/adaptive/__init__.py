"""Profile `adaptive`: a ladder of step sizes, a drift detector, and a choice of model at each restart."""
