"""Makes and checks the topics of a federation."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType

from streamfl.errors import PeerError, UsageError
from streamfl.runtime.ports import CheckResult
from streamfl_connectors.kafka.topics import TopicPlan

# The bytes that a message may need besides its value: key, headers and those of the log.
ALLOWANCE = 10_000


def partition_counts(admin: KafkaAdminClient, topics: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of the topics that exist."""
    described = admin.describe_topics(list(topics))
    return {topic["name"]: len(topic["partitions"]) for topic in described if not topic["error_code"]}


def visible(admin: KafkaAdminClient, plans: Sequence[TopicPlan]) -> list[TopicPlan]:
    """Return the topics that this log-in may see: a client needs no right to the coordinator's state."""
    hidden = kafka_errors.TopicAuthorizationFailedError.errno
    described = admin.describe_topics([plan.name for plan in plans])
    unseen = {topic["name"] for topic in described if topic["error_code"] == hidden}
    return [plan for plan in plans if plan.name not in unseen]


def configs_of(admin: KafkaAdminClient, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the effective settings of topics that exist."""
    if not topics:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    described = admin.describe_configs(resources, config_filter="all")["topic"]
    return {name: {key: value["value"] for key, value in entry.items()} for name, entry in described.items()}


def make_missing(admin: KafkaAdminClient, plans: Sequence[TopicPlan], replication: int) -> list[str]:
    """Make the topics that do not exist, and return their names; another process may make them meanwhile.

    Raises
    ------
    PeerError
        This log-in may not make them; another one may.
    """
    there = partition_counts(admin, (plan.name for plan in plans))
    missing = {plan.name: new_topic(plan, replication) for plan in plans if plan.name not in there}
    if missing:
        with suppress(kafka_errors.TopicAlreadyExistsError):  # the caller checks whether all exist
            try:
                admin.create_topics(missing, wait_for_metadata=True)
            except kafka_errors.TopicAuthorizationFailedError as error:
                names = ", ".join(sorted(missing))
                remedy = "start the coordinator first, whose topics they are, or make them as docs/kafka.md says"
                raise PeerError(f"no topic {names} yet, and this log-in lacks CREATE on it; {remedy}") from error
    return sorted(missing)


def new_topic(plan: TopicPlan, replication: int) -> Mapping[str, Any]:
    """Return the request to make a topic."""
    return {"num_partitions": plan.made_with, "replication_factor": replication, "configs": dict(plan.configs)}


def wrong_with(
    plans: Sequence[TopicPlan],
    partitions: Mapping[str, int],
    configs: Mapping[str, Mapping[str, str]],
    part_bytes: int,
) -> list[CheckResult]:
    """Return the errors and warnings about topics.

    >>> plan = TopicPlan("f.control", 1, 1, {})
    >>> [finding.found for finding in wrong_with([plan], {"f.control": 3}, {}, 900_000)]
    ['topic f.control has 3 partitions, and 1 is used']
    """
    return [finding for plan in plans for finding in _wrong(plan, partitions, configs.get(plan.name, {}), part_bytes)]


def _wrong(
    plan: TopicPlan, partitions: Mapping[str, int], configs: Mapping[str, str], part_bytes: int
) -> Iterable[CheckResult]:
    has = partitions.get(plan.name)
    if has is None:
        yield CheckResult(
            plan.name, "error", f"topic {plan.name} does not exist", "make it, or let the coordinator do so"
        )
        return
    if plan.partitions is not None and has > plan.partitions:
        found = f"topic {plan.name} has {has} partitions, and {plan.partitions} is used"
        yield CheckResult(plan.name, "warning", found, "leave it so: nothing is written to the others")
    needed = max(part_bytes, plan.largest) + ALLOWANCE
    largest = int(configs.get("max.message.bytes", needed))
    if largest < needed and part_bytes > plan.largest:
        found = f"topic {plan.name} takes messages of {largest} bytes, parts have {part_bytes}"
        yield CheckResult(plan.name, "error", found, "raise its max.message.bytes, or lower part_bytes")
    elif largest < needed:
        found = f"topic {plan.name} takes messages of {largest} bytes, and is sent some of {plan.largest}"
        yield CheckResult(plan.name, "error", found, f"raise its max.message.bytes to {needed} or more")
    wanted = plan.configs.get("cleanup.policy")
    if wanted and configs.get("cleanup.policy", wanted) != wanted:
        found = f"topic {plan.name} has cleanup.policy {configs['cleanup.policy']}, not {wanted}"
        yield CheckResult(plan.name, "error", found, f"set its cleanup.policy to {wanted}")


def require(findings: Sequence[CheckResult]) -> None:
    """Raise a UsageError with all errors among findings, if there are any."""
    errors = [f"{finding.found}; {finding.remedy}" for finding in findings if finding.state == "error"]
    if errors:
        raise UsageError("; ".join(errors))
