"""Which tests need what: by their place, or by a marker of their own, which is missed where it is lacking."""

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

BY_PLACE = {
    "broker": ("tests/integration/kafka/",),
    "compiles": (  # doctests of what learns online and of replays, and tests that run whole commands
        "streamfl/online/native/",
        "streamfl/run/estimators/",
        "streamfl/cli/federation.py",
        "streamfl/run/replay.py",
        "tests/examples/",
        "tests/golden/",
        "tests/integration/test_",
    ),
    "process": ("tests/examples/", "tests/integration/kafka/"),
}

# kafka-python loses a socket of a broker that it has left now and then, which is then closed as garbage.
OF_KAFKA = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

# The test that runs.
running: list[pytest.Item] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their place."""
    for item in items:
        for marker, places in BY_PLACE.items():
            if item.nodeid.startswith(places):
                item.add_marker(marker)
        if item.nodeid.startswith(BY_PLACE["broker"]):
            item.add_marker(OF_KAFKA)


def pytest_configure(config: pytest.Config) -> None:
    """Let no test start a process without its marker; where tests that compile are left out, let no other compile."""
    subprocess.Popen.__init__ = only_if_marked(subprocess.Popen.__init__)  # type: ignore[method-assign]
    if "not compiles" in config.option.markexpr:  # neither compile nor read machine code back
        from numba.core.dispatcher import Dispatcher

        Dispatcher.compile = machine_code_refused


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the test that runs."""
    running[:] = [item]
    result = yield
    running.clear()
    return result


def only_if_marked(start: Callable[..., None]) -> Callable[..., None]:
    """Return what starts a process, but fails a test that is not marked `process`."""

    def checked(process: Any, arguments: Any, *rest: Any, **options: Any) -> None:
        if any(item.get_closest_marker("process") is None for item in running):
            pytest.fail(f"{arguments!r} is started as a process: mark the test `process`")
        start(process, arguments, *rest, **options)

    return checked


def machine_code_refused(function: Any, arguments: object) -> None:
    """Fail the test that needs a function as machine code."""
    pytest.fail(f"{function.py_func.__qualname__} is needed as machine code: mark the test `compiles`")
