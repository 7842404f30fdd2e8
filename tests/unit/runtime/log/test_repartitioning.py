"""Records and labels in any partitions become one order, by client; no kill loses or doubles any of them."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache

import hypothesis.strategies as st
import pytest
from hypothesis import given

from streamfl.protocol.reasons import ReasonCode, code_of
from streamfl.records.formats import FieldMap, JsonRecords, LabelMap
from streamfl.runtime.log.repartitioning.ids import Ids, partition_of_client
from streamfl.runtime.log.repartitioning.order import (
    GRACE,
    MOST_HELD,
    NO_RECORD,
    SILENT,
    Kind,
    Repartitioned,
    Repartitioning,
)
from streamfl.runtime.log.repartitioning.progress import PartitionProgress
from streamfl.runtime.log.repartitioning.whose import MARK, Whose, whose_by_field, whose_by_key, whose_labels

WRITTEN = 3
RECORDS = JsonRecords(FieldMap(label="quality", key="part", client="machine.id", task="unlabelled"))
KEYED = JsonRecords(FieldMap(label="quality", key="part", task="unlabelled"))
LABELS = JsonRecords(LabelMap(label="quality", key="part"))


@dataclass(frozen=True)
class Message:
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 0


@dataclass
class Log:
    """Partitions of records and labels, what was repartitioned from them, and how far that is committed."""

    source: dict[tuple[str, int], list[Message]] = field(default_factory=dict)
    written: list[Repartitioned] = field(default_factory=list)
    committed: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)

    def add(self, place: tuple[str, int], key: str, value: object, time: int) -> None:
        messages = self.source.setdefault(place, [])
        messages.append(Message(len(messages), key.encode(), json.dumps(value).encode(), time))

    def end(self) -> None:
        for messages in self.source.values():
            messages.append(Message(len(messages), None, None, 0))

    def begun(self, now: int = 0, window: int = 100) -> Repartitioning:
        """Begin as after a kill: with what is committed."""
        ids = Ids(WRITTEN, window)
        for one in self.written:
            if one.kind == "records" and one.id:
                ids.add(one.id, one.client)
        repartitioning = Repartitioning(ids)
        for place in self.source:
            repartitioning.begin(
                place, kind_of(place), PartitionProgress.of(*self.committed.get(place, (0, ""))), now
            )
        return repartitioning

    def read(self, repartitioning: Repartitioning, most: int = 1000, now: int = 0) -> None:
        """Read some more messages of each partition."""
        for place, messages in self.source.items():
            at = repartitioning.next(place)
            some = messages[at : at + most]
            repartitioning.arrived(place, some, [said(place[0], one) for one in some], now)
            repartitioning.note_end(place, at_end=at + len(some) == len(messages))
            if at + len(some) == len(messages):
                repartitioning.note_passed(place, now)

    def commit(self, repartitioning: Repartitioning, taken: list[Repartitioned]) -> None:
        """Write, and how far was read, in one transaction."""
        self.written += taken
        self.committed = {place: (done.offset, done.metadata) for place, done in repartitioning.progress.items()}

    def of(self, kind: Kind) -> dict[str, list[str]]:
        """Return the ids that were written of each client, in order."""
        found = defaultdict(list)
        for one in self.written:
            if one.kind == kind and one.client:
                found[one.client].append(one.id)
        return found


def kind_of(place: tuple[str, int]) -> Kind:
    return "records" if place[0] == "readings" else "labels"


@cache
def said(topic: str, message: Message) -> Whose:
    if message.value is None:
        return MARK
    (found,) = whose_by_field([message], RECORDS) if topic == "readings" else whose_labels([message], LABELS)
    return found


def reading(part: str, machine: str) -> dict[str, object]:
    return {"part": part, "machine": {"id": machine}, "force": 1.5}


def plant(parts: int = 30, later: int = 5, of_records: int = 4, of_labels: int = 3) -> Log:
    """Return a plant of seven machines with a part each second, whose labels come seconds later."""
    log = Log({("readings", n): [] for n in range(of_records)} | {("results", n): [] for n in range(of_labels)})
    for i in range(parts):
        machine, part = f"m{i % 7}", f"P{i}"
        log.add(("readings", (i % 7) % of_records), machine, reading(part, machine), 1000 * i)
        log.add(("results", i % of_labels), part, {"part": part, "quality": "ok"}, 1000 * (i + later))
    return log


def check_whole(log: Log, parts: int = 30) -> None:
    """Check that all was written once, in the order of each machine, and labels where their records are."""
    every = {f"m{k}": [f"P{i}" for i in range(k, parts, 7)] for k in range(7)}
    assert log.of("records") == every
    assert {client: sorted(ids) for client, ids in log.of("labels").items()} == {
        client: sorted(ids) for client, ids in every.items()
    }
    assert all(one.partition == partition_of_client(one.client, WRITTEN) for one in log.written if one.client)
    at = {(one.kind, one.id): place for place, one in enumerate(log.written)}
    assert all(at["records", f"P{i}"] < at["labels", f"P{i}"] for i in range(parts))


@given(
    later=st.sampled_from([-8, 5]),
    polls=st.lists(st.integers(1, 9), min_size=1),
    most=st.integers(1, 20),
    kills=st.sets(st.integers(0, 40)),
)
def test_a_kill_between_read_and_write_loses_and_doubles_nothing(later, polls, most, kills):
    """Labels come after their records, or before by the clocks of those who write them."""
    log = plant(parts=14, later=later)
    repartitioning, step = log.begun(), 0
    while len(log.written) < 28:
        log.read(repartitioning, polls[step % len(polls)], now=10**6)
        taken = repartitioning.take(10**6, most)
        if step in kills:
            repartitioning = log.begun(now=10**6)  # what was taken was not committed
        else:
            log.commit(repartitioning, taken)
        step += 1
    check_whole(log, 14)


def test_a_label_finds_its_record_whatever_the_partitions_and_however_long_the_backlog():
    log = plant(parts=300, later=20, of_records=5, of_labels=2)
    repartitioning = log.begun(window=40)  # far fewer than the records of the backlog
    while len(log.written) < 600:
        log.read(repartitioning, 50, now=10**9)
        log.commit(repartitioning, repartitioning.take(10**9, 100))
    check_whole(log, 300)


def test_a_label_waits_for_its_record_as_long_as_clocks_may_differ_and_holds_up_no_other():
    log = Log({("readings", 0): [], ("results", 0): []})
    log.add(("results", 0), "P9", {"part": "P9", "quality": "ok"}, 1000)
    log.add(("readings", 0), "m0", reading("P1", "m0"), 2000)
    log.add(("results", 0), "P1", {"part": "P1", "quality": "ok"}, 3000)
    repartitioning = log.begun()
    log.read(repartitioning, now=4000)
    log.commit(repartitioning, repartitioning.take(4000, 10))
    assert [(one.kind, one.client, one.id) for one in log.written] == [
        ("records", "m0", "P1"),
        ("labels", "m0", "P1"),
    ]
    assert log.committed["results", 0] == (0, "2:0")
    log.read(repartitioning, now=1000 + GRACE)
    assert repartitioning.take(1000 + GRACE, 10) == []
    log.read(repartitioning, now=1001 + GRACE)
    (stray,) = repartitioning.take(1001 + GRACE, 10)
    assert (stray.partition, stray.client, stray.reason) == (-1, "", NO_RECORD)
    assert code_of(stray.reason) is ReasonCode.NO_RECORD  # the header `code` of its dead letter
    log.add(("readings", 0), "m0", reading("P9", "m0"), 5000)  # in time: as if nobody had looked so late
    again = log.begun()
    log.read(again, now=5000)
    assert [one.client for one in again.take(5000, 10)] == ["m0", "m0"]


def waiting_for(*read: Message, at_end: bool) -> Repartitioning:
    """Return a repartitioning that holds a label of time 0, when so much of a partition of records was read."""
    log = Log({("results", 0): []})
    log.add(("results", 0), "P1", {"part": "P1", "quality": "ok"}, 0)
    repartitioning = log.begun()
    repartitioning.begin(("readings", 0), "records", PartitionProgress(0, 0), 0)
    log.read(repartitioning)
    repartitioning.arrived(("readings", 0), read, [said("readings", one) for one in read], 0)
    repartitioning.note_end(("readings", 0), at_end=at_end)
    return repartitioning


@pytest.mark.parametrize("read", [(), (Message(0, None, None),)], ids=["nothing", "a mark, and an open transaction"])
def test_no_label_is_given_up_before_records_were_read_beyond_it_but_for_a_partition_that_stays_silent(read):
    repartitioning = waiting_for(*read, at_end=False)
    assert repartitioning.take(SILENT, 10) == []
    assert [one.reason for one in waiting_for(*read, at_end=False).take(SILENT + 1, 10)] == [NO_RECORD]
    repartitioning.note_passed(("readings", 0), GRACE)
    assert repartitioning.take(SILENT, 10) == []
    repartitioning.note_passed(("readings", 0), GRACE + 1)
    assert [one.reason for one in repartitioning.take(SILENT, 10)] == [NO_RECORD]


def test_a_label_waits_for_what_was_written_before_it_even_if_all_was_read_once():
    repartitioning = waiting_for(at_end=True)
    repartitioning.note_passed(("readings", 0), GRACE)
    assert repartitioning.take(SILENT, 10) == []


def test_of_a_thousand_labels_without_a_record_few_are_held_and_all_are_told():
    log = Log({("readings", 0): [], ("results", 0): []})
    for i in range(1000):
        log.add(("results", 0), f"Q{i}", {"part": f"Q{i}", "quality": "ok"}, i)
    repartitioning, now = log.begun(), 2000
    log.read(repartitioning, now=now)
    assert repartitioning.take(now, 10_000) == []
    progress = repartitioning.progress["results", 0]
    assert len(progress.held) == MOST_HELD
    assert len(progress.metadata) < 4000
    now += GRACE
    log.read(repartitioning, now=now)
    log.commit(repartitioning, repartitioning.take(now, 10_000))
    assert sorted(one.id for one in log.written) == sorted(f"Q{i}" for i in range(1000))
    assert log.committed["results", 0] == (1000, "")
    assert repartitioning._awaited == {}  # nothing is remembered of them


def test_labels_that_are_held_have_few_bytes():
    log = Log({("readings", 0): [], ("results", 0): []})
    for i in range(10):
        log.add(("results", 0), f"Q{i}", {"part": f"Q{i}", "quality": "ok", "note": "x" * 400_000}, i)
    repartitioning = log.begun()
    log.read(repartitioning, now=100)
    assert repartitioning.take(100, 10) == []
    assert repartitioning.progress["results", 0].held == (0, 1, 2)


def test_records_of_a_client_may_move_to_a_partition_that_was_added():
    log = plant(parts=14, later=1)
    repartitioning = log.begun()
    log.read(repartitioning, now=10**6)
    log.commit(repartitioning, repartitioning.take(10**6, 100))
    log.source["readings", 4] = []
    repartitioning.begin(("readings", 4), "records", PartitionProgress(0, 0), 10**6)
    log.add(("readings", 4), "m0", reading("P14", "m0"), 14_000)
    log.read(repartitioning, now=10**6)
    log.commit(repartitioning, repartitioning.take(10**6, 100))
    assert log.of("records")["m0"] == ["P0", "P7", "P14"]


def test_nothing_is_taken_while_an_earlier_message_may_still_come_but_not_for_ever():
    log = plant()
    repartitioning = log.begun()
    place = ("readings", 0)
    first = log.source[place][0]
    repartitioning.arrived(place, [first], [said("readings", first)], 0)
    assert repartitioning.take(9_999, 10) == []
    assert [one.id for one in repartitioning.take(10_001, 10)] == ["P0"]


def test_all_partitions_end_when_all_that_are_read_have_ended():
    log = plant()
    log.end()
    repartitioning = log.begun()
    log.read(repartitioning, now=10**6)
    log.commit(repartitioning, repartitioning.take(10**6, 1000))
    check_whole(log)
    ends = repartitioning.take(10**6, 1000)
    assert {(one.kind, one.partition) for one in ends} == {
        (kind, n) for kind in ("records", "labels") for n in range(WRITTEN)
    }
    assert all(one.message is None for one in ends)
    assert repartitioning.take(10**6, 1000) == []


def test_a_mark_with_messages_behind_it_was_no_end():
    log = plant()
    log.end()
    log.add(("readings", 0), "m0", reading("P99", "m0"), 99_000)
    repartitioning = log.begun()
    log.read(repartitioning, now=10**6)
    assert "P99" in [one.id for one in repartitioning.take(10**6, 1000)]
    assert repartitioning.take(10**6, 1000) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"part": 7, "machine": {"id": "m1"}, "force": 1}', ("m1", "7", "")),
        (b'{"part": "P7", "machine": {"id": "m1"}, "force": "ERR"}', ("m1", "P7", "")),
        (b'{"machine": {"id": "m1"}, "force": 1}', ("m1", "", "")),
    ],
)
def test_a_record_that_clients_reject_still_has_its_client_and_its_id(value, expected):
    (found,) = whose_by_field([Message(0, None, value)], RECORDS)
    assert (found.client, found.id, found.reason) == expected
    (found,) = whose_by_key([Message(0, b"m1", value)], KEYED)
    assert (found.client, found.id, found.reason) == expected


@pytest.mark.parametrize("value", [b"", b"{", b'{"part": "P7", "force": 1}', b"[1]"])
def test_a_record_without_a_client_is_stray_and_says_why(value):
    (found,) = whose_by_field([Message(0, None, value)], RECORDS)
    assert not found.client
    assert found.reason


@pytest.mark.parametrize("key", [None, b"", b"\xff", b"x" * 257])
def test_a_record_whose_key_is_no_name_is_stray(key):
    (found,) = whose_by_key([Message(0, key, b"{}")], None)
    assert code_of(found.reason) == "no-client"


def test_a_label_that_says_nothing_goes_to_its_client_and_one_without_an_id_is_stray():
    missing, nameless = whose_labels(
        [Message(0, None, b'{"part": "P1"}'), Message(1, None, b'{"quality": "ok"}')], LABELS
    )
    assert (missing.id, missing.reason) == ("P1", "")
    assert nameless.reason
