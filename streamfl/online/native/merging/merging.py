"""Merges what clients' native models learnt in a round: weighted means, for ferns cell by cell."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.errors import PeerError
from streamfl.learning.fixed_point import LIMIT, SCALE, largest_part, weighted_mean
from streamfl.online.native.merging import agreed_pairs, influence
from streamfl.online.native.merging.agreed_moments import Seen, after_round
from streamfl.online.native.merging.grids import finer, median_steps, next_steps, step_of_cells, step_of_weights
from streamfl.online.native.merging.rounding import ROOM, told
from streamfl.protocol.moments import Moments
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.kept_back import KeptBack
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.mixed import AgreedMixture
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import STACKING, WINDOW, NativeSettings
from streamfl.protocol.native.sleeping import rested
from streamfl.protocol.native.steps import Steps


def after(
    agreed: NativeState,
    parts: Sequence[NativeLearnt],
    labels: tuple[str, ...],
    apart: Sequence[NativeLearnt] = (),
    *,
    settings: NativeSettings | None = None,
) -> tuple[NativeState, NativeChange]:
    """Return the agreed state after a round, and its change.

    Linear weights move by the mean of the clients' differences, weighted by records; a cell of a fern moves by the
    mean over the clients that visited it, weighted by visits. Differences are not added up: clients that learnt the
    same would then move several times as far. Experts that no client uses fall asleep in time.

    Parameters
    ----------
    agreed
        The agreed state from which the clients began. Its table, and what is kept back of it, are changed in place:
        they are too large to be copied in every round.
    parts
        What each client learnt, in the order of the clients' names.
    labels
        All labels by now, those of `agreed` first.
    apart
        What clients learnt that add nothing; the experts that they use stay awake.
    settings
        How the models learn; required in regression.

    Raises
    ------
    PeerError
        A difference is too large to be summed.

    Examples
    --------
    >>> from streamfl.online.native.learner import NativeLearner
    >>> from streamfl.protocol.native.settings import NativeSettings
    >>> settings = NativeSettings("linear", neighbours=False)
    >>> def client(x, labels):
    ...     learner = NativeLearner(settings)
    ...     _ = learner.learn(("x",), np.array([[x], [-x]]), np.array([0, 1]), labels)
    ...     return learner.learnt()
    >>> models, _ = after(NativeState.none(settings), [client(1.0, ("a", "b")), client(3.0, ("b", "a"))], ("a", "b"))
    >>> models.features, models.seen, models.moments.count, models.moments.variance
    (('x',), 4, array([4.]), array([5.]))
    """
    parts = [part for part in parts if part.records]
    features = tuple(sorted({name for part in parts for name in part.features} - set(agreed.features)))
    grown = agreed.grown(features, labels[len(agreed.labels) :])
    if not parts:
        return grown, _nothing_learnt(agreed, grown)
    scales = after_round(Seen(agreed.moments, agreed.early, agreed.far), influence.tempered_parts(parts, agreed))
    change, kept_back = _change(agreed, grown, parts, apart, scales.moments, settings)
    cells = change.cells.astype(np.int64)
    grown.table[cells] = change.rows(grown.table.take(cells, axis=0))
    state = replace(change.after(agreed), table=grown.table, kept_back=kept_back)
    return replace(state, early=scales.early, far=scales.far), change


def _nothing_learnt(agreed: NativeState, grown: NativeState) -> NativeChange:
    """Return the change of a round in which no records were learnt: new names at most."""
    return NativeChange(
        features=grown.features[len(agreed.features) :],
        labels=grown.labels[len(agreed.labels) :],
        second=np.zeros(grown.second.shape),
        weights=np.zeros(grown.weights.shape),
        cells=np.zeros(0),
        table=np.zeros((0, *grown.table.shape[1:])),
        seen=agreed.seen,
        moments=agreed.moments,
        norms=agreed.norms,
        chain=agreed.chain,
        rests=agreed.rests,
        centre=agreed.centre,
        mixture=agreed.mixture,
        steps=agreed.steps,
        pairs=agreed.pairs,
    )


def _change(
    agreed: NativeState,
    grown: NativeState,
    parts: Sequence[NativeLearnt],
    apart: Sequence[NativeLearnt],
    moments: Moments,
    settings: NativeSettings | None,
) -> tuple[NativeChange, KeptBack]:
    """Return the change of the agreed state on the grids of what is published, and what these keep back.

    `grown` has the new names.
    """
    total = sum(part.records for part in parts)
    longest = influence.LONGEST * np.sort([part.norms for part in parts], axis=0)[(len(parts) - 1) // 2]
    norms = sum((part.records * np.minimum(part.norms, longest) for part in parts), np.zeros(2)) / total
    common = agreed.steps if agreed.steps.are_known else median_steps(parts)
    steps, kept_back = finer(common), agreed.kept_back.over(grown.weights, grown.table)
    weights, left = told(_mean_weights(parts, grown, common), kept_back.weights, step_of_weights(steps))
    cells, table = _by_visits(parts, grown, common)
    table, kept_back.table[cells] = told(table, kept_back.table[cells], step_of_cells(steps, cells))
    moved = table.any(axis=(1, 2))
    second, each = _second(grown, parts)
    mixture = _mixed(agreed.mixture, parts)
    change = NativeChange(
        features=grown.features[len(agreed.features) :],
        labels=grown.labels[len(agreed.labels) :],
        second=second,
        each=each,
        weights=weights,
        cells=cells[moved].astype(np.float64),
        table=table[moved],
        seen=agreed.seen + total,
        moments=moments.aligned(grown.features),
        norms=agreed.norms + min(1.0, total / min(agreed.seen + total, WINDOW)) * (norms - agreed.norms),
        rests=rested(agreed.rests, _unused_by_all([*parts, *apart])),
        mixture=mixture,
        steps=next_steps(parts),
        pairs=agreed_pairs.after_round(agreed.pairs, parts, grown.labels),
    )
    if settings is not None and settings.targets:
        change = _centred(change, agreed, parts, settings)
    centre = [np.array([change.centre])] if change.centre else []
    mixed = (mixture.best, mixture.stacked, mixture.outer, *([change.pairs] if len(change.pairs) else []))
    chain = _chained(agreed.chain, change.weights, change.cells, change.table, *centre, *mixed)
    return replace(change, chain=chain), replace(kept_back, weights=left)


def _mixed(agreed: AgreedMixture, parts: Sequence[NativeLearnt]) -> AgreedMixture:
    """Return the mean of the clients' weights, by records; the medians of what no client may move alone.

    >>> one, other = (AgreedMixture(np.array([p, 1.0 - p]), np.full((2, 2), p), np.ones(3) / 3.0) for p in (0.5, 1.0))
    >>> from streamfl.online.native.learner import NativeLearner
    >>> from streamfl.protocol.native.settings import NativeSettings
    >>> none = NativeLearner(NativeSettings("linear")).learnt()
    >>> parts = [replace(none, records=1, mixture=one), replace(none, records=3, mixture=other)]
    >>> _mixed(AgreedMixture(), parts).best, _mixed(AgreedMixture(), parts).stacked[0]
    (array([0.875, 0.125]), array([0.875, 0.875]))
    """
    sent = [(part.records, part.mixture) for part in parts if part.mixture.is_known]
    if not sent:
        return agreed
    best, *stacked, outer = np.split(
        weighted_mean((n, np.concatenate([each.best, *each.stacked, each.outer])) for n, each in sent),
        np.cumsum([len(sent[0][1].best)] * (1 + len(STACKING))),
    )
    return AgreedMixture(
        best / best.sum(),
        np.array(stacked),
        outer / outer.sum(),
        float(np.median([each.norm for _, each in sent])),
        float(np.median([each.variance for _, each in sent])),
        int(np.median([each.records for _, each in sent])),
    )


def _centred(
    change: NativeChange, agreed: NativeState, parts: Sequence[NativeLearnt], settings: NativeSettings
) -> NativeChange:
    """Return the change with targets measured from the median of the clients' centres, with unchanged predictions.

    Each client measured from the agreed centre, or from its own before there was one. The distance from there to the
    median, which no client can move alone, goes into the intercepts.
    """
    centres, records = np.array([part.centre for part in parts]), np.array([part.records for part in parts])
    centre = float(np.median(centres))
    distance = agreed.centre - centre if agreed.seen else float(records @ (centres - centre)) / int(records.sum())
    weights = change.weights.copy()
    weights[0, :, 0] += distance / settings.sees
    return replace(change, weights=weights, centre=centre)


def _mean_weights(parts: Sequence[NativeLearnt], grown: NativeState, common: Steps) -> FloatArray:
    """Return the mean of the clients' differences of linear weights, by records, added up in common steps."""
    unit = step_of_weights(common)
    sent = []
    for part in parts:
        ratio = step_of_weights(part.steps_of(grown.steps)) / unit
        sent.append((part.records, _in_common(_weights(part, grown), ratio, part, parts) / ROOM))
    return unit * ROOM * weighted_mean(sent)


def _in_common(x: FloatArray, ratio: FloatArray, part: NativeLearnt, parts: Sequence[NativeLearnt]) -> FloatArray:
    """Return a client's numbers in the common steps: so many times those in its own.

    Its own may be of any size, so what cannot be added up is cut off: else others would be blamed for it.
    """
    if (ratio == 1.0).all():
        return x
    most = ROOM * largest_part(part.records, len(parts))
    return np.clip(ratio * x, -most, most)


def _by_visits(parts: Sequence[NativeLearnt], grown: NativeState, common: Steps) -> tuple[IntArray, FloatArray]:
    """Return the cells that any client visited, and the change of each: exact for any order of the clients."""
    named = [part.cells.astype(np.int64) for part in parts]
    cells = _distinct(np.concatenate(named), len(grown.table))
    unit = step_of_cells(common, cells)
    sums, weights = np.zeros((len(cells), *grown.table.shape[1:]), np.int64), np.zeros(len(cells))
    largest = np.zeros(len(cells))
    for part, own in zip(parts, named, strict=True):
        at, visits = np.searchsorted(cells, own), np.ldexp(1.0, part.visits.astype(np.int64))
        ratio = step_of_cells(part.steps_of(grown.steps), own) / unit[at]
        numbers = _in_common(_placed(part.table, part, grown), ratio, part, parts)
        with np.errstate(over="ignore"):  # an overflow is refused below
            scaled = np.rint(numbers * (visits * (SCALE / ROOM))[:, None, None])
        largest[at] += np.abs(scaled).max(axis=(1, 2), initial=0.0)
        if not largest.max(initial=0.0) < LIMIT:
            raise PeerError("an aggregate overflows the fixed-point range: a client's difference is far too large")
        sums[at] += scaled.astype(np.int64)
        weights[at] += visits
    return cells, unit * (sums / (SCALE / ROOM * weights)[:, None, None])


def _unused_by_all(parts: Sequence[NativeLearnt]) -> list[str]:
    return sorted(set.intersection(*(set(part.unused) for part in parts if part.records)))


def _distinct(cells: IntArray, rows: int) -> IntArray:
    """Return the distinct cells in order.

    >>> _distinct(np.array([7, 2, 7]), 9)
    array([2, 7])
    """
    named = np.zeros(rows, np.bool_)
    named[cells] = True
    return np.flatnonzero(named)


def _placed(array: FloatArray, part: NativeLearnt, grown: NativeState) -> FloatArray:
    """Return a client's array with its columns at the federation's places."""
    if not grown.labels or part.labels == grown.labels:
        return array
    placed = np.zeros((*array.shape[:-1], len(grown.labels)))
    placed[..., [grown.labels.index(label) for label in part.labels]] = array
    return placed


def _rows(part: NativeLearnt, grown: NativeState) -> list[int]:
    return [0, *(1 + grown.features.index(name) for name in part.features)]


def _weights(part: NativeLearnt, grown: NativeState) -> FloatArray:
    placed = np.zeros(grown.weights.shape)
    placed[_rows(part, grown)] = _placed(part.weights, part, grown)
    return placed


def _second(grown: NativeState, parts: Sequence[NativeLearnt]) -> tuple[FloatArray, float]:
    """Return the sum of z z^T over the records that were measured, and how many each stands for: 0 of none."""
    sums, measured = np.zeros(grown.second.shape), [part for part in parts if part.second.size]
    for part in measured:
        rows = _rows(part, grown)
        sums[np.ix_(rows, rows)] += part.second
    of = sum(part.records for part in measured)
    return sums, sum(part.records for part in parts) / of if of else 0.0


def _chained(before: str, *changes: FloatArray | IntArray) -> str:
    """Return a digest of all changes so far: a digest of the whole table would cost more than the round."""
    digest = hashlib.sha256(before.encode())
    for array in changes:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
