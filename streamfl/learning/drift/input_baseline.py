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
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, BoolArray, FloatArray
from streamfl.learning.drift.inputs import NAMED, PAIRS
from streamfl.protocol.digits import significant
from streamfl.protocol.messages import FeatureMoved
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import union

# A feature differs if its mean is off by at least this many standard errors, over the clients that sent it; each
# client counts for at most this many.
# docs/choices.md, "When only the inputs move".
MIN_STANDARD_ERRORS = 4.0

# A mean that is off by a smaller part of the values' deviation explains no rise of a score.
# docs/choices.md, "When only the inputs move".
MIN_SHIFT = 0.25


@dataclass(frozen=True, eq=False)
class InputBaseline:
    """By client, the mean of each feature since its held-out records have been gathered.

    Clients send moments in turn, so a client's baseline begins again with its first moments after a change; until
    then it is compared with the one before. Cost: O(clients that send x features) a round, and 4 bytes in the saved
    state for each client and feature.

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
    # By client, how many records its means are of, and the round since which its held-out records are gathered.
    records: FloatArray = field(default_factory=lambda: np.zeros(0))
    since: FloatArray = field(default_factory=lambda: np.zeros(0))
    means: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # shape (clients, d); NaN where unknown

    def moved(self, t: int, sent: Mapping[str, Moments]) -> tuple[FeatureMoved, ...]:
        """Return the features whose means in round t surely differ, the surest first, at most 20.

        If only one client sends moments, it alone decides; of several, none alone can make a feature differ.

        Parameters
        ----------
        sent
            By client, the moments of its records in the round.
        """
        compared = {name: pair for name in sent if (pair := self._compared(name, sent[name])) is not None}
        if not compared:
            return ()
        off, before, after, by = (np.array(each) for each in zip(*compared.values(), strict=True))
        known = ~np.isnan(off)
        count = np.maximum(known.sum(axis=0), 1)
        sure = np.clip(np.where(known, off, 0.0), -MIN_STANDARD_ERRORS, MIN_STANDARD_ERRORS).sum(axis=0) / np.sqrt(
            count
        )
        part = np.where(known, by, 0.0).sum(axis=0) / count
        found = np.flatnonzero((np.abs(sure) >= MIN_STANDARD_ERRORS - 1e-9) & (np.abs(part) >= MIN_SHIFT)).tolist()
        return tuple(
            FeatureMoved(
                self.features[j],
                significant(float(before[known[:, j], j].mean())),
                significant(float(after[known[:, j], j].mean())),
                clients=_names(compared, known[:, j]),
                of_clients=int(count[j]),
                since=t,
                evidence=significant(float(sure[j] ** 2 / 2.0)),
            )
            for j in sorted(found, key=lambda j: -abs(float(sure[j])))[:NAMED]
        )

    def after(self, sent: Mapping[str, Moments], *, since: int) -> "InputBaseline":
        """Return the baseline after a round.

        Parameters
        ----------
        sent
            By client, the moments of its records in the round.
        since
            The round since which held-out records are gathered.
        """
        known = self._with(sent)
        records, begun, means = known.records.copy(), known.since.copy(), known.means.copy()
        for name, moments in sent.items():
            if name not in known.clients:
                continue
            i = known.clients.index(name)
            count, mean, _ = known._columns(moments)
            before = records[i] if begun[i] >= since else 0.0
            old = np.where(np.isnan(means[i]) | (before == 0.0), mean, means[i])
            weight = count / np.maximum(count + before, 1.0)
            means[i] = np.where(count > 0.0, old + weight * (mean - old), means[i])
            records[i], begun[i] = before + count.max(initial=0.0), since
        return replace(known, records=records, since=begun, means=_as_float32(means))

    def among(self, clients: Collection[str]) -> "InputBaseline":
        """Return what is remembered of some clients alone."""
        kept = [i for i, name in enumerate(self.clients) if name in clients]
        names = tuple(self.clients[i] for i in kept)
        return replace(
            self, clients=names, records=self.records[kept], since=self.since[kept], means=self.means[kept]
        )

    def _compared(self, name: str, moments: Moments) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
        """Return, by feature, the shift in standard errors, the means before and now, and the shift in deviations.

        NaN where one is unknown, or the feature is constant; None if nothing is known of the client.
        """
        if name not in self.clients:
            return None
        i = self.clients.index(name)
        count, mean, variance = self._columns(moments)
        before, records = self.means[i], max(float(self.records[i]), 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            deviation = np.where((count > 0.0) & (variance > 0.0), np.sqrt(variance), np.nan)
            by = (mean - before) / deviation
            off = by / np.sqrt(1.0 / count + 1.0 / records)
        return off, before, mean, by

    def _columns(self, moments: Moments) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return counts, means and variances of the columns, 0 where a client has sent nothing."""
        count, mean, variance = np.zeros((3, len(self.features)))
        at = {name: j for j, name in enumerate(self.features)}
        here = [k for k, name in enumerate(moments.features) if name in at]
        to = [at[moments.features[k]] for k in here]
        count[to], mean[to] = moments.count[here], moments.mean[here]
        variance[to] = moments.m2[here] / np.maximum(moments.count[here], 1.0)
        return count, mean, variance

    def _with(self, sent: Mapping[str, Moments]) -> "InputBaseline":
        """Return the same with room for new names, as long as no more pairs than `PAIRS` are watched."""
        new = [name for name in sent if name not in self.clients]
        clients = (*self.clients, *new[: max(0, PAIRS // max(1, len(self.features)) - len(self.clients))])
        names = union([self.features, *(moments.features for moments in sent.values())])
        features = names[: max(len(self.features), PAIRS // max(1, len(clients)))]
        c, d = len(clients) - len(self.clients), len(features) - len(self.features)
        if not c and not d:
            return self
        return InputBaseline(
            features,
            clients,
            np.pad(self.records, (0, c)),
            np.pad(self.since, (0, c)),
            np.pad(self.means, ((0, c), (0, d)), constant_values=math.nan),
        )


def _names(compared: Collection[str], known: BoolArray) -> tuple[str, ...]:
    """Return the names of the clients whose means of a feature were compared, at most 20."""
    return tuple(sorted(name for name, is_known in zip(compared, known, strict=True) if is_known)[:NAMED])


def _as_float32(means: FloatArray) -> FloatArray:
    """Return means as float32 has them: they take half the bytes."""
    short: FloatArray = np.clip(means, -1e38, 1e38).astype(np.float32).astype(np.float64)
    return short
