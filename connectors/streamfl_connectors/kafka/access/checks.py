"""The checks of `streamfl check`: brokers, topics, rights, and the schema on real records. They change nothing."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors

from streamfl.errors import StreamflError
from streamfl.runtime.log.placement import labels_of, pattern
from streamfl.runtime.log.repartitioning import sampled
from streamfl.runtime.log.repartitioning.sampled import Read
from streamfl.runtime.log.repartitioning.whose import Whose, whose_by_field, whose_by_key, whose_labels
from streamfl.runtime.log.sample import listed
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import CheckResult, LabelTopics, Placement, RecordFormat, Unlabelled
from streamfl_connectors.kafka.access import sample
from streamfl_connectors.kafka.access.granted import SMALL, LogInRights
from streamfl_connectors.kafka.access.rights import Federated
from streamfl_connectors.kafka.administration import configs_of, new_topic, wrong_with
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.partitions import unequal_partitions, wrong_placement
from streamfl_connectors.kafka.settings import KafkaSettings
from streamfl_connectors.kafka.topics import TopicPlan, plans

Described = Mapping[str, Mapping[str, Any]]

# The most records and labels at each end of their topics that are looked at together.
MOST_RECORDS, MOST_LABELS = 10_000, 200

# The first version in which the right to write to a topic includes idempotent writes.
OLDEST = (3, 0)


def findings(
    connection: Connection,
    topics: Topics,
    placement: Placement,
    records: RecordFormat,
    asked: tuple[Unlabelled, RecordFormat] | None = None,
    delayed_labels: LabelTopics | None = None,
) -> Sequence[CheckResult]:
    """Return the findings, in the order in which things are needed, up to the first error that stops the check.

    Parameters
    ----------
    asked
        Where records without labels are that scorers answer, and how messages hold them; None: nowhere.
    delayed_labels
        Delayed labels from records; None: they come with these.
    """
    findings: list[CheckResult] = []
    subject = "brokers"
    try:
        with closing(connection.admin()) as admin:
            check = _Check(connection, admin, topics, placement, records, asked, delayed_labels)
            for subject, step in check.steps():  # noqa: B007  an error names the last one
                with explained(connection.settings):
                    findings += step()
    except (StreamflError, kafka_errors.KafkaError) as error:
        findings.append(failed(subject, error))
    return findings


def failed(subject: str, error: Exception) -> CheckResult:
    """Return an error as a finding; the last part of our errors is the remedy.

    >>> failed("brokers", StreamflError("no answer; start it")).remedy
    'start it'
    """
    found, _, remedy = str(error).rpartition("; ")
    if isinstance(error, StreamflError) and found:
        return CheckResult(subject, "error", found, remedy)
    return CheckResult(subject, "error", f"{error}", "see the brokers' own log for the reason")


class _Check:
    """One check, in which later steps use what earlier ones found."""

    def __init__(
        self,
        connection: Connection,
        admin: KafkaAdminClient,
        topics: Topics,
        placement: Placement,
        records: RecordFormat,
        asked: tuple[Unlabelled, RecordFormat] | None,
        delayed_labels: LabelTopics | None,
    ) -> None:
        self._asked = asked
        self._delayed_labels = delayed_labels
        self._of_labels: Described = {}
        self._to_answer: Described = {}
        self._connection = connection
        self._settings = connection.settings
        self._admin = admin
        self._topics = topics
        self._placement = placement
        self._format = records
        self._brokers = 1
        self._own: Described = {}
        self._of_records: Described = {}

    def steps(self) -> Iterator[tuple[str, Callable[[], Iterable[CheckResult]]]]:
        """Yield the steps, each with its subject."""
        yield "brokers", self._cluster
        yield "topics", self._own_topics
        yield "records", self._record_topics
        if self._delayed_labels is not None:
            yield "labels", self._label_topics
        if self._asked is not None:
            yield "records without labels", self._unlabelled_topics
        yield "rights", self._rights
        yield "records", self._schema
        if self._delayed_labels is not None:
            yield "labels", self._label_schema
        if self._placement.is_repartitioned:
            yield "clients", self._matched
        if self._asked is not None:
            yield "records without labels", self._unlabelled_schema

    def _cluster(self) -> Iterator[CheckResult]:
        brokers = self._admin.describe_cluster()["brokers"]
        self._brokers = len(brokers)
        version = tuple(self._admin.get_broker_version_data(brokers[0]["broker_id"]).broker_version)
        yield broker_finding(self._settings.bootstrap_servers, version, brokers)

    def _own_topics(self) -> Iterator[CheckResult]:
        wanted = plans(self._topics)
        self._own = described(self._admin, [plan.name for plan in wanted])
        there = {name: topic for name, topic in self._own.items() if not topic["error_code"]}
        configs = configs_of(self._admin, sorted(there)) if there else {}
        present = [plan for plan in wanted if plan.name in there]
        wrong = wrong_with(present, _partitions(there), configs, self._settings.part_bytes)
        wrong += [
            finding for name in there for finding in durability(there[name], configs.get(name, {}), self._brokers)
        ]
        if present and not wrong:
            yield CheckResult("topics", "ok", f"all as needed: {listed([plan.name for plan in present])}")
        yield from wrong
        missing = [plan for plan in wanted if self._is(self._own, plan.name, UNKNOWN)]
        yield from self._missing(missing, is_new=not there)

    def _missing(self, missing: Sequence[TopicPlan], *, is_new: bool) -> Iterator[CheckResult]:
        """Check whether missing topics could be made, without making them."""
        if not missing:
            return
        wanted = {plan.name: new_topic(plan, self._settings.replication_factor) for plan in missing}
        answers = self._admin.create_topics(wanted, validate_only=True, raise_errors=False)["topics"]
        yield from missing_findings(answers, self._settings, self._brokers, is_new=is_new)

    def _record_topics(self) -> Iterator[CheckResult]:
        explicit = [name for name in self._placement.topics if "*" not in name]
        starred = [name for name in self._placement.topics if "*" in name]
        every = self._admin.list_topics() if starred else ()
        matched = {name: [topic for topic in every if re.fullmatch(pattern(name), topic)] for name in starred}
        yield from _own_topics_matched(matched, self._own)
        names = {*explicit, *(topic for topics in matched.values() for topic in topics)} - self._own.keys()
        self._of_records = described(self._admin, sorted(names)) if names else {}
        for name in explicit:
            if self._is(self._of_records, name, UNKNOWN):
                remedy = "make it, or correct topics in [records]; `streamfl produce` makes it too"
                yield CheckResult(name, "error", f"topic {name} does not exist", remedy)
        for name, topics in matched.items():
            if not set(topics) - self._own.keys():
                remedy = "correct topics in [records], or make topics of such names; `streamfl produce` makes them"
                yield CheckResult(name, "warning", f"no topic is named like {name}", remedy)
        there = {name: topic for name, topic in self._of_records.items() if not topic["error_code"]}
        wrong = wrong_placement(self._placement, _partitions(there))
        wrong += [finding for topic in there.values() for finding in durability(topic, {}, self._brokers)]
        yield from wrong
        if there and not wrong:
            parts = sum(len(topic["partitions"]) for topic in there.values())
            many = f"{len(there)} topic{'s' * (len(there) > 1)} of {parts} partition{'s' * (parts > 1)}"
            yield CheckResult("records", "ok", f"{many}: {listed(sorted(there))}")

    def _label_topics(self) -> Iterator[CheckResult]:
        """Check the topic of the labels of each topic of records, and that of the clients' answers."""
        if self._delayed_labels is None:
            return
        if self._placement.is_repartitioned:
            yield from self._labels_of_any_records(self._delayed_labels.placement.topics[0])
            return
        there = {name: topic for name, topic in self._of_records.items() if not topic["error_code"]}
        labels = {name: labels_of(self._delayed_labels.placement, self._placement, name) for name in there}
        self._of_labels = described(self._admin, sorted(labels.values())) if labels else {}
        self._to_answer = described(self._admin, [self._topics.predictions])
        wrong: list[CheckResult] = []
        for name, of_labels in labels.items():
            topic = self._of_labels[of_labels]
            if topic["error_code"]:
                remedy = "make it, or correct topic in [labels]; `streamfl produce --label-delay N` makes it too"
                known = self._is(self._of_labels, of_labels, UNKNOWN)
                found = f"topic {of_labels} of the labels of {name} " + ("does not exist" if known else "is hidden")
                wrong.append(CheckResult(of_labels, "error", found, remedy))
            else:
                wrong += unequal_partitions(_partitions({name: there[name]}), _partitions({of_labels: topic}))
                wrong += durability(topic, {}, self._brokers)
        yield from wrong
        if labels and not wrong:
            yield CheckResult("labels", "ok", f"{len(labels)} topics: {listed(sorted(labels.values()))}")

    def _labels_of_any_records(self, name: str) -> Iterator[CheckResult]:
        """Check the topic of labels whose records may be in any partitions, and that of the clients' answers."""
        self._of_labels = described(self._admin, [name])
        self._to_answer = described(self._admin, [self._topics.predictions])
        topic = self._of_labels[name]
        if topic["error_code"]:
            what = "does not exist" if self._is(self._of_labels, name, UNKNOWN) else "is hidden"
            yield CheckResult(
                name, "error", f"topic {name} of labels {what}", "make it, or correct topic in [labels]"
            )
            return
        yield from durability(topic, {}, self._brokers)
        yield CheckResult("labels", "ok", f"{name}, {len(topic['partitions'])} partitions")

    def _unlabelled_topics(self) -> Iterator[CheckResult]:
        unlabelled = self._asked[0].topics if self._asked is not None else ()
        self._to_answer = described(self._admin, sorted({*unlabelled, self._topics.predictions}))
        for name in unlabelled:
            if self._is(self._to_answer, name, UNKNOWN):
                remedy = "make it, or correct topics in [score]; `streamfl produce --unlabelled` makes it too"
                yield CheckResult(name, "error", f"topic {name} does not exist", remedy)
        there = {name: topic for name, topic in self._to_answer.items() if not topic["error_code"]}
        for topic in there.values():
            yield from durability(topic, {}, self._brokers)
        if there.keys() >= set(unlabelled):
            parts = sum(len(there[name]["partitions"]) for name in unlabelled)
            yield CheckResult("records without labels", "ok", f"{parts} partitions: {listed(sorted(unlabelled))}")

    def _rights(self) -> Iterable[CheckResult]:
        labels = self._delayed_labels.placement.topics if self._delayed_labels is not None else ()
        unlabelled = self._asked[0] if self._asked is not None else Unlabelled(())
        federated = Federated(
            self._topics,
            self._placement.topics,
            labels,
            unlabelled,
            is_repartitioned=self._placement.is_repartitioned,
        )
        scorer = ["scorer"] if unlabelled.topics else []
        return LogInRights(self._admin, federated).findings(["host", "coordinator", *scorer, *SMALL])

    def _schema(self) -> Iterable[CheckResult]:
        return self._sampled(self._of_records, self._format)

    def _label_schema(self) -> Iterable[CheckResult]:
        return () if self._delayed_labels is None else self._sampled(self._of_labels, self._delayed_labels.records)

    def _matched(self) -> Iterator[CheckResult]:
        """Look at the newest and the oldest messages of all partitions: whose they are, and which labels fit."""
        labels = self._delayed_labels
        records, of_labels = self._readable(self._of_records), self._readable(self._of_labels)
        if not records:
            return
        newest, oldest = sample.at_both_ends(self._connection, records, MOST_RECORDS)
        seen = _with_times([*oldest, *newest], self._whose)
        yield sampled.clients_seen(seen)
        if labels is None or not of_labels:
            return
        told = _with_times(
            [some for end in sample.at_both_ends(self._connection, of_labels, MOST_LABELS) for some in end],
            lambda messages: whose_labels(messages, labels.records),
        )
        times = [[[one.timestamp for one in some] for some in end] for end in (newest, oldest)]
        rate = max(map(sampled.rate_of, times))
        found = sampled.match(seen, told, rate, sampled.unseen_span(times[1], times[0]))
        needed = sampled.needed_window(found, sampled.busiest(seen, max(records.values())))
        yield sampled.labels_fit(found, needed, labels.window)

    def _whose(self, messages: Sequence[Any]) -> Sequence[Whose]:
        if self._placement.by == "field":
            return whose_by_field(messages, self._format.fresh())
        return whose_by_key(messages, None if self._delayed_labels is None else self._format.fresh())

    @staticmethod
    def _readable(topics: Described) -> dict[str, int]:
        return _partitions({name: topic for name, topic in topics.items() if _is_readable(topic)})

    def _unlabelled_schema(self) -> Iterable[CheckResult]:
        if self._asked is None:
            return ()
        unlabelled, records = self._asked
        return self._sampled({name: self._to_answer[name] for name in unlabelled.topics}, records)

    def _sampled(self, topics: Described, records: RecordFormat) -> Iterable[CheckResult]:
        readable = self._readable(topics)
        if not readable:
            return ()
        return sample.findings(self._connection, readable, records, self._topics.dead_letters)

    @staticmethod
    def _is(topics: Described, name: str, code: int) -> bool:
        return bool(topics[name]["error_code"] == code)


def _with_times(partitions: Sequence[Sequence[Any]], whose: Callable[[Sequence[Any]], Sequence[Whose]]) -> Read:
    """Return whose the messages of some partitions are, and when each was written."""
    return [
        (who, message.timestamp)
        for messages in partitions
        for who, message in zip(whose(messages), messages, strict=True)
    ]


UNKNOWN: int = kafka_errors.UnknownTopicOrPartitionError.errno
DENIED: int = kafka_errors.TopicAuthorizationFailedError.errno


def described(admin: KafkaAdminClient, names: Sequence[str]) -> Described:
    """Return what the brokers report of topics, including those that do not exist or may not be seen."""
    return {topic["name"]: topic for topic in admin.describe_topics(names)}


def _partitions(topics: Described) -> dict[str, int]:
    return {name: len(topic["partitions"]) for name, topic in topics.items()}


def _is_readable(topic: Mapping[str, Any]) -> bool:
    rights = topic["authorized_operations"]
    return not topic["error_code"] and (rights is None or "READ" in rights)


def broker_finding(servers: object, version: tuple[int, ...], brokers: Sequence[Mapping[str, Any]]) -> CheckResult:
    """Return the finding on the brokers.

    >>> broker_finding("b:9092", (4, 1), [{"broker_id": 1, "is_fenced": False}]).found
    'b:9092 answers: 1 broker, Apache Kafka 4.1'
    """
    number = f"{len(brokers)} broker{'s' * (len(brokers) != 1)}"
    found = f"{servers} answers: {number}, Apache Kafka {'.'.join(map(str, version))}"
    out = [str(broker["broker_id"]) for broker in brokers if broker.get("is_fenced")]
    if version < OLDEST:
        needed = ".".join(map(str, OLDEST))
        return CheckResult(
            "brokers", "warning", found, f"update them to {needed} or later; older ones were never tested"
        )
    if out:
        return CheckResult(
            "brokers", "warning", f"{found}; these do not answer: {', '.join(out)}", "start those again"
        )
    return CheckResult("brokers", "ok", found)


def missing_findings(
    answers: Sequence[Mapping[str, Any]], settings: KafkaSettings, brokers: int, *, is_new: bool
) -> Iterator[CheckResult]:
    """Yield findings on missing topics, from the brokers' answers to whether they could be made.

    Parameters
    ----------
    is_new
        Whether all topics of the federation are missing, as before its first start.
    """
    by_code: dict[int, list[Mapping[str, Any]]] = {}
    for topic in answers:
        by_code.setdefault(topic["error_code"], []).append(topic)
    for code, topics in by_code.items():
        names = listed([topic["name"] for topic in topics])
        found = f"no {names} yet"
        if not code and brokers > 1 and settings.replication_factor == 1:
            remedy = (
                "the coordinator will make them with one copy each; for more copies, first set replication_factor in "
                f"[{settings.section}]"
            )
            yield CheckResult("topics", "warning", found, remedy)
        elif not code and is_new:
            none = f"none of the federation's {len(topics)} topics exist yet"
            found = f"{none}; the coordinator creates them at its first start"
            yield CheckResult("topics", "ok", found)
        elif not code:
            yield CheckResult("topics", "warning", found, "the coordinator will make them when it starts")
        elif code == DENIED:
            remedy = "start the coordinator first, under a log-in with CREATE on them, or make them by hand"
            yield CheckResult("topics", "warning", f"{found}, and this log-in may not make them", remedy)
        elif code == kafka_errors.InvalidReplicationFactorError.errno:
            remedy = f"lower it to {brokers} or less, or add brokers"
            found = f"{found}; replication_factor is {settings.replication_factor}, with {brokers} brokers"
            yield CheckResult("topics", "error", found, remedy)
        else:
            reason = topics[0]["error_message"] or kafka_errors.for_code(code).__name__
            remedy = "make them by hand, as docs/kafka.md describes them"
            yield CheckResult("topics", "error", f"{found}, and they could not be made: {reason}", remedy)


def durability(topic: Mapping[str, Any], configs: Mapping[str, str], brokers: int) -> Iterator[CheckResult]:
    """Yield findings on the copies of a topic: whether the loss of one broker could stop or undo training."""
    name, parts = topic["name"], topic["partitions"]
    copies = min((len(part["replica_nodes"]) for part in parts), default=0)
    in_sync = min((len(part["isr_nodes"]) for part in parts), default=0)
    needed = int(configs.get("min.insync.replicas", 1))
    if any(part["leader_id"] < 0 for part in parts):
        yield CheckResult(
            name, "error", f"topic {name} has a partition without a leader", "start the brokers that hold it"
        )
    elif in_sync < needed:
        found = f"topic {name} takes no message: {in_sync} of its copies in sync, min.insync.replicas is {needed}"
        yield CheckResult(
            name, "error", found, "start the brokers that hold the others, or lower min.insync.replicas"
        )
    elif copies == 1 and brokers > 1:
        found = f"topic {name} has one copy, on one of {brokers} brokers"
        yield CheckResult(name, "warning", found, "move it to 3 copies; set replication_factor for new ones")
    elif copies > 1 and needed >= copies:
        found = (
            f"topic {name} takes no message when one of its {copies} brokers is down: min.insync.replicas {needed}"
        )
        yield CheckResult(name, "warning", found, f"lower min.insync.replicas to {copies - 1}")


def _own_topics_matched(matched: Mapping[str, Sequence[str]], own: Described) -> Iterator[CheckResult]:
    for name, topics in matched.items():
        taken = sorted(own.keys() & set(topics))
        if taken:
            found = f"{name} also matches the federation's own {listed(taken)}, which have no records"
            remedy = (
                "these are ignored; it is better to give topics of records a prefix of their own, such as "
                "NAME.records.*"
            )
            yield CheckResult(name, "warning", found, remedy)
