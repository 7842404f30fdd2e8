"""The live page of a federation, made from what its log tells. It needs the extra `page`."""

from importlib.util import find_spec

from streamfl.errors import UsageError

if lacking := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
    raise UsageError(f"the live page needs {' and '.join(lacking)}: install the extra page (docs/install.md)")
