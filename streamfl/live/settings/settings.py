"""All settings of a process of a live federation: which of them fit together, and what follows from them."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from pydantic import BaseModel, Field, PrivateAttr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from streamfl.bounds import Limits
from streamfl.learning.local_round import Learner
from streamfl.live.settings.tables import (
    Alerts,
    ClientProcess,
    CoordinatorProcess,
    FederationTable,
    Labels,
    Logs,
    Records,
    RoundSettings,
    ScoreSettings,
    Telemetry,
)
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.records.formats import FieldMap, LabelMap, record_format
from streamfl.records.past_features import PastFeatures
from streamfl.run.renamed import settings_now
from streamfl.run.settings import LearningSettings, PrivacySettings, ProfileSettings
from streamfl.runtime.log.placement import pattern
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import LabelTopics, Placement, RecordFormat, Unlabelled
from streamfl.wire import messages
from streamfl.wire.masking import expand

PREFIX = "STREAMFL_"

# The most records that a client holds if the clock closes rounds: the number per interval is not known.
MANY = 10_000

# A client asks again after so many deadlines, and not before so many seconds.
# docs/choices.md, "When a client asks again".
DEADLINES, AT_LEAST = 2.0, 5.0


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
