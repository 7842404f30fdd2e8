"""What the repartitioner reads, writes and commits, on brokers that are only remembered."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.future import Future

from streamfl.errors import UsageError
from streamfl.records.doubts.doubting import DoubtingOnce, Looks
from streamfl.records.formats import FieldMap, JsonRecords, LabelMap
from streamfl.runtime.log.dead_letters import DeadLetter
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import LabelTopics, Placement, ReadingCounts
from streamfl_connectors.kafka.hosts import repartitioner as module
from streamfl_connectors.kafka.hosts.records import RecordConsumer
from streamfl_connectors.kafka.hosts.repartitioner import Session

READINGS, RESULTS = TopicPartition("readings", 0), TopicPartition("results", 0)
TOPICS = Topics("plant")
FIELDS = FieldMap(task="unlabelled", key="id")
RECORDS, LABELS = TopicPartition(TOPICS.client_records, 0), TopicPartition(TOPICS.client_labels, 0)


@dataclass
class Message:
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list
    timestamp: int


@dataclass
class Brokers:
    """Partitions, and what is committed; they are the clock, too, and the makers of clients."""

    logs: dict = field(default_factory=lambda: {one: [] for one in (READINGS, RESULTS, RECORDS, LABELS)})
    begins: dict = field(default_factory=lambda: defaultdict(int))
    open: dict = field(default_factory=lambda: defaultdict(int))  # messages at the end, of an open transaction
    committed: dict = field(default_factory=dict)
    commits: list = field(default_factory=list)
    largest: int = 1_048_588
    counts: ReadingCounts = field(default_factory=ReadingCounts)
    fails: bool = False
    looks: Looks = field(default_factory=lambda: Looks(FIELDS))
    now: float = 1_000_000.0
    settings = SimpleNamespace(transaction_timeout_ms=15_000, bootstrap_servers="b", patience=1.0)

    def add(self, place, key, value, headers=()):
        log = self.logs[place]
        log.append(Message(len(log), key, value, list(headers), int(1000 * self.now)))

    def monotonic(self):
        return self.now

    time = monotonic

    def record_reader(self, group, member=None):
        return Consumer(self)

    def producer(self, **own):
        return Producer(self, own)

    def admin(self):
        topics = {one.topic for one in self.logs}
        told = [{"name": topic, "partitions": [0], "error_code": 0} for topic in topics]
        configs = {topic: {"max.message.bytes": {"value": self.largest}} for topic in topics}
        return SimpleNamespace(
            describe_topics=lambda names: [one for one in told if one["name"] in names],
            describe_configs=lambda resources, **_: {"topic": {one.name: configs[one.name] for one in resources}},
            close=lambda: None,
        )


class Consumer:
    def __init__(self, brokers):
        self.brokers, self.at, self.known, self.paused = brokers, {}, {}, set()

    def assign(self, places):
        self.at |= dict.fromkeys(places, 0)

    def seek(self, place, offset):
        self.at[place] = offset

    def pause(self, *places):
        self.paused |= {*places}

    def resume(self, *places):
        self.paused -= {*places}

    def close(self):
        pass

    def has_passed(self, place, offset):
        return self.position(place) >= offset

    def position(self, place):
        return self.at[place]

    def highwater(self, place):
        return self.known.get(place)

    def beginning_offsets(self, places):
        return {one: self.brokers.begins[one] for one in places}

    def end_offsets(self, places, timeout_ms=None):
        return {one: len(self.brokers.logs[one]) - self.brokers.open[one] for one in places}

    def committed(self, place, metadata=False):
        found = self.brokers.committed.get(place)
        return found if metadata or found is None else found.offset

    def poll(self, timeout_ms):
        found = {}
        for place, at in self.at.items():
            log = self.brokers.logs[place]
            self.known[place] = len(log)
            upto = len(log) - self.brokers.open[place]
            if some := [] if place in self.paused else log[at : min(upto, at + 10)]:
                found[place], self.at[place] = some, some[-1].offset + 1
        return found


class Producer:
    def __init__(self, brokers, config):
        self.brokers, self.config = brokers, {"max_request_size": 1_048_576} | config

    def init_transactions(self):
        pass

    def begin_transaction(self):
        self.sent, self.offsets = [], {}

    def send(self, topic, value, key, headers, partition):
        size = len(value or b"") + len(key) + sum(len(name) + len(one) for name, one in headers)
        assert size <= min(self.config["max_request_size"], self.brokers.largest)
        self.sent.append((TopicPartition(topic, partition), key, value, headers))
        return SimpleNamespace(failed=lambda: False)

    def send_offsets_to_transaction(self, offsets, group):
        self.offsets = offsets

    def commit_transaction(self):
        if self.brokers.fails:
            raise kafka_errors.KafkaTimeoutError
        for place, *message in self.sent:
            self.brokers.add(place, *message)
        self.brokers.commits.append([len(value or b"") for _, _, value, _ in self.sent])
        self.brokers.committed |= self.offsets

    def close(self, timeout):
        pass


@pytest.fixture
def brokers(monkeypatch):
    brokers = Brokers()
    monkeypatch.setattr(module, "time", brokers)
    return brokers


def session(brokers, letters=None, **placement):
    """Begin to repartition records, keyed by machine, and their labels."""
    labels = LabelTopics(Placement(("results",), "message-key"), JsonRecords(LabelMap(key="id")), 100)
    records = DoubtingOnce(JsonRecords(FIELDS), brokers.looks)
    bury = ([] if letters is None else letters).extend
    placed = Placement(("readings",), "message-key", **placement)
    made = Session(brokers, TOPICS, placed, records, labels, bury, brokers.counts)
    made.begin()
    return made


def steps(session, brokers, seconds=1.0, number=1):
    for _ in range(number):
        brokers.now += seconds
        session.step()


def record(number, padding=0):
    return json.dumps({"id": f"P{number}", "force": 1.0, "note": "x" * padding}).encode()


def label(number):
    return json.dumps({"id": f"P{number}", "label": "ok"}).encode()


def test_records_and_labels_are_written_once(brokers):
    brokers.add(RESULTS, b"P1", label(1))
    for number in range(3):
        brokers.add(READINGS, b"m1", record(number))
    steps(session(brokers), brokers)
    steps(session(brokers), brokers)
    assert [one.value for one in brokers.logs[RECORDS]] == [record(number) for number in range(3)]
    assert [one.value for one in brokers.logs[LABELS]] == [label(1)]


@pytest.mark.parametrize(("largest", "lost"), [(1_048_588, 1), (3_000_000, 0)])
def test_a_message_that_the_topic_does_not_take_is_a_dead_letter_and_those_behind_it_are_written(
    brokers, largest, lost
):
    brokers.largest = largest
    brokers.add(READINGS, b"m1", record(1, padding=1_100_000))
    brokers.add(READINGS, b"m1", record(2))
    letters = []
    steps(session(brokers, letters), brokers)
    assert len(brokers.logs[RECORDS]) == 2 - lost
    assert [dict(one.headers)["code"] for one in letters] == [b"too-large"] * lost


def test_records_are_looked_over_where_they_are_learnt_and_not_before(brokers):
    brokers.add(READINGS, b"m1", record(1))
    steps(session(brokers), brokers)
    assert len(brokers.logs[RECORDS]) == 1
    assert brokers.looks.read == 0


def test_a_dead_letter_is_stored_before_its_message_counts_as_read(brokers):
    brokers.add(READINGS, None, record(1))
    letters = []
    repartitioner = session(brokers, letters)
    brokers.fails = True
    with pytest.raises(kafka_errors.KafkaTimeoutError):
        steps(repartitioner, brokers)
    assert (len(letters), brokers.committed[READINGS].offset, brokers.counts.unrouted) == (1, 0, 0)
    brokers.fails = False
    steps(session(brokers, letters), brokers)
    assert letters[0] == letters[1]
    assert (brokers.committed[READINGS].offset, brokers.counts.unrouted) == (1, 1)


def test_neither_what_waits_nor_a_transaction_has_many_more_bytes_than_it_may(brokers, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 20_000)
    for number in range(100):
        brokers.add(READINGS, b"m1", record(number, padding=2_000))
    repartitioner = session(brokers)
    brokers.add(RESULTS, b"P1", label(1))
    brokers.open[RESULTS] = 1  # holds up the records
    steps(repartitioner, brokers, 1.0, 5)
    assert len(brokers.logs[RECORDS]) == 0
    assert repartitioner._repartitioning.waiting(("readings", 0))[1] < 40_000
    steps(repartitioner, brokers, 10.0, 60)
    assert len(brokers.logs[RECORDS]) == 100
    assert max(sum(sizes) for sizes in brokers.commits) < 25_000


def test_offsets_are_committed_every_hour_even_if_nothing_comes(brokers):
    repartitioner = session(brokers)
    brokers.committed.clear()
    steps(repartitioner, brokers, 60.0, 59)
    assert not brokers.committed
    steps(repartitioner, brokers, 60.0, 2)
    assert brokers.committed.keys() == {READINGS, RESULTS}


def test_without_offsets_nothing_is_written_a_second_time(brokers):
    brokers.add(READINGS, b"m1", record(1))
    steps(session(brokers), brokers)
    brokers.committed.clear()
    with pytest.raises(UsageError, match=r"messages are in plant\.client-records, .* choose another federation name"):
        session(brokers)
    assert len(brokers.logs[RECORDS]) == 1


@pytest.mark.parametrize("metadata", [None, "", "x;", "1;3:a"])
def test_offsets_that_somebody_else_has_set_are_refused(brokers, metadata):
    session(brokers)
    brokers.committed[READINGS] = OffsetAndMetadata(0, metadata, -1)
    with pytest.raises(UsageError, match=r"somebody else has set its offset of readings/0.*choose"):
        session(brokers)


def test_labels_that_are_still_there_are_written_once_if_retention_deletes_one_that_waits(brokers):
    for number in (7, 1, 8, 2):  # 7 and 8 wait for their records
        brokers.add(RESULTS, b"a part", label(number))
    for number in (1, 2):
        brokers.add(READINGS, b"m1", record(number))
    steps(session(brokers), brokers)
    brokers.begins[RESULTS] = 1
    for number in (7, 8):
        brokers.add(READINGS, b"m1", record(number))
    steps(session(brokers, lost="skip"), brokers)
    assert [one.value for one in brokers.logs[LABELS]] == [label(number) for number in (1, 2, 8)]


def test_a_label_waits_while_its_record_is_in_an_open_transaction(brokers):
    brokers.add(READINGS, b"m1", record(1))
    brokers.open[READINGS] = 1
    brokers.add(RESULTS, b"P1", label(1))
    letters = []
    repartitioner = session(brokers, letters)
    steps(repartitioner, brokers, 30.0, 20)
    assert not letters
    brokers.open[READINGS] = 0
    steps(repartitioner, brokers)
    assert [len(brokers.logs[one]) for one in (RECORDS, LABELS)] == [1, 1]


def test_a_label_without_a_record_is_given_up_a_minute_later(brokers):
    brokers.add(RESULTS, b"P1", label(1))
    letters = []
    repartitioner = session(brokers, letters)
    steps(repartitioner, brokers, 10.0, 5)
    assert not letters
    steps(repartitioner, brokers, 10.0, 3)
    assert [one.place for one in letters] == [("results", 0, 0)]


def test_the_host_returns_from_burying_when_letters_are_stored():
    done = []
    records = RecordConsumer.__new__(RecordConsumer)
    records._connection, records._topics, records._counts = Brokers(), TOPICS, ReadingCounts()
    records._letters = SimpleNamespace(
        send=lambda topic, *_, **more: done.append(topic) or Future(), flush=done.append
    )
    records.bury_stored([DeadLetter.of("readings", 0, offset, "no client", None, b"{}") for offset in range(2)])
    assert done == [TOPICS.dead_letters, TOPICS.dead_letters, 1.0]
