"""Where tests find one another's federations, how hard hypothesis tries, and which tests need a broker."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests"))

pytest_plugins = ["suites.costs"]

# Tests start some thousand processes: with compiled modules each needs half the time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")  # an index outside an array is an error here, elsewhere it is memory
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache"))

# Guided fuzzing needs a package that is not installed for the tests.
collect_ignore = ["tests/fuzz/guided.py"]

KAFKA = "tests/integration/kafka/"
WORLDS = "tests/simulation/"

# Doctests of what learns between rounds and of replays, and folders whose tests run whole commands; others say so.
COMPILING = (
    "streamfl/core/between/native/",
    "streamfl/estimators/",
    "streamfl/replay.py",
    "tests/examples/",
    "tests/golden/",
    "tests/integration/test_",
)


try:
    from xdist.scheduler import LoadScopeScheduling, Scheduling
except ImportError:  # one process then runs them all
    pass
else:

    class Together(LoadScopeScheduling):
        """Gives all tests that need a broker to one process, which starts a single one, and those of a file to one.

        Tests of a file share replays; those of simulated worlds share none, take long, and come last, each alone.
        """

        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(KAFKA):
                return KAFKA
            return nodeid if nodeid.startswith(WORLDS) else nodeid.partition("::")[0]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
        """Give pytest-xdist the scheduler."""
        return Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a broker, and doctests and commands that compile, by their place."""
    for item in items:
        if item.nodeid.startswith(KAFKA):
            item.add_marker("broker")
        if item.nodeid.startswith(COMPILING):
            item.add_marker("compiles")


def pytest_configure(config: pytest.Config) -> None:
    """Where tests that compile are left out, let no other do: neither compile nor read machine code back."""
    if "not compiles" in config.option.markexpr:
        from numba.core.dispatcher import Dispatcher  # noqa: PLC0415 - read after the environment is set

        Dispatcher.compile = refused


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a file that compiles, where such tests are left out: some do as they are imported."""
    if "not compiles" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    return "\npytestmark = pytest.mark.compiles\n" in collection_path.read_text(encoding="utf-8") or None


def refused(function: Any, arguments: object) -> None:
    """Fail the test that needs a function as machine code."""
    pytest.fail(f"{function.py_func.__qualname__} is needed as machine code: mark the test `compiles`")


settings.register_profile("streamfl", deadline=None, derandomize=True)
settings.load_profile("streamfl")
