"""A file of labelled records as columns in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray, Numbers
from streamfl.protocol.records import Rejection
from streamfl.records.past_features import PastFeatures
from streamfl.records.values.time_features import TimeFeatures
from streamfl.records.values.times import PLAIN, Notation
from streamfl.sampling import generator

Texts = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The good records of a file as columns, the bad ones as rejections."""

    name: str  # the name in reports: of the file without its folder, or of the data set
    features: tuple[str, ...]  # names of the columns of `X`, length d
    X: Numbers  # feature values, shape (n, d), in their stored type; NaN is a missing value
    y: FloatArray  # shape (n,): in classification the index of each label in `labels`, in regression the target
    # Names of the labels that occur, in numerical order if all are integers; empty in regression.
    labels: tuple[str, ...]
    places: IntArray  # shape (n,): the number of each record in the file from 0 on; bad records count
    # The bad records by increasing position, which is their number in the file as in `places`.
    rejected: tuple[Rejection, ...] = ()
    # The columns that `read` was asked to keep, as text, one entry per good record; "" is missing.
    columns: Mapping[str, Texts] = field(default_factory=lambda: MappingProxyType({}))
    label: str = ""  # the label column, named or guessed; "" if columns have no names
    infinite: int = 0  # the number of infinite values in the good records; they count as missing
    # Shape (n,): the time of each good record in seconds since 1970, NaN if unknown; empty if not asked for.
    times: FloatArray = field(default_factory=lambda: np.empty(0))
    left_out: tuple[str, ...] = ()  # the columns that were left out automatically, as they are not features
    notes: tuple[str, ...] = ()  # notes for the user on these columns and on times that could not be read
    # The values of each column of texts, which are features of their own: `column=value`.
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    excluded: tuple[str, ...] = ()  # the columns that the caller asked to leave out, and the column of times
    # By column, the numbers that stood for a missing value, and are NaN in `X`.
    codes: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    # By column, the unit that its numbers have; the label may be one of them.
    units: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    missing_values: tuple[str, ...] = ()  # what the caller asked to count as missing, besides the usual values
    time: str = ""  # the column of the times, or the two of days and times of day, `day,clock`
    notation: Notation = PLAIN  # how the times are written
    time_features: TimeFeatures | None = None  # which of `features` are made of the times; None: none are
    past: PastFeatures | None = None  # which of `features` are made of the records before; None: none are

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
