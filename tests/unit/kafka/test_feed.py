"""How a host reads partitions: without a broker."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kafka import TopicPartition

from streamfl.records.formats import FieldMap, JsonRecords
from streamfl.runtime.log.dead_letters import DeadLetter
from streamfl.runtime.log.repartitioning.origin import origin_header
from streamfl.runtime.ports import Placement, ReadingCounts
from streamfl_connectors.kafka.hosts.feed import Feed
from streamfl_connectors.kafka.hosts.settled import SettledOffset
from streamfl_connectors.kafka.settings import KafkaSettings

GOOD = b'{"device": "d0", "x": 1, "label": "a"}'


class Partitions:
    """A consumer of partitions that hold these messages; a poll brings so many of each."""

    def __init__(
        self, log: dict[TopicPartition, list[bytes]], polled: int, headers: dict[int, tuple[str, bytes]] | None = None
    ) -> None:
        self.log, self.at, self.paused = log, dict.fromkeys(log, 0), set[TopicPartition]()
        self.polled, self.headers = polled, headers or {}

    def assignment(self) -> set[TopicPartition]:
        return set(self.log)

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: len(self.log[partition]) for partition in partitions}

    def highwater(self, partition: TopicPartition) -> int:
        return len(self.log[partition])

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at[partition] = offset

    def has_passed(self, partition: TopicPartition, offset: int) -> bool:
        return self.position(partition) >= offset

    def position(self, partition: TopicPartition) -> int:
        return self.at[partition]

    def pause(self, partition: TopicPartition) -> None:
        self.paused.add(partition)

    def resume(self, partition: TopicPartition) -> None:
        self.paused.discard(partition)

    def poll(self, timeout_ms: int) -> Any:
        found = {}
        for partition in self.log.keys() - self.paused:
            at = self.at[partition]
            values = self.log[partition][at : at + self.polled]
            found[partition] = [
                SimpleNamespace(
                    offset=i, key=b"d0", value=value, headers=[self.headers[i]] if i in self.headers else []
                )
                for i, value in enumerate(values, at)
            ]
            self.at[partition] = at + len(values)
        return found


def feed(
    consumer: Partitions, placement: Placement, bury: Callable[[DeadLetter], None] = lambda _: None, **fields: Any
) -> Feed:
    connection = SimpleNamespace(settings=KafkaSettings(bootstrap_servers="127.0.0.1:1"))
    records = JsonRecords(FieldMap(**fields))
    made = Feed(connection, consumer, placement, records, ReadingCounts(), bury)  # type: ignore[arg-type]
    for partition in consumer.log:
        made.begin(partition, SettledOffset(None))
    return made


def read(feed: Feed, times: int) -> None:
    for _ in range(times):
        feed.take(feed.polled(0))


C0 = TopicPartition("r.c0", 0)


def test_the_marker_of_a_transaction_at_the_end_of_a_log_is_no_backlog() -> None:
    log = Partitions({C0: [GOOD]}, 9)
    reading = feed(log, Placement(("r.*",)), drop=("device",))
    read(reading, 1)
    log.log[C0].append(b"a marker, which no poll brings")
    assert reading.backlog() == {"r.c0/0": 1}
    log.at[C0] = 2
    assert reading.backlog() == {"r.c0/0": 0}
    assert not reading.is_behind


def test_the_backlog_is_told_by_what_was_read_while_the_brokers_do_not_answer() -> None:
    log = Partitions({C0: [GOOD] * 5}, 2)
    reading = feed(log, Placement(("r.*",)), drop=("device",))
    read(reading, 1)

    log.has_passed = lambda *_: False  # type: ignore[method-assign]
    reading.note_ends()
    assert (reading.backlog(), reading.is_behind) == ({"r.c0/0": 3}, True)
    assert not any(source.at_end for source in reading.sources.values())


def letters(topic: str, placement: Placement) -> list[tuple[str, int, int]]:
    """Return the places of the dead letters of three bad messages, of which two have a header `from`."""
    found: list[DeadLetter] = []
    headers = {0: origin_header("machines.readings", 7, 1204), 1: ("from", b"m07")}
    log = Partitions({TopicPartition(topic, 3): [b"junk", b"junk", b"junk", GOOD]}, 9, headers)
    read(feed(log, placement, found.append, drop=("device",)), 1)
    return [letter.place for letter in found]


def test_a_dead_letter_names_the_place_in_the_topic_from_which_its_message_was_repartitioned() -> None:
    places = letters("f.client-records", Placement(("f.client-records",), "message-key"))
    assert places == [("machines.readings", 7, 1204), ("f.client-records", 3, 1), ("f.client-records", 3, 2)]


def test_a_header_of_a_message_that_was_not_repartitioned_does_not_move_its_dead_letter() -> None:
    assert letters("r.c0", Placement(("r.*",))) == [("r.c0", 3, offset) for offset in range(3)]
