"""The result of a run: the JSON that `replay` and `demo` write, and the content of the report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self, cast

from pydantic import Field, ValidationError, model_validator

from streamfl.errors import UsageError
from streamfl.protocol import messages
from streamfl.records.values.times import iso
from streamfl.run.evaluation.by_class import ByClass
from streamfl.run.evaluation.by_client import ByClient
from streamfl.run.evaluation.changes import Change
from streamfl.run.evaluation.compared import Compared
from streamfl.run.evaluation.part import ResultPart
from streamfl.run.renamed import result_now
from streamfl.run.summary import RoundLine


class Figures(ResultPart):
    """One metric over the same records, for four predictors.

    `prequential`: the serving model, just before it learns the record. `round_start`: the model of the rounds at the
    start of the round. `post_update`: the model after the round, which has learnt the record already. `no_change`:
    the client's previous label (or target), repeated.

    Three are over the records of the last rounds only. `model_file`: the file of `--model-out`, as it would have been
    written before the record's round. `own_file`: the client's own file of `--own-models-out`, likewise; None with
    more than 100 clients, or if a client has nothing of its own. `last_rounds`: `prequential` on the same records.

    If labels come later than their records, `prequential` is as these were answered when they came, and `no_change`
    repeats the last label that was known by then. The round of a record is the one in which it is learnt, so
    `round_start` and `model_file` are of models newer than the answer.
    """

    prequential: float | None
    round_start: float | None
    post_update: float | None
    no_change: float | None
    model_file: float | None = None
    own_file: float | None = None
    last_rounds: float | None = None


class Kappa(ResultPart):
    """Accuracy above chance: `cohen` against the class mix, `temporal` against NoChange."""

    cohen: float | None
    temporal: float | None


class Loss(ResultPart):
    """The bounded loss in [0, 1] that the detectors watch, measured before each record is learnt."""

    prequential: float | None


class BytesARecord(ResultPart):
    """Bytes of messages over the records of all clients, estimated from some rounds.

    See `streamfl.runtime.transport.traffic`. `up`: what clients send. `down`: what the coordinator publishes, which
    every client reads. `raw`: the features of a record as float32.

    >>> BytesARecord(up=56.4, down=4.5, raw=216.0).read_by_each(clients=20)
    90.0
    """

    up: float
    down: float
    raw: float

    def read_by_each(self, clients: int) -> float:
        """Return the bytes that a client reads for each of its own records, in the mean over clients."""
        return clients * self.down


class BytesBudget(ResultPart):
    """A budget of bytes.

    `coarser`: how many updates it made coarser. `exceeded`: after how many the client's latest 16 had taken more
    nevertheless.
    """

    a_record: float
    coarser: int
    exceeded: int


class Privacy(ResultPart):
    """What the coordinator was told of the numbers about records: see docs/trust.md.

    With `noise`, the noise multiplier, `epsilon` is what is promised at `delta` to each record, of whose round the
    clients sent at most this many `messages`.
    """

    _take_old_keys = model_validator(mode="before")(result_now)

    secure_aggregation: Literal["pooled", "masked"]
    min_clients_per_sum: int
    noise: float | None = None
    radius: float | None = None
    messages: int | None = None
    epsilon: float | None = None
    delta: float | None = None


class DatedFinding(ResultPart):
    """What all findings have: a restart, a local drift, inputs that moved or are stuck, a notice. All views read it.

    If the source has times, `time` is that of the last record of `round`, and `since_time` the time at which the
    change began, both as ISO 8601 in UTC. In a file without times whose clients have different numbers of records,
    `rows` has the rows of the first and the last record instead. For `positions`, `known_since` and `moved` see
    `Finding` in `streamfl.protocol.messages`.

    >>> drift = messages.LocalDrift(round=65, epoch=1, clients=("c3",), since=64, state="latched", statistic=23.4,
    ...                             threshold=9.2, times=(1700000000000, 1700000060000))
    >>> found = DatedLocalDrift.of(drift)
    >>> found.since_time, found.time, found.clients, DatedLocalDrift.of(drift, by_row=True).rows
    ('2023-11-14T22:13:20Z', '2023-11-14T22:14:20Z', ('c3',), (1700000000, 1700000060))
    """

    round: int
    time: str | None = None
    epoch: int
    statistic: float
    threshold: float
    since: int
    labels: tuple[str, ...] = ()
    since_time: str | None = None
    rows: tuple[int, int] | None = None
    positions: Mapping[str, tuple[int, int]] = Field(default_factory=dict)
    known_since: int = 0
    drift: int = 0
    moved: tuple[messages.FeatureMoved, ...] = ()

    @classmethod
    def of(cls, found: messages.Finding, *, by_row: bool = False) -> Self:
        """Return an announcement, by any writer: it is not checked.

        Parameters
        ----------
        by_row
            Whether its times count rows of a file, as seconds.
        """
        told = {name: getattr(found, name) for name in cls.model_fields if hasattr(found, name)}
        if found.times is not None and by_row:
            told["rows"] = found.times[0] // 1000, found.times[1] // 1000
        elif found.times is not None:
            told["since_time"], told["time"] = (iso(time / 1000.0) for time in found.times)
        return cast("Self", cls.model_construct(**told))


class DatedRestart(DatedFinding):
    """One restart; `round` is the round whose loss raised the alarm.

    `scores` has the mean score of each candidate on that round's records. `chosen` had the least, unless an operator
    had asked for another. `clients_better` says at how many clients the chosen one scored better than the model that
    had served, and of how many; `renamed` what labels were called before, if they were surely exchanged;
    `online_models_begin_again` whether these begin again untrained.
    """

    cause: str
    chosen: str
    clients: tuple[str, ...]
    scores: Mapping[str, float] = Field(default_factory=dict)
    clients_better: tuple[int, int] = (0, 0)
    renamed: Mapping[str, str] = Field(default_factory=dict)
    online_models_begin_again: bool = False


class DatedLocalDrift(DatedFinding):
    """One change of the state of clients that drifted alone.

    Of `branched` and `released`, `gains` has by candidate how much lower its mean score was than that of the model of
    all; `chosen` is the candidate that serves a branch.
    """

    clients: tuple[str, ...]
    state: str
    behind: int = 0
    chosen: str = ""
    gains: Mapping[str, float] = Field(default_factory=dict)


class DatedInputsMoved(DatedFinding):
    """One finding that features have moved; `cause` is the detector whose alarm they explain, or empty."""

    clients: tuple[str, ...]
    cause: str = ""
    spread: tuple[float, float] | None = None


class DatedInputsStuck(DatedFinding):
    """One finding that features which used to vary repeat one value at some clients; `stuck` has where and which."""

    clients: tuple[str, ...]
    stuck: tuple[messages.FeatureStuck, ...]


class DatedNotice(DatedFinding):
    """One change that is not drift of the concept."""

    cause: str


Dated = DatedRestart | DatedLocalDrift | DatedInputsMoved | DatedInputsStuck | DatedNotice

_LINES: Mapping[type[messages.Finding], type[Dated]] = {
    messages.Restarted: DatedRestart,
    messages.LocalDrift: DatedLocalDrift,
    messages.InputsMoved: DatedInputsMoved,
    messages.InputsStuck: DatedInputsStuck,
    messages.Noticed: DatedNotice,
}


def dated(found: messages.Finding) -> Dated:
    """Return an announcement, by any writer, as a line of the result."""
    return _LINES[type(found)].of(found)


class Interval(ResultPart):
    """The intervals that shall hold four fifths of the targets, made of each client's past errors.

    `coverage` is the share of `records` whose target lay within, `width` how wide the intervals were on average. A
    client's first ten records have none.
    """

    records: int
    coverage: float
    width: float


class Result(ResultPart):
    """The whole run. Classification has `accuracy` and `kappa`, regression `mae` and `rmse`.

    `label` is the label column, named or guessed; "" if the source has no column names. `left_out` are columns that
    were left out automatically: times, free text. `objective` is what predicted labels are to be good at, if not
    accuracy. `serving` is the share of each online model in the predictions; empty without such models. `infinite`
    counts infinite values; `missing` counts missing ones by column, if there are any. `r2` is the share of the
    targets' variance that the predictions explain. `interval` is None in classification, and if labels come late.
    `by_client` and `by_class` are None if predictions were not measured. `changes` has a line for each restart, and
    for each local drift as it was found. `comparison` is None unless it was asked for.

    `answered` counts the pending records that were predicted: a client's last ones, fewer than may be sent. They are
    in all figures. `ahead` is how many later records a model had learnt when it predicted a record, at most: 0 if no
    figure looks ahead. None: nothing was measured, or the answers are those of a live federation.

    If labels come by `label_delay` records later than their records: `unanswered` counts the records answered before
    there was any model, `waiting` those at the end that were answered and are not learnt, `expired` those whose label
    did not come in time. None of these is counted twice: those that wait are among `pending`.
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
    answered: int = 0
    ahead: int | None = None
    infinite: int = 0
    missing: Mapping[str, int] | None = None
    label_delay: int | None = None
    unanswered: int | None = None
    waiting: int | None = None
    expired: int | None = None
    rounds: int
    clients: int
    seconds: float
    records_per_second: int
    bytes: BytesARecord | None = None
    budget: BytesBudget | None = None
    privacy: Privacy | None = None
    accuracy: Figures | None = None
    mae: Figures | None = None
    rmse: Figures | None = None
    r2: float | None = None
    interval: Interval | None = None
    kappa: Kappa | None = None
    objective: str | None = None
    loss: Loss
    by_client: ByClient | None = None
    by_class: ByClass | None = None
    comparison: Compared | None = None
    restarts: tuple[DatedRestart, ...]
    local_drifts: tuple[DatedLocalDrift, ...]
    changes: tuple[Change, ...] = ()
    inputs_moved: tuple[DatedInputsMoved, ...] = ()
    inputs_stuck: tuple[DatedInputsStuck, ...] = ()
    notices: tuple[DatedNotice, ...] = ()
    promotions: int
    serving: Mapping[str, float] = Field(default_factory=dict)
    unlearnt: int | None = None
    unlearnt_reason: str | None = None
    model_sha256: str
    per_round: tuple[RoundLine, ...]

    @property
    def measures(self) -> dict[str, Figures]:
        """Return the metrics by their keys: accuracy, or mae and rmse."""
        named = {"accuracy": self.accuracy, "mae": self.mae, "rmse": self.rmse}
        return {key: figures for key, figures in named.items() if figures is not None}


def read_result(path: Path) -> Result:
    """Read a result that `--json` has written.

    Raises
    ------
    UsageError
        It cannot be read, or is none.
    """
    try:
        return Result.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UsageError(f"{path} is not a result of replay or demo (--json): {where}: {first['msg']}") from None
