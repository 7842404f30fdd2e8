"""Every way in which a file or a request can be wrong ends in one line that names the place and the remedy."""

import gzip
import io
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from streamfl.errors import BrokenInvariantError, UsageError
from streamfl.records.files import parquet_rows
from streamfl.records.files.parquet_rows import ROWS
from streamfl.records.files.readers import read

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"


def npz(**arrays: object) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **{name: np.asarray(array) for name, array in arrays.items()})
    return stream.getvalue()


def parquet(**columns: object) -> bytes:
    stream = io.BytesIO()
    pl.DataFrame(columns, strict=False).write_parquet(stream)
    return stream.getvalue()


def one_array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ones(3))
    return stream.getvalue()


@dataclass
class Bad:
    file: str
    content: bytes
    says: tuple[str, ...]
    options: dict[str, object] = field(default_factory=dict)


GOOD = b"a,b,y\n1,2,0\n3,4,1\n"
TABLE = parquet(a=list(range(500)), y=[0, 1] * 250)
NUMBERS = npz(X=np.ones((4, 2)), y=[0, 1, 0, 1])

U = (b"kg", b"g")
CASES = {
    "empty": Bad("f.csv", b"", ("is empty", "at least one record")),
    "empty jsonl": Bad("f.jsonl", b"", ("is empty",)),
    "blank lines only": Bad("f.csv", b"\n\n\n", ("blank lines", "header")),
    "blank jsonl": Bad("f.jsonl", b"\n\n", ("blank lines", "JSON object")),
    "unknown format": Bad("f.xls", b"x", ("unknown format", ".csv.gz", ".parquet", "river:NAME")),
    "header alone": Bad("f.csv", b"a,b,y\n", ("no records", "at least one")),
    "no usable record": Bad(
        "f.csv", b"a,y\n1,\n1,0,0\n", ("none of its 2 records", "line 2", '"y"', "missing", "--drop")
    ),
    "no feature column": Bad("f.csv", b"y\n0\n1\n", ("no feature column", "commas")),
    "all dropped": Bad("f.csv", GOOD, ("no feature column",), {"drop": ["a", "b"]}),
    "other separator": Bad("f.csv", b"a;b;y\n1;2;0\n", ('separated by ";"', 'add --separator ";"')),
    "tabs": Bad("f.csv", b"a\tb\ty\n1\t2\t0\n", (r'separated by "\t"', "add --separator tab")),
    "objects": Bad(
        "f.csv", b'{"a": 1, "y": 0}\n{"a": 2, "y": 1}\n', ("JSON objects", "but its name says CSV", ".jsonl")
    ),
    "numbers with two units": Bad(
        "f.csv",
        b"a,b,c,y\n" + b"".join(b"%d.5 %s,%d %s,1,%d\n" % (i, U[i % 2], i, U[i % 2], i % 2) for i in range(60)),
        ("column a looks like numbers in another notation", '"0.5 kg" and "1.5 g"', "in one unit", "--drop"),
    ),
    "labels with two units": Bad(
        "f.csv",
        b"a,y\n" + b"".join(b"1,%d.5 %s\n" % (i, U[i % 2]) for i in range(60)),
        ("the labels look like numbers in another notation", '"0.5 kg"', "1234.5", "--label"),
    ),
    "wrong separator": Bad("f.csv", GOOD, ('separated by ","', 'add --separator ","'), {"separator": ";"}),
    "impossible separator": Bad("f.csv", GOOD, ("cannot be separated by '--'", "one character"), {"separator": "--"}),
    "separator of no CSV": Bad("f.npz", NUMBERS, ("only CSV", "leave --separator out"), {"separator": ";"}),
    "no header": Bad("f.csv", b"5.1,3.5,setosa\n4.9,3.0,setosa\n", ("line 1", "header line")),
    "numbers as names": Bad(
        "f.csv",
        b"turbine,0.0,0.5,y\nE1,1,2,0\n",
        ("line 1 has the number 0.5 where a column name", "header line", "rename this column"),
    ),
    "a report of several tables": Bad(
        "f.csv",
        b"Export\n" + b"".join(b"k%d,%s\n" % (i, b",".join([b"1"] * (1 + i % 7))) for i in range(30)),
        (
            "do not look like one table",
            'the first has no ","',
            "up to 8 columns",
            "delete everything except one table",
        ),
    ),
    "names twice below notes": Bad(
        "f.csv",
        b"Start: 2026\n\nSerial:,ab,ab\n" + b"10:00,1,0\n" * 9,
        ("line 3 is taken for the header", "names ab more than once", "delete the lines before"),
    ),
    "duplicate columns": Bad("f.csv", b"a,a,y\n1,2,0\n", ("named a", "its own name")),
    "unknown label": Bad("f.csv", GOOD, ("'z'", "a, b, y", "--label"), {"label": "z"}),
    "unknown drop": Bad("f.csv", GOOD, ("'z'", "a, b, y", "--drop"), {"drop": ["z"]}),
    "unknown time": Bad("f.csv", GOOD, ("'z'", "a, b, y", "--time"), {"time": "z"}),
    "unknown split": Bad("f.csv", GOOD, ("'z'", "a, b, y", "--split"), {"keep": "z"}),
    "label dropped": Bad("f.csv", GOOD, ("'a'", "remove it from --drop"), {"label": "a", "drop": ["a"]}),
    "not UTF-8": Bad("f.csv", b"a,y\n1,0\n2,\xff\n", ("line 3", "UTF-8")),
    "UTF-16": Bad("f.csv", "a,y\n1,0\n".encode("utf-16-le"), ("UTF-16", "--encoding utf-16-le")),
    "jsonl not UTF-8": Bad("f.jsonl", b'{"a": 1, "y": 0}\n{"a": "\xff", "y": 0}\n', ("line 2", "UTF-8")),
    "old line ends": Bad("f.csv", b"a,y\r1,0\r2,1\r", ("line 1", "LF")),
    "nothing but text and times": Bad(
        "f.csv",
        b"id,at,y\n" + b"".join(b"n%d,2026-11-23 08:15,0\n" % i for i in range(51)),
        ("no feature column", "column at looks like a time", "column id is text with more than 50 values"),
    ),
    "too many labels": Bad(
        "f.csv", b"a,y\n" + b"".join(b"1,%d\n" % i for i in range(1025)), ("1025", "--task regression", "--label")
    ),
    "text in regression": Bad("f.csv", b"a,y\n1,x\n2,z\n", ("line 2", '"x"', "regression"), {"task": "regression"}),
    "same feature twice": Bad("f.csv", b"c,c=red,y\nred,1,0\n", ("c=red", "rename")),
    "stop at text": Bad(
        "f.csv",
        b"a,Slope,y\n1,2,0\n1,abc,0\n",
        ("line 3", '"Slope"', '"abc"', "--on-bad-record"),
        {"on_bad_record": "stop"},
    ),
    "stop at infinity": Bad("f.csv", b"a,y\n1,0\n1,-inf\n", ("line 3", '"y"', "infinite"), {"on_bad_record": "stop"}),
    "stop at fields": Bad("f.csv", b"a,y\n1,0\n1\n", ("line 3", "1 field,", "has 2"), {"on_bad_record": "stop"}),
    "stop at label": Bad("f.csv", b"a,y\n1,0\n1,\n", ("line 3", '"y"', "missing"), {"on_bad_record": "stop"}),
    "stop at first": Bad("f.csv", b"a,y\n1,0\n1\nx,0\n", ("line 3",), {"on_bad_record": "stop"}),
    "stop at target": Bad("f.csv", b"a,y\n1,0.5\n1,x\n", ("line 3", '"y"', '"x"'), {"on_bad_record": "stop"}),
    "stop in jsonl": Bad(
        "f.jsonl", b'{"a": 1, "y": 0}\n{"a": "q", "y": 0}\n', ("line 2", '"a"', '"q"'), {"on_bad_record": "stop"}
    ),
    "cut short": Bad("f.jsonl", b'{"a": 1, "y": 0}\n{"a": 1,', ("line 2", "not JSON"), {"on_bad_record": "stop"}),
    "jsonl without label": Bad("f.jsonl", b'{"a": 1, "b": 0}\n', ("no label column", "a, b", "--label")),
    "jsonl of arrays": Bad("f.jsonl", b"[1]\n[2]\n", ("line 1", "not a JSON object", "one JSON object per line")),
    "jsonl list": Bad("f.jsonl", b'{"a": ["1"], "y": 0}\n', ("no feature column", "column a holds lists")),
    "not gzip": Bad("f.csv.gz", GOOD, ("write the file again",)),
    "gzip cut short": Bad("f.csv.gz", gzip.compress(GOOD * 99)[:-30], ("damaged", "compress it again")),
    "gzip spoilt": Bad("f.csv.gz", gzip.compress(GOOD)[:12] + b"\xff" * 30, ("damaged", "compress it again")),
    "parquet cut short": Bad("f.parquet", TABLE[:-20], ("not a complete Parquet", "write the file again")),
    "parquet spoilt": Bad("f.parquet", TABLE[:10] + b"\xff" * 200 + TABLE[210:], ("not a complete Parquet",)),
    "not parquet": Bad("f.parquet", GOOD, ("not a complete Parquet",)),
    "parquet list": Bad("f.parquet", parquet(a=[[1], [2]], y=[0, 1]), ("column a is List(Int64), neither",)),
    "parquet without rows": Bad("f.parquet", parquet(a=[], y=[]), ("no records",)),
    "pickled npz": Bad("f.npz", npz(X=np.array([[{}]], object), y=[0]), ("pickled", "numpy.savez")),
    "a pickle": Bad("f.npz", pickle.dumps({"X": 1}), ("pickled", "numpy.savez")),
    "npz spoilt": Bad("f.npz", NUMBERS[:100], ("not a complete npz", "numpy.savez")),
    "npz of one array": Bad("f.npz", one_array(), ("one array", "numpy.savez")),
    "npz without X": Bad("f.npz", npz(y=[0]), ("'X'", "numpy.savez")),
    "npz without y": Bad("f.npz", npz(X=[[0]]), ("'y'", "numpy.savez")),
    "npz lengths": Bad("f.npz", npz(X=np.ones((3, 2)), y=[0, 1]), ("(3, 2)", "(2,)", "make them")),
    "npz dimensions": Bad("f.npz", npz(X=np.ones((3, 2, 2)), y=[0, 1, 0]), ("(3, 2, 2)", "make them")),
    "npz text": Bad("f.npz", npz(X=[["a"]], y=[0]), ("X holds", "numbers")),
    "npz complex": Bad("f.npz", npz(X=[[1j]], y=[0]), ("X holds", "numbers")),
    "npz times": Bad("f.npz", npz(X=[[1]], y=np.array(["2024-01-01"], "M8[D]")), ("y holds", "numbers or text")),
    "npz features": Bad("f.npz", npz(X=[[1, 2]], y=[0], features=["a"]), ("'features'", "2 columns")),
    "npz label": Bad("f.npz", NUMBERS, ("'x0'", "leave out --label"), {"label": "x0"}),
    "npz drop": Bad("f.npz", NUMBERS, ("'x9'", "x0, x1", "--drop"), {"drop": ["x9"]}),
    "npz all dropped": Bad("f.npz", NUMBERS, ("no feature column",), {"drop": ["x0", "x1"]}),
    "npz without rows": Bad("f.npz", npz(X=np.ones((0, 2)), y=np.ones(0)), ("no records",)),
    "npz stop": Bad(
        "f.npz", npz(X=[[1], [2]], y=[0, np.inf]), ("record 2", '"y"', "infinite"), {"on_bad_record": "stop"}
    ),
    "npz unusable": Bad("f.npz", npz(X=[[1.0]], y=[np.inf]), ("none of its 1 records", "record 1")),
}


@pytest.mark.process
@pytest.mark.parametrize("bad", CASES.values(), ids=CASES.keys())
def test_the_error_about_a_bad_file_names_the_file_the_place_and_the_remedy(bad: Bad, tmp_path: Path) -> None:
    path = tmp_path / bad.file
    path.write_bytes(bad.content)
    with pytest.raises(UsageError) as caught:
        read(str(path), **bad.options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert "; " in message
    assert [part for part in bad.says if part not in message] == []


@pytest.mark.process
@pytest.mark.full
def test_damaged_parquet_is_one_line_and_rust_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, rng, told = tmp_path / "f.parquet", np.random.default_rng(0), set[str]()
    sound = parquet(a=rng.normal(size=500), t=[f"x{i % 9}" for i in range(500)], y=[0, 1] * 250)
    for _ in range(15):
        spoilt = bytearray(sound)
        for place in rng.integers(4, len(spoilt), 10).tolist():
            spoilt[place] = int(rng.integers(0, 256))
        path.write_bytes(spoilt)
        try:
            read(str(path))
        except UsageError as error:
            told.add(str(error))
    assert len(told) > 3
    assert all("\n" not in one and "not a complete Parquet file (" in one for one in told)
    assert capfd.readouterr().err == ""


@pytest.mark.process
def test_a_parquet_file_that_ends_polars_ends_nothing_else(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes((CORPUS / "parquet" / "broken-more-memory-than-there-is.bin").read_bytes())
    with pytest.raises(
        UsageError, match=r"not a complete Parquet file \(a page of the file needs more memory than there is\); "
    ):
        read(str(path))
    assert capfd.readouterr().err == ""


def test_a_parquet_file_that_may_not_be_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(TABLE)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(UsageError, match=r"f\.parquet: no permission to read it; "):
        read(str(path))


@pytest.mark.process
def test_a_reader_of_parquet_that_fails_by_itself_is_not_the_files_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(TABLE)
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(BrokenInvariantError, match="ended with code 1"):
        read(str(path))


@pytest.mark.process
def test_many_blocks_of_parquet_are_one_table(tmp_path: Path) -> None:
    path, n = tmp_path / "f.parquet", 2 * ROWS + 17
    path.write_bytes(parquet(a=np.arange(n), y=np.arange(n) % 2))
    table = read(str(path))
    assert table.X[:, 0].tolist() == list(range(n))


def test_a_missing_file_and_a_directory_are_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.csv: no such file; correct the path"):
        read(str(tmp_path / "none.csv"))
    with pytest.raises(UsageError, match=r"is a directory; name one file in it"):
        read(str(tmp_path))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PermissionError(13, "Permission denied"), "no permission to read it; "),
        (OSError(5, "Input/output error"), "Input/output"),
    ],
)
def test_a_file_that_the_system_refuses_is_reported_with_its_reason(
    error: OSError, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(GOOD)

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError, match=f"f.csv: .*{says}"):
        read(str(path))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(GOOD)
    path.chmod(0)
    with pytest.raises(UsageError, match=r"f\.csv: no permission"):
        read(str(path))


RIVER: dict[str, tuple[str, Callable[[], object], tuple[str, ...]]] = {
    "unknown": ("river:Nothing", lambda: read("river:Nothing"), ("'Nothing'", "Phishing", "synth.SEA")),
    "no class": ("river:base", lambda: read("river:base"), ("'base'", "Phishing")),
    "several outputs": ("river:SolarFlare", lambda: read("river:SolarFlare"), ("several labels", "Phishing")),
    "label": ("river:Phishing", lambda: read("river:Phishing", label="a"), ("its own label", "leave out --label")),
    "drop": ("river:Phishing", lambda: read("river:Phishing", drop=["a"]), ("'a'", "long_url", "--drop")),
    "no number": (
        "river:AirlinePassengers",
        lambda: read("river:AirlinePassengers"),
        ("month looks like a time",),
    ),
}


@pytest.mark.parametrize(("name", "call", "says"), RIVER.values(), ids=RIVER.keys())
def test_unusable_names_of_river_datasets_are_refused_in_one_line(
    name: str, call: Callable[[], object], says: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert "\n" not in message
    assert [part for part in says if part not in message] == []


def test_river_downloads_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RIVER_DATA", str(tmp_path))
    with pytest.raises(UsageError, match=r"river:Higgs: River has not downloaded it yet; run python -c"):
        read("river:Higgs")


def test_a_spoilt_page_that_makes_polars_panic(monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("out of specification\nand more")

    monkeypatch.setattr(pl, "scan_parquet", panic)
    monkeypatch.setattr("sys.argv", ["parquet_rows", "f.parquet"])
    with pytest.raises(SystemExit, match=r"^\nparquet: out of specification$"):
        parquet_rows.main()
