"""The time of a record as features: where in the day, the week and the year it lies, as angles."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, Numbers
from streamfl.errors import UsageError
from streamfl.protocol.time_features import CYCLES, names_of
from streamfl.records.values.cells import Cells, listed
from streamfl.records.values.day_and_clock import joined
from streamfl.records.values.made_features import with_made
from streamfl.records.values.times import PLAIN, Notation, seconds

_DAY, _YEAR = 86400.0, 31556952.0  # in seconds; the mean year of the calendar
_PERIODS: Mapping[str, float] = dict(zip(CYCLES, (_DAY, 7 * _DAY, _YEAR), strict=True))
_MONDAY = 4 * _DAY  # 1970-01-05 was the first
_QUARTER = 900.0  # clocks change at a quarter of an hour of UTC


@dataclass(frozen=True)
class TimeFeatures:
    """How the time of a record becomes features: for each of `kinds` the sine and the cosine of an angle.

    Each feature depends on its record alone, so a file, a message and a request give the same numbers.

    Parameters
    ----------
    kinds
        `hour`: the time of day; `weekday`: the time since Monday; `season`: the time of the year.
    column
        The column of the times, or the two of days and times of day, `day,clock`.
    notation
        How its times are written; by the clocks of its zone it is noon.

    Raises
    ------
    UsageError
        One of `kinds` does not exist, or none is named, or no column of times.

    Examples
    --------
    >>> features = TimeFeatures(("hour",), "at")
    >>> features.names, features.of(np.array([0.0, 3 * 3600.0, np.nan])).round(3)
    (('hour sin', 'hour cos'), array([[0.   , 1.   ], [0.707, 0.707], [  nan,   nan]]))
    """

    kinds: tuple[str, ...]
    column: str
    notation: Notation = PLAIN

    def __post_init__(self) -> None:
        if wrong := [kind for kind in self.kinds if kind not in _PERIODS]:
            raise UsageError(f"there is no time feature {listed(wrong)}; there are {', '.join(CYCLES)}")
        if len(set(self.kinds)) != len(self.kinds):
            raise UsageError("a time feature is named more than once; name each once")
        if not self.kinds or not self.column:
            raise UsageError("time features need the column of the times; name it with --time")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that hold the times: one, or one of days and one of times of day."""
        return tuple(name.strip() for name in self.column.split(","))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return names_of(self.kinds)

    def of(self, times: FloatArray) -> FloatArray:
        """Return the features of times in seconds since 1970, shape (n, features); NaN where a time is unknown.

        They are exact in 32 bits, so that they take no more room than other columns, and the same in every block.
        """
        local, found = times + _offsets(times, self.notation), np.empty((len(times), 2 * len(self.kinds)))
        for j, kind in enumerate(self.kinds):
            period, begin = _PERIODS[kind], _MONDAY if kind == "weekday" else 0.0
            angle = 2.0 * np.pi * np.mod(local - begin, period) / period
            found[:, 2 * j], found[:, 2 * j + 1] = np.sin(angle), np.cos(angle)
        exact: FloatArray = found.astype(np.float32).astype(np.float64)
        return exact

    def notes(self, times: FloatArray) -> tuple[str, ...]:
        """Return of which features times, in seconds, show less than one cycle: models know nothing of the rest.

        >>> TimeFeatures(("hour", "season"), "at").notes(np.array([0.0, np.nan, 8.5 * 86400.0]))
        ('its times span 8.5 days, less than one cycle of season: models know nothing of the rest of it yet',)
        """
        known = times[~np.isnan(times)]
        span = float(np.ptp(known)) if len(known) else 0.0
        return tuple(
            f"its times span {span / _DAY:.3g} days, less than one cycle of {kind}: models know nothing of the rest "
            f"of it yet"
            for kind in self.kinds
            if span < _PERIODS[kind]
        )

    def of_cells(
        self, given: Mapping[str, Cells], notation: Notation | None = None
    ) -> tuple[FloatArray, dict[int, str]]:
        """Return the features of records, which have `columns`, each by itself; and why times cannot be read.

        With another notation these times are written so; the clocks are still those of the zone here.
        """
        times, wrong = seconds(joined([given[name] for name in self.columns]), notation or self.notation)
        return self.of(times), wrong

    def added_to(
        self, features: tuple[str, ...], X: Numbers, times: FloatArray
    ) -> tuple[tuple[str, ...], npt.NDArray[Any]]:
        """Return features and values with those of the times at the end."""
        return with_made(features, X, self.names, self.of(times))


def _offsets(times: FloatArray, notation: Notation) -> FloatArray | float:
    """Return by how many seconds the clocks of a zone are ahead of UTC.

    >>> _offsets(np.array([0.0, 15552000.0]), Notation("Europe/Berlin"))
    array([3600., 3600.])
    >>> _offsets(np.array([1782000000.0, np.nan]), Notation("Europe/Berlin"))
    array([7200.,   nan])
    """
    zone = notation.local
    if zone is UTC:
        return 0.0
    quarters, which = np.unique(np.floor(times / _QUARTER), return_inverse=True)
    ahead = [_offset(at * _QUARTER, notation) for at in quarters.tolist()]
    found: FloatArray = np.array(ahead)[which]
    return found


def _offset(at: float, notation: Notation) -> float:
    if np.isnan(at):
        return at
    offset = datetime.fromtimestamp(at, UTC).astimezone(notation.local).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()
