"""Features and labels in two partitions of a log: in which order they are given, with which answers, from where."""

from dataclasses import replace

import numpy as np
import pytest

from streamfl.errors import UsageError
from streamfl.protocol.decisions import Answered
from streamfl.protocol.delayed import Answers, Half
from streamfl.protocol.records import Rejection
from streamfl.runtime.log import predictions
from streamfl.runtime.log.delayed import LogHalves
from streamfl.runtime.log.partition import NOWHERE, PartitionReader
from streamfl.runtime.log.recorded import Recorded
from streamfl.runtime.ports import ClientProgress, Decoded


def decoded(kind, start, end, bad=()):
    """Return the messages [start, end) of a partition, whose keys are their offsets."""
    good = np.array([i for i in range(start, end) if i not in bad], np.int64)
    return Decoded(
        positions=good,
        features=("x",) if kind == "features" else (),
        X=good.reshape(-1, 1).astype(float) if kind == "features" else np.zeros((len(good), 0)),
        y=np.zeros(len(good)),
        labels=("a",) if kind == "labels" else (),
        clients=(),
        rejected=tuple(Rejection(i, "bad") for i in bad if start <= i < end),
        rejected_clients=(),
        times=np.zeros(0),
        half=Half(kind, np.array([str(i) for i in good.tolist()], dtype=object)),
    )


class Log:
    """Two partitions of one client, read by hand."""

    def __init__(self, window=10):
        self.readers = {
            kind: PartitionReader(f"{kind}/0", 0, 100, lambda positions: None, "c", wait=kind == "features")
            for kind in ("features", "labels")
        }
        sources = [reader.clients["c"] for reader in self.readers.values()]
        self.halves = LogHalves("c", *sources, Recorded(), window)

    def read(self, kind, end, bad=()):
        reader = self.readers[kind]
        reader.head = reader.wanted()
        reader.take(end, decoded(kind, reader.head, end, bad))

    def given(self, labels=100, features=100):
        halves = self.halves.poll_halves(labels, features)
        return [(half.span.partition, half.span.start, half.span.end, half.answers is not None) for half in halves]


def test_features_come_before_labels_each_within_its_bound():
    log = Log()
    log.halves.restore(0, NOWHERE)
    log.read("features", 6, bad=(2,))
    log.read("labels", 4)
    assert log.given(labels=3, features=4) == [("features/0", 0, 4, False), ("labels/0", 0, 3, False)]
    assert log.given() == [("features/0", 4, 6, False), ("labels/0", 3, 4, False)]


def test_features_wait_until_it_is_known_what_was_answered_to_them():
    log = Log()
    log.read("features", 6)
    log.read("labels", 1)
    assert log.given() == [("labels/0", 0, 1, False)]
    assert log.halves.lacks_answers
    log.halves.recorded.add(1, "a", None)
    log.halves.recorded.add(2, None, "a")
    log.halves.restore(0, 4)
    assert log.given() == [("features/0", 0, 1, False), ("features/0", 1, 3, True), ("features/0", 3, 4, False)]
    assert log.halves.lacks_answers  # from 4 on
    assert log.given() == []
    log.halves.restore(4, NOWHERE)
    assert log.given() == [("features/0", 4, 6, False)]


def test_answered_features_come_alone_as_the_next_may_have_to_wait_for_models():
    log = Log()
    for position in (0, 1, 4):
        log.halves.recorded.add(position, "a", "a")
    log.halves.restore(0, NOWHERE)
    log.read("features", 6)
    assert log.given() == [("features/0", 0, 2, True)]
    assert log.given() == [("features/0", 2, 4, False), ("features/0", 4, 5, True), ("features/0", 5, 6, False)]


def test_features_that_the_log_has_deleted_are_passed_by_and_labels_only_before_what_is_needed():
    log = Log()
    log.halves.restore(0, NOWHERE)
    log.halves.seek({"features/0": 10, "labels/0": 10}, {"labels/0": 20})
    for reader in log.readers.values():
        reader.check_sought(begin=15, end=40, stride=1)
    assert [reader.wanted() for reader in log.readers.values()] == [15, 15]
    log.read("features", 17)
    assert log.given() == [("features/0", 10, 17, False)]  # the gap held none
    log.halves.seek({"labels/0": 10}, {"labels/0": 12})
    log.readers["labels"].check_sought(begin=15, end=40, stride=1)
    assert log.readers["labels"].wanted() == 12  # which is lost: the reader of the log says so


def test_a_position_beyond_the_end_of_the_log_fails_the_client():
    log = Log()
    log.halves.restore(0, NOWHERE)
    log.halves.seek({"features/0": 50, "labels/0": 10}, {})
    log.readers["features"].check_sought(begin=0, end=40, stride=1)
    with pytest.raises(UsageError, match="the topic is not the one that was read before"):
        log.given()


def test_the_stream_has_ended_when_both_have():
    log = Log()
    log.halves.restore(0, NOWHERE)
    log.read("features", 2)
    log.readers["features"].ends_at(2)
    assert (log.halves.features_ended, log.halves.ended) == (False, False)
    log.given()
    assert (log.halves.features_ended, log.halves.ended) == (True, False)
    log.read("labels", 1)
    log.readers["labels"].ends_at(1)
    log.given()
    assert log.halves.ended


def test_features_are_next_once_all_labels_that_were_written_are_taken():
    log = Log()
    log.halves.restore(0, NOWHERE)
    log.read("features", 6)
    log.given(features=4)
    assert not log.halves.features_next  # labels may have been written that were not read
    log.read("labels", 2)
    log.halves.labels.at_end = True
    assert not log.halves.features_next
    log.given(features=0)
    assert log.halves.features_next
    log.halves.seek({"labels/0": 0})
    assert not log.halves.features_next


def test_features_are_settled_only_as_far_as_none_waits():
    log = Log()
    log.halves.restore(0, NOWHERE)
    log.read("features", 6)
    log.given()
    progress = {"c": ClientProgress({"features/0": 3, "labels/0": 2}, pending=0)}
    assert log.readers["features"].settled(progress) == 3
    assert log.readers["features"].settled({}) == 0


def answered(log, *, labels=("a", "b"), P=((0.25, 0.75), (1.0, 0.0)), served=(1.0, 0.0), known=(-1.0, 1.0)):
    log.halves.restore(0, NOWHERE)
    log.read("features", 2)
    log.halves.arrived({0: b"key", 1: None})
    (batch,) = log.halves.poll_halves(0, 2)
    answers = Answers(np.array(served), np.array(known), labels)
    return Answered("c", replace(batch, answers=answers), np.array(P).reshape(2, -1), labels)


def test_an_answer_says_what_and_by_whom_and_is_read_back_as_it_was_given():
    log = Log()
    given = answered(log)
    messages = [*predictions.answers_of(given, log.halves.take(given.batch), targets=False, probabilities=True)]
    assert [message.key for message in messages] == [b"key", b"1"]
    assert messages[0].value == (
        b'{"key":"key","prediction":"b","round":0,"epoch":0,"entry":0,"topic":"features","partition":0,"offset":0,'
        b'"probabilities":{"a":0.25,"b":0.75},"client":"c","known":null}'
    )
    again = Recorded()
    for message in messages:
        told = predictions.read(message.value)
        assert told is not None
        assert predictions.is_usable(told, targets=False)
        again.add(told.offset, told.prediction, told.known)
    assert again._by_position == log.halves.recorded._by_position == {0: ("b", None), 1: ("a", "b")}
    log.halves.forget(1)
    assert log.halves.recorded._by_position == {1: ("a", "b")}
    assert log.halves._keys == {}


def test_an_answer_before_there_are_models_is_null():
    log = Log()
    given = answered(log, labels=(), P=((), ()), served=(-1.0, -1.0), known=(-1.0, -1.0))
    (value, _) = [one.value for one in predictions.answers_of(given, [None, None], targets=False, probabilities=True)]
    assert b'"prediction":null' in value
    assert b"probabilities" not in value


@pytest.mark.parametrize(
    ("prediction", "targets"),
    [("a", True), (1.5, False), ("x" * 300, False), ("", False), (1e31, True), (float("inf"), True)],
)
def test_an_answer_that_none_can_have_given_is_unusable(prediction, targets):
    good = predictions.Prediction("k", None, 1, 1, 0, "t", 0, 3, client="c", known=None)
    assert predictions.is_usable(good, targets=targets)
    for bad in ({"prediction": prediction}, {"known": prediction}, {"row": 1}):
        fields = {name: getattr(good, name) for name in good.__struct_fields__}
        assert not predictions.is_usable(predictions.Prediction(**(fields | bad)), targets=targets)


@pytest.mark.parametrize("value", [None, b"", b"{", b"[1]", b'{"key":1}', b"\xff", b"[" * 100_000, b" " * 300_000])
def test_a_message_that_is_no_answer_is_ignored(value):
    assert predictions.read(value) is None
