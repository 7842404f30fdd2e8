"""A live federation for a measurement: settings, processes, and messages of its control topic."""

import json
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from live.processes import Process
from streamfl.errors import PeerError
from streamfl.live.settings.loading import load
from streamfl.live.settings.settings import FederationSettings
from streamfl.protocol.messages import FromCoordinator
from streamfl.runtime.log.topics import Topics
from streamfl.wire import messages

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """The environment of measurements.

    Parameters
    ----------
    bootstrap
        The broker.
    folder
        The folder for settings and logs of processes.
    tenth
        Whether to measure with a tenth of the size.
    minutes
        The minutes for which processes are watched.
    load
        How many busy loops run next to them where that matters; None: one for each core.
    """

    bootstrap: str
    folder: Path
    tenth: bool
    minutes: float
    load: int | None = None

    def size(self, n: int, least: int = 1) -> int:
        """Return n, or a tenth of it."""
        return max(least, n // 10) if self.tenth else n


@dataclass(frozen=True)
class Timed:
    """A message of the coordinator, and its timestamp (seconds since 1970)."""

    at: float
    message: FromCoordinator


def fresh(part: str) -> str:
    """Return an unused name of a federation."""
    return f"{part}-{secrets.token_hex(4)}"


def delete(bootstrap: str, wanted: Callable[[str], bool]) -> None:
    """Delete topics, so that a long series does not fill the broker."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        old = [topic for topic in admin.list_topics() if wanted(topic)]
        if old:
            admin.delete_topics(old)
    finally:
        admin.close()


@dataclass
class Federation:
    """One federation.

    Parameters
    ----------
    world
        The environment.
    tables
        Its settings, by table of the file; others have defaults.
    """

    world: World
    tables: Mapping[str, Mapping[str, Any]]
    name: str = field(default_factory=lambda: fresh("bench"))
    processes: list[Process] = field(default_factory=list)
    _started: int = 0
    _reader: KafkaConsumer | None = None
    _arrived: deque[Timed] = field(default_factory=deque)

    def __post_init__(self) -> None:
        defaults: dict[str, dict[str, Any]] = {
            "federation": {"name": self.name},
            "records": {"topics": [f"{self.name}.records.*"]},
            "client": {"host": "host"},
            "learning": {"features": "rounds"},
            "logs": {"form": "json"},
            "kafka": {"bootstrap_servers": self.world.bootstrap},
        }
        names = [*defaults, *(name for name in self.tables if name not in defaults)]
        lines = []
        for name in names:
            lines.append(f"[{name}]")
            table = {**defaults.get(name, {}), **self.tables.get(name, {})}
            lines += [
                f"{key} = {json.dumps(value)}" for key, value in table.items()
            ]  # valid TOML for the values used here
        self.file = self.world.folder / f"{self.name}.toml"
        self.file.write_text("\n".join(lines) + "\n")

    @property
    def settings(self) -> FederationSettings:
        return load(self.file)

    @property
    def topics(self) -> Topics:
        return Topics(self.name)

    def start(self, command: str, *words: str) -> Process:
        """Start one of its processes: `coordinator`, `client` or `produce`."""
        log = self.world.folder / f"{self.name}.{command}.{self._started}.log"
        self._started += 1
        process = Process(["streamfl", command, *words, "--settings", str(self.file)], log)
        self.processes.append(process)
        return process

    def close(self) -> None:
        """End its processes, and delete its own topics; logs of a failure stay."""
        for process in self.processes:
            process.stop()
        if self._reader is not None:
            self._reader.close()
        delete(self.world.bootstrap, lambda topic: topic.startswith(f"{self.name}."))

    # --- messages ----------------------------------------------------------------------------------------------

    def messages(self) -> list[Timed]:
        """Return everything on the control topic."""
        return _decoded(everything(self.world.bootstrap, self.topics.control))

    def new_messages(self, seconds: float) -> Iterator[Timed]:
        """Yield new messages for at most so many seconds.

        Raises
        ------
        PeerError
            The time is over, or a process has ended.
        """
        if self._reader is None:
            self._reader = _consumer(self.world.bootstrap)
            self._reader.assign([TopicPartition(self.topics.control, 0)])
            self._reader.seek_to_beginning()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            polled = self._reader.poll(timeout_ms=50)
            self._arrived.extend(_decoded([message for batch in polled.values() for message in batch]))
            while self._arrived:  # the caller may stop early; the rest stays for the next call
                yield self._arrived.popleft()
            for process in self.processes:
                process.require_alive()
        words = "\n".join(process.last_words() for process in self.processes)
        raise PeerError(f"{self.name}: the expected message did not arrive within {seconds:.0f} s:\n{words}")

    def when(
        self, of: str, seconds: float, wanted: Callable[[Any], bool] = lambda _: True, *, after: float = 0.0
    ) -> Timed:
        """Return the next message of a type that fulfils a condition, written after a time."""
        found = (t for t in self.new_messages(seconds) if type(t.message).__name__ == of and t.at > after)
        return next(t for t in found if wanted(t.message))


@contextmanager
def federation(world: World, tables: Mapping[str, Mapping[str, Any]]) -> Iterator[Federation]:
    """Run a federation, and remove it afterwards."""
    made = Federation(world, tables)
    try:
        yield made
    finally:
        made.close()


def _consumer(bootstrap: str) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        max_poll_records=100_000,
    )


def everything(bootstrap: str, topic: str) -> list[Any]:
    """Return all messages that a topic holds now, partition by partition."""
    reader = _consumer(bootstrap)
    try:
        partitions = [TopicPartition(topic, number) for number in sorted(reader.partitions_for_topic(topic) or ())]
        reader.assign(partitions)
        reader.seek_to_beginning(*partitions)
        ends, found = reader.end_offsets(partitions), {partition: list[Any]() for partition in partitions}
        while any(reader.position(partition) < end for partition, end in ends.items()):
            for partition, messages in reader.poll(timeout_ms=500).items():
                found[partition] += messages
        return [message for messages in found.values() for message in messages]
    finally:
        reader.close()


def _decoded(found: Iterable[Any]) -> list[Timed]:
    decoded = [Timed(message.timestamp / 1000, messages.decode(message.value)) for message in found]  # type: ignore[arg-type]
    return [timed for timed in decoded if isinstance(timed.message, FromCoordinator)]


def logged(log: Path, event: str) -> list[tuple[float, dict[str, Any]]]:
    """Return the log lines of a process about an event, with their times."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("{")]
    entries = [json.loads(line) for line in lines]
    return [(datetime.fromisoformat(one["timestamp"]).timestamp(), one) for one in entries if one["event"] == event]
