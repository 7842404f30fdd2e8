"""`pytest --minutes 20` starts no test after 20 minutes: what was not reached is named, and is no failure."""

import time

import pytest

REASON = "not reached: the time that --minutes gives was over"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--minutes", metavar="M", type=float, help="start no test after M minutes, and name the rest")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Note when tests must no longer start."""
    minutes = session.config.getoption("--minutes")
    session.config.stash[LAST_START] = None if minutes is None else time.monotonic() + 60.0 * minutes


LAST_START = pytest.StashKey[float | None]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test for which no time is left."""
    last = item.config.stash[LAST_START]
    if last is not None and time.monotonic() > last:
        pytest.skip(REASON)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that were not reached, by file."""
    skipped = [report for report in terminalreporter.getreports("skipped") if REASON in str(report.longrepr)]
    files: dict[str, int] = {}
    for report in skipped:
        file = report.nodeid.partition("::")[0]
        files[file] = files.get(file, 0) + 1
    for file, tests in sorted(files.items()):
        terminalreporter.write_line(f"not reached in time: {tests} of {file}")
