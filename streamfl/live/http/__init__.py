"""Answers over HTTP, by the V2 inference protocol: an ASGI app, and a server for it. It needs the extra `http`."""

from importlib.util import find_spec

from streamfl.errors import UsageError

if lacking := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
    raise UsageError(f"answers over HTTP need {' and '.join(lacking)}: install the extra http (docs/install.md)")
