"""A step of a River pipeline that makes features of the time of a record."""

from collections.abc import Hashable, Sequence
from typing import Any

from river import base
from river.utils import dataframe

from streamfl.errors import UsageError
from streamfl.records.values.dates import Order
from streamfl.records.values.time_features import TimeFeatures
from streamfl.records.values.times import Notation


class TimeEncoder(base.Transformer):
    """Makes features of the time of a record, as `--time-features` does: the sine and the cosine of angles.

    A time that is missing, or cannot be read, has missing features. The column of the time is left out.

    Parameters
    ----------
    time
        The feature that holds the time: a `datetime`, a text, or seconds since 1970.
    kinds
        `hour`: the time of day; `weekday`: the time since Monday; `season`: the time of the year. Name those on which
        the answer may depend: others cost some accuracy.
    zone
        The zone by whose clocks they are, and of times that name none.
    order
        The order of day, month and year in dates such as 03/04/2026: `dmy`, `mdy` or `ymd`.

    Raises
    ------
    ValueError
        There is no such kind or zone.

    Examples
    --------
    >>> import streamfl
    >>> encoder = streamfl.TimeEncoder("at", kinds=["hour"])
    >>> {name: round(value, 3) for name, value in encoder.transform_one({"at": "2026-03-01 03:00", "x": 5.0}).items()}
    {'x': 5.0, 'hour sin': 0.707, 'hour cos': 0.707}
    >>> model = encoder | streamfl.MasterFLClassifier()
    """

    def __init__(
        self,
        time: str,
        kinds: Sequence[str] = ("hour", "weekday", "season"),
        zone: str = "UTC",
        order: Order | None = None,
    ) -> None:
        self.time, self.kinds, self.zone, self.order = time, kinds, zone, order
        try:
            self._features = TimeFeatures(tuple(kinds), time, Notation(zone, order))
        except UsageError as error:
            raise ValueError(str(error)) from None

    def transform_one(self, x: dict[Hashable, Any]) -> dict[Hashable, Any]:
        """Return a record with its features in the place of its time."""
        made = self._features.of_cells({self.time: [x.get(self.time)]})[0]
        others = {name: value for name, value in x.items() if name != self.time}
        return {**others, **dict(zip(self._features.names, made[0].tolist(), strict=True))}

    def transform_many(self, X: Any) -> Any:
        """Return a data frame with its features in the place of its times."""
        frame = dataframe.into_frame(X)
        made, _ = self._features.of_cells({self.time: frame[self.time].to_list()})
        columns = {name: frame[name].to_list() for name in frame.columns if name != self.time}
        columns |= dict(zip(self._features.names, made.T.tolist(), strict=True))
        return dataframe.to_native_frame(columns, like=frame)
