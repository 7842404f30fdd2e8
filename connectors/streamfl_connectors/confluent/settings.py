"""The `[confluent]` table: the settings of `[kafka]`, as far as librdkafka has them."""

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from kafka import KafkaConsumer
from pydantic import model_validator

from streamfl_connectors.kafka.settings import KafkaSettings

# librdkafka's names of settings.
NAMES = {
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "ssl_crlfile": "ssl.crl.location",
    "ssl_ciphers": "ssl.cipher.suites",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "client_id": "client.id",
    "client_rack": "client.rack",
    "check_crcs": "check.crcs",
    "request_timeout_ms": "socket.timeout.ms",
    "metadata_max_age_ms": "metadata.max.age.ms",
    "reconnect_backoff_ms": "reconnect.backoff.ms",
    "reconnect_backoff_max_ms": "reconnect.backoff.max.ms",
    "fetch_min_bytes": "fetch.min.bytes",
    "fetch_max_wait_ms": "fetch.wait.max.ms",
    "max_poll_interval_ms": "max.poll.interval.ms",
}

# Settings that have an equivalent, but no name, in librdkafka.
TRANSLATED = {"ssl_check_hostname", "sasl_oauth_token_provider", "max_partition_fetch_bytes", "fetch_max_bytes"}

# Settings of kafka-python's own clients, which read and write all but records.
NOT_OF_RECORDS = {"api_version", "max_poll_records", "bootstrap_timeout_ms"}

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

# librdkafka treats a token as valid for this many seconds, then asks the provider for another.
TOKEN_SECONDS = 60.0


class ConfluentSettings(KafkaSettings):
    """`[confluent]`: the brokers; the settings of `[kafka]` under the same names.

    Examples
    --------
    >>> told = ConfluentSettings(bootstrap_servers="b:9092", security_protocol="SSL", ssl_cafile="ca.pem")
    >>> told.librdkafka_config["ssl.ca.location"]
    'ca.pem'
    >>> ConfluentSettings(bootstrap_servers="b:9092", socks5_proxy="p:1080")
    Traceback (most recent call last):
    pydantic_core._pydantic_core.ValidationError: 1 validation error for ConfluentSettings
      Value error, socks5_proxy: librdkafka has no such setting; leave it out, or use connector = "kafka" ...
    """

    section: ClassVar[str] = "confluent"

    @model_validator(mode="after")
    def _is_of_librdkafka(self) -> Self:
        """Refuse settings that would hold for kafka-python alone, although they are about reading."""
        remedy = 'leave it out, or use connector = "kafka"'
        known = NAMES.keys() | TRANSLATED | NOT_OF_RECORDS
        for name in self.passed_through:
            if name in KafkaConsumer.DEFAULT_CONFIG and name not in known:
                raise ValueError(f"{name}: librdkafka has no such setting; {remedy}")
        mechanism = self.passed_through.get("sasl_mechanism")
        if mechanism is not None and mechanism not in MECHANISMS:
            raise ValueError(f"sasl_mechanism: {mechanism} is not among {', '.join(MECHANISMS)}; {remedy}")
        return self

    @property
    def librdkafka_config(self) -> dict[str, Any]:
        """Return librdkafka's settings of a connection."""
        told = self.passed_through
        servers = self.bootstrap_servers
        found: dict[str, Any] = {
            "bootstrap.servers": servers if isinstance(servers, str) else ",".join(servers),
            "check.crcs": True,  # as kafka-python does
            **{NAMES[name]: value for name, value in told.items() if name in NAMES},
        }
        if "ssl_certfile" in told and "ssl_keyfile" not in told:
            found["ssl.key.location"] = told["ssl_certfile"]
        if told.get("ssl_check_hostname") is False:
            found["ssl.endpoint.identification.algorithm"] = "none"
        for provider in self.token_provider.values():
            found["oauth_cb"] = _token_callback(provider.token)
        return found


def _token_callback(token: Callable[[], str]) -> Callable[[object], tuple[str, float]]:
    """Return the function by which librdkafka asks for a token and the time when it expires."""

    def given(_: object) -> tuple[str, float]:
        return token(), time.time() + TOKEN_SECONDS

    return given


def fetch_config(settings: Mapping[str, Any], per_partition: int, total: int) -> dict[str, Any]:
    """Return librdkafka's settings of how much is fetched ahead, in bytes."""
    largest = int(settings.get("fetch_max_bytes", total))
    return {
        "max.partition.fetch.bytes": int(settings.get("max_partition_fetch_bytes", per_partition)),
        "fetch.max.bytes": largest,
        "queued.max.messages.kbytes": largest // 1024,
    }
