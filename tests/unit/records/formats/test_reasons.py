"""Every reason for which a record is refused has a code."""

import json

import numpy as np
import pytest

from streamfl.protocol.reasons import code_of
from streamfl.records.formats import FieldMap, JsonRecords, Packed
from streamfl.records.formats.own import OwnRecords

GOOD = {"c": "d", "k": "1", "label": "a", "x": 1}
BAD = [
    *(
        json.dumps(GOOD | change).encode()
        for change in (
            *({"label": label} for label in (None, "", ["a"], {"a": 1}, "a" * 999, "inf", "b", True)),
            *({"k": key} for key in (None, ["1"], 1.5, "1" * 999)),
            *({"c": client} for client in (None, ["d"], 1.5, "d" * 999)),
        )
    ),
    *(b"", b"{", b"[1]", b"\xff", b'{"label": ' + b"[" * 100_000, b'{"c":"d","k":"1","label": "\\ud800", "x": NaN}'),
]


@pytest.mark.parametrize(
    ("more", "refused"),
    [({}, 20), ({"labels": ("a",), "closed": True, "features": ("x",)}, 22), ({"task": "regression"}, 22)],
)
def test_a_json_object_that_is_refused(more: dict[str, object], refused: int) -> None:
    form = JsonRecords.of(FieldMap(client="c", key="k", **more))
    found = form.decode(range(len(BAD)), BAD).rejected
    assert len(found) == refused
    assert [one.reason for one in found if code_of(one.reason) is None] == []


def test_a_packed_message_that_is_refused() -> None:
    form = Packed("classification")
    good = form.encode(("x",), np.ones((2, 1)), np.zeros(2), ("a",))
    changes = ((b'"X"', b'"Z"'), (b'"y"', b'"z"'), (b'"features"', b'"featurez"'), (b"I32", b"I64"))
    bad = [b"", b"junk", good[:-1], good + b"x", *(good.replace(*change) for change in changes)]
    found = form.decode(range(len(bad)), bad).rejected
    assert len(found) == len(bad)
    assert [one.reason for one in found if code_of(one.reason) is None] == []


def test_a_message_that_a_programs_functions_refuse() -> None:
    form = OwnRecords(FieldMap(), deserialize=lambda value: 1 / 0 if value == b"?" else 7)
    assert [code_of(one.reason) for one in form.decode([0, 1], [b"?", b"x"]).rejected] == ["unreadable"] * 2
