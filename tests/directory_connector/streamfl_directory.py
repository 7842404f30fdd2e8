"""A connector whose log is a directory on one machine, with its section `[directory]`."""

import fcntl
import os
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import ClassVar, NamedTuple

from msgspec import MsgspecError, msgpack
from pydantic import BaseModel, ConfigDict

from streamfl.errors import PeerError, UsageError
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.events import Ordered, Signed, Unusable
from streamfl.protocol.memory import MOST_KEPT, memory
from streamfl.protocol.messages import Command, Ended, FromClient, FromCoordinator, RoundOpened
from streamfl.runtime.log.dead_letters import DeadLetter
from streamfl.runtime.log.intake import LogIntake
from streamfl.runtime.log.links import Links
from streamfl.runtime.log.newest import Newest
from streamfl.runtime.log.partition import PartitionReader
from streamfl.runtime.log.placement import may_hold_records, partition_of, places_of, topic_of
from streamfl.runtime.log.sample import tried
from streamfl.runtime.log.signatures import seal, unseal
from streamfl.runtime.log.tensors import Tensors, place_among_newest
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.log.updates import PLACE, understood
from streamfl.runtime.ports import (
    CheckResult,
    ClientProgress,
    Decoded,
    LabelTopics,
    LoggedDeadLetter,
    LoggedMessage,
    Placement,
    ReadingCounts,
    RecordAnswer,
    RecordFormat,
    ScoringCounts,
    Source,
    Unlabelled,
    UnlabelledRecords,
    WrongState,
)
from streamfl.wire import codec, messages
from streamfl.wire.signing import OPEN, Signatures

POLL, MOST_AT_ONCE = 0.02, 1000

Transaction = tuple[bytes, int, list[bytes]]  # state or nothing, updates that are in it, messages


class Message(NamedTuple):
    offset: int
    value: bytes
    key: None = None
    timestamp: int = -1


class Log:
    """A partition as a folder: every message is a file that appears complete, named by its offset."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.topic = folder, folder.parent.name
        self.name = f"{self.topic}/{folder.name}"
        self._end = 0

    @property
    def end(self) -> int:
        """Return the next offset."""
        while self._path(self._end).exists():
            self._end += 1
        return self._end

    def read(self, start: int, most: int | None = None) -> list[Message]:
        return [Message(offset, self._path(offset).read_bytes()) for offset in range(start, self.end)[:most]]

    def append(self, data: bytes, *, at: int | None = None) -> None:
        """Write a message after the last one, or at an offset: FileExistsError if that is taken."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".") as file:
            file.write(data)
            file.flush()
            while True:
                try:
                    return os.link(file.name, self._path(self.end if at is None else at))
                except FileExistsError:
                    if at is not None:
                        raise

    def _path(self, offset: int) -> Path:
        return self.folder / f"{offset:020d}"


class Place:
    """A federation's topics in the directory."""

    def __init__(self, path: Path, federation: str, signatures: Signatures) -> None:
        self.path, self.topics, self.signatures = path, Topics(federation), signatures
        self.control, self.updates = Log(path / self.topics.control / "0"), Log(path / self.topics.updates / "0")
        self._letters = Log(path / self.topics.dead_letters / "0")

    def records(self, placement: Placement) -> list[Log]:
        """Return the partitions of records."""
        topics = [
            one for one in sorted(self.path.iterdir()) if may_hold_records(placement, self.topics.own, one.name)
        ]
        return [Log(folder) for topic in topics for folder in sorted(topic.iterdir()) if folder.name.isdecimal()]

    def transaction(self, message: Message) -> Transaction:
        """Return the transaction in a message, which the coordinator has signed for its offset."""
        place = f"transaction {message.offset}"
        return msgpack.decode(unseal(self.signatures.coordinator, place, message.value)[0], type=Transaction)

    def letters(self, start: int) -> list[Sequence[tuple[str, bytes]]]:
        """Return the headers of dead letters from an offset on."""
        return [msgpack.decode(letter.value)[1] for letter in self._letters.read(start)]

    def bury(self, letter: DeadLetter) -> None:
        self._letters.append(msgpack.encode((letter.value, letter.headers)))


class DirectoryLinks(Links):
    """The links of a process's clients; they read the coordinator's messages from the first transaction on."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place, self.foreign, self.next = place, 0, 0
        self._last: list[FromCoordinator] = []
        self._newest: Newest[str, Tensors] = Newest(MOST_KEPT)
        self._last = [message for message in self.received() if not isinstance(message, Tensors)][-1:]

    def send(self, message: FromClient) -> None:
        self.place.updates.append(seal(self.place.signatures.own, PLACE, messages.encode(message)))

    def received(self) -> list[FromCoordinator]:
        received = [message for message in self._last if isinstance(message, Ended)]
        self._last = []
        for transaction in self.place.control.read(self.next):
            self.next = transaction.offset + 1
            try:
                _, _, encoded = self.place.transaction(transaction)
                decoded = [messages.decode(data) for data in encoded]
            except (MsgspecError, PeerError):
                self.foreign += 1
                continue
            received += [message for message in decoded if isinstance(message, FromCoordinator)]
        for model in (message for message in received if isinstance(message, Tensors)):
            self._newest.put(place_among_newest(model), model, memory(model))
        return received

    def current(self) -> Iterator[FromCoordinator]:
        return self._newest.values()


class DirectoryCoordinatorLink:
    """`streamfl.runtime.ports.ServedCoordinatorLink`: the first process to write the next transaction coordinates."""

    def __init__(self, place: Place, placement: Placement, stride: int, wrong: WrongState) -> None:
        self._place, self._placement, self._stride = place, placement, stride
        self.bytes_read = self.bytes_written = 0
        transactions = [place.transaction(message) for message in place.control.read(0)]
        commits = [
            transaction
            for transaction in transactions
            if transaction[0] and wrong(codec.decode(CoordinatorState, transaction[0])) is None
        ]
        self._state, self._handled, _ = commits[-1] if commits else (b"", 0, [])
        self._next = len(transactions)
        self.publish([])  # from here on no other coordinator can write

    def publish(self, published: Sequence[FromCoordinator], state: bytes = b"") -> None:
        encoded = [messages.encode(message) for message in published]
        self.bytes_written += sum(map(messages.size_on_log, published, encoded))
        data = msgpack.encode((state, self._handled, encoded))
        try:
            signed = seal(self._place.signatures.own, f"transaction {self._next}", data)
            self._place.control.append(signed, at=self._next)
        except FileExistsError:
            raise PeerError("another coordinator of this federation has taken over; this process ends") from None
        self._next += 1

    def commit(self, published: Sequence[FromCoordinator], state: CoordinatorState) -> None:
        self._state = codec.encode(state)
        self.publish(published, self._state)

    def receive(self) -> Iterator[FromClient | Signed | Ordered | Unusable]:
        for message in self._place.updates.read(self._handled):
            self._handled, self._taken = message.offset + 1, message
            self.bytes_read += len(message.value)
            try:
                data, signer = unseal(self._place.signatures.clients, PLACE, message.value)
            except PeerError as error:
                yield Unusable("", str(error))
                continue
            yield understood(data, signer=signer)

    def refuse(self, reason: str) -> None:
        place = (self._place.updates.topic, 0, self._taken.offset)
        self._place.bury(DeadLetter.of(*place, reason, None, self._taken.value))

    def restore(self) -> CoordinatorState | None:
        return codec.decode(CoordinatorState, self._state) if self._state else None

    def ends(self, partitions: Collection[str]) -> Mapping[str, int | None]:
        known = {name for name in partitions if partition_of(self._placement, self._place.topics.own, name)}
        return {name: Log(self._place.path / name).end * self._stride if name in known else 0 for name in partitions}

    def log_ids(self, partitions: Collection[str]) -> Mapping[str, str | None]:
        return dict.fromkeys(partitions)

    def listen(self, seconds: float) -> None:
        time.sleep(min(seconds, POLL))

    def close(self) -> None:
        pass


class DirectoryHost(DirectoryLinks):
    """`streamfl.runtime.ports.Host`: hosts divide the partitions by locks, which end with their processes."""

    def __init__(self, place: Place, placement: Placement, records: RecordFormat) -> None:
        super().__init__(place)
        self.counts = ReadingCounts()
        self._placement, self._format = placement, records
        self._intake = LogIntake(placement, records, self.counts)
        self._logs: dict[str, tuple[Log, PartitionReader]] = {}
        self._locks = ExitStack()

    def poll_clients(self) -> Mapping[str, Source]:
        for log in self.place.records(self._placement):
            if log.name not in self._logs:
                with suppress(BlockingIOError):  # another host has it
                    self._begin(log)
        for log, reader in self._logs.values():
            self._read(log, reader)
        self.counts.foreign = self.foreign
        return {name: source for _, reader in self._logs.values() for name, source in reader.clients.items()}

    def _begin(self, log: Log) -> None:
        with ExitStack() as stack:
            lock = stack.enter_context((log.folder / ".lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._locks.push(stack.pop_all())

        def read_again(positions: Sequence[int]) -> Decoded:
            offsets = sorted({position // self._format.stride for position in positions})
            found = [message for offset in offsets for message in log.read(offset, 1)]
            return self._format.fresh().decode([m.offset for m in found], [m.value for m in found])

        start = log.end if self._placement.start == "latest" else 0
        self._logs[log.name] = log, self._intake.begin(log.topic, int(log.folder.name), start, read_again)

    def _read(self, log: Log, reader: PartitionReader) -> None:
        reader.check_sought(0, log.end, self._format.stride)
        wanted = reader.wanted()
        found = [] if wanted is None else log.read(wanted // self._format.stride, MOST_AT_ONCE)
        if wanted is not None and found:
            reader.head = wanted
            for letter in self._intake.take(
                reader, found, [message.offset for message in found if not message.value]
            ):
                self.place.bury(letter)
                self.counts.dead_letters += 1

    @property
    def is_divided(self) -> bool:
        return True

    def backlog(self) -> Mapping[str, int]:
        return {}

    def settle(self, progress: Mapping[str, ClientProgress]) -> None:
        pass  # a new host learns from the ledger where its clients continue

    def listen(self, seconds: float) -> None:
        time.sleep(min(seconds, POLL))

    def close(self) -> None:
        self._locks.close()


class DirectoryScorer(DirectoryLinks):
    """`streamfl.runtime.ports.Scorer`, at least once: a file in a partition holds how far its scorers are."""

    def __init__(self, place: Place, unlabelled: Unlabelled, records: RecordFormat) -> None:
        if unlabelled.exactly_once:
            raise UsageError("[score] exactly_once: a directory answers at least once; leave it out")
        super().__init__(place)
        self.next = 0  # it follows all that was ever published
        self.counts = ScoringCounts()
        self._unlabelled, self._format = unlabelled, records
        self._answers = Log(place.path / place.topics.predictions / "0")
        self._logs: dict[str, Log] = {}
        self._read: dict[Path, int] = {}
        self._locks = ExitStack()

    def poll_models(self) -> Sequence[FromCoordinator]:
        return self.received()

    def read(self) -> Sequence[UnlabelledRecords]:
        for topic in self._unlabelled.topics:
            for folder in sorted((self.place.path / topic).glob("[0-9]*")):
                if f"{topic}/{folder.name}" not in self._logs:
                    with suppress(BlockingIOError):  # another scorer has it
                        lock = self._locks.enter_context((folder / ".lock").open("w"))
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        self._logs[f"{topic}/{folder.name}"] = Log(folder)
        return [asked for log in self._logs.values() if (asked := self._asked(log)) is not None]

    def _asked(self, log: Log) -> UnlabelledRecords | None:
        at = log.folder / ".scored"
        start = int(at.read_text()) if at.exists() else log.end if self._unlabelled.start == "latest" else 0
        found = log.read(start, MOST_AT_ONCE)
        if not found:
            return None
        self._read[at] = found[-1].offset + 1
        there = [message for message in found if message.value]
        decoded = self._format.decode([message.offset for message in there], [message.value for message in there])
        for bad in decoded.rejected:
            offset = bad.position // self._format.stride
            self.place.bury(
                DeadLetter.of(log.topic, int(log.folder.name), offset, bad.reason, None, log.read(offset, 1)[0].value)
            )
            self.counts.rejected += bad.count
        return UnlabelledRecords(log.topic, int(log.folder.name), decoded, {})

    def answer(self, answers: Sequence[RecordAnswer]) -> None:
        for answer in answers:
            self._answers.append(answer.value)
        for at, offset in self._read.items():
            at.with_suffix(".new").write_text(str(offset))
            at.with_suffix(".new").replace(at)
        self._read.clear()
        self.counts.answered += len(answers)

    def listen(self, seconds: float) -> None:
        time.sleep(min(seconds, POLL))

    def close(self) -> None:
        self._locks.close()


class DirectoryWriter:
    """`streamfl.runtime.ports.RecordWriter`: an empty message is the end-of-stream mark."""

    def __init__(self, logs: Mapping[str, Log]) -> None:
        self._logs = logs

    def write(self, client: str, value: bytes) -> None:
        self._logs[client].append(value)

    def end(self) -> None:
        for log in {log.name: log for log in self._logs.values()}.values():
            log.append(b"")

    def close(self) -> None:
        pass


class DirectorySettings(BaseModel):
    """`path` is the directory of all federations and records."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    path: Path


def _refuse(delayed_labels: LabelTopics | None) -> None:
    if delayed_labels is not None:
        raise UsageError("[labels]: in directories labels come with their records; leave it out")


class DirectoryWatcher:
    """`streamfl.runtime.ports.Watcher`."""

    letters_before, behind = 0, 0

    def __init__(self, place: Place, last: int | None, *, letters: bool) -> None:
        self._links, self._place, self._letters = DirectoryLinks(place), place, 0
        self.letters_readable = letters
        self._links.next = 0 if last is None else max(0, place.control.end - last)

    @property
    def unusable(self) -> int:
        return self._links.foreign

    def read(self) -> Sequence[LoggedMessage | LoggedDeadLetter]:
        told = [LoggedMessage(message) for message in self._links.received() if not isinstance(message, Tensors)]
        letters = self._place.letters(self._letters) if self.letters_readable else []
        self._letters += len(letters)
        if not told and not letters:
            time.sleep(POLL)
        return [*told, *map(LoggedDeadLetter.of, letters)]

    def close(self) -> None:
        """Nothing is open."""


class DirectoryConnector:
    """`streamfl.runtime.ports.Connector`."""

    Settings: ClassVar[type[BaseModel]] = DirectorySettings

    carries_signatures: ClassVar[bool] = True

    def __init__(self, federation: str, settings: DirectorySettings, signatures: Signatures = OPEN) -> None:
        self._place = Place(settings.path, federation, signatures)

    def prepare(self) -> None:
        if not self._place.path.is_dir():
            raise UsageError(f"[directory] path: there is no directory {self._place.path}; make it, or correct path")

    def coordinator(
        self,
        placement: Placement,
        records: RecordFormat,
        delayed_labels: LabelTopics | None = None,
        wrong: WrongState = CoordinatorState.wrong,
    ) -> DirectoryCoordinatorLink:
        _refuse(delayed_labels)
        return DirectoryCoordinatorLink(self._place, placement, records.stride, wrong)

    def host(
        self, name: str, placement: Placement, records: RecordFormat, delayed_labels: LabelTopics | None = None
    ) -> DirectoryHost:
        _refuse(delayed_labels)
        return DirectoryHost(self._place, placement, records)

    def scorer(self, name: str, unlabelled: Unlabelled, records: RecordFormat) -> DirectoryScorer:
        return DirectoryScorer(self._place, unlabelled, records)

    def writer(self, placement: Placement, clients: Sequence[str]) -> DirectoryWriter:
        self.prepare()
        places = places_of(placement, clients, {client: topic_of(placement, client) for client in clients})
        if wrong := [client for client, (topic, _) in places.items() if "/" in topic or topic.startswith(".")]:
            raise UsageError(f"no directory can be called like client {wrong[0]!r}; rename it")
        folders = {client: self._place.path / topic / str(n or 0) for client, (topic, n) in places.items()}
        return DirectoryWriter({client: Log(folder) for client, folder in folders.items()})

    def open_round(self) -> RoundOpened | None:
        links = DirectoryLinks(self._place)
        links.next = 0
        return next((one for one in reversed(list(links.received())) if isinstance(one, RoundOpened)), None)

    def watcher(self, *, last: int | None, letters: bool = True) -> "DirectoryWatcher":
        return DirectoryWatcher(self._place, last, letters=letters)

    def state(self) -> CoordinatorState | None:
        states = [self._place.transaction(message)[0] for message in self._place.control.read(0)]
        return next((codec.decode(CoordinatorState, state) for state in reversed(states) if state), None)

    def order(self, command: Command) -> None:
        raise UsageError("a directory takes no commands; restart its coordinator with another list of members")

    def findings(
        self,
        placement: Placement,
        records: RecordFormat,
        asked: tuple[Unlabelled, RecordFormat] | None = None,
        delayed_labels: LabelTopics | None = None,
    ) -> Sequence[CheckResult]:
        _refuse(delayed_labels)
        if not self._place.path.is_dir():
            return [CheckResult("directory", "error", f"no directory {self._place.path}", "make it, or correct path")]
        logs = self._place.records(placement)
        samples = {log.name: [one for one in log.read(0, MOST_AT_ONCE) if one.value] for log in logs}
        topic = self._place.topics.dead_letters
        found = [tried(name, sample, records, topic) for name, sample in samples.items() if sample]
        return [CheckResult("directory", "ok", f"{self._place.path} is there"), *found]
