"""The messages between clients and the coordinator: the specification of the wire.

Messages are immutable values. Every message of the coordinator is published to all clients; every message of a client
goes to the coordinator. `streamfl.wire.messages` encodes them; the core never sees bytes.

**Conventions.**

- A *position* is the place of a record in its partition, an integer that grows. `Span` is a half-open range of them.
- An *ordinal* numbers the records of one client, good and bad, from 0, in the order in which they were read.
- *Rounds*, *epochs*, *entries* and *versions* are integers that grow. Rounds, epochs and entries begin at 1.
- A *score* is a loss that is bounded and scaled to [0, 1], so it has no unit. A *proper score* is the one by which
  candidates are compared. `streamfl.models` defines both.
- z is the standardised feature vector of a record with a constant 1 appended, of length d + 1 for d registered
  features. A weight matrix has the shape (d + 1, columns), with a column for each label, or one for targets.
- A time is told as the seconds until then: clocks of processes differ, and are set.
- Arrays are float64.

A reader discards a message of an older round or epoch than its own, so the order between topics does not matter. The
coordinator checks every field of every message of a client, and answers an update that does not count with `Refusal`.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.protocol.alarm import Reading
from streamfl.protocol.digits import significant
from streamfl.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.protocol.memory import memory
from streamfl.protocol.moments import Moments
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.records import Span
from streamfl.protocol.registry import Registry, TargetUnit

# The agreed state of the models that learn between rounds, and what a client's records of one round did to it.
AgreedState = NativeState | ExternalState
Learnt = NativeLearnt | ExternalLearnt


@dataclass(frozen=True, kw_only=True, eq=False)
class Message:
    """The base class of all messages."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    @cached_property
    def memory(self) -> int:
        """Return about how many bytes it takes, weighed once."""
        return memory(self)


# --- joining and leaving ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Join(Message):
    """Client: asks to take part, or asks again for its position in the ledger.

    Sent when a client starts, when a partition is assigned to it, when the ledger names an update that it did not
    send, and again after a pause while no answer comes. `Joined` answers it. `labels`, `moments` and `target`
    describe the client's first records; they count until round 1 opens, and are ignored for a known member.

    Parameters
    ----------
    client
        The client's name.
    nonce
        A random text that tells this start of the client from every other.
    after
        The incarnation that this start takes the place of; 0 for none, and for a start that does not know of one.
    moments
        Counts, means and squared deviations of its features.
    labels
        The labels of its first records; empty in regression.
    target
        The location and scale of its first targets; unused in classification.
    records
        The number of records behind `moments`.
    question
        A counter of the questions of this start; `Joined` repeats it.
    period
        With rounds by event time, the period of its first record: see `RoundOpened`.
    key
        Where sums are masked, the public key (X25519) of this start, in hexadecimal digits: see `Roster`. `moments`
        then only names features.
    """

    client: str
    nonce: str
    after: int = 0
    moments: Moments
    labels: tuple[str, ...] = ()
    target: TargetUnit = TargetUnit()
    records: int = 0
    question: int = 0
    period: int | None = None
    key: str = ""


@dataclass(frozen=True)
class Mark:
    """How far a client has come in the features of its records, whose labels come apart from them.

    What a record is learnt from lies at a position of its label; the mark says which records still wait for theirs.
    It tells nothing about a record but its position, and takes some 14 bytes of an update.

    Parameters
    ----------
    partition
        The partition of the features.
    features
        The mark: see `streamfl.machines.client.intake.waiting`.
    labels
        The position of the first label of a record in the window; at most the ledger's position among the labels.
    expired
        Records that were written off: no label came in time. In an update those of its round, else all so far.
    unmatched, repeated, unusable
        Rejected labels whose record was not found, of a record that had one, and of a record that was rejected, too;
        like `expired` of a round, or all.
    """

    partition: str
    features: int
    labels: int = 0
    expired: int = 0
    unmatched: int = 0
    repeated: int = 0
    unusable: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Return all numbers: none is ever below 0."""
        return (self.features, self.labels, self.expired, *self.released)

    @property
    def released(self) -> tuple[int, int, int]:
        """Return how many labels found no record: `unmatched`, `repeated` and `unusable`."""
        return (self.unmatched, self.repeated, self.unusable)

    def after(self, before: "Mark | None") -> "Mark":
        """Return a round's mark with the counts of all rounds, given the mark before the round.

        >>> Mark("f", 9, 4, expired=2, repeated=1).after(Mark("f", 5, 3, expired=1))
        Mark(partition='f', features=9, labels=4, expired=3, unmatched=0, repeated=1, unusable=0)
        """
        if before is None:
            return self
        return replace(
            self,
            expired=before.expired + self.expired,
            unmatched=before.unmatched + self.unmatched,
            repeated=before.repeated + self.repeated,
            unusable=before.unusable + self.unusable,
        )


@dataclass(frozen=True, kw_only=True)
class SampledRound:
    """The records of one client in the history sample of one round.

    Parameters
    ----------
    round
        The round.
    share
        p_n of that round: the client's records over the records of all clients, in [0, 1].
    positions
        The positions of the records kept, by partition.
    ordinals
        Their ordinals.
    beside
        If labels come apart: where the features of these records are, in the same order, by the same partition.
    """

    round: int
    share: float
    positions: Mapping[str, tuple[int, ...]]
    ordinals: tuple[int, ...] = ()
    beside: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HeldRecord:
    """A record of a client's holdout, which is kept out of training.

    Parameters
    ----------
    round
        The round in which it was held out.
    ordinal
        Its ordinal.
    partition, position
        Where it can be read again; if labels come apart, where its label can.
    beside
        If labels come apart: the position of its features in their partition.
    """

    round: int
    ordinal: int
    partition: str
    position: int
    beside: int | None = None


@dataclass(frozen=True)
class Disclosed:
    """Records that are in no entry, though a total of masked sums over them may be known: see `RoundOpened.repeats`.

    Parameters
    ----------
    entry
        The entry whose total it is, of all that repeat it the first.
    clients
        The digest of the names of its clients, see `digest_of`.
    ends
        By partition, the position after the last of the records.
    records
        How many good ones there are.
    """

    entry: int
    clients: str
    ends: Mapping[str, int]
    records: int

    @classmethod
    def of(cls, update: "Update", entry: int, clients: Iterable[str]) -> "Disclosed":
        """Return the records of an update, for a total of these clients."""
        return cls(entry, digest_of(clients), ends_of(update.spans), update.records)

    def are_pending(self, positions: Mapping[str, int]) -> bool:
        """Tell whether some of the records are not in the ledger, given the next positions by partition."""
        return any(end > positions.get(partition, 0) for partition, end in self.ends.items())


def digest_of(clients: Iterable[str]) -> str:
    """Return the SHA-256 of the names of some clients.

    >>> digest_of({"c1", "c0"}) == digest_of(["c0", "c1"]) != digest_of(["c0"])
    True
    """
    return hashlib.sha256("\0".join(sorted(clients)).encode("utf-8", "surrogatepass")).hexdigest()


def ends_of(spans: Sequence[Span]) -> dict[str, int]:
    """Return the position after the last one of each partition."""
    return {span.partition: span.end for span in spans}


@dataclass(frozen=True, kw_only=True)
class Joined(Message):
    """Coordinator: answers `Join` with the client's incarnation and its position in the ledger.

    Parameters
    ----------
    client, nonce
        Those of the `Join`.
    incarnation
        The number that the coordinator has issued to this start, from 1: greater than that of any earlier start.
    entry
        The number of the open ledger entry.
    positions
        The next position to read, by partition; a partition that is not named is read from its start.
    read
        The client's records that the ledger accounts for, good and bad.
    rejected
        The bad records among them.
    sample
        The client's records in the history sample, to be read again.
    held
        The client's holdout, to be read again.
    question
        The counter of the `Join` that is answered.
    mark
        The mark of the last entry that has one, if labels come apart.
    disclosed
        Where sums are masked: those of its pending records over which an earlier start may have told a total.
    """

    client: str
    nonce: str
    incarnation: int
    entry: int
    positions: Mapping[str, int]
    read: int
    rejected: int = 0
    sample: tuple[SampledRound, ...] = ()
    held: tuple[HeldRecord, ...] = ()
    question: int = 0
    mark: Mark | None = None
    disclosed: Disclosed | None = None


@dataclass(frozen=True, kw_only=True)
class Leave(Message):
    """Client: its source has ended, or it is to stop. Every update that it sent before still counts.

    Sent again after a pause until `Left` confirms it.

    Parameters
    ----------
    client, nonce, after
        As in `Join`.
    """

    client: str
    nonce: str
    after: int = 0


@dataclass(frozen=True, kw_only=True)
class Left(Message):
    """Coordinator: confirms `Leave`.

    Parameters
    ----------
    client, nonce
        Those of the `Leave`.
    """

    client: str
    nonce: str


@dataclass(frozen=True, kw_only=True)
class Fenced(Message):
    """Coordinator: another start of the client holds its present incarnation, which is not the one in `after`.

    A start that has no incarnation asks again with the one that it is told. A start that has one was superseded.

    Parameters
    ----------
    client, nonce, after
        Those of the `Join` or `Leave` that is answered.
    incarnation
        The present incarnation.
    """

    client: str
    nonce: str
    after: int
    incarnation: int


@dataclass(frozen=True, kw_only=True)
class Refusal(Message):
    """Coordinator: a client's message does not count for an entry.

    The entry no longer waits for this client, whose records stay pending. Published at once for every message that no
    correct client sends.

    Parameters
    ----------
    client
        Whose message it is.
    incarnation
        The incarnation that sent it; 0 for a start without one.
    entry
        The entry for which it does not count.
    reason
        What is wrong with it, for people.
    evicted
        Whether the client is no longer a member, because its messages were refused for several entries in a row. A
        new incarnation may join again.
    """

    client: str
    incarnation: int
    entry: int
    reason: str
    evicted: bool = False


# --- a round ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A live model of a round: where to find its weights, and what clients do with it.

    Parameters
    ----------
    name
        The slot's name, under which `ModelPublished` carries the weights.
    version
        The version of the weights.
    eta
        The step size of its local step.
    trained
        Whether clients train it; otherwise they only score it, as for an average.
    clients
        The clients that score and train it; None for all.
    history
        The sampled rounds on which it is scored as well.
    whitened
        Whether the coordinator preconditions the step by second moments. In place of a difference clients then send
        the sum over their records of the gradient of the loss, without a penalty: on the grid of the round, in
        regression as floats of 32 bits.

    Examples
    --------
    >>> Slot(name="branch-0", version=9, eta=0.1, clients=("c3",)).is_for("c4")
    False
    """

    name: str
    version: int
    eta: float
    trained: bool = True
    clients: tuple[str, ...] | None = None
    history: tuple[int, ...] = ()
    whitened: bool = False

    def is_for(self, client: str) -> bool:
        """Tell whether a client scores this model."""
        return self.clients is None or client in self.clients


def asked_of(client: str, slots: Sequence[Slot]) -> tuple[Slot, ...]:
    """Return the slots that a client scores."""
    return tuple([slot for slot in slots if slot.clients is None or slot.is_for(client)])


@dataclass(frozen=True, kw_only=True)
class HoldoutRule:
    """Which records clients hold out of training, to compare new records with.

    Parameters
    ----------
    per_label
        The most records of one label that a client holds out.
    since
        Records of earlier rounds leave the holdout.
    renewed
        A later such round for some clients, by name.
    """

    per_label: int
    since: int
    renewed: Mapping[str, int] = field(default_factory=dict)

    def since_at(self, client: str) -> int:
        """Return the first round whose records a client may still hold out."""
        return max(self.since, self.renewed.get(client, 0))


@dataclass(frozen=True, kw_only=True)
class BranchGroup:
    """Clients that score the models of all clients, but train only the models that are theirs alone.

    Parameters
    ----------
    clients
        Their names.
    serves
        The slot of the model that serves them.
    """

    clients: tuple[str, ...]
    serves: str


@dataclass(frozen=True, kw_only=True)
class RoundOpened(Message):
    """Coordinator: a round begins.

    Published when enough clients have joined, in the same transaction as the `RoundClosed` before it, and again by a
    coordinator that was restarted. The registry and the models that it names come in messages of their own, in any
    order.

    Parameters
    ----------
    entry
        The ledger entry that will close the round. A round that brings no record is opened again, under the next
        entry.
    round, epoch
        Their numbers.
    block
        The number of the block in its epoch.
    registry
        The version of the registry in whose coordinates differences are sent.
    slots
        The live models.
    serves
        The slot of the incumbent, the model that serves.
    known_labels
        The number of labels that were registered when the epoch began. Scores are bounded by it.
    closes
        Seconds from this message until clients close their buffers; None: each closes when its own buffer is full.
    period
        With rounds by event time, the period whose records the round takes: see
        `streamfl.machines.client.intake.period`.
    apart
        Groups of clients that do not train the models of all clients.
    moments
        Whether updates carry the moments of features.
    second_moments
        Whether updates carry second moments.
    measured
        The clients whose updates carry these moments, in turn; None: all.
    exponents
        The grid of whitened steps, by row of a weight matrix: see `streamfl.learning.grid`. Without exponents
        no deviation is known yet.
    keep
        How many of this round's records a client keeps for the history sample.
    sampled
        The other rounds in the history sample; records of rounds that are not named leave it.
    held
        The rule of the holdout; None: no record is held out.
    resumed
        Whether the coordinator was restarted and has lost what it had received for this round: clients send their
        update again.
    between
        Whether models learn between rounds. `BetweenPublished` carries their agreed state, with the number of the
        round as its version.
    pooled
        Whether updates and scores carry sums that are added up over all clients, see `Update.sums`.
    roster
        The version of the `Roster` whose clients mask these sums; 0: they are not masked.
    repeats
        The entry whose total is asked for again, of the same clients and records; None for none. In any other entry
        a client adds records to those over which it has told a total before.
    """

    entry: int
    round: int
    epoch: int
    block: int
    registry: int
    slots: tuple[Slot, ...]
    serves: str
    known_labels: int
    closes: float | None = None
    period: int | None = None
    apart: tuple[BranchGroup, ...] = ()
    moments: bool = False
    second_moments: bool = False
    measured: tuple[str, ...] | None = None
    exponents: tuple[int, ...] = ()
    keep: int = 0
    sampled: tuple[int, ...] = ()
    held: HoldoutRule | None = None
    resumed: bool = False
    between: bool = False
    pooled: bool = False
    roster: int = 0
    repeats: int | None = None

    @property
    def scores_again(self) -> bool:
        """Return whether records of earlier rounds are scored again, or some of this round are kept for that."""
        return self.held is not None or self.keep > 0 or any(slot.history for slot in self.slots)

    def is_measured(self, client: str) -> bool:
        """Return whether moments are asked of a client."""
        return self.measured is None or client in self.measured

    def group_of(self, client: str) -> BranchGroup | None:
        """Return the group in `apart` that a client belongs to, if any."""
        for group in self.apart:
            if client in group.clients:
                return group
        return None

    def served_by(self, client: str) -> str:
        """Return the slot of the model that serves a client."""
        group = self.group_of(client)
        return self.serves if group is None else group.serves

    def trained_by(self, client: str, slots: Sequence[Slot]) -> set[str]:
        """Return which of some slots a client trains, by name."""
        is_apart = self.group_of(client) is not None
        trained = [slot for slot in slots if slot.trained and slot.is_for(client)]
        return {slot.name for slot in trained if slot.clients is not None or not is_apart}


@dataclass(frozen=True, kw_only=True, eq=False)
class RegistryPublished(Message):
    """Coordinator: a version of the registry. Published before the first round that uses it.

    Parameters
    ----------
    registry
        Feature order, labels, scaler and unit of targets, with their version.
    """

    registry: Registry


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelPublished(Message):
    """Coordinator: the weights of one version of a slot. Published before the first message that names it.

    Parameters
    ----------
    slot, version
        What `Slot` names.
    registry
        The version of the registry in whose coordinates the weights are.
    weights
        Shape (d + 1, columns).
    """

    slot: str
    version: int
    registry: int
    weights: FloatArray

    @cached_property
    def largest_weight(self) -> float:
        """Return the largest magnitude of a weight, NaN without a matrix; cached for all clients of a process."""
        return float(np.abs(self.weights).max(initial=0.0)) if self.weights.ndim == 2 else math.nan


# What the difference of a model is taken from, unless from another model of its message.
BEFORE, NOTHING = -1, -2


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelsChanged(Message):
    """Coordinator: all models of a round, as differences from those of the round before and from one another.

    Published in place of `ModelPublished` while rounds go on. A client that lacks a model asks with `Join`, and gets
    all of them whole.

    Parameters
    ----------
    version
        The round, which is the version of every slot.
    slots
        Their names.
    bases
        For each, what its difference is taken from: `BEFORE`, the version before of the same slot; `NOTHING`; or the
        place in `slots` of one before it.
    exponents
        The steps of differences, as powers of two by row of a weight matrix, shape (d + 1,).
    numbers
        The differences in these steps, whole numbers, one slot below the other, shape (slots (d + 1), columns).
    digest
        Of all models after the change. It fails where the version before was a forged one.
    """

    version: int
    slots: tuple[str, ...]
    bases: tuple[int, ...]
    exponents: FloatArray
    numbers: FloatArray
    digest: str

    @cached_property
    def known(self) -> list[tuple[tuple[FloatArray | None, ...], Mapping[str, FloatArray]]]:
        """Return the models that were found last, and those before: the clients of a process share them."""
        return []


@dataclass(frozen=True, kw_only=True, eq=False)
class BetweenPublished(Message):
    """Coordinator: the agreed state of the models that learn between rounds. Published for every round.

    Parameters
    ----------
    version
        The round that begins with it.
    agreed
        The state; of native models, also its change since the version before, for clients that have that.
    """

    version: int
    agreed: AgreedState | NativeChange

    @property
    def is_whole(self) -> bool:
        """Tell whether the state is complete, for a client that lacks the version before."""
        return not isinstance(self.agreed, NativeChange)


@dataclass(frozen=True, kw_only=True)
class SlotLosses:
    """A client's scores of one model, as sums over its records, so that totals are exact for any split.

    Parameters
    ----------
    loss, square
        The sums of the scores and of their squares.
    proper
        The sum of the proper scores.
    history
        The sum over the sampled rounds of share x mean score.
    history_share
        The sum of those shares.
    history_records
        The records behind `history`.
    """

    loss: float
    square: float
    proper: float
    history: float = 0.0
    history_share: float = 0.0
    history_records: int = 0


@dataclass(frozen=True, kw_only=True)
class LabelSums:
    """The sums of the incumbent's scores over the records of one label.

    Parameters
    ----------
    label
        The label.
    count
        The records.
    loss, square
        The sums of their scores and of the squares of these.
    """

    label: str
    count: int
    loss: float
    square: float


@dataclass(frozen=True, kw_only=True)
class Served:
    """How right the predictions were that a client served, each made just before its record was learnt.

    Parameters
    ----------
    records
        The predictions counted.
    correct
        Classification: those that were right.
    absolute_error
        Regression: the sum of |prediction - target|, in the unit of the records.
    no_change
        The same for the baseline that repeats the truth of the record before: a count, or a sum of errors.
    shares
        By the name of each expert, its part in the predictions, in [0, 1], times the records.
    """

    records: int = 0
    correct: int = 0
    absolute_error: float = 0.0
    no_change: float = 0.0
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def beside_no_change(self) -> tuple[float, float] | None:
        """Return how many were right and how many of NoChange, or both sums of errors; None without predictions.

        >>> Served(records=4, correct=3, no_change=1.0).beside_no_change
        (3.0, 1.0)
        >>> Served(records=4, absolute_error=2 / 3, no_change=5.5).beside_no_change, Served().beside_no_change
        ((0.666667, 5.5), None)
        """
        if not self.records:
            return None
        return significant(self.correct or self.absolute_error), significant(self.no_change)


@dataclass(frozen=True, kw_only=True, eq=False)
class Update(Message):
    """Client: its part of a round. Sent once a round, when its buffer closes; again if it did not count.

    At most one update a client counts for an entry; `RoundClosed` says which. docs/trust.md says what its numbers
    reveal of records. An update with `records` 0 has only `spans` and `rejected`.

    Parameters
    ----------
    client
        The client's name.
    attempt
        The incarnation and a counter: it tells this update from any other for the same round.
    entry, round, epoch, registry
        Those of the `RoundOpened` that it answers.
    records
        The good records.
    trained
        The records that the differences were trained on: all but those held out; 0 without differences.
    rejected
        The bad records.
    spans
        The positions that good and bad records cover, one span a partition.
    losses
        By slot, the scores before training.
    differences
        By trained slot, the weights after the local step minus those before it, in the space in which the base
        algorithm averages; of a whitened slot, the sum of gradients, see `Slot.whitened`. Shape (d + 1, columns).
        Labels in `new_labels` have columns after the registered ones.
    new, old
        The scores by label of the model that serves the client: on this round's records, and on the holdout of
        earlier rounds.
    new_labels
        Labels of its records that are not registered yet.
    new_features
        Features of its records that are not registered yet; they are not used before they are.
    sample
        The records that it keeps for the history sample, if any.
    held
        Records that enter the holdout.
    let_go
        The ordinals of records that leave the holdout.
    moments
        Of the registered features and those in `new_features`, in this order and without their names, if
        `RoundOpened.moments` and it is measured, or if there are new ones.
    second_moments
        The sum over records of z z^T, shape (d + 1, d + 1), if `RoundOpened.second_moments` and it is measured; on
        the grid of the round.
    squared_norm, largest_norm
        The sum over records of |z|^2, and the largest |z|.
    target
        Regression: the location and scale of its targets.
    served
        How right its predictions were.
    learnt
        What its records did to the models that learn between rounds, if `RoundOpened.between`.
    times
        When the first and the last good record were measured, as read, the earlier time first: milliseconds since
        1970, whole numbers; None if no record has a time. For people: see `Finding.times`.
    mark
        How far it has come in the features, if labels come apart.
    period
        With rounds by event time, the period of its next record, if that is known.
    sums
        If `RoundOpened.pooled`, all numbers about the records, in place of the fields that have them else: whole
        numbers of 64 bits, in base64; see `streamfl.learning.pooling`. They are masked if there is a roster.
    """

    client: str
    attempt: str
    entry: int
    round: int
    epoch: int
    registry: int
    records: int
    trained: int
    rejected: int
    spans: tuple[Span, ...]
    losses: Mapping[str, SlotLosses]
    differences: Mapping[str, FloatArray]
    new: tuple[LabelSums, ...] = ()
    old: tuple[LabelSums, ...] = ()
    new_labels: tuple[str, ...] = ()
    new_features: tuple[str, ...] = ()
    sample: SampledRound | None = None
    held: tuple[HeldRecord, ...] = ()
    let_go: tuple[int, ...] = ()
    moments: Moments | None = None
    second_moments: FloatArray | None = None
    squared_norm: float = 0.0
    largest_norm: float = 0.0
    target: TargetUnit = TargetUnit()
    served: Served = Served()
    learnt: Learnt | None = None
    times: tuple[int, int] | None = None
    mark: Mark | None = None
    period: int | None = None
    sums: str = ""

    @property
    def reached(self) -> dict[str, int]:
        """Return how far it goes in each partition, that of a mark included."""
        reached = {span.partition: span.end for span in self.spans}
        return reached if self.mark is None else {**reached, self.mark.partition: self.mark.features}


@dataclass(frozen=True, kw_only=True)
class Score(Message):
    """Coordinator: asks clients to score candidates on the records of the round that raised an alarm.

    Published after an alarm, before the round closes, once for each stage. Clients keep the round's records until
    `RoundClosed`.

    Parameters
    ----------
    entry, round, epoch, registry
        Those of the open round.
    slots
        The candidates; those with `trained` need a difference as well.
    stage
        A counter, from 1: what is asked for may depend on the answers of the stage before.
    relabel
        The slots of which clients also send sums for relabelling, see `Scores.relabelling`.
    """

    entry: int
    round: int
    epoch: int
    registry: int
    slots: tuple[Slot, ...]
    stage: int = 1
    relabel: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores(Message):
    """Client: answers `Score`.

    A client whose answer has not come by the deadline is left out of the choice.

    Parameters
    ----------
    client, attempt
        As in `Update`; the attempt is that of this answer.
    entry, epoch, stage
        Those of the `Score`.
    losses, differences
        By slot, as in `Update`.
    relabelling
        By slot of `relabel`, the sums S[a, b] of max(ln p_b, -2 ln K) over its records of label a, with p_b the
        probability of label b and K the number of labels; shape (labels, labels), in nats.
    sums
        As in `Update`.
    """

    client: str
    attempt: str
    entry: int
    epoch: int
    losses: Mapping[str, SlotLosses]
    differences: Mapping[str, FloatArray]
    stage: int = 1
    relabelling: Mapping[str, FloatArray] = field(default_factory=dict)
    sums: str = ""


# --- masked sums -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Roster(Message):
    """Coordinator: the clients that mask their sums, with their public keys.

    Published before the first round that names it. It takes some 80 bytes a client, and changes when one joins or
    leaves.

    Parameters
    ----------
    version
        Its number, from 1.
    keys
        By client, the key of its `Join`.
    """

    version: int
    keys: Mapping[str, str]

    @cached_property
    def ring(self) -> tuple[str, ...]:
        """Return the clients in the order of the digests of their keys; cached for all clients of a process."""
        digest = {client: hashlib.sha256(key.encode()).digest() for client, key in self.keys.items()}
        return tuple(sorted(digest, key=lambda client: (digest[client], client)))

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Return the place of each client on the ring."""
        return {client: at for at, client in enumerate(self.ring)}


@dataclass(frozen=True, kw_only=True)
class Unmask(Message):
    """Coordinator: says whose masked sums it is going to add up, and asks these clients for the masks that remain.

    Published when a round has its updates, or an alarm its scores. If one of the clients does not answer, nothing is
    learnt of the entry, or of the scores.

    Parameters
    ----------
    entry
        The open entry.
    stage
        0 for updates, else that of `Score`.
    attempts
        By client, the attempt of its update or scores that is added up.
    """

    entry: int
    stage: int
    attempts: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Unmasked(Message):
    """Client: answers `Unmask` with seeds, in hexadecimal digits. Each is of one entry and stage alone.

    Parameters
    ----------
    client
        The client's name.
    attempt
        That of its update or scores.
    entry, stage
        Those of the `Unmask`.
    own
        The seed of its own mask.
    shared
        By peer that is not among the clients, the seed of the mask that both know: 90 bytes each.
    """

    client: str
    attempt: str
    entry: int
    stage: int
    own: str
    shared: Mapping[str, str] = field(default_factory=dict)


# --- the ledger ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """An update that counts, as a ledger entry names it.

    Parameters
    ----------
    client, attempt
        Those of the update.
    spans
        The positions that it covers.
    records, rejected
        Its good and bad records.
    mark
        Its mark, if labels come apart; `expired` is that of the round.
    measured
        How many of the predictions that it served of these records were right, and how many of NoChange; in
        regression both sums of |prediction - target|. Six digits. None if it served none, or the coordinator sees
        only sums of all clients. Nothing is decided by it. It takes 23 bytes of an entry, of targets 29.
    """

    client: str
    attempt: str
    spans: tuple[Span, ...]
    records: int
    rejected: int
    mark: Mark | None = None
    measured: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class RoundClosed(Message):
    """Coordinator: a ledger entry. It is the truth about which records were trained on.

    Published at quorum or deadline, in one transaction with the models that it leads to, the coordinator's state, its
    input offsets and the `RoundOpened` that follows. Entries have consecutive numbers. An entry with `records` 0 only
    moves positions past bad records: its round is opened again.

    Parameters
    ----------
    entry, round, epoch, block
        Their numbers.
    accepted
        The updates that count, by client.
    records, trained, rejected
        The totals of these updates.
    losses
        By slot, the mean score of the live models before training.
    serves
        The slot of the model that served this round.
    readings
        By detector, its statistic and threshold.
    served
        How right the predictions were that clients served.
    model
        The SHA-256 of the model that serves next.
    registry
        The version of the registry under which the round was learnt.
    promotions
        How often so far a live model has become the incumbent.
    refused
        The messages that were refused for this entry.
    unlearnt
        The records that an external model could not learn.
    """

    entry: int
    round: int
    epoch: int
    block: int
    accepted: tuple[Accepted, ...]
    records: int
    trained: int
    rejected: int
    losses: Mapping[str, float]
    serves: str
    readings: Mapping[str, Reading]
    served: Served
    model: str
    registry: int
    promotions: int = 0
    refused: int = 0
    unlearnt: int = 0

    def accepted_of(self, client: str) -> Accepted | None:
        """Return what was accepted from a client."""
        return self._by_client.get(client)

    @cached_property
    def _by_client(self) -> Mapping[str, Accepted]:
        """Return what was accepted by client, the first if there are several; cached for all clients of a process."""
        return {accepted.client: accepted for accepted in reversed(self.accepted)}


@dataclass(frozen=True, kw_only=True)
class Finding(Message):
    """What every announcement of a change has: `Restarted`, `LocalDrift`, `Noticed`.

    `positions` and `times` are for people; nothing is decided by them. The clients concerned are those in `clients`,
    all if it is empty. A time is the median over them, so that a client whose records have wrong times does not
    change it alone.

    Parameters
    ----------
    round, epoch
        When it was found.
    statistic, threshold
        The detector's statistic, and the threshold that it reached.
    since
        The round in which the change began, as the detector estimates it.
    labels
        The labels that changed; empty if the detector sees only the total.
    positions
        By partition, the position with which round `known_since` began, and the one after the last record of `round`.
        Only partitions with records between them: those of `clients` first, of a restart and of a change of the mix
        then those of the other clients by name, at most 100 partitions.
    times
        When the first record of round `known_since` and the last one of `round` were measured, in milliseconds since
        1970; None if the records have no times. In a replay of a file without times record n of the file counts as
        measured n seconds after 1970.
    known_since
        The round `since`, or if it is longer ago the first of the last 32 rounds, the only ones whose beginnings the
        coordinator keeps.
    drift
        The round in which the same drift was first announced. It is earlier than `round` if the drift, which began at
        one time, reached these clients in later rounds than others, because they have more records or fewer. 0 for
        what is no drift, and for a branch whose drift is no longer among the last 16.
    """

    round: int
    epoch: int
    statistic: float
    threshold: float
    since: int
    labels: tuple[str, ...] = ()
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    times: tuple[int, int] | None = None
    known_since: int = 0
    drift: int = 0


@dataclass(frozen=True, kw_only=True)
class Restarted(Finding):
    """Coordinator: a new epoch begins. Published beside the entry of the round that raised the alarm.

    Parameters
    ----------
    round
        The round that raised the alarm.
    epoch
        The epoch that begins.
    cause
        The detector's name, or `new-label`.
    statistic, threshold, since, labels, positions, times, known_since, drift
        As in `Finding`.
    chosen
        The model that the epoch begins with: `scratch`, `incumbent`, or a candidate.
    clients
        The clients that surely changed; empty if the detector sees only the total.
    scores
        By candidate, its mean score on the records of `round`; in six digits, for people. The least is chosen, unless
        an operator has asked for another. Empty where an epoch begins without a choice. The means are over the
        clients that scored all candidates in time and do not stand out, which may be a single one. Some 25 bytes a
        candidate.
    """

    cause: str
    chosen: str
    clients: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LocalDrift(Finding):
    """Coordinator: some clients drifted and the others did not. Published at every change of `state`.

    Parameters
    ----------
    round, epoch
        When the state changed.
    clients
        The clients that drifted.
    labels, since, statistic, threshold
        Those of the alarm that named these clients, as in `Restarted`.
    positions, times, known_since, drift
        As in `Finding`.
    state
        `latched`: they no longer train the models of all clients, while candidates are tried on their records alone.
        `branched`: they are served by, and train, a model of their own. `released`: no candidate gained enough, so
        there is no branch. `merged`: their branch ended, because it gained next to nothing. `returned`: it ended,
        because the model of all clients is better for them again. `corrected`: they did not drift alone; the drift of
        this number came to others when these had records of its time. What serves them does not change with it.
    behind
        In `latched`, how many other clients have no records yet of the time of the change, so far as times are known:
        the drift may still come to them.
    chosen
        In `branched`, the candidate that serves these clients.
    gains
        In `branched` and `released`, by candidate how much less its mean score was than that of the model of all, on
        the records of these clients since they were latched; in six digits, for people.
    """

    clients: tuple[str, ...]
    state: str
    behind: int = 0
    chosen: str = ""
    gains: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Noticed(Finding):
    """Coordinator: a change that is no drift of the concept, and no reason to restart.

    Parameters
    ----------
    round, epoch, statistic, threshold, since, labels, positions, times, known_since, drift
        As in `Finding`.
    cause
        `class-mix`: the shares of the labels changed.
    """

    cause: str


@dataclass(frozen=True, kw_only=True)
class Ended(Message):
    """Coordinator: all clients have left or were evicted, and it ends.

    The last message of a coordinator that runs until the end (`--until-end`). A log keeps it for hosts that begin
    later, until a coordinator opens a round again. A client that still takes part asks with `Join`: only a
    coordinator that has not ended answers, so a forged end is found out.

    Parameters
    ----------
    entry
        The entry that stays open.
    """

    entry: int


# What operators order about one client, and about the federation.
MemberAction = Literal["admit", "evict", "reset"]
Action = MemberAction | Literal["hold", "resume", "restart"]


@dataclass(frozen=True, kw_only=True)
class Command(Message):
    """Operator: changes who may take part, or how the federation goes on.

    Parameters
    ----------
    action
        `evict`: the client is out until it is admitted again. `admit`: it may join; where clients belong to keys, the
        first that brings it keeps it. `reset`: it belongs to no key any more, as if it had just been admitted.
        `hold`: the open entry is not closed until `resume`. `restart`: an epoch begins when the open round closes.
    client
        Its name; empty where the action is about the federation.
    model
        With `restart`, the model that the epoch begins with: `scratch`, or one that is live or kept, by its name. If
        there is none of this name, or it is empty, the best one.
    number
        One more than that of the last command: a command that is sent again, or raced by another, has no effect.
    """

    action: Action
    client: str
    number: int
    model: str = ""


@dataclass(frozen=True, kw_only=True)
class MemberChanged(Message):
    """Coordinator: a command has taken effect.

    Parameters
    ----------
    action, client, number, model
        As in `Command`.
    by
        The key that has signed it; empty if nothing is signed.
    entry
        The first ledger entry for which it holds.
    """

    action: Action
    client: str
    number: int
    by: str
    entry: int
    model: str = ""


FromClient = Join | Leave | Update | Scores | Unmasked
FromCoordinator = (
    Joined
    | Left
    | Fenced
    | Refusal
    | RoundOpened
    | RegistryPublished
    | ModelPublished
    | ModelsChanged
    | BetweenPublished
    | Roster
    | Score
    | Unmask
    | RoundClosed
    | Restarted
    | LocalDrift
    | Noticed
    | MemberChanged
    | Ended
)
