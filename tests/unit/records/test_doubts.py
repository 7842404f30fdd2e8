"""What a reader doubts in a file: codes for missing values, counters, constants, duplicates, the last column."""

import math
from pathlib import Path

import numpy as np
import pytest

from streamfl.records.doubts.of_tables import codes
from streamfl.records.files.readers import read
from streamfl.records.table import Table

RNG = np.random.default_rng(1)
N = 200
A, B = RNG.normal(20.0, 5.0, N).round(2), RNG.normal(0.0, 1.0, N).round(3)
LABELS = np.where(A > 20.0, "hot", "cold")


def csv(tmp_path: Path, columns: dict[str, object], **options: object) -> Table:
    rows = zip(*columns.values(), strict=True)  # type: ignore[call-overload]
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "f.csv").write_text("\n".join(lines) + "\n")
    return read(str(tmp_path / "f.csv"), **options)  # type: ignore[arg-type]


def some(values: np.ndarray, code: float, every: int) -> np.ndarray:
    return np.where(np.arange(N) % every == 0, code, values)


@pytest.mark.parametrize("code", [-999, -9999.0, 9999, -200, 99999, -99.9])
def test_a_usual_code_far_outside_that_repeats_is_missing_and_told_with_its_share(
    code: float, tmp_path: Path
) -> None:
    table = csv(tmp_path, {"a": some(A, code, 5), "b": B, "y": LABELS})
    assert np.isnan(table.X[::5, 0]).all() and not np.isnan(table.X[1::5]).any()
    (note,) = table.notes
    assert note.startswith(
        f"column a (20.0% of records): {code:.10g} repeats far outside the other values and counts"
    )
    kept = csv(tmp_path, {"a": some(A, code, 5), "b": B, "y": LABELS}, missing_values=[f"not:{code}"])
    assert not np.isnan(kept.X).any() and kept.notes == ()


def test_a_code_of_one_column_is_one_of_others_too_that_are_wider(tmp_path: Path) -> None:
    table = csv(tmp_path, {"a": some(A, -200, 5), "wide": some(np.abs(B * 900).round(), -200, 7), "y": LABELS})
    assert np.isnan(table.X[::7, 1]).all()
    assert "columns a (20.0% of records), wide (14.5% of records): -200" in table.notes[0]


@pytest.mark.parametrize(
    "values",
    [
        A,
        some(A, 99, 100),  # it does not repeat enough
        np.where(A > 20, 9999.0, 0.0),  # there are two values
        some(np.linspace(-300, 3000, N).round(1)[RNG.permutation(N)], 9999, 5)[:0],
        RNG.standard_cauchy(N),
        np.where(np.arange(N) % 20, 2.0, np.arange(N) % 3),  # engines of planes: nearly all have two
    ],
)
def test_extreme_values_that_are_measured_are_no_codes(values: np.ndarray) -> None:
    assert list(codes(values)) == []


@pytest.mark.parametrize("code", [-9900, -8888, 7777.0, -32768, -350, 1e20])
def test_a_code_is_known_by_how_it_is_written_or_where_it_lies(code: float, tmp_path: Path) -> None:
    table = csv(tmp_path, {"a": some(A, code, 5), "b": B, "y": LABELS})
    assert np.isnan(table.X[::5, 0]).all()


def test_a_code_in_most_records_is_one_but_the_usual_value_of_a_column_is_none(tmp_path: Path) -> None:
    rain = np.where(np.arange(1000) % 10, -9900.0, np.arange(1000) % 300)
    wide = np.where(np.arange(1000) % 5, np.arange(1000) * 80 % 77_000, -9900)
    table = csv(tmp_path, {"rain": rain, "wide": wide, "y": np.arange(1000) % 3 % 2})
    assert np.isnan(table.X).sum(axis=0).tolist() == [900, 200]
    off = np.where(np.arange(1000) % 10, 0.0, 900.0 + np.arange(1000) % 300)
    assert list(codes(off)) == [] == list(codes(-off))


def test_a_number_that_is_no_usual_code_is_told_and_kept(tmp_path: Path) -> None:
    table = csv(tmp_path, {"a": some(A, 5000, 5), "b": B, "y": LABELS})
    assert not np.isnan(table.X).any()
    assert "5000 repeats far outside the other values; if it stands for a missing value, add" in table.notes[0]


def test_a_target_that_is_probably_no_measurement_is_told_with_the_option_that_leaves_it_out(tmp_path: Path) -> None:
    columns = {"a": A, "b": B, "y": some(A * 0.1, -200, 5).round(2)}
    table = csv(tmp_path, columns)
    assert len(table) == N
    assert "the target y is -200 in 20.0% of the records" in table.notes[0]
    assert "leave these records out with --missing-values -200" in table.notes[0]
    without = csv(tmp_path, columns, missing_values=["-200"])
    assert (len(without), len(without.rejected), without.notes) == (160, 40, ())
    assert without.y.min() > -100


def test_a_counter_is_left_out_and_a_constant_and_a_duplicate_are_named_in_one_message(tmp_path: Path) -> None:
    columns = {
        "no": np.arange(1, N + 1),
        "kwh": np.cumsum(np.arange(N) % 7),
        "a": A,
        "unit": [7] * N,
        "twin": A,
        "y": LABELS,
    }
    table = csv(tmp_path, columns)
    assert (table.features, table.left_out) == (("a", "unit", "twin"), ("no", "kwh"))
    (note,) = table.notes
    for part in (
        "columns no, kwh: each has whole numbers that rise, or fall, from record to record, as a counter",
        "if it matters how fast, add a column with the difference from the record before",
        "column unit has one value in all records",
        "column twin equals column a",
        "--drop unit",
    ):
        assert part in note


def test_columns_without_a_value_are_named_and_are_no_twins(tmp_path: Path) -> None:
    table = csv(tmp_path, {"spare": [""] * N, "void": ["NA"] * N, "a": A, "y": LABELS})
    (note,) = table.notes
    assert note == (
        "columns spare, void: each has no value in any record; leave columns of no use out with --drop spare,void"
    )
    late = csv(tmp_path, {"late": ["", *["1.5", "2"] * (N // 2)][:N], "a": A, "y": LABELS})
    assert late.notes == ()


def test_a_constant_text_is_named_as_a_constant_number_is(tmp_path: Path) -> None:
    columns = {"station": ["south"] * N, "plant": ["3"] * N, "kind": ["p", "q"] * (N // 2)}
    table = csv(tmp_path, {**columns, "a": A, "y": LABELS})
    (note,) = table.notes
    assert note.startswith("columns plant, station: each has one value in all records") and "kind" not in note
    assert "--drop plant,station" in note


def test_a_column_of_one_value_and_none_is_not_said_to_have_it_in_all_records(tmp_path: Path) -> None:
    seldom = ["on", *[""] * (N - 1)]
    (note,) = csv(tmp_path, {"seldom": seldom, "a": A, "y": LABELS}).notes
    assert note == (
        "column seldom has one value, and none in 199 of 200 records: a missing value counts as the mean, so the "
        "column says nothing; if it matters that a cell is empty, write another value there, such as no"
    )
    filled = csv(tmp_path, {"seldom": ["on", *["no"] * (N - 1)], "a": A, "y": LABELS})
    assert (filled.notes, filled.features[:2]) == ((), ("seldom=no", "seldom=on"))
    numbers = ["", "", *["7"] * (N - 2)]
    (note,) = csv(tmp_path, {"seldom": seldom, "n": numbers, "unit": ["C"] * N, "a": A, "y": LABELS}).notes
    assert "column unit has one value in all records" in note
    assert "columns n, seldom: each has one value, and none in 2 to 199 of 200 records" in note
    assert note.endswith("leave columns of no use out with --drop unit")


def test_a_trend_that_only_rises_is_told_and_kept_for_it_may_be_a_measurement(tmp_path: Path) -> None:
    for trend in (np.linspace(20.1, 25.0, N), 3.0 - np.cumsum(np.abs(B))):
        table = csv(tmp_path, {"wear": trend, "a": A, "y": LABELS})
        assert table.features == ("wear", "a")
        (note,) = table.notes
        assert note.startswith("column wear only rises, or only falls,") and "--drop wear leaves it out" in note


def test_a_column_of_numbers_that_names_the_record_is_told(tmp_path: Path) -> None:
    n = 1200
    numbers = np.random.default_rng(2).permutation(10 * n)[:n]
    table = csv(tmp_path, {"serial": numbers, "a": np.arange(n) % 7, "y": np.arange(n) % 2})
    assert table.features == ("serial", "a")
    assert (
        "column serial has another whole number in each record" in table.notes[0]
        and "--drop serial" in table.notes[0]
    )


def test_a_counter_of_each_client_is_found_where_clients_have_a_column(tmp_path: Path) -> None:
    site = np.array(["east", "west"])[np.arange(N) % 2]
    count = np.where(site == "east", np.arange(N), 5000 + np.arange(N) * 3)
    columns = {"count": count, "a": A, "site": site, "y": LABELS}
    assert "count" in csv(tmp_path, columns).features
    assert "count" not in csv(tmp_path, columns, keep="site").features


def test_a_column_that_rises_is_kept_where_it_is_all_there_is(tmp_path: Path) -> None:
    assert csv(tmp_path, {"x": np.arange(N), "y": LABELS}).features == ("x",)


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (["eor"] * N, "has one value"),
        (range(N), "numbers the records"),
        ([f"0 days 00:{i // 60}:{i % 60}" for i in range(N)], "has another text in each record"),
        ([f"2026-03-{1 + i // 90:02} 08:15" for i in range(N)], "holds times"),
    ],
)
def test_a_last_column_that_can_be_no_label_is_not_guessed(last: object, why: str, tmp_path: Path) -> None:
    table = csv(tmp_path, {"a": A, "state": LABELS, "end": last})
    assert (table.label, table.labels, table.features) == ("state", ("cold", "hot"), ("a",))
    assert table.notes[0].startswith(f"the last column, end, {why}")
    named = csv(tmp_path, {"a": A, "b": B, "end": ["eor"] * N}, label="end")
    assert named.label == "end"


# --- numbers, labels and missing values in files ----------------------------------------------------------------


def written(tmp_path: Path, text: str, **options: object) -> Table:
    (tmp_path / "f.csv").write_text(text)
    return read(str(tmp_path / "f.csv"), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        (["17,1", "31", "1.234,5", "-0,25"], {"separator": ";"}),
        (['"17,1"', "31", '"1.234,5"', '"-0,25"'], {}),
        (["17.1", "31", "1234.5", "\u22120.25"], {}),
        (["1.71D+01", "'31'", '"1,234.5"', "-.25"], {}),
        (["17,1", "31,000", "1234,5", "-0,25"], {"separator": ";", "decimal": ","}),
        (["17.1", "3.1e1", "1 234.5", "-0.25"], {"separator": ";"}),
        (["17,1", "31", "1'234,5", "-0,25"], {"separator": ";"}),
    ],
)
def test_a_number_is_read_as_people_and_programs_write_it(
    cells: list[str], options: dict[str, str], tmp_path: Path
) -> None:
    by = options.get("separator", ",")
    table = written(
        tmp_path, f"a{by}y\n" + "".join(f"{cell}{by}{i % 2}\n" for i, cell in enumerate(cells)), **options
    )
    assert (table.X[:, 0].tolist(), table.rejected, table.notes) == ([17.1, 31.0, 1234.5, -0.25], (), ())


def test_what_may_be_two_numbers_is_read_by_the_other_columns(tmp_path: Path) -> None:
    text = "a;b;y\n1,250;{};0\n2,500;3;1\n"
    assert written(tmp_path, text.format("0,5"), separator=";").X[:, 0].tolist() == [1.25, 2.5]
    assert written(tmp_path, text.format("0.5"), separator=";").X[:, 0].tolist() == [1250.0, 2500.0]
    assert written(tmp_path, text.format("1"), separator=";").X[:, 0].tolist() == [1.25, 2.5]
    assert written(tmp_path, 'a,y\n"1,250",0\n"2,500",1\n').X[:, 0].tolist() == [1250.0, 2500.0]


def test_whole_numbers_with_a_fraction_are_labels_if_few_and_targets_if_many(tmp_path: Path) -> None:
    few = written(tmp_path, "a;y\n" + "".join(f"1;{i % 3},0\n" for i in range(90)), separator=";")
    assert few.labels == ("0", "1", "2")
    many = written(tmp_path, "a;y\n" + "".join(f"{i % 7};{i},0\n" for i in range(30)), separator=";")
    assert (many.labels, many.y.tolist()) == ((), [float(i) for i in range(30)])
    thousands = written(tmp_path, "a,y\n" + "".join(f'{i % 7},"{1000 + i:,}"\n' for i in range(30)))
    assert (thousands.labels, thousands.y.tolist()) == ((), [1000.0 + i for i in range(30)])


@pytest.mark.parametrize("word", ["NA", "?", "--", "No Data", "#DIV/0!", "-nan(ind)", "1.#QNAN", "\\N", ".", "None"])
def test_a_missing_value_is_one_in_a_number_a_text_a_label_and_a_target(word: str, tmp_path: Path) -> None:
    rows = f"a,colour,y\n1,red,p\n{word},{word},q\n2,blue,{word}\n"
    table = written(tmp_path, rows)
    assert (table.features, table.labels, len(table.rejected)) == (("a", "colour=blue", "colour=red"), ("p", "q"), 1)
    np.testing.assert_array_equal(table.X, [[1, 0, 1], [math.nan] * 3])
    assert any(f"add --missing-values not:{word}" in note for note in table.notes) or "\\" in word
    target = written(tmp_path, f"a,y\n1,0.5\n2,{word}\n")
    assert (target.labels, target.y.tolist(), len(target.rejected)) == ((), [0.5], 1)


def test_a_word_that_is_a_value_is_one(tmp_path: Path) -> None:
    table = written(tmp_path, "a,y\n1,NA\nNA,b\n3,b\n", missing_values=["not:NA"])
    assert table.labels == ("NA", "b")


def test_a_column_of_numbers_stays_one_when_texts_come(tmp_path: Path) -> None:
    text = "a,code,y\n" + "".join(f"{i % 5},{i % 4},{i % 2}\n" for i in range(2000)) + "1,E2,0\n2,E3,1\n3,E2,1\n"
    table = written(tmp_path, text)
    assert (len(table), table.features, int(np.isnan(table.X).sum())) == (2003, ("a", "code"), 3)
    what = "column code: 3 cells from line 2002 on are not numbers and count as missing"
    assert table.notes == (f'{what}, such as "E2", "E3"',)
