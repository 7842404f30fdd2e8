"""The open round: what every client is to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite

from streamfl.bounds import MOST_POSITIONS
from streamfl.protocol.messages.base import FieldGroup, Message
from streamfl.protocol.messages.decision_rule import LIKELIEST, DecisionRule


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A live model of a round: where to find its weights, and what clients do with it.

    Examples
    --------
    >>> Slot(name="branch-0", version=9, eta=0.1, clients=("c3",)).is_for("c4")
    False
    """

    name: str  # the slot's name, under which `ModelPublished` carries the weights
    version: int  # the version of the weights
    eta: float  # the step size of its local step
    trained: bool = True  # whether clients train it; otherwise they only score it, as for an average
    clients: tuple[str, ...] | None = None  # the clients that score and train it; None for all
    history: tuple[int, ...] = ()  # the sampled rounds on which it is scored as well

    # Whether the coordinator preconditions the step by second moments. In place of a difference clients then send the
    # sum over their records of the gradient of the loss, without a penalty: on the grid of the round, in regression
    # in 8 significant bits.
    whitened: bool = False

    def is_for(self, client: str) -> bool:
        """Tell whether a client scores this model."""
        return self.clients is None or client in self.clients


def asked_of(client: str, slots: Sequence[Slot]) -> tuple[Slot, ...]:
    """Return the slots that a client scores."""
    return tuple([slot for slot in slots if slot.clients is None or slot.is_for(client)])


def wrong_slots(slots: Sequence[Slot]) -> str | None:
    """Return why there can be no such slots, or None."""
    if len({slot.name for slot in slots}) != len(slots):
        return "a model twice"
    return None if all(isfinite(slot.eta) for slot in slots) else "a step is not a number"


@dataclass(frozen=True, kw_only=True)
class HoldoutRule:
    """Which records clients hold out of training, to compare new records with."""

    per_label: int  # the most records of one label that a client holds out
    since: int  # records of earlier rounds leave the holdout
    renewed: Mapping[str, int] = field(default_factory=dict)  # a later such round for some clients, by name

    def since_at(self, client: str) -> int:
        """Return the first round whose records a client may still hold out."""
        return max(self.since, self.renewed.get(client, 0))


@dataclass(frozen=True, kw_only=True)
class BranchGroup:
    """Clients that score the models of all clients, but train only the models that are theirs alone."""

    clients: tuple[str, ...]
    serves: str  # the slot of the model that serves them
    branch: str = ""  # the name of their branch; empty while they are latched


@dataclass(frozen=True, kw_only=True)
class MomentsAsked(FieldGroup):
    """Which moments of their records clients send, and how coarsely they round what is made of them.

    >>> MomentsAsked(moments=True, measured=("c1",)).of("c0")
    False
    """

    moments: bool = False  # whether updates carry the moments of features
    second_moments: bool = False  # whether updates carry second moments
    measured: tuple[str, ...] | None = None  # the clients whose updates carry these moments, in turn; None: all

    # The grid of whitened steps, by row of a weight matrix: see `streamfl.learning.grid`. Without exponents no
    # deviation is known yet.
    exponents: tuple[int, ...] = ()

    def of(self, client: str) -> bool:
        """Tell whether it is a client's turn to send moments."""
        return self.measured is None or client in self.measured


@dataclass(frozen=True, kw_only=True)
class EarlierRecords(FieldGroup):
    """Which records clients keep from round to round, to score models on them again."""

    keep: int = 0  # how many of this round's records a client keeps for the history sample
    # The other rounds in the history sample; records of rounds that are not named leave it.
    sampled: tuple[int, ...] = ()
    held: HoldoutRule | None = None  # the rule of the holdout; None: no record is held out


@dataclass(frozen=True, kw_only=True)
class TotalsAsked(FieldGroup):
    """Whether clients send sums of which only totals are used, and who masks them."""

    # Whether updates and scores carry sums that are added up over all clients, see `Update.sums`.
    pooled: bool = False
    roster: int = 0  # the version of the `Roster` whose clients mask these sums; 0: they are not masked

    # The entry whose total is asked for again, of the same clients and records; None for none. In any other entry a
    # client adds records to those over which it has told a total before.
    repeats: int | None = None


@dataclass(frozen=True, kw_only=True)
class RoundOpened(Message):
    """Coordinator: a round begins.

    Published when enough clients have joined, in the same transaction as the `RoundClosed` before it, and again by a
    coordinator that was restarted. The registry and the models that it names come in messages of their own, in any
    order.
    """

    # The ledger entry that will close the round. A round that brings no record is opened again, under the next entry.
    entry: int
    round: int
    epoch: int
    block: int  # the number of the block in its epoch
    registry: int  # the version of the registry in whose coordinates differences are sent
    slots: tuple[Slot, ...]  # the live models
    serves: str  # the slot of the incumbent, the model that serves
    # The number of labels that were registered when the epoch began. Scores are bounded by it.
    known_labels: int
    # Seconds from this message until clients close their buffers; None: each closes when its own buffer is full.
    closes: float | None = None

    # With rounds by event time, the period whose records the round takes: see
    # `streamfl.machines.client.intake.period`.
    period: int | None = None
    apart: tuple[BranchGroup, ...] = ()  # groups of clients that do not train the models of all clients
    asks: MomentsAsked = MomentsAsked()  # the moments that updates carry
    earlier: EarlierRecords = EarlierRecords()  # the records that clients keep from round to round
    totals: TotalsAsked = TotalsAsked()  # whether clients send sums
    decision: DecisionRule = LIKELIEST  # which label answers, by the probabilities of all

    # How many times a restarted coordinator has opened this entry again. It has lost what it had received: clients
    # that hear a larger number than before send their update again.
    resumed: int = 0

    # Whether online models learn. `OnlinePublished` carries their agreed state, with the number of the round as its
    # version.
    online: bool = False
    tested: str = ""  # the slot whose scores updates sum by label; empty: the one that serves the client

    @cached_property
    def wrong(self) -> str | None:
        """Return why there can be no such round, or None; cached for all clients of a process."""
        return wrong_slots(self.slots) or self._wrong_numbers() or self.decision.wrong()

    def _wrong_numbers(self) -> str | None:
        held = self.earlier.held.per_label if self.earlier.held is not None else 0
        if self.period is not None and not abs(self.period) < MOST_POSITIONS:
            return "the period of the round is out of the range of times"
        if min(self.entry, self.round) < 1 or min(self.known_labels, self.resumed, self.earlier.keep, held) < 0:
            return "the round has impossible numbers"
        named = {self.serves, self.tested or self.serves, *(group.serves for group in self.apart)}
        if not named <= {slot.name for slot in self.slots}:
            return "the round is served or tested by a model that it does not name"
        return None if self.closes is None or isfinite(self.closes) else "the round closes at no time"

    @property
    def scores_again(self) -> bool:
        """Return whether records of earlier rounds are scored again, or some of this round are kept for that."""
        kept = self.earlier.held is not None or self.earlier.keep > 0
        return kept or any(slot.history for slot in self.slots)

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

    def branch_of(self, client: str) -> str:
        """Return the name of the branch of a client, empty without one."""
        group = self.group_of(client)
        return "" if group is None else group.branch

    def trained_by(self, client: str, slots: Sequence[Slot]) -> set[str]:
        """Return which of some slots a client trains, by name."""
        is_apart = self.group_of(client) is not None
        trained = [slot for slot in slots if slot.trained and slot.is_for(client)]
        return {slot.name for slot in trained if slot.clients is not None or not is_apart}
