"""Dead letters by what is wrong with them, and what to do."""

import json

import numpy as np
import pytest

from streamfl.bounds import Limits
from streamfl.live.page import letters as bounds
from streamfl.live.page.letters import LOOK, OF_CLIENTS, OTHERS, REMEDIES, Letters
from streamfl.protocol.reasons import ReasonCode, code_of
from streamfl.records.formats import FieldMap, record_format
from streamfl.runtime.log.dead_letters import DeadLetter, reasons
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


def kind_on_the_page(format_name, fields, message, topic="r.c0"):
    """What the page shows of a record that a host cannot use, after its dead letter was on the log."""
    reader = record_format(format_name, fields)
    rejected = reader.decode([7], [message]).rejected
    ((offset, reason),) = reasons(rejected, reader.stride).items()
    letter = DeadLetter.of(topic, 0, offset, reason, None, message)
    found = Letters()
    found.add(LoggedDeadLetter.of([(name, item) for name, item in letter.headers]))
    ((kind, _),) = found.counted()
    return kind


@pytest.mark.parametrize(
    "text", ["x; run: evil", 'a"; run: evil', "C:\\Anna\\", 'Anna "Nan" Smith', '\\"; run', '"', "not JSON"]
)
def test_who_writes_records_neither_gives_advice_nor_is_quoted(text):
    remedies = set()
    for record, label in (({"a": 1, "label": text}, "label"), ({"a": 1, text: "value"}, text)):
        kind = kind_on_the_page("json", FieldMap(label=label, task="regression"), json.dumps(record).encode())
        assert '": "…" is not a number, and the task is regression' in kind.reason
        remedies.add(kind.remedy)
    assert remedies == {"write a number, or set the task to classification"}


ONE = FieldMap(label="y", client="id", labels=("a",))


@pytest.mark.parametrize(
    ("format_name", "fields", "message", "code"),
    [
        ("json", ONE, b'{"id": "c0"}', ReasonCode.NO_LABEL),
        ("json", ONE, b'{"id": "c0", "y": "inf"}', ReasonCode.INFINITE),
        ("json", ONE, b"", ReasonCode.EMPTY),
        ("json", ONE, b"[1]", ReasonCode.NOT_JSON),
        ("json", ONE, b'{"id": "c0", ', ReasonCode.NOT_JSON),
        ("json", ONE, b'{"y": "a", "id": [1]}', ReasonCode.NO_CLIENT),
        ("json", ONE, b'{"y": "a"}', ReasonCode.NO_CLIENT),
        ("packed", FieldMap(), b"", ReasonCode.EMPTY),
        ("packed", FieldMap(), b"x" * 99, ReasonCode.NOT_PACKED),
    ],
)
def test_a_reason_carries_its_code_from_the_record_to_the_remedy_on_the_page(format_name, fields, message, code):
    assert kind_on_the_page(format_name, fields, message).remedy == REMEDIES[code]
    assert kind_on_the_page(format_name, fields, message, topic="f.updates").remedy == OF_CLIENTS


def test_a_label_beyond_the_limit_has_its_code_in_every_format():
    limits, x = Limits(labels=1), np.zeros((2, 1))
    packed = record_format("packed", FieldMap(), limits)
    messages = {
        "packed": [packed.encode(("x",), x[:1], np.zeros(1), (label,)) for label in ("a", "b")],
        "json": [b'{"label": "a"}', b'{"label": "b"}'],
    }
    for name, values in messages.items():
        (refused,) = record_format(name, FieldMap(), limits).decode([0, 1], values).rejected
        assert code_of(refused.reason) is ReasonCode.TOO_MANY_LABELS, name


def test_a_label_that_its_message_does_not_list_is_not_said_to_be_one_of_too_many():
    fields = FieldMap()
    packed = record_format("packed", fields).encode(("x",), np.zeros((1, 1)), np.zeros(1), ("a",))
    kind = kind_on_the_page("packed", fields, packed[:-4] + (9).to_bytes(4, "little"))
    assert (kind.reason, kind.remedy) == ("label … is not in the list of labels", LOOK)


def test_no_reason_is_known_by_its_words():
    for words in ("the label is missing", "not JSON", "too many labels; do what I say"):
        found = Letters()
        found.add(LoggedDeadLetter("r.c0", 0, 7, words))
        assert [kind.remedy for kind, _ in found.counted()] == [LOOK]


def test_headers_by_any_writer_are_read():
    lies = [("topic", b"\xff" * 9999), ("offset", b"9" * 99), ("partition", None), ("reason", b"\x1b[2J")]
    letter = LoggedDeadLetter.of(lies)
    assert (letter.offset, letter.partition) == (0, 0)
    found = Letters()
    found.add(letter)
    ((kind, _),) = found.counted()
    assert len(kind.topic) <= 256
    assert kind.reason == "\\x1b[…J"
