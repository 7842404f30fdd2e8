"""Where tests find one another's federations, which tests need what, and how hard hypothesis tries."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests"))

pytest_plugins = ["suites.costs", "suites.sharing", "suites.shards", "suites.limit"]

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


# What all tests of a place need; others say so.
NEEDS = {
    "broker": ("tests/integration/kafka/",),
    "compiles": (  # doctests of what learns between rounds and of replays, and tests that run whole commands
        "streamfl/core/between/native/",
        "streamfl/estimators/",
        "streamfl/replay.py",
        "tests/examples/",
        "tests/golden/",
        "tests/integration/test_",
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a broker, and doctests and commands that compile, by their place."""
    for item in items:
        for marker, places in NEEDS.items():
            if item.nodeid.startswith(places):
                item.add_marker(marker)


def pytest_configure(config: pytest.Config) -> None:
    """Where tests that compile, or start a process, are left out, let no other do so."""
    if "not compiles" in config.option.markexpr:  # it must not read machine code back, either
        from numba.core.dispatcher import Dispatcher  # noqa: PLC0415 - read after the environment is set

        Dispatcher.compile = machine_code_refused
    if "not process" in config.option.markexpr:
        subprocess.Popen.__init__ = process_refused


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a file that compiles, where such tests are left out: some do as they are imported."""
    if "not compiles" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    return "\npytestmark = pytest.mark.compiles\n" in collection_path.read_text(encoding="utf-8") or None


def machine_code_refused(function: Any, arguments: object) -> NoReturn:
    """Fail the test that needs a function as machine code."""
    pytest.fail(f"{function.py_func.__qualname__} is needed as machine code: mark the test `compiles`")


def process_refused(process: Any, arguments: object, *_: Any, **__: Any) -> NoReturn:
    """Fail the test that starts a process."""
    pytest.fail(f"{arguments!r} is started as a process: mark the test `process`")
