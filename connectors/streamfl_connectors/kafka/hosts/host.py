"""A host: one process that runs clients, with their records, their links, and its place in the group of hosts."""

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial

from streamfl.protocol.decisions import Answered
from streamfl.protocol.messages import FromCoordinator
from streamfl.runtime.log.placement import read_by_clients
from streamfl.runtime.log.predictions import answers_of
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import (
    ClientLink,
    ClientProgress,
    LabelTopics,
    Placement,
    ReadingCounts,
    RecordFormat,
    Source,
)
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.hosts.client_answers import AnswerWriter
from streamfl_connectors.kafka.hosts.client_links import ClientLinks
from streamfl_connectors.kafka.hosts.records import RecordConsumer
from streamfl_connectors.kafka.hosts.repartitioner import Repartitioner, Session

# Seconds between two polls. A poll costs half a millisecond or more however few records it brings: one at the end of
# all partitions leaves time for some to come, and without records polls become ever more seldom.
SHORTEST, AT_THE_END, LONGEST = 0.002, 0.02, 0.1


class KafkaHost:
    """`streamfl.runtime.ports.Host` on Kafka.

    A message of the coordinator wakes `listen` at once, from the listener's thread; records are polled.

    Parameters
    ----------
    name
        The host's name, the same after a restart.
    """

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        name: str,
        placement: Placement,
        records: RecordFormat,
        delayed_labels: LabelTopics | None = None,
    ) -> None:
        self.counts = ReadingCounts()
        self._delayed_labels = delayed_labels
        self._received = threading.Event()
        self._answers = None if delayed_labels is None else AnswerWriter(connection, topics.predictions)
        self._links = ClientLinks(connection, topics, self._received.set, self._flush)
        by_client, labels = read_by_clients(topics, placement, delayed_labels)
        self._records = RecordConsumer(connection, topics, name, by_client, records, self.counts, labels)
        self._repartitioner: Repartitioner | None = None
        if placement.is_repartitioned:
            said = (placement, records, delayed_labels, self._records.bury_stored, self.counts)
            self._repartitioner = Repartitioner(connection, topics, partial(Session, connection, topics, *said))
        self._pause, self._poll_at = SHORTEST, 0.0

    def subscribe(self) -> bool:
        """Subscribe to the topics of records that exist.

        Raises
        ------
        UsageError
            None of them fits.
        """
        return self._records.subscribe()

    def poll_clients(self) -> Mapping[str, Source]:
        """Read further records if it is time, and return the sources of this host's clients, by client.

        Answers are in the log before the group may give a partition to another host.
        """
        self._flush()
        if time.monotonic() >= self._poll_at:
            self._poll()
        labels = self._records.labels
        self.counts.foreign = self._links.foreign + (0 if labels is None else labels.foreign)
        return self._records.sources

    def _poll(self) -> None:
        """Read records, and say when to poll again."""
        wait = 0.0
        if self._repartitioner is not None:
            self._repartitioner.follow(self._records.partitions)
        if not self._records.read():
            wait, self._pause = self._pause, min(2.0 * self._pause, LONGEST)
        elif self._records.is_behind:
            self._pause = SHORTEST
        else:
            wait = self._pause = AT_THE_END
        self._poll_at = time.monotonic() + wait

    def link(self, client: str) -> ClientLink:
        """Return a new link for a client of this host."""
        return self._links.link(client)

    def drop(self, client: str) -> None:
        """Forget the link of a client that has left this host."""
        self._links.drop(client)

    def receive(self) -> Sequence[FromCoordinator]:
        """Pass the coordinator's new messages to the links, and return them."""
        return self._links.receive()

    def answer(self, answered: Answered) -> None:
        """Write what a client has answered; it is in the log before the client's next update."""
        labels, delayed_labels = self._records.labels, self._delayed_labels
        if labels is None or delayed_labels is None or self._answers is None or answered.client not in labels.halves:
            return
        keys = labels.halves[answered.client].take(answered.batch)
        self._answers.write(
            answers_of(answered, keys, targets=delayed_labels.targets, probabilities=delayed_labels.probabilities)
        )

    def _flush(self) -> None:
        if self._answers is not None:
            self._answers.flush()

    @property
    def is_divided(self) -> bool:
        """Whether the group does not rebalance, and all that it has assigned is hosted."""
        return self._records.is_divided

    @property
    def silence(self) -> str:
        """Return why the brokers do not answer; empty if they do."""
        return self._links.silence

    def backlog(self) -> Mapping[str, int]:
        """Return how many messages of each partition lie between what was fetched and its end."""
        return self._records.backlog()

    def settle(self, progress: Mapping[str, ClientProgress]) -> None:
        """Commit to the group how far the clients are, and forget answers to records that no longer wait."""
        self._records.settle(progress)
        if self._records.labels is not None:
            for client, halves in self._records.labels.halves.items():
                if client in progress:
                    halves.forget(progress[client].positions.get(halves.features.partition, 0))

    def listen(self, seconds: float) -> None:
        """Return at a message of the coordinator, when records are to be polled, or after so many seconds."""
        if self._records.hungry:
            seconds = min(seconds, max(0.0, self._poll_at - time.monotonic()))
        self._received.wait(seconds)
        self._received.clear()

    def close(self) -> None:
        """Close the links and the connections."""
        if self._repartitioner is not None:
            self._repartitioner.close()
        self._links.close()
        if self._answers is not None:
            self._answers.close()
        self._records.close()
