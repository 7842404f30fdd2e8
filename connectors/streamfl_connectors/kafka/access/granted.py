"""Tells which rights a log-in has.

For topics the brokers report the rights of a log-in. For groups its offsets are asked for or, if it is to be read, a
commit to a topic that does not exist is tried: the refusal shows whether there is a right. Transactional ids are
looked up.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

import structlog
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from streamfl.errors import UsageError
from streamfl.runtime.log.placement import pattern
from streamfl.runtime.ports import CheckResult
from streamfl_connectors.kafka.access.rights import HOLDERS, OPTIONAL, Federated, Need

T = TypeVar("T")

LOG = structlog.get_logger("streamfl.kafka")

# Seconds to wait while brokers still load groups and transactions, as they do at the first request.
LOADED_WITHIN = 10.0

# A log-in is told of these roles only if it has none of the others: each has a few rights of theirs.
SMALL = ("watch", "page", "producer", "operator")


def role_findings(missing: Mapping[str, Sequence[Need]], needed: Mapping[str, int]) -> Iterator[CheckResult]:
    """Yield a finding on each role, from the rights that it needs and those that the log-in lacks.

    A log-in is taken to be for a role if it has at least half of its rights and that on its group, or no other role
    fits better: a missing right is then an error. For other roles it is a warning, since each may have a log-in of
    its own; what they all read does not show which one that is.
    """
    share = {role: 1.0 - len(lacks) / needed[role] for role, lacks in missing.items()}
    joins = {role for role, lacks in missing.items() if all(need.kind != "group" for need in lacks)}
    meant = _meant(share, joins)
    missing = {role: lacks for role, lacks in missing.items() if role in meant or role not in SMALL}
    for role, lacks in missing.items():
        names = ", ".join(map(str, lacks))
        subject = f"rights of {HOLDERS[role]}"
        if not lacks:
            yield CheckResult(subject, "ok", "this log-in has all rights that it needs")
        elif role in meant:
            remedy = f"grant it {names}: `streamfl acls --role {role}` prints how"
            yield CheckResult(subject, "error", f"this log-in lacks {names}", remedy)
        else:
            remedy = f"check with the log-in of {HOLDERS[role]}, or grant this one {names}"
            yield CheckResult(subject, "warning", "this log-in is not meant for this role", remedy)


def _meant(share: Mapping[str, float], joins: Set[str]) -> Set[str]:
    """Return the roles that a log-in is taken to be for."""
    best = max(share[role] for role in share if role not in SMALL)
    small = {role for role in SMALL if share.get(role, 0.0) >= 0.5}
    if best < 0.5 and small:
        return small
    return {
        role for role, has in share.items() if role not in SMALL and (has == best or (has >= 0.5 and role in joins))
    }


class LogInRights:
    """The rights of a log-in."""

    def __init__(self, admin: KafkaAdminClient, federated: Federated) -> None:
        self._admin = admin
        self._federated = federated

    def findings(self, roles: Sequence[str]) -> Iterator[CheckResult]:
        """Return the findings, by role."""
        needs = {role: needs for role in roles if (needs := self._required(role))}
        missing = {role: self.lacking(wanted) for role, wanted in needs.items()}
        return role_findings(missing, {role: len(wanted) for role, wanted in needs.items()})

    def _required(self, role: str) -> list[Need]:
        return [need for need in self._federated.needs(role) if need.right not in OPTIONAL]

    def require(self, role: str) -> None:
        """Check that a process may do its work before it begins; log what it can do without.

        Raises
        ------
        UsageError
            Names the rights that the log-in lacks.
        """
        lacks = self.lacking(self._required(role))
        if vital := [str(need) for need in lacks if need.vital]:
            raise UsageError(
                f"this log-in lacks {', '.join(vital)}; grant it, as `streamfl acls --role {role}` prints"
            )
        for need in lacks:
            LOG.warning("a right is lacking", right=str(need), remedy=f"streamfl acls --role {role} prints how")

    def lacking(self, needs: Sequence[Need]) -> list[Need]:
        """Return those rights that the log-in lacks."""
        topics = [need for need in needs if need.kind == "topic"]
        described = self._described({need.name for need in topics if need.beginning is None})
        seen = set(self._admin.list_topics()) if len(described) < len({need.name for need in topics}) else set()
        return [need for need in needs if not self._has(need, described, seen)]

    def _described(self, names: set[str]) -> Mapping[str, Mapping[str, Any]]:
        return {topic["name"]: topic for topic in self._admin.describe_topics(sorted(names))} if names else {}

    def _has(self, need: Need, described: Mapping[str, Mapping[str, Any]], seen: set[str]) -> bool:
        match need.kind:
            case "topic" if need.beginning is not None:
                return self._has_each(need, seen, need.beginning)
            case "topic":
                return has_topic(need.right, described[need.name])
            case "group":
                return self._has_group(need.right, need.name)
            case _:
                return self._has_transactions(need.name)

    def _has_each(self, need: Need, seen: set[str], beginning: str) -> bool:
        """Tell whether a log-in has a right on all topics of such names: on those that it sees, else on any."""
        names = {name for name in seen if re.fullmatch(pattern(need.name), name)} - self._federated.topics.own
        described = self._described(names or {f"{beginning}of-nobody"})
        return all(has_topic(need.right, topic) for topic in described.values())

    def _has_group(self, right: str, group: str) -> bool:
        nowhere = TopicPartition(f"{self._federated.topics.federation}.check", 0)
        denied = kafka_errors.GroupAuthorizationFailedError
        try:
            if right == "DESCRIBE":
                _once_loaded(lambda: self._admin.list_group_offsets({group: [nowhere]}))
                return True
            answers = _once_loaded(
                lambda: self._admin.alter_group_offsets(group, {nowhere: OffsetAndMetadata(0, "", -1)})
            )
        except denied:
            return False
        except kafka_errors.TopicAuthorizationFailedError:
            return True  # the group could be asked
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


def has_topic(right: str, topic: Mapping[str, Any]) -> bool:
    """Tell whether a log-in has a right on a topic, from what the brokers report of that.

    >>> has_topic("READ", {"error_code": 0, "authorized_operations": ["DESCRIBE", "WRITE"]})
    False
    """
    if topic["error_code"] == kafka_errors.UnknownTopicOrPartitionError.errno:
        return True  # it is missing, which another finding says, or is made by who needs it
    if topic["error_code"] == kafka_errors.TopicAuthorizationFailedError.errno:
        return False
    rights = topic["authorized_operations"]
    return rights is None or right in rights


def _once_loaded(ask: Callable[[], T]) -> T:
    until = time.monotonic() + LOADED_WITHIN
    while True:
        try:
            return ask()
        except kafka_errors.RetriableError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.1)
