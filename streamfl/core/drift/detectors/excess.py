"""Tells that today's model does worse on new records than on held-out old ones of the same client and label."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from streamfl.core.arrays import BoolArray, FloatArray
from streamfl.core.drift.detector import Detector
from streamfl.core.drift.detectors.dispersion import Dispersion
from streamfl.core.drift.detectors.few import RISES, Few, Rise
from streamfl.core.drift.evidence import ClientPart, Observed
from streamfl.core.protocol.alarm import Alarm, Reading

# A rise too small to matter; the least variance of a record's score; records that a small sample's variance borrows.
# docs/choices.md, "Excess".
MARGIN, LEAST_VARIANCE, BORROWED = 0.01, 0.002, 20.0

# Rounds between false alarms that the test aims at. docs/choices.md, "Excess".
RUN_LENGTH = 1e4

# Where it is known that something has changed, these odds tell that it is this. docs/choices.md, "Excess".
ODDS = 20.0

# Held-out records that a cell, and a label over all clients, needs to be compared with. docs/choices.md, "Excess".
OWN, OTHERS = 3, 10

# Records that a stream needs in a round, a label of the rest, and the whole round. docs/choices.md, "Excess".
FEWEST_OF_STREAM, FEWEST_OF_LABEL, FEWEST = 3, 5, 20

# Deviations from which on one round tells that a label of some clients, or of the rest, has risen, and those by which
# a baseline may be off. docs/choices.md, "Excess".
SURE = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Sums of scores by client and label, new and old, shape (clients, labels) each, and what follows from them.

    Parameters
    ----------
    clients, labels
        Names of rows and columns.
    n, s, q
        New records: count, sum of scores, sum of squares.
    h, hs, hq
        The same of old, held-out ones.
    groups
        Number of each client's group; only clients of one group, who are served by one model, stand in for another.
    """

    clients: tuple[str, ...]
    labels: tuple[str, ...]
    n: FloatArray
    s: FloatArray
    q: FloatArray
    h: FloatArray
    hs: FloatArray
    hq: FloatArray
    groups: FloatArray

    @classmethod
    def of(cls, parts: Mapping[str, ClientPart], groups: Mapping[str, int]) -> "Cells":
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
    """What new records lost beyond their baseline: by cell, sums over the `n` usable ones, and how sure that is.

    Parameters
    ----------
    n, total, square
        Records, sum of excesses r, sum of r^2; shape (clients, labels).
    variance
        v, of a single record's score around its baseline, by label; shape (labels,).
    own
        Variance of the part of a cell's baseline that is its own: times n^2; shape (clients, labels).
    shared
        Of the part that all cells that borrow a label's baseline share: (borrowed records by client, variance by
        label and group).
    """

    cells: Cells
    n: FloatArray
    total: FloatArray
    square: FloatArray
    variance: FloatArray
    own: FloatArray
    borrowed: FloatArray
    shared: FloatArray

    @classmethod
    def of(cls, cells: Cells) -> "Excesses":
        """Compare every cell with its baseline: its own held-out records, else those of its group and label."""
        c = cells
        with np.errstate(divide="ignore", invalid="ignore"):
            same = (c.groups[:, None] == c.groups[None, :]).astype(np.float64)
            others, others_sum = same @ c.h, same @ c.hs
            is_own = c.h >= OWN
            borrows = ~is_own & (others >= OTHERS)
            baseline = np.where(is_own, c.hs / c.h, np.where(borrows, others_sum / others, 0.0))
            n = np.where(is_own | borrows, c.n, 0.0)
            s, q = np.where(n > 0.0, c.s, 0.0), np.where(n > 0.0, c.q, 0.0)
            variance = _variances(c, n, s, q)
            own = np.where(is_own, n**2 * variance / c.h, np.where(borrows, n**2 * _between(c, variance), 0.0))
            shared = np.where(others > 0.0, variance / others, 0.0)
        return cls(
            cells, n, s - n * baseline, q - 2.0 * baseline * s + n * baseline**2,
            variance, own, np.where(borrows, n, 0.0), shared,
        )  # fmt: skip

    def dispersed(self, factor: float) -> "Excesses":
        """Return them with so many times the variance, to which a round's own rise then counts, too."""
        return replace(self, square=factor * self.square, variance=factor * self.variance)

    @property
    def whole(self) -> "Sample":
        """Return the excess over all records."""
        return self.pooled(np.ones_like(self.n, np.bool_), borrowed=0.0)

    def pooled(self, chosen: BoolArray, *, borrowed: float = BORROWED) -> "Sample":
        """Return the excess over some cells, a mask of shape (clients, labels).

        The spread of few records is not trusted: it is shrunk to what is expected, as if by `borrowed` more records.
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

    def by_label(self, clients: BoolArray | bool = True) -> Iterator[tuple[str, "Sample"]]:
        """Yield the excess of each label, over all clients or some, a mask of shape (clients,)."""
        for j, label in enumerate(self.cells.labels):
            column = np.zeros_like(self.n, np.bool_)
            column[:, j] = clients
            yield label, self.pooled(column)

    def _shared(self, chosen: BoolArray) -> float:
        """Return the variance, times count^2, of baselines that several of the cells borrow: one error for all."""
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
    """A mean excess beyond the margin over `count` records, its variance, and that of its baseline."""

    count: int
    rise: float
    variance: float
    baseline: float

    @property
    def excess(self) -> float:
        """Return the rise beyond three errors of its baseline."""
        return self.rise - SURE * math.sqrt(self.baseline)

    @property
    def fall(self) -> "Sample":
        """Return the same sample seen from below: how far new records lie under their baseline, beyond the margin."""
        return replace(self, rise=-self.rise - 2.0 * MARGIN)

    @property
    def deviations(self) -> float:
        """Return the excess in standard deviations."""
        return self.excess / math.sqrt(self.variance)


def _variances(c: Cells, n: FloatArray, s: FloatArray, q: FloatArray) -> FloatArray:
    """Return by label the larger of the history's variance within cells and this round's, shrunk to it.

    Where most clients hold back a single record of a label, cells tell little of how scores vary: the variance within
    them is shrunk to that over all clients, which is not smaller.
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
    """Return by label how much clients' mean scores differ beyond chance; with less than two clients the variance."""
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

    Input: by client and label, sums of the serving model's scores on new records and on held-out old ones. Guarantee:
    none. Were baseline and variance known and a round's mean Gaussian, or sub-Gaussian with that variance, the mean
    run length to a false alarm would be at least `run_length`. Both are estimated, and where errors are rare the mean
    is neither: with 20 records of which one in 200 is wrong it is 191 where 10^4 is asked for
    (`benchmarks/known_variance.py`). What it is on streams is measured. Cost: O(clients x labels) a round.

    For an excess x with variance V and a rise d, M <- (1 + M) exp(d x / V - d^2 / (2 V)); the statistic is ln of the
    mean of M over six rises and, a third each, over the stream of all records, those of labels, and that of `Few`.

    Parameters
    ----------
    run_length
        A: rounds between false alarms.
    filling
        Rounds after a restart in which held-out records are only gathered.
    most_local
        Drift is local when the clients that stand out hold less than this part of the records.
    new_label
        Part of a round's records that a label needs which the epoch had not seen, to be news by itself.
    logs
        ln M of every stream, for each rise. Streams are "" and "label NAME".
    eased
        The same of how far new records lie below their baseline.
    few
        What tells that a few clients have risen.
    dispersion
        How much more rounds differ from each other than their records tell.
    begun
        The round with which a rise of each stream began, if there is one, for each size.
    filled
        Rounds since the restart.

    References
    ----------
    Shiryaev 1963 and Roberts 1966 for the recursion; Ville's inequality for the run length.

    Examples
    --------
    >>> from streamfl.core.protocol.messages import LabelSums
    >>> detector = Excess()
    >>> def round_(t, score):
    ...     new, old = LabelSums(label="a", count=50, loss=50 * score, square=50 * score**2), LabelSums(
    ...         label="a", count=25, loss=5.0, square=1.5)
    ...     part = ClientPart(50, {}, (new,), (old,))
    ...     return Observed(t, 100, {}, clients={"c0": part, "c1": part})
    >>> [detector.update(round_(t, 0.2), {}) for t in range(1, 8)]
    [None, None, None, None, None, None, None]
    >>> alarm = detector.update(round_(8, 0.5), {})
    >>> alarm.cause, alarm.clients, alarm.local, round(alarm.threshold, 2)
    ('excess', ('c0', 'c1'), False, 9.21)
    """

    run_length: float = RUN_LENGTH
    filling: int = 3
    most_local: float = 0.3
    new_label: float = 0.05
    logs: dict[str, list[float]] = field(default_factory=dict)
    begun: dict[str, list[int]] = field(default_factory=dict)
    few: Few = field(default_factory=Few)
    filled: int = 0
    eased: list[float] = field(default_factory=list)
    dispersion: Dispersion = field(default_factory=Dispersion)
    compares: ClassVar[bool] = True
    kind: Literal["excess"] = "excess"
    reading: Reading | None = None

    def update(self, observed: Observed, groups: Mapping[str, int]) -> Alarm | None:
        """Take a round, and return an alarm if there is one.

        Parameters
        ----------
        observed
            The round.
        groups
            The number of the group of each client that is served by another model than the rest (0).
        """
        self.reading = None
        self.filled += 1
        cells = Cells.of(observed.clients, groups)
        news = self._unseen(cells, observed)
        if news is not None:
            return news
        if self.filled <= self.filling or not len(cells.labels):
            return None
        found = Excesses.of(cells)
        if found.n.sum() < FEWEST:
            return None
        excesses = found.dispersed(self.dispersion.factor)
        self._bet(observed.round, excesses)
        statistic, threshold = self.statistic(), math.log(self.run_length)
        self.reading = Reading(statistic, threshold)
        whole = found.whole
        self.dispersion.add(whole.rise, whole.variance)
        return self._alarm(observed.round, excesses) if statistic >= threshold else None

    def reset(self, *, filled: bool = False) -> None:
        """Forget every stream; unless `filled`, the rounds that follow only gather."""
        self.logs, self.begun, self.eased, self.few = {}, {}, [], Few()
        self.dispersion.pause()
        self.reading = None
        self.filled = self.filling if filled else 0

    def forget(self, clients: Collection[str]) -> None:
        """Forget some clients, served by another model from now on, and the streams that they were part of."""
        self.logs, self.begun, self.eased = {}, {}, []
        self.dispersion.pause()
        self.few.forget(clients)

    def named(self, clients: Collection[str]) -> tuple[str, ...]:
        """Return those of some clients that surely have risen by now, if a few have."""
        return self.few.named(clients)

    @property
    def is_stale(self) -> bool:
        """Tell whether new records are surely easier than those held back.

        These are then of something that has passed, such as the mixture of concepts during a gradual drift; as long
        as they are compared with, no rise is seen.
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

    def rest_is_quiet(self, observed: Observed, groups: Mapping[str, int], named: Collection[str], sd: float) -> bool:
        """Tell whether all others' excess of this round, in all and by label, is below so many deviations."""
        excesses = Excesses.of(Cells.of(observed.clients, groups)).dispersed(self.dispersion.factor)
        return self._rest(excesses, named) < sd

    def _unseen(self, cells: Cells, observed: Observed) -> Alarm | None:
        """Return an alarm for labels that the epoch had not known, once they matter: they have no history."""
        count, known = cells.n.sum(axis=0), set(observed.known_labels)
        share = count / max(1, observed.records)
        unseen = (cells.h.sum(axis=0) < OTHERS) & (share > self.new_label)
        matter = (name for name, is_new in zip(cells.labels, unseen, strict=True) if is_new)
        labels = tuple(name for name in matter if name not in known)
        if not labels or not known:
            return None
        largest = float(max(x for x, name in zip(share, cells.labels, strict=True) if name in labels))
        return Alarm("new-label", largest, self.new_label, since=observed.round, labels=labels)

    def _bet(self, t: int, excesses: Excesses) -> None:
        whole = excesses.whole
        self._bet_on("", t, whole)
        self.eased = _after(self.eased, whole.fall)
        self.few.add(dict(_rises(excesses)))
        for label, sample in excesses.by_label():
            self._bet_on(f"label {label}", t, sample)

    def _bet_on(self, stream: str, t: int, sample: Sample) -> None:
        before = self.logs.get(stream, [-math.inf] * len(RISES))
        began = self.begun.get(stream, [t] * len(RISES))
        # Where M is below 1 all earlier beginnings together are less likely than one now.
        self.begun[stream] = [s if x > 0.0 else t for s, x in zip(began, before, strict=True)]
        self.logs[stream] = _after(before, sample)

    def _since(self, t: int) -> int:
        """Return the round with which the likeliest rise of the likeliest stream began."""
        begun = [pair for name in self.logs for pair in zip(self.logs[name], self.begun[name], strict=True)]
        return max([*begun, (self.few.statistic(), t - self.few.age())])[1]

    def _alarm(self, t: int, excesses: Excesses) -> Alarm:
        cells = excesses.cells
        named = self.named(cells.clients)
        bar = math.log(ODDS * max(1, len(self._labels())))
        labels = tuple(name for name in cells.labels if name and _log_mean(self.logs[f"label {name}"]) >= bar)
        held = sum(excesses.n[i].sum() for i, client in enumerate(cells.clients) if client in named)
        few = bool(named) and bool(held < self.most_local * excesses.n.sum())
        local = few and self._rest(excesses, named) < SURE
        if local:
            labels = tuple(self._risen(excesses, named))
        return Alarm("excess", self.statistic(), math.log(self.run_length), self._since(t), named, labels, local)

    @staticmethod
    def _risen(excesses: Excesses, clients: Collection[str]) -> Iterator[str]:
        """Yield the labels that surely are above their baselines in this round at some clients."""
        rows = np.array([client in clients for client in excesses.cells.clients])
        for label, sample in excesses.by_label(rows):
            if label and sample.count >= FEWEST_OF_STREAM and sample.deviations >= SURE:
                yield label

    @staticmethod
    def _rest(excesses: Excesses, named: Collection[str]) -> float:
        """Return the largest excess, in deviations, of the clients not named: in all, and by label."""
        rest = np.array([client not in named for client in excesses.cells.clients])
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
    """Yield the clients with enough records, and how each lies above its baseline."""
    for i, client in enumerate(excesses.cells.clients):
        row = np.zeros_like(excesses.n, np.bool_)
        row[i] = True
        sample = excesses.pooled(row)
        if sample.count >= FEWEST_OF_STREAM:
            yield client, Rise(sample.rise, sample.variance, sample.baseline)


def _log_mean(logs: Sequence[float]) -> float:
    """Return ln of the mean of exp(logs)."""
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))
