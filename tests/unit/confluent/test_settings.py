"""The [confluent] table: the settings of [kafka], as librdkafka has them or not at all."""

import time
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.net.sasl.oauth import AbstractTokenProvider

from streamfl.errors import UsageError
from streamfl.live.settings.installed import connector_named, section
from streamfl.protocol import registered
from streamfl_connectors.confluent import settings as of_confluent
from streamfl_connectors.confluent.connection import ConfluentConnection
from streamfl_connectors.confluent.settings import NAMES, NOT_OF_RECORDS, TRANSLATED, ConfluentSettings, fetch_config
from streamfl_connectors.kafka.tokens import TOKEN_PROVIDERS

HERE = {"bootstrap_servers": ["b:9092", "c:9092"]}


def table(**told):
    return section("confluent", ConfluentSettings, HERE | told)


def test_a_log_in_is_translated_whole():
    told = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "ca.pem",
        "ssl_certfile": "own.pem",
        "ssl_password": "opens",
        "ssl_check_hostname": False,
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "u",
        "sasl_plain_password": "007",
    }
    assert table(**told).librdkafka_config == {
        "bootstrap.servers": "b:9092,c:9092",
        "check.crcs": True,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "own.pem",
        "ssl.key.location": "own.pem",
        "ssl.key.password": "opens",
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "u",
        "sasl.password": "007",
    }
    assert table(ssl_certfile="own.pem", ssl_keyfile="key.pem").librdkafka_config["ssl.key.location"] == "key.pem"
    assert "ssl.endpoint.identification.algorithm" not in table(ssl_check_hostname=True).librdkafka_config


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {"socks5_proxy": "p:1080"},
            "[confluent] socks5_proxy: librdkafka has no such setting; leave it out, or use",
        ),
        ({"sasl_mechanism": "GSSAPI"}, "[confluent] sasl_mechanism: GSSAPI is not among PLAIN, SCRAM-SHA-256, SCRAM"),
        ({"sasl_mechanism": "AWS_MSK_IAM"}, "[confluent] sasl_mechanism: AWS_MSK_IAM is not among PLAIN, SCRAM"),
        ({"ssl_cafle": "x"}, "[confluent] ssl_cafle: kafka-python has no such setting; did you mean ssl_cafile?"),
        ({"isolation_level": "x"}, "[confluent] isolation_level: streamfl sets it itself, because exactly-once"),
    ],
)
def test_what_would_hold_for_half_of_the_connections_is_refused(told, said):
    with pytest.raises(UsageError) as raised:
        table(**told)
    assert str(raised.value).startswith(said)


def test_every_setting_of_a_consumer_is_translated_or_refused_and_librdkafka_knows_its_name():
    known = NAMES.keys() | TRANSLATED | NOT_OF_RECORDS
    assert known <= KafkaConsumer.DEFAULT_CONFIG.keys() | {"bootstrap_timeout_ms"}
    numbers = {name for name in NAMES if type(KafkaConsumer.DEFAULT_CONFIG[name]) is int}
    told = {name: KafkaConsumer.DEFAULT_CONFIG[name] for name in numbers}
    Consumer(
        {"group.id": "g", **ConfluentSettings(bootstrap_servers="127.0.0.1:1", **told).librdkafka_config}
    ).close()
    for name in ("ssl.crl.location", "ssl.cipher.suites", "client.rack", "client.id"):
        assert name in NAMES.values()


def test_settings_of_what_is_written_are_those_of_kafka_python():
    assert table(max_request_size=5_000_000, compression_type="zstd").librdkafka_config.keys() == {
        "bootstrap.servers",
        "check.crcs",
    }


def test_as_much_is_fetched_ahead_as_the_settings_say():
    assert fetch_config({}, 512, 16384) == {
        "max.partition.fetch.bytes": 512,
        "fetch.max.bytes": 16384,
        "queued.max.messages.kbytes": 16,
    }
    assert fetch_config({"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 2048}, 512, 16384) == {
        "max.partition.fetch.bytes": 1000,
        "fetch.max.bytes": 2048,
        "queued.max.messages.kbytes": 2,
    }


class Tokens(AbstractTokenProvider):
    given = 0

    def token(self):
        self.given += 1
        return f"token {self.given}"


def test_tokens_come_from_the_registered_provider(monkeypatch):
    entry = EntryPoint("plant", "plant:Tokens", TOKEN_PROVIDERS.group)
    monkeypatch.setattr(registered, "entry_points", lambda **chosen: EntryPoints([entry]).select(**chosen))
    monkeypatch.setattr(EntryPoint, "load", lambda self: Tokens)
    give = table(sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider="plant").librdkafka_config["oauth_cb"]
    token, expires = give("")
    assert token == "token 1"
    assert 0 < expires - time.time() <= of_confluent.TOKEN_SECONDS
    assert give("")[0] == "token 2"


def test_without_its_extra_the_connector_says_what_to_install(monkeypatch):
    monkeypatch.setattr("streamfl_connectors.confluent.connection.find_spec", lambda name: None)
    connector = connector_named("confluent")
    with pytest.raises(UsageError, match=r"pip install 'streamfl\[confluent\]'"):
        connector("f", connector.Settings.model_validate(HERE))


def test_an_error_names_the_section_of_its_connector():
    incomplete = table(security_protocol="SASL_SSL")
    with pytest.raises(UsageError, match=r"^\[confluent\] sasl_mechanism: it is missing"):
        ConfluentConnection(incomplete).admin()
