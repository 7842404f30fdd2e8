"""What tests cost: `pytest --costs FILE` notes it, `python tests/suites/costs.py FILE ...` keeps it in costs.json.

    make test-all COSTS=costs.jsonl      or a shard of it, as often as you like
    python tests/suites/costs.py costs.jsonl

Shards are balanced by `costs.json`, and tests that take longest start first.
"""

import json
import resource
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

KEPT = Path(__file__).with_name("costs.json")
SHORT = 0.1  # seconds; most tests take less: they are not kept, so that the file stays short


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--costs", metavar="FILE", help="append the seconds of each test to FILE, as lines of JSON")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure a test with its fixtures: seconds of the wall, and of CPU with those of the processes it has ended."""
    file = item.config.getoption("--costs")
    wall, cpu = time.perf_counter(), processor_seconds()
    result = yield
    if file:
        seconds = {"wall": time.perf_counter() - wall, "cpu": processor_seconds() - cpu}
        line = {"test": item.nodeid} | {name: round(of, 3) for name, of in seconds.items()}
        with Path(file).open("a", encoding="utf-8") as costs:  # a line at once, so that processes do not mix theirs
            costs.write(json.dumps(line) + "\n")
    return result


def processor_seconds() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def key_of(nodeid: str) -> str:
    """Return what the seconds of a test are kept under: its file and name, without parameters."""
    return nodeid.partition("[")[0]


def seconds_of(nodeid: str) -> float:
    """Return the seconds of the wall that a test takes; a tenth of SHORT for what is not kept."""
    return kept().get(key_of(nodeid), SHORT / 10)


@cache
def kept() -> dict[str, float]:
    """Return the seconds of a test by key."""
    known: dict[str, float] = json.loads(KEPT.read_text(encoding="utf-8"))
    return known


def main(files: Iterable[str]) -> None:
    """Keep the mean seconds of the tests in some files of `--costs`; those of others stay as they are."""
    walls: dict[str, list[float]] = {}
    for file in files:
        for line in Path(file).read_text(encoding="utf-8").splitlines():
            cost = json.loads(line)
            walls.setdefault(key_of(cost["test"]), []).append(cost["wall"])
    means = {key: statistics.fmean(of) for key, of in walls.items()}
    known = {key: seconds for key, seconds in kept().items() if key not in means}
    known |= {key: round(mean, 1) for key, mean in means.items() if mean >= SHORT}
    KEPT.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
