"""Delayed labels: their partitions next to those that the group assigns to a host."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from kafka import TopicPartition

from streamfl.runtime.log.dead_letters import DeadLetter
from streamfl.runtime.log.delayed import LogHalves
from streamfl.runtime.log.partition import PartitionReader
from streamfl.runtime.log.placement import labels_of
from streamfl.runtime.log.recorded import Recorded
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import LabelTopics, Placement, ReadingCounts
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.hosts.client_answers import AnswerReader
from streamfl_connectors.kafka.hosts.feed import Feed
from streamfl_connectors.kafka.hosts.settled import SettledOffset

LOG = structlog.get_logger("streamfl.kafka.labels")


class LabelFeed:
    """Reads labels next to records, and what was answered to these before."""

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        placement: Placement,
        delayed_labels: LabelTopics,
        counts: ReadingCounts,
        bury: Callable[[DeadLetter], None],
    ) -> None:
        self.halves: dict[str, LogHalves] = {}
        self._placement, self._delayed_labels = placement, delayed_labels
        self._consumer = connection.record_reader(topics.clients_group)
        self._feed = Feed(connection, self._consumer, delayed_labels.placement, delayed_labels.records, counts, bury)
        self._answers = AnswerReader(connection, topics.predictions)
        self._beside: dict[TopicPartition, tuple[PartitionReader, PartitionReader]] = {}  # by that of records
        self._without: list[str] = []

    # --- topics ------------------------------------------------------------------------------------------------

    def topic_of(self, records: str) -> str:
        """Return the topic of the labels of a topic of records."""
        return labels_of(self._delayed_labels.placement, self._placement, records)

    def beside(self, partition: TopicPartition) -> TopicPartition:
        """Return the partition of the labels of a partition of records."""
        return TopicPartition(self.topic_of(partition.topic), partition.partition)

    def with_labels(self, topics: Sequence[str], there: Sequence[str]) -> list[str]:
        """Return those topics of records whose topics of labels are there."""
        known = set(there)
        without = [topic for topic in topics if self.topic_of(topic) not in known]
        if without and without != self._without:
            LOG.warning("records wait, because their topic of labels does not exist", topics=without)
        self._without = without
        return [topic for topic in topics if topic not in without]

    # --- the group ---------------------------------------------------------------------------------------------

    def begin(self, partition: TopicPartition, reader: PartitionReader, hint: SettledOffset) -> None:
        """Begin to read the labels of a partition of records that was assigned to this host."""
        labels = self.beside(partition)
        self._consumer.assign([*self._feed.readers, labels])
        self._beside[partition] = reader, self._feed.begin(labels, hint, reader.only)
        self._join()

    def _join(self) -> None:
        """Join the halves of clients that are new to a partition."""
        for reader, told in self._beside.values():
            for client in [*(reader.clients.keys() | told.clients.keys()) - self.halves.keys()]:
                recorded = Recorded(targets=self._delayed_labels.targets)
                both = reader.source_of(client), told.source_of(client)
                self.halves[client] = LogHalves(client, *both, recorded, self._delayed_labels.window)

    def give_up(self, partition: TopicPartition) -> None:
        """Forget a partition of records, and its labels."""
        self._feed.give_up(self.beside(partition))
        self._consumer.assign([*self._feed.readers])
        for client in self._beside.pop(partition)[0].clients:
            self.halves.pop(client, None)

    @property
    def readers(self) -> Mapping[TopicPartition, PartitionReader]:
        """Return the readers of the partitions of labels."""
        return self._feed.readers

    @property
    def foreign(self) -> int:
        """Count the messages on the topic of answers that could not be read."""
        return self._answers.foreign

    def backlog(self) -> dict[str, int]:
        """Return how many labels of each partition were not read yet."""
        return self._feed.backlog()

    @property
    def is_behind(self) -> bool:
        """Tell whether any label was not read yet."""
        return self._feed.is_behind

    @property
    def hungry(self) -> bool:
        """Tell whether there is anything to read."""
        return self._feed.hungry or any(halves.lacks_answers for halves in self.halves.values())

    # --- reading -----------------------------------------------------------------------------------------------

    def arrived(self, polled: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Take the keys of messages with records; where they are clients, answers have the records' own ids."""
        self._join()
        for partition, messages in polled.items():
            only = self._beside[partition][0].only if partition in self._beside else None
            if only is not None:
                self.halves[only].arrived({message.offset: message.key for message in messages})

    def read(self, records: Feed) -> bool:
        """Read labels, and what was answered before; tell whether there was anything."""
        if not self._feed.readers:
            return False
        polled = self._feed.polled(0)
        self._feed.take(polled)
        self._join()
        self._feed.note_ends()
        of = [(one, halves) for one, (reader, _) in self._beside.items() for halves in self._in(reader)]
        return self._answers.read(of, records) or bool(polled)

    def _in(self, reader: PartitionReader) -> list[LogHalves]:
        return [self.halves[client] for client in reader.clients]

    def close(self) -> None:
        """Close the connections."""
        self._answers.close()
        self._feed.close()
        self._consumer.close()
