"""A record of CSV may have several lines: what Python's csv module writes is read as Python's csv module reads it."""

import csv
import io
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from streamfl.errors import UsageError
from streamfl.records.files.csv_file import csv_stream
from streamfl.records.files.csv_head import LOOKED_AT, head
from streamfl.records.files.lines import LONGEST
from streamfl.records.files.readers import blocks, read
from streamfl.records.request import Request

SEPARATORS = ",;\t| "
NAMES = ("x", "note", "y")
# Parts of texts that CSV must quote, or that look like something else where a line begins.
PARTS = ["", "a", "1", "2.5", '"', '""', *SEPARATORS, "\n", "\n\n", "\r\n", "\r", "#", "# n", "x,y\n"]  # fmt: skip
NOTES = st.lists(st.sampled_from(PARTS), max_size=8).map("".join) | st.text('ab,;\n"', max_size=30)
LONG = st.tuples(NOTES, st.integers(1, 2 * LOOKED_AT)).map(lambda found: f"{found[0]}\n" * found[1])
TABLES = st.lists(st.tuples(st.integers(-9, 99), NOTES | LONG, st.sampled_from("pq")), min_size=1, max_size=30)


def written(rows: list[tuple[str, ...]], separator: str, end: str) -> str:
    out = io.StringIO(newline="")
    has_return = any("\r" in cell for row in rows for cell in row)  # older versions of Python do not quote it
    quoting = csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL
    csv.writer(out, delimiter=separator, lineterminator=end, quoting=quoting).writerows(rows)
    return out.getvalue()


def squeezed(note: str) -> str:
    """Return a text that any number of blanks between columns leaves as it is."""
    return "\n".join(" ".join(line.split()) for line in note.split("\n")).strip("\n") or "none"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=TABLES,
    separator=st.sampled_from(SEPARATORS),
    order=st.permutations(range(3)),
    end=st.sampled_from(["\n", "\r\n"]),
)
@example([(1, "one\ntwo", "p"), (2, "one\ntwo", "q")] * 30, ",", [0, 1, 2], "\n")
@example([(1, "line one\nline, two", "p"), (2, "", "q")] * 30, ",", [0, 1, 2], "\n")
@example([(1, "# one\ntwo three", "p"), (2, "# four\nfive six", "q")] * 30, ",", [1, 0, 2], "\n")
@example([(1, "a,b\n" * 3 * LOOKED_AT, "p"), (2, "c", "q")], ",", [0, 1, 2], "\n")
def test_any_table_that_pythons_csv_module_writes_is_read_as_it_reads_it(
    tmp_path: Path, table: list[tuple[int, str, str]], separator: str, order: list[int], end: str
) -> None:
    rows = [(str(x), squeezed(note) if separator == " " else note, y) for x, note, y in table]
    text = written([tuple(row[j] for j in order) for row in [NAMES, *rows]], separator, end)
    path = tmp_path / "f.csv"
    path.write_bytes(text.encode())
    names, *expected = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    with blocks(Request(str(path), label="y", separator=separator)) as opened:
        found = list(opened.each)
    assert not any(block.rejected for block in found)
    cells = {
        name: list(chain.from_iterable(block.label if name == "y" else block.features[name] for block in found))
        for name in names
    }
    assert [list(row) for row in zip(*(cells[name] for name in names), strict=True)] == expected
    assert np.concatenate([block.places for block in found]).tolist() == list(range(len(expected)))


def as_lines(rows: list[tuple[str, ...]]) -> list[str]:
    return written(rows, ",", "\n").splitlines(keepends=True)


def test_a_name_and_units_of_several_lines_are_each_one_record(tmp_path: Path) -> None:
    rows = [(f"{i}.5", f"{i % 7}", "one\ntwo", "pq"[i % 2]) for i in range(12)]
    lines = [
        "Report\n",
        "\n",
        *as_lines([("temp\n(outside)", "n", "note", "y"), ("deg\nC", "per\nhour", "", ""), *rows]),
    ]
    found = head(Request("f.csv"), lines)
    assert found is not None
    assert (found.skip, found.lines, found.below) == (2, 2, 3)
    path = tmp_path / "f.csv"
    path.write_text("".join(lines))
    table = read(str(path))
    assert table.X[:, 0].tolist() == [i + 0.5 for i in range(12)]
    assert (len(table), table.rejected) == (12, ())


@pytest.mark.parametrize("at", [0, 1, 5, 59])
@pytest.mark.parametrize("rest", ["one\ntwo", "one;two\n;three", "a,b\nc,d\n" * 40, "word\n" * 400_000])
def test_a_quote_that_never_closes_is_named_and_not_blamed_on_the_columns(tmp_path: Path, at: int, rest: str) -> None:
    lines = ["x,note,y\n", *(f'{i * 7 % 11},"one\ntwo",{"pq"[i % 2]}\n' for i in range(60))]
    whole = "".join(lines[: at + 1])
    path = tmp_path / "f.csv"
    path.write_text(f'{whole}8,"{rest},p\n')
    with pytest.raises(UsageError, match=rf"line {whole.count(chr(10)) + 1}: a quote opens here") as error:
        read(str(path))
    assert "close the quote" in str(error.value) or str(LONGEST) in str(error.value)


def test_no_more_than_the_longest_record_is_looked_at_for_the_end_of_a_quote(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text('x,note,y\n1,"' + "0123456789\n" * (4 * LONGEST // 11) + '",p\n2,b,q\n')
    with path.open("rb") as stream, pytest.raises(UsageError, match="line 2: a quote opens here"):
        try:
            list(csv_stream(Request("f.csv"), "f.csv", stream).each)
        finally:
            assert stream.tell() < 2.5 * LONGEST


def test_a_quote_in_a_note_above_the_table_takes_no_record(tmp_path: Path) -> None:
    rows = [f'{i},"one\ntwo",{"pq"[i % 2]}\n' for i in range(30)]
    for note in ('Author,"A. Smith\n', 'a 5" disk\n', '# "seen, not checked\n'):
        path = tmp_path / "f.csv"
        path.write_text("".join([note, "x,note,y\n", *rows]))
        table = read(str(path))
        assert (len(table), table.rejected, table.features[0]) == (30, (), "x"), note
