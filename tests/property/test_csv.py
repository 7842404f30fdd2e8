"""What polars takes apart is what Python's own reader would have made of it, record by record, to the last bit."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from streamfl.errors import UsageError
from streamfl.records import csv_block
from streamfl.records.files import csv_file
from streamfl.records.files.readers import read
from streamfl.records.table import Table

ODD = [
    "", " ", "NA", "n/a", "null", "?", "-", "nan", "NaN", "-nan", "inf", "-Infinity", "infinity", "1e400", "-1e400",
    "1e-400", "0x10", "1_000", " 1 ", "+1", "--1", "1.", ".5", ".", "1e5", "1E+5", "5e", "1,5", "1'000", "\u0661",
    "1\u00a0", "\u22121", "true", "x", "ä b", "1d5", "0b1", "00012", "-0", "-0.0", "12345678901234567890123",
    "9007199254740993", "1\t", "\x0b1", "1\r", "1\r2", '"1"', '"a,b"', '"', 'a"b', '"two\nlines"', "2026-11-23",
]  # fmt: skip
FLOATS = st.integers(0, 2**64 - 1).map(lambda bits: repr(struct.unpack("d", struct.pack("Q", bits))[0]))
DIGITS = st.from_regex(r"[-+]?[0-9]{1,25}(\.[0-9]{0,25})?([eE][-+]?[0-9]{1,3})?", fullmatch=True)
CELLS = FLOATS | DIGITS | st.sampled_from(ODD)
NUMBERS = FLOATS | DIGITS | st.sampled_from(["", "nan", "inf", " 1 ", "NA", "+1", "1e400"])
ENDS = st.sampled_from(["\n"] * 6 + ["\r\n", "\n\n", "\r"])


@st.composite
def files(draw: st.DrawFn) -> str:
    """Return a file of three columns, most of whose lines are plain."""
    cells = draw(st.sampled_from([CELLS, NUMBERS, NUMBERS]))
    widths = draw(st.sampled_from([st.just(3), st.sampled_from([3, 3, 3, 3, 3, 2, 4])]))
    separator = draw(st.sampled_from([",", ";", "\t"]))
    ends = draw(st.sampled_from([st.just("\n"), st.just("\r\n"), ENDS]))
    rows = draw(st.lists(widths.flatmap(lambda n: st.lists(cells, min_size=n, max_size=n)), min_size=1, max_size=14))
    text = separator.join(["a", "b", "y"]) + "\n" + "".join(separator.join(row) + draw(ends) for row in rows)
    return text if draw(st.booleans()) else text.rstrip("\r\n")


def told(path: Path, separator: str) -> Table | str:
    try:
        return read(str(path), separator=separator)
    except UsageError as error:
        return str(error)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], tuple[Table | str, Table | str, int]]:
    """Read a text by polars where it can, then by Python's reader; count the blocks that polars took apart."""
    taken = 0

    def counting(*block: Any) -> object:
        nonlocal taken
        found = csv_block.columns(*block)
        taken += found is not None
        return found

    def read_both(text: str) -> tuple[Table | str, Table | str, int]:
        nonlocal taken
        taken = 0
        path = tmp_path / "f.csv"
        path.write_bytes(text.encode())
        separator = text[1] if text[1] in ",;\t" else ","
        monkeypatch.setattr(csv_file, "columns", counting)
        monkeypatch.setattr(csv_file, "BLOCK", 4)
        monkeypatch.setattr(csv_file, "FIRST", 4)
        monkeypatch.setattr(csv_block, "LEAST", 1)
        fast = told(path, separator)
        monkeypatch.setattr(csv_block, "LEAST", 2**40)
        by_polars = taken
        return fast, told(path, separator), by_polars

    return read_both


def same(one: Table | str, other: Table | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    names = [(table.features, table.labels, table.rejected, table.infinite) for table in (one, other)]
    return names[0] == names[1] and bits(one) == bits(other)


def bits(table: Table) -> list[bytes]:
    """Return the numbers to the last bit; there are several NaN, which all say that a value is missing."""
    numbers = (table.X.astype(np.float64), table.y, table.places)
    return [np.where(np.isnan(part), np.nan, part).tobytes() for part in numbers]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=files())
@example(text="a,b,y\n1,2,0\n1,x,0\n\n3,4,1\n5,6\n7,8,1\n1_0, 1 ,0\ninf,-inf,1\n1,2,\n,,1\n")
@example(text="y\n0\n\nx\n\n")
@example(text="a,b,y\n1,2,0\n1,2\r,0\n1\r,2,0\n\r,2,1\n1,2,0\r\n")
def test_by_polars_or_not_a_file_is_the_same_table(
    both: Callable[[str], tuple[Table | str, Table | str, int]], text: str
) -> None:
    fast, plain, _ = both(text)
    assert same(fast, plain)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(NUMBERS, CELLS, st.sampled_from("pq")), min_size=4, max_size=12))
def test_plain_lines_are_read_by_polars(
    both: Callable[[str], tuple[Table | str, Table | str, int]], rows: list[tuple[str, str, str]]
) -> None:
    text = "a,b,y\n" + "".join(",".join(row) + "\n" for row in rows)
    assume(not {'"', "\r"} & set(text) and text.count(",") == 2 + 2 * len(rows) == 2 * text.count("\n"))
    fast, plain, by_polars = both(text)
    assert same(fast, plain)
    # A line below the header may hold no record, as one of units does.
    records = len(fast) + len(fast.rejected) if isinstance(fast, Table) else len(rows)
    assert by_polars == -(-records // 4)


@given(texts=st.lists(FLOATS | DIGITS, min_size=1, max_size=50))
def test_polars_rounds_as_python_does(texts: list[str]) -> None:
    values, odd = csv_block.LazyTexts(pl.Series(texts, dtype=pl.String)).numbers()
    assert odd == {}
    known = np.array(list(map(float, texts)))
    assert np.where(np.isnan(values), np.nan, values).tobytes() == np.where(np.isnan(known), np.nan, known).tobytes()
