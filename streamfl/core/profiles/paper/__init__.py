"""Profiles `paper` and `calibrated`: Master-FL as published, instances at many time scales."""
