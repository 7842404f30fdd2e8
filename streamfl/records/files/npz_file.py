"""Reads NumPy archives with a feature matrix `X` and a label vector `y`."""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray, Numbers
from streamfl.protocol.records import Rejection, without_infinity
from streamfl.records.assembly import Blocks, RowBlock
from streamfl.records.files.file_format import FileFormat
from streamfl.records.files.npz_rows import MOST_WHOLE, ArrayRows, opened, readable
from streamfl.records.labels import LabelTexts, resolve
from streamfl.records.objects import counted
from streamfl.records.request import Request, check_names
from streamfl.records.table import Table
from streamfl.records.values.cells import NAMES, quoted, texts
from streamfl.records.values.day_and_clock import joined
from streamfl.records.values.times import of_cells, unknown

ROWS = 65_536  # processed at a time

# The most bytes of X that are read at a time.
BLOCK = 2**25

NUMBERS = np.dtype(np.float64)

Labels = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, eq=False)
class _Arrays:
    X: Numbers
    y: Labels
    features: tuple[str, ...]


def read_npz(request: Request, path: Path) -> Table:
    """Read an npz file: `X` (n, d), `y` (n,) and optionally `features` (d,), the names of the columns.

    Without `features` the columns are named x0, x1, ... `X` keeps its stored type.

    Raises
    ------
    UsageError
        If the file is damaged or pickled, an array is missing or has the wrong shape or type, or a record is bad
        and the request is to stop.
    """
    found = _checked(request, _loaded(request, path))
    arrays, kept = _chosen(request, found), _kept(request, found)
    y, labels, reasons = _targets(request, arrays.y)
    if reasons and request.on_bad_record == "stop":
        remedy = "correct it, or add --on-bad-record reject to leave it out"
        raise request.refusal(reasons[min(reasons)], remedy)
    good = np.ones(len(y), np.bool_)
    good[list(reasons)] = False
    if not good.any():
        raise _nothing(request, reasons)
    rows = np.flatnonzero(good)
    X = arrays.X[rows] if reasons else arrays.X
    rejected = tuple(Rejection(i, reasons[i]) for i in sorted(reasons))
    columns = {request.keep: texts(kept[rows].tolist(), NAMES)} if request.keep is not None else {}
    infinite = _made_missing(X)
    places = rows.astype(np.int64)
    times, notes = _times(request, found, rows)
    return Table(
        path.name, arrays.features, X, y[rows], labels, places, rejected, columns,
        infinite=infinite, times=times, notes=notes, excluded=tuple(sorted(request.excluded)),
    )  # fmt: skip


class Npz(FileFormat):
    """A NumPy archive with the arrays `X` and `y`."""

    label = "y"

    @classmethod
    def blocks(cls, request: Request, path: Path) -> AbstractContextManager[Blocks]:
        """Open a file to be read block by block."""
        return npz_file(request, path)

    @classmethod
    def table(cls, request: Request, path: Path) -> Table:
        """Read a whole file; its features keep the type in which they are stored."""
        return read_npz(request, path)


@contextmanager
def npz_file(request: Request, path: Path) -> Iterator[Blocks]:
    """Open an npz file: see `read_npz`. It is read in blocks, and without labels it needs no `y`.

    A matrix that is stored column by column (Fortran order) is loaded as a whole.

    Raises
    ------
    UsageError
        As by `read_npz`; of a file that ends too early when the block is read that is not there.
    """
    if not zipfile.is_zipfile(path):
        _loaded(request, path)  # it says what is wrong
    labelled = request.label is not None
    with opened(request, path, ("X", "y", "features")) as stored:
        X, y = _checked_shapes(request, stored, labelled=labelled)
        names = _names(request, _column_names(stored), X.shape[1])
        stay = _chosen_columns(request, names)
        yield Blocks(
            request, path.name, "y" if labelled else "", "record", _blocks(X, y, {names[j]: j for j in stay})
        )


def _checked_shapes(
    request: Request, stored: Mapping[str, ArrayRows], *, labelled: bool
) -> tuple[ArrayRows, ArrayRows | None]:
    """Return X, and y if there are labels, after checking their headers."""
    _check(
        request, stored if labelled else {"y": ArrayRows(request, "y", _shape_of_labels(stored), NUMBERS), **stored}
    )
    return stored["X"], stored["y"] if labelled else None


def _shape_of_labels(stored: Mapping[str, ArrayRows]) -> tuple[int, ...]:
    return stored["X"].shape[:1] if "X" in stored else (0,)


def _column_names(stored: Mapping[str, ArrayRows]) -> dict[str, Labels]:
    names = stored.get("features")
    if names is None:
        return {}
    if len(names.shape) != 1 or names.shape[0] * names.row_bytes > MOST_WHOLE:
        return {"features": np.zeros((), names.dtype)}  # which is refused
    return {"features": names.take(names.shape[0])}


def _blocks(X: ArrayRows, y: ArrayRows | None, features: Mapping[str, int]) -> Iterator[RowBlock]:
    """Yield the records in blocks; `features` has the columns of X by name."""
    rows = max(1, min(ROWS, BLOCK // max(1, X.row_bytes)))
    for start in range(0, X.shape[0], rows):
        numbers = X.take(rows)
        places, lines = counted(start, len(numbers))
        yield RowBlock(
            places=places,
            lines=lines,
            features={name: numbers[:, j].astype(np.float64) for name, j in features.items()},
            label=_as_text(y.take(rows)).tolist() if y is not None else (),
        )


def _times(request: Request, arrays: _Arrays, rows: IntArray) -> tuple[FloatArray, tuple[str, ...]]:
    if request.time is None or not set(request.times) <= set(arrays.features):
        return np.empty(0), ()
    cells = joined([arrays.X[rows, arrays.features.index(name)] for name in request.times])
    times, column = of_cells(request.time, cells, request.notation)
    return times, (*unknown(list(column.wrong[0].values())), *filter(None, [column.note()]))


def _loaded(request: Request, path: Path) -> dict[str, Labels]:
    with readable(request), path.open("rb") as stream:
        archive = np.load(stream, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise request.refusal("one array, not an npz archive", "save it with numpy.savez(file, X=X, y=y)")
        return {name: archive[name] for name in ("X", "y", "features") if name in archive.files}


def _checked(request: Request, found: Mapping[str, Labels]) -> _Arrays:
    _check(request, found)
    X = found["X"]
    return _Arrays(cast(Numbers, X), _as_text(found["y"]), _names(request, found, X.shape[1]))


def _as_text(y: Labels) -> Labels:
    return np.char.decode(cast(npt.NDArray[np.bytes_], y), "utf-8", "replace") if y.dtype.kind == "S" else y


def _check(request: Request, found: Mapping[str, Labels] | Mapping[str, ArrayRows]) -> None:
    """Refuse arrays that are missing, or of a shape or a type that no records have."""
    for name in ("X", "y"):
        if name not in found:
            raise request.refusal(f"it has no array {name!r}", "save it with numpy.savez(file, X=X, y=y)")
    X, y = found["X"], found["y"]
    if len(X.shape) != 2 or len(y.shape) != 1 or X.shape[0] != y.shape[0]:
        what = f"X has shape {X.shape} and y has shape {y.shape}"
        raise request.refusal(what, "make them (n, d) and (n,)")
    is_real = np.issubdtype(X.dtype, np.number) and not np.issubdtype(X.dtype, np.complexfloating)
    if not (is_real or X.dtype == np.bool_):
        raise request.refusal(f"X holds {X.dtype}, not real numbers", "save it as numbers")
    if y.dtype.kind not in "biufUS":
        raise request.refusal(f"y holds {y.dtype}, neither numbers nor text", "save it as numbers or text")


def _names(request: Request, found: Mapping[str, npt.NDArray[np.generic]], width: int) -> tuple[str, ...]:
    names = found.get("features")
    if names is None:
        return tuple(f"x{i}" for i in range(width))
    if names.dtype.kind != "U" or names.shape != (width,):
        what = f"'features' holds {names.dtype} of shape {names.shape}, and X has {width} columns"
        raise request.refusal(what, "save one text for each column of X, or leave it out")
    return tuple(names.tolist())


def _chosen(request: Request, arrays: _Arrays) -> _Arrays:
    """Leave out the columns that are not features."""
    stay = _chosen_columns(request, arrays.features)
    if len(stay) == len(arrays.features):
        return arrays
    return _Arrays(arrays.X[:, stay], arrays.y, tuple(arrays.features[i] for i in stay))


def _chosen_columns(request: Request, names: tuple[str, ...]) -> list[int]:
    """Return the places of the columns that are features."""
    check_names(request, [*names, "y"])
    if request.label not in {None, "y"}:
        raise request.refusal(
            f"the label of an npz file is its array 'y', not {request.label!r}", "leave out --label"
        )
    stay = [i for i, name in enumerate(names) if name not in request.excluded]
    if not stay:
        raise request.refusal("it has no feature column besides the label", "give X at least one, or drop fewer")
    return stay


def _kept(request: Request, arrays: _Arrays) -> npt.NDArray[np.generic]:
    if request.keep in arrays.features:
        return arrays.X[:, arrays.features.index(request.keep)]
    return arrays.y


def _targets(request: Request, y: Labels) -> tuple[FloatArray, tuple[str, ...], dict[int, str]]:
    seen = LabelTexts(reading=request.reading)
    codes: IntArray = np.empty(len(y), np.int64)
    reasons: dict[int, str] = {}
    for start in range(0, len(y), ROWS):
        codes[start : start + ROWS], wrong = seen.add(y[start : start + ROWS].tolist())
        reasons |= {start + i: f'record {start + i + 1}, column "y": {why}' for i, why in wrong.items()}
    values = np.full(len(y), np.nan)
    good = codes >= 0
    values[good], labels = resolve(request, seen, codes[good])
    for i in np.flatnonzero(np.isnan(values) & good).tolist():
        reasons[i] = f'record {i + 1}, column "y": {quoted(y[i])} is not a number, and the task is regression'
    return values, labels, reasons


def _made_missing(X: Numbers) -> int:
    """Replace infinite values by NaN, in place; return their number."""
    found = 0
    for start in range(0, len(X) if X.dtype.kind == "f" else 0, ROWS):
        X[start : start + ROWS], infinite = without_infinity(cast(FloatArray, X[start : start + ROWS]))
        found += infinite
    return found


def _nothing(request: Request, reasons: Mapping[int, str]) -> Exception:
    if not reasons:
        return request.refusal("it has no records", "give a file with at least one")
    what = f"none of its {len(reasons)} records can be used; the reason for the first one: {reasons[min(reasons)]}"
    return request.refusal(what, "correct the file")
