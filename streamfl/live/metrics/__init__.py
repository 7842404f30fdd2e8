"""Metrics and health of a process over HTTP, for Prometheus and for orchestrators. It needs the extra `telemetry`."""

from importlib.util import find_spec

from streamfl.errors import UsageError

if lacking := [name for name in ("prometheus_client", "starlette", "uvicorn") if find_spec(name) is None]:
    raise UsageError(f"[telemetry] needs {' and '.join(lacking)}: install the extra telemetry (docs/install.md)")
