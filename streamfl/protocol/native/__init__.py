"""The values that describe native models, the online models of ours."""
