"""Makes kafka-python's clients with the same settings, and explains their errors."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from streamfl.errors import PeerError, StreamflError, TakenOverError, UsageError
from streamfl.wire.signing import OPEN, Signatures
from streamfl_connectors.kafka import causes, tls
from streamfl_connectors.kafka.batches import read_leniently
from streamfl_connectors.kafka.consumer import Consumer
from streamfl_connectors.kafka.noise import leave_out_noise
from streamfl_connectors.kafka.record_reader import RecordReader
from streamfl_connectors.kafka.settings import KafkaSettings

T = TypeVar("T")

LOG = structlog.get_logger("streamfl.kafka")

# Milliseconds of one attempt to reach the brokers; attempts are repeated for `patience` seconds.
BOOTSTRAP_MS = 5000

# The most milliseconds between two attempts to reach a broker again. kafka-python's own 30 s would keep a process
# waiting for so long after an outage.
RECONNECT_MS = 2000

# A broker that expects TLS or a log-in and gets none, or the reverse, closes the connection without an answer.
ENDED = re.compile("disconnected|[Hh]andshake")

# Errors that kafka-python raises, at once or in its own thread, for a setting that it cannot use, such as a key file
# that does not exist.
UNUSABLE = (kafka_errors.KafkaConfigurationError, OSError, AssertionError, TypeError, ValueError)


# The most bytes of a fetch of records, from one partition and in all. They bound what a client holds beyond its room.
MAX_FETCHED_OF_PARTITION, MAX_FETCHED = 512 * 1024, 16 * 1024 * 1024

# A poll returns everything that was fetched. kafka-python 3.0.12 loses the rest of a fetch if its partition is paused
# between two polls: after `resume` it is neither returned nor fetched again.
EVERYTHING = 1_000_000

# How records are fetched.
FETCH_CONFIG = {
    "max_poll_records": EVERYTHING,
    "max_partition_fetch_bytes": MAX_FETCHED_OF_PARTITION,
    "fetch_max_bytes": MAX_FETCHED,
}

TAKEN_OVER = "another coordinator of this federation has taken over; this process ends"


class Connection:
    """Makes kafka-python's clients, all with the same settings."""

    def __init__(self, settings: KafkaSettings, signatures: Signatures = OPEN) -> None:
        self.signatures = signatures
        leave_out_noise()
        read_leniently()
        self.settings = settings

    def consumer(self, **own: Any) -> KafkaConsumer:
        """Return a consumer of committed messages, which commits no offsets on its own."""
        defaults = {
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
        }
        return self._made(Consumer, defaults | own)

    def record_reader(self, group: str, member: str | None = None) -> RecordReader:
        """Return what reads records in bulk.

        Parameters
        ----------
        group
            Whose offsets it may commit.
        member
            The name under which it joins the group, the same after a restart; None: partitions are assigned by hand.
        """
        reader: RecordReader = self.consumer(group_id=group, **FETCH_CONFIG, **self._membership(member))
        return reader

    def _membership(self, member: str | None) -> Mapping[str, Any]:
        if member is None:
            return {}
        timeout = self.settings.session_timeout_ms
        return {
            "group_instance_id": member,
            "session_timeout_ms": timeout,
            "heartbeat_interval_ms": timeout // 4,
            "partition_assignment_strategy": (CooperativeStickyAssignor(),),
        }

    def producer(self, **own: Any) -> KafkaProducer:
        """Return an idempotent producer, which tries for `patience` seconds where kafka-python gives up earlier."""
        known, patience = KafkaProducer.DEFAULT_CONFIG, int(1000 * self.settings.patience)
        waits = {name: max(known[name], patience) for name in ("delivery_timeout_ms", "max_block_ms")}
        return self._made(KafkaProducer, {"allow_auto_create_topics": False, **waits, **own})

    def admin(self) -> KafkaAdminClient:
        """Return an admin client."""
        return self._made(KafkaAdminClient, {})

    @contextmanager
    def administered(self) -> Iterator[KafkaAdminClient]:
        """Provide an admin client for a block, and explain its errors."""
        admin = self.admin()
        try:
            with explained(self.settings):
                yield admin
        finally:
            admin.close()

    def _made(self, kind: Callable[..., T], own: Mapping[str, Any]) -> T:
        known: Mapping[str, Any] = kind.DEFAULT_CONFIG  # type: ignore[attr-defined]
        shared = {name: value for name, value in self.settings.passed_through.items() if name in known}
        # kafka-python's own metrics are not used here, and cost a tenth of a consumer's time.
        wanted = {
            "metrics_enabled": False,
            "bootstrap_timeout_ms": BOOTSTRAP_MS,
            "reconnect_backoff_max_ms": RECONNECT_MS,
            **own,
        }
        fitting = {name: value for name, value in wanted.items() if name in known}
        section = self.settings.section
        self.settings.require_log_in()
        shared |= self.settings.token_provider
        tls.require_usable(shared, section)
        with explained(self.settings):
            try:
                with causes.raised():
                    return kind(bootstrap_servers=self.settings.bootstrap_servers, **(fitting | shared))
            except UNUSABLE as error:
                raise UsageError(f"[{section}] a setting cannot be used: {error}; correct it") from error

    def patiently(self, what: str, attempt: Callable[[], T | None]) -> T:
        """Return the first result of `attempt` that is not None, repeating it for `patience` seconds.

        Raises
        ------
        UsageError
            There was no result in time.
        """
        until, pause = time.monotonic() + self.settings.patience, 0.1
        while True:
            try:
                answer, reason = attempt(), "not there"
            except PeerError as error:
                answer, reason = None, str(error)
            if answer is not None:
                return answer
            if time.monotonic() >= until:
                raise UsageError(f"{what}: gave up after {self.settings.patience:g} s: {self._why(reason)}")
            LOG.warning("waiting", what=what, reason=reason, next_try_in=pause)
            time.sleep(pause)
            pause = min(2.0 * pause, 5.0)

    def _why(self, reason: str) -> str:
        """Return the reason for which attempts have failed, or a likelier one that they cannot have seen."""
        speaks_tls = self.settings.security_protocol in tls.PROTOCOLS
        unseen = not speaks_tls and tls.is_spoken_by(self.settings.bootstrap_servers)
        return tls.SPOKEN if unseen else reason


@contextmanager
def explained(settings: KafkaSettings) -> Iterator[None]:
    """Turn kafka-python's errors into ours, which say whose fault it is and what to do."""
    try:
        yield
    except kafka_errors.KafkaError as error:
        raise _ours(error, settings) from error


def _ours(error: kafka_errors.KafkaError, settings: KafkaSettings) -> StreamflError:
    servers, section = settings.bootstrap_servers, f"[{settings.section}]"
    match error:
        case kafka_errors.ProducerFencedError() | kafka_errors.InvalidProducerEpochError():
            return TakenOverError(TAKEN_OVER)
        case kafka_errors.FencedInstanceIdError():
            remedy = "give each host its own [client] host, and each scorer its own [score] name"
            return PeerError(f"another process of the same name has taken over; {remedy}")
        case kafka_errors.SaslAuthenticationFailedError() | kafka_errors.UnsupportedSaslMechanismError():
            refused = f"{servers} refuses the log-in: authentication failed ({error})"
            return UsageError(f"{refused}; correct sasl_* in {section}")
        case kafka_errors.AuthorizationError():
            remedy = "grant what `streamfl acls` prints for this role"
            return UsageError(f"{servers} does not allow it: {error}; {remedy}")
        case kafka_errors.InvalidTimestampError():
            what = f"{servers} refuses messages with the time of this machine, which is too far ahead"
            return PeerError(f"{what}; set its clock right")
        case kafka_errors.MessageSizeTooLargeError() | kafka_errors.RecordListTooLargeError():
            remedy = f"raise max_request_size in {section} and the topic's max.message.bytes, or lower part_bytes"
            return UsageError(f"a message is too large ({error}); {remedy}")
    if why := tls.fault(error):
        return UsageError(f"{servers}: {why}")
    if not isinstance(error, kafka_errors.RetriableError):
        return PeerError(f"{servers}: {error!r}")
    if ENDED.search(str(error)):
        remedy = f"correct security_protocol, ssl_* and sasl_* in {section}"
        return PeerError(f"{servers} ends the connection ({error}); {remedy}")
    return PeerError(f"no answer from {servers} ({error}); start it, or correct bootstrap_servers in {section}")
