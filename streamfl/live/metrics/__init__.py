"""Metrics and health of a process over HTTP, for Prometheus and for orchestrators. Showing them needs `telemetry`."""
