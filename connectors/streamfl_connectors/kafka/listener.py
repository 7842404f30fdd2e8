"""What the coordinator tells, heard in a thread of its own: so that a round never waits for a poll of records."""

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, Full, Queue
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition

from streamfl import messages
from streamfl.core.errors import PeerError, StreamflError
from streamfl.core.messages import FromCoordinator
from streamfl_connectors.kafka.absence import Absence
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.parts import Assembly
from streamfl_connectors.kafka.tensors import Tensors
from streamfl_connectors.kafka.topics import Topics

LOG = structlog.get_logger("streamfl.kafka.listener")

# Messages heard and not yet taken; when there are more, the log keeps them.
MOST_WAITING = 1000

POLL_MS = 500


class Listener:
    """Reads `.control` from now on, and `.models` from its start: a compacted topic holds the current ones.

    Parameters
    ----------
    connection, topics
        Where to read.
    wake
        Called, in the listener's thread, when something has arrived.
    """

    def __init__(self, connection: Connection, topics: Topics, wake: Callable[[], None]) -> None:
        self._servers = connection.settings.bootstrap_servers
        self._topics = topics
        self._wake = wake
        self._assembly = Assembly(connection.settings.largest_update)
        self._queue: Queue[Any] = Queue(MOST_WAITING)
        self._stop = threading.Event()
        self._failed: StreamflError | None = None
        self.foreign = 0
        self.current: dict[str, Tensors] = {}
        self._absence = Absence(connection.settings.patience)
        self._consumer: KafkaConsumer = connection.consumer()
        with explained(self._servers):
            self._catch_up()
        self._thread = threading.Thread(target=self._listen, name="streamfl-listener", daemon=True)
        self._thread.start()

    def _catch_up(self) -> None:
        """Start at the end of `.control`, then read the models that were there before."""
        control, models = TopicPartition(self._topics.control, 0), TopicPartition(self._topics.models, 0)
        self._consumer.assign([control, models])
        self._consumer.seek_to_end(control)
        self._consumer.seek_to_beginning(models)
        self._consumer.position(control)  # fixes where the end is
        end = self._consumer.end_offsets([models])[models]
        early: deque[Any] = deque()
        newest: dict[bytes, Any] = {}
        while self._consumer.position(models) < end:
            for partition, found in self._consumer.poll(timeout_ms=POLL_MS).items():
                if partition == control:
                    early.extend(found)
                else:
                    newest.update((message.key, message) for message in found)
        for message in newest.values():
            self._understand(message)
        for message in early:
            self._queue.put_nowait(message)

    def _listen(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    with explained(self._servers):
                        polled = self._consumer.poll(timeout_ms=POLL_MS)
                except PeerError as error:
                    self._absence.bear(error)
                    self._stop.wait(POLL_MS / 1000)
                    continue
                self._absence.over()
                for found in polled.values():
                    for message in found:
                        self._put(message)
                if polled:
                    self._wake()
        except StreamflError as error:
            self._failed = error
            self._wake()

    def _put(self, message: Any) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(message, timeout=0.5)
            except Full:
                self._wake()
            else:
                return

    def take(self) -> list[FromCoordinator]:
        """Return what was heard since the last time.

        Raises
        ------
        PeerError, UsageError
            The listener has ended, and why.
        """
        if self._failed is not None:
            raise self._failed
        heard: list[FromCoordinator] = []
        while True:
            try:
                message = self._queue.get_nowait()
            except Empty:
                return heard
            understood = self._understand(message)
            if understood is not None:
                heard.append(understood)

    def _understand(self, message: Any) -> FromCoordinator | None:
        try:
            return self._model(message) if message.topic == self._topics.models else from_coordinator(message.value)
        except PeerError as error:
            self.foreign += 1
            LOG.warning("unusable message", topic=message.topic, offset=message.offset, reason=str(error))
            return None

    def _model(self, message: Any) -> Tensors | None:
        name = (message.key or b"").decode(errors="replace").rpartition("/")[0]
        if message.value is None:
            self.current.pop(name, None)
            return None
        whole = self._assembly.add(name, message.headers, message.value)
        if whole is None:
            return None
        told = messages.decode(whole)
        if not isinstance(told, Tensors):
            raise PeerError("no model among the models")
        self.current[name] = told
        return told

    def close(self) -> None:
        """End the thread and let go of the connection."""
        self._stop.set()
        self._thread.join(timeout=5.0)
        self._consumer.close()


def from_coordinator(data: bytes | None) -> FromCoordinator:
    """Return a message of `.control`.

    Raises
    ------
    PeerError
        It is none of the coordinator's.
    """
    told = messages.decode(data or b"")
    if not isinstance(told, FromCoordinator):
        raise PeerError("a client's message among the coordinator's")
    return told
