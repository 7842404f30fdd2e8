"""Reads NumPy archives with a feature matrix `X` and a label vector `y`."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from streamfl.records.assembly import Blocks, RowBlock
from streamfl.records.files.file_format import FileFormat
from streamfl.records.files.npz_rows import MOST_WHOLE, ArrayRows, opened, readable
from streamfl.records.objects import counted
from streamfl.records.request import Request, check_names
from streamfl.records.table import Table
from streamfl.records.values.day_and_clock import joined

ROWS = 65_536  # processed at a time

# The most bytes of X that are read at a time.
BLOCK = 2**25

NUMBERS = np.dtype(np.float64)

Labels = npt.NDArray[np.generic]


class Npz(FileFormat):
    """A NumPy archive: `X` (n, d), `y` (n,) and optionally `features` (d,), the names of the columns.

    Without `features` the columns are named x0, x1, ...
    """

    label = "y"

    @classmethod
    def blocks(cls, request: Request, path: Path) -> AbstractContextManager[Blocks]:
        """Open a file to be read block by block."""
        return npz_file(request, path)

    @classmethod
    def table(cls, request: Request, path: Path) -> Table:
        """Read a whole file; its labels are an array, not a column with a name."""
        return replace(super().table(request, path), label="")


@contextmanager
def npz_file(request: Request, path: Path) -> Iterator[Blocks]:
    """Open an npz file, to be read block by block; without labels it needs no `y`.

    A matrix that is stored column by column (Fortran order) is loaded as a whole.

    Raises
    ------
    UsageError
        The file is damaged or pickled, or an array is missing or has the wrong shape or type; of a file that ends too
        early when the block is read that is not there.
    """
    if not zipfile.is_zipfile(path):
        _check_archive(request, path)
    labelled = request.labelled
    with opened(request, path, ("X", "y", "features")) as stored:
        X, y = _checked_shapes(request, stored, labelled=labelled)
        names = _names(request, _column_names(stored), X.shape[1])
        stay = _chosen_columns(request, names)
        yield Blocks(request, path.name, "y" if labelled else "", "record", _blocks(request, X, y, names, stay))


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


def _blocks(
    request: Request, X: ArrayRows, y: ArrayRows | None, names: tuple[str, ...], stay: Sequence[int]
) -> Iterator[RowBlock]:
    """Yield the records in blocks; `stay` has the places of the columns that are features."""
    rows, at = max(1, min(ROWS, BLOCK // max(1, X.row_bytes))), {name: j for j, name in enumerate(names)}
    has_times = bool(request.times) and set(request.times) <= at.keys()
    for start in range(0, X.shape[0], rows):
        numbers = X.take(rows)
        places, lines = counted(start, len(numbers))
        label = _as_text(y.take(rows)).tolist() if y is not None else ()
        kept = numbers[:, at[request.keep]].tolist() if request.keep in at else label
        yield RowBlock(
            places=places,
            lines=lines,
            features={names[j]: numbers[:, j].astype(np.float64) for j in stay},
            label=label,
            kept=None if request.keep is None else kept,
            times=joined([numbers[:, at[name]].astype(np.float64) for name in request.times]) if has_times else None,
        )


def _check_archive(request: Request, path: Path) -> None:
    """Say what is wrong with a file that is no archive."""
    with readable(request), path.open("rb") as stream:
        np.load(stream, allow_pickle=False)
    raise request.refusal("one array, not an npz archive", "save it with numpy.savez(file, X=X, y=y)")


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
