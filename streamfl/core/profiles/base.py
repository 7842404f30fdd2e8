"""What a profile of Master-FL is: it chooses the live models of each round, and answers alarms.

A profile is a state machine over rounds. In every round the coordinator asks it to `open` (which models play or
train), hands back what the clients measured (`close`), and then either lets it `advance` or, after an alarm,
`deliberate`: candidates are scored until one is chosen, and the profile `conclude`s. A profile holds models and
losses, never records. It knows no clients' buffers, and of messages only three values: `HoldoutRule` (what clients
hold back), `BranchGroup` (clients that train models of their own), and `LocalDrift` (what becomes of clients apart).
"""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, Self

from streamfl.core.arrays import FloatArray
from streamfl.core.drift.detector import Detector
from streamfl.core.drift.evidence import ClientPart, LiveModel, Observed, Played
from streamfl.core.kinds import Kind
from streamfl.core.learning.local_round import Learner
from streamfl.core.protocol.alarm import Alarm, Reading
from streamfl.core.protocol.messages import BranchGroup, HoldoutRule, LocalDrift

Start = Literal["scratch", "warm"]

# Blocks of a million rounds: a longer one is drawn at once, and no stream is known to have as many.
# docs/choices.md, "Bounds and rounding".
HIGHEST_ORDER = 20


@dataclass(frozen=True, slots=True, eq=False)
class RoundPlan:
    """A round as it begins.

    Parameters
    ----------
    live
        The live models.
    serves
        The name of the one that serves: the incumbent.
    block
        Number of the block in its epoch, from 1.
    keep
        How many records of this round a client keeps for the history sample; 0 when the round is not sampled.
    sampled
        The old rounds that stay in the history sample; clients forget the others.
    held
        What clients hold back from training; None: nothing.
    apart
        Groups of clients that do not train the models of all.
    """

    live: tuple[LiveModel, ...]
    serves: str
    block: int = 1
    keep: int = 0
    sampled: tuple[int, ...] = ()
    held: HoldoutRule | None = None
    apart: tuple[BranchGroup, ...] = ()

    def served_by(self, client: str) -> str:
        """Return the name of the model that serves a client."""
        return next((group.serves for group in self.apart if client in group.clients), self.serves)


@dataclass(frozen=True, slots=True)
class Restart:
    """The decision after an alarm: a new epoch, begun from a chosen model.

    `permutation` is what has become of the labels, where that is sure: column a of what knew the concept of before is
    to be what column pi(a) was, as in the chosen model if that is a relabelled one.
    """

    round: int
    epoch: int
    alarm: Alarm
    chosen: str
    permutation: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Models to be scored on the records of the round whose alarm is deliberated.

    Parameters
    ----------
    models
        What to score, and to train.
    relabel
        Those of them of which it is also asked which labels would fit their outputs.
    """

    models: tuple[LiveModel, ...]
    relabel: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What came back.

    Parameters
    ----------
    played
        By model.
    clients
        By client: its records, and by model the sum of its scores.
    relabelling
        By client and model, S of shape (K, K): the sum of max(log p_b, -2 ln K) over the client's records of label a.
    """

    played: Mapping[str, Played]
    clients: Mapping[str, ClientPart]
    relabelling: Mapping[str, Mapping[str, FloatArray]] = field(default_factory=dict)


class Deliberation(Protocol):
    """What follows an alarm: candidates are scored, as often as it asks, until one of them can be chosen."""

    def ask(self) -> Ask | None:
        """Return what must be scored next; None when it can be concluded."""
        ...

    def answer(self, answer: Answer) -> None:
        """Take what was scored."""
        ...


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """What a profile is made from: how the federation learns, and what a person chose.

    Parameters
    ----------
    learner
        How clients learn.
    horizon
        Rounds to prepare for.
    detector
        Makes a new drift detector of the kind that was chosen.
    rho_scale, optimistic, order_after_alarm
        As of `PaperSettings`; a profile that heeds one names it in `takes`.
    start
        Where models start: `scratch`, or `warm` from the model that served last; None leaves it to the profile.
    max_order
        Nothing lives longer than 2^max_order rounds; None has no cap.
    step
        The largest step; None leaves it to the profile.
    """

    learner: Learner
    horizon: int
    detector: Callable[[], Detector]
    rho_scale: float = 1.0
    optimistic: Literal["history", "regret"] = "history"
    start: Start | None = None
    order_after_alarm: Literal["reset", "continue"] = "reset"
    max_order: int | None = 8
    step: float | None = None


class Master(Kind):
    """A profile, Algorithms 2 and 3 in one of their forms: a dataclass whose fields are all that it remembers.

    `streamfl.testing.check_profile` says whether a new one keeps the rules.

    Attributes
    ----------
    profile
        A field that names the class where a profile is saved: `profile: Literal["paper"] = "paper"`.
    takes
        Which of `ProfileOptions` it heeds besides learner, horizon and step; a flag that is given in vain is refused.
    epoch
        A field: the number of the epoch, from 1.
    """

    named_by = "profile"
    removed: ClassVar[Mapping[str, str]] = {
        "calibrated": "profile calibrated was removed: begin anew with profile adaptive or paper"
    }
    takes: ClassVar[tuple[str, ...]] = ()
    profile: str
    epoch: int

    @classmethod
    @abc.abstractmethod
    def of(cls, options: ProfileOptions) -> Self:
        """Return the profile in its first state."""

    def outlook(self) -> str:
        """Return what people should know before it starts; empty if there is nothing to say."""
        return ""

    @property
    def promotions(self) -> int:
        """How often another model took over without an alarm."""
        return 0

    @property
    def noticed(self) -> Alarm | None:
        """An alarm of the last round that is no reason for a restart: a change of the mix of labels."""
        return None

    @abc.abstractmethod
    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        """Begin round t.

        Parameters
        ----------
        t
            The round.
        scratch
            An untrained model of today's shape.
        squared_norm
            Running mean of the records' squared feature norm, by which scale-free steps are divided.
        """

    @abc.abstractmethod
    def close(self, observed: Observed) -> Alarm | None:
        """Take the losses and the stepped models of the open round, and test."""

    @abc.abstractmethod
    def deliberate(self, alarm: Alarm, observed: Observed, scratch: FloatArray) -> Deliberation:
        """Begin to look for the model from which to go on after an alarm."""

    @abc.abstractmethod
    def conclude(self, deliberation: Deliberation) -> Restart | LocalDrift:
        """Begin the next epoch from the chosen model, or keep the clients apart that alone have drifted."""

    @abc.abstractmethod
    def advance(self, t: int) -> tuple[LocalDrift, ...]:
        """Go on after a round without an alarm; tell what became of clients apart."""

    @abc.abstractmethod
    def readings(self) -> Mapping[str, Reading]:
        """Return where each detector stands."""

    @abc.abstractmethod
    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express every kept model: the registry or the scaler changed."""
