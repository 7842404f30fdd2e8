"""What a profile of Master-FL is: it chooses the live models of each round, and answers alarms.

A profile is a state machine over rounds. In every round the coordinator asks it to `open` (which models play or
train), hands back what the clients measured (`close`), and then either lets it `advance` or, after an alarm, lets
it `restart` from one of its candidates. A profile holds models and losses, never records; it knows neither
clients' buffers nor messages.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from streamfl.core.alarm import Alarm, Reading
from streamfl.core.arrays import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class LiveModel:
    """A model that clients score in a round, and train unless it is only watched.

    Parameters
    ----------
    name
        Its slot, reused by successors.
    W
        Weights, shape (d, columns).
    eta
        Step size of this round.
    trained
        False for models that are scored only.
    clients
        The clients it is for; None for all.
    history
        Sampled old rounds on which it is scored as well.
    """

    name: str
    W: FloatArray
    eta: float
    trained: bool = True
    clients: tuple[str, ...] | None = None
    history: tuple[int, ...] = ()


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
    """

    live: tuple[LiveModel, ...]
    serves: str
    block: int = 1
    keep: int = 0
    sampled: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What the clients measured of one model in a round.

    Parameters
    ----------
    loss
        F(t)(x(t)): the mean score before training, each record weighing the same.
    stepped
        The model after its step; the model itself where it was only scored.
    variance
        Variance of the score over the records.
    history_loss, history_records
        Its mean score over the sampled rounds it asked for, rounds weighing the same, and the records behind it.
    """

    loss: float
    stepped: FloatArray
    variance: float = 0.0
    history_loss: float | None = None
    history_records: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """What a closed round brought.

    Parameters
    ----------
    round
        Its number.
    records
        Records scored.
    played
        Its live models, by name.
    largest_norm
        The largest Euclidean norm of a record's features.
    loss_bound
        What a training loss was divided by to become a score: 2 ln K.
    """

    round: int
    records: int
    played: Mapping[str, Played]
    largest_norm: float = 1.0
    loss_bound: float = 1.0


@dataclass(frozen=True, slots=True)
class Restart:
    """The decision after an alarm: a new epoch, begun from a chosen model."""

    round: int
    epoch: int
    alarm: Alarm
    chosen: str


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

    def candidates(self, scratch: FloatArray) -> Mapping[str, FloatArray]:
        """Return, after an alarm, the models that must be scored before a restart, by name."""
        ...

    def restart(self, alarm: Alarm, observed: Observed, scored: Mapping[str, Played], scratch: FloatArray) -> Restart:
        """Begin the next epoch with the round after, from the best model as it was stepped in this one."""
        ...

    def advance(self, t: int) -> None:
        """Go on after a round without an alarm."""
        ...

    def readings(self) -> Mapping[str, Reading]:
        """Return where each detector stands."""
        ...

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express every kept model: the registry or the scaler changed."""
        ...
