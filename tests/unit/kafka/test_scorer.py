"""How a scorer reads: without a broker."""

from types import SimpleNamespace

import numpy as np
import pytest
from kafka import TopicPartition, errors
from kafka.structs import MemberState

from streamfl.records.formats import FieldMap, JsonRecords, Packed
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import RecordAnswer, Unlabelled
from streamfl_connectors.kafka.hosts import scorer
from streamfl_connectors.kafka.settings import KafkaSettings


@pytest.mark.parametrize(
    ("form", "polled"), [(JsonRecords(FieldMap(task="unlabelled")), 500), (Packed("unlabelled"), 1)]
)
def test_a_poll_has_many_messages_of_one_record_or_one_message_of_many(form, polled, monkeypatch):
    made = {}
    monkeypatch.setattr(scorer, "Listener", lambda *_, **__: None)
    connection = SimpleNamespace(
        settings=KafkaSettings(bootstrap_servers="127.0.0.1:1"),
        consumer=lambda **own: made.update(own) or SimpleNamespace(subscribe=lambda topics: None),
        producer=lambda **own: None,
    )
    scorer.KafkaScorer(connection, Topics("f"), "s", Unlabelled(("u",)), form)
    assert made["max_poll_records"] == polled


class Group:
    """A consumer of one partition, which the group may take away after a poll, or whose poll fails."""

    def __init__(self, values):
        self.log = [SimpleNamespace(offset=i, key=b"k", value=value, headers=[]) for i, value in enumerate(values)]
        self.at, self.polls, self.generation, self.done = 0, 0, 1, 0
        self.after = {}  # what happens in a poll, by its number
        self._coordinator = SimpleNamespace(_heartbeat_enabled=True)

    def subscribe(self, topics):
        pass

    def assignment(self):
        return {AT}

    def group_metadata(self):
        return SimpleNamespace(state=MemberState.STABLE, generation_id=self.generation)

    def beginning_offsets(self, partitions):
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions):
        return dict.fromkeys(partitions, len(self.log))

    def committed(self, partition):
        return self.done

    def commit(self, offsets, timeout_ms):
        ((_, found),) = offsets.items()
        self.done = found.offset

    def seek(self, partition, offset):
        self.at = offset

    def poll(self, timeout_ms):
        self.polls += 1
        self.after.pop(self.polls, lambda: None)()
        found, self.at = self.log[self.at : self.at + 1], self.at + 1
        return {AT: found} if found else {}


AT = TopicPartition("u", 0)
WIDE = tuple(f"f{i}" for i in range(100))


def message(records, features=("x",)):
    X = np.zeros((records, len(features)))
    return Packed("unlabelled").encode(features, X, np.zeros(records), ())


def reading(values, monkeypatch):
    """Return a scorer of packed messages, and its consumer."""
    monkeypatch.setattr(scorer, "Listener", lambda *_, **__: None)
    group = Group(values)
    producer = SimpleNamespace(flush=lambda: None, send=lambda *_, **__: SimpleNamespace(add_errback=lambda _: None))
    connection = SimpleNamespace(
        settings=KafkaSettings(bootstrap_servers="127.0.0.1:1"),
        consumer=lambda **own: group,
        producer=lambda **own: producer,
    )
    return scorer.KafkaScorer(connection, Topics("f"), "s", Unlabelled(("u",)), Packed("unlabelled")), group


def blocks(asked):
    """Return the offsets of each block."""
    return [list(one.keys) for one in asked]


def test_packed_messages_are_read_together_up_to_a_number_of_records(monkeypatch):
    node, group = reading([message(n) for n in (1500, 499, 1, 700, 65_536, 1, 2000, 1)], monkeypatch)
    found = []
    while asked := node.read():
        found.append(blocks(asked))
        node.answer([])
        assert group.done == asked[-1].records.positions[-1] // 65_536 + 1
    assert found == [[[0, 1, 2]], [[3], [4]], [[5], [6]], [[7]]]


def test_a_large_message_does_not_get_the_columns_of_others(monkeypatch):
    node, _ = reading([message(1, WIDE), message(65_536, ())], monkeypatch)
    assert [one.records.X.shape for one in node.read()] == [(1, 100), (65_536, 0)]


@pytest.mark.parametrize(
    ("value", "together"),
    [(message(0), 2000), (b"no", 2000), (None, 2000), (message(2, ("x" * 80_000,)), 2000 // 9)],
    ids=["without records", "unreadable", "empty", "large"],
)
def test_a_message_that_holds_nothing_or_much_counts_too(value, together, monkeypatch):
    node, group = reading([value] * 2100, monkeypatch)
    node.read()
    assert group.polls - (group.polls > together) == together


def _moved(group):
    group.generation += 1


def _fails(group):
    raise errors.OffsetOutOfRangeError({AT: 2})


@pytest.mark.parametrize("happens", [_moved, _fails], ids=["the group changes", "a poll fails"])
def test_what_was_polled_is_read_again_if_it_may_be_answered_elsewhere(happens, monkeypatch):
    node, group = reading([message(1)] * 5, monkeypatch)
    group.after[3] = lambda: happens(group)
    assert node.read() == []
    node.answer([])
    assert group.done == 0
    group.done = 1  # another scorer has answered the first
    assert blocks(node.read()) == [[1, 2, 3, 4]]
    assert node.counts.lost == 0


def test_a_scorer_whose_clock_was_ahead_for_a_moment_answers_the_same_records_through_a_new_producer(monkeypatch):
    node, group = reading([message(1)] * 3, monkeypatch)
    made = []

    def producer(**own):
        refuses = not made
        made.append(own)
        future = SimpleNamespace(
            add_errback=lambda note: note(errors.InvalidTimestampError("too far ahead")) if refuses else None
        )
        return SimpleNamespace(flush=lambda: None, send=lambda *_, **__: future, close=lambda timeout: None)

    node._connection.producer, node._producer = producer, producer()
    assert blocks(node.read()) == [[0, 1, 2]]
    node.answer([RecordAnswer(b"k", b"{}")])
    assert (group.done, node.counts.again, node.counts.answered) == (0, 1, 0)
    assert blocks(node.read()) == [[0, 1, 2]]
    node.answer([RecordAnswer(b"k", b"{}")])
    assert (group.done, node.counts.answered, len(made)) == (3, 1, 2)
