"""The state with which a coordinator continues after a kill; every Commit saves it."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from streamfl.arrays import HOLDS_ARRAYS
from streamfl.errors import PeerError
from streamfl.learning.drift.input_baseline import InputBaseline
from streamfl.learning.drift.inputs import Inputs
from streamfl.learning.drift.spread_baseline import SpreadBaseline
from streamfl.learning.drift.stuck_sensors import StuckSensors
from streamfl.learning.influence import Influence
from streamfl.learning.objectives import SeenLabels
from streamfl.learning.profiles.base import Profile
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.one_drift import Drift
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.messages import AgreedState, Join, Joined, MemberChanged, Roster
from streamfl.protocol.registry import Registry


@dataclass
class CoordinatorState:
    """All that a coordinator must remember; every Commit saves it."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    profile: Profile  # the profile and its models
    entry: int = 1  # the number of the open ledger entry
    resumed: int = 0  # how many times a restarted coordinator has opened it again
    round: int = 1  # the open round
    agreement: Agreement | None = None  # what the clients agree on; None before round 1
    members: dict[str, Member] = field(default_factory=dict)  # the ledger, by client
    known_labels: int = 0  # labels registered when the epoch began
    restarted: int = 0  # the round of the last restart; 0 before any
    rescaled: int = 0  # the round of the last restart that made the scaler follow the records again
    online: AgreedState | None = None  # the agreed state of the online models; None if there are none
    refused: int = 0  # messages refused for their content since the federation began
    seen: SeenLabels = field(default_factory=SeenLabels)  # what the objective asks to remember of labels

    # The clients whose turn it is to send moments in the open round; None: all. It is kept, so that a round that a
    # new coordinator opens again asks for the same, whatever client has left or come meanwhile.
    measured: tuple[str, ...] | None = None
    drifts: tuple[Drift, ...] = ()  # the last drifts that were announced
    period: int | None = None  # the open period, with rounds by event time

    # By client, the key that has signed its last Join: the key of its host. Empty for one that was admitted before it
    # joined.
    keys: dict[str, str] = field(default_factory=dict)
    barred: tuple[str, ...] = ()  # the clients that an operator has evicted and not admitted again
    changed: MemberChanged | None = None  # the last command of an operator
    held: bool = False  # whether an operator holds the federation: the open entry is not closed

    # The model that an operator wants an epoch to begin with when the open round closes, see `Command`; None: no
    # restart was ordered.
    restart: str | None = None
    # What is remembered of clients' earlier numbers, to bound their influence; sealed, where there is a secret.
    influence: Influence = field(default_factory=Influence)
    inputs: Inputs = field(default_factory=Inputs)  # what is remembered of the means of features, by client
    input_baseline: InputBaseline = field(
        default_factory=InputBaseline
    )  # their means since held-out records have been gathered
    # Likewise, how far the records of clients lie from the middle.
    spread_baseline: SpreadBaseline = field(default_factory=SpreadBaseline)
    standstill: StuckSensors = field(default_factory=StuckSensors)  # which of them stood still how long, by client
    roster: Roster | None = None  # the clients that mask their sums in the open round; None if sums are not masked
    # By partition, the identity of the log that its positions in the ledger are of, where it is known.
    logs: dict[str, str] = field(default_factory=dict)
    # The entry whose total of masked sums was asked for and not learnt, see `RoundOpened`; 0 for none.
    repeats: int = 0

    # The settings of the process that has saved it, by name, as it writes them: some 1.5 kB. Machines do not read
    # them.
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def online_digest(self) -> str:
        """Return the digest of the online models; empty if there are none."""
        return "" if self.online is None else self.online.chain

    def active(self) -> set[str]:
        """Return the members that have not left."""
        return {name for name, member in self.members.items() if not member.left}

    @property
    def agreed(self) -> Agreement:
        """Return what the clients agree on.

        Raises
        ------
        PeerError
            The federation has not begun.
        """
        if self.agreement is None:
            raise PeerError("the federation has not begun: nothing is agreed on")
        return self.agreement

    @property
    def registry(self) -> Registry:
        """Return the registry that is agreed on."""
        return self.agreed.registry

    def is_warming_up(self, settings: CoordinatorSettings) -> bool:
        """Tell whether the scaler follows the records of the open round."""
        warm_up, rounds = settings.warm_up, self.round - self.rescaled
        if not settings.scaling:
            return False
        return warm_up is None or rounds <= warm_up or (self.agreed.has_few_values and warm_up > 0)

    def alarm_or_order(self, alarm: Alarm | None) -> Alarm | None:
        """Return the alarm of the open round; if an operator has ordered a restart, one that asks for that model."""
        if self.restart is None:
            return alarm
        found = alarm or Alarm("operator", 0.0, 0.0, self.round)
        return replace(found, local=False, clients=() if found.local else found.clients, wanted=self.restart)

    def wrong(self) -> str | None:
        """Return why no coordinator can have had this state, or None.

        >>> from streamfl.learning.profiles.experts import Experts
        >>> CoordinatorState(Experts(), entry=3).wrong()
        'rounds of a federation that has not begun'
        """
        if self.agreement is None:
            begun = (self.entry, self.round, self.profile.epoch) != (1, 1, 1) or self.members
            return "rounds of a federation that has not begun" if begun else None
        if not self.members:
            return "a federation without members"
        labels = len(self.registry.labels)
        rounds = (0, self.restarted, self.round), (0, self.rescaled, self.round), (1, self.round, self.entry)
        rising = (*rounds, (0, self.repeats, self.entry))
        counts = [self.refused, self.resumed, *(count for member in self.members.values() for count in member.counts)]
        if not all(a <= b <= c for a, b, c in (*rising, (0, self.known_labels, labels))) or min(counts) < 0:
            return "impossible numbers"
        if not self.seen.is_possible:
            return "impossible counts of labels"
        if not all(one.fits for one in (self.inputs, self.input_baseline, self.spread_baseline, self.standstill)):
            return "what is remembered of inputs does not fit its clients and features"
        return self.registry.wrong

    def answer(self, join: Join, member: Member) -> Joined:
        """Return the answer to a member's Join: the open entry, and the member's account."""
        return Joined(
            client=join.client,
            nonce=join.nonce,
            incarnation=member.incarnation,
            entry=self.entry,
            positions=dict(member.positions),
            read=member.read,
            rejected=member.rejected,
            sample=member.sample,
            held=member.held,
            question=join.question,
            watermark=member.watermark,
            disclosed=member.disclosed,
            resumed=self.resumed,
        )
