"""A test with a proven rate of false alarms, whether a frozen model does worse in the last rounds than before."""

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
from streamfl.learning.drift.evidence import Observed
from streamfl.protocol.alarm import Alarm, Reading

# The tilts of the mixture, and how many rounds ago a drift may have begun. docs/choices.md, "Conformal".
TILTS, STARTS = np.array([0.5, 1.0, 2.0, 4.0, 8.0]), (1, 2, 4, 8)

# The rounds in the bag: at most, at least, and at least before the start. docs/choices.md, "Conformal".
BAG, FEWEST, BEFORE = 48, 4, 3

# With more cells than these, of rounds, clients and labels, the bag is shorter, but of so many rounds at least: it is
# saved in every round, and many clients need fewer rounds. docs/choices.md, "Conformal".
MOST_CELLS, SHORTEST = 20_000, 12


@dataclass
class Conformal(Detector):
    """A mixture of e-values: over all clients, over a few clients, and by label.

    Input: by client and label, counts and sums of the scores of one model that was frozen before (the scout). Cost:
    O(bag x clients x labels) a round, and as many numbers in the saved state.

    The unit is a client's round. Let the bag be the last 48 rounds since the reset (fewer with many clients and
    labels), u the client's sum in a round of
    its scores less its mean over the bag for the record's label, divided by sqrt(records), and z = u over the
    deviation of u over the rounds in the bag. For the last a rounds, of which the client had records in k, and a
    tilt l,

        e = exp(l (sum of z over these k)) / (mean over its rounds in the bag of exp(l z))^k.

    Over all clients, e is their product, averaged over tilts; over a few clients, the product over clients of
    1 - p + p e, averaged over p = 1/clients and 0.1; by label, the product over clients of the e of the label's
    records, averaged over labels. The statistic is ln of the mean over these three and over a. It alarms at ln 2A.

    Where rounds have shocks in common, sums over clients vary more than independent clients explain. So ln of a mean
    that exceeds 1 is divided by the ratio of the two variances over a rounds, if that is surely above 1.

    Theorem. If the rounds of each client in which it has records are exchangeable, and clients are independent, every
    such mean has expectation at most 1: for any law of scores and any dependence within a round. So
    P(alarm in the first n rounds after a reset) <= n / (2A - 1).

    Proof. Given the bag of a client as a multiset, z is the same function of each round, and the last k rounds are a
    draw of k from the bag without replacement. By Theorem 4 of Hoeffding (1963) the mean of a convex function of
    their sum, here exp(l x), is at most that of a draw with replacement, which is (mean of exp(l z))^k. So e has mean
    at most 1, and that of a label likewise. Independent clients multiply; 1 - p + p e and averages keep the bound. A
    mean m > 1 whose ln is divided by at least 1, whatever that depends on, is at most m. So the statistic reaches ln
    2A only where means of expectation at most 1, averaged, reach 2A - 1. By Markov that has a probability of at most
    1/(2A - 1) in each round, and n rounds add up.

    The scout is given: it was frozen before the bag begins. Three things are not covered. A shock that all clients
    share makes them dependent; the ratio helps. Rounds may resemble their neighbours. The mix of labels or the number
    of records may change with time; centring by label and dividing by sqrt(records) make that matter little. All
    three are measured.

    Parameters
    ----------
    run_length
        A, in rounds.
    most_local
        Drift is local only if the named clients have at most this part of the records.
    new_label
        A label that is new to the epoch is an alarm by itself if it has more than this part of a round's records.
    clients, labels
        The names of the rows and columns of the bag; only the first 100 labels are tested.
    counts, sums
        The bag: records, and sums of their scores, by round, client and label; shape (rounds, clients, labels).
    dispersion
        By a, the ratio: of the squared sum of all z of the last a rounds to their number.

    References
    ----------
    Hoeffding 1963, Probability inequalities for sums of bounded random variables, Theorem 4. Vovk and Wang 2021,
    E-values: calibration, combination and applications, for averages and products of e-values.

    Examples
    --------
    >>> from streamfl.learning.drift.evidence import ClientPart
    >>> from streamfl.protocol.messages import LabelSums
    >>> def round_(t, score):
    ...     parts = {f"c{i}": ClientPart(50, {}, (LabelSums(label="a", count=50, loss=50 * (score + (t + i) % 5 / 50),
    ...         square=0.0),)) for i in range(5)}
    ...     return Observed(t, 250, {}, clients=parts)
    >>> detector = Conformal()
    >>> {detector.update(round_(t, 0.2), {}) for t in range(1, 21)}
    {None}
    >>> alarm = detector.update(round_(21, 0.5), {})
    >>> alarm.cause, alarm.since, alarm.clients, alarm.local, round(alarm.statistic, 1), round(alarm.threshold, 1)
    ('conformal', 21, (), False, 13.0, 9.9)
    """

    run_length: float = RUN_LENGTH
    most_local: float = 0.3
    new_label: float = 0.05
    clients: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    counts: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    sums: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    dispersion: list[Ratio] = field(default_factory=lambda: [Ratio() for _ in STARTS])
    scouts: ClassVar[bool] = True
    kind: Literal["conformal"] = "conformal"
    reading: Reading | None = None

    def update(self, observed: Observed, groups: Mapping[str, int]) -> Alarm | None:
        """Take a round, and return an alarm if there is one; all groups of clients score the same scout."""
        self.reading = None
        self._add(observed)
        labels = self.labels
        before = self.counts[:-1].sum(axis=(0, 1))
        present = self.counts[-1][[client in observed.clients for client in self.clients]]
        new_label = new_label_alarm(observed, labels, present, before, self.new_label)
        if new_label is not None or len(self.counts) < FEWEST:
            return new_label
        evidence = self._evidence()
        statistic, threshold = evidence.statistic(), math.log(2.0 * self.run_length)
        for start, ratio in zip(STARTS, self.dispersion, strict=True):
            ratio.take(evidence.level(start) ** 2)
        self.reading = Reading(statistic, threshold)
        return self._alarm(observed.round, evidence) if statistic >= threshold else None

    def reset(self, *, filled: bool = False) -> None:
        """Begin a new bag."""
        self.clients = self.labels = ()
        self.counts = self.sums = np.zeros((0, 0, 0))
        self.reading = None

    def forget(self, clients: Collection[str]) -> None:
        """Begin new bags for some clients."""
        kept = [i for i, client in enumerate(self.clients) if client not in clients]
        self.clients = tuple(self.clients[i] for i in kept)
        self.counts, self.sums = self.counts[:, kept], self.sums[:, kept]

    def named(self, clients: Collection[str]) -> tuple[str, ...]:
        """Return those of some clients that surely have risen by now, if only a few have."""
        if len(self.counts) < FEWEST:
            return ()
        chances = self._evidence().chances().tolist()
        return tuple(c for c, x in zip(self.clients, chances, strict=True) if x >= NAMED and c in clients)

    def rest_is_quiet(self, observed: Observed, groups: Mapping[str, int], named: Collection[str], sd: float) -> bool:
        """Return whether the last round of all other clients, in all and by label, is below `sd` deviations."""
        return not len(self.counts) or self._rest(self._evidence(), named) < sd

    def _evidence(self) -> "Evidence":
        return Evidence.of(self.counts, self.sums, [ratio.factor for ratio in self.dispersion])

    def _add(self, observed: Observed) -> None:
        """Put a round into the bag; who had no records in the bag, and labels of which there were none, leave it."""
        parts = observed.clients
        labels = {sums.label for part in parts.values() for sums in part.new}
        clients = tuple(sorted({*self.clients, *parts}))
        names = (*self.labels, *sorted(labels.difference(self.labels)))[:MOST_LABELS]
        row, column = ({name: i for i, name in enumerate(each)} for each in (clients, names))
        new = np.zeros((2, 1, len(clients), len(names)))
        for client, part in parts.items():
            for sums in part.new:
                if sums.label in column:
                    new[:, 0, row[client], column[sums.label]] = sums.count, sums.loss
        old = np.zeros((2, len(self.counts), len(clients), len(names)))
        old[:, :, [row[client] for client in self.clients], : len(self.labels)] = self.counts, self.sums
        most = max(SHORTEST, min(BAG, MOST_CELLS // max(1, len(clients) * len(names))))
        bag = np.concatenate([old, new], axis=1)[:, -most:]
        stay, last = bag[0].any(axis=(0, 2)), bag[0].any(axis=(0, 1))
        self.counts, self.sums = bag[:, :, stay][..., last]
        self.clients = tuple(name for name, stays in zip(clients, stay.tolist(), strict=True) if stays)
        self.labels = tuple(name for name, stays in zip(names, last.tolist(), strict=True) if stays)

    def _alarm(self, t: int, evidence: "Evidence") -> Alarm:
        named, last = self.named(self.clients), self.counts[-1]
        risen = np.array([client in named for client in self.clients])
        few = bool(named) and bool(last[risen].sum() <= self.most_local * last.sum())
        local = few and self._rest(evidence, named) < SURE
        bar, start = math.log(ODDS * len(self.labels)), evidence.start()
        labels = self._labels_at(evidence.by_label() >= bar)
        if local or not labels:
            labels = self._labels_at(evidence.rises_by_label(risen, start) >= SURE)
        statistic, threshold = evidence.statistic(), math.log(2.0 * self.run_length)
        return Alarm("conformal", statistic, threshold, t - start + 1, named, labels, local)

    def _labels_at(self, chosen: BoolArray) -> tuple[str, ...]:
        return tuple(name for name, there in zip(self.labels, chosen.tolist(), strict=True) if name and there)

    def _rest(self, evidence: "Evidence", named: Collection[str]) -> float:
        """Return the largest rise, in deviations, of the clients that are not named: in all, and by label."""
        rest = np.array([client not in named for client in self.clients])
        enough = self.counts[-1][rest].sum(axis=0) >= FEWEST_OF_LABEL
        by_label = evidence.rises_by_label(rest, 1)[enough]
        return max(evidence.rise(rest), float(by_label.max(initial=-math.inf)))


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What a bag shows.

    Parameters
    ----------
    client, cell
        z by round and client, and by round, client and label; 0 where there are no records.
    of_client, of_cell
        ln e by start, tilt and client, and by start, tilt, client and label.
    dispersion
        By start, the factor by which sums over clients vary more than independent clients explain.
    """

    client: FloatArray
    cell: FloatArray
    of_client: FloatArray
    of_cell: FloatArray
    dispersion: FloatArray

    @classmethod
    def of(
        cls, counts: FloatArray, sums: FloatArray, dispersion: Sequence[float] = (1.0,) * len(STARTS)
    ) -> "Evidence":
        """Return what a bag shows; counts and sums have the shape (rounds, clients, labels)."""
        means = sums.sum(axis=0) / np.maximum(1.0, counts.sum(axis=0))
        over = sums - counts * means
        client, cell = _standardised(over.sum(axis=2), counts.sum(axis=2)), _standardised(over, counts)
        of_client, of_cell = _log_e(client, counts.sum(axis=2) > 0.0), _log_e(cell, counts > 0.0)
        return cls(client, cell, of_client, of_cell, np.array(dispersion))

    def statistic(self) -> float:
        """Return ln of the mean over starts and parts."""
        return float(_log_mean(self._parts(), (0, 1)))

    def start(self) -> int:
        """Return how many of the last rounds the likeliest rise has lasted."""
        return STARTS[int(_log_mean(self._parts(), 0).argmax())]

    def by_label(self) -> FloatArray:
        """Return ln of the mean over starts and tilts by label, shape (labels,)."""
        return _log_mean(self._damped(_log_mean(self.of_cell.sum(axis=2), 1).T), 1)

    def chances(self) -> FloatArray:
        """Return the probability that each client has risen, given that some have, shape (clients,)."""
        belongs, terms = over_subsets(self._damped(_log_mean(self.of_client, 1).T).T)
        weights = np.exp(terms - np.logaddexp.reduce(terms, axis=None))
        chances: FloatArray = np.einsum("pk,pki->i", weights, belongs)
        return chances

    def level(self, start: int) -> float:
        """Return by how many deviations all clients lie above the bag in the last rounds."""
        return float(_pooled(self.client[-start:].ravel()))

    def rise(self, chosen: BoolArray) -> float:
        """Return by how many deviations some clients lie above the bag in the last round."""
        return float(_pooled(self.client[-1][chosen]))

    def rises_by_label(self, chosen: BoolArray, start: int) -> FloatArray:
        """Return by how many deviations some clients lie above the bag in the last rounds, shape (labels,)."""
        return _pooled(self.cell[-start:, chosen].reshape(-1, self.cell.shape[2]))

    def _parts(self) -> FloatArray:
        """Return ln of the e-values over all clients, over a few, and by label, shape (3, starts)."""
        few = over_subsets(_log_mean(self.of_client, 1))[1]
        whole, by_label = _log_mean(self.of_client.sum(axis=2), 1), _log_mean(self.of_cell.sum(axis=2), (1, 2))
        return self._damped(np.stack([whole, _log_mean(few, 0), by_label]))

    def _damped(self, logs: FloatArray) -> FloatArray:
        """Return logs with starts in the last axis, divided by their dispersion where they exceed 0."""
        damped: FloatArray = np.where(logs > 0.0, logs / self.dispersion, logs)
        return damped


def _standardised(over: FloatArray, n: FloatArray) -> FloatArray:
    """Return sums over n records, divided by sqrt(n) and by the deviation of that over the rounds with records."""
    there = n > 0.0
    u = over / np.sqrt(np.maximum(1.0, n))
    rounds = np.maximum(1, there.sum(axis=0))
    centre = u.sum(axis=0) / rounds
    deviation = np.sqrt(np.where(there, (u - centre) ** 2, 0.0).sum(axis=0) / rounds)
    # Where all rounds are the same up to rounding, nothing is above the others.
    z: FloatArray = np.where(there, u - centre, 0.0) / np.maximum(deviation, 1e-6)
    return z


def _log_e(z: FloatArray, there: BoolArray) -> FloatArray:
    """Return ln e by start and tilt of series of rounds along the first axis; 0 where there are too few rounds."""
    tilted = np.multiply.outer(TILTS, z)  # |z| is at most sqrt(rounds), so that exp is finite
    rounds = np.maximum(1, there.sum(axis=0))
    log_mean = np.log(np.maximum(np.where(there, np.exp(tilted), 0.0).sum(axis=1), 1e-300) / rounds)
    by_start = []
    for start in STARTS:
        k, before = there[-start:].sum(axis=0), there[:-start].sum(axis=0)
        by_start.append(np.where(before >= BEFORE, tilted[:, -start:].sum(axis=1) - k * log_mean, 0.0))
    return np.stack(by_start)


def _pooled(z: FloatArray) -> FloatArray:
    """Return sums over the first axis in deviations; z is 0 where there is nothing."""
    pooled: FloatArray = z.sum(axis=0) / np.sqrt(np.maximum(1, np.count_nonzero(z, axis=0)))
    return pooled


def _log_mean(logs: FloatArray, axis: int | tuple[int, ...]) -> FloatArray:
    """Return ln of the mean of exp(logs) over some axes."""
    count = math.prod(logs.shape[i] for i in (axis if isinstance(axis, tuple) else (axis,)))
    means: FloatArray = np.logaddexp.reduce(logs, axis=axis) - math.log(count)
    return means
