"""A test whether a frozen model does worse in the last rounds than before; its rate of false alarms is proven."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from streamfl.arrays import BoolArray, FloatArray
from streamfl.learning.drift.detector import Detector
from streamfl.learning.drift.detectors.class_mix import MOST_LABELS
from streamfl.learning.drift.detectors.dispersion import Ratio
from streamfl.learning.drift.detectors.excess import FEWEST_OF_LABEL, ODDS, RUN_LENGTH, SURE
from streamfl.learning.drift.detectors.few_clients import NAMED, over_subsets
from streamfl.learning.drift.detectors.new_label import new_label_alarm
from streamfl.learning.drift.evidence import RoundEvidence
from streamfl.protocol.alarm import Alarm, Reading

# The tilts of the mixture, and how many rounds ago a drift may have begun. docs/choices.md, "Conformal".
TILTS, STARTS = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0])[:, None, None], (1, 2, 4, 8)

# The rounds in the bag: at most, at least, and at least before the start. docs/choices.md, "Conformal".
BAG, FEWEST, BEFORE = 48, 4, 3

# The least variance of a record's score, and the prior of a design effect: as if so many rounds had varied as
# independent records do. docs/choices.md, "Conformal".
LEAST_VARIANCE, SUPPOSED = 1e-6, 10.0

# The deviations that one client's round counts as at most, in what rounds vary by. docs/choices.md, "Influence".
MOST_DEVIATIONS = 6.0

# The variance of a sum below which nothing is known: rounding alone. docs/choices.md, "Conformal".
TINY = 1e-9

# With more cells than these, of rounds, clients and labels, the bag is shorter, but of so many rounds at least: it is
# saved in every round, and many clients need fewer rounds. docs/choices.md, "Conformal".
MOST_CELLS, SHORTEST = 20_000, 12


class Levels(Ratio):
    """The ratio of the squared sum over all clients and the last rounds to its variance."""

    sure: ClassVar[float] = 1.0


@dataclass
class Conformal(Detector):
    """A mixture of e-values: over all clients, over a few clients, and by label.

    Input: by client and label, counts, sums and sums of squares of the scores of one model that was frozen before
    (the scout). Cost: O(bag x clients x labels) a round, and three times as many numbers in the saved state.

    Let the bag be the last 48 rounds since the reset (fewer with many clients and labels). For a client, a label, the
    last a rounds and a tilt l, with m and v the mean and the variance of the cell's scores in the bag,

        e = exp(l (sum over its new records of score - m)) / B(l, v, 1 - m)^(new records),

    where B is Bennett's bound: the largest mean of exp(l x) for x of mean 0 and variance v that is at most 1 - m.
    With more new records than old ones, e is of the old ones, and of how far they lie below m. Over a client, all
    clients, or a label, e is the product over its cells. Over a few clients, it is the product over clients of 1 - p
    + p e, averaged over p = 1/clients and 0.1. The statistic is ln of the mean over tilts, labels, these three, and
    a. It alarms at ln 2A.

    Theorem. If the scores in the bag of each client and label are exchangeable, given those of all others, every
    such mean has expectation at most 1. So P(alarm in the first n rounds after a reset) <= n / 2A.

    Proof. Given each cell's scores in the bag, the new ones are a draw without replacement. By Theorem 4 of
    Hoeffding (1963) the mean of a convex function of their sum, here exp(l x), is at most that of a draw with
    replacement, which is (mean of exp(l x) over the bag)^(new records), and Bennett (1962) bounds that mean by B. So
    each cell has mean at most 1, and cells multiply; 1 - p + p e and averages keep the bound. Markov's inequality
    bounds each round, and n rounds add up.

    Records of a round may depend on each other, as copies do; rounds may have shocks in common, or resemble their
    neighbours. Then sums vary by more than records explain. So ln e above 0 is divided by two factors of at least 1,
    which only lowers e. If sums are Gaussian with a variance f times as large, e to the power of 1/f has mean at
    most 1 again, where B is that of a Gaussian. The first factor is how much more clients' rounds vary before the
    start than independent records explain, shrunk to 1. The second is how much more sums over all clients vary than
    that explains: those of rounds before the start, likewise, or those of the last a rounds in all earlier tests,
    less a standard error. What remains is measured.

    The scout is given: it was frozen before the bag begins.

    References
    ----------
    Hoeffding 1963, Probability inequalities for sums of bounded random variables, Theorem 4. Bennett
    1962, Probability inequalities for the sum of independent random variables. Vovk and Wang 2021,
    E-values: calibration, combination and applications, for averages and products of e-values.

    Examples
    --------
    >>> from streamfl.learning.drift.evidence import ClientEvidence
    >>> from streamfl.protocol.messages import LabelSums
    >>> def round_(t, score):
    ...     losses = [50 * (score + (t + i) % 5 / 50) for i in range(5)]
    ...     sums = [LabelSums(label="a", count=50, loss=loss, square=50 * (score**2 + 0.05)) for loss in losses]
    ...     parts = {f"c{i}": ClientEvidence(50, {}, (one,)) for i, one in enumerate(sums)}
    ...     return RoundEvidence(t, 250, {}, clients=parts)
    >>> detector = Conformal()
    >>> {detector.update(round_(t, 0.2), {}) for t in range(1, 21)}
    {None}
    >>> alarm = detector.update(round_(21, 0.5), {})
    >>> alarm.cause, alarm.since, alarm.clients, alarm.local, round(alarm.statistic, 1), round(alarm.threshold, 1)
    ('conformal', 21, ('c0', 'c1', 'c2', 'c3', 'c4'), False, 96.8, 9.9)
    """

    run_length: float = RUN_LENGTH  # A, in rounds
    most_local: float = 0.3  # drift is local only if the named clients have at most this part of the records
    # A label that is new to the epoch is an alarm by itself if it has more than this part of a round's records.
    new_label: float = 0.05
    # The names of the rows and columns of the bag; only the first 100 labels are tested.
    clients: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    # Records, sums of their scores, and of their squares; shape (3, rounds, clients, labels).
    bag: FloatArray = field(default_factory=lambda: np.zeros((3, 0, 0, 0)))
    # By a, how much more the sum over all clients and the last a rounds varies than clients' rounds explain.
    dispersion: list[Levels] = field(default_factory=lambda: [Levels() for _ in STARTS])
    scouts: ClassVar[bool] = True
    kind: Literal["conformal"] = "conformal"
    reading: Reading | None = None

    def update(self, observed: RoundEvidence, groups: Mapping[str, int]) -> Alarm | None:
        """Take a round, and return an alarm if there is one; all groups of clients score the same scout."""
        self.reading = None
        self._add(observed)
        labels = self.labels
        counts = self.bag[0]
        present = counts[-1][[client in observed.clients for client in self.clients]]
        new_label = new_label_alarm(observed, labels, present, counts[:-1].sum(axis=(0, 1)), self.new_label)
        if new_label is not None or len(counts) < FEWEST:
            return new_label
        evidence = self._evidence()
        statistic, threshold = evidence.statistic(), math.log(2.0 * self.run_length)
        for start, level, ratio in zip(STARTS, evidence.levels().tolist(), self.dispersion, strict=True):
            if _is_tested(start, len(counts)):
                ratio.take(level**2)
        self.reading = Reading(statistic, threshold)
        return self._alarm(observed.round, evidence) if statistic >= threshold else None

    def reset(self, *, filled: bool = False) -> None:
        """Begin a new bag."""
        self.clients = self.labels = ()
        self.bag = np.zeros((3, 0, 0, 0))
        self.reading = None

    def forget(self, clients: Collection[str]) -> None:
        """Begin new bags for some clients."""
        kept = [i for i, client in enumerate(self.clients) if client not in clients]
        self.clients = tuple(self.clients[i] for i in kept)
        self.bag = self.bag[:, :, kept]

    def surely_drifted(self, clients: Collection[str]) -> tuple[str, ...]:
        """Return those of some clients that surely have risen by now, if only a few have."""
        if self.bag.shape[1] < FEWEST:
            return ()
        return tuple(client for client in self._risen(self._evidence()) if client in clients)

    def are_as_before(self, clients: Collection[str]) -> bool:
        """Return whether some clients' scores surely have fallen; the scout is of the concept of all others."""
        chosen = [client in clients for client in self.clients]
        enough = self.bag.shape[1] >= FEWEST and any(chosen)
        return enough and self._evidence().fall(np.array(chosen)) >= math.log(2.0 * self.run_length)

    def rest_is_quiet(
        self, observed: RoundEvidence, groups: Mapping[str, int], named: Collection[str], sd: float
    ) -> bool:
        """Return whether the last round of all other clients, in all and by label, is below `sd` deviations."""
        return not self.bag.shape[1] or self._rest(self._evidence(), named) < sd

    def _evidence(self) -> "Evidence":
        return Evidence.of(self.bag, [ratio.factor for ratio in self.dispersion])

    def _add(self, observed: RoundEvidence) -> None:
        """Put a round into the bag. Clients and labels without any record in it leave it."""
        parts = observed.clients
        labels = {sums.label for part in parts.values() for sums in part.new}
        clients = tuple(sorted({*self.clients, *parts}))
        names = (*self.labels, *sorted(labels.difference(self.labels)))[:MOST_LABELS]
        row, column = ({name: i for i, name in enumerate(each)} for each in (clients, names))
        new = np.zeros((3, 1, len(clients), len(names)))
        for client, part in parts.items():
            for sums in part.new:
                if sums.label in column:
                    new[:, 0, row[client], column[sums.label]] = sums.count, sums.loss, sums.square
        old = np.zeros((3, self.bag.shape[1], len(clients), len(names)))
        old[:, :, [row[client] for client in self.clients], : len(self.labels)] = self.bag
        most = max(SHORTEST, min(BAG, MOST_CELLS // max(1, len(clients) * len(names))))
        bag = np.concatenate([old, new], axis=1)[:, -most:]
        stay, last = bag[0].any(axis=(0, 2)), bag[0].any(axis=(0, 1))
        self.bag = bag[:, :, stay][..., last]
        self.clients = tuple(name for name, stays in zip(clients, stay.tolist(), strict=True) if stays)
        self.labels = tuple(name for name, stays in zip(names, last.tolist(), strict=True) if stays)

    def _alarm(self, t: int, evidence: "Evidence") -> Alarm:
        named, last = self._risen(evidence), self.bag[0, -1]
        risen = np.array([client in named for client in self.clients])
        few = bool(named) and bool(last[risen].sum() <= self.most_local * last.sum())
        local = few and self._rest(evidence, named) < SURE
        bar, start = math.log(ODDS * len(self.labels)), evidence.start()
        labels = self._labels_at(evidence.by_label() >= bar)
        if local or not labels:
            labels = self._labels_at(evidence.rises_by_label(risen, start) >= SURE)
        statistic, threshold = evidence.statistic(), math.log(2.0 * self.run_length)
        return Alarm("conformal", statistic, threshold, t - start + 1, named, labels, local)

    def _risen(self, evidence: "Evidence") -> tuple[str, ...]:
        """Return the clients that surely have risen, if only a few have."""
        return tuple(c for c, x in zip(self.clients, evidence.chances().tolist(), strict=True) if x >= NAMED)

    def _labels_at(self, chosen: BoolArray) -> tuple[str, ...]:
        return tuple(name for name, there in zip(self.labels, chosen.tolist(), strict=True) if name and there)

    def _rest(self, evidence: "Evidence", named: Collection[str]) -> float:
        """Return the largest rise, in deviations, of the clients that are not named: in all, and by label."""
        rest = np.array([client not in named for client in self.clients])
        enough = self.bag[0, -1][rest].sum(axis=0) >= FEWEST_OF_LABEL
        by_label = evidence.rises_by_label(rest, 1)[enough]
        return max(evidence.rise(rest), float(by_label.max(initial=-math.inf)))


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What a bag shows."""

    # By start, client and label: the sum of the new records' scores less their mean over the bag, and its variance.
    above: FloatArray
    variance: FloatArray
    # ln e by start, tilt, client and label; and that of a fall, by start, tilt and client.
    logs: FloatArray
    falls: FloatArray
    # What logarithms above 0 are divided by: by start, and for single clients by start and client.
    factors: FloatArray
    own: FloatArray

    @classmethod
    def of(cls, bag: FloatArray, dispersion: Sequence[float] = (1.0,) * len(STARTS)) -> "Evidence":
        """Return what a bag shows, of shape (3, rounds, clients, labels): counts, sums, and sums of squares."""
        counts, sums, squares = bag
        n = counts.sum(axis=0)
        some = np.maximum(1.0, n)
        mean = sums.sum(axis=0) / some
        one = np.maximum(squares.sum(axis=0) / some - mean**2, LEAST_VARIANCE)
        up, down = _log_most(one, 1.0 - mean), _log_most(one, mean)
        above, variance, logs, falls, effects, own, common = [], [], [], [], [], [], []
        nothing = (np.ones(counts.shape[1]), 1.0, 1.0)
        for start in STARTS:
            new = counts[-start:].sum(axis=0)
            rest = n - new
            rise = (sums - counts * mean)[-start:].sum(axis=0)
            drawn, are_new = np.minimum(new, rest), new <= rest
            log_e = TILTS * rise - drawn * np.where(are_new, up, down)
            fall = (-TILTS * rise - drawn * np.where(are_new, down, up)).sum(axis=2)
            enough = _is_tested(start, len(counts))
            each, effect, shock = _design_effects(counts[:-start], sums[:-start], one) if enough else nothing
            effects.append(effect)
            own.append(each)
            common.append(shock)
            above.append(rise)
            variance.append(effect * one * new * rest / some)
            logs.append(log_e if enough else np.zeros_like(log_e))
            falls.append(fall if enough else np.zeros_like(fall))
        shocks = np.maximum(common, np.maximum.accumulate(dispersion))
        factors, of_clients = np.array(effects) * shocks, np.stack(own) * shocks[:, None]
        return cls(np.stack(above), np.stack(variance), np.stack(logs), np.stack(falls), factors, of_clients)

    def statistic(self) -> float:
        """Return ln of the mean over starts and parts."""
        return float(_log_mean(self._parts(), (0, 1)))

    def start(self) -> int:
        """Return how many of the last rounds the likeliest rise has lasted."""
        return STARTS[int(_log_mean(self._parts(), 0).argmax())]

    def by_label(self) -> FloatArray:
        """Return ln of the mean over starts and tilts by label, shape (labels,)."""
        return _log_mean(_damped(self.logs.sum(axis=2), self.factors[:, None, None]), (0, 1))

    def chances(self) -> FloatArray:
        """Return the probability that each client has risen, given that some have, shape (clients,)."""
        belongs, terms = over_subsets(self._of_clients())
        weights = np.exp(terms - np.logaddexp.reduce(terms, axis=None))
        chances: FloatArray = np.einsum("pk,pki->i", weights, belongs)
        return chances

    def fall(self, chosen: BoolArray) -> float:
        """Return ln of the mean over starts for a fall at some clients."""
        of_clients = _log_mean(_damped(self.falls, self.own[:, None]), 1)
        return float(_log_mean(of_clients[:, chosen].sum(axis=1), 0))

    def levels(self) -> FloatArray:
        """Return by how many deviations all clients lie above the bag, by start."""
        return _level(self.above.sum(axis=2), self.variance.sum(axis=2))

    def rise(self, chosen: BoolArray) -> float:
        """Return by how many deviations some clients lie above the bag in the last round."""
        return float(_deviations(self.above[0, chosen].sum(), self.variance[0, chosen].sum()))

    def rises_by_label(self, chosen: BoolArray, start: int) -> FloatArray:
        """Return by how many deviations some clients lie above the bag in the last rounds, shape (labels,)."""
        i = STARTS.index(start)
        return _deviations(self.above[i, chosen].sum(axis=0), self.variance[i, chosen].sum(axis=0))

    def _parts(self) -> FloatArray:
        """Return ln of the e-values over all clients, over a few, and by label, shape (3, starts)."""
        whole = _log_mean(_damped(self.logs.sum(axis=(2, 3)), self.factors[:, None]), 1)
        few = _log_mean(over_subsets(self._of_clients())[1], 0)
        return np.stack([whole, few, _log_mean(_damped(self.logs.sum(axis=2), self.factors[:, None, None]), (1, 2))])

    def _of_clients(self) -> FloatArray:
        """Return ln e by start and client."""
        return _log_mean(_damped(self.logs.sum(axis=3), self.own[:, None]), 1)


def _damped(logs: FloatArray, factors: FloatArray) -> FloatArray:
    """Return logarithms divided by factors where they exceed 0."""
    damped: FloatArray = np.where(logs > 0.0, logs / factors, logs)
    return damped


def _log_most(variance: FloatArray, most: FloatArray) -> FloatArray:
    """Return by tilt ln of the largest mean of exp(l x) that x can have: of mean 0, a variance, and at most `most`.

    Bennett's: x is `most` with probability w, and else below 0.
    """
    b = np.maximum(most, 1e-6)
    w = variance / (b**2 + variance)
    largest: FloatArray = np.logaddexp(np.log(w) + TILTS * b, np.log1p(-w) - TILTS * variance / b)
    return largest


def _is_tested(start: int, rounds: int) -> bool:
    return rounds - start >= max(BEFORE, start // 2)


def _design_effects(counts: FloatArray, sums: FloatArray, one: FloatArray) -> tuple[FloatArray, float, float]:
    """Return how much more rounds vary than is explained, shrunk and at least 1; `one` is a record's variance.

    Rounds of each client, shape (clients,), and of all, beyond independent records; and sums over all clients, beyond
    independent clients.
    """
    n = counts.sum(axis=0)
    rise = (sums - counts * (sums.sum(axis=0) / np.maximum(1.0, n))).sum(axis=2)
    explained = (one * counts * (1.0 - counts / np.maximum(1.0, n))).sum(axis=2)
    ratios = np.where(explained > TINY, rise**2 / np.maximum(explained, TINY), np.nan)
    known = np.isfinite(ratios)
    by_client = np.nansum(ratios, axis=0) / np.maximum(1, known.sum(axis=0))
    # One client's rounds count as at most so many deviations of the middle client's.
    ratios = np.minimum(ratios, MOST_DEVIATIONS**2 * max(1.0, float(np.median(by_client))))
    total, rounds = np.nansum(ratios, axis=0), known.sum(axis=0)
    effect = _shrunk(float(total.sum()), int(rounds.sum()))
    own = np.maximum(1.0, (SUPPOSED * effect + total) / (SUPPOSED + rounds))
    levels = _level(rise, effect * explained)
    return own, effect, _shrunk(float((levels**2).sum()), len(levels))


def _shrunk(total: float, count: int) -> float:
    return max(1.0, (SUPPOSED + total) / (SUPPOSED + count))


def _level(rises: FloatArray, variances: FloatArray) -> FloatArray:
    """Return by how many deviations clients, in the last axis, lie above 0 together; all weigh the same."""
    each = np.clip(_deviations(rises, variances), -MOST_DEVIATIONS, MOST_DEVIATIONS)
    level: FloatArray = each.sum(axis=-1) / np.sqrt(np.maximum(1, (variances > TINY).sum(axis=-1)))
    return level


def _deviations(rise: FloatArray, variance: FloatArray) -> FloatArray:
    deviations: FloatArray = rise / np.sqrt(np.maximum(variance, TINY))
    return deviations


def _log_mean(logs: FloatArray, axis: int | tuple[int, ...]) -> FloatArray:
    """Return ln of the mean of exp(logs) over some axes."""
    count = math.prod(logs.shape[i] for i in (axis if isinstance(axis, tuple) else (axis,)))
    means: FloatArray = np.logaddexp.reduce(logs, axis=axis) - math.log(count)
    return means
