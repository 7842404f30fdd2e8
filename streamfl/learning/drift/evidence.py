"""The evidence for detectors and profiles: what the clients of a closed round measured of its live models."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl.protocol.messages import LabelSums


@dataclass(frozen=True, slots=True, eq=False)
class LiveModel:
    """A model that clients score in a round, and train if `trained`.

    Parameters
    ----------
    name
        Its slot, which its successors reuse.
    W
        Weights, shape (d, columns).
    eta
        Step size of this round.
    trained
        False for models that are only scored.
    clients
        The clients that score and train it. None: all score it, and all but the clients apart train it.
    history
        Sampled old rounds on which it is scored, too.
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
class ClientEvidence:
    """What one client measured in a round.

    Parameters
    ----------
    records
        Records scored.
    losses
        By live model, the sum of its scores.
    new, old
        Sums by label of the scores of the model that serves the client: on the round's records, and on held-out ones.
    """

    records: int
    losses: Mapping[str, float]
    new: tuple[LabelSums, ...] = ()
    old: tuple[LabelSums, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ModelEvidence:
    """What the clients measured of one model in a round.

    Parameters
    ----------
    loss
        F(t)(x(t)): the mean score before training, over all records. Tests use it.
    proper
        The mean proper score, likewise. Models compete by it.
    stepped
        The model after its step; the same model if it was only scored.
    variance
        Variance of the score over the records.
    history_loss, history_records
        Its mean score over the sampled rounds that it names, with equal weight for each round, and the number of
        records behind it.
    """

    loss: float
    proper: float
    stepped: FloatArray
    variance: float = 0.0
    history_loss: float | None = None
    history_records: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RoundEvidence:
    """The measurements of a closed round.

    Parameters
    ----------
    round
        The round's number.
    records
        Records scored.
    models
        The measurements of its live models, by name.
    largest_norm
        The largest Euclidean norm of a record's features.
    loss_bound
        The training loss that scores 1: 2 ln K.
    known_labels
        The labels that were registered when the epoch began; empty in regression.
    clients
        The measurements of each client, by name.
    live
        The live models before their steps.
    serves
        The name of the model that served all clients but those apart.
    """

    round: int
    records: int
    models: Mapping[str, ModelEvidence]
    largest_norm: float = 1.0
    loss_bound: float = 1.0
    known_labels: tuple[str, ...] = ()
    clients: Mapping[str, ClientEvidence] = field(default_factory=dict)
    live: tuple[LiveModel, ...] = ()
    serves: str = ""

    @property
    def loss(self) -> float:
        """The mean score of the model that served."""
        return self.models[self.serves].loss

    def loss_at(self, name: str, clients: Iterable[str]) -> float:
        """Return the mean score of a live model over the records of some clients; NaN if there are none."""
        parts = [self.clients[c] for c in clients if c in self.clients and name in self.clients[c].losses]
        records = sum(part.records for part in parts)
        return sum(part.losses[name] for part in parts) / records if records else float("nan")
