"""Merges what clients' native models learnt in a round: weighted means, for ferns cell by cell."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamfl.arrays import put_rows
from streamfl.learning.fixed_point import weighted_mean
from streamfl.learning.grid import SHARE, on_grid, shares_on_grid
from streamfl.online.native.merging import agreed_pairs, influence, seldom
from streamfl.online.native.merging.agreed_moments import Seen, after_round
from streamfl.online.native.merging.in_order import change_as_sent
from streamfl.online.native.merging.on_grids import ON_GRIDS
from streamfl.online.native.merging.way import Way
from streamfl.protocol.moments import NOTHING
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.extremes import Extremes, of_all
from streamfl.protocol.native.kept_back import KeptBack
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.mixed import AgreedMixture
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import STACKING, WINDOW, NativeSettings
from streamfl.protocol.native.sleeping import rested


def after(
    agreed: NativeState,
    parts: Sequence[NativeLearnt],
    labels: tuple[str, ...],
    apart: Sequence[NativeLearnt] = (),
    *,
    settings: NativeSettings | None = None,
    way: Way = ON_GRIDS,
) -> tuple[NativeState, NativeChange]:
    """Return the agreed state after a round, and its change as it is published.

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
        What clients learnt that add nothing but their extremes; the experts that they use stay awake.
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
        change = _nothing_learnt(agreed, grown, _extremes(agreed, apart))
        return replace(grown, extremes=change.extremes), change
    order = agreed.order if agreed.steps.are_known else None
    known = Seen(seldom.known_moments(agreed), agreed.early, agreed.far)
    scales = after_round(known, influence.tempered_parts(parts, known.moments))
    moments, unpublished = seldom.publish(agreed, grown, parts, scales.moments, way.every)
    change, kept_back = _change(agreed, grown, parts, apart, moments, settings, way)
    cells = change.cells.astype(np.int64)
    put_rows(grown.table, cells, change.rows(grown.table.take(cells, axis=0)))
    state = replace(change.after(agreed), table=grown.table, kept_back=kept_back)
    told = change if order is None else change_as_sent(change, order, agreed.steps)
    return replace(state, early=scales.early, far=scales.far, unpublished=unpublished), told


def _extremes(agreed: NativeState, parts: Sequence[NativeLearnt]) -> Extremes:
    """Return the extremes of all targets so far; (), for good, if those of some are unknown, as from older versions.

    The models have learnt these as well: within the extremes of the others their predictions would be wrong.
    """
    known = [*([agreed.extremes] if agreed.seen else []), *(part.extremes for part in parts if part.records)]
    return of_all(known) if all(known) else ()


def _nothing_learnt(agreed: NativeState, grown: NativeState, extremes: Extremes) -> NativeChange:
    """Return the change of a round in which no records were learnt: new names and extremes at most."""
    return NativeChange(
        features=grown.features[len(agreed.features) :],
        labels=grown.labels[len(agreed.labels) :],
        second=np.zeros(grown.second.shape),
        weights=np.zeros(grown.weights.shape),
        cells=np.zeros(0),
        table=np.zeros((0, *grown.table.shape[1:])),
        seen=agreed.seen,
        moments=NOTHING,
        norms=agreed.norms,
        each=0.0,
        chain=agreed.chain,
        rests=agreed.rests,
        centre=agreed.centre,
        mixture=agreed.mixture,
        steps=agreed.steps,
        pairs=agreed.pairs,
        extremes=extremes,
    )


def _change(
    agreed: NativeState,
    grown: NativeState,
    parts: Sequence[NativeLearnt],
    apart: Sequence[NativeLearnt],
    moments: seldom.MomentsChange,
    settings: NativeSettings | None,
    way: Way,
) -> tuple[NativeChange, KeptBack]:
    """Return the change of the agreed state, as it is published, and what is kept back.

    `grown` has the new names.
    """
    total = sum(part.records for part in parts)
    longest = influence.LONGEST * np.sort([part.norms for part in parts], axis=0)[(len(parts) - 1) // 2]
    norms = sum((part.records * np.minimum(part.norms, longest) for part in parts), np.zeros(2)) / total
    merged = way.merged(parts, agreed, grown)
    mixture = mixed(agreed.mixture, parts)
    change = NativeChange(
        features=grown.features[len(agreed.features) :],
        labels=grown.labels[len(agreed.labels) :],
        second=moments.second,
        each=moments.each,
        since=moments.since,
        weights=merged.weights,
        cells=merged.cells.astype(np.float64),
        table=merged.table,
        seen=agreed.seen + total,
        moments=moments.moments,
        norms=agreed.norms + min(1.0, total / min(agreed.seen + total, WINDOW)) * (norms - agreed.norms),
        rests=rested(agreed.rests, _unused_by_all([*parts, *apart])),
        mixture=mixture,
        steps=merged.steps,
        pairs=agreed_pairs.after_round(agreed.pairs, parts, grown.labels),
        extremes=_extremes(agreed, [*parts, *apart]),
    )
    if settings is not None and settings.targets:
        change = _centred(change, agreed, parts, settings)
    return replace(change, chain=way.chain_after(change, agreed)), merged.kept_back


def mixed(agreed: AgreedMixture, parts: Sequence[NativeLearnt]) -> AgreedMixture:
    """Return the mean of the clients' weights, by records; the medians of what no client may move alone.

    >>> one, other = (AgreedMixture(np.array([p, 1.0 - p]), np.full((2, 2), p), np.ones(3) / 3.0) for p in (0.5, 1.0))
    >>> from streamfl.online.native.learner import NativeLearner
    >>> from streamfl.protocol.native.settings import NativeSettings
    >>> none = NativeLearner(NativeSettings("linear")).learnt()
    >>> parts = [replace(none, records=1, mixture=one), replace(none, records=3, mixture=other)]
    >>> mixed(AgreedMixture(), parts).best, mixed(AgreedMixture(), parts).stacked[0]
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
        shares_on_grid(best),
        on_grid(np.array(stacked), np.full((len(stacked), len(best)), 2.0**SHARE)),
        shares_on_grid(outer),
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


def _unused_by_all(parts: Sequence[NativeLearnt]) -> list[str]:
    return sorted(set.intersection(*(set(part.unused) for part in parts if part.records)))
