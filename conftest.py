"""Where tests find one another's federations, how hard hypothesis tries, and which tests need a broker."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests"))

os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")  # an index outside an array is an error here, elsewhere it is memory
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache"))

KAFKA = "tests/integration/kafka/"


try:
    from xdist.scheduler import LoadScopeScheduling, Scheduling
except ImportError:  # one process then runs them all
    pass
else:

    class OneBroker(LoadScopeScheduling):
        """Gives all tests that need a broker to one process: it starts a single one."""

        def _split_scope(self, nodeid: str) -> str:
            return KAFKA if nodeid.startswith(KAFKA) else nodeid

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
        """Give pytest-xdist the scheduler."""
        return OneBroker(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a broker by its folder."""
    for item in items:
        if item.nodeid.startswith(KAFKA):
            item.add_marker("broker")


settings.register_profile("streamfl", deadline=None, derandomize=True)
settings.load_profile("streamfl")
