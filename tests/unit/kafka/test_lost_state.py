"""A coordinator without a state is a new one only where nothing was committed before."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka import errors as kafka_errors
from structlog.testing import capture_logs

from streamfl.errors import UsageError
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import Left, RoundOpened
from streamfl.runtime.log import control
from streamfl.runtime.log.parts import cut
from streamfl.runtime.log.topics import Topics
from streamfl.wire import state_bytes
from streamfl.wire.signing import OPEN
from streamfl_connectors.kafka.coordinator.link import KafkaCoordinatorLink
from streamfl_connectors.kafka.coordinator.state_topic import KEYS
from streamfl_connectors.kafka.settings import KafkaSettings

OPENED = RoundOpened(
    entry=7, round=7, epoch=1, block=1, registry=1, slots=(), serves="m", known_labels=1
)  # of the only commit that there was
LEFT = Left(client="c0", nonce="7f")


class Log:
    """Topics of one partition each: the first offset that is there, the next one, and the messages that count."""

    def __init__(self, **topics: tuple[int, int, list[Any]]) -> None:
        self.topics = {f"f.{name}": told for name, told in topics.items()}
        self.committed: int | None = None
        self.hidden: set[str] = set()

    def told(self, topic: str) -> tuple[int, int, list[Any]]:
        return self.topics.get(topic, (0, 0, []))

    def consumer(self, **_: Any) -> Any:
        at: dict[TopicPartition, int] = {}

        def poll(timeout_ms: int) -> dict[TopicPartition, list[Any]]:
            (partition,) = at
            if partition.topic in self.hidden:
                raise kafka_errors.TopicAuthorizationFailedError(partition.topic)
            begin, at[partition] = at[partition], self.told(partition.topic)[1]
            return {partition: [one for one in self.told(partition.topic)[2] if one.offset >= begin]}

        return SimpleNamespace(
            assign=lambda partitions: at.clear(),
            seek=at.__setitem__,
            position=at.__getitem__,
            poll=poll,
            beginning_offsets=lambda parts: {one: self.told(one.topic)[0] for one in parts},
            end_offsets=lambda parts: {one: self.told(one.topic)[1] for one in parts},
            partitions_for_topic=lambda topic: {0},
            committed=lambda partition: self.committed,
            close=lambda: None,
        )

    def producer(self, **_: Any) -> Any:
        return SimpleNamespace(init_transactions=lambda: None)


def told(*written: Any, at: int = 0) -> list[Any]:
    """Return messages as the control topic holds them."""
    values = [value for message in written for value, _ in control.written(message)]
    return [SimpleNamespace(offset=at + i, key=None, value=value, headers=[]) for i, value in enumerate(values)]


def states(*entries: int) -> list[Any]:
    data = [state_bytes.encode(CoordinatorState(Promotion(), entry=entry)) for entry in entries]
    parts = [part for one in data for part in cut(one, 900_000)]
    key = f"{KEYS[0]}/0".encode()
    return [SimpleNamespace(offset=i, key=key, value=p.value, headers=list(p.headers)) for i, p in enumerate(parts)]


def begun(log: Log) -> KafkaCoordinatorLink:
    settings = KafkaSettings.model_validate({"bootstrap_servers": "127.0.0.1:9"})
    connection = SimpleNamespace(settings=settings, signatures=OPEN, consumer=log.consumer, producer=log.producer)
    link = KafkaCoordinatorLink(connection, Topics("f"), ends=None, wrong=lambda _: None)  # type: ignore[arg-type]
    link.begin()
    return link


FIRST_STARTS = {
    "nothing was written": Log(),
    "a client has left before the federation began": Log(control=(0, 1, told(LEFT))),
    "the first commit was aborted by a kill": Log(control=(0, 9, []), models=(0, 9, []), state=(0, 3, [])),
    "what others wrote into control is old and gone": Log(control=(5, 5, [])),
}

LOST = {
    "control holds the ledger": Log(control=(0, 1, told(OPENED)), models=(0, 9, [])),
    "among other messages": Log(control=(90, 93, told(LEFT, OPENED, LEFT, at=90)), models=(0, 9, [])),
    "the ledger was deleted for its age, and models are there": Log(control=(40, 40, []), models=(0, 9, [])),
}


@pytest.mark.parametrize("log", FIRST_STARTS.values(), ids=FIRST_STARTS.keys())
def test_a_first_start_begins(log: Log) -> None:
    assert begun(log).restore() is None


@pytest.mark.parametrize("log", LOST.values(), ids=LOST.keys())
def test_a_federation_whose_state_is_gone_does_not_begin_again(log: Log) -> None:
    with pytest.raises(UsageError, match=r"f\.state has no state any more, .* restore the topic from a copy"):
        begun(log)


def test_neither_does_one_whose_updates_were_handled() -> None:
    log = Log()
    log.committed = 12
    with pytest.raises(UsageError, match="has no state any more"):
        begun(log)


def test_with_its_state_it_goes_on() -> None:
    log = Log(control=(0, 1, told(OPENED)), models=(0, 9, []), state=(0, 1, states(8)))
    log.committed = 12
    restored = begun(log).restore()
    assert restored is not None
    assert restored.entry == 8


def test_without_the_right_to_read_the_ledger_it_begins_and_says_so() -> None:
    log = Log(control=(0, 1, told(OPENED)))
    log.hidden.add("f.control")
    with capture_logs() as logged:
        assert begun(log).restore() is None
    assert [one["remedy"] for one in logged] == ["grant this log-in READ on f.control"]


def test_a_state_that_goes_while_a_coordinator_runs_is_no_other_coordinator() -> None:
    link = begun(log := Log(state=(0, 1, states(8))))
    log.topics["f.state"] = (0, 0, [])
    with pytest.raises(UsageError, match="has no state any more"):
        link._transactions._renew(b"next")
