"""Messages taken in: what is counted once, and what becomes a dead letter."""

from typing import NamedTuple

import numpy as np
import pytest
from structlog.testing import capture_logs

from streamfl.records.formats import FieldMap, JsonRecords, Packed
from streamfl.runtime.log.intake import LogIntake
from streamfl.runtime.ports import Placement, ReadingCounts


class Message(NamedTuple):
    offset: int
    value: bytes | None
    key: bytes | None = None
    timestamp: int = -1


@pytest.fixture
def counts():
    return ReadingCounts()


def begun(counts, placement=None, records=None, offset=0):
    intake = LogIntake(placement or Placement(("f.*",)), records or JsonRecords(FieldMap()), counts)
    return intake, intake.begin("f.c0", 0, offset, lambda positions: None)


def good(offset):
    return Message(offset, b'{"x":1,"label":"a"}')


def test_a_packed_message_is_one_letter_however_many_of_its_records_are_bad(counts):
    form = Packed("classification")
    value = form.encode(("x",), np.full((1000, 1), np.inf), np.zeros(1000), ("a",))
    intake, reader = begun(counts, records=form, offset=17)
    (one,) = intake.take(reader, [Message(17, value, b"key")], ())
    assert (one.key, one.value, one.place) == (b"key", value, ("f.c0", 0, 17))
    assert dict(one.headers)["reason"] == b'feature "x" is infinite, and 999 more of its records cannot be used'
    assert sum(len(batch.rejected) for batch in reader.clients["c0"].poll(5000)) == 1000


def test_what_is_read_again_is_counted_and_kept_once(counts):
    fields = FieldMap(client="site", drop=("id",))
    intake, reader = begun(counts, Placement(("f.*",), "field"), JsonRecords(fields))
    block = [Message(0, b'{"x":1,"label":"a","site":"p"}'), Message(1, b"junk"), Message(2, b'{"x":1,"site":"p"}')]
    assert [letter.place[2] for letter in intake.take(reader, block, ())] == [1, 2]
    assert counts.unrouted == 1
    reader.head = 0
    again = intake.take(reader, [*block, Message(3, b"junk")], ())
    assert [letter.place[2] for letter in again] == [3]
    assert counts.unrouted == 2


def test_the_key_of_a_message_is_the_client_of_its_good_and_bad_records(counts):
    intake, reader = begun(counts, Placement(("f",), "message-key"))
    nobodys = Message(2, b'{"x":1,"label":"a"}', None)
    intake.take(reader, [Message(0, b'{"x":1,"label":"a"}', b"m7"), Message(1, b"junk", b"m7"), nobodys], ())
    assert list(reader.clients) == ["m7"]
    (batch,) = reader.clients["m7"].poll(9)
    assert (batch.positions.tolist(), [bad.position for bad in batch.rejected]) == ([0], [1])


def test_what_is_read_again_in_parts_is_kept_once(counts):
    intake, reader = begun(counts)
    block = [Message(0, b"junk"), good(1), Message(2, b"junk")]
    assert len(intake.take(reader, block, ())) == 2
    reader.head = 0
    assert [intake.take(reader, [message], ()) for message in block] == [[], [], []]


def test_what_an_earlier_process_has_kept_is_counted_and_not_kept_again(counts):
    intake = LogIntake(Placement(("f.*",)), JsonRecords(FieldMap()), counts)
    reader = intake.begin("f.c0", 0, 4, lambda positions: None, dead_letters_before=6)
    letters = intake.take(reader, [Message(4, b"junk"), Message(5, b"junk"), Message(6, b"junk"), good(7)], ())
    assert [letter.place[2] for letter in letters] == [6]
    assert reader.dead_letters_before == 8
    assert sum(len(batch.rejected) for batch in reader.clients["c0"].poll(9)) == 3


def test_late_records_are_counted_once(counts):
    intake, reader = begun(counts, Placement(("f.*",), late_after=10.0), JsonRecords(FieldMap(time="t")))
    block = [Message(i, b'{"x":1,"label":"a","t":%d}' % t) for i, t in enumerate((100, 200, 189, 191, 150))]
    intake.take(reader, block, ())
    assert counts.late == 2
    reader.head = 0
    intake.take(reader, block, ())
    assert counts.late == 2


def test_a_remark_is_logged_once_however_many_partitions_it_is_about_and_however_often_they_are_taken(counts):
    intake, first = begun(counts)
    second = intake.begin("f.c1", 0, 0, lambda positions: None)
    block = [Message(0, b'{"x":1,"label":"a"}'), Message(1, b'{"x":"ERR","label":"a"}')]
    with capture_logs() as logged:
        for reader in (first, second):
            intake.take(reader, block, ())
        intake.give_up("f.c1/0")
        intake.take(intake.begin("f.c1", 0, 0, lambda positions: None), block, ())
        intake.take(first, [Message(2, b'{"x":1,"y":2,"label":"a"}'), Message(3, b'{"y":"ERR","label":"a"}')], ())
    (of_x, _, _), (of_y, _, _) = (line["event"].split("; ") for line in logged)
    assert (of_x, of_y) == ('field "x": "ERR" is not a number', 'field "y": "ERR" is not a number')
    assert [line["partition"] for line in logged] == ["f.c0/0", "f.c0/0"]
    assert [line["message"] for line in logged] == ["f.c0/0/1", "f.c0/0/3"]


def test_a_remark_about_a_message_that_was_repartitioned_names_the_place_of_people(counts):
    intake = LogIntake(Placement(("f.*",)), JsonRecords(FieldMap()), counts, lambda message: ("machines", 2, 88))
    reader = intake.begin("f.c0", 0, 0, lambda positions: None)
    with capture_logs() as logged:
        intake.take(reader, [good(0), Message(1, b'{"x":"ERR","label":"a"}')], ())
    assert [line["message"] for line in logged] == ["machines/2/88"]


def test_halves_carry_when_they_were_written(counts):
    intake, reader = begun(counts, records=JsonRecords(FieldMap(task="unlabelled", key="id")))
    values = (b'{"id":"a","x":1}', b"junk", b'{"id":"b","x":1}')
    intake.take(reader, [Message(i, value, timestamp=1000 - i) for i, value in enumerate(values)], ())
    (batch,) = reader.clients["c0"].poll(9)
    assert batch.half.written.tolist() == [1000, 998]
    assert batch.after(1).half.written.tolist() == [998]


def test_a_mark_at_the_end_ends_its_client_and_one_before_more_records_does_not(counts):
    intake, reader = begun(counts)
    source = reader.clients["c0"]
    intake.take(reader, [good(0), Message(1, None), good(2)], (1,))
    assert (source.end, sum(batch.read for batch in source.poll(9))) == (None, 2)
    intake.take(reader, [Message(3, None)], (3,))
    assert (source.ended, source.poll(9)) == (True, [])
    intake.take(reader, [good(4)], ())
    assert not source.ended


@pytest.mark.parametrize("position", [5, 6])
def test_a_position_beyond_the_end_fails_its_client_and_one_at_the_end_does_not(counts, position):
    _, reader = begun(counts)
    source = reader.clients["c0"]
    source.seek({"f.c0/0": position})
    assert reader.sought
    reader.check_sought(0, 5, 1)
    assert (source.failed, reader.sought) == (position > 5, False)
