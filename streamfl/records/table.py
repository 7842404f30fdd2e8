"""A file of labelled records as columns in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray, Numbers
from streamfl.protocol.records import Rejection
from streamfl.records.values.time_features import TimeFeatures
from streamfl.records.values.times import PLAIN, Notation
from streamfl.sampling import generator

Texts = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The good records of a file as columns, the bad ones as rejections.

    Parameters
    ----------
    name
        The name in reports: of the file without its folder, or of the data set.
    features
        Names of the columns of `X`, length d.
    X
        Feature values, shape (n, d), in their stored type; NaN is a missing value.
    y
        Shape (n,): in classification the index of each label in `labels`, in regression the target.
    labels
        Names of the labels that occur, in numerical order if all are integers; empty in regression.
    places
        Shape (n,): the number of each record in the file from 0 on; bad records count.
    rejected
        The bad records by increasing position, which is their number in the file as in `places`.
    columns
        The columns that `read` was asked to keep, as text, one entry per good record; "" is missing.
    label
        The label column, named or guessed; "" if columns have no names.
    times
        Shape (n,): the time of each good record in seconds since 1970, NaN if unknown; empty if not asked for.
    left_out
        The columns that were left out automatically, as they are not features.
    notes
        Notes for the user on these columns and on times that could not be read.
    infinite
        The number of infinite values in the good records; they count as missing.
    categories
        The values of each column of texts, which are features of their own: `column=value`.
    codes
        By column, the numbers that stood for a missing value, and are NaN in `X`.
    units
        By column, the unit that its numbers have; the label may be one of them.
    missing_values
        What the caller asked to count as missing, besides the usual values.
    excluded
        The columns that the caller asked to leave out, and the column of times.
    time, notation
        The column of the times, or the two of days and times of day, `day,clock`; and how they are written.
    time_features
        Which of `features` are made of the times; None: none are.
    """

    name: str
    features: tuple[str, ...]
    X: Numbers
    y: FloatArray
    labels: tuple[str, ...]
    places: IntArray
    rejected: tuple[Rejection, ...] = ()
    columns: Mapping[str, Texts] = field(default_factory=lambda: MappingProxyType({}))
    label: str = ""
    infinite: int = 0
    times: FloatArray = field(default_factory=lambda: np.empty(0))
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    excluded: tuple[str, ...] = ()
    codes: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    units: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    missing_values: tuple[str, ...] = ()
    time: str = ""
    notation: Notation = PLAIN
    time_features: TimeFeatures | None = None

    def __len__(self) -> int:
        """Count the good records."""
        return len(self.y)


def shuffled(table: Table, seed: int) -> Table:
    """Return the same records in random order, for files whose order has no meaning.

    >>> from streamfl.records.files.covtype import covtype
    >>> table = covtype()
    >>> int(shuffled(table, 1).y.sum()) == int(table.y.sum()), bool((shuffled(table, 1).y == table.y).all())
    (True, False)
    """
    order = generator(seed, "shuffle").permutation(len(table))
    columns = {name: texts[order] for name, texts in table.columns.items()}
    times = table.times[order] if len(table.times) else table.times
    return replace(table, X=table.X[order], y=table.y[order], columns=columns, times=times)
