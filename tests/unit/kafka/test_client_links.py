"""What a host's clients send: an update only when what it counts is in the log."""

from types import SimpleNamespace
from typing import Any

import pytest

from streamfl.protocol.messages import Leave, Update
from streamfl.runtime.log.topics import Topics
from streamfl.wire.signing import OPEN
from streamfl_connectors.kafka.hosts import client_links
from streamfl_connectors.kafka.hosts.client_links import ClientLinks
from streamfl_connectors.kafka.settings import KafkaSettings


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(client_links, "Listener", lambda *_: None)
    return []


def links(done: list[str]) -> ClientLinks:
    def send(topic: str, value: bytes, **_: Any) -> Any:
        done.append(f"sent to {topic}")
        return SimpleNamespace(add_errback=lambda *_: None)

    connection = SimpleNamespace(
        settings=KafkaSettings.model_validate({"bootstrap_servers": "127.0.0.1:9"}),
        signatures=OPEN,
        producer=lambda **_: SimpleNamespace(send=send),
    )
    written = lambda: done.append("answers are written")  # noqa: E731
    return ClientLinks(connection, Topics("f"), before_update=written)  # type: ignore[arg-type]


def test_answers_are_written_before_the_update_that_counts_them_is_sent(done: list[str]) -> None:
    update = Update(
        client="c0", attempt="1", entry=1, round=1, epoch=1, registry=1, rejected=0, spans=(), records=0, trained=0,

    )  # fmt: skip
    links(done).send(update)
    assert done == ["answers are written", "sent to f.updates"]


def test_a_message_that_counts_no_answers_waits_for_none(done: list[str]) -> None:
    links(done).send(Leave(client="c0", nonce="1"))
    assert done == ["sent to f.updates"]
