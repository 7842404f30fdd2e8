"""The reader of librdkafka when reading fails, on a librdkafka of this file: no record is lost without a report."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st
from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from streamfl_connectors.confluent import reader as module
from streamfl_connectors.confluent.reader import LibrdkafkaReader
from streamfl_connectors.kafka.connection import MAX_FETCHED_OF_PARTITION

A, B, C = PLACES = [TopicPartition("t", i) for i in range(3)]
GOOD, PACKED, CORRUPT = "good", "packed", "corrupt"  # messages; what librdkafka repeats, or passes over


class Event:
    """A message of librdkafka, or what it reports in place of one."""

    def __init__(self, place, offset=-1001, code=None, value=b"v", said=None):
        error = None if code is None else KafkaError(code, said)
        told = {"topic": place[0], "partition": place[1], "offset": offset, "error": error, "value": value}
        for name, what in (told | {"key": None, "headers": None}).items():
            setattr(self, name, lambda what=what: what)


class Librdkafka:
    """What this reader calls of confluent-kafka, on logs in memory of which it fetches five messages at a time."""

    def __init__(self, *_, **__):
        self.logs, self.begins, self.reports = {}, dict.fromkeys(PLACES, 0), []
        self.places, self.stopped, self.committed, self.paused = {}, set(), [], set()
        self.refusing = None  # the error of what is told to pause or close

    def incremental_assign(self, places):
        self.places |= {(one.topic, one.partition): one.offset for one in places}

    def incremental_unassign(self, places):
        for one in places:
            del self.places[one.topic, one.partition]
            self.stopped.discard((one.topic, one.partition))
            self.paused.discard((one.topic, one.partition))

    def seek(self, place):
        if (place.topic, place.partition) in self.stopped:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.places[place.topic, place.partition] = place.offset

    def pause(self, places):
        self.refuse()
        self.paused |= {(one.topic, one.partition) for one in places}

    def resume(self, places):
        self.paused -= {(one.topic, one.partition) for one in places}

    def poll(self, _):
        return None

    def consume(self, *_):
        found, self.reports = self.reports, []
        for place in self.places.keys() - self.stopped - self.paused:
            found += self.fetched(place)
        return found

    def fetched(self, place):
        log = self.logs.get(place, [])
        if not self.begins[place] <= self.places[place] <= len(log):
            self.stopped.add(place)
            return [Event(place, code=KafkaError._AUTO_OFFSET_RESET)]
        events = []
        while len(events) < 5 and (offset := self.places[place]) < len(log):
            if log[offset] == PACKED:
                return [*events, Event(place, offset, KafkaError._BAD_COMPRESSION)]
            bad = KafkaError._BAD_MSG if log[offset] == CORRUPT else None
            events.append(Event(place, offset, bad))
            self.places[place] += 1
        return events

    def commit(self, offsets, asynchronous):
        assert asynchronous
        self.committed.append(offsets)

    def close(self):
        self.refuse()

    def refuse(self):
        if self.refusing is not None:
            raise self.refusing


class Other:
    """What it calls of kafka-python, which fails as often as is asked for."""

    def __init__(self, librdkafka, failures):
        self.librdkafka, self.failures, self.closed = librdkafka, failures, False

    def assign(self, places):
        (self.place,) = places

    def seek(self, place, offset):
        assert place == self.place
        self.offset = offset

    def poll(self, timeout_ms):
        if self.offset < self.librdkafka.begins[self.place]:
            raise kafka_errors.OffsetOutOfRangeError({self.place: self.offset})
        if self.failures:
            raise self.failures.pop()
        return {self.place: [SimpleNamespace(offset=self.offset, value=b"unreadable")]}

    def close(self):
        self.closed = True


def make(logs=None, failures=()):
    """Return a reader of logs from their begin, its librdkafka, and its other consumer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Consumer", Librdkafka)
        reader = LibrdkafkaReader({}, lambda: other)
    librdkafka = reader._consumer
    other = Other(librdkafka, list(failures))
    librdkafka.logs |= logs or {}
    reader.assign([*librdkafka.logs])
    for place in librdkafka.logs:
        reader.seek(place, 0)
    return reader, librdkafka, other


def offsets(polled):
    return {place: [one.offset for one in messages] for place, messages in polled.items()}


FAILURES = st.sampled_from(
    [
        lambda: kafka_errors.KafkaConnectionError("no broker"),
        lambda: KafkaException(KafkaError(KafkaError._TRANSPORT)),
        lambda: RuntimeError("closed"),
    ]
)
LOGS = st.lists(st.sampled_from([GOOD, GOOD, GOOD, PACKED, CORRUPT]), max_size=30)
STEPS = st.lists(
    st.tuples(st.sampled_from(["poll", "pause", "resume", "delete"]), st.sampled_from(PLACES)), max_size=40
)


class Run:
    """Reads as a host does, and notes what it gets and what it is told is lost."""

    def __init__(self, reader, librdkafka):
        self.reader, self.librdkafka = reader, librdkafka
        self.passed = {place: [] for place in PLACES}
        self.raised = 0

    def poll(self):
        try:
            polled = offsets(self.reader.poll(timeout_ms=1))
        except kafka_errors.OffsetOutOfRangeError as error:
            for place, offset in error.args[0].items():
                begin = self.librdkafka.begins[place]
                self.passed[place] += range(offset, begin)  # none if it is a fetch that was repeated
                self.reader.seek(place, max(offset, begin))
            return
        except Exception:
            self.raised += 1
            return
        assert not polled.keys() & self.reader.paused()
        for place, found in polled.items():
            self.passed[place] += found

    def do(self, step, place):
        if step == "poll":
            self.poll()
        elif step == "pause":
            self.reader.pause(place)
            self.poll()  # what arrives of it waits
        elif step == "delete":  # all but the last three
            log = self.librdkafka.logs[place]
            self.librdkafka.begins[place] = max(self.librdkafka.begins[place], len(log) - 3)
        else:
            self.reader.resume(place)


@given(st.tuples(LOGS, LOGS, LOGS), st.lists(FAILURES, max_size=4), STEPS)
def test_every_record_is_returned_once_and_in_order_or_named_as_lost_and_every_failure_is_raised(
    logs, failures, steps
):
    reader, librdkafka, other = make(dict(zip(PLACES, logs, strict=True)), [one() for one in failures])
    run = Run(reader, librdkafka)
    for step, place in steps:
        run.do(step, place)
    reader.resume(*PLACES)
    for _ in range(80):
        run.poll()
    assert run.passed == {place: [*range(len(log))] for place, log in librdkafka.logs.items()}
    assert run.raised == len(failures) - len(other.failures)


def test_messages_next_to_a_batch_that_cannot_be_read_now_are_returned_and_the_batch_is_read_again():
    logs = {A: [GOOD, PACKED, GOOD], B: [GOOD] * 5}
    reader, _, _ = make(logs, [kafka_errors.KafkaConnectionError("the broker restarts")])
    assert offsets(reader.poll(0)) == {A: [0], B: [*range(5)]}
    with pytest.raises(kafka_errors.KafkaConnectionError, match="the broker restarts"):
        reader.poll(0)
    assert offsets(reader.poll(0)) == {A: [1]}
    assert offsets(reader.poll(0)) == {A: [2]}


def test_a_position_that_the_log_does_not_hold_is_raised_after_the_messages_before_it_and_until_another_is_sought():
    reader, librdkafka, _ = make({A: [GOOD] * 20})
    assert offsets(reader.poll(0)) == {A: [*range(5)]}
    reader.pause(A)
    assert reader.poll(0) == {}  # five more have arrived
    librdkafka.begins[A] = 15
    assert [reader.poll(0) for _ in range(3)] == [{}] * 3
    reader.resume(A)
    assert offsets(reader.poll(0)) == {A: [*range(5, 10)]}
    for _ in range(3):
        with pytest.raises(kafka_errors.OffsetOutOfRangeError) as raised:
            reader.poll(0)
        assert raised.value.args[0] == {A: 10}
    reader.seek(A, 15)
    assert offsets(reader.poll(0)) == {A: [*range(15, 20)]}


def test_all_positions_that_their_logs_do_not_hold_are_one_error_and_none_once_others_are_sought():
    reader, librdkafka, _ = make({A: [GOOD] * 5, B: [GOOD] * 5, C: [GOOD] * 5})
    librdkafka.begins |= {A: 3, B: 4}
    with pytest.raises(kafka_errors.OffsetOutOfRangeError) as raised:
        reader.poll(0)
    assert raised.value.args[0] == {A: 0, B: 0}
    reader.seek(A, 3)
    reader.seek(B, 4)
    assert offsets(reader.poll(0)) == {A: [3, 4], B: [4], C: [*range(5)]}


def test_a_failure_behind_messages_that_wait_is_forgotten_with_them_when_another_position_is_sought():
    reader, librdkafka, _ = make({A: [GOOD] * 10})
    assert offsets(reader.poll(0)) == {A: [*range(5)]}
    reader.pause(A)
    librdkafka.reports = [Event(A, i) for i in range(5, 8)] + [Event(A, code=KafkaError._AUTO_OFFSET_RESET)]
    librdkafka.stopped = {A}
    assert reader.poll(0) == {}
    reader.seek(A, 2)
    reader.resume(A)
    assert offsets(reader.poll(0)) == {A: [*range(2, 7)]}


def test_errors_of_different_kinds_are_raised_one_after_another_and_each_kind_once():
    reader, librdkafka, _ = make({A: [GOOD]})
    codes = [KafkaError._TRANSPORT, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._TRANSPORT]
    librdkafka.reports = [Event(C, code=code) for code in [*codes, KafkaError._MAX_POLL_EXCEEDED]]
    raised = set()
    for _ in range(2):
        with pytest.raises(kafka_errors.KafkaError) as error:
            reader.poll(0)
        raised.add(type(error.value))
    assert raised == {kafka_errors.KafkaConnectionError, kafka_errors.TopicAuthorizationFailedError}
    assert offsets(reader.poll(0)) == {A: [0]}


def test_nothing_is_lost_when_librdkafka_does_not_pause_a_full_partition():
    reader, librdkafka, _ = make({A: [], B: [GOOD] * 5})
    assert offsets(reader.poll(0)) == {B: [*range(5)]}
    reader.pause(A)
    librdkafka.reports = [Event(A, 0, value=bytes(MAX_FETCHED_OF_PARTITION + 1)), Event(A, 1), Event(B, 5)]
    librdkafka.refusing = KafkaException(KafkaError(KafkaError._STATE))
    with pytest.raises(kafka_errors.KafkaError):
        reader.poll(0)
    librdkafka.refusing = None
    assert offsets(reader.poll(0)) == {B: [5]}
    assert librdkafka.paused == {A}
    reader.resume(A)
    assert librdkafka.paused == set()
    assert offsets(reader.poll(0)) == {A: [0, 1]}


def test_a_commit_that_failed_is_raised_once_by_the_next_whatever_succeeded_since():
    reader, librdkafka, _ = make({A: []})
    offset = {A: OffsetAndMetadata(1, "", -1)}
    reader._note_commit(KafkaError(KafkaError.FENCED_INSTANCE_ID), [])
    reader._note_commit(None, [])
    with pytest.raises(kafka_errors.FencedInstanceIdError):
        reader.commit(offset, timeout_ms=1)
    reader.commit(offset, timeout_ms=1)
    assert len(librdkafka.committed) == 2


def test_a_commit_that_failed_for_one_of_several_partitions_is_raised_by_the_next():
    reader, _, _ = make({A: []})
    denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    reader._note_commit(None, [SimpleNamespace(error=None), SimpleNamespace(error=denied)])
    with pytest.raises(kafka_errors.TopicAuthorizationFailedError):
        reader.commit({A: OffsetAndMetadata(1, "", -1)}, timeout_ms=1)
    reader.commit({A: OffsetAndMetadata(1, "", -1)}, timeout_ms=1)


def test_the_other_consumer_is_closed_even_if_librdkafka_is_not():
    reader, librdkafka, other = make({A: [PACKED]})
    reader.poll(0)
    librdkafka.refusing = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    with pytest.raises(kafka_errors.KafkaConnectionError):
        reader.close()
    assert other.closed
