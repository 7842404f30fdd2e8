"""Users of a secure broker with the rights of a role, made by the admin protocol; and what they may not do."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialUpsertion,
)

from deploy.broker import Broker
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import Unlabelled
from streamfl_connectors.kafka.access.acls import binding
from streamfl_connectors.kafka.access.granted import LogInRights
from streamfl_connectors.kafka.access.rights import ROLES, Federated, Need
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.settings import KafkaSettings

# No wait for the brokers' news of rights and topics is longer (seconds).
PATIENCE = 20.0

Refused = (kafka_errors.AuthorizationError, kafka_errors.TransactionalIdAuthorizationFailedError)


@dataclass(frozen=True)
class Users:
    """The users of one federation, one for each role: with a password of digits, and with a certificate.

    Parameters
    ----------
    broker
        A secure one.
    name
        The federation's.
    """

    broker: Broker
    name: str
    passwords: dict[str, str]

    @classmethod
    def made(cls, broker: Broker, name: str) -> "Users":
        """Make the users, give each the rights of its role, and wait until they have them."""
        users = cls(broker, name, {role: str(10**11 + secrets.randbelow(10**11)) for role in ROLES})
        with users.admin() as admin:
            made = admin.alter_user_scram_credentials(
                [
                    UserScramCredentialUpsertion(users.user(role), "SCRAM-SHA-256", users.passwords[role])
                    for role in ROLES
                ]
            )
            assert set(made.values()) == {None}
        for role in ROLES:
            users.grant(role, users.federated.needs(role))
        return users

    def user(self, role: str) -> str:
        return f"{self.name}-{role}"

    @property
    def federated(self) -> Federated:
        return Federated(
            Topics(self.name), (f"{self.name}.records.*",), (), Unlabelled((f"{self.name}.asked",), exactly_once=True)
        )

    def admin(self) -> KafkaAdminClient:
        """The super user."""
        return KafkaAdminClient(**self.broker.security.admin)

    def log_in(self, role: str) -> dict[str, str]:
        """A role's settings with a password."""
        return {
            "bootstrap_servers": self.broker.bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.broker.security.authority.certificate),
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": self.user(role),
            "sasl_plain_password": self.passwords[role],
        }

    def certified(self, role: str, **issued: Any) -> dict[str, str]:
        """A role's settings with a certificate."""
        security = self.broker.security
        return {
            "bootstrap_servers": security.bootstrap,
            **security.client(security.authority.issue(self.user(role), **issued)),
        }

    def connector(self, role: str, **told: Any) -> KafkaConnector:
        return KafkaConnector(self.name, KafkaSettings.model_validate({**self.log_in(role), "patience": 5, **told}))

    # --- rights ------------------------------------------------------------------------------------------------

    def grant(self, role: str, needs: Sequence[Need]) -> None:
        """Give a role rights, and wait until it has them."""
        with self.admin() as admin:
            admin.create_acls([_acl(need, f"User:{self.user(role)}") for need in needs])
        self.until(role, lambda lacking: not lacking & set(needs))

    def take(self, role: str, need: Need) -> None:
        """Take a right away, and wait until it is gone."""
        acl = _acl(need, f"User:{self.user(role)}")
        pattern = acl.resource_pattern
        of = ResourcePatternFilter(pattern.resource_type, pattern.resource_name, pattern.pattern_type)
        with self.admin() as admin:
            admin.delete_acls([ACLFilter(acl.principal, "*", acl.operation, ACLPermissionType.ALLOW, of)])
        self.until(role, lambda lacking: need in lacking)

    def until(self, role: str, holds: Callable[[set[Need]], bool]) -> None:
        """Wait until what a role lacks of its rights is as it should be."""
        needs = [need for need in self.federated.needs(role) if need.right not in ("CREATE", "DESCRIBE_CONFIGS")]
        until = time.monotonic() + PATIENCE
        with KafkaAdminClient(**self.log_in(role)) as admin:
            while not holds(set(LogInRights(admin, self.federated).lacking(needs))):
                assert time.monotonic() < until, f"rights of {role} have not arrived after {PATIENCE:g} s"
                time.sleep(0.02)


class PlantUsers(Users):
    """Those of a federation whose records and labels are repartitioned."""

    @property
    def federated(self) -> Federated:
        return Federated(
            Topics(self.name), (f"{self.name}.records.*",), (f"{self.name}.results",), is_repartitioned=True
        )


def _acl(need: Need, principal: str) -> ACL:
    told = binding(need, principal)
    pattern = ResourcePattern(
        ResourceType[told["resource_type"]], told["resource_name"], ACLResourcePatternType[told["pattern_type"]]
    )
    return ACL(principal, told["host"], ACLOperation[told["operation"]], ACLPermissionType.ALLOW, pattern)


class Attempts:
    """All that somebody might try on a federation: each attempt returns whether the brokers let it.

    Parameters
    ----------
    log_in
        Of who tries.
    """

    def __init__(self, log_in: dict[str, str]) -> None:
        self._log_in = log_in
        self._admin = KafkaAdminClient(**log_in)
        self._producer = KafkaProducer(**log_in, retries=0, max_block_ms=5000)
        self._consumer = KafkaConsumer(**log_in, enable_auto_commit=False)

    def close(self) -> None:
        for one in (self._admin, self._producer, self._consumer):
            one.close()

    def read(self, topic: str) -> bool:
        """Fetch from the start of a topic, which is not empty; kafka-python waits for ever for one that is hidden."""
        if self._admin.describe_topics([topic])[0]["error_code"] == kafka_errors.TopicAuthorizationFailedError.errno:
            return False
        partition = TopicPartition(topic, 0)
        self._consumer.assign([partition])
        until = time.monotonic() + PATIENCE
        try:
            self._consumer.seek(partition, 0)
            while not self._consumer.poll(timeout_ms=200):
                assert time.monotonic() < until, f"{topic}: neither read nor refused"
        except Refused:
            return False
        return True

    def write(self, topic: str) -> bool:
        try:
            self._producer.send(topic, b"forged", key=b"k", partition=0).get(timeout=PATIENCE)
        except Refused:
            return False
        return True

    def create(self, topic: str) -> bool:
        """Make a topic; that it is there already is no refusal."""
        try:
            self._admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
        except kafka_errors.TopicAlreadyExistsError:
            return True
        except Refused:
            return False
        return True

    def delete(self, topic: str) -> bool:
        return self._may(lambda: self._admin.delete_topics([topic]))

    def join(self, group: str) -> bool:
        """Commit for a group, which only its members may."""
        where = {TopicPartition("nowhere", 0): OffsetAndMetadata(0, "", -1)}
        try:
            answers = self._admin.alter_group_offsets(group, where)
        except Refused:
            return False
        return kafka_errors.GroupAuthorizationFailedError not in answers.values()

    def transact(self, name: str) -> bool:
        """Take a transactional id, which fences whoever has it."""
        with closing(KafkaProducer(**self._log_in, transactional_id=name)) as producer:
            return self._may(producer.init_transactions)

    def rule(self) -> bool:
        """Give everyone all rights."""
        everything = ResourcePattern(ResourceType.TOPIC, "*", ACLResourcePatternType.LITERAL)
        acl = ACL("User:*", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, everything)
        try:
            answers = self._admin.create_acls([acl])
        except Refused:
            return False
        return bool(answers["succeeded"])

    def _may(self, attempt: Callable[[], Any]) -> bool:
        try:
            attempt()
        except Refused:
            return False
        return True


def topics_of(name: str) -> Iterator[str]:
    """All topics of a federation."""
    own = ("control", "models", "updates", "state", "dead-letter", "predictions")
    yield from (f"{name}.{topic}" for topic in (*own, "records.c0", "asked"))
