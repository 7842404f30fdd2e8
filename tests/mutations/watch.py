"""A plugin of pytest, loaded by `-p tests.mutations.watch`: it runs chosen tests in order, and notes each result."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--chosen", metavar="FILE", help="run only the tests that this list of JSON names, in its order")
    parser.addoption("--results", metavar="FILE", help="append the result of each test to FILE, as lines of JSON")
    parser.addoption("--running", metavar="FILE", help="keep the name of the test that runs in FILE")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tests."""
    if file := config.getoption("--chosen"):
        place = {test: i for i, test in enumerate(json.loads(Path(file).read_text(encoding="utf-8")))}
        others = [item for item in items if item.nodeid not in place]
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])
        config.hook.pytest_deselected(items=others)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Tell processes that a test has started, and that know nothing of it, which one it is."""
    if file := item.config.getoption("--running"):
        os.environ["RUNNING_TESTS"] = str(os.getpid())  # in this process pytest itself says it
        Path(file).write_text(item.nodeid, encoding="utf-8")
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note the seconds and the result of each phase of a test."""
    report = yield
    seconds = round(call.duration, 4)
    line = {"test": item.nodeid, "phase": call.when, "outcome": report.outcome, "seconds": seconds}
    draws = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    _note({**line, "draws": True} if draws else line)
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a file that cannot be imported."""
    if report.failed:
        _note({"test": report.nodeid, "phase": "import", "outcome": "failed", "seconds": 0.0})


# Open from the beginning: a test may replace what opens files.
_results: list[TextIO] = []


def pytest_configure(config: pytest.Config) -> None:
    """Open the file of results."""
    if file := config.getoption("--results"):
        _results.append(Path(file).open("a", encoding="utf-8", buffering=1))  # noqa: SIM115  closed at the end


def pytest_unconfigure() -> None:
    """Close it."""
    for results in _results:
        results.close()
    _results.clear()


def _note(line: dict[str, object]) -> None:
    for results in _results:
        results.write(json.dumps(line) + "\n")
