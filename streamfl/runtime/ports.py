"""The interfaces through which the machines reach the world: records, links, connectors, time."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from pydantic import BaseModel

from streamfl.arrays import FloatArray, IntArray
from streamfl.bounds import REASON_CHARS, bounded
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.decisions import Answered
from streamfl.protocol.delayed import Half
from streamfl.protocol.events import Ordered, Signed, Unusable
from streamfl.protocol.messages import Command, FromClient, FromCoordinator, RoundOpened
from streamfl.protocol.reasons import ReasonCode, known_code
from streamfl.protocol.records import Batch, Rejection
from streamfl.wire.signing import OPEN, Signatures

# Bytes of a dead letter's header that are read: of a reason as many as it has.
BURIED_BYTES = 4 * REASON_CHARS

_DIGITS = re.compile("[0-9]{1,18}")

# Returns why a coordinator cannot continue from a state, or None.
WrongState = Callable[[CoordinatorState], str | None]


class Source(Protocol):
    """The records of one client, in order, one or more partitions."""

    def poll(self, limit: int) -> Sequence[Batch]:
        """Return the next records, at most `limit` good and bad ones; empty if there are none yet."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no record can ever come again (a file read to its end; never a topic)."""
        ...

    def seek(self, positions: Mapping[str, int]) -> None:
        """Continue each named partition at its position, and leave the others where they are."""
        ...

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Read single old records again, one batch per partition, without moving; deleted ones are left out."""
        ...


@runtime_checkable
class DelayedSource(Source, Protocol):
    """The records of one client whose labels come later and under a key.

    Batches are halves. `seek` and `fetch` name both partitions, that of features and that of labels.
    """

    @property
    def features_ended(self) -> bool:
        """Whether no features can ever come again; labels may."""
        ...

    @property
    def features_next(self) -> bool:
        """Whether features, not labels, are the next to be taken, if there were room for both."""
        ...

    def seek(self, positions: Mapping[str, int], needed: Mapping[str, int] | None = None) -> None:
        """Continue each named partition at its position.

        Parameters
        ----------
        needed
            The positions from which no label may be lacking. What lies before may have been deleted.
        """
        ...

    def poll_halves(self, labels: int, features: int, *, waits: bool = False) -> Sequence[Batch]:
        """Return the next halves in the order in which they are taken.

        Parameters
        ----------
        labels
            The most labels, good and bad.
        features
            The most positions of features; records that were answered before carry their answers.
        waits
            Whether labels that were read wait for features: some must be returned even if no label may be.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The records in some messages of one partition, as columns."""

    # The position of each good record, shape (n,), strictly increasing: offset of its message x `stride` of the
    # format + its number within the message.
    positions: IntArray
    # As in `streamfl.protocol.records.Batch`.
    features: tuple[str, ...]
    X: FloatArray
    y: FloatArray
    labels: tuple[str, ...]
    clients: tuple[str, ...]  # the client of each good record, length n; empty if the format names none
    rejected: tuple[Rejection, ...]  # the bad records, by increasing position
    # The client of each bad record, "" where it is unknown; empty if the format names none.
    rejected_clients: tuple[str, ...]

    # When each good record was measured, in seconds since 1970, NaN where unknown; shape (n,), or (0,) if the format
    # names no time.
    times: FloatArray

    # Number of values of good records that were left out: of features beyond a reader's limit, of undeclared fields,
    # or no numbers.
    ignored: int = 0
    # By field, how many good records have an undeclared category.
    unknown: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()  # notes for people about the records, each once per reader
    remarked_at: Mapping[str, int] = field(default_factory=dict)  # the position of the record that one is about
    half: Half | None = None  # if labels come later: which half of its records this is, and the key of each good one


class RecordFormat(Protocol):
    """The encoding of records in the messages of a log."""

    stride: int
    """Positions per message: 1, or the most records that a message of the format may hold."""

    def decode(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> Decoded:
        """Return the records of consecutive messages; what cannot be read becomes a rejection, never an error."""
        ...

    def count(self, value: bytes | None) -> int:
        """Return how many records `decode` finds in a message, good and bad ones, without reading them."""
        ...

    def fresh(self) -> "RecordFormat":
        """Return the same format for another partition: it has no names yet, so others do not use up its limit."""
        ...

    def quiet(self) -> "RecordFormat":
        """Return a fresh format that remarks nothing, for a reader that tells nobody of what it reads."""
        ...


# What makes a client of records.
ClientBy = Literal["topic", "partition", "message-key", "field"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the records are in a log, and which client each belongs to."""

    # Names of topics; with `by="topic"` a name may hold one `*`, which stands for the client's name.
    topics: tuple[str, ...]

    # `topic`: every topic is a client and has one partition. `partition`: every partition is a client, named
    # `topic/number`. `message-key`: every key of messages is a client. `field`: every value of a field of the records
    # is one. The records of the last two may be in any partitions: see `runtime/log/repartitioning`.
    by: ClientBy = "topic"
    partitions: int | None = None  # how many partitions each topic must have; None allows any number
    start: Literal["earliest", "latest"] = "earliest"  # where a client that is new to the ledger begins
    # What to do if records were deleted before they were accepted: `stop`, or `skip` them.
    lost: Literal["stop", "skip"] = "stop"
    # A record counts as late if it was measured so many seconds before an earlier record in the log.
    late_after: float = 60.0

    @property
    def is_repartitioned(self) -> bool:
        """Tell whether records are written again, those of a client in one partition, before clients read them."""
        return self.by in ("message-key", "field")


@dataclass(frozen=True, slots=True)
class LabelTopics:
    """Labels that come later than their records, under a key.

    Partition n of a topic of records belongs to partition n of a topic of labels: of the only one, or of the one in
    whose name the same text stands for the `*`. Where records are repartitioned, labels may be in any partitions.
    """

    placement: Placement  # where labels are: one name of topics; the rest as for records
    records: RecordFormat  # how messages hold labels
    window: int  # see `streamfl.machines.client.intake.waiting`
    targets: bool = False  # whether labels are targets
    probabilities: bool = True  # whether the answers that are written tell the probability of each label


class ClientLink(Protocol):
    """A client's connection to the coordinator."""

    def send(self, message: FromClient) -> None:
        """Send to the coordinator."""
        ...

    def receive(self) -> Sequence[FromCoordinator]:
        """Return the messages that have arrived, in the order of each topic."""
        ...


class CoordinatorLink(Protocol):
    """The coordinator's connection to all clients, and the store of its state."""

    def publish(self, messages: Sequence[FromCoordinator]) -> None:
        """Publish messages to all clients, all or nothing."""
        ...

    def commit(self, messages: Sequence[FromCoordinator], state: CoordinatorState) -> None:
        """Publish messages to all clients and save the state, all or nothing."""
        ...

    def receive(self) -> Iterable[FromClient | Signed | Ordered | Unusable]:
        """Yield the messages that have arrived; a message that was yielded counts as handled at the next commit."""
        ...

    def refuse(self, reason: str) -> None:
        """Keep the last received message unchanged, as a dead letter for people to inspect."""
        ...

    def restore(self) -> CoordinatorState | None:
        """Return the last committed state, if any."""
        ...


class ServedCoordinatorLink(CoordinatorLink, Protocol):
    """The link of a coordinator that runs as a service."""

    @property
    def bytes_read(self) -> int:
        """Return the bytes of all messages that were read since the link was made, unusable ones included."""
        ...

    @property
    def bytes_written(self) -> int:
        """Return the bytes of the messages that were written for clients since the link was made.

        Each is counted where it is encoded (`streamfl.wire.messages.size_on_log`). A message that the log has
        already, and that is not written again, does not count. Saved states do not count.
        """
        ...

    def ends(self, partitions: Collection[str]) -> Mapping[str, int | None]:
        """Return the position after the last record of each of some partitions, by their names in the ledger.

        Positions count as in `Decoded`: offset x stride. 0 if there is no such partition; None if it is unknown, for
        lack of a right or of an answer: then no position is refused.
        """
        ...

    def log_ids(self, partitions: Collection[str]) -> Mapping[str, str | None]:
        """Return what tells the log of each of some partitions from one that is made in its place later.

        None if nothing does: there is no such partition, or it cannot be known. A log may be asked for seconds ago.
        """
        ...

    def listen(self, seconds: float) -> None:
        """Return when a message may have arrived, or after so many seconds."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(frozen=True, slots=True)
class ClientProgress:
    """How far a hosted client has come, from which the group's offsets are committed.

    `positions` are those before which it needs nothing any more: the next ones in the ledger, and where labels come
    apart those of what may still wait. `pending` are the records read and not yet accounted for.
    """

    positions: Mapping[str, int]
    pending: int


@dataclass(slots=True)
class ReadingCounts:
    """Counts of a host that are in no ledger.

    `unrouted`: bad records that name no client. `late`: good records measured long before earlier records of the log.
    `dead_letters`: messages with bad records, written to the dead-letter topic. `foreign`: messages on the
    coordinator's topics that could not be read. `ignored`: values left out of good records, see `Decoded`. `unknown`:
    by field, good records with an undeclared category.
    """

    unrouted: int = 0
    late: int = 0
    dead_letters: int = 0
    foreign: int = 0
    ignored: int = 0
    unknown: dict[str, int] = field(default_factory=dict)

    def add(self, decoded: Decoded) -> None:
        """Add the counts of newly read records."""
        self.ignored += decoded.ignored
        for name, records in decoded.unknown.items():
            self.unknown[name] = self.unknown.get(name, 0) + records


class Host(Protocol):
    """The clients of one process, which is a member of the group of all hosts."""

    counts: ReadingCounts

    def poll_clients(self) -> Mapping[str, Source]:
        """Read records, and return this host's clients with their sources; they change as the group does."""
        ...

    def link(self, client: str) -> ClientLink:
        """Return a new link for a client of this host; it receives what is published from now on."""
        ...

    def drop(self, client: str) -> None:
        """Drop the link of a client that has moved to another host or has finished."""
        ...

    def receive(self) -> Sequence[FromCoordinator]:
        """Deliver new messages of the coordinator to the links, and return them.

        The first is `Ended` if that was the coordinator's last message when this host began.
        """
        ...

    def answer(self, answered: Answered) -> None:
        """Write what a client has answered to records whose labels come later.

        It is in the log before any later update of the client is, and is given back with the records after a restart.
        """
        ...

    @property
    def is_divided(self) -> bool:
        """Whether the group has divided the clients: none is about to come to this host."""
        ...

    def backlog(self) -> Mapping[str, int]:
        """Return how many messages of each partition were not read yet, as far as the log has told."""
        ...

    def settle(self, progress: Mapping[str, ClientProgress]) -> None:
        """Report the clients' progress to the group: a hint for the next host, and for tools that show lag."""
        ...

    def listen(self, seconds: float) -> None:
        """Return when something may have arrived, or after so many seconds."""
        ...

    def close(self) -> None:
        """Release the clients and close the connection."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class UnlabelledRecords:
    """Records of one partition that are to be answered, as they were read together."""

    # Where they are.
    topic: str
    partition: int
    records: Decoded  # the records; bad ones are already dead letters
    keys: Mapping[int, bytes | None]  # the key of each message, by its offset


@dataclass(frozen=True, slots=True)
class RecordAnswer:
    """The answer to one record: the key of the record's message, and what is written."""

    key: bytes | None
    value: bytes


@dataclass(slots=True)
class ScoringCounts:
    """Counts of a scorer.

    `answered`, `rejected`: records. `dead_letters`: messages with bad records, written to the dead-letter topic.
    `foreign`: messages on the coordinator's topics that could not be read. `lost`: messages that the log deleted
    before they were read. `again`: how often records were read again because what was written did not count.
    """

    answered: int = 0
    rejected: int = 0
    dead_letters: int = 0
    foreign: int = 0
    lost: int = 0
    again: int = 0


class Scorer(Protocol):
    """One of the processes that answer records without labels; a group divides the partitions among them."""

    counts: ScoringCounts

    def poll_models(self) -> Iterable[FromCoordinator]:
        """Return what the coordinator has published since the last call; each message may be read when it is due.

        At first that is all that is needed to follow it: the open round, and the current models with their changes.
        """
        ...

    def read(self) -> Sequence[UnlabelledRecords]:
        """Return the next records, in their order within a partition; empty if there are none."""
        ...

    def answer(self, answers: Sequence[RecordAnswer]) -> None:
        """Write the answers to all records that `read` returned last; from then on they count as read.

        If each is to be answered exactly once, answers and positions are written together or not at all. What was not
        written is read again.
        """
        ...

    def listen(self, seconds: float) -> None:
        """Return when something may have arrived, or after so many seconds."""
        ...

    def close(self) -> None:
        """Leave the group and close the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Where records without labels are, and how they are answered."""

    topics: tuple[str, ...]
    # Where the group begins in a partition of which it has read nothing.
    start: Literal["earliest", "latest"] = "earliest"
    # Whether each record is answered exactly once, even if processes are killed; else at least once.
    exactly_once: bool = False


class RecordWriter(Protocol):
    """Writes records to the topics that clients read."""

    def write(self, client: str, value: bytes) -> None:
        """Write one message for a client; it may arrive later."""
        ...

    def end(self) -> None:
        """Mark the end of the stream of every client that was written to."""
        ...

    def close(self) -> None:
        """Wait until all messages have arrived, and close the writer."""
        ...


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """A message of the coordinator, and when the log took it, in milliseconds since 1970; None if that is unknown."""

    message: FromCoordinator
    time: int | None = None


@dataclass(frozen=True, slots=True)
class LoggedDeadLetter:
    """A dead letter without the message that it keeps: where that was, what is wrong with it, and the code of that.

    Any writer may have written it; a header that is missing counts as empty, or as 0.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    time: int | None = None
    code: ReasonCode | None = None

    @classmethod
    def of(cls, headers: Sequence[tuple[str, bytes | None]], time: int | None = None) -> "LoggedDeadLetter":
        """Return the letter of some headers, whatever they hold.

        >>> headers = [("topic", b"plant.records"), ("offset", b"x"), ("reason", b"no label"), ("partition", b"3")]
        >>> LoggedDeadLetter.of(headers)
        LoggedDeadLetter(topic='plant.records', partition=3, offset=0, reason='no label', time=None, code=None)
        """
        texts = {name: bounded((value or b"")[:BURIED_BYTES].decode(errors="replace")) for name, value in headers}
        numbers = {name: int(text) for name, text in texts.items() if _DIGITS.fullmatch(text)}
        place = (texts.get("topic", ""), numbers.get("partition", 0), numbers.get("offset", 0))
        return cls(*place, texts.get("reason", ""), time, known_code(texts.get("code", "")))


class Watcher(Protocol):
    """Reads what a federation tells, and its dead letters, without taking part in it."""

    letters_before: int
    """Dead letters that are too many to be read: they came before those that are."""

    letters_readable: bool
    """Whether the log-in may read dead letters."""

    @property
    def unusable(self) -> int:
        """Return how many messages where the coordinator writes were none of the coordinator's."""
        ...

    @property
    def behind(self) -> int:
        """Return how many of the messages that there were in the beginning were not read yet."""
        ...

    def read(self) -> Sequence[LoggedMessage | LoggedDeadLetter]:
        """Return what has come since; after a short while nothing, if nothing comes.

        Raises
        ------
        PeerError
            The log does not answer.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionReach:
    """How far a partition goes: the position after its last record, and that before which its host has read it."""

    end: int
    read: int | None = None  # None if that is not known


class PartitionEnds(Protocol):
    """Where partitions of records end, and how far hosts have read them."""

    def of(self, partitions: Collection[str]) -> Mapping[str, PartitionReach]:
        """Return it by the names of partitions in the ledger, without those of which it is not known.

        Raises
        ------
        PeerError
            The log does not answer.
        UsageError
            The log-in may not ask.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@runtime_checkable
class KnowsSilence(Protocol):
    """A host or a coordinator's link that notices when the log does not answer."""

    @property
    def silence(self) -> str:
        """Return why the log does not answer; empty if it does."""
        ...


def silence_of(log: object) -> str:
    """Return why a log does not answer a host or a coordinator's link; empty if it does, or nobody knows.

    >>> silence_of(object())
    ''
    """
    return log.silence if isinstance(log, KnowsSilence) else ""


@runtime_checkable
class HasPartitionEnds(Protocol):
    """A connector that knows where partitions end, from which a page knows how many records wait."""

    def reach(
        self, placement: Placement, records: RecordFormat, delayed_labels: LabelTopics | None = None
    ) -> PartitionEnds:
        """Return the ends of the partitions that clients read."""
        ...


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check; `remedy` is empty if all is well."""

    subject: str
    state: Literal["ok", "warning", "error"]
    found: str
    remedy: str = ""


class Heartbeat(Protocol):
    """Tells the log, again and again, that a coordinator is alive."""

    def turned(self) -> None:
        """Note that the coordinator's loop goes on; if it stands still for long, the heartbeats end."""
        ...

    def close(self) -> None:
        """Send no more."""
        ...


class Standby(Protocol):
    """A coordinator's link that has yet to begin: it writes nothing, and fences nobody."""

    def wait(self, silence: float, *, stopped: Callable[[], bool]) -> bool:
        """Return when no heartbeat has come for so many seconds (True), or when `stopped` says so (False).

        While the log itself does not answer, nobody is silent.
        """
        ...

    def take_over(self) -> ServedCoordinatorLink:
        """Fence every other coordinator, and return the link."""
        ...

    def close(self) -> None:
        """Close the connections, unless the link was taken."""
        ...


@runtime_checkable
class StandbyConnector(Protocol):
    """A connector over which a second coordinator can stand by until the first falls silent."""

    def heartbeat(self, silence: float) -> Heartbeat:
        """Begin to send heartbeats, several in `silence` seconds."""
        ...

    def standby(
        self,
        placement: Placement,
        records: RecordFormat,
        delayed_labels: LabelTopics | None = None,
        wrong: WrongState = CoordinatorState.wrong,
    ) -> Standby:
        """Return what stands by, ready to take over: connected, with all that takes long done."""
        ...


class Connector(Protocol):
    """A kind of log on which federations run: a class named by the entry point `streamfl.connectors`.

    It is built from a federation's name, its own settings and, where messages are signed, the process' signatures: it
    signs all that it writes to the federation's own topics, and reads only what is signed as it must be
    (`streamfl.runtime.log.signatures`). Without `carries_signatures` it is used for open federations only.
    """

    carries_signatures: ClassVar[bool]

    Settings: ClassVar[type[BaseModel]]
    """The model of the connector's section in the settings file; the section has the connector's name."""

    def __init__(self, federation: str, settings: Any, signatures: Signatures = OPEN) -> None: ...

    def prepare(self) -> None:
        """Create the federation's missing topics, check the others, and wait for the log for a bounded time."""
        ...

    def coordinator(
        self,
        placement: Placement,
        records: RecordFormat,
        delayed_labels: LabelTopics | None = None,
        wrong: WrongState = CoordinatorState.wrong,
    ) -> ServedCoordinatorLink:
        """Return the coordinator's link; it fences any other coordinator, and knows where records and labels end.

        A state that is `wrong` is no state: the link restores the one before it.
        """
        ...

    def host(
        self, name: str, placement: Placement, records: RecordFormat, delayed_labels: LabelTopics | None = None
    ) -> Host:
        """Join the group of hosts under a name that is the same after a restart.

        Raises
        ------
        UsageError
            Topics do not fit; or labels come later, and the connector cannot read them so.
        """
        ...

    def scorer(self, name: str, unlabelled: Unlabelled, records: RecordFormat) -> Scorer:
        """Join the group of scorers under a name that is the same after a restart."""
        ...

    def writer(self, placement: Placement, clients: Sequence[str]) -> RecordWriter:
        """Return a writer, after creating missing topics of the clients."""
        ...

    def open_round(self) -> RoundOpened | None:
        """Return the round that was opened last; None if none was, or if the log no longer says so."""
        ...

    def watcher(self, *, last: int | None, letters: bool = True) -> Watcher:
        """Return a reader of the coordinator's messages except models, and of dead letters if they are wanted.

        It begins at the start, or about so many messages before the end.

        Raises
        ------
        PeerError
            The log does not answer, or holds no such federation yet.
        """
        ...

    def state(self) -> CoordinatorState | None:
        """Return the state that a coordinator committed last, if any."""
        ...

    def order(self, command: Command) -> None:
        """Write an operator's command for the coordinator; return when it is in the log."""
        ...

    def findings(
        self,
        placement: Placement,
        records: RecordFormat,
        asked: tuple[Unlabelled, RecordFormat] | None = None,
        delayed_labels: LabelTopics | None = None,
    ) -> Sequence[CheckResult]:
        """Check everything that a federation needs, also on real records and labels, and what scorers need."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """What one role may do on a log."""

    role: str
    principal: str  # the log-in that has it, as the log names it
    rights: Sequence[Mapping[str, str]]  # each right, in the log's own words
    commands: Sequence[str]  # the shell commands that grant them


@runtime_checkable
class Guarded(Protocol):
    """A connector to a log that lets each log-in do what it was granted."""

    def access(
        self,
        placement: Placement,
        unlabelled: Unlabelled,
        delayed_labels: LabelTopics | None = None,
        *,
        role: str | None = None,
        principal: str | None = None,
        config: str | None = None,
    ) -> Sequence[Access]:
        """Return what each role may do, and nobody else.

        Parameters
        ----------
        role
            The only one that is wanted.
        principal
            The log-in that has it; by default one for each role, of its name.
        config
            The file with which the commands log in.

        Raises
        ------
        UsageError
            There is no such role, or a right on records would be one on the federation's own topics.
        """
        ...

    def users(self, accesses: Sequence[Access], cluster: str) -> str:
        """Return what makes a log-in with these rights for each role, for a cluster of this name in Kubernetes.

        Raises
        ------
        UsageError
            A log-in cannot have a name there.
        """
        ...


@dataclass(frozen=True, slots=True)
class TopicSample:
    """Some of the newest messages of topics."""

    partitions: Mapping[str, int]  # how many partitions each topic has

    # By the name of a partition its messages: when each was written, in seconds since 1970, and its value. Not all
    # partitions need be there.
    messages: Mapping[str, Sequence[tuple[float, bytes]]]
    # The keys of these messages, if they were asked for.
    keys: Mapping[str, Sequence[bytes | None]] = field(default_factory=dict)


@runtime_checkable
class Sampled(Protocol):
    """A connector to a log whose topics can be looked at before there is a federation."""

    def sample(self, topics: Sequence[str]) -> TopicSample:
        """Return some of the newest messages of topics, whose names may have one * each; nothing is changed.

        Raises
        ------
        UsageError
            There is no such topic, or this log-in may not read it.
        """
        ...


@runtime_checkable
class SampledAtBothEnds(Protocol):
    """A connector whose topics of records and of labels can be compared before there is a federation."""

    def sample_ends(self, topics: Sequence[str], most: int) -> tuple[TopicSample, TopicSample]:
        """Return the newest and the oldest messages of all partitions, in all about so many of each, with keys."""
        ...


class Clock(Protocol):
    """Time, in seconds."""

    def now(self) -> float:
        """Return the time."""
        ...

    def sleep_until(self, time: float) -> None:
        """Wait until that time."""
        ...
