"""What a profile of Master-FL is: it chooses the live models of each round, and answers alarms.

A profile is a state machine over rounds. In every round the coordinator asks it to `open` (which models play or
train), hands back what the clients measured (`close`), and then either lets it `advance` or, after an alarm,
`deliberate`: candidates are scored until one is chosen, and the profile `conclude`s. A profile holds models and
losses, never records. It knows no clients' buffers, and of messages only three values that it asks for or is told:
`Held` (what clients hold back), `Apart` (who trains for himself) and `LabelSums`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamfl.core.alarm import Alarm, Reading
from streamfl.core.arrays import FloatArray
from streamfl.core.messages import Apart, Held, LabelSums


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
        The clients it is for: those score and train it. None: all score it, and all but those apart train it.
    history
        Sampled old rounds on which it is scored as well.
    whitened
        Whether its step is whitened by the second moments of the features.
    """

    name: str
    W: FloatArray
    eta: float
    trained: bool = True
    clients: tuple[str, ...] | None = None
    history: tuple[int, ...] = ()
    whitened: bool = False


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


@dataclass(frozen=True, slots=True, eq=False)
class ClientPart:
    """What one client measured in a round.

    Parameters
    ----------
    records
        Records scored.
    losses
        By live model, the sum of its scores.
    new, old
        Sums of the scores of the model that serves the client, by label: on the round's records, and on those held.
    """

    records: int
    losses: Mapping[str, float]
    new: tuple[LabelSums, ...] = ()
    old: tuple[LabelSums, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What the clients measured of one model in a round.

    Parameters
    ----------
    loss
        F(t)(x(t)): the mean score before training, each record weighing the same. Tests look at it.
    proper
        The mean proper score, likewise. Models compete by it.
    stepped
        The model after its step; the model itself where it was only scored.
    variance
        Variance of the score over the records.
    history_loss, history_records
        Its mean score over the sampled rounds it asked for, rounds weighing the same, and the records behind it.
    """

    loss: float
    proper: float
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
    known_labels
        The labels that were registered when the epoch began; empty in regression.
    clients
        What each client measured, by name.
    live
        The live models as they were played, before their steps.
    """

    round: int
    records: int
    played: Mapping[str, Played]
    largest_norm: float = 1.0
    loss_bound: float = 1.0
    known_labels: tuple[str, ...] = ()
    clients: Mapping[str, ClientPart] = field(default_factory=dict)
    live: tuple[LiveModel, ...] = ()

    def loss_at(self, name: str, clients: Iterable[str]) -> float:
        """Return the mean score of a live model over the records of some clients; NaN without any."""
        parts = [self.clients[c] for c in clients if c in self.clients and name in self.clients[c].losses]
        records = sum(part.records for part in parts)
        return sum(part.losses[name] for part in parts) / records if records else float("nan")


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


@dataclass(frozen=True, slots=True)
class Local:
    """News of clients that drifted alone: `state` is latched, branched, merged, returned or released.

    The evidence is that of the alarm which named them.
    """

    round: int
    epoch: int
    clients: tuple[str, ...]
    labels: tuple[str, ...]
    since: int
    state: str
    statistic: float
    threshold: float


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

    def conclude(self, deliberation: Deliberation) -> Restart | Local:
        """Begin the next epoch from the chosen model, or keep the clients apart that alone have drifted."""
        ...

    def advance(self, t: int) -> tuple[Local, ...]:
        """Go on after a round without an alarm; tell what became of clients apart."""
        ...

    def readings(self) -> Mapping[str, Reading]:
        """Return where each detector stands."""
        ...

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express every kept model: the registry or the scaler changed."""
        ...
