"""The interface of profiles: a profile chooses the live models of each round, and answers alarms.

A profile is a state machine over rounds. In every round the coordinator calls `open`, which returns the live models,
and `close`, with what the clients measured. Without an alarm it then calls `advance`. After an alarm it calls
`deliberate`, has candidates scored until one can be chosen, and calls `conclude`.

A profile holds models and losses, never records. Of the messages it uses only four values: `HoldoutRule` (the records
that clients hold out), `BranchGroup` (clients that train models of their own), `LocalDrift` (an announcement about
clients apart), and `InputsMoved` (an alarm that is no drift).
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, Self

from streamfl.arrays import FloatArray
from streamfl.learning.drift.detector import Detector
from streamfl.learning.drift.evidence import ClientEvidence, LiveModel, ModelEvidence, RoundEvidence
from streamfl.learning.local_round import Learner
from streamfl.protocol.alarm import Alarm, Reading
from streamfl.protocol.kinds import Kind
from streamfl.protocol.messages import BranchGroup, HoldoutRule, InputsMoved, LocalDrift

# Values of options of profiles: see `PaperSettings`.
Start = Literal["scratch", "warm"]
Optimistic = Literal["history", "regret"]
OrderAfterAlarm = Literal["reset", "continue"]

# Blocks of a million rounds: a block's schedule is drawn at once, and no known stream is longer.
# docs/choices.md, "Bounds and rounding".
HIGHEST_ORDER = 20


def model_of_round(t: int) -> str:
    """Return the name by which an operator asks for the model that served in round t."""
    return f"round-{t}"


@dataclass(frozen=True, slots=True, eq=False)
class RoundPlan:
    """What a profile wants of a round."""

    live: tuple[LiveModel, ...]  # the live models
    serves: str  # the name of the incumbent
    block: int = 1  # number of the block in its epoch, from 1
    # The number of this round's records that a client keeps for the history sample; 0 if the round is not sampled.
    keep: int = 0
    sampled: tuple[int, ...] = ()  # the old rounds that stay in the history sample; clients forget the others
    held: HoldoutRule | None = None  # which records clients hold out from training; None means none
    apart: tuple[BranchGroup, ...] = ()  # groups of clients that do not train the models of all
    tested: str = ""  # the name of the model whose scores clients sum by label; empty: the one that serves each

    @property
    def compared(self) -> tuple[LiveModel, ...]:
        """Return the live models by whose losses models and clients are compared: not one that is only tested."""
        return tuple(model for model in self.live if model.name != self.tested or model.name == self.serves)

    def served_by(self, client: str) -> str:
        """Return the name of the model that serves a client."""
        return next((group.serves for group in self.apart if client in group.clients), self.serves)


@dataclass(frozen=True, slots=True)
class Restart:
    """The decision after an alarm: a new epoch, begun from a chosen model.

    `permutation` says how the labels have changed, where that is sure; it is empty otherwise. In models of the old
    concept column a becomes the old column pi(a), as in a relabelled model that is chosen. Where there was a choice,
    `scores` has the mean score of each candidate, and `clients_better` says at how many clients the chosen one
    was better than the model that had served, and of how many. `begins_again` says that online models begin again,
    because untrained ones predict the round better.
    """

    round: int
    epoch: int
    alarm: Alarm
    chosen: str
    permutation: tuple[int, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    clients_better: tuple[int, int] = (0, 0)
    begins_again: bool = False


# What a profile decides after an alarm. `InputsMoved` keeps the epoch; all rungs continue from its best model.
Decision = Restart | LocalDrift | InputsMoved
Decisions = Sequence[Decision]


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Models to be scored on the records of the round whose alarm is deliberated."""

    # The models to score; those with `trained` are also stepped. There may be none, if something else is asked for.
    models: tuple[LiveModel, ...]
    # Names of those for which clients also measure how well each label fits the outputs.
    relabel: tuple[str, ...] = ()
    wants_untrained_loss: bool = False  # whether clients also send `Scores.untrained_loss`


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The clients' answers to an `Ask`."""

    models: Mapping[str, ModelEvidence]  # by model, what all clients measured together
    clients: Mapping[str, ClientEvidence]  # by client, its number of records and, by model, the sum of its scores

    # By client and model, S of shape (K, K): S[a, b] is the sum of max(log p_b, -2 ln K) over the client's records of
    # label a.
    relabelling: Mapping[str, Mapping[str, FloatArray]] = field(default_factory=dict)

    # By client, the mean log-loss of untrained online models on its records, in nats.
    untrained_losses: Mapping[str, float] = field(default_factory=dict)


class Deliberation(Protocol):
    """The steps after an alarm: candidates are scored, as often as it asks, until one can be chosen."""

    def ask(self) -> Ask | None:
        """Return what must be scored next; None when the deliberation can be concluded."""
        ...

    def answer(self, answer: Answer) -> None:
        """Take the clients' scores; empty if no client answered in time, or none was asked for."""
        ...


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """What a profile is made from: how the federation learns, and the user's options.

    Parameters
    ----------
    rho_scale, optimistic, order_after_alarm
        See `PaperSettings`. A profile that uses one names it in `takes`.
    start
        Where models start: `scratch`, or `warm` from the model that served last. None: the profile's default.
    max_order
        No instance lives longer than 2^max_order rounds. None: no cap.
    step
        The largest step. None: the profile's default.
    """

    learner: Learner
    horizon: int
    detector: Callable[[], Detector]
    rho_scale: float = 1.0
    optimistic: Optimistic = "history"
    start: Start | None = None
    order_after_alarm: OrderAfterAlarm = "reset"
    max_order: int | None = 8
    step: float | None = None


class Profile(Kind):
    """A profile: Algorithms 2 and 3 in one of their forms, as a dataclass whose fields are its whole state.

    `streamfl.testing.check_profile` checks a new one.

    Attributes
    ----------
    profile
        A field that names the class in saved states: `profile: Literal["paper"] = "paper"`.
    takes
        The `ProfileOptions` that it uses besides learner, horizon and step. Other options are refused if given.
    restarts
        Whether it has epochs that an operator can end.
    constants
        The fields that come from the options and never change.
    epoch
        A field: the number of the epoch, from 1.
    """

    named_by = "profile"
    takes: ClassVar[tuple[str, ...]] = ()
    restarts: ClassVar[bool] = True
    constants: ClassVar[tuple[str, ...]] = ()
    profile: str
    epoch: int

    @classmethod
    @abc.abstractmethod
    def of(cls, options: ProfileOptions) -> Self:
        """Return a new profile."""

    def outlook(self) -> str:
        """Return what users should know before it starts; empty if nothing."""
        return ""

    def wrong_beside(self, configured: "Profile") -> str | None:
        """Return why this cannot have come from a configured profile, or None.

        A saved profile is checked by it: one whose constants somebody else chose may take any time.
        """
        if self.profile != configured.profile:
            return f"profile {self.profile}, and {configured.profile} is configured"
        other = [name for name in self.constants if getattr(self, name) != getattr(configured, name)]
        return f"other {other[0]} of profile {self.profile} than are configured" if other else None

    @property
    def promotions(self) -> int:
        """The number of times that another model took over without an alarm."""
        return 0

    @property
    def noticed(self) -> Alarm | None:
        """An alarm of the last round that restarts nothing: the mix of labels changed."""
        return None

    @property
    def past_rounds(self) -> tuple[int, ...]:
        """The rounds to whose model an operator can return, by a restart with `model_of_round`; youngest first."""
        return ()

    @abc.abstractmethod
    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        """Begin round t.

        Parameters
        ----------
        scratch
            An untrained model of the current shape.
        squared_norm
            Running mean of the records' squared feature norm, by which scale-free steps are divided.
        """

    @abc.abstractmethod
    def close(self, observed: RoundEvidence) -> Alarm | None:
        """Take the losses and the stepped models of the open round, and return an alarm if there is one."""

    @abc.abstractmethod
    def deliberate(self, alarm: Alarm, observed: RoundEvidence, scratch: FloatArray) -> Deliberation:
        """Begin to look for the model that serves after an alarm."""

    @abc.abstractmethod
    def conclude(self, deliberation: Deliberation) -> Decision | None:
        """Begin the next epoch from the chosen model, set clients apart that drifted alone, or go on.

        None: the alarm was none, and the round is to be finished by `advance`.
        """

    @abc.abstractmethod
    def advance(self, t: int) -> tuple[LocalDrift, ...]:
        """Finish a round without an alarm, and return what changes for clients apart."""

    @abc.abstractmethod
    def readings(self) -> Mapping[str, Reading]:
        """Return the last reading of each detector, by name."""

    @abc.abstractmethod
    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express every kept model after a change of the registry or the scaler."""
