"""The small stream with delayed labels: features under an id in one topic, labels later in another one."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from small_stream import FEATURES, LABELS, SIZE, SmallStream, make

from streamfl_connectors.kafka.writer import END_OF_STREAM

DELAY = 30

# The header of what a test writes among the answers.
JUNK = "junk"


@dataclass
class HalvedStream(SmallStream):
    """A small stream whose labels are written so many records of their client later.

    Parameters
    ----------
    delay
        How many.
    measured
        When a client's k-th record was measured, in seconds, which its message then says; None: it says nothing.
    told
        How many labels of each client have been written.
    """

    delay: int = DELAY
    measured: Callable[[str, int], float] | None = None
    told: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.places = {name: (f"{self.prefix}.records.c{i}", 0) for i, name in enumerate(self.names)}
        self.told = dict.fromkeys(self.names, 0)

    @property
    def topics(self) -> str:
        """Return the name of all topics of features."""
        return f"{self.prefix}.records.*"

    def settings(self, window: int = 200) -> tuple[str, ...]:
        """Return the settings of the labels."""
        return (f'labels.topic="{self.prefix}.labels.*"', f"labels.window={window}")

    def of_labels(self, name: str) -> str:
        """Return the topic of a client's labels."""
        return self.places[name][0].replace(".records.", ".labels.")

    def make_topics(self, **partitions: int) -> None:
        """Make the topics of both halves."""
        super().make_topics()
        make(self.bootstrap, {self.of_labels(name): 1 for name in self.names})

    def message(self, name: str, k: int) -> bytes:
        """Return the features of a client's k-th record."""
        row = self.table.X[self.logs[name].rows[k]].tolist()
        time = {} if self.measured is None else {"measured": self.measured(name, k)}
        return json.dumps({"id": f"{name}-{k}", **time, **dict(zip(FEATURES, row, strict=True))}).encode()

    def label(self, name: str, k: int) -> str:
        """Return the label of a client's k-th record."""
        return LABELS[int(self.logs[name].y[k])]

    def tell(self, name: str, key: Any, label: Any) -> None:
        """Take a label for where a client's labels are; `flush` writes it."""
        self.tell_anything(name, json.dumps({"id": key, "label": label, "by": "a forester"}).encode())

    def tell_anything(self, name: str, value: bytes | None, headers: Sequence[tuple[str, bytes]] = ()) -> None:
        """Take any message for where a client's labels are; `flush` writes it."""
        told = {"topic": self.of_labels(name), "partition": 0, "key": name.encode(), "headers": list(headers)}
        self.waiting.append({**told, "value": value})

    def write(self, until: int, names: Any = None) -> None:
        """Write the features of the rounds up to `until`, and the labels of those that were long enough before."""
        super().write(until, names)
        self.write_labels(self.delay, names)

    def write_labels(self, behind: int, names: Any = None) -> None:
        """Write the labels of all records but the last ones of each client."""
        for name in list(self.names if names is None else names):
            while self.told[name] < self.written[name] - behind:
                self.tell(name, f"{name}-{self.told[name]}", self.label(name, self.told[name]))
                self.told[name] += 1
        self.flush()

    def end(self, names: Any = None) -> None:
        """Write the last labels, and tell the readers that nothing more will come."""
        self.write_labels(0, names)
        for name in list(self.names if names is None else names):
            self.tell_anything(name, None, [(END_OF_STREAM, b"")])
        super().end(names)

    @property
    def complete(self) -> int:
        """Return how many rounds of labels have been written of every client."""
        return min(self.told.values()) // SIZE


def read(federation: Any, topic: str) -> list[Any]:
    """Return the committed messages of one of the federation's topics, by partition and offset."""
    consumer = KafkaConsumer(bootstrap_servers=federation.bootstrap, isolation_level="read_committed")
    try:
        name = f"{federation.name}.{topic}"
        partitions = [TopicPartition(name, number) for number in sorted(consumer.partitions_for_topic(name) or ())]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends, found = consumer.end_offsets(partitions), []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for batch in consumer.poll(timeout_ms=200).values():
                found += batch
        return sorted(found, key=lambda message: (message.partition, message.offset))
    finally:
        consumer.close()


def answers(federation: Any) -> list[dict[str, Any]]:
    """Return the answers of clients and scorers."""
    values = [message.value for message in read(federation, "predictions") if JUNK not in dict(message.headers)]
    return [json.loads(value) for value in values]


def first_answers(federation: Any) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the first answer of each client to each record, by client and offset."""
    first: dict[tuple[str, int], dict[str, Any]] = {}
    for answer in answers(federation):
        if "client" in answer:
            first.setdefault((answer["client"], answer["offset"]), answer)
    return first
