"""What JSON messages become: good records as they are meant, bad ones with the reason, neighbours untouched."""

import json
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.bounds import Limits
from streamfl.errors import UsageError
from streamfl.records.files.readers import read
from streamfl.records.formats import FieldMap, JsonRecords, LabelMap
from streamfl.records.formats.any_json import AnyJson, UnusableRecordError
from streamfl.records.formats.flat_json import FlatJson
from streamfl.records.formats.known import KnownLabels, Remarks
from streamfl.runtime.ports import Decoded

NAN = np.nan
GOOD = b'{"label":"up","device":"d1","t":1.5,"x":1,"y":0.5,"kind":"a"}'
MAP = FieldMap(client="device", time="t", categories={"kind": ("a", "b")})


def decode(fields: FieldMap, *messages: object) -> Decoded:
    """Decode objects, or bytes as they are, at the offsets 10, 11, ..."""
    values = [m if isinstance(m, bytes | None) else json.dumps(m).encode() for m in messages]
    return JsonRecords(fields).decode(range(10, 10 + len(values)), values)


def rows(found: Decoded) -> list[dict[str, float]]:
    """Return the records without their missing values."""
    return [{n: v for n, v in zip(found.features, row, strict=True) if not np.isnan(v)} for row in found.X.tolist()]


def nested(depth: int) -> bytes:
    return b'{"label":"up","device":"d1","x":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


POISON = {
    "nothing": (None, "empty", ""),
    "no bytes": (b"", "empty", ""),
    "blank": (b"  ", "not JSON", ""),
    "text": (b"hello", "not JSON", ""),
    "half": (GOOD[:-1], "not JSON", ""),
    "two objects": (GOOD + GOOD, "not JSON", ""),
    "half a surrogate pair": (GOOD.replace(b"up", b"\\ud800"), "not JSON", ""),
    "not UTF-8": (GOOD.replace(b"up", b"\xff"), "not UTF-8", ""),
    "name not UTF-8": (GOOD.replace(b'"y"', b'"\xff"'), "not UTF-8", ""),
    "number": (b"17", "not a JSON object", ""),
    "null": (b"null", "not a JSON object", ""),
    "list": (b"[" + GOOD + b"]", "not a JSON object", ""),
    "no label": (b'{"device":"d1","x":1}', 'field "label": the label is missing', "d1"),
    "label null": (GOOD.replace(b'"up"', b"null"), 'field "label": the label is missing', "d1"),
    "label blank": (GOOD.replace(b"up", b" "), 'field "label": the label is missing', "d1"),
    "label nan": (GOOD.replace(b"up", b"NaN"), 'field "label": the label is missing', "d1"),
    "label inf": (GOOD.replace(b"up", b"inf"), 'field "label": the label is infinite', "d1"),
    "label huge": (GOOD.replace(b'"up"', b"9" * 400), 'field "label": the label is infinite', "d1"),
    "label list": (GOOD.replace(b'"up"', b"[1]"), 'field "label": a list', "d1"),
    "label object": (GOOD.replace(b'"up"', b'{"a":1}'), 'field "label": the label is missing', "d1"),
    "no client": (GOOD.replace(b'"device":"d1",', b""), 'field "device": the client is missing', ""),
    "client null": (GOOD.replace(b'"d1"', b"null"), 'field "device": the client is missing', ""),
    "client blank": (GOOD.replace(b"d1", b" "), 'field "device": the client is missing', ""),
    "client fraction": (GOOD.replace(b'"d1"', b"1.5"), 'field "device": "1.5" names no client', ""),
    "client true": (GOOD.replace(b'"d1"', b"true"), 'field "device": "True" names no client', ""),
    "client list": (GOOD.replace(b'"d1"', b'["d1"]'), 'field "device": "[\'d1\']" names no client', ""),
    "nested too deeply": (nested(100_000), "too deeply", ""),
    "a list too deep": (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too deeply", ""),
    "name of a category's feature": (
        GOOD.replace(b'"y"', b'"kind=a"'),
        'field "kind=a" has the name of a feature of a cat',
        "d1",
    ),
}


# A cell that is no number is missing; the record counts.
ODD = {
    "NaN": (b"NaN", ""),
    "Infinity": (b"-Infinity", "a number too large"),
    "text": (b'"wide"', '"wide" is not a number'),
    "broken digits": (b'"1_0"', '"1_0" is not a number'),
    "two numbers": (b'"1,234"', '"1,234" may be 1234 or 1.234: name the decimal mark'),
    "infinite text": (b'"-inf"', '"-inf" is infinite'),
    "list": (b'["a"]', "\"['a']\" is not a number"),
    "object": (b'{"a":"b"}', ""),
    "float too large": (b"1e999", "a number too large"),
    "integer too large": (b"-" + b"9" * 400, "a number too large"),
    "integer beyond Python": (b"9" * 10_000, "a number too large"),
    "division by zero": (b'"#DIV/0!"', ""),
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("known", [False, True])
def test_a_cell_that_is_no_number_is_missing_and_its_record_counts(case: str, known: bool) -> None:
    cell, says = ODD[case]
    reader = JsonRecords(MAP)
    if known:
        reader.decode([0], [GOOD])
    odd = GOOD.replace(b"0.5", cell)
    found = reader.decode([4, 6, 9], [GOOD, odd, GOOD])
    assert (found.rejected, found.positions.tolist()) == ((), [4, 6, 9])
    good = {"x": 1.0, "y": 0.5, "kind=a": 1.0, "kind=b": 0.0}
    assert rows(found) == [good, {name: good[name] for name in good if name != "y"}, good]
    if says:
        assert found.remarks[0].startswith(f'field "y": {says}; such cells count as missing') and found.ignored == 1
    assert reader.decode([10], [odd]).remarks == ()


def test_texts_and_lists_in_fields_without_a_role_are_left_out_and_cost_no_record() -> None:
    reader = JsonRecords(FieldMap())
    plain, more = b'{"label":"a","x":1}', b'{"label":"a","x":2,"firmware":"2.1.0","tags":["x"],"ok":"true","n":3}'
    reader.decode([0], [plain])
    found = reader.decode([1, 2], [more, plain])
    assert (found.rejected, found.features, found.ignored) == ((), ("x", "n"), 3)
    np.testing.assert_array_equal(found.X, [[2.0, 3.0], [1.0, NAN]])
    assert [remark.split(";")[:2] for remark in found.remarks] == [
        ['field "firmware": "2.1.0" is not a number', " the field is not a feature"],
        ['field "tags": "[\'x\']" is not a number', " the field is not a feature"],
        ['field "ok": "true" is not a number', " the field is not a feature"],
    ]


@pytest.mark.parametrize(
    ("cell", "remedy"),
    [
        ("20.5 \u00b0C", "write the number without its unit, or drop it"),
        ("5%", "write the number without its unit, or drop it"),
        ([{"name": "t", "value": 5}], "give each value a field of its own, or drop it"),
        ([], "give each value a field of its own, or drop it"),
        ("red", "declare its values under categories, or drop it"),
    ],
)
def test_the_remedy_for_a_field_is_one_for_what_it_holds(cell: object, remedy: str) -> None:
    found = JsonRecords(FieldMap()).decode([0], [json.dumps({"label": "a", "x": 1, "y": cell}).encode()])
    (remark,) = found.remarks
    assert remark.startswith('field "y": "')
    assert remark.endswith(f"the field is not a feature; {remedy}")


def test_fields_that_are_reported_are_bounded_whoever_invents_them() -> None:
    reader = JsonRecords(FieldMap())
    values = [b'{"label":"a","x":1,"f%d":"text"}' % i for i in range(500)]
    found = reader.decode(range(500), values)
    assert (len(found.positions), found.features, found.ignored) == (500, ("x",), 500)
    assert len(found.remarks) == 21
    assert reader.decode([500], [b'{"label":"a","x":1,"g":"text"}']).remarks == ()


def test_a_field_that_comes_after_many_records_or_becomes_an_object_is_told_once() -> None:
    reader = JsonRecords(FieldMap())
    assert reader.decode(range(1000), [b'{"label":"a","x":1,"y":1}'] * 1000).remarks == ()
    found = reader.decode([1000], [b'{"label":"a","x":{"raw":3,"unit":"C"},"y":2}'])
    assert (found.rejected, rows(found)) == ((), [{"x.raw": 3.0, "y": 2.0}])
    assert [remark.split(";")[0] for remark in found.remarks] == [
        'field "x.unit": "C" is not a number',
        'field "x.raw" is new, and a feature from here on',
    ]
    assert reader.decode([1001], [b'{"label":"a","x":{"raw":3,"unit":"C"},"y":2}']).remarks == ()


def test_missing_values_may_be_added_and_taken_away() -> None:
    fields = FieldMap(missing_values=("-999", "broken", "not:NA"), categories={"kind": ("none", "a")})
    reader = JsonRecords(fields)
    messages = [
        {"label": "NA", "x": -999, "y": "broken", "kind": "none"},
        {"label": "b", "x": "-999.0", "y": 1, "kind": "broken"},
        {"label": "None", "x": 1, "y": 1, "kind": "a"},
    ]
    for _ in range(2):  # before and after the names are known
        found = reader.decode(range(3), [json.dumps(message).encode() for message in messages])
        assert [bad.reason for bad in found.rejected] == ['field "label": the label is missing']
        assert found.labels == ("NA", "b")
        np.testing.assert_array_equal(found.X, [[NAN, NAN, 1.0, 0.0], [NAN, 1.0, NAN, NAN]])


def test_a_label_has_one_form_however_it_is_written() -> None:
    said = [1, 1.0, "1", "1.00", " 1 ", True, "true", "TRUE", "True"]
    found = decode(FieldMap(), *({"label": label, "x": 1} for label in said))
    assert (found.labels, found.y.tolist()) == (("1", "True"), [0.0] * 5 + [1.0] * 4)
    declared = FieldMap(labels=("1.0", "true"), features=("x",), closed=True)
    assert declared.labels == ("1", "True")
    assert decode(declared, *({"label": label, "x": 1} for label in said)).rejected == ()


def test_numbers_that_are_texts_have_the_decimal_mark_of_the_settings() -> None:
    said = {"label": "a", "x": "1.234,5", "y": "17,1", "z": "1,250"}
    np.testing.assert_array_equal(decode(FieldMap(decimal=","), said).X, [[1234.5, 17.1, 1.25]])
    assert decode(FieldMap(decimal="."), said).X[0, 2] == 1250.0
    assert decode(FieldMap(task="regression", decimal=","), said | {"label": "2,5"}).y.tolist() == [2.5]


@pytest.mark.parametrize("case", POISON)
@pytest.mark.parametrize("known", [False, True])
def test_a_poison_record_is_rejected_with_its_reason_and_harms_no_neighbour(case: str, known: bool) -> None:
    message, says, client = POISON[case]
    reader = JsonRecords(MAP)
    if known:
        reader.decode([0], [GOOD])
    found = reader.decode([4, 6, 9], [GOOD, message, GOOD])
    assert [r.position for r in found.rejected] == [6]
    assert found.rejected[0].reason.startswith(says) or says in found.rejected[0].reason
    assert found.rejected_clients == (client,)
    assert found.positions.tolist() == [4, 9]
    assert rows(found) == [{"x": 1.0, "y": 0.5, "kind=a": 1.0, "kind=b": 0.0}] * 2
    assert (found.y.tolist(), found.labels) == ([0.0, 0.0], ("up",))
    assert (found.clients, found.times.tolist()) == (("d1", "d1"), [1.5, 1.5])


def test_reasons_are_short_whatever_the_record_holds() -> None:
    long = "ab" * 10_000
    found = decode(FieldMap(), {"label": "a", long: long}, {"label": "a", "x": [long]})
    assert found.rejected == ()
    assert len(found.remarks) == 2 and max(map(len, found.remarks)) < 250


def test_numbers_are_read_as_in_a_file() -> None:
    found = decode(
        FieldMap(), {"label": 1, "a": 2, "b": 2.5, "c": True, "d": " 3e1 ", "e": "", "f": None, "g": "nan"}
    )
    assert found.features == ("a", "b", "c", "d", "e", "f", "g")
    np.testing.assert_array_equal(found.X, [[2.0, 2.5, 1.0, 30.0, NAN, NAN, NAN]])


def test_records_are_those_that_a_file_of_the_same_lines_gives(tmp_path: Path) -> None:
    lines = [
        {"label": 10, "a": 1, "b": {"c": 2.5, "d": True}},
        {"a": " 7 ", "label": "9", "new": 1e-300},
        {"label": 9.0, "a": None, "b": {"c": "x"}},
        {"label": None, "a": 1},
        {"label": "inf", "a": 1},
        {"label": 10, "a": "", "b.c": 12345678901234567890},
    ]
    text = "\n".join([*map(json.dumps, lines), "[1]", '{"label": 10, "a": "x1"}', '{"a": 1, "a": 2, "label": 10}'])
    (tmp_path / "f.jsonl").write_text(text)
    table = read(str(tmp_path / "f.jsonl"))
    found = JsonRecords(FieldMap()).decode(range(9), text.encode().split(b"\n"))
    assert found.features == table.features
    np.testing.assert_array_equal(found.X, table.X)
    assert found.y.tolist() == table.y.tolist()
    assert found.labels == table.labels == ("9", "10")
    assert found.positions.tolist() == table.places.tolist() == [0, 1, 2, 5, 7, 8]
    assert [r.position for r in found.rejected] == [r.position for r in table.rejected]


def test_infinity_is_missing_in_a_file_and_in_a_message(tmp_path: Path) -> None:
    lines = '{"label": 10, "a": 1e999}\n{"label": 10, "a": 1}'
    (tmp_path / "f.jsonl").write_text(lines)
    table = read(str(tmp_path / "f.jsonl"))
    assert (table.places.tolist(), table.infinite) == ([0, 1], 1)
    found = JsonRecords(FieldMap()).decode(range(2), lines.encode().split(b"\n"))
    np.testing.assert_array_equal(found.X, table.X)


def test_labels_are_those_of_the_good_records_in_their_order() -> None:
    found = decode(FieldMap(), {"label": 10, "x": 1}, {"label": "10"}, {"label": 9.0}, {"label": None, "x": 1})
    assert (found.labels, found.y.tolist()) == (("9", "10"), [1.0, 1.0, 0.0])


def test_truth_values_and_numbers_are_different_labels() -> None:
    found = decode(FieldMap(), {"label": True}, {"label": 1}, {"label": 1.0}, {"label": "True"}, {"label": False})
    assert (found.labels, found.y.tolist()) == (("1", "False", "True"), [2.0, 0.0, 0.0, 2.0, 1.0])


def test_targets_are_numbers() -> None:
    labels = [1, 2.5, "3", True, "abc", None, "", "inf", -0.0]
    found = decode(FieldMap(task="regression"), *({"label": label, "x": 1} for label in labels))
    assert (found.y.tolist(), found.labels) == ([1.0, 2.5, 3.0, -0.0], ())
    assert [(r.position, r.reason.removeprefix('field "label": ')) for r in found.rejected] == [
        (13, '"True" is not a number, and the task is regression'),
        (14, '"abc" is not a number, and the task is regression'),
        (15, "the label is missing"),
        (16, "the label is missing"),
        (17, "the label is infinite"),
    ]


def test_categories_become_columns() -> None:
    fields = FieldMap(categories={"kind": ("1", "True", "b")})
    kinds = ["b", " b ", "c", None, "", 1, 1.0, True, "nan"]
    found = decode(fields, *({"label": "a", "kind": kind, "x": 0} for kind in kinds), {"label": "a"})
    assert found.features == ("x", "kind=1", "kind=True", "kind=b")
    b, none, missing = [0.0, 0.0, 1.0], [0.0] * 3, [NAN] * 3
    expected = [b, b, none, missing, missing, [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], missing, missing]
    np.testing.assert_array_equal(found.X[:, 1:], expected)


def test_times_are_seconds_milliseconds_or_dates() -> None:
    said = [1.7e9, 1_700_000_000_123, 1e11, "2023-11-14T22:13:20Z", "2023-11-14T23:13:20.5+01:00", None, "", -1]
    fast = decode(FieldMap(time="t"), *({"label": "a", "t": t} for t in said), {"label": "a"})
    assert fast.rejected == ()
    times = [1.7e9, 1_700_000_000.123, 1e11, 1.7e9, 1.7e9 + 0.5, NAN, NAN, -1.0, NAN]
    np.testing.assert_array_equal(fast.times, times)
    assert decode(FieldMap(), {"label": "a"}).times.shape == (0,)


def test_a_date_without_an_offset_is_in_UTC_wherever_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = decode(FieldMap(time="t"), {"label": "a", "t": "2023-11-14 22:13:20"})
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found.times.tolist() == [1.7e9]


def test_clients_are_texts_or_integers() -> None:
    found = decode(
        FieldMap(client="c"), {"label": "a", "c": 7}, {"label": "a", "c": " d "}, {"label": "a", "c": "nan"}
    )
    assert found.clients == ("7", "d", "nan")
    assert decode(FieldMap(), {"label": "a"}, b"").clients == ()
    assert decode(FieldMap(), {"label": "a"}, b"").rejected_clients == ()


def test_listed_features_are_all_and_nothing_else_is_looked_at() -> None:
    fields = FieldMap(features=("b", "p.q"), label="m.y")
    found = decode(
        fields,
        {"m.y": "a", "b": 1, "p.q": 2, "other": "text"},
        {"m": {"y": "a", "z": "text"}, "b": 1, "p": {"q": 2, "r": 5}, "other": [1]},
        b'{"m.y":"a","b":1,"p.q":2,"other":1e999}',
        b'{"m":{"y":"a"},"b":"1","p.q":2,"other":1e999}',
        {"m.y": "a", "p": None},
    )
    assert found.rejected == ()
    assert found.features == ("b", "p.q")
    np.testing.assert_array_equal(found.X, [[1.0, 2.0]] * 4 + [[NAN, NAN]])


def test_dropped_fields_are_not_looked_at() -> None:
    reader = JsonRecords(FieldMap(drop=("id", "meta", 'a"b'), label="meta.y"))
    messages = [
        b'{"meta.y":"u","x":1,"id":"text"}',
        b'{"meta":{"y":"u","who":"text"},"x":1,"id":{"deep":[1]}}',
        b'{"meta.y":"u","x":1,"id":1e999}',
        b'{"meta.y":"u","x":"1","id":"text","a\\"b":"text","meta.who":"text"}',
    ]
    for _ in range(2):  # before and after the names are known
        found = reader.decode(range(4), messages)
        assert found.rejected == ()
        assert rows(found) == [{"x": 1.0}] * 4


@pytest.mark.parametrize("value", [b'"\xff"', b"[" * 100_000 + b"]" * 100_000, b"tru"])
@pytest.mark.parametrize("fields", [FieldMap(features=("x",)), FieldMap(drop=("id",))])
def test_what_is_not_looked_at_has_to_be_JSON_all_the_same(fields: FieldMap, value: bytes) -> None:
    reader, good = JsonRecords(fields), b'{"label":"a","x":1,"id":2}'
    for _ in range(2):  # before and after the names are known
        found = reader.decode([0, 1, 2], [good, good.replace(b"2", value), good])
        assert found.positions.tolist() == [0, 2]
        assert len(found.rejected) == 1


def test_columns_are_remembered_from_good_records_only() -> None:
    reader = JsonRecords(FieldMap())
    first = reader.decode([0, 1], [b'{"label":"a","x":1}', b'{"z":1}'])
    second = reader.decode([2, 3], [b'{"label":"a","y":2}', b'{"label":[],"w":1}'])
    third = reader.decode([4], [b'{"label":"a"}'])
    assert [found.features for found in (first, second, third)] == [("x",), ("x", "y"), ("x", "y")]
    np.testing.assert_array_equal(second.X, [[NAN, 2.0]])
    assert third.X.shape == (1, 2)


def test_features_beyond_the_limit_are_left_out_and_their_records_kept() -> None:
    reader = JsonRecords(FieldMap(), Limits(features=3))
    first = reader.decode([0, 1], [b'{"label":"a","x":1,"y":2}', b'{"label":"b","p":3,"q":4,"x":5}'])
    # One name has room: p, which comes first in its record.
    assert first.features == ("x", "y", "p")
    np.testing.assert_array_equal(first.X, [[1.0, 2.0, NAN], [5.0, NAN, 3.0]])
    assert (first.rejected, first.ignored) == ((), 1)
    assert [remark.split(";")[0] for remark in first.remarks] == [
        "features beyond the limit of 3, or with names of more than 256 bytes, are left out"
    ]
    again = reader.decode([2, 3], [b'{"label":"a","q":6,"r":7}', b'{"label":"a","x":8,"p":9}'])
    np.testing.assert_array_equal(again.X, [[NAN, NAN, NAN], [8.0, NAN, 9.0]])
    assert (again.features, again.ignored, again.remarks) == (("x", "y", "p"), 2, ())


def test_the_features_of_categories_count_too() -> None:
    reader = JsonRecords(FieldMap(categories={"kind": ("u", "v")}), Limits(features=3))
    found = reader.decode([0], [b'{"label":"a","kind":"u","x":1,"y":2}'])
    assert (found.features, found.X.tolist(), found.ignored) == (("x", "kind=u", "kind=v"), [[1.0, 1.0, 0.0]], 1)


def test_a_feature_whose_name_is_too_long_is_left_out() -> None:
    long, fits = "é" * 129, "é" * 128
    found = decode(FieldMap(), {"label": "a", long: 1, fits: 2})
    assert (found.features, found.X.tolist(), found.ignored) == ((fits,), [[2.0]], 1)


def test_labels_beyond_the_limit_are_rejected_and_bring_no_features() -> None:
    reader = JsonRecords(FieldMap(), Limits(labels=2))
    said = [b'{"label":"b","x":1}', b'{"label":"c"}', b'{"label":"a","y":1}', b'{"label":"b"}', b'{"x":1}']
    found = reader.decode(range(5), said)
    # c comes before a, and takes the last place.
    assert (found.positions.tolist(), found.labels, found.features) == ([0, 1, 3], ("b", "c"), ("x",))
    assert [(r.position, r.reason) for r in found.rejected] == [
        (2, 'field "label": "a" is beyond the limit of 2 labels'),
        (4, 'field "label": the label is missing'),
    ]
    assert len(found.remarks) == 1
    again = reader.decode([5], [b'{"label":"d"}'])
    assert (len(again.rejected), again.remarks) == (1, ())
    # Another partition's reader knows none of these.
    assert reader.fresh().decode([0], [b'{"label":"d"}']).labels == ("d",)


def test_a_record_that_is_bad_for_another_reason_brings_no_label() -> None:
    reader = JsonRecords(FieldMap(client="of"), Limits(labels=1))
    found = reader.decode([0, 1], [b'{"label":"a","x":1}', b'{"label":"b","of":"c","x":1}'])
    assert (found.positions.tolist(), found.labels) == ([1], ("b",))
    assert [r.reason for r in found.rejected] == ['field "of": the client is missing']


def test_a_label_or_a_client_whose_name_is_too_long_is_a_bad_record() -> None:
    found = decode(FieldMap(client="of"), {"label": "x" * 190_000, "of": "c"}, {"label": "a", "of": "y" * 257})
    assert [r.reason[:60] for r in found.rejected] == [
        'field "label": the label has more than 256 bytes, or is not ',
        'field "of": the name of the client has more than 256 bytes: ',
    ]
    assert max(len(r.reason) for r in found.rejected) < 150
    assert found.rejected_clients == ("c", "")
    long = decode(FieldMap(client="of"), {"label": "a", "of": "y" * 257, "x": "wide"})
    assert long.rejected_clients == ("",)


CLOSED = FieldMap(features=("x", "p.y"), labels=("a", "b"), categories={"kind": ("u",)}, closed=True)


def test_a_closed_schema_takes_what_it_names_and_nothing_else() -> None:
    reader = JsonRecords(CLOSED)
    found = reader.decode(
        range(3),
        [
            b'{"label":"b","x":1,"p":{"y":2,"z":3},"kind":"u"}',
            b'{"label":"a","x":4,"other":5,"note":"text"}',
            b'{"label":"c","x":6,"more":7}',
        ],
    )
    assert found.features == ("x", "p.y", "kind=u")
    np.testing.assert_array_equal(found.X, [[1.0, 2.0, 1.0], [4.0, NAN, NAN]])
    assert found.labels == ("a", "b")
    assert [r.reason for r in found.rejected] == ['field "label": "c" is not declared under labels']
    assert found.ignored == 2  # of records that count
    assert [remark.split(",")[0] for remark in found.remarks] == [
        "fields that [records.fields] does not name are ignored"
    ]


def test_a_closed_schema_of_categories_alone_has_no_other_features() -> None:
    fields = FieldMap(labels=("a",), categories={"kind": ("u",)}, closed=True)
    found = decode(fields, {"label": "a", "kind": "u", "x": 1})
    assert (found.features, found.X.tolist(), found.ignored) == (("kind=u",), [[1.0]], 1)


def test_values_of_a_category_that_are_not_declared_are_counted() -> None:
    reader = JsonRecords(FieldMap(categories={"kind": ("u", "v"), "hue": ("red",)}))
    messages = [{"label": "a", "kind": kind, "hue": "red"} for kind in ("u", "w", None, "z")] + [{"kind": "w"}]
    found = reader.decode(range(5), [json.dumps(message).encode() for message in messages])
    assert found.unknown == {"kind": 2}  # a missing value and a bad record are none
    assert found.remarks == ('values of category "kind" that are not declared set none of its features',)
    assert reader.decode([5], [b'{"label":"a","kind":"w"}']).remarks == ()


@pytest.mark.parametrize("number", [True, False])
def test_labels_that_look_like_an_identifier_are_said_to(number: bool) -> None:
    reader = JsonRecords(FieldMap(label="id"))
    told: list[str] = []
    for start in range(0, 1200, 50):
        # 19 of 20 records have another label than all before: too few to be judged before 1000 are there.
        labels = [0 if i % 20 == 0 else i for i in range(start, start + 50)]
        values = [json.dumps({"id": k if number else f"k{k}"}).encode() for k in labels]
        told += reader.decode(range(start, start + 50), values).remarks
    assert (
        told[0]
        == "label column 'id' may be an identifier and not a label: it has 951 distinct values in 1000 records"
    )
    assert [remark for remark in told if "identifier" in remark] == told[:1]


def test_only_the_first_thousand_labels_are_looked_at_however_they_come() -> None:
    known = KnownLabels(Limits(), Remarks(), "id")
    texts = [f"n{i}" for i in range(1260)]
    known.refused(np.arange(900) % 560, texts)
    known.refused(560 + np.arange(700), texts)  # 660 of 1000 differ, and 1260 of 1600
    assert known.remarks.new() == (
        "there are more than 1024 labels, which is the limit: records with further labels are rejected; "
        "raise most_labels in [federation], or name another field",
    )


def test_no_real_column_of_labels_looks_like_an_identifier() -> None:
    for classes in (2, 7, 10, 26, 1000):
        rng = np.random.default_rng(classes)
        reader = JsonRecords(FieldMap())
        for start in range(0, 2000, 40):
            values = [b'{"label":%d}' % k for k in rng.integers(0, classes, 40)]
            assert reader.decode(range(start, start + 40), values).remarks == ()


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.integers(0, 30), st.dictionaries(st.integers(0, 60).map("f{}".format), st.just(1), max_size=9)
            ),
            max_size=8,
        ),
        max_size=8,
    )
)
def test_whatever_comes_a_reader_keeps_no_more_names_than_its_limits(
    blocks: list[list[tuple[int, dict[str, int]]]],
) -> None:
    reader, at = JsonRecords(FieldMap(), Limits(features=7, labels=5)), 0
    labels: set[str] = set()
    for block in blocks:
        values = [json.dumps({"label": f"l{label}", **numbers}).encode() for label, numbers in block]
        found = reader.decode(range(at, at + len(values)), values)
        at += len(values)
        labels |= set(found.labels)
        # Every record is there, as a good one or as one of a label too many; none is lost for its features.
        assert len(found.positions) + len(found.rejected) == len(values)
        assert all("beyond the limit of 5 labels" in bad.reason for bad in found.rejected)
        assert len(found.features) <= 7
    assert len(labels) <= 5


def test_of_a_name_that_comes_twice_the_last_counts() -> None:
    message = b'{"label":"a","x":1,"x":2,"label":"b","p":{"q":1},"p.q":3}'
    reader = JsonRecords(FieldMap())
    for _ in range(2):  # before and after the names are known
        found = reader.decode([0], [message])
        assert (found.X.tolist(), found.labels) == ([[2.0, 3.0]], ("b",))


def test_names_that_JSON_escapes_are_names() -> None:
    message = json.dumps({"label": "a", 'p"q': 1, "größe": 2, "tab\t": 3, "x": 4}).encode()
    reader = JsonRecords(FieldMap())
    for _ in range(2):
        found = reader.decode([0, 1], [message, b'{"label":"a","\\u0078":5}'])
        assert found.features == ('p"q', "größe", "tab\t", "x")
        np.testing.assert_array_equal(found.X, [[1.0, 2.0, 3.0, 4.0], [NAN, NAN, NAN, 5.0]])
    np.testing.assert_array_equal(reader.decode([0], [b'{"label":"a","x":6}']).X, [[NAN, NAN, NAN, 6.0]])
    assert decode(FieldMap(label='p"q', features=("x",)), json.loads(message)).X.tolist() == [[4.0]]


def test_no_messages_are_no_records() -> None:
    found = JsonRecords(FieldMap(features=("a",), client="c", time="t")).decode([], [])
    assert found.X.shape == (0, 1)
    assert (len(found.positions), found.labels, found.rejected) == (0, (), ())


SAME = [
    b'{"label":"u","x":1,"y":-0.0}',
    b'{"label":true,"x":12345678901234567890123,"y":1e-320}',
    b'{"label":1.5,"x":0.1,"y":null,"x":2}',
    b' {"y":false, "\\u0078":1E5, "label":"\\u00e9"}\n',
    b'{"label":-0,"x":9007199254740993}',
    b"{}",
]


@pytest.mark.parametrize("message", SAME)
def test_the_fast_path_reads_what_the_slow_one_reads(message: bytes) -> None:
    fields = FieldMap()
    fast = FlatJson(fields, ["x", "y"])
    cells = fast.cells([message])[0]
    assert cells is not None
    slow = AnyJson(fields).read(message)
    assert repr(cells[0]) == repr(slow.head[0])
    expected = np.array([slow.numbers.get("x", NAN), slow.numbers.get("y", NAN)])
    assert fast.rows([cells]).tobytes() == expected.tobytes()


def test_flat_records_of_known_fields_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = JsonRecords(MAP)
    reader.decode([0], [GOOD])

    def refuse(*_: object) -> None:
        raise UnusableRecordError("looked at one by one")

    monkeypatch.setattr(AnyJson, "read", refuse)
    messages = [GOOD, GOOD.replace(b"0.5", b"null"), GOOD.replace(b'"d1"', b"4").replace(b"1.5", b'"2024-01-01"')]
    assert reader.decode(range(3), messages).rejected == ()
    assert len(reader.decode([0], [GOOD.replace(b'"x"', b'"new"')]).rejected) == 1


def test_records_are_written_as_short_as_they_read_back() -> None:
    fields = FieldMap(client="c", time="t", categories={"k": ("a", "other")})
    features = ("x", "k=a", "y", "k=other", "p.q")
    reader = JsonRecords(fields)

    def written(*values: float) -> bytes:
        return reader.encode(features, values, "3", "d", 1.5)

    assert written(3.0, 1, NAN, 0, -0.0) == b'{"label":"3","c":"d","t":1.5,"k":"a","x":3,"p.q":-0.0}'
    assert (
        written(0.1, 0, 2.0**53, 0, 1)
        == b'{"label":"3","c":"d","t":1.5,"k":"other_","x":0.1,"y":9007199254740992.0,"p.q":1}'
    )
    assert written(0.0, NAN, 1, NAN, 1) == b'{"label":"3","c":"d","t":1.5,"x":0,"y":1,"p.q":1}'
    timed = JsonRecords(FieldMap(time="t"))
    assert timed.encode((), (), "a", time=NAN) == timed.encode((), (), "a") == b'{"label":"a"}'
    plain = JsonRecords(FieldMap(task="regression"))
    assert plain.encode(("x",), np.array([1.0]), np.float64(0.5)) == b'{"label":0.5,"x":1}'
    assert plain.encode(("y",), [2.0], 2.0) == b'{"label":2.0,"y":2}'


UNWRITABLE = {
    "infinite": (FieldMap(), ("x",), [np.inf], "a", None, None, '"x" of a record is infinite'),
    "label missing": (FieldMap(), ("x",), [1.0], "", None, None, "label"),
    "label read as missing": (FieldMap(), ("x",), [1.0], "nan", None, None, 'label "nan"'),
    "label read as infinite": (FieldMap(), ("x",), [1.0], "inf", None, None, 'label "inf"'),
    "label with blanks": (FieldMap(), ("x",), [1.0], "a ", None, None, 'label "a "'),
    "target infinite": (FieldMap(task="regression"), ("x",), [1.0], np.inf, None, None, 'label "inf"'),
    "target missing": (FieldMap(task="regression"), ("x",), [1.0], NAN, None, None, 'label "nan"'),
    "target in words": (FieldMap(task="regression"), ("x",), [1.0], "a", None, None, 'label "a"'),
    "no client": (FieldMap(client="c"), ("x",), [1.0], "a", None, None, "give a name"),
    "client with blanks": (FieldMap(client="c"), ("x",), [1.0], "a", "d ", None, "blanks"),
    "time read as milliseconds": (FieldMap(time="t"), ("x",), [1.0], "a", None, 1e12, "seconds since 1970"),
    "feature named like the label": (FieldMap(), ("label",), [1.0], "a", None, None, "field label; rename"),
    "feature twice": (FieldMap(), ("x", "x"), [1.0, 2.0], "a", None, None, "field x; rename"),
    "two values at once": (
        FieldMap(categories={"k": ("a", "b")}),
        ("k=a", "k=b"),
        [1.0, 1.0],
        "a",
        None,
        None,
        '"k"',
    ),
    "half a value": (FieldMap(categories={"k": ("a", "b")}), ("k=a", "k=b"), [0.5, 0.0], "a", None, None, '"k"'),
    "half missing": (FieldMap(categories={"k": ("a", "b")}), ("k=a", "k=b"), [NAN, 0.0], "a", None, None, '"k"'),
}


@pytest.mark.parametrize("case", UNWRITABLE)
def test_what_would_not_read_back_is_not_written(case: str) -> None:
    fields, features, values, label, client, when, says = UNWRITABLE[case]
    with pytest.raises(UsageError, match=says):
        JsonRecords(fields).encode(features, values, label, client, when)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (FieldMap(features=tuple("abcd")), "names 4 features, but at most 3 are possible; raise most_features"),
        (FieldMap(features=("a", "b"), categories={"k": ("u", "v")}), "names 4 features"),
        (FieldMap(labels=tuple("abcd"), closed=True, features=("x",)), "names 4 labels"),
        (FieldMap(features=("x" * 257,)), "a feature of more than 256 bytes"),
    ],
)
def test_a_map_of_more_names_than_there_may_be_is_refused(fields: FieldMap, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        JsonRecords(fields, Limits(features=3, labels=3))


def test_a_long_name_outside_many_takes_no_more_memory_than_the_message() -> None:
    """Each of 5,000 names inside would have 100,000 characters: half a gigabyte."""
    inside = b",".join(b'"a%d":1' % i for i in range(5_000))
    message = b'{"label":"u","x":2,"' + b"o" * 100_000 + b'":{' + inside + b"}}"
    tracemalloc.start()
    found = JsonRecords(FieldMap()).decode([0], [message])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.features, found.X.tolist(), found.ignored) == (("x",), [[2.0]], 5_000)
    assert most < 50 * len(message)


# --- records without labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more", [{}, {"features": ("x", "y")}, {"client": "device", "categories": {"hue": ("red",)}}]
)
def test_records_without_labels_have_the_features_of_those_with_labels(more):
    fields = FieldMap(label="kind", drop=("note",), **more)
    labelled = [
        b'{"kind":"a","x":1,"y":null,"device":"d","hue":"red","note":"n"}',
        b'{"x":2,"kind":"b","device":7,"y":3}',
    ]
    unlabelled = [
        b'{"x":1,"y":null,"device":"d","hue":"red","note":"n"}',
        b'{"x":2,"kind":{"of":"any"},"device":7,"y":3}',  # a label is left out, whatever it is
    ]
    if not more:
        labelled = [value.replace(b'"device":"d",', b"").replace(b'"hue":"red",', b"") for value in labelled]
        unlabelled = [value.replace(b'"device":"d",', b"").replace(b'"hue":"red",', b"") for value in unlabelled]
    expected = JsonRecords(fields).decode([3, 4], labelled)
    found = JsonRecords(fields.model_copy(update={"task": "unlabelled"})).decode([3, 4], unlabelled)
    assert found.rejected == expected.rejected == ()
    assert found.features == expected.features
    np.testing.assert_array_equal(found.X, expected.X)
    assert (found.clients, found.labels, found.y.tolist()) == (expected.clients, (), [0.0, 0.0])


def test_a_bad_record_without_a_label_is_rejected_with_its_reason():
    found = JsonRecords(FieldMap(task="unlabelled")).decode([3, 4, 5], [b'{"x":"wide"}', b"[]", None])
    assert [one.position for one in found.rejected] == [4, 5]
    assert found.rejected[0].reason == "not a JSON object"


# --- halves ----------------------------------------------------------------------------------------------------


def told(fields: FieldMap, *values: bytes):
    return JsonRecords(fields).decode(range(len(values)), values)


KEYLESS = [
    (b'{"x":1,"label":"a"}', 'field "id": the key is missing'),
    (b'{"x":1,"label":"a","id":null}', 'field "id": the key is missing'),
    (b'{"x":1,"label":"a","id":"  "}', 'field "id": the key is missing'),
    (b'{"x":1,"label":"a","id":1.5}', 'field "id": "1.5" names no key; write a text or an integer'),
    (b'{"x":1,"label":"a","id":true}', 'field "id": "True" names no key; write a text or an integer'),
    (b'{"x":1,"label":"a","id":[1]}', 'field "id": "[1]" names no key; write a text or an integer'),
    (b'{"x":1,"label":"a","id":"' + b"k" * 257 + b'"}', 'field "id": the key has more than 256 bytes'),
]


@pytest.mark.parametrize("half", ["features", "labels"])
@pytest.mark.parametrize(("message", "reason"), KEYLESS)
def test_a_record_without_a_usable_key_is_bad_in_either_half(half, message, reason):
    fields = LabelMap(key="id") if half == "labels" else FieldMap(task="unlabelled", key="id")
    (bad,) = told(fields, message).rejected
    assert bad.reason.startswith(reason)


def test_features_carry_keys_and_no_label():
    found = told(FieldMap(task="unlabelled", key="id"), b'{"id":7,"x":1,"label":"a"}', b"{", b'{"x":2,"id":" k "}')
    assert (found.features, found.X.tolist(), found.labels) == (("x",), [[1.0], [2.0]], ())
    assert (found.half.kind, found.half.keys.tolist()) == ("features", ["7", "k"])
    assert [bad.position for bad in found.rejected] == [1]


def test_a_rejected_record_carries_its_key_if_that_can_be_read():
    fields = FieldMap(task="unlabelled", key="id", features=("x",), client="c")
    messages = [
        b'{"id":"k","x":1}',
        b'{"id":7,"x":1,"c":" "}',
        b'{"x":1e999,"id":"l"}',
        b'{"id":"m","x":',
        b"",
    ]
    bad = told(fields, *messages, b'{"id":" ","x":1,"c":"a"}').rejected
    assert [(one.position, one.key) for one in bad] == [(0, "k"), (1, "7"), (2, "l"), (3, ""), (4, ""), (5, "")]


def test_labels_carry_keys_and_nothing_else():
    message = b'{"id":"k","label":"b","x":"wide","by":{"name":[1]}}'
    found = told(LabelMap(key="id"), message, b'{"label":"","id":"l"}', b'{"id":"m","label":"a"}')
    assert (found.features, found.X.shape, found.labels, found.y.tolist()) == ((), (2, 0), ("a", "b"), [1.0, 0.0])
    assert (found.half.kind, found.half.keys.tolist(), found.ignored) == ("labels", ["k", "m"], 0)
    assert [bad.reason for bad in found.rejected] == ['field "label": the label is missing']


@pytest.mark.parametrize("label", [b'["a"]', b'{"name":"a"}', b"null", b"1e400", b'"' + b"a" * 257 + b'"'])
def test_labels_of_a_wrong_type_are_bad_in_a_half_and_leave_no_key(label):
    found = told(LabelMap(key="id"), b'{"id":"k","label":' + label + b"}", b'{"id":"l","label":"a"}')
    assert (found.labels, found.half.keys.tolist()) == (("a",), ["l"])
    assert [bad.position for bad in found.rejected] == [0]


def test_targets_of_a_wrong_type_are_bad_in_a_half_too():
    found = told(LabelMap(key="id", task="regression"), b'{"id":"k","label":"b"}', b'{"id":"l","label":2.5}')
    assert (found.y.tolist(), found.half.keys.tolist(), len(found.rejected)) == ([2.5], ["l"], 1)


def test_halves_are_written_as_they_are_read():
    features = JsonRecords(FieldMap(task="unlabelled", key="id")).encode(("x",), [1.5], "a", key="7")
    label = JsonRecords(LabelMap(key="id")).encode((), [], "a", key="7")
    assert (features, label) == (b'{"id":"7","x":1.5}', b'{"label":"a","id":"7"}')
