"""The features of all methods, prepared once; the scaler of the federation is off."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, Numbers
from streamfl.errors import UsageError
from streamfl.records.files.covtype import covtype
from streamfl.records.files.readers import read
from streamfl.records.table import Table

SIDE = 28  # pixels of an MNIST image


def prepared(stream: str, data: Path | None) -> Table:
    """Return the table that a stream's rounds are drawn from, its features ready to learn from.

    `covtype` (the sample that ships with streamfl, or that of `data`) is standardised over the whole table, clipped
    at 5 and divided by sqrt(10). `mnist` is divided by 255, `mnist14` the 2x2 means of it. A file is standardised,
    missing values being the mean.

    Parameters
    ----------
    stream
        `covtype`, `mnist`, `mnist14`, or a file as `streamfl replay` reads it.
    data
        A directory that holds covtype.npz and mnist.npz.

    Raises
    ------
    UsageError
        If a file is missing, or does not have the expected content.

    >>> table = prepared("covtype", None)
    >>> table.X.shape, round(float(table.X.max() ** 2), 6), table.labels[:2]
    ((92962, 54), 2.5, ('0', '1'))
    """
    if data is not None and not data.is_dir():
        raise UsageError(f"--data {data}: no such directory; name the one that holds covtype.npz and mnist.npz")
    match stream:
        case "covtype":
            table = covtype() if data is None or not (data / "covtype.npz").exists() else _read(data / "covtype.npz")
            X = np.clip(standardised(table.X), -5.0, 5.0) / np.sqrt(10.0)
        case "mnist" | "mnist14":
            table = _mnist(stream, data)
            X = _pixels(table.X, means=stream == "mnist14")
        case _:
            table = read(stream)
            X = standardised(table.X)
    return replace(table, name=stream, X=X, features=tuple(f"x{j}" for j in range(X.shape[1])), columns={})


def _read(path: Path) -> Table:
    return read(str(path))


def _mnist(stream: str, data: Path | None) -> Table:
    if data is None:
        raise UsageError(f"--stream {stream}: its records do not ship with streamfl; add --data DIR with mnist.npz")
    table = _read(data / "mnist.npz")
    if table.X.shape[1] != SIDE**2 or len(table.labels) != 10:
        what = f"{table.X.shape[1]} features and {len(table.labels)} classes, not 784 and 10"
        raise UsageError(f"{data / 'mnist.npz'}: {what}; save 28x28 images of ten digits")
    return table


def _pixels(X: Numbers, *, means: bool) -> npt.NDArray[np.float32]:
    """Return pixels in [0, 1], shape (n, 784), or (n, 196) for the means of 2x2; half the memory of float64."""
    if means:
        half = SIDE // 2
        X = X.reshape(-1, half, 2, half, 2).mean(axis=(2, 4), dtype=np.float32).reshape(len(X), half * half)
    return X.astype(np.float32) / np.float32(255.0)


def standardised(X: Numbers) -> FloatArray:
    """Return columns of mean 0 and standard deviation 1, a constant or missing one being 0.

    >>> standardised(np.array([[1.0, 7.0, np.nan], [3.0, 7.0, 2.0]]))
    array([[-1.,  0.,  0.],
           [ 1.,  0.,  0.]])
    """
    values = X.astype(np.float64)
    known = ~np.isnan(values)
    n = np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, values - np.where(known, values, 0.0).sum(axis=0) / n, 0.0)
    deviation = np.sqrt(np.square(centred).sum(axis=0) / n)
    scaled: FloatArray = centred / np.where(deviation > 0.0, deviation, 1.0)
    return scaled
