"""Which worlds are simulated: some always, some that follow from the commit, and the rest in `make test-all`.

    @pytest.mark.worlds(fixed=range(10), drawn=20, full=range(10, 360))
    def test_...(seed): ...

Every commit tries worlds that no other has tried, and always the same. Without git they are fixed.
"""

import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

# The seeds of `drawn` worlds that have failed, by the name of their test: they are tried ever since.
FAILED: dict[str, tuple[int, ...]] = {}

SEEDS = 10**6


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test its seeds."""
    if marker := metafunc.definition.get_closest_marker("worlds"):
        metafunc.parametrize("seed", worlds(metafunc, **marker.kwargs))


def worlds(metafunc: pytest.Metafunc, *, fixed: Iterable[int], drawn: int, full: Iterable[int] = ()) -> list[object]:
    """Return the seeds of a test, those of `make test-all` marked."""
    law = metafunc.definition.originalname
    always = [*fixed, *FAILED.get(law, ()), *drawn_seeds(commit(), law, drawn), *metafunc.config.getoption("--world")]
    once = dict.fromkeys(always)
    rest = [pytest.param(seed, marks=pytest.mark.full) for seed in full if seed not in once]
    return [*once, *rest]


def drawn_seeds(commit: str, law: str, drawn: int) -> list[int]:
    """Return seeds that follow from a commit."""
    return [int(sha256(f"{commit} {law} {i}".encode()).hexdigest(), 16) % SEEDS for i in range(drawn)]


@cache
def commit() -> str:
    """Return the commit that is checked out, or nothing."""
    asked = ["git", "rev-parse", "HEAD"]
    try:
        return subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Say how the world of a failed test is run again, whatever is committed by then."""
    report = yield
    if report.failed and item.get_closest_marker("worlds"):
        seed, test = item.callspec.params["seed"], item.nodeid.partition("[")[0]
        report.sections.append(("this world again", f".venv/bin/pytest {test} --world {seed} -k '[{seed}]'"))
    return report
