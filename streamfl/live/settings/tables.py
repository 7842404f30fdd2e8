"""The tables of the settings file of a live federation."""

import socket
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from streamfl.bounds import LONGEST, MOST, NAMED, REACH, SHORTEST
from streamfl.errors import UsageError
from streamfl.learning.model import Task
from streamfl.live.settings.addresses import Address, HostNames
from streamfl.machines.coordinator.aggregators import AGGREGATORS
from streamfl.records.formats import RECORD_FORMATS, FieldMap
from streamfl.records.past_features import PastFeatures
from streamfl.records.values.missing import Missing
from streamfl.run.settings import known_to
from streamfl.runtime.ports import ClientBy

# What `streamfl alert` can tell.
AlertKind = Literal[
    "drift", "local-drift", "inputs-moved", "inputs-stuck", "notice", "stalled", "silent", "late", "evicted", "ended"
]

# The least and the most seconds of a deadline that nobody has set: between them it is half of the interval.
# docs/choices.md, "How long a round waits".
DEADLINE = 5.0, 60.0


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)


class FederationTable(_Table):
    """`[federation]`: what all processes of a federation must agree on."""

    name: str = Field(
        "federation",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=200,
        json_schema_extra={"decides": False, "change": "starts a new federation"},
    )
    """The name of the federation, with which the names of its topics begin."""
    min_clients: int = Field(
        1,
        ge=1,
        le=MOST,
        json_schema_extra={"unit": "clients", "unequal": "if below the number of clients", "decides": False},
    )
    """The number of clients that must have joined before round 1 opens; with `masked` and `pooled` sums at least
    `min_clients_per_sum`."""
    task: Task = Field(
        "classification", json_schema_extra={"unequal": "with `regression`, unless `features` is `rounds`"}
    )
    """Whether labels are classes (`classification`) or numbers (`regression`)."""
    seed: int = Field(0, ge=0)
    """The seed of all random draws."""
    scaling: bool = True
    """Whether to standardise features by the mean and deviation over all clients."""
    horizon: int = Field(10_000, ge=2, le=MOST, json_schema_extra={"unit": "rounds"})
    """The number of rounds for which profile `paper` plans."""
    most_features: int = Field(NAMED.features, ge=1, le=MOST)
    """The maximum number of features; further ones are ignored, but their records count."""
    most_labels: int = Field(NAMED.labels, ge=1, le=MOST)
    """The maximum number of labels; records with further labels are rejected."""
    most_clients: int = Field(NAMED.clients, ge=1, le=MOST)
    """The maximum number of clients, including those that have left; further ones cannot join."""
    members: Literal["open", "trust_on_first_use", "file"] = Field(
        "open", json_schema_extra={"decides": False, "change": "between `trust_on_first_use` and `file`"}
    )
    """Which host may run a client: any host (`open`), only the first host that brought it (`trust_on_first_use`), or
    only the hosts that `members_file` lists for it (`file`)."""
    members_file: Path = Field(Path("members.toml"), json_schema_extra={"decides": False})
    """The file that lists which host may run which client; optional with `trust_on_first_use`."""
    most_weights: int = Field(NAMED.weights, ge=2, le=MOST)
    """The maximum number of weights of a model, one for each pair of feature and label; features and labels beyond it
    are treated as beyond `most_features` and `most_labels`."""
    connector: str = Field(
        "kafka",
        json_schema_extra={
            "decides": False,
            "change": "starts a new federation, unless both connectors use the same log",
        },
    )
    """The installed connector that reads and writes the federation's log; the table with its name has its
    settings."""


class RoundSettings(_Table):
    """`[rounds]`: when a round closes."""

    clock: Literal["records", "interval", "event_time"] = Field(
        "interval", json_schema_extra={"unequal": "with `interval`"}
    )
    """When a client ends its part of a round: after `size` records (`records`), every `interval` seconds
    (`interval`), or when the times in its records pass the end of an `interval` (`event_time`)."""
    size: int = Field(100, ge=1, le=MOST, json_schema_extra={"unit": "records"})
    """The number of records of each client in a round, with `clock = "records"`."""
    min_records: int = Field(10, ge=1, le=MOST, json_schema_extra={"unit": "records"})
    """The minimum number of valid records in an update: a client with fewer waits for more, which protects its
    records, because with 1 an update may concern a single record; each host may choose its own."""
    interval: float = Field(10.0, ge=SHORTEST, le=LONGEST, json_schema_extra={"unit": "seconds"})
    """The length of a round, with `clock = "interval"` or `"event_time"`."""
    quorum: int | Literal["all"] = Field("all", json_schema_extra={"unit": "clients", "unequal": "with a number"})
    """The number of clients, 1 or more, whose updates close a round; `all`: every client that is present."""
    deadline: float | None = Field(
        None,
        ge=0.0,
        le=LONGEST,
        json_schema_extra={
            "unit": "seconds",
            "unset": 'half of `interval`, between 5 and 60; 5 with `clock = "records"`',
            "unequal": "unless 0",
        },
    )
    """How long the coordinator waits for missing updates after clients should have sent them, before it closes the
    round without them; while most updates come too late, it waits two to four times as long; 0: without limit."""
    expire_after: int = Field(3, ge=1, le=MOST, json_schema_extra={"unit": "rounds", "decides": False})
    """After this many rounds without an update of a client, rounds close without waiting for it, until it sends
    one."""
    aggregation: Annotated[str, known_to(AGGREGATORS.find)] = Field(
        "mean", json_schema_extra={"enum": list(AGGREGATORS.own), "registered": True}
    )
    """How the coordinator combines the model changes that clients send, after it has bounded what each client can
    change; no other choice was measured to withstand a minority of malicious clients better than `mean`."""

    @property
    def deadline_seconds(self) -> float:
        """Return how many seconds the coordinator waits for missing updates; 0: without limit.

        >>> RoundSettings(interval=60.0).deadline_seconds, RoundSettings().deadline_seconds
        (30.0, 5.0)
        >>> RoundSettings(deadline=0.0).deadline_seconds
        0.0
        """
        if self.deadline is not None:
            return self.deadline
        least, most = DEADLINE
        return least if self.clock == "records" else min(most, max(least, self.interval / 2.0))

    @model_validator(mode="after")
    def _quorum_is_possible(self) -> Self:
        if self.quorum != "all" and not 1 <= self.quorum <= MOST:
            raise ValueError(f"quorum: give a number from 1 to {MOST}, or all")
        return self

    @model_validator(mode="after")
    def _a_round_may_leave(self) -> Self:
        if self.size < self.min_records:
            raise ValueError(
                f"size is {self.size} and min_records is {self.min_records}: a round would never have enough records "
                "for an update; make rounds.size at least rounds.min_records"
            )
        return self


class Records(_Table):
    """`[records]`: where the records are, which client each belongs to, and their format."""

    topics: tuple[str, ...] = Field(min_length=1)
    """The topics with the records; with `clients = "topic"` a name may contain one `*`, which stands for the
    client."""
    clients: ClientBy = "topic"
    """What makes a client: each topic, which then has one partition (`topic`), each partition (`partition`), each key
    of messages (`message-key`), or each value of the field that `fields.client` names (`field`); with the last two a
    client's records may be in any partitions."""
    partitions: int | None = Field(None, ge=1, le=MOST, json_schema_extra={"unset": "not checked", "decides": False})
    """The number of partitions that each topic must have; with `clients = "message-key"` or `"field"` any number
    will do, and only `produce` takes this one."""
    format: Annotated[str, known_to(RECORD_FORMATS.find)] = Field(
        "json", json_schema_extra={"enum": list(RECORD_FORMATS.own), "registered": True}
    )
    """`json`: one JSON object per message; `packed`: many records per message, as a safetensors file; `confluent`:
    one record per message in Avro, JSON Schema or Protobuf, by its schema in a registry (extra `registry`)."""
    registry: str = Field("", json_schema_extra={"decides": False})
    """The address of the Schema Registry, such as `http://registry:8081`; a log-in is `https://NAME:PASSWORD@HOST`."""
    shape: Literal["open", "closed"] = Field("open", alias="schema")  # pydantic's models have a `schema` already
    """`open`: new features and labels may appear at any time; `closed`: only those that `[records.fields]` names."""
    start: Literal["earliest", "latest"] = Field("earliest", json_schema_extra={"unequal": "with `latest`"})
    """Whether a new client reads from the oldest or from the newest record."""
    lost: Literal["stop", "skip"] = Field("stop", json_schema_extra={"unequal": "with `skip`"})
    """What a client does if the broker deleted records before the client learnt them: `stop`, or `skip` them."""
    late_after: float = Field(60.0, ge=SHORTEST, le=LONGEST, json_schema_extra={"unit": "seconds", "decides": False})
    """A record counts as late if it is older than an earlier one by more than this; it is still learnt."""
    missing_values: tuple[str, ...] = ()
    """More values that count as missing, such as `"-999"`, besides the usual ones (see values.md); `"not:NA"` means
    that NA is a value."""
    decimal: Literal[".", ","] | None = Field(None, json_schema_extra={"unset": "as the number is written"})
    """The decimal mark of numbers that are texts; without it, `"1,234"` is not read, since it may be two numbers."""
    lags: tuple[int, ...] = ()
    """How many records of the same client before a record its numbers count as features as well: `[1, 24]` adds
    `x[-1]` and `x[-24]` for each number `x`; from 1 to 1,000, and no more than 1,000 messages before."""
    window: int = Field(0, ge=0, le=REACH, json_schema_extra={"unit": "records"})
    """With 10, each number `x` has two features more: `mean10(x)`, its mean over the last 10 records of the client,
    this one included, and `rate10(x)`, its change per record since 10 records before; 0: none."""
    fields: FieldMap = FieldMap()

    @field_validator("clients", mode="before")
    @classmethod
    def _clients_have_their_new_name(cls, by: object) -> object:
        if by == "key":
            raise ValueError('"key" is now called "field"; write clients = "field"')
        return by

    @field_validator("missing_values")
    @classmethod
    def _missing_values_are_some(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        Missing.of(values)
        return values

    @model_validator(mode="after")
    def _lags_can_be_made(self) -> Self:
        if not self.lags and not self.window:
            return self
        try:
            PastFeatures(self.lags, self.window)
        except UsageError as error:
            raise ValueError(f"lags, window: {error}") from None
        if self.clients in ("message-key", "field"):
            raise ValueError(
                f'lags, window: a client needs a partition of its own, so not clients = "{self.clients}"; write each '
                'client\'s records to a topic or a partition, and say clients = "topic" or "partition"; or let the '
                "producer add the features"
            )
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.clients == "field" and (self.format == "packed" or self.fields.client is None):
            raise ValueError(
                'clients = "field" needs format = "json" and the field that names the client: fields.client'
            )
        if self.clients == "message-key" and self.fields.client is not None:
            raise ValueError(
                'fields.client: leave it out, because with clients = "message-key" the key is the client'
            )
        if any(name.count("*") > 1 for name in self.topics):
            raise ValueError("topics: a name may contain only one *")
        if self.clients != "topic" and any("*" in name for name in self.topics):
            raise ValueError('topics: a * stands for the client, so it needs clients = "topic"')
        if "closed" in self.fields.model_fields_set:
            raise ValueError('fields.closed: leave it out, because schema = "closed" sets it')
        if self.shape == "closed" and self.format == "packed":
            raise ValueError('schema = "closed" needs format = "json": packed messages name their fields themselves')
        if self.shape == "closed" and not (self.fields.features or self.fields.categories):
            raise ValueError(
                'schema = "closed" needs a list of all features in fields.features and fields.categories'
            )
        if self.shape == "open" and self.fields.labels:
            raise ValueError('fields.labels lists all labels that may occur, so it needs schema = "closed"')
        return self


class Labels(_Table):
    """`[labels]`: delayed labels, which come later than their records, in topics of their own."""

    topic: str = Field(
        "", max_length=249, json_schema_extra={"unequal": "with a topic, unless `features` is `rounds`"}
    )
    """The topics with the labels, with a `*` if the topics of the records have one, where partition n has the labels
    of partition n of the records; with `clients = "message-key"` or `"field"` one topic, in any partitions; empty:
    labels come with their records."""
    key: str = Field("id", min_length=1, max_length=256)
    """The field by which a label finds its record: it is in both, and holds a text or a whole number."""
    window: int = Field(10_000, ge=1, le=1_000_000, json_schema_extra={"unit": "records"})
    """A record waits for its label while this many later records of its client come, and is given up when the label
    of a still later record comes; with `clients = "message-key"` or `"field"` the records of all clients in its
    partition of `NAME.client-records` count."""

    @property
    def an_example(self) -> str:
        """Return the name of a topic of them."""
        return self.topic.replace("*", "x")


class CoordinatorProcess(_Table):
    """`[coordinator]`: the coordinator process."""

    key: Path | None = Field(None, json_schema_extra={"unset": "messages are not signed"})
    """The file with its private key."""
    silence: float = Field(0.3, ge=0.1, le=LONGEST, json_schema_extra={"unit": "seconds"})
    """How long the other coordinator must be silent before a standby (`--standby`) takes over; up to four times as
    long where heartbeats arrive late."""


class ClientProcess(_Table):
    """`[client]`: a process that runs clients, called a host."""

    key: Path | None = Field(None, json_schema_extra={"unset": "messages are not signed"})
    """The file with its private key."""
    coordinator_key: Path | None = Field(None, json_schema_extra={"unset": "`key` with `.coordinator` at its end"})
    """Where the host keeps the key of the coordinator that it heard first, with `members = "trust_on_first_use"`; the
    process must be able to write there."""
    host: str = Field(default_factory=socket.gethostname, json_schema_extra={"unset": "the machine's name"})
    """The name of this host, which must differ from that of every other host and stay the same after a restart."""
    buffer: int | None = Field(
        None,
        ge=1,
        le=MOST,
        json_schema_extra={
            "unit": "records",
            "unset": "twice `rounds.size`; 10,000 with another clock than records",
        },
    )
    """The maximum number of records that a client holds before they are accepted; when it is full, the client stops
    reading for a while."""
    retry: float | None = Field(
        None,
        ge=SHORTEST,
        le=LONGEST,
        json_schema_extra={"unit": "seconds", "unset": "twice `rounds.deadline`, and at least 5"},
    )
    """How long a client waits for an answer of the coordinator before it asks again; longer than the deadline,
    otherwise it asks again in every round that the deadline closes."""
    stop_within: float = Field(10.0, ge=0.0, le=LONGEST, json_schema_extra={"unit": "seconds"})
    """How long the process may take to stop cleanly."""


class ScoreSettings(_Table):
    """`[score]`: a process that predicts records without labels, and writes answers to topic `NAME.predictions`."""

    topics: tuple[str, ...] = ()
    """The topics of these records, in the format of `[records]`; if a record has a label, it is ignored."""
    start: Literal["earliest", "latest"] = "earliest"
    """Whether scorers begin with the oldest or the newest record of a partition that they have never read."""
    exactly_once: bool = False
    """Whether each record gets exactly one answer, even if processes are killed; otherwise at least one."""
    name: str = Field(default_factory=socket.gethostname, json_schema_extra={"unset": "the machine's name"})
    """The name of this scorer, which must differ from that of every other scorer and stay the same after a
    restart."""
    probabilities: bool = True
    """Whether answers contain the probability of each label."""
    most_behind: int = Field(3, ge=0, le=MOST, json_schema_extra={"unit": "rounds"})
    """The process reports that it is not ready if its models are more rounds behind than this; it still answers."""
    http: Address = ""
    """The address, `[HOST:]PORT`, at which the process also answers over HTTP; empty: no HTTP."""
    host_names: HostNames = ()
    """Host names under which it accepts HTTP requests, in addition to IP addresses and the machine's name."""
    candidate: Path | None = Field(None, json_schema_extra={"unset": "none"})
    """A saved model that predicts what the process is asked over HTTP, to be compared with the federation's."""

    @model_validator(mode="after")
    def _topics_are_named(self) -> Self:
        if any("*" in name for name in self.topics):
            raise ValueError("topics: name each topic; only topics of clients may have a *")
        return self


class Telemetry(_Table):
    """`[telemetry]`: where a process serves `/metrics`, `/live` and `/ready`, and where it sends traces."""

    address: Address = ""
    """The address, `[HOST:]PORT`, that serves them; each process on a machine needs a port of its own; empty:
    none."""
    health: Address = ""
    """A second address, only for `/live` and `/ready`, which only probes should be able to reach; empty: none."""
    host_names: HostNames = ()
    """Host names under which the process accepts requests, in addition to IP addresses and the machine's name; it
    refuses all others, so that no web site can read it."""
    most_behind: int = Field(3, ge=0, le=MOST, json_schema_extra={"unit": "rounds"})
    """The host reports that it is not ready if a client has records but learnt none of them for more rounds than
    this."""
    traces: str = Field("", pattern=r"^(https?://\S+)?$", max_length=2000)
    """The address to which coordinator and hosts send traces (OTLP over HTTP), such as `http://127.0.0.1:4318`;
    empty: no traces."""


class Alerts(_Table):
    """`[alerts]`: what `streamfl alert` sends to people, and where to."""

    webhook: str = Field("", pattern=r"^(https?://[!-~]+)?$", max_length=2000)
    """The address to which each alert is posted; empty: none; a secret one belongs in the environment, as
    `STREAMFL_ALERTS__WEBHOOK`."""
    form: Literal["json", "slack"] = "json"
    """`json`: an object with the alert's fields; `slack`: an object with its text alone, which Slack and Mattermost
    take."""
    secret: Path | None = Field(None, json_schema_extra={"unset": "not signed"})
    """A file with the key that signs what is posted."""
    command: tuple[str, ...] = ()
    """A program and its arguments, which is run for each alert and reads it from standard input as a line of JSON."""
    kinds: tuple[AlertKind, ...] = (
        "drift",
        "local-drift",
        "inputs-moved",
        "inputs-stuck",
        "stalled",
        "silent",
        "late",
        "evicted",
    )
    """The kinds of alerts that are sent; there are also `notice` and `ended`."""
    stalled_after: float | None = Field(
        None,
        ge=SHORTEST,
        le=LONGEST,
        json_schema_extra={
            "unit": "seconds",
            "unset": 'ten times `interval`, at least a minute; never with `clock = "records"`',
        },
    )
    """The federation is reported as stalled if no record was learnt for so long."""
    silent_after: int = Field(10, ge=1, le=MOST, json_schema_extra={"unit": "rounds"})
    """A client is reported as silent if it has sent no record for so many rounds in which others did."""


class Logs(_Table):
    """`[logs]`: what processes log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest severity that is logged."""
    form: Literal["auto", "json", "text"] = "auto"
    """`json`: one JSON object per line, for programs; `text`: for people; `auto`: text on a terminal, otherwise
    json."""
