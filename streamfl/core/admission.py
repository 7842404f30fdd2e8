"""Whether a client's message counts: every check that stands between it and the model.

A message is refused whole, with the first thing that is wrong with it. What passes cannot make a number that is not
finite, register a name twice, overflow the exact sum, or move the ledger elsewhere than on.
"""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.fixed_point import largest_part
from streamfl.core.ledger import Member
from streamfl.core.messages import (
    Join,
    LabelSums,
    RoundOpened,
    Score,
    Scores,
    Slot,
    SlotLosses,
    Update,
    asked_of,
)
from streamfl.core.model import score_bound
from streamfl.core.moments import Moments
from streamfl.core.registry import Registry, TargetUnit

# Sums of scores in [0, 1] may exceed their number by rounding.
ROUNDING = 1e-9

# No client holds back more records of a label.
MOST_HELD = 1000


def refusal(
    update: Update,
    *,
    member: Member | None,
    opened: RoundOpened,
    already: Sequence[Update],
    registry: Registry,
    columns: int,
    members: int,
) -> str | None:
    """Return why an update does not count, or None if it does.

    Parameters
    ----------
    update
        What a client sent.
    member
        Its account; None if it never joined.
    opened
        The open round.
    already
        The updates accepted for it so far.
    registry
        In force for the round.
    columns
        Columns of a weight matrix for the labels that the client knows.
    members
        How many clients may be added up.
    """
    if member is None or member.left:
        return "not a member"
    if (update.entry, update.epoch) != (opened.entry, opened.epoch):
        return "an older round"
    if any(update.client == other.client for other in already):
        return "a second update for the round"
    if update.registry != opened.registry:
        return "another registry"
    return (
        _wrong_positions(update, member)
        or _wrong_names(update, registry)
        or _wrong_numbers(update, registry)
        or _wrong_held(update, opened, member)
        or _wrong_label_sums(update, registry)
        or _wrong_second_moments(update, opened, registry.rows)
        or _wrong_models(
            update,
            opened,
            asked_of(update.client, opened.slots),
            records=update.records,
            trained=update.trained,
            shape=(registry.rows, columns),
            members=members,
        )
    )


def wrong_introduction(join: Join) -> str | None:
    """Return why a Join cannot be used, or None."""
    if join.records < 0 or len(set(join.labels)) != len(join.labels):
        return "an impossible introduction"
    return _wrong_moments(join.moments) or _wrong_unit(join.target)


def wrong_scores(
    scores: Scores,
    update: Update,
    *,
    asked: Score,
    opened: RoundOpened,
    rows: int,
    columns: int,
    fitted: int,
    members: int,
) -> str | None:
    """Return why scores of candidates do not count, or None if they do.

    Parameters
    ----------
    scores
        What a client sent.
    update
        Its update for the round, of whose records they are.
    asked
        What it was asked.
    opened
        The open round.
    rows, columns
        Of a weight matrix, for the labels that the client knows.
    fitted
        How many labels are fitted to the outputs of a model.
    members
        How many clients may be added up.
    """
    mine = asked_of(scores.client, asked.slots)
    relabelled = {slot.name for slot in mine} & set(asked.relabel)
    return _wrong_models(
        scores, opened, mine, records=update.records, trained=update.trained, shape=(rows, columns), members=members
    ) or _wrong_relabelling(scores.relabelling, relabelled, fitted, update.records, score_bound(opened.known_labels))


def _wrong_models(
    said: Update | Scores,
    opened: RoundOpened,
    slots: Sequence[Slot],
    *,
    records: int,
    trained: int,
    shape: tuple[int, int],
    members: int,
) -> str | None:
    """Return what is wrong with the losses and differences of the slots that a client was asked about, or None."""
    if set(said.losses) != {slot.name for slot in slots}:
        return "losses of other models than were asked for"
    if not all(_is_loss(loss, records) for loss in said.losses.values()):
        return "a loss that no scores in [0, 1] add up to"
    trains = {slot.name for slot in slots if opened.trains(slot, said.client)}
    if set(said.differences) != (trains if trained else set()):
        return "differences of other models than are trained"
    largest = largest_part(trained, members)
    wrong = (_wrong_difference(name, x, shape, largest) for name, x in said.differences.items())
    return next((reason for reason in wrong if reason), None)


def _wrong_relabelling(
    relabelling: Mapping[str, FloatArray], asked: Collection[str], labels: int, records: int, bound: float
) -> str | None:
    """Return what is wrong with the sums of log-likelihoods by label, each at least `-bound`, or None."""
    if set(relabelling) != set(asked):
        return "labels fitted to other models than were asked for"
    for S in relabelling.values():
        if S.shape != (labels, labels):
            return "labels fitted in another shape"
        if not ((S <= ROUNDING).all() and (records * bound * (1.0 + ROUNDING) >= -S).all()):  # false also of NaN
            return "impossible log-likelihoods"
    return None


def _is_loss(loss: SlotLosses, records: int) -> bool:
    """Tell whether sums can be of scores in [0, 1]; a comparison with NaN is false."""
    most = records * (1.0 + ROUNDING)
    history = loss.history_share * (1.0 + ROUNDING)
    ours = 0.0 <= loss.loss <= most and 0.0 <= loss.square <= most and 0.0 <= loss.proper <= most
    return ours and 0.0 <= loss.history <= history < math.inf and loss.history_records >= 0


def _wrong_difference(name: str, x: FloatArray, shape: tuple[int, int], largest: float) -> str | None:
    if x.shape != shape:
        return f"a difference of {name} of shape {x.shape}, not {shape}"
    size = np.abs(x).max(initial=0.0)  # of NaN, too, if there is one
    if not size < np.inf:
        return f"a difference of {name} that is not finite"
    if size >= largest:
        return f"a difference of {name} too large to be added exactly"
    return None


def _wrong_positions(update: Update, member: Member) -> str | None:
    for span in update.spans:
        if span.end < span.start:
            return f"positions of {span.partition} run backwards"
        if member.positions.get(span.partition, span.start) != span.start:
            return f"positions of {span.partition} do not follow the ledger"
    if len({span.partition for span in update.spans}) != len(update.spans):
        return "a partition twice"
    if min(update.records, update.trained, update.rejected) < 0 or update.trained > update.records:
        return "impossible counts"
    if update.records + update.rejected > sum(span.end - span.start for span in update.spans):
        return "more records than positions"
    return None


def _wrong_held(update: Update, opened: RoundOpened, member: Member) -> str | None:
    """Return why what a client holds back cannot be so: it must be of this round's records, each once."""
    if opened.held is None:
        return "records held back that nobody asked for" if update.held or update.let_go else None
    if len(update.held) + update.trained > update.records:
        return "records both trained on and held back"
    spans = {span.partition: span for span in update.spans}
    ordinals = range(member.read, member.read + update.records + update.rejected)
    for record in update.held:
        span = spans.get(record.partition)
        if record.round != opened.round or span is None or not span.start <= record.position < span.end:
            return "a record held back that is not of this round"
        if record.ordinal not in ordinals:
            return "a record held back under another's number"
    places = {(record.partition, record.position) for record in update.held}
    if min(len(places), len({record.ordinal for record in update.held})) < len(update.held):
        return "a record held back twice"
    return None


def _wrong_label_sums(update: Update, registry: Registry) -> str | None:
    """Return what is wrong with the scores by label of the serving model, or None."""
    labels = {*registry.labels, *update.new_labels} or {""}
    for sums, most in ((update.new, update.records), (update.old, MOST_HELD)):
        if len({x.label for x in sums}) < len(sums) or not {x.label for x in sums} <= labels:
            return "losses of a label that is not known, or comes twice"
        if not all(0 <= x.count <= most and _is_sum(x) for x in sums):
            return "losses by label that no scores in [0, 1] add up to"
    return None


def _is_sum(sums: LabelSums) -> bool:
    """Tell whether sums can be of scores in [0, 1]; a comparison with NaN is false."""
    most = sums.count * (1.0 + ROUNDING)
    return 0.0 <= sums.loss <= most and 0.0 <= sums.square <= most


def _wrong_second_moments(update: Update, opened: RoundOpened, rows: int) -> str | None:
    """Return why second moments cannot be of the update's records: their trace is the squared norms' sum."""
    C = update.second_moments
    if (C is not None) != opened.second_moments:
        return "second moments that nobody asked for, or none"
    if C is None:
        return None
    if C.shape != (rows, rows) or not np.isfinite(C).all():
        return "second moments of another shape, or not finite"
    diagonal, slack = np.diag(C), 1e-6 * (1.0 + update.squared_norm)
    if not 0.0 <= diagonal.min() <= diagonal.max() <= update.squared_norm + slack:
        return "second moments of other records than were told"
    if abs(float(diagonal.sum()) - update.squared_norm) > slack:
        return "second moments of other records than were told"
    sizes = np.sqrt(diagonal)
    if not (np.array_equal(C, C.T) or np.allclose(C, C.T)) or (np.abs(C) > np.outer(sizes, sizes) + slack).any():
        return "impossible second moments"
    return "second moments of no constant" if abs(diagonal[-1] - update.records) > slack else None


def _wrong_names(update: Update, registry: Registry) -> str | None:
    for new, known in ((update.new_labels, registry.labels), (update.new_features, registry.features)):
        if len(set(new) - set(known)) != len(new):
            return "a new name that is known, or comes twice"
    return None


def _wrong_numbers(update: Update, registry: Registry) -> str | None:
    farthest = max(registry.farthest, 1.0) ** 2 * registry.rows  # the constant 1 has a row, too
    if not (0.0 <= update.squared_norm <= update.records * farthest and 0.0 <= update.largest_norm**2 <= farthest):
        return "an impossible norm"
    return (_wrong_moments(update.moments) if update.moments else None) or _wrong_unit(update.target)


def _wrong_moments(moments: Moments) -> str | None:
    parts = (moments.count, moments.mean, moments.m2)
    if len(set(moments.features)) != len(moments.features):
        return "moments of a feature twice"
    if any(part.shape != (len(moments.features),) for part in parts):
        return "moments of another shape"
    if (
        not all(np.isfinite(part).all() for part in parts)
        or min(moments.count.min(initial=0), moments.m2.min(initial=0)) < 0
    ):
        return "impossible moments"
    return None


def _wrong_unit(unit: TargetUnit) -> str | None:
    return None if np.isfinite(unit.centre) and 0.0 < unit.scale < np.inf else "an impossible unit of targets"
