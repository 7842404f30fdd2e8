"""The settings of a live federation: a TOML file, the environment, and flags, in rising order of precedence."""

import json
import os
import re
import socket
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from streamfl.bounds import LONGEST, MOST, NAMED, REACH, SHORTEST, Limits, bounded
from streamfl.errors import UsageError, did_you_mean
from streamfl.learning.local_round import Learner
from streamfl.learning.model import Task
from streamfl.live.settings.installed import connector_named, installed, section
from streamfl.live.settings.paths import from_folder
from streamfl.live.settings.validation import first_of
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.aggregators import AGGREGATORS
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.records.formats import RECORD_FORMATS, FieldMap, LabelMap, record_format
from streamfl.records.past_features import PastFeatures
from streamfl.records.values.cells import quoted
from streamfl.records.values.missing import Missing
from streamfl.run.renamed import settings_now
from streamfl.run.settings import LearningSettings, PrivacySettings, ProfileSettings, known_to
from streamfl.runtime.log.placement import pattern
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import ClientBy, LabelTopics, Placement, RecordFormat, Unlabelled
from streamfl.wire import messages
from streamfl.wire.masking import expand

PREFIX = "STREAMFL_"

# What `streamfl alert` can tell.
AlertKind = Literal[
    "drift", "local-drift", "inputs-moved", "inputs-stuck", "notice", "stalled", "silent", "late", "evicted", "ended"
]

# The most records that a client holds if the clock closes rounds: the number per interval is not known.
MANY = 10_000

# A client asks again after so many deadlines, and not before so many seconds.
# docs/choices.md, "When a client asks again".
DEADLINES, AT_LEAST = 2.0, 5.0

# The least and the most seconds of a deadline that nobody has set: between them it is half of the interval.
# docs/choices.md, "How long a round waits".
DEADLINE = 5.0, 60.0


def _is_address(text: str) -> str:
    if text:
        address(text)
    return text


def _as_text(given: object) -> object:
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


# `[HOST:]PORT`, or "" for none; a port may be a number.
Address = Annotated[str, BeforeValidator(_as_text), AfterValidator(_is_address)]


def host_name(text: str) -> str:
    """Return a name under which a server may be asked, as it is: a name without a port, whatever the port is.

    Raises
    ------
    ValueError
        It is none, so that no request could come under it.

    >>> host_name("scorer.example.org")
    'scorer.example.org'
    >>> host_name("http://scorer.example.org:8000/v2")
    Traceback (most recent call last):
    ValueError: "http://scorer.example.org:8000/v2" is not a host name; write "scorer.example.org"
    """
    bare = re.sub(r"^[a-z]+://|(:[0-9]*)?(/.*)?$", "", text.strip())
    if not bare or not re.fullmatch(r"[^\s:/\[\]]+", bare):
        remedy = 'write a name such as "scorer.example.org"; addresses need none'
    elif bare != text:
        remedy = f"write {quoted(bare)}"
    else:
        return text
    raise ValueError(f"{quoted(text)} is not a host name; {remedy}")


HostNames = tuple[Annotated[str, AfterValidator(host_name)], ...]


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


def address(text: str) -> tuple[str, int]:
    """Return the host and the port of an address.

    Raises
    ------
    ValueError
        It is none.

    >>> address("8000"), address("0.0.0.0:80"), address("[::1]:8000")
    (('127.0.0.1', 8000), ('0.0.0.0', 80), ('::1', 8000))
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ValueError(f"{text!r} is not an address; give PORT or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


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


class FederationSettings(BaseSettings):
    """All settings of a process of a live federation.

    Each table of the file is a field; `STREAMFL_ROUNDS__SIZE` in the environment is `size` in `[rounds]`. The section
    with the connector's name belongs to the connector, and `load` reads it with the connector's own model.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    federation: FederationTable = FederationTable()
    rounds: RoundSettings = RoundSettings()
    records: Records
    labels: Labels = Labels()
    learning: LearningSettings = LearningSettings()
    profile: ProfileSettings = ProfileSettings()
    privacy: PrivacySettings = PrivacySettings()
    coordinator: CoordinatorProcess = CoordinatorProcess()
    client: ClientProcess = Field(default_factory=ClientProcess)
    score: ScoreSettings = Field(default_factory=ScoreSettings)
    telemetry: Telemetry = Telemetry()
    alerts: Alerts = Alerts()
    logs: Logs = Logs()
    _section: BaseModel = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _take_old_names(cls, given: Any) -> Any:
        return settings_now(given) if isinstance(given, Mapping) else given

    @model_validator(mode="after")
    def _fits(self) -> Self:
        size, buffer = self.rounds.size, self.client.buffer
        if buffer is not None and buffer < size:
            raise ValueError(
                f"client.buffer is {buffer}, but a round has {size} records (rounds.size); make client.buffer at "
                "least that"
            )
        if self.records.fields.task != self.federation.task and "task" in self.records.fields.model_fields_set:
            raise ValueError("records.fields.task: leave it out, because task in [federation] sets it")
        if (
            self.records.shape == "closed"
            and self.federation.task == "classification"
            and not self.records.fields.labels
        ):
            raise ValueError('records.schema: "closed" needs a list of all labels in records.fields.labels')
        if self.federation.task == "regression" and self.records.fields.labels:
            raise ValueError("records.fields.labels: leave them out, because the task is regression")
        if self.rounds.clock == "event_time" and self.records.fields.time is None:
            raise ValueError('rounds.clock: "event_time" needs the field with the time in records.fields.time')
        if own := set(self.score.topics) & Topics(self.federation.name).own:
            raise ValueError(
                f"score.topics: {min(own)} is one of the federation's own topics; name topics of records"
            )
        repartitioned = {Topics(self.federation.name).client_records, Topics(self.federation.name).client_labels}
        if repartitioned & {*self.records.topics, self.labels.topic}:
            raise ValueError(
                f"records.topics: {' and '.join(sorted(repartitioned))} are written by hosts; name others"
            )
        if "key" in self.records.fields.model_fields_set:
            raise ValueError("records.fields.key: leave it out, because key in [labels] sets it")
        self._check_past()
        if self.labels.topic:
            self._check_labels(self.labels)
        elif self.labels != Labels():
            raise ValueError(
                "labels.topic is missing, so labels come with their records; set it, or leave out the other settings "
                "of [labels]"
            )
        _ = self.record_format
        self.learning.external_model(self.federation.task)
        learning = self._learning
        learning.check_objective(self.federation.task)
        learning.check_budget(size if self.rounds.clock == "records" else None)
        profile = self.profile.resolved_with(self.privacy)
        self.privacy.check(learning, profile, self.federation.task, self.rounds.aggregation)
        self.privacy.check_noise(learning, profile, scaling=self.federation.scaling)
        self._check_number_of_clients()
        return self

    def _check_number_of_clients(self) -> None:
        """Raise a UsageError if there can never be enough clients for a total."""
        if self._known_clients is not None:
            self.privacy.check_clients(self._known_clients, "name more topics or partitions, or set it lower")
        self.privacy.check_clients(self.federation.most_clients, "raise federation.most_clients")

    def _check_past(self) -> None:
        """Raise a ValueError if features cannot be made of the records before."""
        if self.past is not None and self.labels.topic:
            raise ValueError(
                "records.lags, records.window: they need labels that come with their records; leave labels.topic "
                "out, or let the producer add the features"
            )
        if self.past is not None and self.record_format.stride != 1:
            raise ValueError(
                "records.lags, records.window: they need one record per message, which format = "
                f'"{self.records.format}" does not have; let the producer add the features'
            )

    def _check_labels(self, labels: Labels) -> None:
        """Raise a ValueError if labels cannot come later as they are said to."""
        records, fields = self.records, self.records.fields
        if records.format != "json":
            raise ValueError('labels.topic: delayed labels need [records] format = "json"')
        if len(records.topics) > 1 and not self.placement.is_repartitioned:
            raise ValueError("labels.topic: delayed labels allow only one name in records.topics")
        if any(labels.topic.count("*") != name.count("*") for name in records.topics):
            raise ValueError("labels.topic: it needs a * exactly if the name in records.topics has one")
        same = any(
            re.fullmatch(pattern(name), labels.an_example)
            or re.fullmatch(pattern(labels.topic), name.replace("*", "x"))
            for name in records.topics
        )
        if same or labels.an_example in Topics(self.federation.name).own:
            raise ValueError(
                "labels.topic: it also fits the names of other topics; choose a name that fits only topics of labels"
            )
        taken = {*fields.wanted, *fields.drop}
        if labels.key in taken:
            raise ValueError(
                f"labels.key: the field {labels.key!r} has another role in records.fields; give it only one role"
            )
        if labels.window < self.rounds.size:
            raise ValueError(
                f"labels.window is {labels.window}, but a round has {self.rounds.size} records (rounds.size); make "
                "it at least that, and at least as many records as a client has until a label comes"
            )

    @property
    def section(self) -> BaseModel:
        """Return the settings of the connector, read with its own model from its section."""
        return self._section

    @property
    def limits(self) -> Limits:
        """Return how many names the federation registers; a logistic model has two labels."""
        federation = self.federation
        logistic = self.learning.loss(federation.task) == "logistic"
        labels = min(2, federation.most_labels) if logistic else federation.most_labels
        return Limits(
            federation.most_features, labels, clients=federation.most_clients, weights=federation.most_weights
        )

    @property
    def read_limits(self) -> Limits:
        """Return how many names a reader of records takes: features that are made of others need room as well."""
        past, times = self.past, self.field_map.made_of_times
        room = self.limits.features - (0 if times is None else len(times.names))
        return replace(self.limits, features=room // (1 + (0 if past is None else past.made_of_each)))

    @property
    def past(self) -> PastFeatures | None:
        """Return which features are made of the records before; None: none are."""
        records, made = self.records, self.field_map.made_of_times
        if not records.lags and not records.window:
            return None
        return PastFeatures(records.lags, records.window, () if made is None else made.names)

    @property
    def learner(self) -> Learner:
        """Return how to learn."""
        return self._learning.learner(self.federation.task, self.federation.seed)

    @property
    def _learning(self) -> LearningSettings:
        """Return how to learn, as it holds with the other settings."""
        return self.learning.resolved_with(self.profile, self.privacy)

    @property
    def coordinator_machine(self) -> CoordinatorSettings:
        """Return the settings of the coordinator machine."""
        rounds = self.rounds
        return CoordinatorSettings(
            learner=self.learner,
            min_clients=self.min_clients,
            quorum=None if rounds.quorum == "all" else rounds.quorum,
            deadline=rounds.deadline_seconds or None,
            expire_after=rounds.expire_after,
            interval=rounds.interval if rounds.clock == "interval" else None,
            by_event_time=rounds.clock == "event_time",
            round_size=max(rounds.size, rounds.min_records) if rounds.clock == "records" else None,
            aggregation=rounds.aggregation,
            task=self.federation.task,
            scaling=self.federation.scaling,
            objective=self.learning.objective_chosen,
            limits=self.limits,
            partitions=self._label_partitions(self.labels) if self.labels.topic else self.partitions,
            features=self.partitions if self.labels.topic else (),
            secure_aggregation=self.privacy.secure_aggregation,
            min_clients_per_sum=self.privacy.min_clients_per_sum,
            noise=self.privacy.mechanism,
            expand=expand,
        )

    @property
    def partitions(self) -> tuple[str, ...]:
        """Return the patterns of a client's partition for the coordinator.

        >>> from streamfl.live.settings.settings import FederationSettings, Records
        >>> FederationSettings(records=Records(topics=("forest.*", "meadow"))).partitions
        ('forest.*/0', '*/0')
        """
        topics = self.records.topics
        match self.records.clients:
            case "topic":
                return tuple(f"{name if '*' in name else '*'}/0" for name in topics)
            case "partition":
                return ("*",)
            case "message-key" | "field":
                return (f"{Topics(self.federation.name).client_records}/#",)

    def _label_partitions(self, labels: Labels) -> tuple[str, ...]:
        match self.records.clients:
            case "topic":
                return (f"{labels.topic}/0",)
            case "partition":
                return (f"{labels.topic}/#",)
            case "message-key" | "field":
                return (f"{Topics(self.federation.name).client_labels}/#",)

    @property
    def client_machine(self) -> ClientSettings:
        """Return the settings of the client machines."""
        return ClientSettings(
            learner=self.learner,
            round_size=self.rounds.size,
            clock=self.rounds.clock,
            period=self.rounds.interval,
            min_records=self.rounds.min_records,
            capacity=self.client.buffer or (None if self.rounds.clock == "records" else MANY),
            retry=self.client.retry or max(AT_LEAST, DEADLINES * self.rounds.deadline_seconds),
            limits=self.limits,
            window=self.labels.window if self.labels.topic else None,
            budget=self.learning.budget(messages.size),
            secure_aggregation=self.privacy.secure_aggregation,
            min_clients_per_sum=self.privacy.min_clients_per_sum,
            noise=self.privacy.mechanism,
        )

    @property
    def placement(self) -> Placement:
        """Return where the records are."""
        at = self.records
        return Placement(at.topics, at.clients, at.partitions, at.start, at.lost, at.late_after)

    @property
    def delayed_labels(self) -> LabelTopics | None:
        """Return the delayed labels; None if they come with these."""
        labels, task = self.labels, self.federation.task
        if not labels.topic:
            return None
        return LabelTopics(
            replace(self.placement, topics=(labels.topic,)),
            record_format("json", self.label_map, self.limits),
            labels.window,
            targets=task == "regression",
            probabilities=self.score.probabilities,
        )

    @property
    def stalled_after(self) -> float | None:
        """Return the seconds without a learnt record after which people are told; None: never."""
        if self.alerts.stalled_after is not None or self.rounds.clock == "records":
            return self.alerts.stalled_after
        return max(60.0, 10.0 * self.rounds.interval)

    @property
    def record_format(self) -> RecordFormat:
        """Return the format of records in messages; if labels come later, of records without them."""
        fields = self.feature_map if self.labels.topic else self.field_map
        return record_format(self.records.format, fields, self.read_limits)

    @property
    def unlabelled(self) -> Unlabelled:
        """Return where records without labels are."""
        return Unlabelled(self.score.topics, self.score.start, self.score.exactly_once)

    @property
    def unlabelled_format(self) -> RecordFormat:
        """Return the format of records without labels: that of records, in which no label is read."""
        fields = self.field_map.model_copy(update={"task": "unlabelled", "labels": ()})
        return record_format(self.records.format, fields, self.limits)

    @property
    def field_map(self) -> FieldMap:
        """Return the map of fields of whole records; the key of delayed labels is no feature."""
        drop = (*self.records.fields.drop, *([self.labels.key] if self.labels.topic else []))
        update = {"task": self.federation.task, "closed": self.records.shape == "closed", "drop": drop}
        records = self.records
        read = {"missing_values": records.missing_values, "decimal": records.decimal, "registry": records.registry}
        return self.records.fields.model_copy(update=update | read)

    @property
    def feature_map(self) -> FieldMap:
        """Return the map of fields of records whose labels come later."""
        update = {"task": "unlabelled", "labels": (), "drop": self.records.fields.drop}
        return self.field_map.model_copy(update=update | {"key": self.labels.key})

    @property
    def label_map(self) -> LabelMap:
        """Return the map of fields of delayed labels."""
        fields = self.field_map
        return LabelMap(
            label=fields.label,
            key=self.labels.key,
            task=fields.task,
            labels=fields.labels,
            missing_values=fields.missing_values,
            decimal=fields.decimal,
        )

    @property
    def unequal(self) -> tuple[str, ...]:
        """Return the settings that let two runs over the same records differ; empty if the models are equal.

        >>> settings = FederationSettings(records=Records(topics=("r.*",)), rounds=RoundSettings(clock="records"))
        >>> settings.unequal
        ('rounds.deadline = 5.0', 'federation.min_clients = 1')
        """
        rounds, records, learning = self.rounds, self.records, self._learning
        native = isinstance(self.learner.online, NativeOnlineModels)
        min_clients = self.min_clients
        differ = {
            'rounds.clock = "interval"': rounds.clock == "interval",
            f"rounds.quorum = {rounds.quorum}": rounds.quorum != "all",
            f"rounds.deadline = {rounds.deadline_seconds}": rounds.deadline_seconds > 0.0,
            'records.start = "latest"': records.start == "latest",
            'records.lost = "skip"': records.lost == "skip",
            # A client that joins after round 1 has begun takes part from a round that depends on timing.
            f"federation.min_clients = {min_clients}": min_clients < (self._known_clients or 2),
            # A label that was the last one known when a record was answered depends on timing.
            f'learning.features = "{learning.features}", labels.topic': native and self.labels.topic != "",
            # How far out a target is depends on the client's targets before it, which a kill loses.
            f'learning.features = "{learning.features}", targets': native and self.federation.task == "regression",
        }
        return tuple(setting for setting, differs in differ.items() if differs)

    @property
    def min_clients(self) -> int:
        """Return the number of clients that must have joined before round 1 opens: fewer could not learn."""
        return max(self.federation.min_clients, self.privacy.fewest_clients)

    @property
    def _known_clients(self) -> int | None:
        """Return the number of clients; None if only the log or the records determine it."""
        records = self.records
        if records.clients == "topic" and not any("*" in name for name in records.topics):
            return len(records.topics)
        if records.clients == "partition" and records.partitions is not None:
            return len(records.topics) * records.partitions
        return None

    def first_state(self) -> CoordinatorState:
        """Return the state of a coordinator that has never committed."""
        profile = self.profile.resolved_with(self.privacy)
        return CoordinatorState(profile.create(self.federation.horizon, self.learner))


def load(path: Path, flags: Mapping[str, Any] | None = None) -> FederationSettings:
    """Return the settings of a file, the environment and flags.

    A relative path in the file begins at the file's folder; in the environment and flags, at the working directory.

    Parameters
    ----------
    flags
        Nested like the file; they override all else.

    Raises
    ------
    UsageError
        The file cannot be read, or a setting is wrong; the message names the first one, never its value.
    """
    # A connector's section may be any table: only the model of the chosen connector reads its own.
    sections: dict[str, Any] = {
        name: (dict[str, Any], Field({}, repr=False)) for name in installed() if _may_name_a_section(name)
    }

    class Layered(FederationSettings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            given = InitSettingsSource(settings_cls, dict(flags or {}))
            texts = InitSettingsSource(settings_cls, texts_of(os.environ, sections))
            of_file = from_folder(path.parent, TomlConfigSettingsSource(settings_cls, path).toml_data, _tables())
            return given, texts, env_settings, InitSettingsSource(settings_cls, of_file)

    if not path.is_file():
        raise UsageError(f"{path}: no such file; `streamfl init` writes one for your records")
    loaded = create_model("Loaded", __base__=Layered, **sections)
    _check_environment(os.environ, loaded.model_fields)
    try:
        settings = loaded()
        settings._section = _section_of(settings)
    except ValidationError as error:
        raise UsageError(f"{path}: {first_of(error, loaded)}") from None
    except UsageError as error:  # from a model, a detector or a connector
        raise UsageError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path}: {bounded(str(error))}") from error
    return settings


def _tables() -> dict[str, type[BaseModel]]:
    """Return the models of the tables by name."""
    annotated = {name: field.annotation for name, field in FederationSettings.model_fields.items()}
    return {name: model for name, model in annotated.items() if isinstance(model, type)}


def _section_of(settings: FederationSettings) -> BaseModel:
    name = settings.federation.connector
    model = connector_named(name).Settings
    if not _may_name_a_section(name):
        raise UsageError(f"[federation] connector: {name!r} cannot name a section; register it under another name")
    return section(name, model, getattr(settings, name))


def _may_name_a_section(name: str) -> bool:
    """Tell whether a connector's name is free: no table and no other attribute of the settings has it."""
    taken = name in FederationSettings.model_fields or hasattr(FederationSettings, name)
    return not taken and not name.startswith("_")


def texts_of(environment: Mapping[str, str], sections: Collection[str]) -> dict[str, Any]:
    """Return what the environment says of connectors' sections, as text: their own models make numbers of it.

    A list or a table is JSON. All else stays as it is, as it may be a password of digits.

    >>> texts_of({"STREAMFL_KAFKA__SASL_PLAIN_PASSWORD": "007", "STREAMFL_ROUNDS__SIZE": "5"}, ["kafka"])
    {'kafka': {'sasl_plain_password': '007'}}
    """
    found: list[dict[str, Any]] = []
    for variable, text in environment.items():
        table, *names = variable.removeprefix(PREFIX).lower().split("__")
        if variable.startswith(PREFIX) and table in sections and all(names) and names:
            nested: Any = _listed(text)
            for name in reversed(names):
                nested = {name: nested}
            found.append({table: nested})
    return merge(found)


def _listed(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, list | dict) else text


def _check_environment(environment: Mapping[str, str], tables: Collection[str]) -> None:
    """Refuse an environment variable for a table that does not exist: it would be ignored."""
    for variable in environment:
        table, nested, _ = variable.removeprefix(PREFIX).partition("__")
        if variable.startswith(PREFIX) and nested and table.lower() not in tables:
            suggestion = did_you_mean(table.lower(), tables)
            raise UsageError(f"{variable} in the environment: there is no table [{table.lower()}]{suggestion}")


def flag(text: str) -> dict[str, Any]:
    """Return the setting in `--set table.name=value`; a value that is not TOML is text.

    In a connector's section only quotes, lists and tables are TOML: its own model makes numbers of what is meant so,
    and a password of digits stays as it is.

    >>> flag("rounds.size=50"), flag("client.host=plant-7"), flag("kafka.sasl_plain_password=1e5")
    ({'rounds': {'size': 50}}, {'client': {'host': 'plant-7'}}, {'kafka': {'sasl_plain_password': '1e5'}})

    Raises
    ------
    UsageError
        The text has another form.
    """
    name, equals, value = text.partition("=")
    parts = name.strip().split(".")
    if not equals or len(parts) < 2 or not all(parts):
        raise UsageError(f"--set {name}: write table.name=value, for example rounds.size=50")
    nested: Any = _value(value.strip())
    if parts[0] not in FederationSettings.model_fields and not isinstance(nested, str | list | dict):
        nested = value.strip()
    for part in reversed(parts):
        nested = {part: nested}
    setting: dict[str, Any] = nested
    return setting


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):  # the latter: brackets in brackets, too deep to be a value
        return text


def merge(flags: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return several nested mappings merged into one; later ones override earlier ones.

    >>> merge([{"rounds": {"size": 5}}, {"rounds": {"quorum": 2}}, {"rounds": {"size": 6}}])
    {'rounds': {'size': 6, 'quorum': 2}}
    """
    result: dict[str, Any] = {}
    for nested in flags:
        for key, value in nested.items():
            both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
            result[key] = merge([result[key], value]) if both else value
    return result
