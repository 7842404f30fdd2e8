"""Receives the coordinator's messages in a thread, so that a round never waits for a poll of records."""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from queue import Empty, Full, Queue
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition

from streamfl.bounds import is_name
from streamfl.errors import PeerError, StreamflError
from streamfl.protocol.memory import MOST_AT_ONCE, MOST_KEPT
from streamfl.protocol.messages import Ended, FromCoordinator, RegistryPublished, RoundOpened
from streamfl.runtime.log.control import ControlReader
from streamfl.runtime.log.newest import Newest
from streamfl.runtime.log.parts import PartAssembly
from streamfl.runtime.log.signatures import signer_of
from streamfl.runtime.log.tally import Tally
from streamfl.runtime.log.tensors import END, Tensors, key_of, place_among_newest, place_of, version_of
from streamfl.runtime.log.topics import Topics
from streamfl.wire import messages
from streamfl_connectors.kafka.absence import Absence
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.last_round import last_opened
from streamfl_connectors.kafka.silence import BrokerSilence

LOG = structlog.get_logger("streamfl.kafka.listener")

# The most messages that were received and not yet taken; further ones stay in the log.
MOST_WAITING, MOST_WAITING_BYTES = 1000, 64 * 1024 * 1024

# All present models, as they are in the log, may have this many times the bytes of the largest update: each is as
# large, and there are a few.
MODELS_BYTES = 16

POLL_MS = 500


class Listener:
    """Reads `.control` from its end, and `.models` from its start: this topic is compacted to the current models.

    If the federation had ended before, `.models` says so, and the first message is `Ended`.

    Parameters
    ----------
    wake
        Called in the listener's thread when a message has arrived.
    follows
        Whether its reader follows the models without asking: `opened` has the rounds that were opened last before it
        began to listen, and `present` what leads to their models. Else `current` has what clients begin with.
    """

    def __init__(
        self, connection: Connection, topics: Topics, wake: Callable[[], None], *, follows: bool = False
    ) -> None:
        self._settings = connection.settings
        self._topics = topics
        self._wake = wake
        self._assembly = PartAssembly(connection.settings.largest_update, budget=connection.settings.unfinished_bytes)
        self._verifier = connection.signatures.coordinator
        self._control = ControlReader(verifier=self._verifier)
        self._queue: Queue[Any] = Queue(MOST_WAITING)
        self._stop = threading.Event()
        self._failed: StreamflError | None = None
        self._put_bytes = self._taken_bytes = 0  # the thread writes the former, the caller of `take` the latter
        self._unusable = Tally(LOG, "unusable message")
        self.current: Newest[str, Tensors] = Newest(MOST_KEPT)
        self._present: Newest[bytes | None, Any] = Newest(MODELS_BYTES * connection.settings.largest_update)
        self._ahead: Newest[int, Tensors] = Newest(MOST_KEPT)
        self._follows = follows
        self._had_ended: Ended | None = None
        self._absence = Absence(connection.settings.patience)
        self.opened: tuple[RoundOpened, ...] = ()
        self._consumer: KafkaConsumer = connection.consumer()
        with explained(self._settings):
            if follows:
                self.opened = last_opened(self._consumer, topics.control, self._verifier)
            self._catch_up()
        self._silence = BrokerSilence(self._settings, self._consumer)
        self._thread = threading.Thread(target=self._listen, name="streamfl-listener", daemon=True)
        self._thread.start()

    def _catch_up(self) -> None:
        """Go to the end of `.control`, then read all present models."""
        control, models = TopicPartition(self._topics.control, 0), TopicPartition(self._topics.models, 0)
        self._consumer.assign([control, models])
        self._consumer.seek_to_end(control)
        self._consumer.seek_to_beginning(models)
        self._consumer.position(control)  # fixes the end
        self._consumer.pause(control)  # messages from now on wait in the log
        end = self._consumer.end_offsets([models])[models]
        while self._consumer.position(models) < end:
            for batch in self._consumer.poll(timeout_ms=POLL_MS).values():
                for message in batch:
                    self._present.put(message.key, message, len(message.key or b"") + len(message.value or b""))
        if not self._follows:
            for _ in self.present():
                pass
        self._consumer.resume(control)

    def present(self, upto: float = math.inf) -> Iterator[Tensors]:
        """Yield, once, the registries that were in the log, and the models of rounds up to one, decoded when due."""
        ahead, self._ahead = self._ahead, Newest(MOST_KEPT)
        for number, model in enumerate(chain(ahead.values(), self._decoded())):
            if isinstance(model, RegistryPublished) or version_of(model) <= upto:
                yield model
            else:
                self._ahead.put(number, model, model.memory)

    def _decoded(self) -> Iterator[Tensors]:
        present, self._present = self._present, Newest(0)
        for message in present.values():
            understood = self._understand(message)
            if isinstance(understood, Ended):
                self._had_ended = understood
            elif isinstance(understood, Tensors):
                yield understood

    def _listen(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    with explained(self._settings):
                        polled = self._consumer.poll(timeout_ms=POLL_MS)
                except PeerError as error:
                    self._silence.failed(error)
                    self._absence.bear(error)
                    self._stop.wait(POLL_MS / 1000)
                    continue
                self._absence.over()
                self._silence.polled(any_came=bool(polled))
                for batch in polled.values():
                    for message in batch:
                        self._put(message)
                if polled:
                    self._wake()
        except StreamflError as error:
            self._failed = error
            self._wake()

    def _put(self, message: Any) -> None:
        while not self._stop.is_set():
            if self._put_bytes - self._taken_bytes < MOST_WAITING_BYTES:
                with suppress(Full):
                    self._queue.put(message, timeout=0.5)
                    self._put_bytes += len(message.value or b"")
                    return
            else:
                self._stop.wait(0.05)
            self._wake()

    def take(self) -> list[FromCoordinator]:
        """Return the messages received since the last call, at most MOST_WAITING and MOST_AT_ONCE decoded bytes.

        Raises
        ------
        PeerError, UsageError
            The error with which the listener has ended.
        """
        if self._failed is not None:
            raise self._failed
        received: list[FromCoordinator] = [] if self._had_ended is None else [self._had_ended]
        self._had_ended, taken = None, 0
        while len(received) < MOST_WAITING and taken < MOST_AT_ONCE:
            try:
                message = self._queue.get_nowait()
            except Empty:
                break
            self._taken_bytes += len(message.value or b"")
            understood = self._understand(message)
            is_copy = isinstance(understood, Ended) and message.topic == self._topics.models
            if understood is not None and not is_copy:  # of the end, whose place among other messages matters
                received.append(understood)
                taken += understood.memory
        return received

    @property
    def silence(self) -> str:
        """Return why the brokers do not answer; empty if they do."""
        return self._silence.reason

    @property
    def foreign(self) -> int:
        """Count the messages that could not be decoded."""
        return self._unusable.total

    def _understand(self, message: Any) -> FromCoordinator | None:
        try:
            if message.topic == self._topics.models:
                return self._model(message)
            return self._control.read(message.value, message.headers)
        except PeerError as error:
            self._unusable.note(message.topic, str(error), offset=message.offset)
            return None

    def _model(self, message: Any) -> Tensors | Ended | None:
        name = _key(message.key)
        if self._verifier is not None:
            signer_of(self._verifier, place_of(message.key), message.headers, message.value)
        if message.value is None:
            self.current.drop(name)
            return None
        whole = self._assembly.add(name, message.headers, message.value)
        if whole is None:
            return None
        model = messages.decode(whole)
        if isinstance(model, Ended) and name == END:
            return model
        if not isinstance(model, Tensors):
            raise PeerError("not a model, in the topic of models")
        if key_of(model) != name:
            raise PeerError(f"{key_of(model)!r} under the key of another model")
        if not self._follows:
            self.current.put(place_among_newest(model), model, model.memory)
        return model

    def close(self) -> None:
        """End the thread and close the connection."""
        self._stop.set()
        self._thread.join(timeout=5.0)
        self._consumer.close()


def _key(key: bytes | None) -> str:
    """Return the key of a model, without the number of the part."""
    try:
        name, slash, _ = (key or b"").decode().rpartition("/")
    except UnicodeDecodeError:
        name, slash = "", ""
    if not slash or not is_name(name):
        raise PeerError("not the key of a model")
    return name
