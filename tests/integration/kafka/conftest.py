"""A real broker for the tests here; the `conftest.py` of the project gives them all to one process."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from deploy.broker import Broker
from deploy.broker.jars import fetched
from deploy.broker.toolchain import java
from streamfl.errors import UsageError

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for the files here that are no tests
LIBS = HERE.parents[2] / ".kafka" / "libs"


@dataclass(frozen=True)
class NamedBroker:
    """One that is run by somebody else: it cannot be taken down."""

    bootstrap: str


@pytest.fixture(scope="session")
def libs() -> Path:
    """The cache of the jars, filled once and kept in the project."""
    try:
        java()
        fetched(LIBS)
    except UsageError as error:
        cannot_be_had(error)
    return LIBS


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker | NamedBroker]:
    """A broker at `broker.bootstrap`: the one of STREAMFL_TEST_BOOTSTRAP, or ours."""
    if named := os.environ.get("STREAMFL_TEST_BOOTSTRAP"):
        yield NamedBroker(named)
        return
    libs = request.getfixturevalue("libs")
    try:
        started = Broker.start(tmp_path_factory.mktemp("kafka"), libs=libs)
    except UsageError as error:
        cannot_be_had(error)
    with started:
        yield started


@pytest.fixture
def own_broker(broker: Broker | NamedBroker) -> Iterator[Broker]:
    """The same broker, for tests that call `down()` and `up()`; afterwards it is up."""
    if not isinstance(broker, Broker):
        pytest.skip("needs a broker that can be taken down: unset STREAMFL_TEST_BOOTSTRAP")
    yield broker
    broker.up()


def cannot_be_had(error: UsageError) -> NoReturn:
    if os.environ.get("STREAMFL_REQUIRE_BROKER"):
        pytest.fail(f"STREAMFL_REQUIRE_BROKER is set, and there is no broker: {error}")
    pytest.skip(str(error).splitlines()[0])


@pytest.fixture(scope="session")
def stream(broker: Broker | NamedBroker, tmp_path_factory: pytest.TempPathFactory) -> object:
    """The recorded stream, written into the log once, with its end marked."""
    from kafka_stream import Recorded, produce, replayed

    return Recorded(produce(broker.bootstrap, tmp_path_factory.mktemp("stream"), "--end"), replayed())


@pytest.fixture
def small(broker: Broker | NamedBroker) -> object:
    """A small stream, whose topics are there and empty."""
    from small_stream import SmallStream

    stream = SmallStream(broker.bootstrap)
    stream.make_topics()
    return stream


@pytest.fixture
def federate(broker: Broker | NamedBroker, tmp_path: Path) -> Iterator[object]:
    """Make federations over a small stream; their processes end with the test."""
    from kafka_federation import Federation
    from small_stream import SIZE

    made: list[Federation] = []

    def federation(stream: object, *extra: str, **options: object) -> Federation:
        folder = tmp_path / f"federation-{len(made)}"
        told = {"topics": stream.topics, "clients": len(stream.names), "size": SIZE, **options}
        made.append(Federation(broker.bootstrap, folder, extra=extra, **told))
        return made[-1]

    yield federation
    for one in made:
        one.close()
