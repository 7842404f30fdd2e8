"""Where tests find one another's federations, and how hard hypothesis tries; the rest is in tests/suites."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests"))

pytest_plugins = ["suites.needs", "suites.costs", "suites.sharing", "suites.shards", "suites.limit"]

# Tests start some thousand processes: with compiled modules each needs half the time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")  # an index outside an array is an error here, elsewhere it is memory
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache"))

# `make test` takes the first, `make test-all` the second (--hypothesis-profile full).
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("full", deadline=None, print_blob=True, max_examples=300)
settings.load_profile("quick")

# Guided fuzzing needs a package that is not installed for the tests.
collect_ignore = ["tests/fuzz/guided.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of tests/simulation."""
    parser.addoption(
        "--world", metavar="SEED", type=int, action="append", default=[], help="simulate this world, too"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a file that compiles, where such tests are left out: some do as they are imported."""
    if "not compiles" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    return "\npytestmark = pytest.mark.compiles\n" in collection_path.read_text(encoding="utf-8") or None


@pytest.fixture(autouse=True)
def _logs_of_this_test_alone() -> Iterator[None]:
    """Undo what a test, or a command in it, has said of logs."""
    yield
    structlog.reset_defaults()
