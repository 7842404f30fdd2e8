"""Reads NumPy archives with a feature matrix `X` and a label vector `y`."""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.protocol.records import Rejection, without_infinity
from streamfl.streams.assembly import Blocks, RowBlock
from streamfl.streams.cells import quoted, texts
from streamfl.streams.labels import LabelTexts, resolve
from streamfl.streams.objects import counted
from streamfl.streams.request import Request, check_names
from streamfl.streams.table import Numbers, Table
from streamfl.streams.times import of_cells, unknown

ROWS = 65_536  # processed at a time

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
    columns = {request.keep: texts(kept[rows].tolist())} if request.keep is not None else {}
    infinite = _made_missing(X)
    places = rows.astype(np.int64)
    times, notes = _times(request, found, rows)
    return Table(
        path.name, arrays.features, X, y[rows], labels, places, rejected, columns,
        infinite=infinite, times=times, notes=notes, excluded=tuple(sorted(request.excluded)),
    )  # fmt: skip


@contextmanager
def npz_file(request: Request, path: Path) -> Iterator[Blocks]:
    """Open an npz file: see `read_npz`. It is loaded as a whole; without labels it needs no `y`."""
    found = _loaded(request, path)
    labelled = request.label is not None
    arrays = _chosen(request, _checked(request, found if labelled else {**found, "y": _no_labels(found)}))
    yield Blocks(request, path.name, "y" if labelled else "", "record", _blocks(arrays, labelled=labelled))


def _no_labels(found: Mapping[str, npt.NDArray[np.generic]]) -> Labels:
    return np.zeros(found["X"].shape[:1] if "X" in found else 0)


def _blocks(arrays: _Arrays, *, labelled: bool) -> Iterator[RowBlock]:
    for start in range(0, len(arrays.X), ROWS):
        rows = slice(start, start + ROWS)
        places, numbers = counted(start, len(arrays.X[rows]))
        yield RowBlock(
            places=places,
            lines=numbers,
            features={name: arrays.X[rows, j].astype(np.float64) for j, name in enumerate(arrays.features)},
            label=arrays.y[rows].tolist() if labelled else (),
        )


def _times(request: Request, arrays: _Arrays, rows: IntArray) -> tuple[FloatArray, tuple[str, ...]]:
    if request.time not in arrays.features:
        return np.empty(0), ()
    times, wrong = of_cells(arrays.X[rows, arrays.features.index(request.time)])
    return times, unknown(list(wrong.values()))


def _loaded(request: Request, path: Path) -> dict[str, npt.NDArray[np.generic]]:
    damaged = "not a whole npz file without pickled objects"
    try:
        with path.open("rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise request.refusal("one array, not an npz archive", "save it with numpy.savez(file, X=X, y=y)")
            return {name: archive[name] for name in ("X", "y", "features") if name in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise request.refusal(f"{damaged} ({reason})", "save plain arrays with numpy.savez(file, X=X, y=y)") from None


def _checked(request: Request, found: Mapping[str, npt.NDArray[np.generic]]) -> _Arrays:
    for name in ("X", "y"):
        if name not in found:
            raise request.refusal(f"it has no array {name!r}", "save it with numpy.savez(file, X=X, y=y)")
    X, y = found["X"], found["y"]
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
        what = f"X has shape {X.shape} and y has shape {y.shape}"
        raise request.refusal(what, "make them (n, d) and (n,)")
    if not (np.issubdtype(X.dtype, np.number) or X.dtype == np.bool_) or np.iscomplexobj(X):
        raise request.refusal(f"X holds {X.dtype}, not real numbers", "save it as numbers")
    if y.dtype.kind not in "biufUS":
        raise request.refusal(f"y holds {y.dtype}, neither numbers nor text", "save it as numbers or text")
    if y.dtype.kind == "S":
        y = np.char.decode(cast(npt.NDArray[np.bytes_], y), "utf-8", "replace")
    return _Arrays(cast(Numbers, X), y, _names(request, found, X.shape[1]))


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
    check_names(request, [*arrays.features, "y"])
    if request.label not in {None, "y"}:
        raise request.refusal(
            f"the label of an npz file is its array 'y', not {request.label!r}", "leave out --label"
        )
    stay = [i for i, name in enumerate(arrays.features) if name not in request.excluded]
    if not stay:
        raise request.refusal("it has no feature column beside the label", "give X at least one, or drop fewer")
    if len(stay) == len(arrays.features):
        return arrays
    return _Arrays(arrays.X[:, stay], arrays.y, tuple(arrays.features[i] for i in stay))


def _kept(request: Request, arrays: _Arrays) -> npt.NDArray[np.generic]:
    if request.keep in arrays.features:
        return arrays.X[:, arrays.features.index(request.keep)]
    return arrays.y


def _targets(request: Request, y: Labels) -> tuple[FloatArray, tuple[str, ...], dict[int, str]]:
    seen = LabelTexts()
    codes: IntArray = np.empty(len(y), np.int64)
    reasons: dict[int, str] = {}
    for start in range(0, len(y), ROWS):
        codes[start : start + ROWS], wrong = seen.add(y[start : start + ROWS].tolist())
        reasons |= {start + i: f'record {start + i + 1}, column "y": {why}' for i, why in wrong.items()}
    values = np.full(len(y), np.nan)
    good = codes >= 0
    values[good], labels = resolve(request, list(seen.codes), codes[good])
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
    what = f"none of its {len(reasons)} records can be used; the first: {reasons[min(reasons)]}"
    return request.refusal(what, "correct the file")
