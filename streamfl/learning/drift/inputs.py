"""Whether the features themselves have moved, at many clients or at one, by the means that clients send in turn.

A client's mean is compared with its own earlier ones, so clients may differ. It has moved if it lies off these and
off the last of them, both in deviations that are measured between means of one client: so what a feature does over
days, a season or a slow wander, is known as its way after it was seen once. Nothing that learns depends on it.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, BoolArray, FloatArray
from streamfl.learning.drift.means import PAIRS, RoundMeans, as_float32, room_for
from streamfl.protocol.digits import significant
from streamfl.protocol.messages import FeatureMoved
from streamfl.protocol.moments import Moments

# A mean enters the baseline if it comes so many rounds after the last one that did: nearer ones are too alike. A
# baseline is used from so many means on, and follows about so many. docs/choices.md, "Inputs".
APART, KNOWN, FOLLOWS = 6, 6, 256
# The alternative: how many deviations a mean lies off, give or take. docs/choices.md, "Inputs".
SHIFT, WIDTH = 6.0, 3.0
# A mean of so many records is compared whatever the others are of; one of fewer if it is of at least so large a part
# of the records that those in its baseline are of. docs/choices.md, "Inputs".
ENOUGH, PART = 10, 0.9
# No deviation of means is less than this part of that of values, nor than float32 tells apart from the largest mean.
SMALL, APART_AT_ALL = 1 / 8, 1e-6
# Nor than this part of the median over clients, if so many are known: a deviation of six means may be far too small
# by chance, and of the many that are watched some are. docs/choices.md, "Inputs".
COMMON, FEWEST = 3 / 4, 4
# From so many deviations on, a first mean waits before it enters the baseline: a second one tells whether it stays.
OFF = 3.0
# If some clients have moved, a client has with this probability; the logarithm of the most that one adds to it, and
# of what it may add again only after APART rounds.
JOINED, MOST, STRONG = 0.5, math.log(100.0), math.log(10.0)
# Rounds to a false finding, of one kind; and to a false suspicion: it has all clients asked, and is enough to name a
# feature with a drift. docs/choices.md, "Inputs".
RARE, SUSPECT = 1e4, 20.0
# For so many rounds a finding belongs to the drift before it.
NEXT_TO = 8
# A finding names so many features, and of each so many clients. docs/choices.md, "Inputs".
NAMED = 20
# The largest logarithm of evidence, and the least of a mean that has waited; and the most deviations.
_SURE, _WAITED, _FARTHEST, _TINY = 400.0, math.log(8.0), 1e6, 1e-300

_COUNT, _MEAN, _SQUARES, _STEPS, _OF_ONE, _LAST, _UP, _DOWN = range(8)
_SIGNS = np.array([1.0, -1.0])[:, None, None]


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is remembered of the means of features, by client.

    The evidence of a feature is the logarithm of 1 + R, R <- (1 + R) e of Shiryaev and Roberts, where e is the
    density of how far a mean lies off under the alternative over that under no change: for t deviations among n means
    that is Student's with n - 1 degrees of freedom. If means were independent and normal, e would have the mean 1,
    whatever the scale of a feature; so the mean of all R would reach A after at least A rounds. Actual rates are
    measured: see docs/choices.md.

    Examples
    --------
    >>> inputs = Inputs()
    >>> for t in range(1, 100):
    ...     hot = 14.0 * (t >= 90)
    ...     X = [20.0 + np.sin(t + i) / 10.0 + hot + np.array([[-1.0], [1.0]]) for i in range(4)]
    ...     each = {f"machine-{i}": Moments.of(("temperature",), X[i]) for i in range(4)}
    ...     inputs, moved = inputs.after(t, each, is_whole=True)
    ...     for one in moved:
    ...         print(t, one.feature, round(one.before), round(one.after), one.clients)
    90 temperature 20 34 ()
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    # The names of rows and columns.
    features: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()

    # By client and feature: the number of means in its baseline, their mean, and their squared deviations; the mean
    # square of steps from one to the next, and the mean of 1 / the records of a mean; the last mean, which is not in
    # it yet; and the evidence that it moved up, and down. Shape (8, clients, d), in the precision of float32.
    sums: FloatArray = field(default_factory=lambda: np.zeros((8, 0, 0)))
    # By client, the round of its last mean, shape (clients,).
    entered: FloatArray = field(default_factory=lambda: np.zeros(0))
    # By client, the round in which it last gave strong evidence to that of many, shape (clients,).
    gave: FloatArray = field(default_factory=lambda: np.zeros(0))
    # The evidence that a feature moved up, or down, at many clients, shape (2, d).
    common: FloatArray = field(default_factory=lambda: np.zeros((2, 0)))
    # The rounds in which the evidence of one client or many began, shape (2, d).
    since: FloatArray = field(default_factory=lambda: np.zeros((2, 0)))
    drift: int = 0  # the round of the last drift; 0 before any
    told: tuple[str, ...] = ()  # the features that were named with that drift

    @property
    def fits(self) -> bool:
        """Tell whether the arrays have the shapes that the names ask for; those of a saved state may not."""
        c, d = len(self.clients), len(self.features)
        shapes = [one.shape for one in (self.sums, self.entered, self.gave, self.common, self.since)]
        return shapes == [(8, c, d), (c,), (c,), (2, d), (2, d)]

    def after(
        self, t: int, means: Mapping[str, Moments], *, is_whole: bool, is_drift: bool = False
    ) -> tuple["Inputs", tuple[FeatureMoved, ...]]:
        """Return what is remembered after round t, and the features that moved, most surely first.

        Parameters
        ----------
        t
            The round.
        means
            By client, the moments of its values in the round.
        is_whole
            Whether all clients were asked: only then is a move told, so that all clients concerned are known.
        is_drift
            Whether a drift is told with this round: then it is said what moved with it, so far as that is known.
        """
        known = self._with(means)
        if is_drift:
            known = replace(known, drift=t, told=())
        if not means or not known.features:
            return known, ()
        sent = RoundMeans.of(known.clients, known.features, means)
        off = known._off(sent)
        waits = np.logical_or(*((_SIGNS * off >= OFF) & (known.sums[_UP:, sent.at] < _WAITED)))
        known = known._weighed(t, sent, off)
        level = known.threshold(t)
        found = known._evidence() >= level
        moved = known._moved(sent, off, level, is_whole=is_whole) if is_whole or is_drift else ()
        known = known._entered(t, sent, waits)
        if is_whole:
            known = known._widened(sent, off, found)
        if is_drift:
            return replace(known, told=tuple(one.feature for one in moved)), moved
        told = known.told if known.drift_before(t) else ()
        return known, tuple(one for one in moved if one.feature not in told)

    def drift_before(self, t: int) -> int:
        """Return the round of the drift that a finding in round t belongs to; 0 if there was none."""
        return self.drift if t <= self.drift + NEXT_TO else 0

    def threshold(self, t: int) -> float:
        """Return the logarithm of the evidence from which on a feature has moved in round t."""
        return math.log(SUSPECT if t == self.drift else RARE)

    @property
    def are_suspected(self) -> bool:
        """Tell whether a feature may have moved: then all clients are asked."""
        return bool((self._evidence() >= math.log(SUSPECT)).any())

    def among(self, members: Collection[str], present: Collection[str]) -> "Inputs":
        """Return what is remembered of members; if there is no room for another, only of those that are present."""
        is_full = (len(self.clients) + 1) * max(1, len(self.features)) > PAIRS
        clients = present if is_full else members
        kept = [i for i, name in enumerate(self.clients) if name in clients]
        if len(kept) == len(self.clients):
            return self
        names = tuple(self.clients[i] for i in kept)
        return replace(self, clients=names, sums=self.sums[:, kept], entered=self.entered[kept], gave=self.gave[kept])

    def _with(self, means: Mapping[str, Moments]) -> "Inputs":
        """Return the same with room for new names, as long as no more pairs than `PAIRS` are watched."""
        clients, features = room_for(self.clients, self.features, means)
        c, d = len(clients) - len(self.clients), len(features) - len(self.features)
        if not c and not d:
            return self
        sums = np.pad(self.sums, ((0, 0), (0, c), (0, d)))
        sums[_LAST, len(self.clients) :], sums[_LAST, :, len(self.features) :] = np.nan, np.nan
        return replace(
            self,
            features=features,
            clients=clients,
            sums=sums,
            entered=np.pad(self.entered, (0, c), constant_values=-APART),
            gave=np.pad(self.gave, (0, c), constant_values=-APART),
            common=np.pad(self.common, ((0, 0), (0, d))),
            since=np.pad(self.since, ((0, 0), (0, d))),
        )

    def _known(self, sent: RoundMeans) -> BoolArray:
        """Return which means are compared: those of enough records, with a baseline of enough means; shape (n, d)."""
        records = np.minimum(ENOUGH, PART / np.maximum(self.sums[_OF_ONE, sent.at], _TINY))
        known: BoolArray = (self.sums[_COUNT, sent.at] >= KNOWN) & ~np.isnan(sent.mean) & (sent.records >= records)
        return known

    def _off(self, sent: RoundMeans) -> FloatArray:
        """Return by how many deviations each mean lies off its baseline, 0 if that is not known; shape (n, d).

        A mean of fewer records than those of the baseline deviates more, by the square root if these are independent.
        """
        count, mean, squares, steps, of_one, last = self.sums[: _LAST + 1, sent.at]
        least_variance, least_steps = COMMON**2 * self._usual()
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.maximum(np.abs(self.sums[_MEAN]).max(axis=0), np.abs(sent.mean))
            least = np.maximum(SMALL * sent.deviation, APART_AT_ALL * size)
            variance = np.maximum(squares / np.maximum(count - 1.0, 1.0), least_variance)
            variance, steps = variance * (1.0 + 1.0 / np.maximum(count, 1.0)), np.maximum(steps, least_steps)
            of_mean = (sent.mean - mean) / np.maximum(np.maximum(np.sqrt(variance), least), _TINY)
            # Of independent means a step has twice the variance.
            of_step = (sent.mean - last) * math.sqrt(2.0) / np.maximum(np.maximum(np.sqrt(steps), least), _TINY)
            of_step = np.where(np.isnan(last), of_mean, of_step)
            nearer = np.sign(of_mean) * np.minimum(np.abs(of_mean), np.abs(of_step))
            nearer *= np.sqrt(np.minimum(1.0, of_one * sent.records))
        counts = self._known(sent) & (of_mean * of_step > 0.0)
        found: FloatArray = np.where(counts, np.clip(nearer, -_FARTHEST, _FARTHEST), 0.0)
        return found

    def _usual(self) -> FloatArray:
        """Return the medians over clients of the variance of means and of squared steps, 0 of few; shape (2, d)."""
        count, squares, steps = self.sums[_COUNT], self.sums[_SQUARES], self.sums[_STEPS]
        known = count >= KNOWN
        n = known.sum(axis=0)
        if (n < FEWEST).all():
            return np.zeros((2, len(n)))
        each = np.where(known, np.stack([squares / np.maximum(count - 1.0, 1.0), steps]), np.inf)
        middle = np.maximum(n - 1, 0) // 2  # the lower one of two
        median: FloatArray = np.sort(each, axis=1)[:, middle, np.arange(len(n))]
        return np.where(n < FEWEST, 0.0, median)

    def _weighed(self, t: int, sent: RoundMeans, off: FloatArray) -> "Inputs":
        """Return the same with the evidence of a round."""
        known = self._known(sent)
        e = np.where(known, _evidence(off, self.sums[_COUNT, sent.at] - 1.0), 0.0)
        sums, quiet = self.sums.copy(), self._evidence() < 0.0
        before = sums[_UP:, sent.at]
        sums[_UP:, sent.at] = np.where(known, _added(before, e), before)
        # Strong evidence counts once in so many rounds: no client alone makes that of many.
        first = known & (t - self.gave[sent.at] >= APART)[:, None]
        gave = self.gave.copy()
        gave[sent.at[(first & (e.max(axis=0) >= STRONG)).any(axis=1)]] = t
        mixed = np.where(first, np.log1p(JOINED * np.expm1(np.minimum(e, MOST))), 0.0).sum(axis=1)
        common = np.where(first.any(axis=0), _added(self.common, mixed), self.common)
        found = replace(self, sums=as_float32(sums), gave=gave, common=common)
        return replace(found, since=np.where(quiet & (found._evidence() >= 0.0), t, self.since))

    def _evidence(self) -> FloatArray:
        """Return the evidence for each feature, of many clients or of the surest one alone; shape (2, d)."""
        if not self.sums.size:
            return self.common
        found: FloatArray = np.maximum(self._of_many(), self._alone().max(axis=1))
        return found

    def _of_many(self) -> FloatArray:
        """Return log R of many clients, less that of so many features and ways; shape (2, d)."""
        return self.common - math.log(2 * len(self.features))

    def _alone(self) -> FloatArray:
        """Return log R of each client, less that of so many clients, features and ways; shape (2, clients, d)."""
        _, clients, d = self.sums.shape
        alone: FloatArray = self.sums[_UP:] - math.log(2 * d * clients)
        return alone

    def _moved(self, sent: RoundMeans, off: FloatArray, level: float, *, is_whole: bool) -> tuple[FeatureMoved, ...]:
        """Return the features whose evidence reaches a level, with the clients that more probably moved than not."""
        count, mean, evidence = self.sums[_COUNT, sent.at], self.sums[_MEAN, sent.at], self._evidence()
        known, e = self._known(sent), _evidence(off, count - 1.0)
        sure = self._alone()[:, sent.at] >= level
        which = known & np.where(self._of_many()[:, None] >= level, e > 0.0, sure)
        found = np.argwhere(which.any(axis=1) & (evidence >= level)).tolist()
        return tuple(
            FeatureMoved(
                self.features[j],
                significant(float(mean[which[way, :, j], j].mean())),
                significant(float(sent.mean[which[way, :, j], j].mean())),
                self._named(sent, known[:, j], which[way, :, j], is_whole=is_whole),
                int(which[way, :, j].sum()),
                int(self.since[way, j]),
                significant(float(evidence[way, j])),
            )
            for way, j in sorted(found, key=lambda one: -float(evidence[one[0], one[1]]))[:NAMED]
        )

    def _named(self, sent: RoundMeans, known: BoolArray, which: BoolArray, *, is_whole: bool) -> tuple[str, ...]:
        """Return the names of clients; none if these are all whose means are known."""
        everyone = is_whole and bool(which[known].all())
        return () if everyone else tuple(sorted(self.clients[i] for i in sent.at[which])[:NAMED])

    def _entered(self, t: int, sent: RoundMeans, waits: Any) -> "Inputs":
        """Return the same with the last means in baselines, and those of the round as last ones unless they wait."""
        of = t - self.entered[sent.at] >= APART
        takes = of[:, None] & ~waits & ~np.isnan(sent.mean)
        count, mean, squares, steps, of_one, last = self.sums[: _LAST + 1, sent.at]
        has = takes & ~np.isnan(last)
        n = np.where(has, np.minimum(count + 1.0, FOLLOWS), count)
        part = np.where(has, 1.0 / np.maximum(n, 1.0), 0.0)
        distance, step = (np.where(has, x - y, 0.0) for x, y in ((last, mean), (sent.mean, last)))
        left = np.where(has & (count >= FOLLOWS), 1.0 - part, 1.0)
        sums, entered = self.sums.copy(), self.entered.copy()
        sums[: _LAST + 1, sent.at] = (
            n,
            mean + part * distance,
            left * squares + (1.0 - part) * distance**2,
            steps + part * (step**2 - steps),
            of_one + part * (1.0 / np.maximum(sent.records, 1.0) - of_one),
            np.where(takes, sent.mean, last),
        )
        entered[sent.at[of]] = t
        return replace(self, sums=as_float32(sums), entered=entered)

    def _widened(self, sent: RoundMeans, off: FloatArray, found: BoolArray) -> "Inputs":
        """Return the same after a finding: the baselines concerned have the old level and the new one."""
        which = (_SIGNS * off >= 1.0) & found[:, None, :]
        there, features = which.any(axis=0), found.any(axis=0)
        sums = self.sums.copy()
        count, mean, squares, _, _, last = sums[: _LAST + 1, sent.at]
        half = np.where(there, (sent.mean - mean) / 2.0, 0.0)
        sums[_MEAN, sent.at], sums[_SQUARES, sent.at] = mean + half, squares + count * half**2
        sums[_LAST, sent.at] = np.where(there, np.nan, last)
        sums[_UP:, :, features] = 0.0
        return replace(self, sums=as_float32(sums), common=np.where(features, 0.0, self.common))


def _evidence(off: FloatArray, freedom: FloatArray) -> FloatArray:
    """Return the logarithm of e for a move up, and down; shape (2, n, d)."""
    nu = np.maximum(freedom, 1.0)

    def density(z: FloatArray) -> FloatArray:
        log: FloatArray = -0.5 * (nu + 1.0) * np.log1p(z * z / nu)
        return log

    way = np.maximum(_SIGNS * off, 0.0)  # else the wide alternative would explain moves the other way as well
    e: FloatArray = density((way - SHIFT) / WIDTH) - math.log(WIDTH) - density(way)
    return e


def _added(before: FloatArray, e: FloatArray) -> FloatArray:
    """Return log(1 + (1 + R) e) from log(1 + R) and log e."""
    after: FloatArray = np.minimum(np.logaddexp(0.0, before + e), _SURE)
    return after
