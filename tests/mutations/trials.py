"""Runs tests in the copy: once to see which of them reach the place of each mutation, then these on each mutation."""

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from mutations.copy import packages_of, python_of, written
from mutations.order import Cost, file_of
from mutations.table import MUTATIONS, NATIVE, Mutation
from mutations.text import changed, with_calls

# Python that runs as machine code can call nothing: where it is called stands for its own places.
COMPILED, CALLS_COMPILED = "compiled", (NATIVE + "learner.py", "if not predict_and_learn(")

# Seconds after which a test has got stuck: so many times what it takes, within bounds.
TIMES, LEAST, MOST = 20.0, 60.0, 900.0

# What is said of a test, or of the one before it, that ended no run: it crashed, or took far too long.
STUCK = " did not end"

# Tests of these may fail by chance of time; a failure counts only if they pass without the mutation.
TIMED = "tests/integration/"

TRIPPED = '''"""Notes which tests run which place."""

import os
import time

_seen, _read_at, _running = set(), -1.0, ""
_open = open  # a test may replace it


def _test():
    """Return the test that runs: pytest tells its own process, and others read it now and then."""
    global _read_at, _running
    if os.environ.get("RUNNING_TESTS") == str(os.getpid()):
        return os.environ.get("PYTEST_CURRENT_TEST", "")
    if time.monotonic() > _read_at + 0.1:
        _read_at = time.monotonic()
        with _open({running!r}, encoding="utf-8") as running:
            _running = running.read() + " (process)"
    return _running


def at(place):
    pair = place, _test()
    if pair not in _seen:
        _seen.add(pair)
        with _open({reached!r}, "a", encoding="utf-8") as reached:
            reached.write("\\t".join(pair) + "\\n")
'''


@dataclass(frozen=True)
class Suite:
    """Some tests, as arguments of pytest.

    Parameters
    ----------
    name
        `quick` for `make test`, `full` for what `make test-all` adds.
    markers
        Which tests; further ones are left out by `also`.
    paths
        Where they are; all by default.
    """

    name: str
    also: str = ""
    paths: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Tell whether these are all tests of the suite: then a mutation that they do not catch survives it."""
        return not self.also and not self.paths

    @property
    def label(self) -> str:
        """Return a name for files about them.

        >>> Suite("quick").label, Suite("quick", "not broker").label
        ('quick', 'quick-38cf7c18')
        """
        if self.is_whole:
            return self.name
        return f"{self.name}-{hashlib.sha256(repr((self.also, self.paths)).encode()).hexdigest()[:8]}"

    @property
    def arguments(self) -> list[str]:
        """Return the arguments that collect them."""
        marker = "full" if self.name == "full" else "not full"
        return [*self.paths, "-m", f"({marker}) and ({self.also})" if self.also else marker]

    @property
    def profile(self) -> list[str]:
        """Return the arguments that say how hard they try."""
        return ["--hypothesis-profile", "full"] if self.name == "full" else []


@dataclass
class Reach:
    """What a run without mutations has shown.

    Parameters
    ----------
    tests
        By place, the tests that run it.
    costs
        By test that has passed, its seconds.
    drawn
        The tests of which hypothesis draws the examples.
    """

    tests: dict[str, set[str]] = field(default_factory=dict)
    costs: dict[str, Cost] = field(default_factory=dict)
    drawn: set[str] = field(default_factory=set)

    def of(self, mutation: Mutation, kernels: Iterable[str] = ()) -> set[str]:
        """Return the tests that reach a mutation; of a compiled one also those in files about compiled loops."""
        if not mutation.is_compiled:
            return self.tests.get(mutation.name, set()) & self.costs.keys()
        files = set(kernels)
        about = {test for test in self.costs if file_of(test) in files}
        return (self.tests.get(COMPILED, set()) & self.costs.keys()) | about


def instrumented(root: Path, mutations: Sequence[Mutation] = MUTATIONS) -> dict[str, str]:
    """Return by file its source with a call at the place of each mutation."""
    calls: dict[str, dict[str, str]] = {}
    for each in mutations:
        file, text, place = (*CALLS_COMPILED, COMPILED) if each.is_compiled else (each.file, each.there, each.name)
        calls.setdefault(file, {})[text] = f'__import__("tripped").at({place!r})'
    return {file: with_calls((root / file).read_text(encoding="utf-8"), of) for file, of in calls.items()}


def reach(copy: Path, suite: Suite, work: Path) -> Reach:
    """Run the tests once, without mutations, and note which of them reach which place; keep that in `work`."""
    reached, results, running, done = (
        work / f"{kind}.{suite.label}" for kind in ("reached", "results", "running", "done")
    )
    if not done.exists():
        for file in (reached, results, running):
            file.write_text("")
        tripped = packages_of(copy) / "tripped.py"
        tripped.write_text(TRIPPED.format(running=str(running), reached=str(reached)), encoding="utf-8")
        with ExitStack() as stack:
            for file, text in instrumented(copy).items():
                stack.enter_context(written(copy / file, text))
            arguments = [*suite.arguments, *suite.profile, f"--results={results}", f"--running={running}"]
            ended = _run_pytest(copy, arguments, seconds=None)
        if ended not in (0, 1):  # all passed, or some failed
            raise RuntimeError(f"pytest ended with {ended} before all tests were run; the last ones are in {results}")
        done.touch()
    return read(reached.read_text(encoding="utf-8"), results.read_text(encoding="utf-8"))


def read(reached: str, results: str) -> Reach:
    """Return what the lines of a run say.

    What was run while a fixture was made, or in another process, may be of all tests of a file: they share both.

    >>> lines = [{"test": f"a.py::{name}", "phase": "call", "outcome": "passed", "seconds": 1.5} for name in "xy"]
    >>> found = read("m\\ta.py::x (call)\\nn\\ta.py::x (setup)\\n", "\\n".join(map(json.dumps, lines)))
    >>> found.tests["m"], sorted(found.tests["n"]), found.costs["a.py::y"]
    ({'a.py::x'}, ['a.py::x', 'a.py::y'], Cost(own=1.5, fixtures=0.0))
    """
    found, failed = Reach(), set()
    for line in map(json.loads, results.splitlines()):
        test = line["test"]
        if line["outcome"] != "passed":  # it fails, or is skipped, here as well
            failed.add(test)
        if line.get("draws"):
            found.drawn.add(test)
        cost, seconds = found.costs.get(test, Cost()), line["seconds"]
        is_own = line["phase"] == "call"
        found.costs[test] = Cost(cost.own + seconds * is_own, cost.fixtures + seconds * (not is_own))
    for test in failed:
        found.costs.pop(test, None)
    of_file: dict[str, set[str]] = {}
    for test in found.costs:
        of_file.setdefault(file_of(test), set()).add(test)
    for line in reached.splitlines():
        place, _, when = line.partition("\t")
        test, _, phase = when.rpartition(" ")
        tests = {test} if phase == "(call)" else of_file.get(file_of(test), set())
        found.tests.setdefault(place, set()).update(tests)
    return found


def first_failure(
    copy: Path, mutation: Mutation, tries: Iterable[Sequence[str]], found: Reach, suite: Suite
) -> str | None:
    """Return the first test that a mutation fails, None if all pass; each of `tries` is a run of pytest."""
    file = copy / mutation.file
    text = changed(file.read_text(encoding="utf-8"), mutation)
    with TemporaryDirectory() as compiled:
        # Machine code of a mutation must not push the true one out of its cache.
        environment = {"NUMBA_CACHE_DIR": compiled} if mutation.is_compiled else {}
        for tests in tries:
            left = [*tests]
            while left:
                with written(file, text):
                    failed = _first_of(copy, left, found.costs, suite, environment)
                if failed is None:
                    break
                if failed.endswith(STUCK) and _first_of(copy, left, found.costs, suite, {}) is not None:
                    raise RuntimeError(f"without the mutation, too: {failed}")
                if not failed.startswith(TIMED) or _first_of(copy, [failed], found.costs, suite, {}) is None:
                    return failed
                left = left[left.index(failed) + 1 :] if failed in left else []
    return None


def _first_of(
    copy: Path, tests: Sequence[str], costs: Mapping[str, Cost], suite: Suite, environment: Mapping[str, str]
) -> str | None:
    """Return the first of some tests that fails."""
    with TemporaryDirectory() as folder:
        chosen, results = Path(folder) / "chosen", Path(folder) / "results"
        chosen.write_text(json.dumps(tests), encoding="utf-8")
        results.write_text("")
        each = [costs.get(test, Cost()) for test in tests]
        longest = max(cost.own + cost.fixtures for cost in each)
        limit = min(MOST, max(LEAST, TIMES * longest))
        arguments = [*dict.fromkeys(map(file_of, tests)), *suite.profile, "-x", "--timeout", f"{limit:.0f}"]
        arguments += [f"--chosen={chosen}", f"--results={results}"]
        seconds = MOST + TIMES * sum(cost.own + cost.fixtures for cost in each)
        ended = _run_pytest(copy, arguments, seconds, environment)
        lines = [*map(json.loads, results.read_text(encoding="utf-8").splitlines())]
    failed = next((line["test"] for line in lines if line["outcome"] == "failed"), None)
    if failed is not None or ended == 0:
        return failed
    return f"{lines[-1]['test'] if lines else tests[0]}{STUCK}"


def _run_pytest(
    copy: Path, arguments: Sequence[str], seconds: float | None, environment: Mapping[str, str] | None = None
) -> int | None:
    """Run pytest in the copy; return its exit code, None if it took longer than so many seconds."""
    command = [str(python_of(copy)), "-m", "pytest", "-p", "tests.mutations.watch", "--tb=no", "-q", *arguments]
    own = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    with subprocess.Popen(
        command,
        cwd=copy,
        env={**own, **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
