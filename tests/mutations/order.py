"""Which of the tests that reach a place are tried first: a mutation should die of few seconds of tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

# Seconds of the first batches of tests; the last batch has all others. Each batch is a process that starts anew.
BATCHES = (4.0, 60.0)

# The first batch has so many cases of a parametrised test at most: it should try many tests, not one many times.
CASES = 2

# Words in the names of files that say nothing.
COMMON = frozenset(("test", "tests", "core", "py", "init"))


@dataclass(frozen=True)
class Cost:
    """The seconds of a test itself, and of the fixtures that were made for it, which others of its file may share."""

    own: float = 0.0
    fixtures: float = 0.0


def batches(tests: Iterable[str], costs: Mapping[str, Cost], file: str) -> list[list[str]]:
    """Return tests in the order in which they should try a mutation of a file: cheap ones, further ones, the rest.

    Parameters
    ----------
    tests
        Their node ids.
    costs
        What they cost, in their usual order; nothing is known of others, which count as nothing.
    file
        The mutated file: tests of files that are named alike come first.

    Examples
    --------
    >>> costs = {"a.py::fast[1]": Cost(1.0), "a.py::fast[2]": Cost(1.0), "a.py::fast[3]": Cost(1.0)}
    >>> costs |= {"a.py::slow": Cost(9.0), "b.py::y": Cost(0.0, 99.0), "test_ledger.py::x": Cost(2.0)}
    >>> batches(costs, costs, "core/ledger.py")
    [['test_ledger.py::x', 'a.py::fast[1]', 'a.py::fast[2]'], ['a.py::fast[3]', 'a.py::slow'], ['b.py::y']]
    """
    fixtures: dict[str, float] = {}
    left = [*tests]
    for test in left:
        fixtures[file_of(test)] = max(fixtures.get(file_of(test), 0.0), costs.get(test, Cost()).fixtures)

    def price(test: str) -> float:
        return costs.get(test, Cost()).own + fixtures[file_of(test)]

    words = words_of(file)
    left.sort(key=lambda test: (not words & words_of(file_of(test)), price(test), test))
    found = []
    for number, seconds in enumerate(BATCHES):
        batch = _within(left, seconds, costs, fixtures, CASES if number == 0 else None)
        found.append(by_file(batch, costs))
        chosen = set(batch)
        left = [test for test in left if test not in chosen]
    return [*found, by_file(left, costs)]


def _within(
    tests: Sequence[str], seconds: float, costs: Mapping[str, Cost], fixtures: Mapping[str, float], cases: int | None
) -> list[str]:
    """Return the first tests that take so many seconds together, and make the fixtures of each file once."""
    taken: list[str] = []
    files: set[str] = set()
    of: dict[str, int] = {}
    for test in tests:
        file, function = file_of(test), function_of(test)
        price = costs.get(test, Cost()).own + (0.0 if file in files else fixtures[file])
        if price > seconds or (cases is not None and of.get(function, 0) >= cases):
            continue
        seconds -= price
        files.add(file)
        of[function] = of.get(function, 0) + 1
        taken.append(test)
    return taken


def by_file(tests: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return tests with those of a file together, so that its fixtures are made once; files as they come first.

    Within a file tests come in their usual order, which `known` has: what one leaves behind harms no later one.

    >>> by_file(["b::2", "a::1", "b::1"], ["a::1", "b::1", "b::2"])
    ['b::1', 'b::2', 'a::1']
    """
    file = {file: i for i, file in reversed([*enumerate(map(file_of, tests))])}
    usual = {test: i for i, test in enumerate(known)}
    return sorted(tests, key=lambda test: (file[file_of(test)], usual.get(test, len(usual))))


def file_of(test: str) -> str:
    """Return the file of a test."""
    return test.partition("::")[0]


def function_of(test: str) -> str:
    """Return a test without its parameters.

    >>> function_of("a.py::test_b[1-2]")
    'a.py::test_b'
    """
    return test.partition("[")[0]


def words_of(file: str) -> frozenset[str]:
    """Return the words in the name of a file and of its folder.

    >>> sorted(words_of("tests/unit/wire/test_codec.py")), sorted(words_of("streamfl/wire/codec.py"))
    (['codec', 'wire'], ['codec', 'wire'])
    """
    path = PurePosixPath(file)
    return frozenset(f"{path.parent.name}_{path.stem}".split("_")) - COMMON
