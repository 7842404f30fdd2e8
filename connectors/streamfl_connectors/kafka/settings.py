"""The `[kafka]` table."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from streamfl.bounds import LONGEST, MOST, MOST_BYTES
from streamfl.errors import UsageError, did_you_mean
from streamfl.runtime.log.parts import BUDGET
from streamfl_connectors.kafka.tokens import MSK, OAUTH, provider_of, require_botocore

FILE = "_file"

# Settings on which exactly-once training depends.
OURS = {"acks", "auto_offset_reset", "enable_auto_commit", "enable_idempotence", "isolation_level"} | {
    *("group_id", "group_instance_id", "transactional_id"),
    *("key_deserializer", "key_serializer", "value_deserializer", "value_serializer"),
}

# Settings that kafka-python encodes as text: a password of digits must not become a number on the way.
TEXTS = {
    *("sasl_mechanism", "sasl_oauth_token_provider"),
    *("sasl_plain_username", "sasl_plain_password", "ssl_password"),
}

# Mechanisms of log-ins with a user and a password.
BY_PASSWORD = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

# The setting that names what gives tokens.
PROVIDER = "sasl_oauth_token_provider"

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class KafkaSettings(BaseModel):
    """`[kafka]`: the brokers.

    Any other setting of kafka-python may be set here and is passed on unchanged (TLS, SASL, timeouts). Add `_file` to
    its name to read its value from a file: use this for secrets.

    Examples
    --------
    >>> KafkaSettings(bootstrap_servers="127.0.0.1:9092", ssl_cafile="ca.pem").passed_through
    {'ssl_cafile': 'ca.pem'}
    >>> KafkaSettings(bootstrap_servers="127.0.0.1:9092", ssl_cafle="ca.pem")
    Traceback (most recent call last):
    pydantic_core._pydantic_core.ValidationError: 1 validation error for KafkaSettings
      Value error, ssl_cafle: kafka-python has no such setting; did you mean ssl_cafile? ...
    """

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True, use_attribute_docstrings=True)

    section: ClassVar[str] = "kafka"

    bootstrap_servers: str | list[str]
    """The addresses of one or more brokers, each as `host:port`."""
    replication_factor: int = Field(1, ge=1, le=2**15 - 1, json_schema_extra={"unit": "copies"})
    """The number of copies of each topic that the coordinator creates; 3 on a cluster."""
    session_timeout_ms: int = Field(10_000, ge=1_000, le=MOST, json_schema_extra={"unit": "milliseconds"})
    """How long a host may be gone before other hosts take over its clients."""
    transaction_timeout_ms: int = Field(15_000, ge=1_000, le=MOST, json_schema_extra={"unit": "milliseconds"})
    """How long a coordinator may be gone before the broker aborts its transaction."""
    part_bytes: int = Field(900_000, ge=1_000, le=2**31 - 1, json_schema_extra={"unit": "bytes"})
    """The size of the parts into which larger values are split."""
    largest_update: int = Field(256 * 1024 * 1024, ge=1_000, le=MOST_BYTES, json_schema_extra={"unit": "bytes"})
    """The maximum size of a message of a client; larger ones are refused."""
    unfinished_bytes: int = Field(BUDGET, ge=1_000, le=MOST_BYTES, json_schema_extra={"unit": "bytes"})
    """The maximum memory for values of clients of which parts are still missing, and so also the maximum size of one
    value."""
    patience: float = Field(600.0, ge=0.0, le=LONGEST, json_schema_extra={"unit": "seconds"})
    """How long to wait for brokers and topics before the process gives up."""

    @model_validator(mode="before")
    @classmethod
    def _secrets(cls, given: Any) -> Any:
        """Read settings that are kept in files."""
        if not isinstance(given, Mapping):
            return given
        known = set(KafkaConsumer.DEFAULT_CONFIG)
        from_files = {name: given[name] for name in given if name.endswith(FILE) and name.removesuffix(FILE) in known}
        rest = {name: value for name, value in given.items() if name not in from_files}
        read = {name.removesuffix(FILE): _contents(name, Path(path)) for name, path in from_files.items()}
        return {name: _typed(name, value) for name, value in (rest | read).items()}

    @model_validator(mode="after")
    def _is_understood(self) -> Self:
        """Refuse settings that kafka-python does not know, and those that it must not get."""
        known = set(KafkaConsumer.DEFAULT_CONFIG) | set(KafkaProducer.DEFAULT_CONFIG)
        for name, value in self.passed_through.items():
            if name not in known:
                meant = did_you_mean(name, known | set(type(self).model_fields)) or "; correct its name"
                raise ValueError(f"{name}: kafka-python has no such setting{meant}")
            if name in OURS:
                raise ValueError(
                    f"{name}: streamfl sets it itself, because exactly-once training depends on it; leave it out"
                )
            if name == "security_protocol" and value not in PROTOCOLS:  # kafka-python would use PLAINTEXT
                raise ValueError(f"{name}: set it to one of {', '.join(PROTOCOLS)}")
            if name in TEXTS and not isinstance(value, str):
                raise ValueError(f"{name}: text is needed; put it in quotes, or in a file that {name}_file names")
        return self

    def require_log_in(self) -> None:
        """Check that a log-in is complete; it is only then that kafka-python can try it.

        Raises
        ------
        UsageError
            The mechanism, or what it needs, is missing.
        """
        told = self.passed_through
        if not str(told.get("security_protocol", "")).startswith("SASL"):
            return
        mechanism = told.get("sasl_mechanism")
        if mechanism is None:
            remedy = "set it, for example to SCRAM-SHA-256"
            raise UsageError(f"[{self.section}] sasl_mechanism: it is missing, but a log-in needs one; {remedy}")
        for name in ("sasl_plain_username", "sasl_plain_password") if mechanism in BY_PASSWORD else ():
            if not told.get(name):
                raise UsageError(
                    f"[{self.section}] {name}: {mechanism} needs it, but it is missing or empty; set {name}_file"
                )
        if mechanism == OAUTH and not told.get(PROVIDER):
            raise UsageError(
                f"[{self.section}] {PROVIDER}: {OAUTH} needs it, but it is missing; name a token provider"
            )
        if mechanism == MSK:
            require_botocore(self.section)

    @property
    def passed_through(self) -> dict[str, Any]:
        """Return the settings that are passed to kafka-python unchanged."""
        return dict(self.model_extra or {})

    @cached_property
    def token_provider(self) -> Mapping[str, AbstractTokenProvider]:
        """Return the provider of tokens as kafka-python's setting, empty if there is none.

        All connections of a process share it, so that they share its tokens.

        Raises
        ------
        UsageError
            There is none of this name.
        """
        name = self.passed_through.get(PROVIDER)
        return {} if name is None else {PROVIDER: provider_of(name, self.section)}

    @property
    def asks_for_log_in(self) -> bool:
        """Tell whether there is a log-in, whose rights may differ from those of others."""
        return self.security_protocol != "PLAINTEXT"

    @property
    def security_protocol(self) -> str:
        """Return how the process speaks with the brokers, as Kafka names it: by default without TLS or a log-in."""
        protocol: str = self.passed_through.get("security_protocol", "PLAINTEXT")
        return protocol

    def __repr__(self) -> str:
        """Return the settings without their secrets."""
        return f"KafkaSettings({self.bootstrap_servers!r}, {sorted(self.passed_through)})"

    __str__ = __repr__


def _typed(name: str, value: Any) -> Any:
    """Return a value with the type of its default: the environment has text, which kafka-python does not convert.

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
        raise ValueError(f"{name}: {'true or false' if kind is bool else 'a number'} is needed") from None


def _contents(name: str, path: Path) -> str:
    """Return what a file holds. Errors do not name it: by mistake its name may be the secret itself."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ValueError(f"{name}: its file cannot be read: {error.strerror}; correct it") from None
    except ValueError:
        raise ValueError(f"{name}: its file is not UTF-8 text; write it again") from None
