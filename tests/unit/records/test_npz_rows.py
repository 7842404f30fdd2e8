"""An npz file in blocks: what is read at a time, and files that are not what their headers say."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from streamfl.errors import UsageError
from streamfl.records.files import npz_file
from streamfl.records.files.npz_rows import ArrayRows
from streamfl.records.files.readers import blocks
from streamfl.records.request import Request


def records(path: Path, label: str | None = "y") -> list[tuple[dict[str, list[float]], list[object]]]:
    """Return the features and labels of each block."""
    with blocks(Request(str(path), label=label, labelled=label is not None)) as found:
        return [({k: list(v) for k, v in block.features.items()}, list(block.label)) for block in found.each]


def archive(path: Path, **arrays: bytes) -> Path:
    """Write an archive of members that may be anything."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in arrays.items():
            file.writestr(f"{name}.npy", data)
    return path


def told(shape: tuple[int, ...], data: bytes, *, by_columns: bool = False, descr: str = "<f8") -> bytes:
    """Return a member whose header says what it likes."""
    stream = io.BytesIO()
    npy.write_array_header_1_0(stream, {"descr": descr, "fortran_order": by_columns, "shape": shape})
    return stream.getvalue() + data


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The rows that are read at a time, by array; at most 4."""
    monkeypatch.setattr(npz_file, "ROWS", 4)
    noted: list[tuple[str, int]] = []
    take = ArrayRows.take

    def noting(self: ArrayRows, rows: int) -> np.ndarray:
        found = take(self, rows)
        noted.append((self.name, len(found)))
        return found

    monkeypatch.setattr(ArrayRows, "take", noting)
    return noted


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_file_is_read_some_rows_at_a_time(save, taken, tmp_path: Path):
    X, y = np.arange(22.0).reshape(11, 2).astype(">f4"), np.array(["a", "b", "c"] * 3 + ["a", "b"])
    save(tmp_path / "f.npz", X=X, y=y, features=["u", "v"])
    found = records(tmp_path / "f.npz")
    assert taken == [("features", 2), *(("X", n) if k == 0 else ("y", n) for n in (4, 4, 3) for k in (0, 1))]
    assert [len(labels) for _, labels in found] == [4, 4, 3]
    assert [x for block, _ in found for x in block["u"]] == X[:, 0].tolist()
    assert [x for block, _ in found for x in block["v"]] == X[:, 1].tolist()
    assert [label for _, labels in found for label in labels] == y.tolist()


def test_of_wide_rows_fewer_are_read_at_a_time(taken, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(npz_file, "BLOCK", 100)
    np.savez(tmp_path / "f.npz", X=np.ones((5, 6)))  # 48 bytes a row
    records(tmp_path / "f.npz", label=None)
    assert taken == [("X", 2), ("X", 2), ("X", 1)]


def test_a_matrix_that_is_stored_column_by_column_has_the_same_blocks(taken, tmp_path: Path):
    X = np.asfortranarray(np.arange(12.0).reshape(6, 2))
    np.savez(tmp_path / "f.npz", X=X, y=np.arange(6))
    found = records(tmp_path / "f.npz")
    assert [block["x1"] for block, _ in found] == [[1.0, 3.0, 5.0, 7.0], [9.0, 11.0]]


def test_a_file_that_ends_early_is_told_with_the_record_behind_which_it_ends(taken, tmp_path: Path):
    X = np.arange(20.0).reshape(10, 2).tobytes()
    path = archive(tmp_path / "f.npz", X=told((10, 2), X[: 7 * 16 + 3]), y=told((10,), np.ones(10).tobytes()))
    with blocks(Request(str(path), label="y")) as found:
        assert next(found.each).features["x0"].tolist() == [0.0, 2.0, 4.0, 6.0]
        with pytest.raises(
            UsageError, match=r"its array 'X' ends after record 7 of 10; get a complete copy of the file"
        ):
            next(found.each)


def test_bytes_that_do_not_inflate_are_told(taken, tmp_path: Path):
    path = tmp_path / "f.npz"
    np.savez_compressed(path, X=np.random.default_rng(1).normal(size=(3000, 2)), y=np.ones(3000))
    data = bytearray(path.read_bytes())
    data[2000:2100] = b"\xff" * 100
    path.write_bytes(data)
    with pytest.raises(UsageError, match="not a complete npz file"):
        records(path)


LIES = {
    "more records than there are bytes": ({"X": told((10**15, 2), b"\0" * 64)}, "ends after record 4 of"),
    "a record without end": ({"X": told((1, 10**9), b"")}, "at most 4194304"),
    "a matrix by columns without end": ({"X": told((10**15, 2), b"", by_columns=True)}, "not a complete npz file"),
    "a negative shape": ({"X": told((-1, 2), b"")}, ""),
    "names without end": (
        {"X": told((1, 1), b"\0" * 8), "features": told((10**12,), b"", descr="<U9")},
        "'features'",
    ),
    "names that are one": ({"X": told((1, 1), b"\0" * 8), "features": told((), b"", descr="<U9")}, "'features'"),
    "an unknown version": ({"X": b"\x93NUMPY\x09\x00"}, "npy format"),
    "no array": ({"X": b"junk"}, "not a complete npz file"),
    "pickled": ({"X": told((1, 1), b"", descr="|O")}, "pickled"),
}


@pytest.mark.parametrize(("arrays", "reason"), LIES.values(), ids=LIES)
def test_headers_that_lie_take_no_memory_and_are_refused(arrays, reason, taken, tmp_path: Path):
    path = archive(tmp_path / "f.npz", **arrays)
    if reason:
        with pytest.raises(UsageError, match=reason):
            records(path, label=None)
    else:
        assert records(path, label=None) == []
