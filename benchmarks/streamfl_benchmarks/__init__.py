"""Benchmarks: Master-FL and other methods on the same streams."""
