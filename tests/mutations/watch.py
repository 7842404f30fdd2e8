"""A plugin of pytest, loaded by `-p tests.mutations.watch`: it runs chosen tests in order, and notes each result."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

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
    if file := item.config.getoption("--results"):
        seconds = round(call.duration, 4)
        line = {"test": item.nodeid, "phase": call.when, "outcome": report.outcome, "seconds": seconds}
        draws = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        _note(file, {**line, "draws": True} if draws else line)
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a file that cannot be imported."""
    if report.failed and (file := _RESULTS.get("file")):
        _note(file, {"test": report.nodeid, "phase": "import", "outcome": "failed", "seconds": 0.0})


_RESULTS: dict[str, str] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Keep where results go: a report of a collection does not say of which run it is."""
    if file := config.getoption("--results"):
        _RESULTS["file"] = file


def _note(file: str, line: dict[str, object]) -> None:
    with Path(file).open("a", encoding="utf-8") as results:
        results.write(json.dumps(line) + "\n")
