"""The result of a run: the JSON that `replay` and `demo` write, and the content of the report."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from streamfl.core.protocol.messages import LocalDrift, Noticed


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Figures(_Part):
    """One metric over the same records, for four predictors.

    `prequential`: the serving model, just before it learns the record. `round_start`: the model of the rounds at the
    start of the round. `post_update`: the model after the round, which has learnt the record already. `no_change`:
    the client's previous label (or target), repeated.

    Two are over the records of the last rounds only. `model_file`: the file of `--model-out`, as it would have been
    written before the record's round. `last_rounds`: `prequential` on the same records.
    """

    prequential: float | None
    round_start: float | None
    post_update: float | None
    no_change: float | None
    model_file: float | None = None
    last_rounds: float | None = None


class Kappa(_Part):
    """Accuracy above chance: `cohen` against the class mix, `temporal` against NoChange."""

    cohen: float | None
    temporal: float | None


class Loss(_Part):
    """The bounded loss in [0, 1] that the detectors watch, measured before each record is learnt."""

    prequential: float | None


class BytesARecord(_Part):
    """Bytes of messages over the records of all clients, estimated from some rounds (`streamfl.transport.traffic`).

    `up`: what clients send. `down`: what the coordinator publishes, which every client reads. `raw`: the features of
    a record as float32.
    """

    up: float
    down: float
    raw: float


class DatedRestart(_Part):
    """One restart, as published on the control topic; `round` is the round whose loss raised the alarm.

    `time` is the time of the last record of that round, ISO 8601 in UTC, if the source has times.
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

    `label` is the label column, named or guessed; "" if the source has no column names. `left_out` are columns that
    were left out automatically: times, free text. `serving` is the share of each model between rounds in the
    predictions; empty without such models. `infinite` counts infinite values.
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
    bytes: BytesARecord | None = None
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
        """Return the metrics by their keys: accuracy, or mae and rmse."""
        named = {"accuracy": self.accuracy, "mae": self.mae, "rmse": self.rmse}
        return {key: figures for key, figures in named.items() if figures is not None}
