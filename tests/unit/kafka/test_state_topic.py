"""The state that is read back from `.state`: the newest that is sound, whatever lies around it."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kafka import TopicPartition

from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import Join
from streamfl.protocol.moments import Moments
from streamfl.runtime.log.parts import Headers, cut
from streamfl.wire import state_bytes
from streamfl.wire.primitives import deflated, sized
from streamfl_connectors.kafka.coordinator.state_topic import KEYS, last_state

SIZE = 200
TOPIC = "f.state"


@dataclass
class Topic:
    """A partition, and a consumer of it."""

    log: list[Any] = field(default_factory=list)
    at: int = 0
    next: int = 0

    def write(self, key: str, value: bytes, headers: Headers = ()) -> None:
        self.log.append(SimpleNamespace(key=key.encode(), value=value, headers=list(headers), offset=self.next))
        self.next += 1

    def save(self, key: str, data: bytes) -> None:
        for part in cut(data, SIZE):
            self.write(f"{key}/{part.number}", part.value, part.headers)

    def compact(self) -> None:
        newest = {message.key: message for message in self.log}
        self.log = [message for message in self.log if newest[message.key] is message]

    def assign(self, _: object) -> None: ...

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.next)

    def seek(self, _: TopicPartition, offset: int) -> None:
        self.at = offset

    def position(self, _: TopicPartition) -> int:
        return self.at

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        found = [message for message in self.log if message.offset >= self.at]
        self.at = self.next
        return {TopicPartition(TOPIC, 0): found}


def state(entry: int, **spoilt: Any) -> bytes:
    moments = Moments.of(("x",), np.array([[1.0], [2.0], [6.0]]))
    join = Join(client="c0", nonce="1", moments=moments, labels=("a", "b"), records=3)
    agreed = Agreement.of([join], scaling=True)
    told: dict[str, Any] = {"agreement": agreed, "members": {"c0": Member(1)}, "round": entry, "known_labels": 2}
    return state_bytes.encode(CoordinatorState(Promotion(), entry=entry, **(told | spoilt)))


def of_text(text: bytes) -> bytes:
    """Return a state of this JSON, without arrays."""
    return state_bytes.MAGIC + sized(deflated(text))


def found(topic: Topic) -> tuple[bytes | None, int]:
    last = last_state(topic, TOPIC, 10**6)  # type: ignore[arg-type]
    return last.data, last.skipped


@pytest.fixture
def topic() -> Topic:
    """A topic of five states, some parts each, that has been compacted."""
    topic = Topic()
    for entry in range(1, 6):
        topic.save(KEYS[entry % 2], state(entry))
    topic.compact()
    assert {message.key.partition(b"/")[0].decode() for message in topic.log} == set(KEYS)
    assert len(topic.log) >= 4
    return topic


def test_the_newest_state_is_found(topic: Topic) -> None:
    assert found(topic) == (state(5), 0)


def test_a_topic_that_was_compacted_still_has_a_state_to_fall_back_on(topic: Topic) -> None:
    topic.write(f"{KEYS[1]}/0", b"no state")
    topic.compact()
    assert found(topic) == (state(4), 1)


def test_what_lies_between_the_parts_of_a_state_does_no_harm(topic: Topic) -> None:
    parts = cut(state(6), SIZE)
    assert len(parts) > 1
    for part in parts:
        topic.write(f"{KEYS[0]}/{part.number}", part.value, part.headers)
        junk = cut(b"{" * 1000, SIZE)[0]
        topic.write("other", junk.value, junk.headers)
    assert found(topic) == (state(6), 0)


@pytest.mark.parametrize(
    "forged",
    [
        of_text(b'{"profile":{},"entry":3}'),
        of_text(b'{"profile":{},"members":{"c0":{"incarnation":"1"}}}'),
        b'{"profile":{},"entry":3}',
        state(6, members={}),
        state(6, round=7),
        state(6, round=0),
        state(6, restarted=7),
        state(6, known_labels=3),
        state(6, refused=-1),
        state(6, members={"c0": Member(1, positions={"c0/0": -1})}),
    ],
)
def test_an_impossible_state_is_skipped(forged: bytes, topic: Topic) -> None:
    topic.save(KEYS[0], forged)
    assert found(topic) == (state(5), 1)


def test_the_state_of_a_federation_that_only_refused_so_far_is_found() -> None:
    topic = Topic()
    before = state_bytes.encode(CoordinatorState(Promotion(), refused=3))
    topic.save(KEYS[0], before)
    assert found(topic) == (before, 0)
