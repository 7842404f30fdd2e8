"""Rights: what clients and the coordinator need, and whether a log-in has it.

For topics the brokers report the rights of a log-in. For groups a commit to a topic that does not exist is tried, and
the reason of its refusal shows whether there is a right. Transactional ids are looked up.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from streamfl.log.topics import Topics
from streamfl.ports import Finding, Unlabelled

T = TypeVar("T")

# Seconds to wait while brokers still load groups and transactions, as they do at the first request.
LOADED_WITHIN = 10.0


@dataclass(frozen=True, slots=True)
class Need:
    """One right: to READ, WRITE or DESCRIBE a topic, group or transactional id.

    >>> str(Need("WRITE", "topic", "forest.updates"))
    'WRITE on topic forest.updates'
    """

    right: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.right} on {self.kind} {self.name}"


def client_needs(topics: Topics, records: Sequence[str], *, answers: bool = False) -> list[Need]:
    """Return the rights that a client's log-in needs; with `answers` it answers records, whose labels come apart."""
    answered = [Need(right, "topic", topics.predictions) for right in ("READ", "WRITE") if answers]
    return [
        *(Need("READ", "topic", name) for name in (*records, topics.control, topics.models)),
        *(Need("WRITE", "topic", name) for name in (topics.updates, topics.dead_letters)),
        *answered,
        Need("READ", "group", topics.clients_group),
    ]


def coordinator_needs(topics: Topics, records: Sequence[str]) -> list[Need]:
    """Return the rights that the coordinator's log-in needs; for records, only to see where they end."""
    written = (topics.control, topics.models, topics.state, topics.dead_letters)
    return [
        *(Need("READ", "topic", name) for name in (topics.updates, topics.commands, topics.state)),
        *(Need("WRITE", "topic", name) for name in written),
        *(Need("DESCRIBE", "topic", name) for name in records),
        Need("READ", "group", topics.coordinator_group),
        Need("WRITE", "transactional id", topics.coordinator_group),
    ]


def scorer_needs(topics: Topics, unlabelled: Unlabelled) -> list[Need]:
    """Return the rights that a scorer's log-in needs."""
    transacts = [Need("WRITE", "transactional id", f"{topics.scorers_group}.*")] if unlabelled.exactly_once else []
    return [
        *(Need("READ", "topic", name) for name in (*unlabelled.topics, topics.control, topics.models)),
        *(Need("WRITE", "topic", name) for name in (topics.predictions, topics.dead_letters)),
        Need("READ", "group", topics.scorers_group),
        *transacts,
    ]


def role_findings(missing: Mapping[str, Sequence[Need]], needed: Mapping[str, int]) -> Iterator[Finding]:
    """Yield a finding on each role, from the rights that it needs and those that the log-in lacks.

    A log-in is taken to be for a role if it has at least half of its rights, or no other role fits better: a missing
    right is then an error. For other roles it is a warning, since clients and the coordinator may have log-ins of
    their own.
    """
    share = {role: 1.0 - len(lacks) / needed[role] for role, lacks in missing.items()}
    meant = {role for role in missing if share[role] >= 0.5 or share[role] == max(share.values())}
    for role, lacks in missing.items():
        names = ", ".join(map(str, lacks))
        if not lacks:
            yield Finding(f"rights of {role}", "ok", "this log-in has all rights that it needs")
        elif role in meant:
            yield Finding(f"rights of {role}", "error", f"this log-in lacks {names}", f"grant it {names}")
        else:
            remedy = f"check with the log-in of {role}, or grant this one {names}"
            yield Finding(f"rights of {role}", "warning", "this log-in is not meant for this role", remedy)


class Rights:
    """Checks the rights of a log-in.

    Parameters
    ----------
    admin
        A connection with the log-in.
    topics
        The federation's own topics.
    described
        What the brokers report of these and of the topics of records.
    records
        The names of the topics of records, and of labels.
    unlabelled
        The records that scorers answer; None: there are no scorers.
    answers
        Whether clients answer records, because labels come apart from these.
    """

    def __init__(
        self,
        admin: KafkaAdminClient,
        topics: Topics,
        described: Mapping[str, Mapping[str, Any]],
        records: Sequence[str],
        unlabelled: Unlabelled | None = None,
        *,
        answers: bool = False,
    ) -> None:
        self._unlabelled = unlabelled
        self._answers = answers
        self._admin = admin
        self._topics = topics
        self._described = described
        self._records = records

    def findings(self) -> Iterator[Finding]:
        """Return the findings, by role."""
        roles = {
            "clients": client_needs(self._topics, self._records, answers=self._answers),
            "the coordinator": coordinator_needs(self._topics, self._records),
        }
        if self._unlabelled is not None:
            roles["scorers"] = scorer_needs(self._topics, self._unlabelled)
        missing = {role: [need for need in needs if not self._has(need)] for role, needs in roles.items()}
        return role_findings(missing, {role: len(needs) for role, needs in roles.items()})

    def _has(self, need: Need) -> bool:
        match need.kind:
            case "topic":
                return self._has_topic(need)
            case "group":
                return self._has_group(need.name)
            case _:
                return self._has_transactions(need.name)

    def _has_topic(self, need: Need) -> bool:
        topic = self._described[need.name]
        if topic["error_code"] == kafka_errors.UnknownTopicOrPartitionError.errno:
            return True  # it is missing, which another finding says, or is made by who needs it
        if topic["error_code"] == kafka_errors.TopicAuthorizationFailedError.errno:
            return False
        rights = topic["authorized_operations"]
        return rights is None or need.right in rights

    def _has_group(self, group: str) -> bool:
        nowhere = TopicPartition(f"{self._topics.federation}.check", 0)
        denied = kafka_errors.GroupAuthorizationFailedError
        try:
            answers = _once_loaded(
                lambda: self._admin.alter_group_offsets(group, {nowhere: OffsetAndMetadata(0, "", -1)})
            )
        except denied:
            return False
        return denied not in answers.values()

    def _has_transactions(self, name: str) -> bool:
        """Tell whether a transactional id may be seen; a log-in that may not see it, may not use it either."""
        try:
            _once_loaded(lambda: self._admin.describe_transactions([name]))
        except kafka_errors.TransactionalIdAuthorizationFailedError:
            return False
        except kafka_errors.TransactionalIdNotFoundError:
            return True  # it was never used
        return True


def _once_loaded(ask: Callable[[], T]) -> T:
    until = time.monotonic() + LOADED_WITHIN
    while True:
        try:
            return ask()
        except kafka_errors.RetriableError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.1)
