"""The evidence for detectors and profiles: what the clients of a closed round measured of its live models."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl.protocol.messages import FeatureMoved, LabelSums


@dataclass(frozen=True, slots=True, eq=False)
class LiveModel:
    """A model that clients score in a round, and train if `trained`."""

    name: str  # its slot, which its successors reuse
    W: FloatArray  # weights, shape (d, columns)
    eta: float  # step size of this round
    trained: bool = True  # False for models that are only scored
    # The clients that score and train it. None: all score it, and all but the clients apart train it.
    clients: tuple[str, ...] | None = None
    history: tuple[int, ...] = ()  # sampled old rounds on which it is also scored
    whitened: bool = False  # whether its step is whitened by the second moments of the features


@dataclass(frozen=True, slots=True, eq=False)
class ClientEvidence:
    """What one client measured in a round."""

    records: int  # records scored
    losses: Mapping[str, float]  # by live model, the sum of its scores
    # Sums by label of the scores of the model that serves the client: on the round's records, and on held-out ones.
    new: tuple[LabelSums, ...] = ()
    old: tuple[LabelSums, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ModelEvidence:
    """What the clients measured of one model in a round."""

    # F(t)(x(t)): the mean score before training, over all records. Tests use it.
    loss: float
    # The mean proper score, likewise. Models compete by it.
    proper: float
    stepped: FloatArray  # the model after its step; the same model if it was only scored
    variance: float = 0.0  # variance of the score over the records

    # Its mean score over the sampled rounds that it names, with equal weight for each round, and the number of
    # records behind it.
    history_loss: float | None = None
    history_records: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RoundEvidence:
    """The measurements of a closed round."""

    round: int
    records: int  # records scored
    models: Mapping[str, ModelEvidence]  # the measurements of its live models, by name
    largest_norm: float = 1.0  # the largest Euclidean norm of a record's features
    loss_bound: float = 1.0  # the training loss that scores 1: 2 ln K
    known_labels: tuple[str, ...] = ()  # the labels that were registered when the epoch began; empty in regression
    clients: Mapping[str, ClientEvidence] = field(default_factory=dict)  # the measurements of each client, by name
    live: tuple[LiveModel, ...] = ()  # the live models before their steps
    serves: str = ""  # the name of the model that served all clients but those apart
    # The mean log-loss of the agreed online models over the clients that are compared, divided by `loss_bound` and at
    # most 1 at each; None if it is not known.
    online_loss: float | None = None
    # Their mean log-loss at each client, in nats: at those whose models are those of all, and whose loss is known.
    online_losses: Mapping[str, float] = field(default_factory=dict)
    # After an alarm: features that surely differ from those since held-out records have been gathered; empty if it
    # is not known.
    moved: tuple[FeatureMoved, ...] = ()
    # After an alarm: the deviation over all features then and now, if it surely differs; see `SpreadBaseline`.
    spread: tuple[float, float] | None = None

    @property
    def loss(self) -> float:
        """The mean score of the model that served."""
        return self.models[self.serves].loss

    def loss_at(self, name: str, clients: Iterable[str]) -> float:
        """Return the mean score of a live model over the records of some clients; NaN if there are none."""
        parts = [self.clients[c] for c in clients if c in self.clients and name in self.clients[c].losses]
        records = sum(part.records for part in parts)
        return sum(part.losses[name] for part in parts) / records if records else float("nan")
