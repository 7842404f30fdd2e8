"""What a process keeps of the models in a log: what can still be asked for, counted as what it takes decoded."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kafka import TopicPartition

from streamfl.protocol.messages import ModelPublished, ModelsChanged, RegistryPublished
from streamfl.protocol.registry import Registry
from streamfl.runtime.log.parts import cut
from streamfl.runtime.log.tensors import CHANGED, Tensors, key_of
from streamfl.runtime.log.topics import Topics
from streamfl.wire import messages
from streamfl.wire.signing import OPEN
from streamfl_connectors.kafka.hosts import listener
from streamfl_connectors.kafka.hosts.listener import Listener
from streamfl_connectors.kafka.settings import KafkaSettings

TOPICS, ZEROS = Topics("f"), np.zeros((40, 500))  # 160 kB, in a few bytes
MODELS = TopicPartition(TOPICS.models, 0)


class Consumer:
    """Reads models that were written before it began, in one poll."""

    def __init__(self, models: Sequence[Tensors]) -> None:
        parts = [(key_of(model), part) for model in models for part in cut(messages.encode(model), 10**6)]
        self.log = [
            SimpleNamespace(
                topic=MODELS.topic, offset=i, key=f"{key}/0".encode(), value=part.value, headers=part.headers
            )
            for i, (key, part) in enumerate(parts)
        ]
        self.read = 0

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Any]]:
        polled, self.read = self.log[self.read :], len(self.log)
        return {MODELS: polled} if polled else {}

    def position(self, partition: TopicPartition) -> int:
        return self.read

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, len(self.log))

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def listening(models: Sequence[Tensors], *, follows: bool, monkeypatch: pytest.MonkeyPatch) -> Listener:
    monkeypatch.setattr(listener, "last_opened", lambda *_: ())
    connection = SimpleNamespace(
        settings=KafkaSettings.model_validate({"bootstrap_servers": "127.0.0.1:9"}),
        signatures=OPEN,
        consumer=lambda: Consumer(models),
    )
    began = Listener(connection, TOPICS, lambda: None, follows=follows)  # type: ignore[arg-type]
    began.close()
    return began


def changes(rounds: int) -> list[Tensors]:
    steps = np.zeros(40)
    return [
        ModelsChanged(version=n, slots=("m",), bases=(-2,), exponents=steps, numbers=ZEROS, digest="")
        for n in range(1, rounds + 1)
    ]


def test_of_many_changes_a_host_keeps_those_with_which_a_client_can_begin(monkeypatch):
    began = listening(changes(CHANGED), follows=False, monkeypatch=monkeypatch)
    assert [message.version for message in began.current.values()] == [CHANGED - 1, CHANGED]


def test_a_scorer_gets_all_changes_one_by_one_and_keeps_none(monkeypatch):
    began = listening(changes(CHANGED), follows=True, monkeypatch=monkeypatch)
    assert [message.version for message in began.present(7)] == list(range(1, 8))
    assert list(began.present(3)) == []
    assert [message.version for message in began.present()] == list(range(8, CHANGED + 1))
    assert [list(began.present()), list(began.current.values())] == [[], []]


def test_a_registry_comes_before_the_models_of_later_rounds_whatever_its_number(monkeypatch):
    registry = RegistryPublished(registry=Registry(9, ("x",), ("a",), np.zeros(1), np.ones(1)))
    began = listening([*changes(8), registry], follows=True, monkeypatch=monkeypatch)
    assert [type(message) for message in began.present(7)] == [*7 * [ModelsChanged], RegistryPublished]


def test_models_count_as_what_they_take_not_as_what_was_sent(monkeypatch):
    monkeypatch.setattr(listener, "MOST_KEPT", 500_000)
    models = [ModelPublished(slot=f"x{i}", version=1, registry=1, weights=ZEROS) for i in range(9)]
    began = listening(models, follows=False, monkeypatch=monkeypatch)
    assert [message.slot for message in began.current.values()] == ["x6", "x7", "x8"]
