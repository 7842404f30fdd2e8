"""A test whether the serving model does worse on new records than on held-out ones of the same client and label."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from streamfl.arrays import BoolArray, FloatArray
from streamfl.learning.drift.detector import Detector
from streamfl.learning.drift.detectors.dispersion import Dispersion
from streamfl.learning.drift.detectors.few_clients import RISES, FewClients, Rise
from streamfl.learning.drift.detectors.new_label import new_label_alarm
from streamfl.learning.drift.evidence import ClientEvidence, RoundEvidence
from streamfl.protocol.alarm import Alarm, Reading

# MARGIN: a rise too small to matter. LEAST_VARIANCE: of a record's score. BORROWED: the records' worth of prior with
# which a small sample's variance is shrunk. docs/choices.md, "Excess".
MARGIN, LEAST_VARIANCE, BORROWED = 0.01, 0.002, 20.0

# The run length to a false alarm that the test aims at, in rounds. docs/choices.md, "Excess".
RUN_LENGTH = 1e4

# The odds required of a particular change once it is known that something has changed. docs/choices.md, "Excess".
ODDS = 20.0

# The held-out records that a baseline needs: of the cell itself, or of its label over all clients.
# docs/choices.md, "Excess".
OWN, OTHERS = 3, 10

# The records that a round needs: for a stream, for a label of the rest, and in all. docs/choices.md, "Excess".
FEWEST_OF_STREAM, FEWEST_OF_LABEL, FEWEST = 3, 5, 20

# A client is an outlier if its excess differs from the median client's by more than so many of its own standard
# deviations, and of those between clients. Outliers say nothing about all clients; the test for a few clients judges
# them. With fewer clients than the second number there are no outliers. docs/choices.md, "Influence".
APART, FEWEST_CLIENTS = 4.0, 4

# The standard deviations from which on a single round shows a rise of a label or of the rest, and by which a baseline
# may be off. docs/choices.md, "Excess".
SURE = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Sums of scores by client and label, on new and on held-out records; each of shape (clients, labels)."""

    # Names of rows and columns.
    clients: tuple[str, ...]
    labels: tuple[str, ...]
    # New records: count, sum of scores, sum of squares.
    n: FloatArray
    s: FloatArray
    q: FloatArray
    # The same for held-out records.
    h: FloatArray
    hs: FloatArray
    hq: FloatArray

    # Each client's group number, shape (clients,). Only clients of one group, which one model serves, share
    # baselines.
    groups: FloatArray

    def of_clients(self, chosen: BoolArray) -> "Cells":
        """Return the cells with zeros for all clients but some, a mask of shape (clients,)."""
        if chosen.all():
            return self
        n, s, q, h, hs, hq = np.where(chosen[:, None], (self.n, self.s, self.q, self.h, self.hs, self.hq), 0.0)
        return replace(self, n=n, s=s, q=q, h=h, hs=hs, hq=hq)

    @classmethod
    def of(cls, parts: Mapping[str, ClientEvidence], groups: Mapping[str, int]) -> "Cells":
        """Return the cells of a round."""
        clients = tuple(parts)
        labels = tuple(sorted({x.label for part in parts.values() for x in (*part.new, *part.old)}))
        at = {label: j for j, label in enumerate(labels)}
        sums = np.zeros((6, len(clients), len(labels)))
        for i, part in enumerate(parts.values()):
            for k, side in ((0, part.new), (3, part.old)):
                for x in side:
                    sums[k : k + 3, i, at[x.label]] = x.count, x.loss, x.square
        n, s, q, h, hs, hq = sums
        return cls(clients, labels, n, s, q, h, hs, hq, np.array([float(groups.get(c, 0)) for c in clients]))


@dataclass(frozen=True, slots=True, eq=False)
class Excesses:
    """The losses of new records beyond their baseline: sums by cell over `n` comparable records, and variances."""

    cells: Cells  # the cells that were compared
    # Records, sum of excesses r, sum of r^2; shape (clients, labels).
    n: FloatArray
    total: FloatArray
    square: FloatArray
    variance: FloatArray  # variance of a single record's score around its baseline, by label; shape (labels,)
    # n^2 times the variance of the part of a cell's baseline that is its own; shape (clients, labels).
    own: FloatArray

    # Records of cells that borrow their label's baseline from their group, and the variance of that baseline, which
    # all these cells share; shape (clients, labels).
    borrowed: FloatArray
    shared: FloatArray

    # The clients that do not differ from all others, shape (clients,): variances and shared baselines are theirs, and
    # so is what is said about all clients.
    alike: BoolArray

    @classmethod
    def of(cls, cells: Cells) -> "Excesses":
        """Compare every cell with its baseline: its own held-out records, else those of its group and label."""
        return cls._among(cells, np.ones(len(cells.clients), np.bool_))

    def of_alike(self) -> "Excesses":
        """Return them with variances and shared baselines of the clients that do not differ from all others."""
        alike = _alike(self)
        return self if alike.all() else self._among(self.cells, alike)

    @classmethod
    def _among(cls, cells: Cells, alike: BoolArray) -> "Excesses":
        """Compare every cell with its baseline, given the clients that are alike."""
        c, common = cells, cells.of_clients(alike)
        with np.errstate(divide="ignore", invalid="ignore"):
            groups, group = np.unique(c.groups, return_inverse=True)
            of_group = (groups[:, None] == c.groups[None, :]).astype(np.float64)
            others, others_sum = (of_group @ common.h)[group], (of_group @ common.hs)[group]
            is_own = c.h >= OWN
            borrows = ~is_own & (others >= OTHERS)
            baseline = np.where(is_own, c.hs / c.h, np.where(borrows, others_sum / others, 0.0))
            n = np.where(is_own | borrows, c.n, 0.0)
            s, q = np.where(n > 0.0, c.s, 0.0), np.where(n > 0.0, c.q, 0.0)
            variance = _variances(common, *(np.where(alike[:, None], x, 0.0) for x in (n, s, q)))
            between = _between(common, variance)
            own = np.where(is_own, n**2 * variance / c.h, np.where(borrows, n**2 * between, 0.0))
            shared = np.where(others > 0.0, variance / others, 0.0)
        return cls(
            cells, n, s - n * baseline, q - 2.0 * baseline * s + n * baseline**2,
            variance, own, np.where(borrows, n, 0.0), shared, alike,
        )  # fmt: skip

    def dispersed(self, factor: float) -> "Excesses":
        """Return them with variances multiplied by a factor, including the squares from which they are estimated."""
        return replace(self, square=factor * self.square, variance=factor * self.variance)

    @property
    def whole(self) -> "Sample":
        """Return the excess over all records of clients that are alike."""
        return self.pooled(np.repeat(self.alike[:, None], self.n.shape[1], axis=1), borrowed=0.0)

    def pooled(self, chosen: BoolArray, *, borrowed: float = BORROWED) -> "Sample":
        """Return the excess over some cells, a mask of shape (clients, labels).

        The sample variance is shrunk to the expected one, as if by `borrowed` more records.
        """
        n = np.where(chosen, self.n, 0.0)
        count = float(n.sum())
        if count <= 0.0:
            return Sample(0, 0.0, 1.0, 0.0)
        mean = float(self.total[chosen].sum()) / count
        spread = max(0.0, float(self.square[chosen].sum()) / count - mean**2)
        expected = float((n * self.variance).sum()) / count
        shrunk = (count * spread + borrowed * expected) / (count + borrowed)
        variance = max(shrunk, expected, LEAST_VARIANCE) / count
        uncertain = (float(self.own[chosen].sum()) + self._shared(chosen)) / count**2
        return Sample(round(count), mean - MARGIN, variance, uncertain)

    def by_label(self, clients: BoolArray) -> Iterator[tuple[str, "Sample"]]:
        """Yield the excess of each label, over the clients in a mask of shape (clients,)."""
        for j, label in enumerate(self.cells.labels):
            column = np.zeros_like(self.n, np.bool_)
            column[:, j] = clients
            yield label, self.pooled(column)

    def _shared(self, chosen: BoolArray) -> float:
        """Return count^2 times the variance of borrowed baselines, whose error is common to all cells that borrow."""
        if not self.borrowed.any():
            return 0.0
        borrowed = np.where(chosen, self.borrowed, 0.0)
        total = 0.0
        for group in sorted(set(self.cells.groups.tolist())):
            rows = self.cells.groups == group
            total += float((borrowed[rows].sum(axis=0) ** 2 * self.shared[rows][0]).sum())
        return total


@dataclass(frozen=True, slots=True)
class Sample:
    """The mean excess of `count` records beyond the margin, its variance, and the variance of its baseline."""

    count: int
    rise: float
    variance: float
    baseline: float

    @property
    def excess(self) -> float:
        """Return the rise beyond three standard errors of its baseline."""
        return self.rise - SURE * math.sqrt(self.baseline)

    @property
    def fall(self) -> "Sample":
        """Return the fall: how far new records lie below their baseline, beyond the margin."""
        return replace(self, rise=-self.rise - 2.0 * MARGIN)

    @property
    def deviations(self) -> float:
        """Return the excess in standard deviations."""
        return self.excess / math.sqrt(self.variance)


def _alike(excesses: Excesses) -> BoolArray:
    """Return the clients whose excess does not differ from that of all others, shape (clients,)."""
    rises, clients = dict(_rises(excesses)), excesses.cells.clients
    if len(rises) < FEWEST_CLIENTS:
        return np.ones(len(clients), np.bool_)
    means = np.array([rise.mean for rise in rises.values()])
    own = np.sqrt([rise.variance + rise.baseline for rise in rises.values()])
    distances = np.abs(means - np.median(means))
    between = 1.4826 * float(np.median(distances))  # a standard deviation, if they are Gaussian
    outliers = {name for name, far in zip(rises, distances > APART * np.maximum(own, between), strict=True) if far}
    return np.array([client not in outliers for client in clients], np.bool_)


def _variances(c: Cells, n: FloatArray, s: FloatArray, q: FloatArray) -> FloatArray:
    """Return by label the larger of the held-out variance within cells and this round's, shrunk to it.

    Where most clients hold out a single record of a label, cells show little of how scores vary. So the variance
    within cells is shrunk to that over all clients, which is not smaller.
    """
    within = np.where(c.h > 0, c.hq - c.hs**2 / c.h, 0.0).sum(axis=0)
    freedom, total = np.maximum(c.h - 1.0, 0.0).sum(axis=0), c.h.sum(axis=0)
    over_all = (c.hq.sum(axis=0) - c.hs.sum(axis=0) ** 2 / np.maximum(1.0, total)) / np.maximum(1.0, total - 1.0)
    old = (within + BORROWED * over_all) / (freedom + BORROWED)
    count, mean = n.sum(axis=0), s.sum(axis=0) / np.maximum(1.0, n.sum(axis=0))
    new = np.maximum(0.0, q.sum(axis=0) - count * mean**2)
    shrunk = (new + BORROWED * old) / (count + BORROWED)
    variances: FloatArray = np.maximum(np.maximum(old, shrunk), LEAST_VARIANCE)
    return variances


def _between(c: Cells, variance: FloatArray) -> FloatArray:
    """Return by label the variance of clients' mean scores beyond chance; `variance` with fewer than two clients."""
    known = c.h >= OWN
    clients = known.sum(axis=0)
    means = np.where(known, c.hs / c.h, 0.0)
    centre = means.sum(axis=0) / np.maximum(1, clients)
    spread = np.where(known, (means - centre) ** 2, 0.0).sum(axis=0) / np.maximum(1, clients - 1)
    chance = np.where(known, variance / c.h, 0.0).sum(axis=0) / np.maximum(1, clients)
    between: FloatArray = np.where(clients >= 2, np.maximum(0.0, spread - chance), variance)
    return between


@dataclass
class Excess(Detector):
    """A mixture of Shiryaev-Roberts statistics of excess scores: over all records, over a few clients, and by label.

    Input: by client and label, sums of the serving model's scores on new and on held-out records. Guarantee: none. If
    baseline and variance were known and a round's mean Gaussian, or sub-Gaussian with that variance, the mean run
    length to a false alarm would be at least `run_length`. Both are estimated, and with rare errors the mean is
    neither: with rounds of 20 records and one error in 200, the run length is 191 where 10^4 is asked for
    (`benchmarks/known_variance.py`). On streams it is measured. Cost: O(clients x labels) a round.

    For an excess x with variance V and a rise d, M <- (1 + M) exp(d x / V - d^2 / (2 V)). The statistic is ln of the
    mean of M over six rises and, with equal weight, over three parts: the stream of all records, those of labels, and
    `FewClients`.

    References
    ----------
    Shiryaev 1963 and Roberts 1966 for the recursion; Ville's inequality for the run length.

    Examples
    --------
    >>> from streamfl.protocol.messages import LabelSums
    >>> detector = Excess()
    >>> def round_(t, score):
    ...     new, old = LabelSums(label="a", count=50, loss=50 * score, square=50 * score**2), LabelSums(
    ...         label="a", count=25, loss=5.0, square=1.5)
    ...     part = ClientEvidence(50, {}, (new,), (old,))
    ...     return RoundEvidence(t, 100, {}, clients={"c0": part, "c1": part})
    >>> [detector.update(round_(t, 0.2), {}) for t in range(1, 8)]
    [None, None, None, None, None, None, None]
    >>> alarm = detector.update(round_(8, 0.5), {})
    >>> alarm.cause, alarm.clients, alarm.local, round(alarm.threshold, 2)
    ('excess', ('c0', 'c1'), False, 9.21)
    """

    run_length: float = RUN_LENGTH  # A, the run length to a false alarm in rounds
    filling: int = 3  # rounds after a restart in which held-out records are only gathered
    most_local: float = 0.3  # drift is local only if the named clients have at most this part of the records
    # A label that is new to the epoch is an alarm by itself if it has more than this part of a round's records.
    new_label: float = 0.05
    # ln M of every stream, for each rise. Streams are "" (all records) and "label NAME".
    logs: dict[str, list[float]] = field(default_factory=dict)
    # By stream and rise, the round in which a rise would have begun.
    begun: dict[str, list[int]] = field(default_factory=dict)
    few: FewClients = field(default_factory=FewClients)  # the test for a rise at a few clients
    filled: int = 0  # rounds since the restart
    # ln M for each size of a fall of all records below their baseline.
    eased: list[float] = field(default_factory=list)
    # How much more rounds differ from each other than their records explain.
    dispersion: Dispersion = field(default_factory=Dispersion)
    compares: ClassVar[bool] = True
    kind: Literal["excess"] = "excess"
    reading: Reading | None = None

    def update(self, observed: RoundEvidence, groups: Mapping[str, int]) -> Alarm | None:
        """Take a round, and return an alarm if there is one.

        Parameters
        ----------
        groups
            The group number of each client that another model serves than the rest; all others are in group 0.
        """
        self.reading = None
        self.filled += 1
        cells = Cells.of(observed.clients, groups)
        new_label = new_label_alarm(observed, cells.labels, cells.n, cells.h.sum(axis=0), self.new_label)
        if new_label is not None:
            return new_label
        if self.filled <= self.filling or not len(cells.labels):
            return None
        plain = Excesses.of(cells)
        if plain.n.sum() < FEWEST:
            return None
        everybody, alike = plain.dispersed(self.dispersion.factor), plain.of_alike()
        excesses = alike.dispersed(self.dispersion.factor)
        self._bet(observed.round, excesses, everybody)
        statistic, threshold = self.statistic(), math.log(self.run_length)
        self.reading = Reading(statistic, threshold)
        whole = alike.whole
        self.dispersion.add(whole.rise, whole.variance)
        return self._alarm(observed.round, excesses, everybody) if statistic >= threshold else None

    def reset(self, *, filled: bool = False) -> None:
        """Forget every stream; unless `filled`, the next rounds only gather held-out records."""
        self.logs, self.begun, self.eased, self.few = {}, {}, [], FewClients()
        self.dispersion.pause()
        self.reading = None
        self.filled = self.filling if filled else 0

    def forget(self, clients: Collection[str]) -> None:
        """Forget some clients, which another model serves from now on, and the streams that they were part of."""
        self.logs, self.begun, self.eased = {}, {}, []
        self.dispersion.pause()
        self.few.forget(clients)

    def surely_drifted(self, clients: Collection[str]) -> tuple[str, ...]:
        """Return those of some clients that surely have risen by now, if only a few have."""
        return self.few.surely_drifted(clients)

    @property
    def is_stale(self) -> bool:
        """Whether new records are surely easier than the held-out ones.

        The held-out records are then of a concept that has passed, such as the mixture of concepts during a gradual
        drift, and hide any rise.
        """
        return bool(self.eased) and _log_mean(self.eased) >= math.log(self.run_length)

    def statistic(self) -> float:
        """Return ln of the mixture of all streams."""
        parts = [
            _log_mean([x for name in names for x in self.logs[name]])
            for names in ([""], self._labels())
            if names and names[0] in self.logs
        ]
        return _log_mean([*parts, self.few.statistic()]) if parts else -math.inf

    def rest_is_quiet(
        self, observed: RoundEvidence, groups: Mapping[str, int], named: Collection[str], sd: float
    ) -> bool:
        """Return whether this round's excess of all other clients, in all and by label, is below `sd` deviations."""
        plain = Excesses.of(Cells.of(observed.clients, groups))
        excesses = plain.of_alike().dispersed(self.dispersion.factor)
        return self._rest(excesses, named) < sd

    def _bet(self, t: int, excesses: Excesses, everybody: Excesses) -> None:
        whole = excesses.whole
        self._bet_on("", t, whole)
        self.eased = _after(self.eased, whole.fall)
        self.few.add(dict(_rises(everybody)))
        for label, sample in excesses.by_label(excesses.alike):
            self._bet_on(f"label {label}", t, sample)

    def _bet_on(self, stream: str, t: int, sample: Sample) -> None:
        before = self.logs.get(stream, [-math.inf] * len(RISES))
        began = self.begun.get(stream, [t] * len(RISES))
        # Where M is below 1, all earlier beginnings together are less likely than one in this round.
        self.begun[stream] = [s if x > 0.0 else t for s, x in zip(began, before, strict=True)]
        self.logs[stream] = _after(before, sample)

    def _since(self, t: int) -> int:
        """Return the round with which the likeliest rise of the likeliest stream began."""
        begun = [pair for name in self.logs for pair in zip(self.logs[name], self.begun[name], strict=True)]
        return max([*begun, (self.few.statistic(), t - self.few.age())])[1]

    def _alarm(self, t: int, excesses: Excesses, everybody: Excesses) -> Alarm:
        cells = excesses.cells
        named = self.surely_drifted(cells.clients)
        bar = math.log(ODDS * max(1, len(self._labels())))
        labels = tuple(name for name in cells.labels if name and _log_mean(self.logs[f"label {name}"]) >= bar)
        records = sum(cells.n[i].sum() for i, client in enumerate(cells.clients) if client in named)
        few = bool(named) and bool(records <= self.most_local * cells.n.sum())
        local = few and self._rest(excesses, named) < SURE
        if local or not labels:  # clients that differ from the others are in none of the labels' streams
            labels = tuple(self._risen(everybody, named))
        return Alarm("excess", self.statistic(), math.log(self.run_length), self._since(t), named, labels, local)

    @staticmethod
    def _risen(excesses: Excesses, clients: Collection[str]) -> Iterator[str]:
        """Yield the labels that are surely above their baselines in this round at some clients."""
        rows = np.array([client in clients for client in excesses.cells.clients])
        for label, sample in excesses.by_label(rows):
            if label and sample.count >= FEWEST_OF_STREAM and sample.deviations >= SURE:
                yield label

    @staticmethod
    def _rest(excesses: Excesses, named: Collection[str]) -> float:
        """Return the largest excess, in deviations, of the clients that are not named: in all, and by label."""
        rest = excesses.alike & np.array([client not in named for client in excesses.cells.clients])
        everywhere = np.repeat(rest[:, None], len(excesses.cells.labels), axis=1)
        samples = [excesses.pooled(everywhere), *(sample for _, sample in excesses.by_label(rest))]
        return max((x.deviations for x in samples if x.count >= FEWEST_OF_LABEL), default=-math.inf)

    def _labels(self) -> Sequence[str]:
        return [name for name in self.logs if name]


def _after(logs: Sequence[float], sample: Sample) -> list[float]:
    """Return ln M for each rise after one more sample."""
    before = np.array(logs or [-math.inf] * len(RISES))
    if sample.count >= FEWEST_OF_STREAM:
        gain = RISES * sample.excess / sample.variance - RISES**2 / (2.0 * sample.variance)
        before = np.logaddexp(0.0, before) + gain
    after: list[float] = before.tolist()
    return after


def _rises(excesses: Excesses) -> Iterator[tuple[str, Rise]]:
    """Yield the clients with enough records, and the rise of each above its baseline."""
    for i, client in enumerate(excesses.cells.clients):
        row = np.zeros_like(excesses.n, np.bool_)
        row[i] = True
        sample = excesses.pooled(row)
        if sample.count >= FEWEST_OF_STREAM:
            yield client, Rise(sample.rise, sample.variance, sample.baseline)


def _log_mean(logs: Sequence[float]) -> float:
    """Return ln of the mean of exp(logs)."""
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))
