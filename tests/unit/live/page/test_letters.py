"""Dead letters by what is wrong with them, and what to do."""

import json

import pytest

from streamfl.live.page import letters as bounds
from streamfl.live.page.letters import LOOK, OF_CLIENTS, OTHERS, Letters, kind_of, remedy
from streamfl.records.formats import FieldMap, record_format
from streamfl.runtime.ports import LoggedDeadLetter


def letters(*reasons, topic="r.c0"):
    found = Letters()
    for offset, reason in enumerate(reasons):
        found.add(LoggedDeadLetter(topic, 0, offset, reason, time=100 + offset))
    return found


def counts(found, until=None):
    return {kind.reason: count for kind, count in found.counted(until)}


def test_letters_of_one_kind_are_counted_together_without_the_values_of_a_record():
    found = letters('field "age": "Bob, 41" is not a number', 'field "age": "Eve" is not a number', "no label")
    assert counts(found) == {'field "age": "…" is not a number': 2, "no label": 1}
    assert "Bob" not in str(found.counted())
    (first, _), _ = found.counted()
    assert (first.topic, first.partition, first.offset) == ("r.c0", 0, 1)


def test_dead_letters_are_counted_as_of_a_time():
    found = letters("no label", "no label", "not UTF-8")
    assert counts(found, until=100) == {"no label": 1}
    assert counts(found, until=101) == {"no label": 2}
    assert counts(found, until=99) == {}


def test_dead_letters_and_their_kinds_are_bounded(monkeypatch):
    monkeypatch.setattr(bounds, "KINDS", 3)
    monkeypatch.setattr(bounds, "LETTERS", 10)
    found = letters(*(f"reason {'x' * n}" for n in range(1, 21)))
    assert len(found._kinds) == 2 * 3 + 1
    assert counts(found) == {OTHERS: 10}
    assert found.before == 10


def test_many_fields_leave_room_for_other_reasons():
    bad = (f'field "f{n}": "x" is not a number; drop the field' for n in range(200))
    found = counts(letters(*bad, *["the label is missing"] * 7))
    assert len(found) == bounds.KINDS + 2
    assert found['field "…": "…" is not a number; drop the field'] == 200 - bounds.KINDS
    assert found["the label is missing"] == 7


@pytest.mark.parametrize("text", ["x; run: evil", 'a"; run: evil', "C:\\Anna\\", 'Anna "Nan" Smith', '\\"; run', '"'])
def test_who_writes_records_neither_gives_advice_nor_is_quoted(text):
    remedies = set()
    for record, label in (({"a": 1, "label": text}, "label"), ({"a": 1, text: "value"}, text)):
        reader = record_format("json", FieldMap(label=label, task="regression"))
        (refused,) = reader.decode([0], [json.dumps(record).encode()]).rejected
        kind = kind_of(refused.reason)
        assert '": "…" is not a number, and the task is regression' in kind
        remedies.add(remedy(kind, "r.c0"))
    assert remedies == {"write a number, or set the task to classification"}


@pytest.mark.parametrize(
    ("reason", "topic", "told"),
    [
        ("the label is missing", "r.c0", "write the label with the record, or use [labels] if it comes later"),
        ('field "x": "wide" is not a number; drop the field', "r.c0", "drop the field"),
        ("a loss is out of range for this number of records", "f.updates", OF_CLIENTS),
        ("something new", "r.c0", LOOK),
    ],
)
def test_each_kind_of_dead_letter_has_a_remedy(reason, topic, told):
    assert remedy(kind_of(reason), topic) == told


def test_headers_by_any_writer_are_read():
    lies = [("topic", b"\xff" * 9999), ("offset", b"9" * 99), ("partition", None), ("reason", b"\x1b[2J")]
    letter = LoggedDeadLetter.of(lies)
    assert (letter.offset, letter.partition) == (0, 0)
    found = Letters()
    found.add(letter)
    ((kind, _),) = found.counted()
    assert len(kind.topic) <= 256
    assert kind.reason == "\\x1b[…J"
