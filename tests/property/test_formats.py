"""Whatever bytes a log holds, every message is accounted for, and good records are read as they were written."""

import json
from unittest import mock

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamfl.records.formats import FieldMap, JsonRecords, Packed
from streamfl.records.formats.any_json import AnyJson, UnusableRecordError
from streamfl.records.formats.flat_json import FlatJson
from streamfl.runtime.ports import Decoded

GOOD = b'{"label":"up","device":"d1","t":1.5,"x":1,"y":0.5,"k":"a"}'
MAPS = [
    FieldMap(),
    FieldMap(client="device", time="t", categories={"k": ("a", "b")}, drop=("z",)),
    FieldMap(features=("x", "p.x"), label="label"),
    FieldMap(features=("y",), label="x", task="regression", client="device"),
]

NAMES = st.sampled_from(["label", "device", "t", "x", "y", "z", "k", "p", "p.x", "k=a", 'q"', "é", ""])
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
ODD = st.sampled_from(["", " ", "nan", "inf", "1_0", "2.5", " 3 ", "a", "d1", "1970-01-02", 10**400, 1e308, -0.0])
SCALARS = st.none() | st.booleans() | NUMBERS | ODD | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=4
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=8).map(lambda record: json.dumps(record).encode())
LIKELY = st.fixed_dictionaries({"label": SCALARS, "device": SCALARS, "x": SCALARS, "y": SCALARS}).map(
    lambda record: json.dumps(record).encode()
)
CUT = st.tuples(OBJECTS, st.integers(0, 40), st.binary(max_size=3)).map(lambda c: c[0][: c[1]] + c[2] + c[0][c[1] :])
MESSAGES = st.lists(OBJECTS | LIKELY | CUT | st.binary(max_size=20) | st.none(), max_size=6)


def accounted(found: Decoded, named: bool, timed: bool) -> None:
    """Check what `Decoded` promises."""
    n, m = len(found.positions), len(found.rejected)
    assert found.X.shape == (n, len(found.features))
    assert len(set(found.features)) == len(found.features)
    assert found.y.shape == (n,)
    assert not np.isinf(found.X).any()
    assert np.isfinite(found.y).all()
    assert (np.diff(found.positions) > 0).all()
    assert [r.position for r in found.rejected] == sorted({r.position for r in found.rejected})
    assert (len(found.clients), len(found.rejected_clients)) == ((n, m) if named else (0, 0))
    assert found.times.shape == ((n,) if timed else (0,))
    assert all(found.clients)
    if found.labels:
        assert set(found.y.tolist()) == set(range(len(found.labels)))


@given(st.sampled_from(MAPS), st.lists(MESSAGES, max_size=3))
def test_every_json_message_is_one_record_or_one_rejection(fields: FieldMap, calls: list[list[bytes | None]]) -> None:
    reader = JsonRecords(fields)
    for messages in calls:
        offsets = range(5, 5 + 3 * len(messages), 3)
        found = reader.decode(offsets, messages)
        accounted(found, fields.client is not None, fields.time is not None)
        assert sorted([*found.positions.tolist(), *(r.position for r in found.rejected)]) == list(offsets)


@given(st.sampled_from(MAPS[:2]), MESSAGES, st.integers(0, 6), st.booleans())
def test_bad_json_messages_change_no_good_record_next_to_them(
    fields: FieldMap, messages: list[bytes | None], at: int, known: bool
) -> None:
    reader = JsonRecords(fields)
    if known:
        reader.decode([0], [GOOD])
    before = min(at, len(messages))
    alone = JsonRecords(fields.model_copy()).decode([0], [GOOD])
    found = reader.decode(range(len(messages) + 1), [*messages[:before], GOOD, *messages[before:]])
    row = found.positions.tolist().index(before)
    read = dict(zip(found.features, found.X[row].tolist(), strict=True))
    assert {n: v for n, v in read.items() if not np.isnan(v)} == dict(zip(alone.features, alone.X[0], strict=True))
    assert found.labels[int(found.y[row])] == "up"
    if fields.client is not None:
        assert (found.clients[row], found.times[row]) == ("d1", 1.5)


def bits(values: np.ndarray) -> list[str]:
    """Return the bits of numbers; all missing values are one."""
    return ["" if np.isnan(value) else float(value).hex() for value in values.ravel()]


def alike(one: Decoded, other: Decoded) -> None:
    """Check that two readings are the same to the last bit."""
    for name in ("positions", "X", "y", "times"):
        assert bits(getattr(one, name)) == bits(getattr(other, name))
    for name in ("features", "labels", "clients", "rejected", "rejected_clients"):
        assert getattr(one, name) == getattr(other, name)


@given(st.sampled_from(MAPS), st.lists(OBJECTS | LIKELY, max_size=6), MESSAGES)
@example(MAPS[0], [b'{"label":1,"label":true,"x":1,"x":2,"p":{"x":1}}'], [b'{"label":1,"p.x":2,"x":null}'])
@example(MAPS[2], [], [b'{"label":1,"p":{"x":3},"other":1e999}', b'{"label":1,"p":null,"x":1,"other":1e999}'])
def test_the_fast_path_reads_what_the_slow_one_reads(fields: FieldMap, first: list, messages: list) -> None:
    fast, slow = JsonRecords(fields), JsonRecords(fields)
    for call in (first, first + messages):  # the second with known names
        found = fast.decode(range(len(call)), call)
        with mock.patch.object(FlatJson, "cells", lambda _, values: [None] * len(values)):
            alike(found, slow.decode(range(len(call)), call))


@given(st.sampled_from(MAPS), MESSAGES)
def test_json_messages_read_one_at_a_time_or_all_at_once_give_the_same_records(
    fields: FieldMap, messages: list[bytes | None]
) -> None:
    whole, single = JsonRecords(fields), JsonRecords(fields)
    at_once = whole.decode(range(len(messages)), messages)
    pieces = [single.decode([i], [message]) for i, message in enumerate(messages)]
    assert at_once.positions.tolist() == [p for piece in pieces for p in piece.positions.tolist()]
    assert [*at_once.rejected] == [r for piece in pieces for r in piece.rejected]
    assert [*at_once.clients] == [c for piece in pieces for c in piece.clients]
    assert [*at_once.rejected_clients] == [c for piece in pieces for c in piece.rejected_clients]
    if messages:
        assert at_once.features == pieces[-1].features
    rows = [row for piece in pieces for row in piece.X.tolist()]
    padded = [[*row, *[np.nan] * (len(at_once.features) - len(row))] for row in rows]
    if not fields.categories:  # whose columns come last
        np.testing.assert_array_equal(at_once.X, np.array(padded).reshape(at_once.X.shape))


FLOATS = st.floats(allow_infinity=False) | st.integers(-(2**60), 2**60).map(float) | st.just(-0.0)
WORDS = st.text(min_size=1, max_size=6).filter(
    lambda word: word == word.strip() and word.lower() not in {"nan", "inf"}
)
LABELS = st.sampled_from(["a", "1", "True", "-0", "größe", '"'])


@given(
    st.lists(FLOATS, min_size=3, max_size=3),
    LABELS,
    st.sampled_from(["d", "7", "é\n-"]),
    st.none() | st.floats(0, 1e11),
)
@example([1.0, 2.0, 3.0], "a", "d", 19000101.2109375)
def test_json_reads_back_to_the_last_bit(row: list[float], label: str, client: str, time: float | None) -> None:
    features = ("x", "p.x", 'q"')
    fields = FieldMap(client="device", time="t", features=features)
    for reader in (JsonRecords(fields), JsonRecords(fields.model_copy(update={"features": ()}))):
        message = reader.encode(features, row, label, client, time)
        found = reader.decode([0], [message])
        read = dict(zip(found.features, found.X[0].tolist(), strict=True))
        assert bits(np.array([read.get(name, np.nan) for name in features])) == bits(np.array(row))
        assert (found.labels, found.clients) == ((label,), (client,))
        assert bits(found.times) == bits(np.array([np.nan if time is None else time]))


@given(FLOATS.filter(lambda value: not np.isnan(value)))
def test_json_targets_read_back_to_the_last_bit(target: float) -> None:
    reader = JsonRecords(FieldMap(task="regression"))
    assert bits(reader.decode([0], [reader.encode((), (), target)]).y) == bits(np.array([target]))


PACKED = st.integers(0, 4).flatmap(
    lambda n: st.tuples(
        arrays(np.float32, (n, 2), elements=st.floats(width=32, allow_infinity=False)),
        arrays(np.int32, n, elements=st.integers(0, 1)),
        arrays(np.float64, n, elements=st.floats(0, 1e10)),
    )
)


@given(st.lists(st.tuples(PACKED, st.booleans()), min_size=1, max_size=3))
def test_packed_records_read_back_to_the_last_bit(blocks: list) -> None:
    for task in ("classification", "regression"):
        form = Packed(task)  # type: ignore[arg-type]
        labels = ("no", "yes") if task == "classification" else ()
        messages = [form.encode(("a", "b"), X, y, labels, t if timed else None) for (X, y, t), timed in blocks]
        found = form.decode(range(len(messages)), messages)
        accounted(found, False, any(timed for _, timed in blocks))
        X, y = np.concatenate([b[0] for b, _ in blocks]), np.concatenate([b[1] for b, _ in blocks])
        assert bits(found.X) == bits(X)
        said = [found.labels[int(i)] for i in found.y] if labels else found.y.tolist()
        assert said == ([labels[i] for i in y] if labels else y.tolist())
        expected = [i * 65_536 + j for i, (b, _) in enumerate(blocks) for j in range(len(b[1]))]
        assert found.positions.tolist() == expected


WHOLE = Packed("classification").encode(
    ("a", "b"), np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([1, 0]), ("no", "yes"), np.array([1.0, 2.0])
)
CHANGED = st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=2)), max_size=3)


@given(CHANGED, st.integers(0, len(WHOLE)), st.binary(max_size=40), st.sampled_from(["classification", "regression"]))
def test_no_packed_bytes_raise_or_harm_a_neighbour(changes: list, cut: int, junk: bytes, task: str) -> None:
    changed = bytearray(WHOLE)
    for at, new in changes:
        changed[at : at + len(new)] = new
    bad = [bytes(changed), bytes(changed[:cut]), junk, bytes(changed) + junk, None]
    found = Packed("classification").decode(range(7), [WHOLE, *bad, WHOLE])
    accounted(found, False, True)
    for first in (0, 6 * 65_536):
        row = found.positions.tolist().index(first)
        assert found.positions[row + 1] == first + 1
        at = [found.features.index(name) for name in ("a", "b")]
        np.testing.assert_array_equal(found.X[row : row + 2, at], [[1.0, 2.0], [3.0, np.nan]])
        assert [found.labels[int(i)] for i in found.y[row : row + 2]] == ["yes", "no"]
    touched = {p // 65_536 for p in [*found.positions.tolist(), *(r.position for r in found.rejected)]}
    assert touched >= {0, 6}
    Packed(task).decode(range(5), bad)  # type: ignore[arg-type]


@given(st.binary(max_size=60))
def test_no_bytes_make_a_reader_of_json_raise(junk: bytes) -> None:
    for fields in MAPS:
        assert len(JsonRecords(fields).decode([0], [junk]).rejected) == 1 - len(
            JsonRecords(fields).decode([0], [junk]).positions
        )
    header = len(junk).to_bytes(8, "little") + junk
    assert len(Packed("regression").decode([0, 1], [junk, header]).rejected) == 2
    try:
        AnyJson(MAPS[0]).read(junk)
    except UnusableRecordError as error:
        assert error.reason
