"""Drift detection: the interface of detectors, what they look at, and the detectors."""
