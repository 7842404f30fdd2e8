import gzip
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from streamfl.errors import UsageError
from streamfl.records.assembly import MAX_COLUMNS
from streamfl.records.files.covtype import covtype
from streamfl.records.files.lines import LONGEST
from streamfl.records.files.readers import read
from streamfl.records.objects import Columns, counted, flat
from streamfl.records.request import Request
from streamfl.records.table import Table
from streamfl.records.values.cells import number
from streamfl.records.values.numerals import Decimal
from streamfl.records.values.times import looks_like_times

SMALL = "width,colour,y\n1,red,b\n,blue,a\nx,red,a\n4.5,,b\n"


def csv(folder: Path, text: str, name: str = "f.csv", **options: object) -> Table:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return read(str(path), **options)  # type: ignore[arg-type]


def jsonl(folder: Path, records: Sequence[object], **options: object) -> Table:
    path = folder / "f.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return read(str(path), **options)  # type: ignore[arg-type]


def reasons(table: Table) -> dict[int, str]:
    return {rejection.position: rejection.reason for rejection in table.rejected}


@pytest.mark.parametrize("name", ["f.csv", "f.csv.gz", "F.CSV"])
def test_a_csv_file_gives_its_features_labels_and_bad_records(name: str, tmp_path: Path) -> None:
    table = csv(tmp_path, SMALL, name)
    assert table.name == name
    assert table.features == ("width", "colour=blue", "colour=red")
    nan = math.nan
    np.testing.assert_array_equal(table.X, [[1, 0, 1], [nan, 1, 0], [nan, 0, 1], [4.5, nan, nan]])
    assert table.labels == ("a", "b")
    np.testing.assert_array_equal(table.places, [0, 1, 2, 3])
    assert reasons(table) == {}
    assert table.notes == ('column width: 1 cell (line 4) is not a number and counts as missing, such as "x"',)


@pytest.mark.parametrize("word", ["NA", "n/a", "null", "NaN", "None", "?", "-", " ", "#N/A", "<NA>"])
def test_a_number_that_is_said_to_be_missing_is_missing(word: str, tmp_path: Path) -> None:
    table = csv(tmp_path, f"a,b,y\n1,2,0\n{word},3,1\n")
    np.testing.assert_array_equal(table.X, [[1, 2], [math.nan, 3]])
    assert table.rejected == ()


@pytest.mark.parametrize("word", ["1-000", "-1_0", "1,00,0", "1,2,3", "12 34", "5 kg", "0x10"])
def test_what_is_no_number_is_told(word: str) -> None:
    with pytest.raises(ValueError, match=f'"{word}" is not a number$'):
        number(word)


def test_the_label_column_is_named_whether_told_or_guessed(tmp_path: Path) -> None:
    assert csv(tmp_path, SMALL).label == SMALL.splitlines()[0].split(",")[-1]
    assert csv(tmp_path, "a,b,c\n1,2,0\n3,4,1\n", label="a").label == "a"


def test_every_kind_of_bad_record_is_listed_by_its_number_and_line(tmp_path: Path) -> None:
    text = 'a,b,y\n1,2,0\n1,2\n\n1,inf,0\n"1\n",1e999,0\n1,2,\n1,2,nan\n1_0,2,0\n1,2,3,4\n5,6,1\n'
    table = csv(tmp_path, text)
    assert reasons(table) == {
        1: "line 3: it has 2 fields, but the header has 3",
        4: 'line 8, column "y": the label is missing',
        5: 'line 9, column "y": the label is missing',
        7: "line 11: it has 4 fields, but the header has 3",
    }
    np.testing.assert_array_equal(table.places, [0, 2, 3, 6, 8])
    np.testing.assert_array_equal(table.X, [[1, 2], [1, math.nan], [1, math.nan], [math.nan, 2], [5, 6]])
    assert table.infinite == 2


def test_infinities_of_bad_records_are_not_counted(tmp_path: Path) -> None:
    table = csv(tmp_path, "a,b,y\ninf,-inf,0\ninf,2,\n1,2,inf\n3,infinity,1\n")
    np.testing.assert_array_equal(table.X, [[math.nan, math.nan], [3, math.nan]])
    assert (table.infinite, list(reasons(table))) == (3, [1, 2])


def test_a_csv_file_may_have_a_byte_order_mark_crlf_and_quotes(tmp_path: Path) -> None:
    table = csv(tmp_path, '\ufeff"a","b ",y\r\n"1", 2 ,"x, y"\r\n', "f.csv")
    assert table.features == ("a", "b")
    np.testing.assert_array_equal(table.X, [[1, 2]])
    assert table.labels == ("x, y",)


def test_a_column_without_a_name_gets_one(tmp_path: Path) -> None:
    assert csv(tmp_path, ",a,y\n0,1,0\n").features == ("column1", "a")


@pytest.mark.parametrize(
    ("header", "options", "label"),
    [
        ("a,Target,b", {}, 1),
        ("target,a,LABEL", {}, 2),
        ("a,b,c", {}, 2),
        ("a,b,c", {"label": "a"}, 0),
        ("a,b,c", {"drop": ["c"]}, 1),
        ("a,b,c", {"time": "c"}, 1),
        ("y,b,c", {"drop": ["y"]}, 2),
    ],
)
def test_the_label_column_is_found_by_its_name_or_is_the_last(
    header: str, options: dict[str, object], label: int, tmp_path: Path
) -> None:
    table = csv(tmp_path, header + "\n10,11,12\n", **options)
    assert table.labels == (str(10 + label),)
    names = header.split(",")
    aside = {*options.get("drop", ()), options.get("time"), names[label]}  # type: ignore[misc]
    assert table.features == tuple(name for name in names if name not in aside)


@pytest.mark.parametrize(
    ("values", "task", "labels", "y"),
    [
        (["10", "9", "10"], "auto", ("9", "10"), [1, 0, 1]),
        (["2.0", "1.0", "10.00"], "auto", ("1", "2", "10"), [1, 0, 2]),
        (["b", "10", "a"], "auto", ("10", "a", "b"), [2, 0, 1]),
        (["True", "False", "True"], "auto", ("False", "True"), [1, 0, 1]),
        (["1", "2.5", "-3"], "auto", (), [1, 2.5, -3]),
        (["1", "2", "3"], "regression", (), [1, 2, 3]),
        (["1", "2.5", "1"], "classification", ("1", "2.5"), [0, 1, 0]),
        (["7", "7", "7"], "auto", ("7",), [0, 0, 0]),
    ],
)
def test_values_of_the_label_column_decide_between_labels_and_targets(
    values: list[str], task: str, labels: tuple[str, ...], y: list[float], tmp_path: Path
) -> None:
    table = csv(tmp_path, "a,y\n" + "".join(f"0,{value}\n" for value in values), task=task)
    assert table.labels == labels
    np.testing.assert_array_equal(table.y, y)


def test_a_text_among_targets_is_a_bad_record_wherever_the_first_fraction_is(tmp_path: Path) -> None:
    table = csv(tmp_path, "a,y\n1,x\n2,3\n" + "3,0.5\n" * 9000)
    assert len(table) == 9001
    assert reasons(table) == {0: 'line 2, column "y": "x" is not a number, and the task is regression'}
    np.testing.assert_array_equal(table.y[:2], [3, 0.5])
    np.testing.assert_array_equal(table.X[:2], [[2], [3]])
    np.testing.assert_array_equal(table.places[[0, -1]], [1, 9001])


def test_a_label_of_bad_records_only_is_no_label(tmp_path: Path) -> None:
    assert csv(tmp_path, "a,y\n1,p\n1,q,r\n").labels == ("p",)


def test_a_column_half_of_whose_first_thousand_values_are_numbers_is_numbers(tmp_path: Path) -> None:
    table = csv(tmp_path, "a,y\n" + "x,0\n" * 500 + "1,0\n" * 500)
    assert (table.features, len(table), int(np.isnan(table.X).sum())) == (("a",), 1000, 500)
    assert csv(tmp_path, "a,y\n" + "x,0\n" * 501 + "1,0\n" * 499).features == ("a=1", "a=x")


@pytest.mark.parametrize(("separator", "decimal"), [(";", None), ("\t", None), ("\t", ",")])
def test_thousands_are_thousands_in_every_block_of_a_file_with_decimal_commas(
    separator: str, decimal: Decimal | None, tmp_path: Path
) -> None:
    path = tmp_path / ("f.csv" if separator == ";" else "f.tsv")
    rows = [f"{20 + i % 9},5|1.{300 + i % 100}|{'ab'[i % 2] * 50}" for i in range(9000)]
    path.write_text("\n".join(["t|speed|label", *rows]).replace("|", separator) + "\n")
    X = read(str(path), separator=separator, decimal=decimal).X
    assert (X[:, 0].min(), X[:, 0].max(), X[:, 1].min(), X[:, 1].max()) == (20.5, 28.5, 1300.0, 1399.0)


def test_a_value_first_seen_after_a_thousand_records_becomes_a_feature_that_is_missing_before(tmp_path: Path) -> None:
    nan = math.nan
    table = csv(tmp_path, "a,y\n" + "x,0\n" * 1000 + "1,0\nz,0\n,0\n" + "x,0\n" * 9000 + "w,0\nx,0\n")
    assert table.features == ("a=x", "a=1", "a=z", "a=w")
    at = [[1, nan, nan, nan], [0, 1, nan, nan], [0, 0, 1, nan], [nan, nan, nan, nan], [1, 0, 0, nan]]
    np.testing.assert_array_equal(table.X[999:1004], at)
    np.testing.assert_array_equal(table.X[-2:], [[0, 0, 0, 1], [1, 0, 0, 0]])
    assert table.categories == {"a": ("x", "1", "z", "w")}


def test_values_beyond_the_fiftieth_are_counted_and_told(tmp_path: Path) -> None:
    table = csv(tmp_path, "a,y\n" + "x,0\n" * 1000 + "".join(f"v{i},0\n" for i in range(60)))
    assert len(table.features) == 50
    what = "column a: 11 cells with values beyond the first 50, such as"
    assert table.notes == (f'{what} "v49", "v50", "v51", set none of its features',)


def test_fifty_values_of_a_text_are_features(tmp_path: Path) -> None:
    assert len(csv(tmp_path, "a,y\n" + "".join(f"v{i},0\n" for i in range(50))).features) == 50


def test_an_empty_and_a_constant_column_are_features(tmp_path: Path) -> None:
    table = csv(tmp_path, "a,b,y\n,3,0\n,3,1\n")
    np.testing.assert_array_equal(table.X, [[math.nan, 3], [math.nan, 3]])


def test_a_column_empty_at_first_is_decided_when_it_has_a_value(tmp_path: Path) -> None:
    table = csv(tmp_path, "a,b,y\n" + ",1,0\n" * 9000 + "up,2,0\n" * 9000)
    assert table.features == ("a=up", "b")
    np.testing.assert_array_equal(table.X[[0, 8999, 9000, -1]], [[math.nan, 1], [math.nan, 1], [1, 2], [1, 2]])


@pytest.mark.parametrize(("value", "kind"), [("0.5", np.float32), ("0.1", np.float64), ("16777217", np.float64)])
def test_numbers_are_exact(value: str, kind: type, tmp_path: Path) -> None:
    table = csv(tmp_path, "a,y\n" + "1,0\n" * 9000 + f"{value},0\n" * 9000)
    assert table.X.dtype == kind
    np.testing.assert_array_equal(table.X[:, 0], [1.0] * 9000 + [float(value)] * 9000)


def test_a_quote_that_is_never_closed_swallows_no_records_also_in_the_last_field(tmp_path: Path):
    path = tmp_path / "open.csv"
    path.write_text('a,label\n1,yes\n2,"no\n3,yes\n4,no\n')
    with pytest.raises(
        UsageError, match="line 3: a quote opens here and makes one record of 3 lines; close the quote"
    ):
        read(str(path))
    path.write_text('a,label\n1,yes\n2,"no\nnever"\n3,yes\n')
    assert read(str(path)).labels == ("no\nnever", "yes")


def test_an_open_quote_is_an_error_for_the_records_it_swallows_would_vanish(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="line 3: a quote opens here and makes one record of 2 lines; close the quote"
    ):
        csv(tmp_path, 'a,y\n1,0\n"2,0\n3,0\n')
    assert len(csv(tmp_path, 'a,who,y\n1,"two\nlines",0\n2,one,1\n')) == 2


def test_a_kept_column_is_text_feature_or_not(tmp_path: Path) -> None:
    rows = "".join(f"{i},device {i % 60},0\n" for i in range(9000))
    table = csv(tmp_path, "a,who,y\n" + rows + "x,device 1,0\n", drop=["who"], keep="who")
    assert table.features == ("a",)
    assert table.columns["who"].tolist() == [*(f"device {i % 60}" for i in range(9000)), "device 1"]


def test_jsonl_records_lack_bring_and_nest_features(tmp_path: Path) -> None:
    records = [
        {"a": 1, "y": "p", "in": {"x": 1, "deep": {"z": True}}},
        {"y": "q", "new": 2.5},
        {"a": None, "in": {"x": "7"}, "y": "p"},
    ]
    table = jsonl(tmp_path, records)
    assert table.features == ("a", "in.x", "in.deep.z", "new")
    nan = math.nan
    np.testing.assert_array_equal(table.X, [[1, 1, 1, nan], [nan, nan, nan, 2.5], [nan, 7, nan, nan]])
    np.testing.assert_array_equal(table.y, [0, 1, 0])


def test_a_jsonl_feature_of_a_later_block_is_missing_before(tmp_path: Path) -> None:
    table = jsonl(tmp_path, [{"a": i % 9, "y": 0} for i in range(9000)] + [{"b": "up", "y": 0}] * 9000)
    assert table.features == ("a", "b=up")
    assert table.notes == ("columns that come from line 9001 on, and count as missing before: b",)
    np.testing.assert_array_equal(table.X[[0, 8999, 9000]], [[0, math.nan], [8, math.nan], [math.nan, 1]])


def test_bad_jsonl_records_are_rejected_with_their_reason(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(
        b'{"a": 1, "y": 0}\n\n{"a": NaN, "y": 0}\n[1]\n{"a": "q", "y": 0}\n{"a": 1}\n'
        b'{"a": ["1"], "y": 0}\n{"a": '
        + b"9" * 400
        + b', "y": 0}\n{"a": 2, "y": 1}\n{"a": -Infinity, "y": 1}\n{"a": 2, "y'
    )
    table = read(str(path))
    np.testing.assert_array_equal(table.places, [0, 1, 3, 5, 6, 7, 8])
    # Python writes NaN and Infinity, which are no JSON.
    np.testing.assert_array_equal(table.X[:, 0], [1.0, *[math.nan] * 4, 2.0, math.nan])
    assert table.infinite == 2
    found = reasons(table)
    assert list(found) == [2, 4, 9]
    starts = [
        "line 4: not a JSON object",
        'line 6, column "y": the label is missing',
        "line 11: not JSON",
    ]
    assert [reason.startswith(start) for reason, start in zip(found.values(), starts, strict=True)] == [True] * 3


@pytest.mark.parametrize("place", [{"label": "\ud800"}, {"s": "\udc00"}, {"\ud800": 1}, {"in": {"\ud800": "x"}}])
def test_half_a_surrogate_pair_costs_a_file_one_record(place: dict[str, object], tmp_path: Path) -> None:
    """Python writes it, and it would be the name of a feature, which refuses the file."""
    good = {"x": 1, "s": "up", "label": "a"}
    table = jsonl(tmp_path, [good, good | place, good | {"s": "\U0001f600"}])
    assert len(table) == 2
    assert [bad.reason for bad in table.rejected] == [
        "line 2: not JSON (half a surrogate pair, which no text may hold)"
    ]
    assert all(name.encode() for name in (*table.features, *table.labels))


def test_a_jsonl_line_that_is_too_long_is_rejected_and_not_held(tmp_path: Path) -> None:
    long = b'{"a": 3, "note": "' + b"x" * 2 * LONGEST + b'", "y": 0}'
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"a": 1, "y": 0}\n' + long + b'\n\n{"a": 2, "y": 1}\n' + long)
    table = read(str(path))
    np.testing.assert_array_equal(table.X, [[1.0], [2.0]])
    assert reasons(table) == {1: "line 2: has 1048576 bytes or more", 3: "line 5: has 1048576 bytes or more"}


def test_too_many_features_are_refused_as_they_come() -> None:
    """A block of 8192 records with names of their own would have 8192 cells for each of them."""
    records = [{f"x{i}.{k}": 1 for k in range(1000)} for i in range(11)]
    places, lines = counted(0, 10)
    assert len(Columns(Request("f.jsonl"), "y").block(places, lines, records[:10]).features) == MAX_COLUMNS
    with pytest.raises(
        UsageError, match=r"more than 10000 columns; leave out fields whose names keep changing with --drop"
    ):
        Columns(Request("f.jsonl"), "y").block(*counted(0, 11), records)
    aside = Request("f.jsonl", drop=tuple(records[10]))
    assert len(Columns(aside, "y").block(*counted(0, 11), records).features) == MAX_COLUMNS


def test_a_long_name_outside_does_not_multiply_with_those_inside() -> None:
    inside = {f"x{i}": i for i in range(1000)}
    found = flat({"a": 1, "o" * 100_000: inside, "b": {"c": {"d": 2}}})
    assert (found["a"], found["b.c.d"], len(found)) == (1, 2, 1002)
    assert sum(map(len, found)) < 1_100_000


@pytest.mark.process
def test_a_parquet_file_gives_its_features_labels_and_bad_records(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pl.DataFrame(
        {
            "n": [1, None, 3, 4],
            "f": [0.5, math.nan, math.inf, 1.0],
            "b": [True, False, None, True],
            "t": ["u", None, "v", "v"],
            "c": pl.Series(["k", "k", "l", "l"], dtype=pl.Categorical),
            "when": pl.Series([0, 1, 2, 3]).cast(pl.Datetime),
            "kind": [1.0, 2.0, 1.0, None],
        }
    ).write_parquet(path)
    table = read(str(path), time="when")
    assert table.features == ("n", "f", "b", "t=u", "t=v", "c=k", "c=l")
    nan = math.nan
    np.testing.assert_array_equal(
        table.X, [[1, 0.5, 1, 1, 0, 1, 0], [nan, nan, 0, nan, nan, 1, 0], [3, nan, nan, 0, 1, 0, 1]]
    )
    assert (table.labels, table.infinite) == (("1", "2"), 1)
    assert reasons(table) == {3: 'record 4, column "kind": the label is missing'}


def test_an_npz_file_has_names_for_its_columns_and_labels_without_one(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez(path, X=np.arange(6, dtype=np.int16).reshape(3, 2), y=np.array([10, 9, 10], np.int8))
    table = read(str(path))
    assert (table.label, table.features, table.labels) == ("", ("x0", "x1"), ("9", "10"))
    np.testing.assert_array_equal(table.y, [1, 0, 1])
    dropped = read(str(path), drop=["x0"], keep="y")
    np.testing.assert_array_equal(dropped.X, [[1], [3], [5]])
    assert dropped.columns["y"].tolist() == ["10", "9", "10"]


def test_an_npz_file_may_have_names_texts_and_bad_records(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez(path, X=[[1.0], [-np.inf], [np.nan], [3]], y=np.array(["u", "v", "v", ""]), features=np.array(["w"]))
    table = read(str(path), keep="w")
    np.testing.assert_array_equal(table.X, [[1], [math.nan], [math.nan]])
    assert (table.features, table.labels, table.infinite) == (("w",), ("u", "v"), 1)
    assert table.columns["w"].tolist() == ["1", "-inf", ""]
    assert reasons(table) == {3: 'record 4, column "y": the label is missing'}


@pytest.mark.parametrize(
    ("y", "labels"), [([1.0, 2.0], ("1", "2")), ([1.5, 2.0], ()), ([True, False], ("False", "True"))]
)
def test_the_y_of_an_npz_file_decides_between_labels_and_targets(
    y: list[float], labels: tuple[str, ...], tmp_path: Path
) -> None:
    np.savez(tmp_path / "f.npz", X=np.ones((2, 1)), y=np.array(y))
    assert read(str(tmp_path / "f.npz")).labels == labels


@pytest.mark.parametrize(
    ("name", "shape", "labels"),
    [("Phishing", (1250, 9), 2), ("ImageSegments", (2310, 18), 7), ("TrumpApproval", (1001, 6), 0)],
)
def test_a_dataset_of_river_is_read_whole(name: str, shape: tuple[int, int], labels: int) -> None:
    table = read(f"river:{name}")
    assert (table.X.shape, len(table.labels), table.rejected) == (shape, labels, ())
    assert table.name == f"river:{name}"


def test_an_endless_river_is_cut_and_the_same_each_time() -> None:
    table, again = read("river:synth.SEA"), read("river:synth.SEA")
    assert table.X.shape == (10_000, 3)
    assert table.features == ("x0", "x1", "x2")
    np.testing.assert_array_equal(table.X, again.X)


def test_the_covtype_stream_has_its_known_shape_and_labels() -> None:
    table = covtype()
    assert (table.name, table.X.shape, table.X.dtype) == ("covtype", (92_962, 54), np.float32)
    assert (table.features[13], table.features[53]) == ("Wilderness_Area4", "Soil_Type40")
    assert table.labels == tuple("0123456")
    assert np.bincount(table.y.astype(int)).tolist() == [33_894, 45_328, 5_721, 439, 1_519, 2_779, 3_282]


def test_a_bad_record_keeps_its_line_number_in_a_long_file(tmp_path: Path) -> None:
    rows = [f"{i % 977},0.5,{i % 2}" for i in range(40_000)]
    rows[10] = f'"{10}",0.5,0'  # the first 8192 lines are not plain
    rows[9_000] = f"{9000 % 977},x,0"  # those with this one are
    rows[20_000] = "20000,0.5"
    rows[20_001] = f"\n{20001 % 977},0.5,1"  # a blank line before it
    rows[39_999] = f"{39999 % 977}, 0.5 ,"
    table = csv(tmp_path, "a,b,y\n" + "\n".join(rows))
    assert reasons(table) == {
        20_000: "line 20002: it has 2 fields, but the header has 3",
        39_999: 'line 40002, column "y": the label is missing',
    }
    np.testing.assert_array_equal(table.X[:, 0], table.places % 977)
    assert len(table) == 39_998
    assert table.notes[:1] == ('column b: 1 cell (line 9002) is not a number and counts as missing, such as "x"',)


# --- times and other columns that are no features ----------------------------------------------------------------

TEN_PAST_EIGHT = 1_795_421_400.0  # 2026-11-23 08:10 UTC


@pytest.mark.parametrize(
    "said",
    [
        "2026-11-23T08:10:00Z", "2026-11-23 08:10", "2026-11-23 09:10:00+01:00", "2026-11-23 08:10:00 UTC",
        "2026/11/23 08:10:00.000", "23.11.2026 08:10",
    ],
)  # fmt: skip
def test_a_column_of_dates_is_left_out_or_kept_as_times(said: str, tmp_path: Path) -> None:
    text = f"when,a,y\n{said},1,0\n,2,1\n"
    table = csv(tmp_path, text)
    assert (table.features, table.left_out, len(table.times)) == (("a",), ("when",), 0)
    assert table.notes == ("left out: column when looks like a time (--time when keeps it with the records)",)
    kept = csv(tmp_path, text, time="when")
    np.testing.assert_array_equal(kept.times, [TEN_PAST_EIGHT, math.nan])
    assert (kept.features, kept.left_out) == (("a",), ())


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_a_column_called_time_may_count_from_1970(unit: int, tmp_path: Path) -> None:
    text = "time,other,y\n" + f"{int(TEN_PAST_EIGHT) * unit},{int(TEN_PAST_EIGHT) * unit},0\n" * 2
    assert csv(tmp_path, text).left_out == ("time",)
    assert csv(tmp_path, text).features == ("other",)
    np.testing.assert_array_equal(csv(tmp_path, text, time="time").times, [TEN_PAST_EIGHT] * 2)
    assert csv(tmp_path, "time,y\n12.5,0\n99,1\n").left_out == ()  # seconds of a day, say: a feature
    np.savez(tmp_path / "f.npz", X=np.array([[TEN_PAST_EIGHT * unit, 1.0]]), y=[0], features=["time", "a"])
    table = read(str(tmp_path / "f.npz"), time="time")
    assert (table.features, table.times.tolist()) == (("a",), [TEN_PAST_EIGHT])


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_numbers_are_times_from_2001_to_2286(unit: int) -> None:
    for number_, are in ((10**9 - 1, False), (10**9, True), (10**10 - 1, True), (-(10**9), False)):
        assert looks_like_times("ts", [str(number_ * unit)]) == are
    assert not looks_like_times("ts", [str(10**9 * unit), "7"])


def test_times_of_bad_records_are_left_out_and_those_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    table = csv(tmp_path, "t,a,y\n13/23/2026,1,0\nnoon,2,1\nnoon,3,\n2026-11-23 08:10,4,0\n", time="t")
    np.testing.assert_array_equal(table.times, [math.nan, math.nan, TEN_PAST_EIGHT])
    assert len(table) == 3
    assert table.notes[0].startswith(
        '2 times cannot be read; the reason for the first one: the time "13/23/2026" is not a date'
    )


def test_all_columns_that_are_no_features_are_told_at_once(tmp_path: Path) -> None:
    rows = [f"2026-11-{i % 28 + 1:02},word {i},{i}.5 {'kg' if i else 'g'},{i % 3},{i % 2}" for i in range(60)]
    table = csv(tmp_path, "day,text,sum,a,y\n" + "\n".join(rows) + "\n")
    assert (table.features, table.left_out, table.rejected) == (("a",), ("day", "text", "sum"), ())
    (note,) = table.notes
    for part in (
        "column day looks like a time",
        "column text is text with more than 50",
        'such as "0.5 g" and "1.5 kg"; write',
    ):
        assert part in note


@pytest.mark.process
def test_times_in_parquet_and_json_are_read_or_left_out(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    when = pl.Series([TEN_PAST_EIGHT * 1000, None]).cast(pl.Int64).cast(pl.Datetime("ms"))
    pl.DataFrame({"when": when, "many": [[1], [2]], "a": [1, 2], "y": [0, 1]}).write_parquet(path)
    assert read(str(path)).left_out == ("when", "many")
    assert "column many is List(Int64), neither numbers nor text" in read(str(path)).notes[0]
    table = read(str(path), time="when")
    np.testing.assert_array_equal(table.times, [TEN_PAST_EIGHT, math.nan])
    records = [{"when": "2026-11-23T08:10:00Z", "a": 1, "y": 0}, {"a": 2, "y": 1}]
    assert (jsonl(tmp_path, records).features, jsonl(tmp_path, records).left_out) == (("a",), ("when",))
    np.testing.assert_array_equal(jsonl(tmp_path, records, time="when").times, [TEN_PAST_EIGHT, math.nan])


cell = st.one_of(
    st.none(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False, allow_infinity=True), st.just("q")
)
word = st.one_of(st.none(), st.sampled_from(["p", "q r", "Ä"]))
label = st.one_of(st.none(), st.sampled_from(["0", "1", "ok"]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(cell, word, label), min_size=1, max_size=12))
@example(rows=[("q", None, None), ("q", None, None)])  # column a: a number and two texts
def test_csv_and_jsonl_make_the_same_table(rows: list[tuple[object, ...]], tmp_path: Path) -> None:
    rows = [(1, "p", "0"), *rows]
    names = ("a", "w", "y")
    text = "\n".join(",".join("" if c is None else str(c) for c in row) for row in rows)
    table = csv(tmp_path, "a,w,y\n" + text + "\n")
    texts = [
        {name: str(c) if isinstance(c, float) else c for name, c in zip(names, row, strict=True)} for row in rows
    ]
    other = jsonl(tmp_path, texts)  # JSON has no infinity, so floats travel as text
    assert table.features == other.features
    assert table.labels == other.labels
    np.testing.assert_array_equal(table.X, other.X)
    np.testing.assert_array_equal(table.y, other.y)
    np.testing.assert_array_equal(table.places, other.places)
    assert [r.position for r in table.rejected] == [r.position for r in other.rejected]
