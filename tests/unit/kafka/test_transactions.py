"""A coordinator's transaction: the state, the offsets of what was handled, and once, whatever the broker answers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kafka import TopicPartition
from kafka.errors import InvalidProducerEpochError, KafkaError, KafkaTimeoutError, ProducerFencedError

from streamfl.errors import PeerError, TakenOverError
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import ModelPublished
from streamfl.runtime.log.topics import Topics
from streamfl.wire import state_bytes
from streamfl.wire.signing import OPEN
from streamfl_connectors.kafka.coordinator import transactions
from streamfl_connectors.kafka.coordinator.link import KafkaCoordinatorLink
from streamfl_connectors.kafka.coordinator.state_topic import KEYS
from streamfl_connectors.kafka.settings import KafkaSettings

UPDATES = TopicPartition("f.updates", 0)


class Log:
    """What a producer commits that fails `fails` times: before the commit, or after it (`answer_is_lost`)."""

    def __init__(
        self, fails: int = 0, *, answer_is_lost: bool = False, error: type[KafkaError] = KafkaTimeoutError
    ) -> None:
        self.fails, self.answer_is_lost, self.error = fails, answer_is_lost, error
        self.seconds = 0.0  # how long a commit takes
        self.now = 100.0
        self.states: list[tuple[bytes, bytes]] = []
        self.offsets: dict[TopicPartition, int] = {}
        self.open: list[tuple[bytes, bytes]] = []
        self.moved: dict[TopicPartition, int] = {}

    def begin_transaction(self) -> None:
        self.open, self.moved = [], {}

    def init_transactions(self) -> None: ...

    def send(self, topic: str, value: bytes, *, key: bytes, **_: Any) -> Any:
        self.open.append((key, value))
        return SimpleNamespace(failed=lambda: False)

    def send_offsets_to_transaction(self, offsets: dict[TopicPartition, Any], _: object) -> None:
        self.moved = {partition: told.offset for partition, told in offsets.items()}

    def commit_transaction(self) -> None:
        fails, self.fails = self.fails > 0, self.fails - 1
        self.now += self.seconds
        if not fails or self.answer_is_lost:
            self.states += self.open
            self.offsets |= self.moved
        if fails:
            raise self.error


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes a link that has begun, and writes to a log."""

    def make(log: Log) -> KafkaCoordinatorLink:
        settings = KafkaSettings.model_validate({"bootstrap_servers": "127.0.0.1:9", "patience": 5})
        consumer = SimpleNamespace(group_metadata=lambda: None, close=lambda: None)
        connection = SimpleNamespace(
            settings=settings, signatures=OPEN, consumer=lambda **_: consumer, producer=lambda **_: log
        )
        link = KafkaCoordinatorLink(connection, Topics("f"), ends=None)  # type: ignore[arg-type]
        monkeypatch.setattr(
            link._states, "last", lambda _: SimpleNamespace(data=log.states[-1][1] if log.states else None)
        )
        return link

    monkeypatch.setattr(transactions, "let_go", lambda *_: None)
    monkeypatch.setattr(transactions, "PAUSE", 0.0)
    return make


def state(entry: int) -> CoordinatorState:
    return CoordinatorState(Promotion(), entry=entry)


def test_a_commit_moves_the_offsets_past_what_was_handled(begun: Any) -> None:
    link = begun(log := Log())
    link._incoming._handled[UPDATES] = 12
    link.commit([], state(1))
    assert log.offsets == {UPDATES: 12}


def test_two_states_in_turn_are_under_two_keys_so_that_compaction_leaves_the_one_before(begun: Any) -> None:
    link = begun(log := Log())
    for entry in (1, 2, 3):
        link.commit([], state(entry))
    keys = [key.decode().partition("/")[0] for key, _ in log.states]
    assert keys == [KEYS[0], KEYS[1], KEYS[0]]


@pytest.mark.parametrize("answer_is_lost", [False, True], ids=["not committed", "committed, and the answer is lost"])
def test_a_transaction_that_failed_is_in_the_log_once(answer_is_lost: bool, begun: Any) -> None:
    link = begun(log := Log(1, answer_is_lost=answer_is_lost))
    link.commit([], state(1))
    assert [value for _, value in log.states] == [state_bytes.encode(state(1))]
    link.commit([], state(2))
    assert len(log.states) == 2


def test_models_that_are_asked_for_again_are_in_the_log_again_though_not_at_once(
    begun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(transactions, "time", SimpleNamespace(monotonic=lambda: now[0]))
    link, model = begun(log := Log()), ModelPublished(slot="s", version=3, registry=1, weights=np.ones((2, 2)))
    written = []
    for now[0] in (100.0, 101.0, 129.0, 131.0, 132.0):
        link.publish([model])
        written.append(len(log.states))
    assert written == [1, 1, 1, 2, 2]
    link.publish([ModelPublished(slot="s", version=4, registry=1, weights=np.ones((2, 2)))])
    assert len(log.states) == 3


@pytest.fixture
def timed(begun: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes a link that begins to write at 100 s to a log whose commits take so many seconds."""

    def make(log: Log, seconds: float) -> KafkaCoordinatorLink:
        log.seconds = seconds
        clock = SimpleNamespace(monotonic=lambda: log.now, sleep=lambda pause: setattr(log, "now", log.now + pause))
        monkeypatch.setattr(transactions, "time", clock)
        return begun(log)

    return make


@pytest.mark.parametrize("error", [ProducerFencedError, InvalidProducerEpochError])
class TestAFencedTransaction:
    def test_that_is_younger_than_its_timeout_was_fenced_by_another_coordinator(self, error, timed):
        link = timed(Log(1, error=error), 14.0)
        with pytest.raises(TakenOverError):
            link.commit([], state(1))

    @pytest.mark.parametrize("answer_is_lost", [False, True])
    def test_that_is_older_was_ended_by_the_brokers_and_is_in_the_log_once(self, answer_is_lost, error, timed):
        link = timed(log := Log(1, error=error, answer_is_lost=answer_is_lost), 16.0)
        link.commit([], state(1))
        assert [value for _, value in log.states] == [state_bytes.encode(state(1))]

    def test_that_is_older_is_not_repeated_after_a_commit_of_another_coordinator(self, error, timed):
        link = timed(log := Log(1, error=error), 16.0)
        log.states.append((b"", state_bytes.encode(state(7))))
        with pytest.raises(TakenOverError):
            link.commit([], state(1))
        assert len(log.states) == 1


def test_the_brokers_may_be_away_for_patience_after_the_first_failure(timed):
    link = timed(log := Log(2), 4.0)  # fails at 4 and at 8.1 s; patience is 5 s
    link.commit([], state(1))
    assert len(log.states) == 1
    log.fails = 3  # fails at 4, 8.1 and 12.2 s
    with pytest.raises(PeerError):
        link.commit([], state(2))
