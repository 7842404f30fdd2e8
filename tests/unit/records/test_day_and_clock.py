"""A day and a time of day in two columns are one time: in files, in messages, named or found."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from streamfl.errors import UsageError
from streamfl.records.csv_block import LazyTexts
from streamfl.records.files.readers import read
from streamfl.records.formats import FieldMap, JsonRecords
from streamfl.records.table import Table
from streamfl.records.values.day_and_clock import joined
from streamfl.records.values.times import Notation

AT = 1_774_100_706.0  # 2026-03-21 13:45:06 UTC
HALVES = [
    ("2026-03-21", "13:45:06"), ("21.03.2026", "13.45.06"), ("3/21/2026", "1:45:06 PM"), ("20260321", "134506"),
    ("2026-03-21 00:00:00", "1899-12-30 13:45:06"), ("21 Mar 2026", "13:45:06 Uhr"), ("2026-03-21", "14:45:06+01:00"),
]  # fmt: skip


def csv(tmp_path: Path, halves: list[tuple[str, str]], **options: object) -> Table:
    path = tmp_path / "f.csv"
    lines = [f"{day}|{clock}|{i % 7}|{i % 2}" for i, (day, clock) in enumerate(halves)]
    path.write_text("\n".join(["Date|Time|a|y", *lines]) + "\n")
    return read(str(path), separator="|", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("halves", HALVES, ids=" ".join)
def test_two_columns_are_one_time_in_files_large_and_small_and_in_messages(
    halves: tuple[str, str], tmp_path: Path
) -> None:
    for n in (3, 6000):
        table = csv(tmp_path, [halves] * n, time="Date,Time")
        assert (set(table.times.tolist()), table.features) == ({AT}, ("a",))
    message = json.dumps({"Date": halves[0], "Time": halves[1], "a": 1, "label": "x"}).encode()
    found = JsonRecords(FieldMap(time="Date,Time")).decode([0], [message])
    assert (found.times.tolist(), found.features) == ([AT], ("a",))


def test_numbers_have_lost_their_zeros() -> None:
    message = b'{"d": 20260321, "t": 93000, "label": "x", "a": 1}'
    assert JsonRecords(FieldMap(time="d,t")).decode([0], [message]).times.tolist() == [AT - 4 * 3600 - 15 * 60 - 6]


def test_half_a_time_is_none_and_costs_no_record(tmp_path: Path) -> None:
    halves = [("2026-03-21", ""), ("NA", "13:45:06"), ("2026-03-21", "13:45:06"), ("2026-03-21", "noon")]
    for n in (1, 3000):
        table = csv(tmp_path, halves * n, time="Date,Time")
        np.testing.assert_array_equal(table.times[:4], [np.nan, np.nan, AT, np.nan])
        assert len(table) == 4 * n
        assert table.notes[0].startswith(f"{n:,} times cannot be read")


def test_blocks_of_texts_are_joined_as_single_ones_are() -> None:
    days = ["2026-03-21", "2026-03-21 00:00", "", " 21.3.2026 ", "n/a", "2026-03-21"]
    clocks = ["13:45", "930", "13:45", "0 days 1:45:06 PM", "13:45", ""]
    lazy = joined([LazyTexts(pl.Series(days)), LazyTexts(pl.Series(clocks))])
    assert list(lazy) == joined([days, clocks])


def test_a_column_of_days_gets_the_only_column_of_times_of_day_and_says_so(tmp_path: Path) -> None:
    halves = [(f"{1 + i // 24}.3.2026", f"{i % 24}:00") for i in range(480)]
    table = csv(tmp_path, halves, time="Date")
    assert set(np.diff(table.times)) == {3600.0}
    assert (table.features, table.excluded) == (("a",), ("Date", "Time"))
    assert table.notes[0] == "its times are those of the columns Date, Time together, as --time Date,Time says"


def test_without_a_word_both_are_left_out_and_the_option_names_both(tmp_path: Path) -> None:
    table = csv(tmp_path, [(f"{1 + i // 24}.3.2026", f"{i % 24}:00") for i in range(480)])
    assert (table.features, table.left_out) == (("a",), ("Date", "Time"))
    (note,) = table.notes
    assert note.endswith("Date, Time: each has half of each time (--time Date,Time keeps it with the records)")


def test_a_time_of_day_is_in_the_zone_that_is_named_and_days_decide_the_order(tmp_path: Path) -> None:
    halves = [("03/04/2026", "13:45:06"), ("03/21/2026", "14:45:06")]
    assert csv(tmp_path, halves, time="Date,Time", notation=Notation("Europe/Berlin")).times[1] == AT


def test_a_written_record_is_read_back_with_its_time() -> None:
    form = JsonRecords(FieldMap(time="d,t", timezone="Europe/Berlin"))
    message = form.encode(("a",), [1.0], "x", time=AT)
    assert form.decode([0], [message]).times.tolist() == [AT]


def test_three_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--time names 3 columns; name one, or two: that of the day and"):
        csv(tmp_path, [HALVES[0]] * 3, time="Date,Time,a")


@pytest.mark.process
def test_days_and_times_of_day_of_parquet_are_joined(tmp_path: Path) -> None:
    path, at = tmp_path / "f.parquet", pl.Series([AT * 1e6]).cast(pl.Int64).cast(pl.Datetime("us"))
    pl.DataFrame({"d": at.dt.date(), "t": at.dt.time(), "a": [1], "y": [0]}).write_parquet(path)
    assert read(str(path), time="d,t").times.tolist() == [AT]
    assert read(str(path), time="d", drop=["t"]).times.tolist() == [AT // 86400 * 86400]
