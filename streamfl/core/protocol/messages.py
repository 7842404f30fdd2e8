"""Everything that clients and the coordinator say to one another.

Messages are immutable values. Those of the coordinator go to all clients, those of a client to the coordinator.
What carries an older round or epoch than its reader knows is discarded, so order between topics does not matter.
`streamfl.messages` turns them into bytes and back; the core never sees bytes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamfl.core.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.core.protocol.alarm import Reading
from streamfl.core.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.core.protocol.moments import Moments
from streamfl.core.protocol.native.learnt import NativeLearnt
from streamfl.core.protocol.native.models import NativeState
from streamfl.core.protocol.records import Span
from streamfl.core.protocol.registry import Registry, TargetUnit

# What clients agree on of models that learn between rounds, and what a client tells of what it has learnt.
AgreedState = NativeState | ExternalState
Learnt = NativeLearnt | ExternalLearnt


@dataclass(frozen=True, kw_only=True, eq=False)
class Message:
    """Anything that travels."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS


# --- joining and leaving ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Join(Message):
    """A client asks to take part, or asks again where it stands.

    `labels`, `moments` and `target` describe its first records; of a client that is known they are not used again.
    `question` counts the questions of this incarnation; the answer names it.
    """

    client: str
    incarnation: str
    moments: Moments
    labels: tuple[str, ...] = ()
    target: TargetUnit = TargetUnit()
    records: int = 0
    question: int = 0


@dataclass(frozen=True, kw_only=True)
class SampledRound:
    """A client's part of the history sample of one round.

    `share` is p_n of that round: the client's part of all its records. `positions` and `ordinals` are those of
    the records kept, by partition.
    """

    round: int
    share: float
    positions: Mapping[str, tuple[int, ...]]
    ordinals: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HeldRecord:
    """Where a record is that a client holds back from training, and since which round."""

    round: int
    ordinal: int
    partition: str
    position: int


@dataclass(frozen=True, kw_only=True)
class Joined(Message):
    """The coordinator's answer: where the ledger stands for this client.

    `entry` is the ledger entry that is open. `positions` is where each of its partitions goes on, `read` how many of
    its records are accounted for, `rejected` how many of those were bad, `sample` what to read again for its history
    sample, `held` what it holds back from training. `question` is the one that is answered.
    """

    client: str
    incarnation: str
    entry: int
    positions: Mapping[str, int]
    read: int
    rejected: int = 0
    sample: tuple[SampledRound, ...] = ()
    held: tuple[HeldRecord, ...] = ()
    question: int = 0


@dataclass(frozen=True, kw_only=True)
class Leave(Message):
    """A client's source has ended, or it was told to stop; all that it sent before still counts."""

    client: str
    incarnation: str


@dataclass(frozen=True, kw_only=True)
class Left(Message):
    """The coordinator has taken note of a Leave."""

    client: str
    incarnation: str


@dataclass(frozen=True, kw_only=True)
class Refusal(Message):
    """A client's message does not count for an entry, and why; the entry does not wait for this client.

    `incarnation` is that of the message. With `evicted` the client is no member any more: its messages were refused
    for several entries in a row. Its records stay pending; a new start of it may join again.
    """

    client: str
    incarnation: str
    entry: int
    reason: str
    evicted: bool = False


# --- a round ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A live model of a round: where to find it, and what to do with it.

    `clients` are those it is for, None for all. `history` are the sampled rounds on which it is scored too. With
    `whitened` the coordinator takes the step: the difference is -eta times the gradient, wherever that would lead.

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
    """Return the models that a client is asked about."""
    return tuple([slot for slot in slots if slot.clients is None or slot.is_for(client)])


@dataclass(frozen=True, kw_only=True)
class HoldoutRule:
    """What clients hold back from training, to be able to compare: at most `per_label` records of each label.

    Records of rounds before `since` are let go; for some clients `renewed` names a later round.
    """

    per_label: int
    since: int
    renewed: Mapping[str, int] = field(default_factory=dict)

    def since_at(self, client: str) -> int:
        """Return the round since which a client holds records back."""
        return max(self.since, self.renewed.get(client, 0))


@dataclass(frozen=True, kw_only=True)
class BranchGroup:
    """Clients that score the models of all but train only those that are for them alone, and how they are served."""

    clients: tuple[str, ...]
    serves: str


@dataclass(frozen=True, kw_only=True)
class RoundOpened(Message):
    """A round begins.

    `entry` is the number of the ledger entry that will close it; a round that brings no record is opened again,
    under the next entry. `closes` is when clients close their buffers, in seconds; None lets each close when it is
    full. `serves` names the incumbent. `known_labels` is the number of labels registered when the epoch began.
    `apart` are groups of clients that do not train the models of all. `keep` is how many records of this round go to
    the history sample, whose other rounds are `sampled`. `held` is what clients hold back from training. `resumed` is
    said by a coordinator that was started again, and has lost what was sent to it for this round. `between` tells
    whether models learn between rounds; theirs is the version of the round.
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
    apart: tuple[BranchGroup, ...] = ()
    moments: bool = False
    second_moments: bool = False
    keep: int = 0
    sampled: tuple[int, ...] = ()
    held: HoldoutRule | None = None
    resumed: bool = False
    between: bool = False

    def group_of(self, client: str) -> BranchGroup | None:
        """Return the group apart that a client belongs to."""
        for group in self.apart:
            if client in group.clients:
                return group
        return None

    def served_by(self, client: str) -> str:
        """Return the name of the model that serves a client."""
        group = self.group_of(client)
        return self.serves if group is None else group.serves

    def trained_by(self, client: str, slots: Sequence[Slot]) -> set[str]:
        """Return the names of those of some models that a client trains."""
        is_apart = self.group_of(client) is not None
        mine = [slot for slot in slots if slot.trained and slot.is_for(client)]
        return {slot.name for slot in mine if slot.clients is not None or not is_apart}


@dataclass(frozen=True, kw_only=True, eq=False)
class RegistryPublished(Message):
    """The registry of a version: it travels with the models."""

    registry: Registry


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelPublished(Message):
    """The weights of a slot in a version, shape (d + 1, columns) under the registry of that version."""

    slot: str
    version: int
    registry: int
    weights: FloatArray

    @cached_property
    def largest_weight(self) -> float:
        """Return the largest weight in magnitude, NaN if it is no matrix; found once for all clients of a process."""
        return float(np.abs(self.weights).max(initial=0.0)) if self.weights.ndim == 2 else math.nan


@dataclass(frozen=True, kw_only=True, eq=False)
class BetweenPublished(Message):
    """What the clients agree on of the models that learn between rounds, in the version of a round.

    With `cells`, the table in `agreed` holds the rows that these name: those that changed since the version before.
    Without, it is the whole table, for a client that lacks the version before.
    """

    version: int
    agreed: AgreedState
    cells: FloatArray | None = None


@dataclass(frozen=True, kw_only=True)
class SlotLosses:
    """What a client measured of one model: sums over its records, so that totals are exact for any split.

    `loss` and `square` are sums of scores and of their squares, `proper` that of proper scores. `history` is the sum
    over the sampled rounds of share x mean score, `history_share` the sum of those shares, `history_records` the
    records behind it.
    """

    loss: float
    square: float
    proper: float
    history: float = 0.0
    history_share: float = 0.0
    history_records: int = 0


@dataclass(frozen=True, kw_only=True)
class LabelSums:
    """Sums of the incumbent's scores over the records of one label."""

    label: str
    count: int
    loss: float
    square: float


@dataclass(frozen=True, kw_only=True)
class Served:
    """Counts over a client's records of the predictions it served, each made just before its record was learnt.

    `shares` is what part each model that learns between rounds has in them, times the records.
    """

    records: int = 0
    correct: int = 0
    absolute_error: float = 0.0
    no_change: float = 0.0
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Update(Message):
    """What a client sends in a round: sums and differences; what these tell of records is in docs/trust.md.

    One with `records` 0 has nothing but positions and `rejected`.

    `attempt` is its incarnation and a counter. `spans` are the positions its records cover. `new_labels` are those
    not yet in the registry; differences have a column for each, after the registered ones, and `new_features` are
    unused until they are registered. `differences` are those of the trained slots. `new` and `old` are the scores by
    label of the model that serves the client, on this round's records and on those held back; `held` and `let_go`
    (ordinals) are how this round changes the latter. `squared_norm` is the sum over records of |z|^2, `largest_norm`
    the largest |z|. `learnt` is what the round did to the models that learn between rounds.
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


@dataclass(frozen=True, kw_only=True)
class Score(Message):
    """After an alarm: the coordinator asks for candidates to be scored on the alarm round's records.

    For the slots named in `relabel` clients also send the sums S[a, b] of max(log p_b, -2 ln K) over their records of
    label a. What is asked may depend on the answers before: `stage` counts.
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
    """A client's answer to Score."""

    client: str
    attempt: str
    entry: int
    epoch: int
    losses: Mapping[str, SlotLosses]
    differences: Mapping[str, FloatArray]
    stage: int = 1
    relabelling: Mapping[str, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """An update that counts."""

    client: str
    attempt: str
    spans: tuple[Span, ...]
    records: int
    rejected: int


@dataclass(frozen=True, kw_only=True)
class RoundClosed(Message):
    """A ledger entry: which updates count. This is the truth about what was trained on.

    Entries have consecutive numbers. One with `records` 0 moves positions only (past bad records): its round is
    opened again. `losses` are the mean scores of the live models, `readings` where the detectors stand, `model` the
    digest of the model that serves next. `unlearnt` counts records that a model of another library could not learn.
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


@dataclass(frozen=True, kw_only=True)
class Restarted(Message):
    """A new epoch begins: why, and from which model."""

    round: int
    epoch: int
    cause: str
    statistic: float
    threshold: float
    chosen: str
    since: int
    clients: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LocalDrift(Message):
    """Some clients drifted and the rest did not; `state` is latched, branched, merged, returned or released.

    Since when, at which labels and how strongly is what the alarm told that named them.
    """

    round: int
    epoch: int
    clients: tuple[str, ...]
    labels: tuple[str, ...]
    since: int
    state: str
    statistic: float
    threshold: float


@dataclass(frozen=True, kw_only=True)
class Noticed(Message):
    """Something changed that is no drift of the concept, and no reason for a restart: `cause` is class-mix."""

    round: int
    epoch: int
    cause: str
    statistic: float
    threshold: float
    since: int
    labels: tuple[str, ...] = ()


FromClient = Join | Leave | Update | Scores
FromCoordinator = (
    Joined
    | Left
    | Refusal
    | RoundOpened
    | RegistryPublished
    | ModelPublished
    | BetweenPublished
    | Score
    | RoundClosed
    | Restarted
    | LocalDrift
    | Noticed
)
