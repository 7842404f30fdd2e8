"""A dict with texts and gaps becomes the row that a file with it has, without the texts that come only later."""

import json
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamfl
from streamfl.records.encoding import Encoding
from streamfl.run.estimators.rows import Rows
from streamfl.run.estimators.saved import SavedColumns

# What is missing, in a file or here.
GAPS = st.sampled_from([None, math.nan, "NA", " - "])
TEXTS = st.sampled_from(["N", "S", "north west", " N"])
RECORDS = st.lists(
    st.fixed_dictionaries({"t": st.floats(-3.0, 3.0) | GAPS, "ok": st.booleans(), "wind": TEXTS | GAPS}),
    min_size=1,
    max_size=12,
)


def values(features: Any, row: Any) -> dict[str, float]:
    """Return what is not missing."""
    return {name: value for name, value in zip(features, row, strict=True) if not math.isnan(value)}


def learnt(rows: Rows, records: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Return the values of records that are learnt one by one."""
    found = []
    for x in records:
        row = rows.row(x)
        rows.learn(row)
        found.append(values(row.features, row.X[0]))
    return found


def is_missing(value: object) -> bool:
    return value in {None, "NA", " - "} or (isinstance(value, float) and math.isnan(value))


@given(RECORDS)
def test_records_become_the_rows_of_a_file_with_them(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("file") / "records.jsonl"
    lines = [json.dumps({**x, "label": "ab"[i % 2]}) for i, x in enumerate([{"ok": True}, *records])]
    path.write_text("\n".join(lines).replace("NaN", "null"))
    table = streamfl.read(str(path))
    begun = set[str]()
    for found, row in zip(learnt(Rows(), records), table.X[1:].tolist(), strict=True):
        begun |= {*found}
        assert found == {name: value for name, value in values(table.features, row).items() if name in begun}


@given(RECORDS, st.data())
def test_missing_values_and_absent_keys_are_one(records: list[dict[str, Any]], data: st.DataObject) -> None:
    absent = [{name: value for name, value in x.items() if not is_missing(value)} for x in records]
    others = [{name: data.draw(GAPS) if is_missing(value) else value for name, value in x.items()} for x in records]
    assert learnt(Rows(), others) == learnt(Rows(), absent) == learnt(Rows(), records)


@given(RECORDS, RECORDS)
def test_what_is_saved_and_a_model_file_read_records_as_the_estimator_does(
    records: list[dict[str, Any]], rest: list[dict[str, Any]]
) -> None:
    rows = Rows()
    learnt(rows, records)
    saved = SavedColumns.of(rows.columns, rows.unusable)
    features = tuple(name for column in rows.columns.values() for name in column.features)
    encoding = Encoding(features, saved.categories)
    for x in rest:
        row, (names, X, _) = rows.row(x), encoding.encoded({name: [value] for name, value in x.items()})
        known = {name: value for name, value in values(row.features, row.X[0]).items() if name in features}
        assert known == values(names, X[0])
    again = Rows(columns=saved.restored(), unusable=dict(saved.unusable))
    assert learnt(again, rest) == learnt(rows, rest)
    assert again.columns == rows.columns


@given(RECORDS)
def test_a_frame_teaches_what_its_records_teach_one_by_one(records: list[dict[str, Any]]) -> None:
    one_by_one, at_once = Rows(), Rows()
    frame = pl.DataFrame({name: pl.Series([x[name] for x in records], dtype=pl.Object) for name in records[0]})
    expected, told = learnt(one_by_one, records), at_once.many(frame)
    at_once.learn(told)
    begun = set[str]()
    for found, row in zip(expected, told.X, strict=True):
        begun |= {*found}
        assert found == {name: value for name, value in values(told.features, row).items() if name in begun}
    assert at_once.columns == one_by_one.columns
