"""Where tests find one another's federations, and how hard hypothesis tries."""

import hashlib
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling, Scheduling

sys.path.insert(0, str(Path(__file__).parent))

# Compiled loops are kept by the digest of all that is compiled in: by itself Numba looks at one file's date only.
CORE = Path(__file__).parents[1] / "streamfl" / "core"
COMPILED = [
    *sorted((CORE / "between" / "native").glob("*.py")),
    *sorted((CORE / "protocol" / "native").glob("*.py")),
    CORE / "protocol" / "moments.py",
    CORE / "arrays.py",
]
DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in COMPILED)).hexdigest()[:16]
os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")  # an index outside an array is an error here, elsewhere it is memory
os.environ.setdefault("NUMBA_CACHE_DIR", str(CORE.parents[1] / ".numba_cache" / DIGEST))

KAFKA = "tests/integration/kafka/"


class OneBroker(LoadScopeScheduling):
    """Gives all tests that need a broker to one process: it starts a single one."""

    def _split_scope(self, nodeid: str) -> str:
        return KAFKA if nodeid.startswith(KAFKA) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
    return OneBroker(config, log)


settings.register_profile("streamfl", deadline=None, derandomize=True)
settings.load_profile("streamfl")
