"""How to reach the brokers: the settings that all of kafka-python's clients share, and what its errors mean."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import structlog
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from streamfl.core.errors import PeerError, UsageError, did_you_mean
from streamfl.log.parts import BUDGET
from streamfl_connectors.kafka import causes
from streamfl_connectors.kafka.batches import read_leniently
from streamfl_connectors.kafka.closing import leave_out_closing

T = TypeVar("T")

LOG = structlog.get_logger("streamfl.kafka")

FILE = "_file"

# One attempt to reach the brokers; `patience` says how many are made.
BOOTSTRAP_MS = 5000

# A broker that expects TLS or a log-in where there is none, or the other way round, says nothing and hangs up.
ENDED = re.compile("disconnected|[Hh]andshake")

# What would undo exactly-once training if somebody else said it.
OURS = {"acks", "auto_offset_reset", "enable_auto_commit", "enable_idempotence", "isolation_level"} | {
    *("group_id", "group_instance_id", "transactional_id"),
    *("key_deserializer", "key_serializer", "value_deserializer", "value_serializer"),
}

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

# What kafka-python raises at once, or in its own thread, when it can do nothing with a setting: also files of keys
# that are not there.
UNUSABLE = (kafka_errors.KafkaConfigurationError, OSError, AssertionError, TypeError, ValueError)


TAKEN_OVER = "another coordinator of this federation has taken over; this one ends"


class KafkaSettings(BaseModel):
    """The `[kafka]` table.

    What is not named here is passed to kafka-python as it is (TLS, SASL, timeouts); a name with `_file` after it is
    read from that file, which is the place for secrets.

    Parameters
    ----------
    bootstrap_servers
        One or more `host:port`.
    replication_factor
        Of the topics that are made.
    session_timeout_ms
        After which a host that is gone loses its clients to others.
    transaction_timeout_ms
        After which the broker ends the transaction of a coordinator that is gone.
    part_bytes
        Larger values are sent in parts of so many bytes.
    largest_update
        Most bytes that one update may have.
    unfinished_bytes
        Most bytes of clients' values of which parts are still to come, in all; none of them can have more.
    patience
        Seconds to wait for brokers and topics before giving up.

    Examples
    --------
    >>> KafkaSettings.of({"bootstrap_servers": "127.0.0.1:9092", "ssl_cafle": "ca.pem"})
    Traceback (most recent call last):
    streamfl.core.errors.UsageError: [kafka] ssl_cafle: kafka-python knows no such setting; did you mean ssl_cafile?
    """

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)

    bootstrap_servers: str | list[str]
    replication_factor: int = Field(1, ge=1)
    session_timeout_ms: int = Field(10_000, ge=1_000)
    transaction_timeout_ms: int = Field(15_000, ge=1_000)
    part_bytes: int = Field(900_000, ge=1_000)
    largest_update: int = Field(256 * 1024 * 1024, ge=1_000)
    unfinished_bytes: int = Field(BUDGET, ge=1_000)
    patience: float = Field(60.0, ge=0.0)

    @model_validator(mode="before")
    @classmethod
    def _secrets(cls, told: Any) -> Any:
        """Take in what is kept in files."""
        if not isinstance(told, Mapping):
            return told
        known = set(KafkaConsumer.DEFAULT_CONFIG)
        from_files = {name: told[name] for name in told if name.endswith(FILE) and name.removesuffix(FILE) in known}
        rest = {name: value for name, value in told.items() if name not in from_files}
        read = {name.removesuffix(FILE): _contents(name, Path(path)) for name, path in from_files.items()}
        return {name: _typed(name, value) for name, value in (rest | read).items()}

    @classmethod
    def of(cls, told: Mapping[str, object]) -> "KafkaSettings":
        """Return the settings of a table.

        Raises
        ------
        UsageError
            Names the first setting that is wrong, never its value.
        """
        try:
            settings = cls.model_validate(dict(told))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            raise UsageError(f"[kafka] {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        known = set(KafkaConsumer.DEFAULT_CONFIG) | set(KafkaProducer.DEFAULT_CONFIG)
        for name, value in settings.passed_through.items():
            if name not in known:
                meant = did_you_mean(name, known | set(cls.model_fields)) or "; correct its name"
                raise UsageError(f"[kafka] {name}: kafka-python knows no such setting{meant}")
            if name in OURS:
                raise UsageError(f"[kafka] {name}: exactly-once training depends on it; leave it out")
            if name == "security_protocol" and value not in PROTOCOLS:  # kafka-python would take it for PLAINTEXT
                raise UsageError(f"[kafka] {name}: say one of {', '.join(PROTOCOLS)}")
        return settings

    @property
    def passed_through(self) -> dict[str, Any]:
        """Return what goes to kafka-python as it is."""
        return dict(self.model_extra or {})

    def __repr__(self) -> str:
        """Return the settings without their secrets."""
        return f"KafkaSettings({self.bootstrap_servers!r}, {sorted(self.passed_through)})"

    __str__ = __repr__


def _typed(name: str, value: Any) -> Any:
    """Return a number or truth value as such: the environment has texts, which kafka-python would not convert.

    >>> _typed("request_timeout_ms", "1000"), _typed("ssl_check_hostname", "false"), _typed("ssl_cafile", "1")
    (1000, False, '1')
    """
    default = KafkaConsumer.DEFAULT_CONFIG.get(name, KafkaProducer.DEFAULT_CONFIG.get(name))
    if not isinstance(value, str) or not isinstance(default, bool | int | float) or name in OURS:
        return value
    kind: type[bool | float | int] = type(default)
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError:
        raise UsageError(f"[kafka] {name}: {'true or false' if kind is bool else 'a number'} is needed") from None


def _contents(name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(f"[kafka] {name}: {path} cannot be read: {error.strerror}") from error


class Connection:
    """Makes kafka-python's clients, all with the same settings.

    Parameters
    ----------
    settings
        Of the brokers.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        leave_out_closing()
        read_leniently()
        self.settings = settings

    def consumer(self, **own: Any) -> KafkaConsumer:
        """Return a consumer of what is committed; nothing commits by itself."""
        defaults = {
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
        }
        return self._made(KafkaConsumer, defaults | own)

    def producer(self, **own: Any) -> KafkaProducer:
        """Return an idempotent producer."""
        return self._made(KafkaProducer, {"allow_auto_create_topics": False, **own})

    def admin(self) -> KafkaAdminClient:
        """Return an administrator."""
        return self._made(KafkaAdminClient, {})

    @contextmanager
    def administered(self) -> Iterator[KafkaAdminClient]:
        """Lend an administrator; its errors are explained."""
        admin = self.admin()
        try:
            with explained(self.settings.bootstrap_servers):
                yield admin
        finally:
            admin.close()

    def _made(self, kind: Callable[..., T], own: Mapping[str, Any]) -> T:
        known: Mapping[str, Any] = kind.DEFAULT_CONFIG  # type: ignore[attr-defined]
        shared = {name: value for name, value in self.settings.passed_through.items() if name in known}
        # Nobody reads kafka-python's own metrics here, and they cost a tenth of a consumer's time.
        quiet = {"metrics_enabled": False} if "metrics_enabled" in known else {}
        fitting = {"bootstrap_timeout_ms": BOOTSTRAP_MS} | quiet | {k: v for k, v in own.items() if k in known}
        servers = self.settings.bootstrap_servers
        with explained(servers):
            try:
                with causes.told():
                    return kind(bootstrap_servers=servers, **(fitting | shared))
            except UNUSABLE as error:
                raise UsageError(f"[kafka] a setting cannot be used: {error}; correct it") from error

    def patiently(self, what: str, attempt: Callable[[], T | None]) -> T:
        """Return the first answer of `attempt` that is not None, trying again until patience ends.

        Raises
        ------
        UsageError
            It did not come to be in time.
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
                raise UsageError(f"{what}: gave up after {self.settings.patience:g} s: {reason}")
            LOG.warning("waiting", what=what, reason=reason, next_try_in=pause)
            time.sleep(pause)
            pause = min(2.0 * pause, 5.0)


@contextmanager
def explained(servers: object) -> Iterator[None]:
    """Turn kafka-python's errors into ours: who is at fault, and what to do."""
    try:
        yield
    except (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError) as error:
        raise PeerError(TAKEN_OVER) from error
    except kafka_errors.FencedInstanceIdError as error:
        raise PeerError(
            "another host of the same name has taken over; give each host its own [client] host"
        ) from error
    except causes.REFUSALS as error:
        raise UsageError(
            f"{servers} refuses the log-in: authentication failed ({error}); correct sasl_* in [kafka]"
        ) from error
    except kafka_errors.AuthorizationError as error:
        raise UsageError(f"{servers} does not allow it: {error}; grant what docs/kafka.md lists") from error
    except kafka_errors.RetriableError as error:
        if ENDED.search(str(error)):
            remedy = "correct security_protocol, ssl_* and sasl_* in [kafka]"
            raise PeerError(f"{servers} ends the connection ({error}); {remedy}") from error
        remedy = "start it, or correct bootstrap_servers in [kafka]"
        raise PeerError(f"no answer from {servers} ({error}); {remedy}") from error
    except (kafka_errors.MessageSizeTooLargeError, kafka_errors.RecordListTooLargeError) as error:
        remedy = "raise max_request_size in [kafka] and the topic's max.message.bytes, or lower part_bytes"
        raise UsageError(f"a message is too large ({error}); {remedy}") from error
    except kafka_errors.KafkaError as error:
        raise PeerError(f"{servers}: {error!r}") from error
