"""The single checks of a client's message that `admission.py` makes.

A message is refused as a whole, with the first thing that is wrong with it. An accepted message cannot produce a
number that is not finite, register a name twice, overflow the exact sum, or move the ledger backwards.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import MOST_POSITIONS, NAMED, Limits, is_name
from streamfl.learning.fixed_point import largest_part
from streamfl.learning.grid import second_steps
from streamfl.learning.model import score_bound
from streamfl.learning.pooling.layout import Layout
from streamfl.learning.pooling.masks import is_key
from streamfl.machines.coordinator.kinds.summed import wrong_sums
from streamfl.machines.coordinator.round.refusals import incarnation_in
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.names import wrong_join_names, wrong_update_names
from streamfl.protocol.decisions import Refused
from streamfl.protocol.messages import (
    FromClient,
    Join,
    LabelSums,
    Leave,
    RoundOpened,
    SampledRound,
    Score,
    Scores,
    Served,
    Slot,
    SlotLosses,
    Update,
    asked_of,
)
from streamfl.protocol.moments import LARGEST, Moments
from streamfl.protocol.records import LARGEST_TARGET
from streamfl.protocol.registry import Registry, TargetUnit

# The years 1 and 9999 in milliseconds since 1970: other times cannot be told as dates.
TIMES = (-62_135_596_800_000, 253_402_300_799_999)

# What bounds allow for rounding: clients send sums as floats of 32 bits.
ROUNDING = 2.0**-23

NO_MEMBER = "not a member"
OTHER_INCARNATION = "another incarnation than the present one"

# The most held-out records of one label of a client.
MOST_HELD = 1000

# More records than any client has: larger whole numbers are not exact in floats.
MOST_RECORDS = 2**53

# The most partitions of one client, if the settings do not say which they are.
MOST_PARTITIONS = 1000

# The largest sum of absolute errors that can still be added up.
LARGEST_ERROR = 1e290

# The scales of targets with which weights can be multiplied and divided.
SCALES = (1e-100, 10.0 * LARGEST_TARGET)


@dataclass(frozen=True, eq=False)
class Claim:
    """An update, and what the coordinator knows when it checks it: what a check sees, and cannot change.

    Parameters
    ----------
    update
        A member's update.
    member
        Its account.
    opened
        The open round.
    already
        The clients with an accepted update for the round.
    registry
        The registry of the round.
    columns
        Columns of a weight matrix for the labels that the client knows.
    members
        The number of clients in the sum.
    limits
        How many names a federation registers.
    layout
        That of the sums of an update, if clients send sums.
    """

    update: Update
    member: Member
    opened: RoundOpened
    already: Collection[str]
    registry: Registry
    columns: int
    members: int
    limits: Limits = NAMED
    layout: Layout | None = None


def _wrong_losses(claim: Claim) -> str | None:
    """Return what is wrong with the losses and steps of the round's models."""
    update, registry = claim.update, claim.registry
    return _wrong_models(
        update,
        claim.opened,
        asked_of(update.client, claim.opened.slots),
        records=update.records,
        trained=update.trained,
        shape=(registry.rows, claim.columns),
        members=claim.members,
        sample=claim.member.sample,
    )


# Returns what is wrong with an update, or None.
Check = Callable[[Claim], str | None]

# The checks of an update, in order.
OF_PLACES: tuple[Check, ...] = (
    lambda it: _wrong_round(it.update, it.opened),
    lambda it: _wrong_positions(it.update, it.member, it.limits),
    lambda it: _wrong_mark(it.update, it.member, it.limits),
)
WITHOUT_RECORDS: tuple[Check, ...] = (*OF_PLACES, lambda it: _wrong_empty(it.update))
OF_RECORDS: tuple[Check, ...] = (
    *OF_PLACES,
    lambda it: wrong_update_names(it.update, it.registry, it.limits),
    lambda it: _wrong_numbers(it.update, it.registry),
    lambda it: _wrong_held(it.update, it.opened, it.member),
    lambda it: _wrong_hoard(it.update, it.member, len(it.registry.labels)),
    lambda it: _wrong_sample(it.update, it.opened, it.member),
)
WITH_SUMS: tuple[Check, ...] = (
    *OF_RECORDS,
    lambda it: tells_of_records(it.update),
    lambda it: None if it.layout is None else wrong_sums(it.update.sums, it.layout),
)
WITH_NUMBERS: tuple[Check, ...] = (
    *OF_RECORDS,
    lambda it: "sums that were not asked for" if it.update.sums else None,
    lambda it: _wrong_label_sums(it.update, it.registry),
    lambda it: _wrong_served(it.update, it.registry),
    lambda it: _wrong_times(it.update),
    lambda it: _wrong_second_moments(it.update, it.opened, it.registry.rows),
    _wrong_losses,
)


def refusal(claim: Claim) -> Refused | None:
    """Return why an update is refused, or None: the first check that it fails.

    A late update is not a fault: honest clients send them.
    """
    update = claim.update
    late = _late(claim)
    if late is not None:
        return Refused(update.client, late)
    with_records = WITH_NUMBERS if claim.layout is None else WITH_SUMS
    checks = with_records if update.records else WITHOUT_RECORDS
    for check in checks:
        wrong = check(claim)
        if wrong is not None:
            return Refused(update.client, wrong, is_fault=True)
    return None


def shows_work(update: Update, member: Member, limits: Limits = NAMED) -> bool:
    """Tell whether an update that came too late was made by a member: it has read records where the ledger stands.

    Examples
    --------
    >>> from streamfl.protocol.records import Span
    >>> spans = (Span("p", 10, 30),)
    >>> round = {"entry": 7, "round": 7, "epoch": 1, "registry": 1, "losses": {}, "differences": {}}
    >>> late = Update(client="c", attempt="2-1", records=20, trained=20, rejected=0, spans=spans, **round)
    >>> [shows_work(late, Member(n, "7f", positions={"p": at})) for n, at in ((2, 10), (1, 10), (2, 5))]
    [True, False, False]
    """
    if member.left or incarnation_in(update.attempt) != member.incarnation:
        return False
    return update.records + update.rejected > 0 and _wrong_positions(update, member, limits) is None


def _late(claim: Claim) -> str | None:
    """Return why an update comes too late, or from a start that is gone."""
    update, member, opened = claim.update, claim.member, claim.opened
    if member.left:
        return NO_MEMBER
    if incarnation_in(update.attempt) != member.incarnation:
        return OTHER_INCARNATION
    if (update.entry, update.epoch) != (opened.entry, opened.epoch):
        return "an older round"
    if update.client in claim.already:
        return "a second update for the round"
    return None if update.registry == opened.registry else "another registry"


def wrong_introduction(join: Join, limits: Limits = NAMED) -> str | None:
    """Return why a Join cannot be used, or None."""
    if not 0 <= join.records < MOST_RECORDS or len(set(join.labels)) != len(join.labels):
        return "an impossible introduction"
    if not 0 <= join.question < MOST_RECORDS:
        return "a question without a number"
    if join.period is not None and not abs(join.period) < MOST_RECORDS:
        return "a period that no time has"
    if join.key and not is_key(join.key):
        return "no key for masks"
    return wrong_join_names(join, limits) or _wrong_moments(join.moments, join.records) or _wrong_unit(join.target)


def wrong_identity(message: FromClient, limits: Limits = NAMED) -> str | None:
    """Return why a message has no valid client and start, or None; names are short, as they are published to all.

    The client's name may be empty: the only client of a process needs none.

    >>> wrong_identity(Leave(client="c0", nonce="7f")), wrong_identity(Leave(client="c0", nonce="7" * 300))
    (None, 'a client without a name, or an unknown start of it')
    """
    if isinstance(message, Join | Leave):
        starts = len(message.nonce) > 0 and is_name(message.nonce) and 0 <= message.after < MOST_RECORDS
    else:
        starts = incarnation_in(message.attempt) is not None
    named = starts and is_name(message.client, limits.name_bytes)
    return None if named else "a client without a name, or an unknown start of it"


def wrong_partitions(update: Update, member: Member, own: Sequence[str], features: Sequence[str] = ()) -> str | None:
    """Return why an update's records are not in the client's own partition, or None.

    Parameters
    ----------
    update
        The client's update.
    member
        Its account: the partition of its first records stays its own.
    own
        Patterns of a client's partition: `*` stands for the client's name, `#` at the end for any number. Without
        patterns every partition is allowed.
    features
        Patterns of the partition of its features, if labels come later.

    Examples
    --------
    >>> is_own("c7", "forest.c7/0", ["forest.*/0"]), is_own("c7", "forest.c8/0", ["forest.*/0"])
    (True, False)
    >>> is_own("c7", "forest/3", ["forest/#"]), is_own("forest/3", "forest/3", ["*"])
    (True, True)
    """
    partitions = {span.partition for span in update.spans}
    if not own:
        return None
    wrong = _wrong_features(update, features)
    if wrong is not None or not partitions:
        return wrong
    if len(partitions | member.positions.keys()) > 1:
        return "records of another partition than before"
    (partition,) = partitions
    return None if is_own(update.client, partition, own) else f"records of {partition}, which is not its partition"


def _wrong_features(update: Update, own: Sequence[str]) -> str | None:
    """Return why a watermark is not in the client's partition of features, whose number is that of labels."""
    watermark = update.watermark
    if watermark is None:
        return "records without a watermark, and labels come later here" if own and update.records else None
    if not own:
        return "a watermark, and labels come with their records here"
    numbers = {span.partition.rpartition("/")[2] for span in update.spans}
    if not is_own(update.client, watermark.partition, own) or not numbers <= {watermark.partition.rpartition("/")[2]}:
        return f"features of {watermark.partition}, which is not its partition"
    return None


def is_own(client: str, partition: str, own: Sequence[str]) -> bool:
    """Tell whether a partition may belong to a client; see `wrong_partitions`."""
    topic, _, number = partition.rpartition("/")
    whole = number.isdecimal() and number.isascii() and (number == "0" or number[0] != "0")
    return any(
        (whole and topic == name.removesuffix("/#"))
        if name.endswith("/#")
        else partition == name.replace("*", client)
        for name in own
    )


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
    sample: Sequence[SampledRound] = (),
) -> str | None:
    """Return why scores of candidates are refused, or None.

    Parameters
    ----------
    scores
        The client's scores.
    update
        Its update for the round: the scores are on the same records.
    asked
        The Score that they answer.
    opened
        The open round.
    rows, columns
        Rows and columns of a weight matrix for the labels that the client knows.
    fitted
        How many labels are fitted to the outputs of a model.
    members
        The number of clients in the sum.
    sample
        Its history sample.
    """
    if not update.records:
        nothing = not (scores.losses or scores.differences or scores.relabelling)
        return None if nothing else "no records, and scores of them"
    slots = asked_of(scores.client, asked.slots)
    relabelled = {slot.name for slot in slots} & set(asked.relabel)
    return _wrong_models(
        scores,
        opened,
        slots,
        records=update.records,
        trained=update.trained,
        shape=(rows, columns),
        members=members,
        sample=sample,
    ) or _wrong_relabelling(scores.relabelling, relabelled, fitted, update.records, score_bound(opened.known_labels))


def _wrong_empty(update: Update) -> str | None:
    """Return what an update without good records wrongly says about records, or None; it may only pass bad ones."""
    per_label = (update.losses, update.differences, update.new, update.old, update.new_labels, update.new_features)
    held = (update.held, update.let_go)
    parts = (update.sample, update.moments, update.second_moments, update.learnt, update.times)
    if any(map(len, (*per_label, *held))) or any(part is not None for part in parts):
        return "no records, and data about them"
    is_empty = _has_no_numbers(update) and not update.sums
    return None if is_empty else "no records, and numbers about them"


def _has_no_numbers(update: Update) -> bool:
    norms = update.squared_norm == update.largest_norm == 0.0
    return norms and update.target == TargetUnit() and update.served == Served()


def tells_of_records(update: Update) -> str | None:
    """Return that an update tells what only sums over all clients are to tell, or None."""
    told = any(map(len, (update.losses, update.differences, update.new, update.old)))
    parts = (update.moments, update.second_moments, update.learnt, update.times)
    only_sums = not told and all(part is None for part in parts) and _has_no_numbers(update)
    return None if only_sums else "numbers about records beside their sums"


def wrong_pooled_scores(scores: Scores, update: Update, layout: Layout) -> str | None:
    """Return why the sums of scores of candidates are refused, or None; there may be none."""
    if scores.losses or scores.differences or scores.relabelling or (scores.sums and not update.records):
        return "numbers about records beside their sums"
    return wrong_sums(scores.sums, layout) if scores.sums else None


def _wrong_models(
    message: Update | Scores,
    opened: RoundOpened,
    slots: Sequence[Slot],
    *,
    records: int,
    trained: int,
    shape: tuple[int, int],
    members: int,
    sample: Sequence[SampledRound],
) -> str | None:
    """Return what is wrong with the losses and differences of the slots that a client was asked about, or None."""
    if set(message.losses) != {slot.name for slot in slots}:
        return "losses of other models than were asked for"
    if not all(_is_loss(message.losses[slot.name], records, _sampled(slot, sample)) for slot in slots):
        return "a loss that no scores in [0, 1] add up to"
    trains = opened.trained_by(message.client, slots)
    if set(message.differences) != (trains if trained else set()):
        return "differences of other models than are trained"
    sums = {slot.name for slot in slots if slot.whitened}
    largest = {name: largest_part(1 if name in sums else trained, members) for name in message.differences}
    wrong = (_wrong_difference(name, x, shape, largest[name]) for name, x in message.differences.items())
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


def _sampled(slot: Slot, sample: Sequence[SampledRound]) -> tuple[float, int]:
    """Return the sum of a client's shares of the old rounds on which a model is scored, and its records of them."""
    if not slot.history:
        return 0.0, 0
    rounds = [kept for kept in sample if kept.round in slot.history]
    return math.fsum(kept.share for kept in rounds), sum(len(kept.ordinals) for kept in rounds)


def _is_loss(loss: SlotLosses, records: int, sampled: tuple[float, int]) -> bool:
    """Tell whether sums can be of scores in [0, 1]; a comparison with NaN is false."""
    most = records * (1.0 + ROUNDING)
    history, share = loss.history_share * (1.0 + ROUNDING), sampled[0] * (1.0 + ROUNDING)
    ours = 0.0 <= loss.loss <= most and 0.0 <= loss.square <= most and 0.0 <= loss.proper <= most
    old = 0.0 <= loss.history <= history and loss.history_share <= share
    return ours and old and 0 <= loss.history_records <= sampled[1]


def _wrong_difference(name: str, x: FloatArray, shape: tuple[int, int], largest: float) -> str | None:
    if x.shape != shape:
        return f"a difference of {name} of shape {x.shape}, not {shape}"
    size = np.abs(x).max(initial=0.0)  # of NaN, too, if there is one
    if not size < np.inf:
        return f"a difference of {name} that is not finite"
    if size >= largest:
        return f"a difference of {name} too large to be added exactly"
    return None


def _wrong_round(update: Update, opened: RoundOpened) -> str | None:
    if update.round != opened.round:
        return "another round than the entry is of"
    if update.period is None or (opened.period is not None and abs(update.period) < MOST_RECORDS):
        return None
    return "a period that was not asked for, or that no time has"


def _wrong_positions(update: Update, member: Member, limits: Limits) -> str | None:
    partitions = {span.partition for span in update.spans}
    if (
        not all(is_name(name, limits.name_bytes) for name in partitions)
        or len(partitions | member.positions.keys()) > MOST_PARTITIONS
    ):
        return "partitions without a name, or far too many"
    for span in update.spans:
        if not 0 <= span.start <= span.end:
            return f"positions of {span.partition} run backwards"
        if member.positions.get(span.partition, span.start) != span.start:
            return f"positions of {span.partition} do not follow the ledger"
        if span.end >= MOST_POSITIONS:
            return f"positions of {span.partition} that no log has"
    if len(partitions) != len(update.spans):
        return "a partition twice"
    if min(update.records, update.trained, update.rejected) < 0 or update.trained > update.records:
        return "impossible counts"
    if update.records + update.rejected > sum(span.end - span.start for span in update.spans):
        return "more records than positions"
    return None if update.records + update.rejected < MOST_RECORDS else "impossible counts"


def _wrong_mark(update: Update, member: Member, limits: Limits) -> str | None:
    """Return why a watermark is impossible: it never moves back, and labels come later always or never."""
    watermark, before = update.watermark, member.watermark
    if watermark is None:
        return None if before is None else "no watermark, though its labels come later"
    if before is None and member.accepted:  # bad labels may have come before the first features
        return "a watermark, though its labels have come with their records"
    if not is_name(watermark.partition, limits.name_bytes) or watermark.partition in {
        span.partition for span in update.spans
    }:
        return "a watermark in a partition without a name, or in that of its labels"
    ends = {**member.positions, **{span.partition: span.end for span in update.spans}}
    first, least = (0, 0) if before is None else (before.features, before.labels)
    if before is not None and before.partition != watermark.partition:
        return "a watermark in another partition than before"
    if not first <= watermark.features < MOST_POSITIONS or not 0 <= watermark.labels <= max(ends.values(), default=0):
        return "a watermark that runs backwards, or beyond the ledger"
    if watermark.labels < least or not 0 <= watermark.expired <= watermark.features:
        return "a watermark that runs backwards, or of more records than positions"
    if min(watermark.released) < 0 or sum(watermark.released) > update.rejected:
        return "a watermark of more labels without a record than were rejected"
    return None


def _wrong_held(update: Update, opened: RoundOpened, member: Member) -> str | None:
    """Return why newly held-out records are impossible: each must be of this round, and there once."""
    if opened.held is None:
        return "records held out that were not asked for" if update.held or update.let_go else None
    if len(update.held) + update.trained > update.records:
        return "records both trained on and held out"
    spans = {span.partition: span for span in update.spans}
    ordinals = range(member.read, member.read + update.records + update.rejected)
    for record in update.held:
        span = spans.get(record.partition)
        if record.round != opened.round or span is None or not span.start <= record.position < span.end:
            return "a record held out that is not of this round"
        if record.ordinal not in ordinals:
            return "a record held out under another's number"
    if not _are_beside([record.beside for record in update.held], update):
        return "a record held out whose features are nowhere"
    in_order = [record.ordinal for record in update.held]
    places = {(record.partition, record.position) for record in update.held}
    if len(places) < len(update.held) or any(a >= b for a, b in pairwise(in_order)):
        return "a record held out twice, or out of order"
    return None


def _wrong_hoard(update: Update, member: Member, known: int) -> str | None:
    """Return why a client holds out too many records: places that it never releases would be kept for ever."""
    if not update.held:
        return None
    most = MOST_HELD * max(1, known + len(update.new_labels))
    if len(member.held) + len(update.held) <= most:
        return None  # whatever it releases
    left = len(member.held) - len({record.ordinal for record in member.held}.intersection(update.let_go))
    return None if left + len(update.held) <= most else "more records held out than were asked for"


def _are_beside(positions: Sequence[int | None], update: Update) -> bool:
    """Tell whether the features of records can be at positions: only if labels come later they are anywhere."""
    known = [position for position in positions if position is not None]
    if update.watermark is None:
        return not known
    return len(known) == len(positions) and not [p for p in known if not 0 <= p < update.watermark.features]


def _wrong_sample(update: Update, opened: RoundOpened, member: Member) -> str | None:
    """Return why a history sample is impossible: its records must be of this round, each once."""
    kept = update.sample
    if kept is None:
        return None
    places = [(partition, position) for partition, positions in kept.positions.items() for position in positions]
    if kept.round != opened.round or len(places) > opened.keep or len(kept.ordinals) != len(places):
        return "a sample that was not asked for"
    spans = {span.partition: range(span.start, span.end) for span in update.spans}
    here = spans.keys() >= kept.positions.keys() and all(position in spans[name] for name, position in places)
    ordinals = range(member.read, member.read + update.records + update.rejected)
    if not here or not all(ordinal in ordinals for ordinal in kept.ordinals):
        return "a sample of records that are not of this round"
    if min(len(set(places)), len(set(kept.ordinals))) < len(places):
        return "a record sampled twice"
    beside = {partition: len(positions) for partition, positions in kept.beside.items()}
    apart = {} if update.watermark is None else {partition: len(ps) for partition, ps in kept.positions.items()}
    if beside != apart or not all(_are_beside(places, update) for places in kept.beside.values()):
        return "a sample of records whose features are nowhere"
    return None


def _wrong_served(update: Update, registry: Registry) -> str | None:
    """Return why the counts of predictions are impossible, or None; a comparison with NaN is false."""
    served, n = update.served, update.served.records
    if served == Served():
        return None
    if not 0 <= served.correct <= n <= update.records or n == 0:
        return "more answers than records"
    if registry.labels or update.new_labels:
        possible = served.absolute_error == 0.0 and 0.0 <= served.no_change <= n
    else:
        possible = served.correct == 0 and all(
            0.0 <= error <= LARGEST_ERROR for error in (served.absolute_error, served.no_change)
        )
    shares = served.shares.values()
    most = n * (1.0 + ROUNDING)
    if not possible or not all(0.0 <= share <= most for share in shares) or not sum(shares) <= most:
        return "answers that so many records cannot have had"
    return None


def _wrong_times(update: Update) -> str | None:
    """Return why the times of the first and the last record are impossible, or None."""
    if update.times is None:
        return None
    first, last = update.times
    return None if TIMES[0] <= first <= last <= TIMES[1] else "times that no records have"


def _wrong_label_sums(update: Update, registry: Registry) -> str | None:
    """Return what is wrong with the scores by label of the serving model, or None."""
    labels = {*registry.labels, *update.new_labels} or {""}
    for sums, most in ((update.new, update.records), (update.old, MOST_HELD)):
        named = {x.label for x in sums}
        if len(named) < len(sums) or not named <= labels:
            return "losses of a label that is not known, or comes twice"
        if [x for x in sums if not (0 <= x.count <= most and _is_sum(x))]:
            return "losses by label that no scores in [0, 1] add up to"
    return None if sum([x.count for x in update.new]) <= update.records else "losses of more records than there are"


def _is_sum(sums: LabelSums) -> bool:
    """Tell whether sums can be of scores in [0, 1]; a comparison with NaN is false."""
    most = sums.count * (1.0 + ROUNDING)
    return 0.0 <= sums.loss <= most and 0.0 <= sums.square <= most


def _wrong_second_moments(update: Update, opened: RoundOpened, rows: int) -> str | None:
    """Return why second moments cannot be of the update's records: their trace is the sum of squared norms."""
    C = update.second_moments
    if (C is not None) != (opened.second_moments and opened.is_measured(update.client)):
        return "second moments that were not asked for, or none"
    if C is None:
        return None
    if C.shape != (rows, rows) or not np.isfinite(C).all():
        return "second moments of another shape, or not finite"
    steps = second_steps(opened.exponents, rows)
    diagonal, slack = np.diag(C), 1e-6 * (1.0 + update.squared_norm) + np.diag(steps)
    if not 0.0 <= diagonal.min() <= diagonal.max() <= update.squared_norm + slack.max():
        return "second moments of other records than the norms"
    if abs(float(diagonal.sum()) - update.squared_norm) > slack.sum():
        return "second moments of other records than the norms"
    sizes = np.sqrt(diagonal + slack)
    if not np.array_equal(C, C.T) or (np.abs(C) > np.outer(sizes, sizes) + steps).any():
        return "impossible second moments"
    return "second moments of no constant" if abs(diagonal[-1] - update.records) > slack[-1] else None


def _wrong_numbers(update: Update, registry: Registry) -> str | None:
    farthest = max(registry.farthest, 1.0) ** 2 * registry.rows  # the constant 1 has a row, too
    longest = math.sqrt(farthest) * (1.0 + ROUNDING)
    if not (
        0.0 <= update.squared_norm <= update.records * farthest * (1.0 + ROUNDING)
        and 0.0 <= update.largest_norm <= longest
    ):
        return "an impossible norm"
    return (_wrong_moments(update.moments, update.records) if update.moments else None) or _wrong_unit(update.target)


def _wrong_moments(moments: Moments, records: int) -> str | None:
    """Return why moments are impossible for a number of records with bounded values, or None."""
    parts = (moments.count, moments.mean, moments.m2)
    if len(set(moments.features)) != len(moments.features):
        return "moments of a feature twice"
    if any(part.shape != (len(moments.features),) for part in parts):
        return "moments of another shape"
    largest = LARGEST * (1.0 + ROUNDING)
    possible = (
        ((moments.count >= 0.0) & (moments.count <= records)).all()  # false also of NaN
        and (np.abs(moments.mean) <= largest).all()
        and ((moments.m2 >= 0.0) & (moments.m2 <= 4.0 * records * largest**2)).all()
    )
    return None if possible else "impossible moments"


def _wrong_unit(unit: TargetUnit) -> str | None:
    possible = abs(unit.centre) <= LARGEST_TARGET and SCALES[0] <= unit.scale <= SCALES[1]  # false also of NaN
    return None if possible else "an impossible unit of targets"
