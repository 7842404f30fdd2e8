"""Traces of rounds by OpenTelemetry. It needs the extra `traces`."""

from importlib.util import find_spec

from streamfl.errors import UsageError

if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
    raise UsageError(
        "[telemetry] traces needs opentelemetry-sdk and its exporter: install the extra traces (docs/install.md)"
    )
