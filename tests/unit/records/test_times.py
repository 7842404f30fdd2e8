"""Times: the same rules in files and in messages; what is ambiguous is asked about, and no time costs a record."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from streamfl.cli.main import cli
from streamfl.errors import UsageError
from streamfl.records.files.readers import read
from streamfl.records.formats import FieldMap, JsonRecords
from streamfl.records.table import Table
from streamfl.records.values.times import Notation, iso, looks_like_times, of_cells

AT = 1_774_100_706.0  # 2026-03-21 13:45:06 UTC
DAY = 1_774_051_200.0  # its midnight

OF_A_TIME = [
    "2026-03-21T13:45:06Z", "2026-03-21 13:45:06", "2026-03-21 14:45:06 CET", "2026-03-21T14:45:06+01:00",
    "2026-03-21T14:45:06+01:00[Europe/Berlin]", "2026-03-21 14:45:06 Europe/Berlin", "21.03.2026 13:45:06",
    "2026/3/21 13:45:06", "3/21/2026 1:45:06 PM", "21/03/2026 13:45:06", "3/21/26 1:45:06 p.m.",
    "21-Mar-2026 13:45:06", "21-MAR-26 01.45.06 PM", "Mar 21, 2026 1:45:06 PM", "21. März 2026, 13:45:06 Uhr",
    "Sat, 21 Mar 2026 13:45:06 GMT", "Sat Mar 21 13:45:06 2026", "21/Mar/2026:14:45:06 +0100", "20260321134506",
    "20260321T134506Z", "13:45:06 21.03.2026", "2026-W12-6 13:45:06", "1774100706", "1774100706000",
    "1774100706000000", "1774100706000000000", "1774100706.0",
]  # fmt: skip
OF_A_QUARTER = ["1949-04", "1949Q2", "1949m04", "1949-Q2"]
OF_A_DAY = ["2026-03-21", "20260321", "2026-03-20 24:00", "2026W126", "2026-080", "21.3.2026", "March 21st, 2026"]


def csv(tmp_path: Path, lines: list[str], **options: object) -> Table:
    path = tmp_path / "f.csv"
    path.write_text("t|a|y\n" + "".join(f"{line}|{i}|{i % 2}\n" for i, line in enumerate(lines)))
    return read(str(path), time="t", separator="|", **options)  # type: ignore[arg-type]


def decoded(*times: object, **fields: object) -> np.ndarray:
    reader = JsonRecords(FieldMap(time="t", **fields))  # type: ignore[arg-type]
    messages = [json.dumps({"t": time, "a": 1, "label": "x"}).encode() for time in times]
    found = reader.decode(range(len(messages)), messages)
    assert found.rejected == ()
    return found.times


@pytest.mark.parametrize("said", OF_A_TIME + OF_A_DAY)
def test_a_clear_time_is_the_same_in_a_file_and_in_a_message(said: str, tmp_path: Path) -> None:
    right = AT if said in OF_A_TIME else DAY
    assert csv(tmp_path, [said]).times.tolist() == [right]
    assert decoded(said).tolist() == [right]
    if said.isdecimal():
        assert decoded(json.loads(said)).tolist() == [right]


def test_a_large_block_of_times_is_read_as_single_ones_are(tmp_path: Path) -> None:
    many = [said for said in OF_A_TIME if "T13" in said or said.isdecimal()]
    for first in (*many, "2026-03-21 13:45:06", "2026-03-21 13:45:06.000"):
        lines = [first, *OF_A_TIME, *[first] * 6000]
        if first.isdecimal():
            lines = [line for line in lines if line.isdecimal()]
        table = csv(tmp_path, lines)
        assert set(table.times.tolist()) == {AT}, first


def test_a_day_above_12_anywhere_decides_the_order_of_a_column(tmp_path: Path) -> None:
    april_3, march_4 = 1_775_174_400.0, 1_772_582_400.0
    assert csv(tmp_path, ["03/04/2026", "25/04/2026"]).times[0] == april_3
    assert csv(tmp_path, ["03/04/2026", "04/25/2026"]).times[0] == march_4
    filler = ["03/04/2026"] * 9000  # another block decides
    assert csv(tmp_path, [*filler, "04/25/2026"]).times[0] == march_4


def test_an_order_that_nothing_decides_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r'"03/04/2026" may be the day 2026-04-03 \(dmy\) or 2026-03-04 \(mdy\)'
    ) as told:
        csv(tmp_path, ["03/04/2026", "05/04/2026"])
    assert "f.csv" in str(told.value) and "--date-order dmy or mdy" in str(told.value)
    assert csv(tmp_path, ["03/04/2026"], notation=Notation(order="mdy")).times.tolist() == [1_772_582_400.0]
    assert csv(tmp_path, ["03/03/2026"]).times.tolist() == [1_772_496_000.0]  # either way the same day
    np.testing.assert_array_equal(decoded("03/04/2026", "25/04/2026"), [np.nan, 1_777_075_200.0])
    assert decoded("03/04/2026", date_order="mdy").tolist() == [1_772_582_400.0]


def test_local_times_have_the_zone_that_is_named(tmp_path: Path) -> None:
    zone = Notation("America/Chicago")
    lines = ["2026-07-01 00:00", "2026-01-01 00:00", "2026-01-01 00:00 CST", "20260101", "2026-01-01T06:00:00Z"]
    winter = 1_767_247_200.0
    table = csv(tmp_path, lines, notation=zone)
    assert table.times.tolist() == [1_782_882_000.0, *[winter] * 4]
    assert table.notes[-1] == "the times of column t are read in America/Chicago and shown in UTC"
    assert csv(tmp_path, lines[1:2] * 6000, notation=zone).times.tolist() == [winter] * 6000
    assert decoded(*lines, timezone="America/Chicago").tolist() == table.times.tolist()
    assert "have no zone and are read as UTC" in csv(tmp_path, lines[:1]).notes[-1]
    assert csv(tmp_path, lines[-1:]).notes == ()
    with pytest.raises(UsageError, match="no time zone 'Mars/Base'"):
        Notation("Mars/Base")
    with pytest.raises(ValueError, match="no time zone 'Mars/Base'"):
        FieldMap(timezone="Mars/Base")


@pytest.mark.parametrize(
    "said", ["noon", "31/02/2026", "2026-03-21 24:01", "2026-03-21 08:15 CST", True, [1], {"a": 1}, "9" * 400, 1e300]
)
def test_a_time_that_cannot_be_read_costs_no_record(said: object, tmp_path: Path) -> None:
    message = json.dumps({"t": said, "a": 1, "label": "x"}).encode()
    for reader in (JsonRecords(FieldMap(time="t", features=("a",))), JsonRecords(FieldMap(time="t", drop=("t.a",)))):
        found = reader.decode([0, 1], [message, b'{"t":1774100706,"a":1,"label":"x"}'])
        assert (found.rejected, found.positions.tolist()) == ((), [0, 1])
        np.testing.assert_array_equal(found.times, [np.nan, AT])
        if not isinstance(said, dict):
            assert "cannot be read are missing, and their records count" in found.remarks[0]
    table = csv(tmp_path, [str(said), "2026-03-21T13:45:06Z"])
    np.testing.assert_array_equal(table.times, [np.nan, AT])
    assert table.notes[0].startswith("1 times cannot be read")


def test_numbers_are_days_only_if_all_of_a_column_are() -> None:
    assert of_cells("t", np.array([20260321.0, 20260322.0]))[0].tolist() == [DAY, DAY + 86400]
    assert of_cells("t", np.array([20260321.0, 20260399.0]))[0].tolist() == [20260321.0, 20260399.0]


def test_rounds_by_event_time_need_a_time_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("t,a,y\n" + "".join(f"noon,{i},{i % 2}\n" for i in range(40)))
    asked = ["replay", str(path), "--label", "y", "--time", "t", "--interval", "60", "--clients", "2"]
    with pytest.raises(UsageError, match=r'none can be read: 40 times cannot be read; .* "noon" is not a date'):
        CliRunner().invoke(cli, asked, catch_exceptions=False)


@pytest.mark.parametrize("said", OF_A_TIME[:20] + OF_A_DAY[:2])
def test_a_column_of_dates_of_any_name_looks_like_times(said: str) -> None:
    assert looks_like_times("a", [said, ""])


@pytest.mark.parametrize("said", OF_A_QUARTER)
def test_a_month_or_quarter_begins_with_its_first_day(said: str) -> None:
    assert decoded(said).tolist() == [-654_912_000.0]
    assert looks_like_times("month", [said])


@pytest.mark.parametrize("word", ["may", "12", "1.2.3", "10-12", "2026-080", "12-11-10", "2026-03", "A7", "20261399"])
def test_codes_and_words_look_like_no_times(word: str) -> None:
    assert not looks_like_times("a", [word])


def test_years_as_times_are_read_as_seconds_and_named(tmp_path: Path) -> None:
    for years in (range(1700, 1760), range(1000, 1060), range(1967, 2027)):
        table = csv(tmp_path, [str(year) for year in years])
        assert f"on the first day of 1970, from {iso(years[0])} to {iso(years[-1])}: numbers are" in table.notes[0]
        assert "if they are years, write dates, such as 1998-01-01" in table.notes[0]


def test_times_on_the_first_day_of_1970_are_named_and_others_are_not(tmp_path: Path) -> None:
    table = csv(tmp_path, [str(second) for second in range(0, 600, 10)])
    assert "from 1970-01-01T00:00:00Z to 1970-01-01T00:09:50Z" in table.notes[0]
    assert "if they are no seconds" in table.notes[0]
    assert csv(tmp_path, [str(day * 3600) for day in range(60)]).notes == ()
