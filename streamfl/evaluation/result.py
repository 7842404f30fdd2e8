"""What a run found: the JSON that `replay` and `demo` write, and what the report draws."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from streamfl.core.protocol.messages import LocalDrift, Noticed


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Figures(_Part):
    """One measure of the same predictions, taken at four moments.

    `prequential`: each record predicted just before it was learnt, by the model that answers predictions.
    `round_start`: by the model of the round's start. `post_update`: by the model after the round, which has
    learnt the record already. `no_change`: the client's previous label (or target), repeated.
    """

    prequential: float | None
    round_start: float | None
    post_update: float | None
    no_change: float | None

    @property
    def model_file(self) -> float | None:
        """What a file of `--model-out`, written before each round, would have scored: it holds the round's model."""
        return self.round_start


class Kappa(_Part):
    """Accuracy above chance: `cohen` against the class mix, `temporal` against NoChange."""

    cohen: float | None
    temporal: float | None


class Loss(_Part):
    """The bounded score in [0, 1] that the detectors see: before each record was learnt."""

    prequential: float | None


class DatedRestart(_Part):
    """One restart, as the control topic told it; `round` is the round whose loss raised the alarm.

    `time` is when the last record of that round was measured, if the source tells: ISO 8601, UTC.
    """

    round: int
    time: str | None = None
    epoch: int
    cause: str
    statistic: float
    threshold: float
    chosen: str
    since: int
    clients: tuple[str, ...]
    labels: tuple[str, ...]


class RoundLine(_Part):
    """One closed round. `accuracy` and `no_change` are means over its records; regression has `mae` there."""

    round: int
    epoch: int
    block: int
    records: int
    loss: float
    accuracy: float | None = None
    mae: float | None = None
    no_change: float | None = None


class Result(_Part):
    """The whole run. Classification has `accuracy` and `kappa`, regression `mae` and `rmse`.

    `label` is the column of the label, named or guessed, if the source names its columns. `left_out` are columns
    that are no features, though nobody dropped them: times, free text. `serving` is what part each
    model that learns between rounds had in what was served; empty without such models. `infinite` counts values.
    """

    streamfl: str
    source: str
    label: str = ""
    left_out: tuple[str, ...] = ()
    seed: int
    profile: str
    records: int
    accepted: int
    held_out: int
    rejected: int
    pending: int
    infinite: int = 0
    rounds: int
    clients: int
    seconds: float
    records_per_second: int
    accuracy: Figures | None = None
    mae: Figures | None = None
    rmse: Figures | None = None
    kappa: Kappa | None = None
    loss: Loss
    restarts: tuple[DatedRestart, ...]
    local_drifts: tuple[LocalDrift, ...]
    notices: tuple[Noticed, ...] = ()
    promotions: int
    serving: Mapping[str, float] = Field(default_factory=dict)
    unlearnt: int | None = None
    model_sha256: str
    per_round: tuple[RoundLine, ...]

    @property
    def measures(self) -> dict[str, Figures]:
        """Return what was measured, by its key: accuracy, or mae and rmse."""
        named = {"accuracy": self.accuracy, "mae": self.mae, "rmse": self.rmse}
        return {key: figures for key, figures in named.items() if figures is not None}
