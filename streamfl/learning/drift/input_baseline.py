"""Decides whether the inputs have surely changed since clients began to hold out records, by the means they send.

The change test compares scores of new records with those of held-out ones. Where no model fits all of the inputs,
scores also rise when only the inputs move: by day and night, with the weather, over a season. Scores alone cannot
tell that from drift: the best linear model changes either way. So the coordinator attributes an alarm to the inputs
if both hold: they surely differ, and no model from outside the epoch is better than those of the epoch, which learn
the new records anyway. The usual test of moved inputs (`streamfl.learning.drift.inputs`) cannot decide this, because
it treats daily variation as normal. Here a client's mean is compared with its mean since its held-out records began.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from statistics import median_low
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, BoolArray, FloatArray
from streamfl.learning.drift.inputs import APART, KNOWN, NAMED, NEXT_TO
from streamfl.learning.drift.means import as_float32, room_for
from streamfl.protocol.digits import significant
from streamfl.protocol.messages import FeatureMoved
from streamfl.protocol.moments import Moments

# A feature differs if its mean is off by at least this many standard errors, over the clients that sent it; each
# client counts for at most this many.
# docs/choices.md, "When only the inputs move".
MIN_STANDARD_ERRORS = 4.0

# For so many rounds a finding may be of a move that was announced: by then its level is known. So many moves are
# remembered. One that goes so much farther is another one.
# docs/choices.md, "When only the inputs move".
NEWS, MOST_ANNOUNCED, FARTHER = APART * KNOWN, 100, 1.5

# A mean that is off by a smaller part of the values' deviation explains no rise of a score.
# docs/choices.md, "When only the inputs move".
MIN_SHIFT = 0.25

NO_CLIENTS: Mapping[str, int] = MappingProxyType({})

# The fewest clients of which a median shift is taken.
# docs/choices.md, "When only the inputs move".
FEWEST = 3


@dataclass(frozen=True)
class Announced:
    """That a feature has moved, as it was announced."""

    feature: str
    before: float
    after: float
    clients: tuple[str, ...]  # empty if it did at all of them
    round: int
    # Whether other clients may show the same move in the next rounds: at an alarm only those describe their records
    # whose turn it is, and where most clients show a move at once, the records of some were from before it.
    is_early: bool = False

    def covers(self, t: int, moved: FeatureMoved) -> bool:
        """Tell whether people know of a move in round t by this announcement."""
        if self.feature != moved.feature or t > self.round + NEWS:
            return False
        shift, now = self.after - self.before, moved.after - self.before
        is_same = shift * (moved.after - moved.before) > 0.0 and abs(now) <= FARTHER * abs(shift)
        of_all = not self.clients or (self.is_early and t <= self.round + NEXT_TO)
        return is_same and (of_all or (bool(moved.clients) and set(moved.clients) <= set(self.clients)))


@dataclass(frozen=True, eq=False)
class InputBaseline:
    """By client, the mean of each feature since its held-out records have been gathered.

    Clients send moments in turn, so a client's baseline begins again with its first moments after a change. Until
    then it is compared with the one before, less the median shift of clients whose baselines have begun again: that
    much was so at the change, or soon after. Cost: O(clients that send x features) a round, and 16 to 24 bytes in
    the saved state for each client and feature: a mean may be large next to the deviation, as a time in seconds is.

    Examples
    --------
    >>> def day(warm):
    ...     X = warm + np.array([[-1.0], [1.0]] * 50)
    ...     return {f"machine-{i}": Moments.of(("heat",), X) for i in range(4)}
    >>> baseline = InputBaseline().after(day(20.0), since=1).after(day(20.5), since=1)
    >>> baseline.moved(3, day(20.2))
    ()
    >>> [(one.feature, one.before, one.after, one.of_clients) for one in baseline.moved(3, day(22.0))]
    [('heat', 20.25, 22.0, 4)]
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    # The names of rows and columns.
    features: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    since: FloatArray = field(default_factory=lambda: np.zeros(0))  # by client, the round since which it is gathered
    # How many values each mean is of, shape (clients, d), and the means; NaN where unknown.
    counts: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    means: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    # The sums of the values' squared deviations from the mean of their round, as float32, shape (clients, d).
    squares: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    # The round since which baselines begin again, and by how many deviations each client's mean then differed from
    # its baseline before, shape (clients, d); NaN of those that have not begun again.
    changed: int = 0
    shifts: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    explained: int = 0  # the round of the last alarm that moved inputs explained; 0 before any
    announced: tuple[Announced, ...] = ()  # what was announced since the last restart, and not long ago

    @property
    def fits(self) -> bool:
        """Tell whether the arrays have the shapes that the names ask for; those of a saved state may not."""
        pairs = len(self.clients), len(self.features)
        shapes = [one.shape for one in (self.since, self.counts, self.means, self.squares, self.shifts)]
        return shapes == [pairs[:1], pairs, pairs, pairs, pairs]

    def moved(self, t: int, sent: Mapping[str, Moments]) -> tuple[FeatureMoved, ...]:
        """Return the features whose means in round t surely differ, the surest first, at most 20.

        If only one client sends moments, it alone decides; of several, none alone can make a feature differ: each
        counts for at most `MIN_STANDARD_ERRORS`, and half of them must be off by `MIN_SHIFT` in the same direction.

        Parameters
        ----------
        sent
            By client, the moments of its records in the round.
        """
        since = self._median_shift(sent)
        shifts = {name: shift for name in sent if (shift := self._shift(name, sent[name], since)) is not None}
        if not shifts:
            return ()
        off, before, after, by = (np.array(each) for each in zip(*shifts.values(), strict=True))
        sure = together(off)
        return tuple(
            FeatureMoved(
                self.features[j],
                significant(float(before[known, j].mean())),
                significant(float(after[known, j].mean())),
                clients=_names(shifts, known),
                of_clients=int(known.sum()),
                since=t,
                evidence=significant(float(sure[j] ** 2 / 2.0)),
            )
            for j in sorted(_differing(sure, by), key=lambda j: -abs(float(sure[j])))[:NAMED]
            for known in [~np.isnan(off[:, j])]
        )

    def is_news(self, t: int, moved: Collection[FeatureMoved]) -> bool:
        """Tell whether one of these features was not yet announced as moved so far, this way, at these clients.

        The records of some clients show a move later than those of others. An alarm follows it if labels come later
        than their records, or if models were slow to suffer from it. People need not hear of it twice.

        >>> hot = FeatureMoved("heat", 20.0, 34.0, ("m1", "m2"), 2, 90, 12.0)
        >>> baseline = InputBaseline().with_announced(90, [hot], most=3)
        >>> baseline.is_news(95, [replace(hot, before=22.0, clients=("m2",))])
        False
        >>> others = replace(hot, after=12.0), replace(hot, after=48.0), replace(hot, clients=())
        >>> [baseline.is_news(95, [one]) for one in others]
        [True, True, True]
        >>> others = replace(hot, clients=("m3",))
        >>> [InputBaseline().with_announced(90, [hot], most=most).is_news(95, [others]) for most in (2, 3)]
        [False, True]
        """
        return any(not any(one.covers(t, new) for one in self.announced) for new in moved)

    def with_announced(self, t: int, moved: Collection[FeatureMoved], *, most: int) -> "InputBaseline":
        """Return the baseline after these features were announced in round t.

        Parameters
        ----------
        most
            Of how many clients a move is that the others are expected to show in the next rounds.
        """
        recent = [one for one in self.announced if t <= one.round + NEWS]
        new = [Announced(one.feature, one.before, one.after, one.clients, t, one.of_clients >= most) for one in moved]
        return replace(self, announced=tuple([*recent, *new][-MOST_ANNOUNCED:]))

    def after(
        self, sent: Mapping[str, Moments], *, since: int, renewed: Mapping[str, int] = NO_CLIENTS
    ) -> "InputBaseline":
        """Return the baseline after a round.

        Parameters
        ----------
        sent
            By client, the moments of its records in the round.
        since
            The round since which held-out records are gathered.
        renewed
            A later such round for clients that began again alone, by name.
        """
        known = self._with(sent)
        begun, counts, means, squares, shifts = (
            x.copy() for x in (known.since, known.counts, known.means, known.squares, known.shifts)
        )
        changed = max(since, self.explained + 1)
        if changed > known.changed:
            shifts[:] = math.nan
        for name, moments in sent.items():
            if name not in known.clients:
                continue
            i = known.clients.index(name)
            own = moments.aligned(known.features)
            now = max(changed, renewed.get(name, 0))
            if begun[i] < now:
                # One that begins alone, after a drift of its own, says nothing of others.
                shifts[i] = known._off(i, own) if begun[i] < changed == now else math.nan
                begun[i], counts[i], means[i], squares[i] = now, 0.0, np.nan, 0.0
            old = np.where(counts[i] > 0.0, means[i], own.mean)
            counts[i] += own.count
            new = old + own.count / np.maximum(counts[i], 1.0) * (own.mean - old)
            means[i] = np.where(own.count > 0.0, new, means[i])
            squares[i] += np.where(own.count > 0.0, own.m2, 0.0)
        return replace(
            known,
            since=begun,
            counts=counts,
            means=means,
            squares=as_float32(squares),
            changed=changed,
            shifts=shifts,
        )

    def among(self, clients: Collection[str]) -> "InputBaseline":
        """Return what is remembered of some clients alone."""
        kept = [i for i, name in enumerate(self.clients) if name in clients]
        names = tuple(self.clients[i] for i in kept)
        since, counts, means, squares, shifts = (
            x[kept] for x in (self.since, self.counts, self.means, self.squares, self.shifts)
        )
        return replace(self, clients=names, since=since, counts=counts, means=means, squares=squares, shifts=shifts)

    def _median_shift(self, sent: Collection[str]) -> FloatArray:
        """Return by feature the median shift of clients whose baselines have begun again; 0 if few have.

        It is for those that send moments and whose baselines have not.
        """
        none: FloatArray = np.zeros(len(self.features))
        if all(self.since[i] >= self.changed for i, name in enumerate(self.clients) if name in sent):
            return none
        few = (~np.isnan(self.shifts)).sum(axis=0) < FEWEST
        median: FloatArray = np.nanmedian(np.where(few, 0.0, self.shifts), axis=0)
        return median

    def _shift(
        self, name: str, moments: Moments, shared: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
        """Return, by feature, the shift in standard errors, the means before and now, and the shift in deviations.

        NaN where one is unknown, or the feature is constant; None if nothing is known of the client.
        """
        if name not in self.clients:
            return None
        i, own = self.clients.index(name), moments.aligned(self.features)
        by, before = self._off(i, own), self.means[i]
        if self.since[i] < self.changed:
            by, before = by - shared, before + shared * self._deviation(i, own)
        with np.errstate(divide="ignore", invalid="ignore"):
            off = as_normal(by / np.sqrt(1.0 / own.count + 1.0 / self.counts[i]), np.maximum(own.count - 1.0, 1.0))
        return off, before, own.mean, by

    def _off(self, i: int, own: Moments) -> FloatArray:
        """Return by how many deviations means differ from a client's baseline; NaN where one is unknown."""
        by: FloatArray = (own.mean - self.means[i]) / self._deviation(i, own)
        return by

    def _deviation(self, i: int, own: Moments) -> FloatArray:
        """Return the deviations of a client's values, now or in its baseline; NaN of constant ones, and of none.

        The larger one: few values of a feature that is seldom not 0 may all be 0, or nearly, as sums are rounded.
        """
        variance = np.maximum(own.variance, self.squares[i] / np.maximum(self.counts[i], 1.0))
        deviation: FloatArray = np.sqrt(np.where((own.count > 0.0) & (own.variance > 0.0), variance, math.nan))
        return deviation

    def _with(self, sent: Mapping[str, Moments]) -> "InputBaseline":
        """Return the same with room for new names, as long as no more pairs than `PAIRS` are watched."""
        clients, features = room_for(self.clients, self.features, sent)
        c, d = len(clients) - len(self.clients), len(features) - len(self.features)
        if not c and not d:
            return self
        rows, pairs = (0, c), ((0, c), (0, d))
        return replace(
            self,
            features=features,
            clients=clients,
            since=np.pad(self.since, rows),
            counts=np.pad(self.counts, pairs),
            means=np.pad(self.means, pairs, constant_values=math.nan),
            squares=np.pad(self.squares, pairs),
            shifts=np.pad(self.shifts, pairs, constant_values=math.nan),
        )


def together(off: FloatArray) -> FloatArray:
    """Return by feature the shift in standard errors over all clients that sent it, shape (clients, d) -> (d,).

    >>> together(np.array([[3.0, np.nan, 99.0], [3.0, -5.0, 0.0]])).round(3)
    array([ 4.243, -4.   ,  2.828])
    """
    each = np.clip(np.nan_to_num(off), -MIN_STANDARD_ERRORS, MIN_STANDARD_ERRORS)
    together: FloatArray = each.sum(axis=0) / np.sqrt(np.maximum((~np.isnan(off)).sum(axis=0), 1))
    return together


def as_normal(t: FloatArray, freedom: FloatArray) -> FloatArray:
    """Return the normal deviate that is as rare as Student's t: the deviation of few values may be far too small.

    Wallace 1959, "Bounds on normal approximations to Student's and the chi-square distributions".

    >>> as_normal(np.array([4.0, -4.0]), np.array([4.0, 1000.0])).round(2)
    array([ 2.39, -3.98])
    """
    z: FloatArray = np.sqrt(freedom * np.log1p(t * t / freedom)) * (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0)
    return np.copysign(z, t)


def _differing(sure: FloatArray, by: FloatArray) -> list[int]:
    """Return the features that surely differ, and enough: the lower median over clients of how far they are off.

    >>> _differing(np.array([4.0, 4.0, 4.0]), np.array([[0.3, 0.2, np.nan], [9.0, 9.0, 0.3]]))
    [0, 2]
    """
    found = np.flatnonzero(np.abs(sure) >= MIN_STANDARD_ERRORS - 1e-9).tolist()
    return [j for j in found if median_low((by[~np.isnan(by[:, j]), j] * np.sign(sure[j])).tolist()) >= MIN_SHIFT]


def _names(compared: Collection[str], known: BoolArray) -> tuple[str, ...]:
    """Return the names of the clients whose means of a feature were compared, at most 20."""
    return tuple(sorted(name for name, is_known in zip(compared, known, strict=True) if is_known)[:NAMED])
