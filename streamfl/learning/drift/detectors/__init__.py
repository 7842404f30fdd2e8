"""Drift detectors, one file each."""
