"""`pytest --shard 3/8` runs the third of eight parts of the tests that take about the same time."""

from collections.abc import Iterable, Mapping

import pytest

from suites.sharing import KAFKA, seconds_of_units, unit_of


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--shard", metavar="K/N", type=shard, help="run only part K of N, balanced by measured time")


def shard(text: str) -> tuple[int, int]:
    """Return the part and the number of parts.

    Raises
    ------
    ValueError
        If it is not two whole numbers, the first from 1 to the second.

    >>> shard("3/8")
    (3, 8)
    """
    part, _, parts = text.partition("/")
    if not 1 <= int(part) <= int(parts):
        raise ValueError(text)
    return int(part), int(parts)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of the other shards."""
    if chosen := config.getoption("--shard"):
        part, parts = chosen
        of = shard_of_units([item.nodeid for item in items], parts)
        others = [item for item in items if of[unit_of(item.nodeid)] != part]
        items[:] = [item for item in items if of[unit_of(item.nodeid)] == part]
        config.hook.pytest_deselected(items=others)


def shard_of_units(tests: Iterable[str], parts: int) -> dict[str, int]:
    """Return the shard of each unit, from 1: the longest unit first, each to the shard that has least so far.

    Tests that need the broker are balanced by themselves, since one process of a shard runs them beside the others.

    >>> shard_of_units(["a.py::one", "b.py::one", "b.py::two", "c.py::one"], 2)
    {'b.py': 1, 'a.py': 2, 'c.py': 2}
    """
    seconds = seconds_of_units(tests)
    kafka = {unit: of for unit, of in seconds.items() if unit.startswith(KAFKA)}
    others = {unit: of for unit, of in seconds.items() if unit not in kafka}
    return balanced(kafka, parts) | balanced(others, parts)


def balanced(seconds: Mapping[str, float], parts: int) -> dict[str, int]:
    """Return the part of each unit, from 1 (Graham's rule: longest first, to the part with the least)."""
    load = [0.0] * parts
    part_of = {}
    for unit in sorted(seconds, key=lambda unit: (-seconds[unit], unit)):
        part_of[unit] = load.index(min(load)) + 1
        load[part_of[unit] - 1] += seconds[unit]
    return part_of
