"""Whether a feature that used to vary stands still at a client: a sensor that repeats one value.

A mean does not show that, where the sensor sticks near its mean. The deviation does, which is 0 where all values are
equal. Flags and setpoints are equal for long by nature, so a feature is compared with its own past at that client:
how often it stood still, and for how long.

If it stood still in k of n descriptions, and if their order is chance, then m more in a row all show it standing
still with probability C(n, n - k) / C(n + m, n - k), whatever the share of such descriptions is. The inverse of that
is the evidence: it reaches A by chance in one description of A at most. Where descriptions in a row are alike, as by
day and night, chance is no measure. So a spell is told only if it is also twice as long as any before. Whatever a
feature does, it is then told at most as often as its longest spell can double; spells are forgotten slowly.

Nothing that learns depends on it.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, BoolArray, FloatArray
from streamfl.learning.drift.inputs import APART_AT_ALL, ENOUGH, FOLLOWS, NAMED, RARE
from streamfl.learning.drift.means import PAIRS, RoundMeans, as_float32, room_for
from streamfl.protocol.digits import significant
from streamfl.protocol.messages import FeatureStuck
from streamfl.protocol.moments import Moments

# Values are equal if their deviation is at most this part of the usual one. docs/choices.md, "Stuck sensors".
EQUAL = 1e-3
# A spell is told of a feature that varied in so many descriptions, if it is so many times as long as the longest
# before. docs/choices.md, "Stuck sensors".
VARIES, LONGER = 20.0, 2.0

_VARIED, _STILL, _SPELL, _LONGEST, _USUAL, _VALUE, _SINCE, _TOLD = range(8)


@dataclass(frozen=True, eq=False)
class StuckSensors:
    """What is remembered of how features stand still, by client. Cost: 32 bytes for each pair in the saved state.

    Descriptions are counted in tens of values: one of seven values counts 0.7.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> standstill = StuckSensors()
    >>> for t in range(1, 300):
    ...     X = rng.normal((61.0, 14.0), 1.0, size=(10, 2))
    ...     X[:, 0] = 61.0 if t >= 280 else X[:, 0]
    ...     standstill, stuck = standstill.after(t, {"m07": Moments.of(("heat", "flow"), X)})
    ...     for one in stuck:
    ...         print(t, one.feature, one.client, one.value, one.since)
    281 heat m07 61.0 280
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    # The names of rows and columns.
    features: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()

    # By client and feature, shape (8, clients, d), in the precision of float32: the descriptions in which it varied,
    # and those in which it stood still, without the spell that lasts; how long this spell lasts, and how long the
    # longest before was, in descriptions; the usual deviation; the last mean, NaN before any; the round in which the
    # spell began; and whether it was told.
    sums: FloatArray = field(default_factory=lambda: np.zeros((8, 0, 0)))

    @property
    def fits(self) -> bool:
        """Tell whether the arrays have the shapes that the names ask for; those of a saved state may not."""
        return self.sums.shape == (8, len(self.clients), len(self.features))

    def after(self, t: int, sent: Mapping[str, Moments]) -> tuple["StuckSensors", tuple[FeatureStuck, ...]]:
        """Return what is remembered after round t, and the features that stand still, the surest first, at most 20.

        Parameters
        ----------
        t
            The round.
        sent
            By client, the moments of its values in the round.
        """
        known = self._with(sent)
        if not sent or not known.features:
            return known, ()
        known = known._followed(t, RoundMeans.of(known.clients, known.features, sent))
        evidence = known._evidence()
        found = np.argwhere(evidence >= known.threshold).tolist()
        found = sorted(found, key=lambda at: -float(evidence[at[0], at[1]]))[:NAMED]
        sums = known.sums.copy()
        for i, j in found:
            sums[_TOLD, i, j] = 1.0
        stuck = tuple(
            FeatureStuck(
                known.features[j],
                known.clients[i],
                significant(float(sums[_VALUE, i, j])),
                int(sums[_SINCE, i, j]),
                significant(float(evidence[i, j])),
            )
            for i, j in found
        )
        return replace(known, sums=sums), stuck

    @property
    def threshold(self) -> float:
        """Return the logarithm of the evidence from which on a feature stands still."""
        return math.log(RARE * max(1, len(self.clients) * len(self.features)))

    def among(self, members: Collection[str], present: Collection[str]) -> "StuckSensors":
        """Return what is remembered of members; if there is no room for another, only of those that are present."""
        is_full = (len(self.clients) + 1) * max(1, len(self.features)) > PAIRS
        clients = present if is_full else members
        kept = [i for i, name in enumerate(self.clients) if name in clients]
        if len(kept) == len(self.clients):
            return self
        return replace(self, clients=tuple(self.clients[i] for i in kept), sums=self.sums[:, kept])

    def _with(self, sent: Mapping[str, Moments]) -> "StuckSensors":
        """Return the same with room for new names."""
        clients, features = room_for(self.clients, self.features, sent)
        c, d = len(clients) - len(self.clients), len(features) - len(self.features)
        if not c and not d:
            return self
        sums = np.pad(self.sums, ((0, 0), (0, c), (0, d)))
        sums[_VALUE, len(self.clients) :], sums[_VALUE, :, len(self.features) :] = np.nan, np.nan
        return replace(self, clients=clients, features=features, sums=sums)

    def _followed(self, t: int, sent: RoundMeans) -> "StuckSensors":
        """Return the same with the descriptions of a round."""
        varied, still, spell, longest, usual, value, since, told = self.sums[:, sent.at]
        mean, deviation = sent.mean, sent.deviation
        there = (sent.records > 0.0) & ~np.isnan(mean)
        part = np.where(there, np.minimum(1.0, sent.records / ENOUGH), 0.0)
        with np.errstate(invalid="ignore"):
            least = np.maximum(EQUAL * usual, APART_AT_ALL * np.abs(mean))
            is_same = np.abs(mean - value) <= least
            # A single value deviates from none, but may from the one before.
            stands = there & (deviation <= least) & ((sent.records > 1.0) | is_same)
        moves = there & ~stands
        over = moves | (stands & ~is_same)
        still, longest = still + np.where(over, spell, 0.0), np.where(over, np.maximum(longest, spell), longest)
        goes_on = stands & is_same & (spell > 0.0)
        since = np.where(stands & ~goes_on, t, since)
        told = np.where(over, 0.0, told)
        spell = np.where(over, 0.0, spell) + np.where(stands, part, 0.0)
        varied += np.where(moves, part, 0.0)
        usual = usual + np.where(moves & (sent.records > 1.0), (deviation - usual) / np.maximum(varied, 1.0), 0.0)
        longest = np.maximum(0.0, longest - np.where(moves, part / FOLLOWS, 0.0))
        fewer = FOLLOWS / np.maximum(FOLLOWS, varied + still)
        value = np.where(there, mean, value)
        sums = self.sums.copy()
        sums[:, sent.at] = varied * fewer, still * fewer, spell, longest, usual, value, since, told
        return replace(self, sums=as_float32(sums))

    def _evidence(self) -> FloatArray:
        """Return the logarithm of the evidence of each spell that can be told, -infinity of others."""
        varied, still, spell, longest, _, _, _, told = self.sums
        news = (varied >= VARIES) & (told == 0.0) & (spell > LONGER * longest)
        # Each of the factors C(n + m, n - k) / C(n, n - k) = product of (k + m + i) / (k + i) is at most the first.
        most = varied * np.log1p(spell / (still + 1.0))
        possible: BoolArray = news & (most >= math.log(RARE))
        evidence = np.full(varied.shape, -math.inf)
        for i, j in np.argwhere(possible).tolist():
            evidence[i, j] = evidence_of(float(varied[i, j]), float(still[i, j]), float(spell[i, j]))
        return evidence


def evidence_of(varied: float, still: float, spell: float) -> float:
    """Return the logarithm of C(n + m, n - k) / C(n, n - k): n - k descriptions varied, k stood still, then m more.

    >>> round(math.exp(evidence_of(10.0, 0.0, 2.0)), 6), round(math.exp(evidence_of(2.0, 1.0, 1.0)), 6)
    (66.0, 2.0)
    """
    n, up = varied + still, math.lgamma
    return up(n + spell + 1.0) - up(still + spell + 1.0) - up(n + 1.0) + up(still + 1.0)
