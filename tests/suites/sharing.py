"""How tests are shared out among processes: what must stay together does, and what takes longest comes first."""

import math
from collections.abc import Iterable

import pytest

from suites.costs import seconds_of

KAFKA = "tests/integration/kafka/"
WORLDS = "tests/simulation/"

try:
    from xdist.scheduler import LoadScopeScheduling, Scheduling
except ImportError:  # one process then runs them all
    pass
else:

    class Together(LoadScopeScheduling):
        """Gives all tests that need a broker to one process, which starts a single broker, and each unit to one."""

        def _split_scope(self, nodeid: str) -> str:
            return KAFKA if nodeid.startswith(KAFKA) else unit_of(nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
        """Give pytest-xdist the scheduler, which keeps to our order."""
        config.option.loadscopereorder = False
        return Together(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In one process of several, start what needs the broker first and then what takes longest."""
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


def longest_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in the order in which processes take them; those of a unit, and of a broker, keep theirs."""
    seconds = seconds_of_units(item.nodeid for item in items)
    return sorted(
        items, key=lambda item: -math.inf if item.nodeid.startswith(KAFKA) else -seconds[unit_of(item.nodeid)]
    )


def seconds_of_units(tests: Iterable[str]) -> dict[str, float]:
    """Return the seconds that the tests of each unit take together."""
    seconds: dict[str, float] = {}
    for test in tests:
        seconds[unit_of(test)] = seconds.get(unit_of(test), 0.0) + seconds_of(test)
    return seconds


def unit_of(nodeid: str) -> str:
    """Return what runs in one process and belongs to one shard: a file, whose tests share fixtures and replays.

    Simulated worlds share nothing and take long: each is a unit. Of tests that need the broker a function or a class
    is one: a shard runs them in one process anyway, and a file may take longer than a shard.

    >>> unit_of("tests/unit/wire/test_signing.py::test_a"), unit_of("tests/simulation/test_masks.py::test_a[seed7]")
    ('tests/unit/wire/test_signing.py', 'tests/simulation/test_masks.py::test_a[seed7]')
    """
    if nodeid.startswith(KAFKA):
        return "::".join(nodeid.partition("[")[0].split("::")[:2])
    return nodeid if nodeid.startswith(WORLDS) else nodeid.partition("::")[0]
