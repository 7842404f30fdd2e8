"""Partitions that are added to a topic stop no client; a new one is read once its labels have one, too."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from structlog.testing import capture_logs

from streamfl.errors import UsageError
from streamfl.records.formats import FieldMap, JsonRecords
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import LabelTopics, Placement, ReadingCounts
from streamfl_connectors.kafka.hosts import client_answers, records
from streamfl_connectors.kafka.hosts.records import RecordConsumer
from streamfl_connectors.kafka.partitions import unequal_partitions, wrong_placement
from streamfl_connectors.kafka.settings import KafkaSettings


@pytest.mark.parametrize(
    ("placement", "partitions", "told"),
    [
        (Placement(("a",)), 1, []),
        (Placement(("a",)), 2, ["topic a has 2 partitions, and one client by topic reads one"]),
        (Placement(("a",), "partition"), 2, []),
        (Placement(("a",), "partition", 2), 2, []),
        (Placement(("a",), "partition", 3), 2, ["topic a has 2 partitions, but the settings want 3"]),
        (Placement(("a",), "partition", 3), 4, ["topic a has 4 partitions, but the settings want 3"]),
        (Placement(("a",), "field", 3), 4, []),
    ],
)
def test_topics_of_records_have_the_partitions_that_clients_need(
    placement: Placement, partitions: int, told: list[str]
) -> None:
    assert [finding.found for finding in wrong_placement(placement, {"a": partitions})] == told


def test_no_remedy_is_to_delete_a_topic() -> None:
    placements = [Placement(("a",)), *(Placement(("a",), "partition", n) for n in (1, 3))]
    wrong = [finding for one in placements for finding in wrong_placement(one, {"a": 2})]
    wrong += unequal_partitions({"a": 2, "b": 2}, {"la": 1, "lb": 3})
    assert len(wrong) == 5
    assert not any(word in one.remedy for one in wrong for word in ("delete", "anew", "again"))
    assert "--alter --topic la --partitions 2" in wrong[3].remedy


class Log:
    """Topics, of which the group has read `begun`; the group assigns all partitions of what is subscribed."""

    def __init__(self, begun: tuple[str, ...] = (), **topics: int) -> None:
        self.topics, self.begun = topics, begun
        self.settings = KafkaSettings.model_validate({"bootstrap_servers": "127.0.0.1:1"})

    def record_reader(self, group: str, member: str | None = None) -> "Group":
        return Group(self)

    def producer(self, **_: Any) -> Any:
        return SimpleNamespace()

    def admin(self) -> Any:
        def described(names: list[str]) -> list[dict[str, Any]]:
            there = self.topics
            return [
                {"name": n, "error_code": 3 * (n not in there), "partitions": [{}] * there.get(n, 0)} for n in names
            ]

        return SimpleNamespace(describe_topics=described, list_topics=lambda: [*self.topics])


class Group:
    """A consumer. A poll fails while it has no position for a partition that is not paused."""

    is_joined = True

    def __init__(self, log: Log) -> None:
        self.log, self.subscribed, self.at = log, list[str](), dict[TopicPartition, int]()
        self.stopped: set[TopicPartition] = set()

    def subscribe(self, topics: list[str]) -> None:
        self.subscribed = topics

    def assign(self, partitions: list[TopicPartition]) -> None:
        pass

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition(topic, n) for topic in self.subscribed for n in range(self.log.topics[topic])}

    def committed(self, partition: TopicPartition, *, metadata: bool = False) -> Any:
        if partition.topic not in self.log.begun:
            return None
        return OffsetAndMetadata(0, "", -1) if metadata else 0

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        assert all(one.partition < self.log.topics[one.topic] for one in partitions), "no such partition"
        return dict.fromkeys(partitions, 0)

    end_offsets = beginning_offsets

    def highwater(self, partition: TopicPartition) -> int:
        return 0

    def has_passed(self, partition: TopicPartition, offset: int) -> bool:
        return self.position(partition) >= offset

    def position(self, partition: TopicPartition) -> int:
        return self.at[partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at[partition] = offset

    def paused(self) -> set[TopicPartition]:
        return self.stopped

    def pause(self, *partitions: TopicPartition) -> None:
        self.stopped.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.stopped.difference_update(partitions)

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        assert self.assignment() <= self.at.keys()
        return {}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LOOK_AGAIN", 0.0)
    monkeypatch.setattr(client_answers.AnswerReader, "read", lambda *_: False)


def reading(log: Log, placement: Placement, labels: str | None = None) -> RecordConsumer:
    form = JsonRecords(FieldMap(key=None if labels is None else "id"))
    at = None if labels is None else Placement((labels,), placement.by)
    delayed_labels = None if at is None else LabelTopics(at, form, window=100)
    return RecordConsumer(log, Topics("f"), "h", placement, form, ReadingCounts(), delayed_labels)  # type: ignore[arg-type]


def test_partitions_added_to_a_clients_topic_are_left_out_and_named_once() -> None:
    host = reading(log := Log(r=1, s=1), Placement(("r", "s")))
    host.read()
    log.topics["r"] = 3
    with capture_logs() as logged:
        for _ in range(3):
            host.read()
    assert host.sources.keys() == {"r", "s"}
    assert host.is_divided
    told = [(one["event"], one["partition"]) for one in logged if one["log_level"] == "error"]
    assert told == [("partition left out", "r/1"), ("partition left out", "r/2")]


@pytest.mark.parametrize("names", [("r", "s"), ("*",)])
def test_a_host_that_starts_again_goes_on_with_a_topic_that_has_got_partitions(names: tuple[str, ...]) -> None:
    host = reading(Log(begun=("r", "s"), r=3, s=1), Placement(names))
    host.read()
    assert len(host.sources) == 2


def test_a_topic_that_never_fitted_is_no_topic_of_a_client() -> None:
    with pytest.raises(UsageError, match="topic r has 3 partitions"):
        reading(Log(r=3), Placement(("r",))).subscribe()
    host = reading(log := Log(rs=1), Placement(("r*",)))
    host.read()
    log.topics["rt"] = 3
    with capture_logs() as logged:
        for _ in range(3):
            host.read()
    assert host.sources.keys() == {"s"}
    assert [one["topic"] for one in logged if one["event"] == "topic left out"] == ["rt"]


def test_a_new_partition_is_read_when_its_labels_have_one_too() -> None:
    host = reading(log := Log(r=2, labels=2), Placement(("r",), by="partition"), "labels")
    host.read()
    assert host.sources.keys() == {"r/0", "r/1"}
    log.topics["r"] = 3
    with capture_logs() as logged:
        for _ in range(3):
            host.read()
    assert host.sources.keys() == {"r/0", "r/1"}
    (told,) = [one for one in logged if one["log_level"] == "error"]
    assert told["partition"] == "r/2"
    assert "--alter --topic labels --partitions 3" in told["remedy"]
    log.topics["labels"] = 3
    host.read()
    assert host.sources.keys() == {"r/0", "r/1", "r/2"}
    assert host.is_divided


def test_more_partitions_than_the_settings_say_are_left_out_whoever_is_in_them() -> None:
    for by in ("partition", "field"):
        host = reading(Log(begun=("r",), r=3), Placement(("r",), by, partitions=2))
        host.read()
        assert sorted(host._feed.readers) == [TopicPartition("r", 0), TopicPartition("r", 1)]
