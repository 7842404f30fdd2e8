"""Benchmarks: streamfl and other methods on the same streams."""
