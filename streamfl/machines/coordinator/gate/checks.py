"""The single checks of a client's message that `admission.py` makes, by what the message alone and the ledger say.

A message is refused as a whole, with the first thing that is wrong with it. An accepted message cannot produce a
number that is not finite, register a name twice, overflow the exact sum, or move the ledger backwards.
"""

import math
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import MOST_POSITIONS, NAME_BYTES, NAMED, Limits, is_name
from streamfl.learning.fixed_point import largest_part
from streamfl.learning.grid import second_steps
from streamfl.learning.model import score_bound
from streamfl.learning.objectives import POWERS
from streamfl.learning.pooling.layout import Layout
from streamfl.learning.pooling.masks import is_key
from streamfl.learning.pooling.sums import of_text
from streamfl.machines.coordinator.gate.senders import incarnation_in
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.protocol.decisions import Refused
from streamfl.protocol.delayed import MOST_ARRIVED
from streamfl.protocol.digits import BITS
from streamfl.protocol.messages import (
    Join,
    LabelSums,
    Numbers,
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
from streamfl.protocol.native.learnt import MOST_LOST
from streamfl.protocol.records import LARGEST_TARGET
from streamfl.protocol.registry import Registry, TargetUnit

# The years 1 and 9999 in milliseconds since 1970: other times cannot be told as dates.
TIMES = (-62_135_596_800_000, 253_402_300_799_999)

# What bounds allow for rounding: clients send sums in 8 significant bits, and a client that is alone in 32.
ROUNDING = 2.0**-23

_NOTHING_SERVED = Served()

NO_MEMBER = "it is not a member"
OTHER_INCARNATION = "another start of the client has taken its place"

# The most held-out records of one label of a client.
MOST_HELD = 1000

# More records than any client has: larger whole numbers are not exact in floats.
MOST_RECORDS = 2**53

# The most partitions of one client, if the settings do not say which they are.
MOST_PARTITIONS = 1000

# The largest sum of absolute errors that can still be added up.
LARGEST_ERROR = 1e290

# A sum of shares, and records: those of a client of which no old record is scored.
NO_SAMPLE = (0.0, 0)

# The scales of targets with which weights can be multiplied and divided.
SCALES = (1e-100, 10.0 * LARGEST_TARGET)


@dataclass(frozen=True, eq=False, slots=True)
class Claim:
    """An update, and what the coordinator knows about its sender: a check reads this and cannot change it."""

    update: Update  # a member's update
    member: Member  # its account
    opened: RoundOpened  # the open round
    already: Collection[str]  # the clients with an accepted update for the round
    registry: Registry  # the registry of the round
    columns: int  # columns of a weight matrix for the labels that the client knows
    members: int  # the number of clients in the sum
    limits: Limits = NAMED  # how many names a federation registers
    layout: Layout | None = None  # that of the sums of an update, if clients send sums

    @property
    def labels(self) -> Set[str]:
        """Return the labels that the client knows."""
        new = self.update.new_labels
        return self.registry.label_names.union(new) if new else self.registry.label_names


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
    >>> round = {"entry": 7, "round": 7, "epoch": 1, "registry": 1}
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
        return "its round is closed already"
    if update.client in claim.already:
        return "an update for this round has been accepted before"
    return None if update.registry == opened.registry else "the update uses another version of the registry"


def wrong_introduction(join: Join, limits: Limits = NAMED) -> str | None:
    """Return why a Join cannot be used, or None."""
    if not 0 <= join.records < MOST_RECORDS or len(set(join.labels)) != len(join.labels):
        return "the client joins with impossible counts or labels"
    if not 0 <= join.question < MOST_RECORDS:
        return "the question has no number"
    if join.period is not None and not abs(join.period) < MOST_RECORDS:
        return "the period is out of the range of times"
    if join.key and not is_key(join.key):
        return "the key for masks is not a key"
    return wrong_join_names(join, limits) or _wrong_moments(join.moments, join.records) or _wrong_unit(join.target)


def wrong_scores(scores: Scores, claim: Claim, asked: Score, fitted: int) -> str | None:
    """Return why scores of candidates are refused, or None.

    Parameters
    ----------
    claim
        Its update for the round: the scores are on the same records.
    fitted
        How many labels are fitted to the outputs of a model.
    """
    records = claim.update.records
    if not records:
        nothing = not (scores.losses or scores.differences or scores.relabelling) and scores.untrained_loss is None
        return None if nothing else "the client has scores of records, but no records"
    if scores.untrained_loss is not None and not (
        asked.wants_untrained_loss and 0.0 <= scores.untrained_loss <= MOST_LOST
    ):
        return "the loss of untrained online models was not asked for, or is out of range"
    slots = asked_of(scores.client, asked.slots)
    relabelled = {slot.name for slot in slots} & set(asked.relabel)
    bound = score_bound(claim.opened.known_labels)
    wrong = _wrong_models(scores, slots, claim)
    return wrong or _wrong_relabelling(scores.relabelling, relabelled, fitted, records, bound)


def _wrong_empty(claim: Claim) -> str | None:
    """Return what an update without good records wrongly says about records, or None; it may only pass bad ones."""
    update, kept = claim.update, claim.update.kept
    lists = any(map(len, (update.new_labels, update.new_features, kept.held, kept.let_go, update.sums)))
    is_empty = update.numbers.are_none and kept.sample is None and not lists
    return None if is_empty else "the update has data about records, but no records"


def _asked_for_no_sums(claim: Claim) -> str | None:
    return "nobody has asked for sums" if claim.update.sums else None


def _wrong_total(claim: Claim) -> str | None:
    """Return what is wrong with an update of which the coordinator is to see sums alone, or None."""
    wrong = tells_of_records(claim.update)
    return wrong or (None if claim.layout is None else wrong_sums(claim.update.sums, claim.layout))


def tells_of_records(update: Update) -> str | None:
    """Return that an update tells what only sums over all clients are to tell, or None."""
    return None if update.numbers.are_none else "the message has numbers about records next to their sums"


def wrong_pooled_scores(scores: Scores, update: Update, layout: Layout) -> str | None:
    """Return why the sums of scores of candidates are refused, or None; there may be none."""
    told = scores.losses or scores.differences or scores.relabelling or scores.untrained_loss is not None
    if told or (scores.sums and not update.records):
        return "the message has numbers about records next to their sums"
    return wrong_sums(scores.sums, layout) if scores.sums else None


def _wrong_losses(claim: Claim) -> str | None:
    """Return what is wrong with the losses and steps of the round's models."""
    update = claim.update
    return _wrong_models(update.numbers, asked_of(update.client, claim.opened.slots), claim)


def _wrong_models(told: Numbers | Scores, slots: Sequence[Slot], claim: Claim) -> str | None:
    """Return what is wrong with the losses and differences of the slots that a client was asked about, or None."""
    update, losses, differences = claim.update, told.losses, told.differences
    if losses.keys() != {slot.name for slot in slots}:
        return "losses are not those of the models that were asked for"
    for slot in slots:
        if not _is_loss(losses[slot.name], update.records, _sample_of(slot, claim.member.sample)):
            return "a loss is out of range for this number of records"
    trained, trains = update.trained, claim.opened.trained_by(update.client, slots)
    if differences.keys() != (trains if trained else set()):
        return "differences are not those of the models that are trained"
    shape = claim.registry.rows, claim.columns
    for slot in slots:
        if slot.name in differences:
            largest = largest_part(1 if slot.whitened else trained, claim.members)
            wrong = _wrong_difference(slot.name, differences[slot.name], shape, largest)
            if wrong is not None:
                return wrong
    return None


def _wrong_relabelling(
    relabelling: Mapping[str, FloatArray], asked: Collection[str], labels: int, records: int, bound: float
) -> str | None:
    """Return what is wrong with the sums of log-likelihoods by label, each at least `-bound`, or None."""
    if set(relabelling) != set(asked):
        return "labels were not fitted to the models that were asked for"
    for S in relabelling.values():
        if S.shape != (labels, labels):
            return "fitted labels have another shape"
        if not ((S <= ROUNDING).all() and (records * bound * (1.0 + ROUNDING) >= -S).all()):  # false also of NaN
            return "log-likelihoods are out of range"
    return None


def _sample_of(slot: Slot, sample: Sequence[SampledRound]) -> tuple[float, int]:
    """Return the sum of a client's shares of the old rounds on which a model is scored, and its records of them."""
    if not slot.history:
        return NO_SAMPLE
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
        return f"the difference of {name} has the shape {x.shape}, not {shape}"
    size = np.abs(x).max(initial=0.0)  # of NaN as well, if there is one
    if not size < np.inf:
        return f"the difference of {name} is not finite"
    if size >= largest:
        return f"the difference of {name} is too large to be added exactly"
    return None


def _wrong_round(claim: Claim) -> str | None:
    update, opened = claim.update, claim.opened
    if update.round != opened.round:
        return "the round is not that of the entry"
    if update.period is None or (opened.period is not None and abs(update.period) < MOST_RECORDS):
        return None
    return "the period was not asked for, or is out of the range of times"


def _wrong_places(claim: Claim) -> str | None:
    return _wrong_positions(claim.update, claim.member, claim.limits)


def _wrong_positions(update: Update, member: Member, limits: Limits) -> str | None:
    partitions = set[str]()
    for span in update.spans:
        if not 0 <= span.start <= span.end:
            return f"positions of {span.partition} run backwards"
        if member.positions.get(span.partition, span.start) != span.start:
            return f"positions of {span.partition} do not follow the ledger"
        if span.end >= MOST_POSITIONS:
            return f"positions of {span.partition} are larger than in any log"
        partitions.add(span.partition)
    if len(partitions) != len(update.spans):
        return "a partition twice"
    new = partitions.difference(member.positions)
    if len(member.positions) + len(new) > MOST_PARTITIONS or not all(is_name(n, limits.name_bytes) for n in new):
        return "partitions have no name, or are far too many"
    if min(update.records, update.trained, update.rejected) < 0 or update.trained > update.records:
        return "impossible counts"
    if update.records + update.rejected > sum(span.end - span.start for span in update.spans):
        return "there are more records than positions"
    return None if update.records + update.rejected < MOST_RECORDS else "impossible counts"


def _wrong_watermark(claim: Claim) -> str | None:
    """Return why a watermark is impossible: it never moves back, and labels come later always or never."""
    update, member = claim.update, claim.member
    watermark, before = update.watermark, member.watermark
    if watermark is None:
        return None if before is None else "the update has no watermark, but the client's labels come later"
    if before is None and member.accepted:  # bad labels may have come before the first features
        return "the update has a watermark, but the client's labels have come with their records"
    if not is_name(watermark.partition, claim.limits.name_bytes) or watermark.partition in {
        span.partition for span in update.spans
    }:
        return "the watermark's partition has no name, or is that of the labels"
    ends = {**member.positions, **{span.partition: span.end for span in update.spans}}
    first, least = (0, 0) if before is None else (before.features, before.labels)
    if before is not None and before.partition != watermark.partition:
        return "the watermark is in another partition than before"
    if not first <= watermark.features < MOST_POSITIONS or not 0 <= watermark.labels <= max(ends.values(), default=0):
        return "the watermark runs backwards, or beyond the ledger"
    if watermark.labels < least or not 0 <= watermark.expired <= watermark.features:
        return "the watermark runs backwards, or counts more records than there are positions"
    if min(watermark.released) < 0 or sum(watermark.released) > update.rejected:
        return "the watermark counts more labels without a record than were rejected"
    return None


def _wrong_held(claim: Claim) -> str | None:
    """Return why newly held-out records are impossible: each must be of this round, and there once."""
    update, opened, member = claim.update, claim.opened, claim.member
    held = update.kept.held
    if opened.earlier.held is None:
        return "nobody has asked to hold records out" if held or update.kept.let_go else None
    if not held:
        return None
    if len(held) + update.trained > update.records:
        return "records were both trained on and held out"
    spans = {span.partition: span for span in update.spans}
    ordinals = range(member.read, member.read + update.records + update.rejected)
    for record in held:
        span = spans.get(record.partition)
        if record.round != opened.round or span is None or not span.start <= record.position < span.end:
            return "a held-out record is not of this round"
        if record.ordinal not in ordinals:
            return "a held-out record has the number of another one"
    if not _are_beside([record.beside for record in held], update):
        return "a held-out record does not say where its features are"
    in_order = [record.ordinal for record in held]
    places = {(record.partition, record.position) for record in held}
    if len(places) < len(held) or any(a >= b for a, b in pairwise(in_order)):
        return "held-out records are there twice, or out of order"
    return None


def _too_many_held(claim: Claim) -> str | None:
    """Return why a client holds out too many records: places that it never releases would be kept for ever."""
    member, held, let_go = claim.member, claim.update.kept.held, claim.update.kept.let_go
    if not held:
        return None
    most = MOST_HELD * max(1, len(claim.registry.labels) + len(claim.update.new_labels))
    if len(member.held) + len(held) <= most:
        return None  # whatever it releases
    left = len(member.held) - len({record.ordinal for record in member.held}.intersection(let_go))
    return None if left + len(held) <= most else "more records are held out than were asked for"


def _are_beside(positions: Sequence[int | None], update: Update) -> bool:
    """Tell whether the features of records can be at positions: only if labels come later they are anywhere."""
    known = [position for position in positions if position is not None]
    if update.watermark is None:
        return not known
    return len(known) == len(positions) and not [p for p in known if not 0 <= p < update.watermark.features]


def _wrong_sample(claim: Claim) -> str | None:
    """Return why a history sample is impossible: its records must be of this round, each once."""
    update, opened, member = claim.update, claim.opened, claim.member
    kept = update.kept.sample
    if kept is None:
        return None
    places = [(partition, position) for partition, positions in kept.positions.items() for position in positions]
    if kept.round != opened.round or len(places) > opened.earlier.keep or len(kept.ordinals) != len(places):
        return "the sample was not asked for"
    spans = {span.partition: range(span.start, span.end) for span in update.spans}
    here = spans.keys() >= kept.positions.keys() and all(position in spans[name] for name, position in places)
    ordinals = range(member.read, member.read + update.records + update.rejected)
    if not here or not all(ordinal in ordinals for ordinal in kept.ordinals):
        return "the sample has records that are not of this round"
    if min(len(set(places)), len(set(kept.ordinals))) < len(places):
        return "a record was sampled twice"
    beside = {partition: len(positions) for partition, positions in kept.beside.items()}
    apart = {} if update.watermark is None else {partition: len(ps) for partition, ps in kept.positions.items()}
    if beside != apart or not all(_are_beside(places, update) for places in kept.beside.values()):
        return "the sample does not say where the features of its records are"
    return None


def _wrong_served(claim: Claim) -> str | None:
    """Return why the counts of predictions are impossible, or None; a comparison with NaN is false."""
    served = claim.update.numbers.served
    if served is _NOTHING_SERVED or served == _NOTHING_SERVED:
        return None
    n, correct, unanswered = served.records, served.correct, served.unanswered
    if correct < 0 or unanswered < 0 or not correct + unanswered <= n <= claim.update.records or n == 0:
        return "there are more predictions than records"
    if claim.labels:
        possible = served.absolute_error == 0.0 and 0.0 <= served.no_change <= n
    else:
        none_right = correct == unanswered == 0
        possible = none_right and 0.0 <= served.absolute_error <= LARGEST_ERROR >= served.no_change >= 0.0
    most = n * (1.0 + 2.0**-BITS)
    shares = served.shares.values()
    if not possible or not all(0.0 <= share <= most for share in shares) or not sum(shares) <= most:
        return "counts of predictions are out of range for this number of records"
    return None


def wrong_tried(claim: Claim) -> str | None:
    """Return why the counts of answers that were to be tried are impossible, or None.

    An update may have none that were asked for, and some that were not: the objective may change in an open round.
    """
    tried = claim.update.numbers.tried
    if not tried:
        return None
    possible = len(tried) == len(POWERS) and all(
        claim.labels >= one.answers.keys()
        and min(one.correct, *one.answers.values(), 0) == 0
        and one.correct <= sum(one.answers.values()) <= claim.update.records
        for one in tried
    )
    return None if possible else "the counts of answers that were tried are impossible"


def _wrong_times(claim: Claim) -> str | None:
    """Return why the times of the first and the last record are impossible, or None."""
    times = claim.update.numbers.times
    if times is None:
        return None
    first, last = times
    return None if TIMES[0] <= first <= last <= TIMES[1] else "times are out of range"


def _wrong_label_sums(claim: Claim) -> str | None:
    """Return what is wrong with the scores by label of the serving model, or None."""
    records, numbers = claim.update.records, claim.update.numbers
    wrong = _wrong_sums_of(numbers.new, records, claim) or _wrong_sums_of(numbers.old, MOST_HELD, claim)
    if wrong is None and sum([x.count for x in numbers.new]) > records:
        return "losses by label count more records than the update has"
    return wrong


def _wrong_sums_of(sums: Sequence[LabelSums], most: int, claim: Claim) -> str | None:
    """Return why these cannot be sums of scores in [0, 1] of at most so many records a label, or None."""
    if not sums:
        return None
    named = {x.label for x in sums}
    if len(named) < len(sums) or not named <= (claim.labels or {""}):
        return "losses name a label that is unknown, or name it twice"
    for x in sums:
        if not (0 <= x.count <= most and _is_in_range(x.loss, x.count) and _is_in_range(x.square, x.count)):
            return "a loss by label is out of range for this number of records"
    return None


def _is_in_range(total: float, count: int) -> bool:
    """Tell whether a sum can be of so many scores in [0, 1]; a comparison with NaN is false."""
    return 0.0 <= total <= count * (1.0 + ROUNDING)


def _wrong_second_moments(claim: Claim) -> str | None:
    """Return why second moments cannot be of the update's records: their trace is the sum of squared norms."""
    update, opened, rows = claim.update, claim.opened, claim.registry.rows
    C, norm = update.numbers.second_moments, update.numbers.squared_norm
    if (C is not None) != (opened.asks.second_moments and opened.asks.of(update.client)):
        return "second moments were not asked for, or are missing"
    if C is None:
        return None
    if C.shape != (rows, rows) or not np.isfinite(C).all():
        return "second moments have another shape, or are not finite"
    steps = second_steps(opened.asks.exponents, rows)
    diagonal, slack = np.diag(C), 1e-6 * (1.0 + norm) + np.diag(steps)
    if not 0.0 <= diagonal.min() <= diagonal.max() <= norm + slack.max():
        return "second moments do not match the norms"
    if abs(float(diagonal.sum()) - norm) > slack.sum():
        return "second moments do not match the norms"
    sizes = np.sqrt(diagonal + slack)
    if not np.array_equal(C, C.T) or (np.abs(C) > np.outer(sizes, sizes) + steps).any():
        return "second moments are out of range"
    return "second moments lack the constant" if abs(diagonal[-1] - update.records) > slack[-1] else None


def _wrong_numbers(claim: Claim) -> str | None:
    registry, numbers, records = claim.registry, claim.update.numbers, claim.update.records
    farthest = max(registry.farthest, 1.0) ** 2 * registry.rows  # the constant 1 has a row as well
    longest = math.sqrt(farthest) * (1.0 + ROUNDING)
    if not (
        0.0 <= numbers.squared_norm <= records * farthest * (1.0 + ROUNDING)
        and 0.0 <= numbers.largest_norm <= longest
    ):
        return "a norm is out of range"
    wrong = None if numbers.moments is None else _wrong_moments(numbers.moments, records)
    if wrong is None and numbers.arrived is not None:
        wrong = _wrong_moments(numbers.arrived, MOST_ARRIVED)
    return wrong or _wrong_unit(numbers.target)


def _wrong_moments(moments: Moments, records: int) -> str | None:
    """Return why moments are impossible for a number of records with bounded values, or None."""
    parts = (moments.count, moments.mean, moments.m2)
    if len(set(moments.features)) != len(moments.features):
        return "moments name a feature twice"
    if any(part.shape != (len(moments.features),) for part in parts):
        return "moments have another shape"
    largest = LARGEST * (1.0 + ROUNDING)
    possible = (
        ((moments.count >= 0.0) & (moments.count <= records)).all()  # false also of NaN
        and (np.abs(moments.mean) <= largest).all()
        and ((moments.m2 >= 0.0) & (moments.m2 <= 4.0 * records * largest**2)).all()
    )
    return None if possible else "moments are out of range"


def _wrong_unit(unit: TargetUnit) -> str | None:
    possible = abs(unit.centre) <= LARGEST_TARGET and SCALES[0] <= unit.scale <= SCALES[1]  # false also of NaN
    return None if possible else "the unit of targets is out of range"


# --- names and sums ------------------------------------------------------------------------------------------------


def wrong_names(names: Sequence[str], known: Collection[str], most: int, name_bytes: int = NAME_BYTES) -> str | None:
    """Return why the new names of a message are refused, or None.

    >>> wrong_names(("a", "b"), ("b",), 4), wrong_names(("a", "b"), (), 1)
    ('a new name is already known, or is there twice', '2 new names, but at most 1 are allowed')
    >>> wrong_names(("x" * 257,), (), 4)
    'a name has more than 256 bytes, or is not UTF-8'
    """
    if len(names) > most:
        return f"{len(names)} new names, but at most {most} are allowed"
    if len(set(names) - set(known)) != len(names):
        return "a new name is already known, or is there twice"
    if all(is_name(name, name_bytes) for name in names):
        return None
    return f"a name has more than {name_bytes} bytes, or is not UTF-8"


def _wrong_update_names(claim: Claim) -> str | None:
    """Return why the names in an update are refused, or None."""
    update, registry, limits = claim.update, claim.registry, claim.limits
    moments, arrived = update.numbers.moments, update.numbers.arrived
    new_labels, new_features = update.new_labels, update.new_features
    wrong = None
    if new_labels:
        wrong = wrong_names(new_labels, registry.label_names, limits.labels, limits.name_bytes)
    if new_features and wrong is None:
        wrong = wrong_names(new_features, registry.feature_names, limits.features, limits.name_bytes)
    if wrong is not None or (moments is None and arrived is None):
        return wrong
    named = registry.feature_names.union(new_features)
    known = all(named.issuperset(each.features) for each in (moments, arrived) if each is not None)
    return None if known else "moments name a feature that no record has"


def wrong_join_names(join: Join, limits: Limits) -> str | None:
    """Return why the names in a Join are refused, or None."""
    return wrong_names(join.labels, (), limits.labels, limits.name_bytes) or wrong_names(
        join.moments.features, (), limits.features, limits.name_bytes
    )


def wrong_sums(text: str, layout: Layout) -> str | None:
    """Return why a text is not the sums of a client, or None.

    >>> from streamfl.learning.pooling.layout import SummedArray
    >>> from streamfl.learning.pooling.sums import as_text
    >>> layout = Layout((SummedArray("losses", (2, 6)),))
    >>> wrong_sums(as_text(np.zeros(12)), layout), wrong_sums(as_text(np.zeros(11)), layout)
    (None, 'the sums do not have the layout of the round')
    """
    digits = 4 * -(-8 * layout.size // 3)
    sums = of_text(text) if len(text) == digits else None
    return None if sums is not None and len(sums) == layout.size else "the sums do not have the layout of the round"


# --- the checks of an update, in order ------------------------------------------------------------------------------

OF_PLACES = (_wrong_round, _wrong_places, _wrong_watermark)
WITHOUT_RECORDS = (*OF_PLACES, _wrong_empty)
OF_RECORDS = (*OF_PLACES, _wrong_update_names, _wrong_numbers, _wrong_held, _too_many_held, _wrong_sample)
WITH_SUMS = (*OF_RECORDS, _wrong_total)
WITH_NUMBERS = (
    *OF_RECORDS,
    _asked_for_no_sums,
    _wrong_label_sums,
    _wrong_served,
    wrong_tried,
    _wrong_times,
    _wrong_second_moments,
    _wrong_losses,
)
