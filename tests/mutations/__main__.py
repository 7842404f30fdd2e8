"""Tries the mutations on the tests: `python -m tests.mutations`; what is in `caught.json` is not tried again.

    --suite quick   `make test` (default);  --suite full   what `make test-all` adds, on what `make test` lets pass
    --only WORD     mutations with this word in their name;  --again   also those that are in the table
    --also MARKERS, PATH ...   only some tests: then only what they catch goes into the table
    --copy again    copy the project again: needed after a change of sources or tests

A first run with each set of tests shows which of them reach which mutation. It, and the copy, are kept in `--work`.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from mutations import copy, report  # noqa: E402  after the path is set
from mutations.order import batches  # noqa: E402
from mutations.table import MUTATIONS, Mutation  # noqa: E402
from mutations.trials import Reach, Suite, first_failure, reach  # noqa: E402


def main() -> None:
    """Try them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="where tests are")
    parser.add_argument("--suite", choices=("quick", "full"), default="quick")
    parser.add_argument("--also", default="", metavar="MARKERS", help="as for pytest's -m, besides the suite's own")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "streamfl-mutations")
    parser.add_argument("--copy", choices=("keep", "again"), default="keep")
    asked = parser.parse_args()
    suite, place = Suite(asked.suite, asked.also, tuple(asked.paths)), asked.work / "copy"
    if asked.copy == "again" or not place.exists():
        for file in asked.work.glob("done.*"):
            file.unlink()
        copy.make(TESTS.parent, place)
    copy.mend(place)
    caught = report.read()
    chosen = [m for m in MUTATIONS if asked.only in m.name]
    left = [m for m in chosen if asked.again or not report.is_known(caught.get(m.name, {}), suite.name)]
    found = reach(place, suite, asked.work) if left else Reach()
    for is_last in (False, True):  # what cheap tests catch is known soon
        survivors = []
        for mutation in left:
            began = time.monotonic()
            tries = batches(candidates(found, mutation, suite, asked.work), found.costs, mutation.file)
            by = first_failure(place, mutation, tries[-1:] if is_last else tries[:-1], found, suite)
            say(f"{time.monotonic() - began:6.0f} s  {mutation.name}: {by or f'none of {what(tries, is_last)}'}")
            if by or (is_last and suite.is_whole):
                caught.setdefault(mutation.name, {"change": mutation.digest})[suite.name] = by or ""
                report.write(caught)
            if not by:
                survivors.append(mutation)
        left = survivors
    report.write(caught)


def what(tries: list[list[str]], is_last: bool) -> str:
    """Return how many tests were tried.

    >>> what([["a"], ["b", "c"], ["d"]], False), what([["a"], ["b", "c"], ["d"]], True)
    ('the 3 cheapest tests of 4', '4 tests')
    """
    tests = sum(map(len, tries))
    return f"{tests} tests" if is_last else f"the {tests - len(tries[-1])} cheapest tests of {tests}"


def candidates(found: Reach, mutation: Mutation, suite: Suite, work: Path) -> set[str]:
    """Return the tests that may catch a mutation.

    The full suite also tries what hypothesis draws for tests of the quick one harder.
    """
    about = [path.relative_to(TESTS.parent) for path in TESTS.rglob("test_*.py") if "kernels" in path.read_text()]
    kernels = [str(path) for path in about]
    tests = found.of(mutation, kernels)
    if suite.name == "full" and (work / f"done.{Suite('quick').label}").exists():
        quick = reach(work / "copy", Suite("quick"), work)
        drawn = quick.of(mutation, kernels) & quick.drawn
        found.costs |= {test: quick.costs[test] for test in drawn}
        tests |= drawn
    return tests


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
