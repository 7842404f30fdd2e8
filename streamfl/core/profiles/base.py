"""What a profile of Master-FL is: it chooses the live models of each round, and answers alarms.

A profile is a state machine over rounds. In every round the coordinator asks it to `open` (which models play or
train), hands back what the clients measured (`close`), and then either lets it `advance` or, after an alarm,
`deliberate`: candidates are scored until one is chosen, and the profile `conclude`s. A profile holds models and
losses, never records. It knows no clients' buffers, and of messages only three values: `Held` (what clients hold
back), `Apart` (clients that train models of their own), and `LocalDrift` (what becomes of clients apart).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamfl.core.arrays import FloatArray
from streamfl.core.drift.evidence import ClientPart, LiveModel, Observed, Played
from streamfl.core.protocol.alarm import Alarm, Reading
from streamfl.core.protocol.messages import Apart, Held, LocalDrift


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
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
    held: Held | None = None
    apart: tuple[Apart, ...] = ()

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


class Master(Protocol):
    """A profile: Algorithms 2 and 3 in one of their forms."""

    @property
    def epoch(self) -> int:
        """Return the number of the epoch, from 1."""
        ...

    @property
    def promotions(self) -> int:
        """Return how often another model took over without an alarm."""
        ...

    @property
    def noticed(self) -> Alarm | None:
        """Return an alarm of the last round that is no reason for a restart: a change of the mix of labels."""
        ...

    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> Opening:
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
        ...

    def close(self, observed: Observed) -> Alarm | None:
        """Take the losses and the stepped models of the open round, and test."""
        ...

    def deliberate(self, alarm: Alarm, observed: Observed, scratch: FloatArray) -> Deliberation:
        """Begin to look for the model from which to go on after an alarm."""
        ...

    def conclude(self, deliberation: Deliberation) -> Restart | LocalDrift:
        """Begin the next epoch from the chosen model, or keep the clients apart that alone have drifted."""
        ...

    def advance(self, t: int) -> tuple[LocalDrift, ...]:
        """Go on after a round without an alarm; tell what became of clients apart."""
        ...

    def readings(self) -> Mapping[str, Reading]:
        """Return where each detector stands."""
        ...

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express every kept model: the registry or the scaler changed."""
        ...
