"""A message that the brokers refuse costs itself and no later one; a producer has the patience of the settings."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.future import Future
from structlog.testing import capture_logs

from streamfl.errors import PeerError
from streamfl.protocol.messages import Leave
from streamfl.runtime.log.topics import Topics
from streamfl.wire.signing import OPEN
from streamfl_connectors.kafka import connection, lasting
from streamfl_connectors.kafka.absence import Absence
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.coordinator.heartbeats import KafkaHeartbeat
from streamfl_connectors.kafka.hosts import client_links
from streamfl_connectors.kafka.hosts.client_links import ClientLinks
from streamfl_connectors.kafka.lasting import LastingProducer
from streamfl_connectors.kafka.settings import KafkaSettings
from streamfl_connectors.kafka.writer import KafkaRecordWriter

AHEAD = kafka_errors.InvalidTimestampError("the timestamp is out of range")
LATE = kafka_errors.KafkaTimeoutError("late")


class Brokers:
    """They refuse messages with `error` while there is one. As with kafka-python, a producer that has met an error
    which is not temporary stores nothing any more."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.made, self.stored = error, 0, list[tuple[int, str]]()
        self.settings = KafkaSettings.model_validate({"bootstrap_servers": "127.0.0.1:1"})
        self.signatures = OPEN

    def producer(self, **_: Any) -> Any:
        self.made += 1
        return SimpleNamespace(
            send=self._sender(self.made), close=lambda timeout=None: None, flush=lambda timeout=None: None
        )

    def _sender(self, number: int) -> Callable[..., Future]:
        ended: list[Exception] = []

        def send(topic: str, value: bytes, **_: Any) -> Future:
            error = ended[0] if ended else self.error
            if error is None:
                self.stored.append((number, topic))
                return Future().success(None)
            if not isinstance(error, kafka_errors.RetriableError):
                ended[:] = [error]
            return Future().failure(error)

        return send


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasting, "PAUSE", 0.0)  # and twice that is 0
    monkeypatch.setattr(client_links, "Listener", lambda *_: None)


def test_after_a_refused_message_the_next_one_goes_through_a_new_producer() -> None:
    producer = LastingProducer(brokers := Brokers(AHEAD))  # type: ignore[arg-type]
    producer.send("t", b"1")
    brokers.error = None
    for _ in range(3):
        producer.send("t", b"2")
    assert brokers.stored == [(2, "t")] * 3


def test_after_a_temporary_error_the_producer_stays() -> None:
    producer = LastingProducer(brokers := Brokers(LATE))  # type: ignore[arg-type]
    producer.send("t", b"1")
    brokers.error = None
    producer.send("t", b"2")
    assert brokers.stored == [(1, "t")]


def test_while_all_is_refused_a_producer_is_replaced_seldom_and_that_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(lasting, "PAUSE", 1.0)
    monkeypatch.setattr(lasting, "time", SimpleNamespace(monotonic=lambda: now[0]))
    producer = LastingProducer(brokers := Brokers(AHEAD))  # type: ignore[arg-type]
    with capture_logs() as logged:
        for _ in range(1000):
            producer.send("t", b"1")
            now[0] += 0.1
    assert brokers.made <= 1 + 4 + 100 / lasting.LONGEST
    assert [one["log_level"] for one in logged] == ["warning"]
    now[0] += 3 * lasting.LONGEST
    brokers.error = None
    producer.send("t", b"2")
    assert brokers.stored


def test_where_no_new_producer_can_be_made_the_old_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = LastingProducer(brokers := Brokers(AHEAD))  # type: ignore[arg-type]
    producer.send("t", b"1")

    def away(**_: Any) -> None:
        raise PeerError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(brokers, "producer", away)
        producer.send("t", b"2")
    brokers.error = None
    producer.send("t", b"3")
    assert brokers.stored == [(2, "t")]


def test_a_clients_messages_are_sent_again_once_the_clock_is_right() -> None:
    links = ClientLinks(brokers := Brokers(AHEAD), Topics("f"))  # type: ignore[arg-type]
    links.send(Leave(client="c0", nonce="1"))
    brokers.error = None
    links.send(Leave(client="c0", nonce="1"))
    assert brokers.stored == [(2, "f.updates")]


def test_heartbeats_go_on_once_the_clock_is_right() -> None:
    heart = KafkaHeartbeat(brokers := Brokers(AHEAD), "f.heartbeats", silence=0.006)  # type: ignore[arg-type]
    try:
        until = time.monotonic() + 10
        while brokers.made < 2 and time.monotonic() < until:
            time.sleep(0.002)
        brokers.error = None
        while not brokers.stored and time.monotonic() < until:
            time.sleep(0.002)
        assert brokers.stored
    finally:
        heart.close()


def test_a_record_or_an_end_mark_that_is_refused_is_told_with_what_to_do() -> None:
    for write in (lambda one: one.write("c0", b"{}"), lambda one: one.end()):
        writer = KafkaRecordWriter(Brokers(AHEAD), {"c0": ("r", 0)}, {"r": 1})  # type: ignore[arg-type]
        with pytest.raises(PeerError, match="set its clock right"):
            write(writer)
            writer.close()


def test_a_reader_bears_a_wrong_clock_for_its_patience() -> None:
    with pytest.raises(PeerError) as raised, explained(KafkaSettings(bootstrap_servers="b")):
        raise AHEAD
    Absence(60.0).bear(raised.value)
    with pytest.raises(PeerError, match="set its clock right"):
        Absence(0.0).bear(raised.value)


@pytest.mark.parametrize(("patience", "waits"), [(300.0, (300_000, 300_000)), (5.0, (120_000, 60_000))])
def test_a_producer_gives_up_no_earlier_than_its_settings_say(
    patience: float, waits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, Any] = {}

    class Made:
        DEFAULT_CONFIG = KafkaProducer.DEFAULT_CONFIG

        def __init__(self, **configs: Any) -> None:
            made.update(configs)

    monkeypatch.setattr(connection, "KafkaProducer", Made)
    Connection(KafkaSettings.model_validate({"bootstrap_servers": "b:1", "patience": patience})).producer()
    assert (made["delivery_timeout_ms"], made["max_block_ms"]) == waits
