"""`streamfl watch`: the rounds and restarts of a live federation, in a terminal or as lines of JSON."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from time import monotonic, sleep
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console

from streamfl.bounds import NAMED
from streamfl.errors import PeerError
from streamfl.live.joined_clients import JoinedClients
from streamfl.printable import printable
from streamfl.protocol.digits import significant
from streamfl.protocol.messages import (
    Ended,
    Finding,
    FromCoordinator,
    Joined,
    Left,
    LocalDrift,
    MemberChanged,
    Noticed,
    Refusal,
    Restarted,
    RoundClosed,
    RoundOpened,
)
from streamfl.run.evaluation.result import DatedLocalDrift, DatedRestart, dated
from streamfl.run.report.barren import Barren
from streamfl.run.report.changes import sentence
from streamfl.run.report.display import announcement, local_text, restart_text
from streamfl.run.report.pace import Pace
from streamfl.run.report.terminal import print_line
from streamfl.run.report.words import count, counted, score
from streamfl.run.summary import RoundSummary
from streamfl.runtime.ports import LoggedDeadLetter, LoggedMessage, Watcher
from streamfl.wire.messages import TYPES

# Seconds without a line after which one says what is waited for; the time then doubles. A round that clients close by
# the clock first takes its time.
QUIET = 30.0

# Seconds until a log in which there is no federation, or that does not answer, is asked again.
PAUSE = 1.0

Read = Callable[[], Sequence[LoggedMessage | LoggedDeadLetter]]


def reader(opened: Callable[[], Watcher], console: Console, sleep: Callable[[float], None] = sleep) -> Watcher:
    """Return a reader of a federation, once there is one; say why there is none yet.

    Parameters
    ----------
    opened
        Opens it, and raises a PeerError if it cannot.
    """
    told = ""
    while True:
        try:
            return opened()
        except PeerError as error:
            if str(error) != told:
                told = str(error)
                print_line(console, f"waiting: {told}", "dim")
        sleep(PAUSE)


def patient(read: Read, console: Console, sleep: Callable[[float], None] = sleep) -> Read:
    """Return what reads a federation, and waits while its log does not answer; that is said once."""

    def patiently() -> Sequence[LoggedMessage | LoggedDeadLetter]:
        is_told = False
        while True:
            try:
                return read()
            except PeerError as error:
                if not is_told:
                    print_line(console, f"waiting: {error}", "dim")
            is_told = True
            sleep(PAUSE)

    return patiently


def heard(read: Read, paces: "Paces | None" = None) -> Iterator[FromCoordinator | None]:
    """Yield the coordinator's messages without end, and None whenever nothing comes for a short while.

    Paces are told of each entry before it is yielded.
    """
    while True:
        found = read()
        for one in found:
            if isinstance(one, LoggedMessage):
                if paces is not None and isinstance(one.message, RoundClosed):
                    paces.take(one.message, one.time or 0)
                yield one.message
        if not found:
            yield None


@dataclass
class Paces:
    """How many records of each client are learnt a second, by what the log tells."""

    _of: dict[str, Pace] = field(default_factory=dict)
    _time: int = 0

    def take(self, closed: RoundClosed, time: int) -> None:
        """Take an entry into account, which the log took at a time in milliseconds since 1970; 0: unknown."""
        self._time = max(self._time, time)
        for one in closed.accepted[: NAMED.clients]:
            if one.records and (one.client in self._of or len(self._of) < NAMED.clients):
                self._of.setdefault(one.client, Pace()).take(one.records, time)

    @property
    def by_client(self) -> dict[str, float]:
        """Return the records a second of each client in its last 11 to 20 rounds with records, so far as known."""
        known = {name: pace.a_second(self._time) for name, pace in self._of.items()}
        return {printable(name): significant(one) for name, one in sorted(known.items()) if one is not None}

    @property
    def line(self) -> str:
        """Return how many records of all clients are learnt a second; "" before that is known."""
        of = self.by_client
        return f"  {score(sum(of.values()))} a second" if of else ""


def watch(
    messages: Iterable[FromCoordinator | None],
    console: Console,
    *,
    rounds: int | None = None,
    opened: RoundOpened | None = None,
    now: Callable[[], float] = monotonic,
    paces: Paces | None = None,
) -> None:
    """Print a line for every round, restart and change of membership, until `rounds` rounds were seen.

    A restart, and clients that drift alone, are also described in a sentence. If there is no line for half a minute,
    one says what the federation waits for.

    Parameters
    ----------
    messages
        The coordinator's messages, in order; None where nothing has come.
    rounds
        How many rounds to show; None continues for ever.
    now
        The time in seconds.
    paces
        What `heard` tells of entries; the line of a round then says how many records are learnt a second.
    """
    seen, outlook = 0, Outlook(opened)
    waiting = WaitingReport(now, outlook)
    for message in _without_repeated_answers(messages):
        outlook.hear(message)
        texts, style = lines(message) if message is not None else ((), "")
        if texts:
            waiting.broken()
        elif due := waiting.line():
            texts, style = (due,), "dim"
        pace = paces.line if paces is not None and isinstance(message, RoundClosed) else ""
        for text in texts:
            print_line(console, f"{text}{pace}", style)
        seen += isinstance(message, RoundClosed) and message.records > 0
        if rounds is not None and seen >= rounds:
            return


def as_json(
    messages: Iterable[FromCoordinator | None], rounds: int | None = None, paces: Paces | None = None
) -> Iterator[str]:
    """Yield what `watch` shows as lines of JSON: `type`, `text`, and for rounds, restarts and drifts their fields.

    With paces the line of a round has `records_per_second`, by client.

    >>> print(*as_json([None, Left(client="c3", nonce="7f")]))
    {"type": "left", "text": "c3 left"}
    """
    seen = 0
    for message in _without_repeated_answers(messages):
        texts, _ = lines(message) if message is not None else ((), "")
        if message is None or not texts:
            continue
        told = {"type": TYPES[type(message)], "text": printable("; ".join(texts)), **_fields(message)}
        if paces is not None and isinstance(message, RoundClosed):
            told["records_per_second"] = paces.by_client
        yield json.dumps(to_jsonable_python(told, inf_nan_mode="null"))
        seen += isinstance(message, RoundClosed)
        if rounds is not None and seen >= rounds:
            return


def _without_repeated_answers(messages: Iterable[FromCoordinator | None]) -> Iterator[FromCoordinator | None]:
    """Yield messages without answers that only repeat that a client has joined; None in their place."""
    clients = JoinedClients()
    for message in messages:
        yield None if clients.is_known(message) else message


def _fields(message: FromCoordinator) -> dict[str, Any]:
    """Return the fields of a round or an announcement, under the names that the result of a replay has for them."""
    match message:
        case RoundClosed():
            return asdict(RoundSummary.of(message).line)
        case Finding():
            return dated(message).model_dump()
    return {}


@dataclass
class Outlook:
    """What a federation waits for, as far as its log tells."""

    opened: RoundOpened | None = None  # the round that is open
    ended: bool = False
    _held: bool = False
    _barren: Barren = field(default_factory=Barren)

    def hear(self, message: FromCoordinator | None) -> None:
        """Note what a message says of the open round."""
        match message:
            case RoundOpened():
                self.opened, self.ended = message, False
            case RoundClosed():
                self._barren.take(RoundSummary.of(message))
            case MemberChanged(action="hold" | "resume"):
                self._held = message.action == "hold"
            case Ended():
                self.ended = True
            case _:
                pass

    @property
    def takes(self) -> float:
        """Return for how many seconds after it was opened nobody can send an update for the open round."""
        return 0.0 if self.opened is None or self.opened.closes is None else self.opened.closes

    @property
    def is_paused(self) -> bool:
        """Tell whether nothing is expected to happen: an operator has paused learning, or all has ended."""
        return self._held or self.ended

    def waits_for(self) -> str:
        """Return what the federation waits for."""
        if self.opened is None:
            return "no round is open; the coordinator waits for clients to join, and logs each one that joins"
        round_ = f"round {count(self.opened.round)} is open"
        if self._held:
            return f"{round_}, but an operator has paused learning; `streamfl resume` continues"
        if self._barren.entries:
            return f"{round_}, and was opened again {counted(self._barren.entries, 'time')}: {self._barren.why}"
        return f"{round_}; the coordinator, if it is running, waits for updates of clients, which its log names"


@dataclass
class WaitingReport:
    """Says what a federation waits for, whenever there was no line for long.

    A time in which `line` was not called does not count: the log did not answer, which was said.

    Examples
    --------
    >>> waiting = WaitingReport(iter([0.0, 20.0, 40.0, 50.0]).__next__, Outlook())
    >>> waiting.line()
    ''
    >>> waiting.line()
    'for 40 s: no round is open; the coordinator waits for clients to join, and logs each one that joins'
    >>> waiting.line()
    ''
    """

    now: Callable[[], float]  # the time in seconds
    outlook: Outlook  # what the log tells of it
    _since: float = field(init=False)
    _asked: float = field(init=False)
    _wait: float = QUIET

    def __post_init__(self) -> None:
        self._since = self._asked = self.now()

    def broken(self) -> None:
        """Start counting again: there was a line."""
        self._since = self._asked = self.now()
        self._wait = QUIET

    def line(self) -> str:
        """Return the line that is due, or nothing."""
        now, asked = self.now(), self._asked
        self._asked = now
        if now > asked + QUIET:
            self._since, self._wait = now, QUIET
        silent = now - self._since
        if silent < self._wait + self.outlook.takes or self.outlook.ended:
            return ""
        self._wait = 2.0 * silent
        return f"for {silent:.0f} s: {self.outlook.waits_for()}"


def standing(name: str, opened: RoundOpened | None) -> str:
    """Return the line with which watching begins: how far the federation is, and what comes next.

    >>> standing("forest", None)
    'forest: no round is open; the coordinator opens the first one when all clients that it expects have joined'
    """
    if opened is None:
        wait = "the coordinator opens the first one when all clients that it expects have joined"
        return f"{name}: no round is open; {wait}"
    return f"{name}: round {count(opened.round)} is open, epoch {opened.epoch}; a line follows when it closes"


def lines(message: FromCoordinator) -> tuple[tuple[str, ...], str]:
    """Return the lines for a message, and their style; none for messages that only machines need.

    >>> lines(Left(client="c3", nonce="7f"))
    (('c3 left',), 'dim')
    """
    texts, style = _lines(message)
    return (texts,) if isinstance(texts, str) else texts, style


def _lines(message: FromCoordinator) -> tuple[str | tuple[str, ...], str]:
    match message:
        case RoundClosed() if message.records:
            return _round(RoundSummary.of(message)), ""
        case Restarted():
            restart = DatedRestart.of(message)
            return (restart_text(restart), sentence(restart)), "bold red"
        case LocalDrift():
            drift = DatedLocalDrift.of(message)
            return (local_text(drift), *([sentence(drift)] if drift.state == "latched" else [])), "bold yellow"
        case Finding():
            return announcement(dated(message)), "yellow" if isinstance(message, Noticed) else "bold yellow"
        case Joined():
            return f"{message.client} joined; the ledger already has {count(message.read)} of its records", "dim"
        case Left():
            return f"{message.client} left", "dim"
        case MemberChanged():
            about = f"{message.client}: " if message.client else ""
            return (
                f"{about}{message.action}, ordered by an operator, in effect from entry {message.entry} on",
                "bold yellow",
            )
        case Ended():
            return "the federation has ended", "dim"
        case Refusal():
            return f"{message.client} {refusal_text(message)}", "bold red" if message.evicted else "yellow"
    return (), ""


def refusal_text(refusal: Refusal) -> str:
    r"""Return a refusal as text, on one line whatever the reason contains.

    >>> refusal_text(Refusal(client="c3", incarnation=1, entry=7, reason="a loss of\nNaN"))
    'refused for entry 7: a loss of NaN'
    """
    reason = " ".join(refusal.reason.split())
    return reason if refusal.evicted else f"refused for entry {refusal.entry}: {reason}"


def _round(closed: RoundSummary) -> str:
    parts = [f"round {closed.round:>4}", f"epoch {closed.epoch}", f"loss {closed.loss:.3f}"]
    if closed.accuracy is not None:
        parts.append(f"accuracy {closed.accuracy:.3f}  NoChange {closed.no_change:.3f}")
    elif closed.mae is not None:
        parts.append(f"error {closed.mae:.4g}  NoChange {closed.no_change:.4g}")
    parts.append(f"{counted(closed.records, 'record')} of {counted(closed.clients, 'client')}")
    return "  ".join([*parts, *closed.remarks().values()])
