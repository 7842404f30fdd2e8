"""What each test costs: `pytest --costs FILE` appends a line of JSON for every test that it runs."""

import json
import os
import resource
import time
from collections.abc import Iterator

import pytest


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
        cost = {"test": item.nodeid, "wall": time.perf_counter() - wall, "cpu": processor_seconds() - cpu}
        with open(file, "a", encoding="utf-8") as costs:  # a line at once, so that processes do not mix theirs
            costs.write(json.dumps({name: round(of, 3) if name != "test" else of for name, of in cost.items()}) + "\n")
    return result


def processor_seconds() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
