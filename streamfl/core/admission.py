"""Whether an update counts: every check that stands between a client's message and the model."""

from collections.abc import Mapping, Sequence

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.fixed_point import largest_part
from streamfl.core.ledger import Member
from streamfl.core.messages import RoundOpened, Slot, SlotLosses, Update


def refusal(
    update: Update,
    *,
    member: Member | None,
    opened: RoundOpened,
    already: Sequence[Update],
    shape: tuple[int, int],
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
    shape
        Rows of a weight matrix, and its columns for the labels that the client knows.
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
    return _wrong_spans(update, member) or _wrong_content(update, opened, shape, members)


def _wrong_spans(update: Update, member: Member) -> str | None:
    for span in update.spans:
        if span.end < span.start:
            return f"positions of {span.partition} run backwards"
        if member.positions.get(span.partition, span.start) != span.start:
            return f"positions of {span.partition} do not follow the ledger"
    return None


def _wrong_content(update: Update, opened: RoundOpened, shape: tuple[int, int], members: int) -> str | None:
    if min(update.records, update.trained, update.rejected) < 0 or update.trained > update.records:
        return "impossible counts"
    mine = tuple(slot for slot in opened.slots if slot.is_for(update.client))
    largest = largest_part(update.trained, members)
    return wrong_measurements(mine, update.losses, update.differences, shape, largest)


def wrong_measurements(
    slots: Sequence[Slot],
    losses: Mapping[str, SlotLosses],
    differences: Mapping[str, FloatArray],
    shape: tuple[int, int],
    largest: float,
) -> str | None:
    """Return what is wrong with the losses and differences of some slots, or None.

    No number of a difference may exceed `largest`, so that the exact sum over all clients cannot overflow.
    """
    if set(losses) != {slot.name for slot in slots}:
        return "losses of other models than were asked for"
    if not set(differences) <= {slot.name for slot in slots if slot.trained}:
        return "differences of models that are not trained"
    numbers = [x for loss in losses.values() for x in (loss.loss, loss.square, loss.history, loss.history_share)]
    if not np.isfinite(numbers).all():
        return "a loss that is not a number"
    for name, difference in differences.items():
        if difference.shape != shape:
            return f"a difference of {name} of shape {difference.shape}, not {shape}"
        if not np.isfinite(difference).all():
            return f"a difference of {name} that is not finite"
        if np.abs(difference).max(initial=0.0) >= largest:
            return f"a difference of {name} too large to be added exactly"
    return None
