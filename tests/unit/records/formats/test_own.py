"""Messages that functions of a program read are refused one by one, and without functions by the same rules."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from streamfl.protocol.reasons import code_of
from streamfl.records.formats import FieldMap, JsonRecords
from streamfl.records.formats.own import OwnRecords

GOOD = b'{"label": "a", "x": 1}'
DEEP = b'{"label": "a", "x": ' + b"[" * 600 + b"]" * 600 + b"}"
READ = [
    *(b'{"label": "a", "x": ' + value + b"}" for value in (b"NaN", b"-Infinity", b"1e999", b"1" * 30, b"1" * 500)),
    b"\xef\xbb\xbf" + GOOD,
]
REFUSED = [b"[1]", b"{", b"\xff", b'{"label": "a\\ud800", "x": NaN}', b'{"label": ' + b"[" * 100_000]


def says(text: str) -> Callable[[Any], Any]:
    def function(_: Any) -> Any:
        raise ValueError(text)

    return function


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (json.loads, DEEP),
        (json.loads, b'{"label": "a\\ud800"}'),
        (json.loads, b'{"label": "a", "\\udfff": 1}'),
        (lambda _: {"x": object()}, GOOD),
        (says("a\ud800"), GOOD),
    ],
    ids=["deep", "surrogate", "surrogate name", "object", "surrogate in an error"],
)
def test_what_no_field_can_hold_costs_its_message_alone(function: Callable[[Any], Any], message: bytes) -> None:
    form = OwnRecords(FieldMap(), deserialize=lambda value: (function if value == message else json.loads)(value))
    other = b'{"label": "b", "x": 2}'
    found = form.decode([0, 1, 2], [other, message, other])
    assert found.positions.tolist() == [0, 2]
    (refused,) = found.rejected
    assert (refused.position, code_of(refused.reason)) == (1, "unreadable")
    assert "your function" in refused.reason.encode().decode()


def test_messages_without_deserialize_are_read_and_refused_as_without_any_function() -> None:
    messages = [*READ, *REFUSED]
    own = OwnRecords(FieldMap(), features=dict).decode(range(len(messages)), messages)
    plain = JsonRecords(FieldMap()).decode(range(len(messages)), messages)
    assert own.positions.tolist() == plain.positions.tolist() == list(range(len(READ)))
    assert own.X.tobytes() == plain.X.tobytes()
    assert [one.reason for one in own.rejected] == [one.reason for one in plain.rejected]
