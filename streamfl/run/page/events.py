"""What the page keeps of a message: events with names cut to their bound and numbers that any browser can read.

Whoever can write to the control topic may write anything into a message of a right form. So every text and number
goes through `plain`, `whole` or `finite` once, here, and everything behind may trust the events.
"""

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import msgspec

from streamfl.bounds import NAME_BYTES, NAMED, REASON_CHARS, bounded
from streamfl.printable import printable
from streamfl.protocol.alarm import Reading
from streamfl.protocol.messages import (
    Accepted,
    Ended,
    FromCoordinator,
    InputsMoved,
    InputsStuck,
    Joined,
    Left,
    LocalDrift,
    MemberChanged,
    Noticed,
    Refusal,
    Restarted,
    RoundClosed,
    RoundOpened,
    Score,
    Served,
    Watermark,
)
from streamfl.records.values.times import FIRST, LAST
from streamfl.run.evaluation.result import (
    Dated,
    DatedInputsMoved,
    DatedInputsStuck,
    DatedLocalDrift,
    DatedNotice,
    DatedRestart,
    dated,
)
from streamfl.run.report.display import announcement
from streamfl.run.report.words import evidence
from streamfl.run.summary import RoundSummary

# The largest whole number that JavaScript tells from its neighbours.
LARGEST = 2**53 - 1

# The largest sum of targets' errors: beyond it nothing can be added any more.
GREATEST = 1e300

# The most names, labels, positions and candidates that a change lists.
LISTED, PLACES, CANDIDATES = 8, 3, 30

# The most partitions of one accepted update.
SPANS = 16

# The most tests whose statistic an entry keeps, and the most experts whose part in the predictions.
READINGS, SHARES = 4, 4

Announced = Restarted | LocalDrift | InputsMoved | InputsStuck | Noticed


class Event(msgspec.Struct, array_like=True, frozen=True, tag_field="type"):
    """The base of all events. `time` is when the log took the message, in milliseconds since 1970; 0 if unknown."""

    time: int


class Measured(msgspec.Struct, array_like=True, frozen=True):
    """How right a round's predictions were: records, those right, and of the baseline; or sums of errors."""

    records: int = 0
    right: float = 0.0
    error: float = 0.0
    naive: float = 0.0


class Taken(msgspec.Struct, array_like=True, frozen=True):
    """An update that counts: client, records, and spans as partition, first position, and the next after the last.

    With delayed labels, `rejected_labels` counts labels without a record, second ones, those of rejected records, and
    records without a label.
    """

    client: str
    records: int
    rejected: int
    spans: tuple[tuple[str, int, int], ...]
    measured: Measured
    rejected_labels: tuple[int, int, int, int] = (0, 0, 0, 0)


class Entry(Event, frozen=True, tag="entry"):
    """An entry of the ledger. The summary is `_bounded`, and names no update: these are in `taken`."""

    summary: RoundSummary
    measured: Measured
    taken: tuple[Taken, ...] = ()


class Opened(Event, frozen=True, tag="opened"):
    """A round is open; clients close their buffers after so many milliseconds, 0 if each when it is full."""

    entry: int
    round: int
    epoch: int
    resumed: bool
    closes: int = 0


class Scoring(Event, frozen=True, tag="scoring"):
    """Clients are asked to score candidates, after an alarm."""

    round: int
    candidates: int


class MemberEvent(Event, frozen=True, tag="member"):
    """A client's membership: `joined`, `left`, `refused`, or what an operator did."""

    client: str
    what: str
    reason: str = ""
    evicted: bool = False


class AnnouncedChange(Event, frozen=True, tag="change"):
    """An announcement: a restart, a local drift, inputs that moved or are stuck, or a notice."""

    kind: str
    round: int
    epoch: int
    since: int
    known_since: int
    drift: int
    cause: str
    statistic: float | None
    threshold: float | None
    chosen: str
    state: str
    clients: tuple[str, ...]
    of_clients: int
    labels: tuple[str, ...]
    of_labels: int
    places: tuple[tuple[str, int, int], ...]
    began: str
    found: str
    evidence: str
    sentence: str
    candidates: tuple[tuple[str, float], ...]
    of_candidates: int
    # The features that moved, with their means before and since, and at how many clients; 0 is all.
    moved: tuple[tuple[str, float | None, float | None, int], ...] = ()
    stuck: tuple[tuple[str, str, float | None], ...] = ()  # stuck sensors, their clients and values
    online_models_begin_again: bool = False  # with a restart


class Over(Event, frozen=True, tag="over"):
    """The federation has ended."""


AnyEvent = Entry | Opened | Scoring | MemberEvent | AnnouncedChange | Over


def plain(text: str, most: int = NAME_BYTES) -> str:
    r"""Return a text without characters that control a screen, and cut: a cut is marked.

    >>> plain("plant 7"), plain("a\u202eb\ud800"), len(plain("x" * 1000)), len(plain("\u202e" * 256))
    ('plant 7', 'a\\u202eb\\ud800', 256, 256)
    """
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def whole(number: int) -> int:
    """Return a number between 0 and the largest that JavaScript tells from its neighbours.

    >>> whole(7), whole(-1), whole(10**30)
    (7, 0, 9007199254740991)
    """
    return min(max(number, 0), LARGEST)


def finite(number: float | None) -> float | None:
    """Return a number that JSON can hold, else None.

    >>> finite(0.5), finite(float("nan")), finite(10**400)
    (0.5, None, None)
    """
    try:
        return float(number) if number is not None and math.isfinite(number) else None
    except OverflowError:
        return None


def event_of(message: FromCoordinator, time: int | None = None, clients: int | None = None) -> AnyEvent | None:
    """Return the event of a message; None for messages that the page does not show.

    Parameters
    ----------
    message
        The message, by any writer.
    time
        When the log took it, in milliseconds since 1970.
    clients
        How many clients take part, for the sentences.

    >>> event_of(Left(client="c3", nonce="7f"), 1_700_000_000_000)
    MemberEvent(time=1700000000000, client='c3', what='left', reason='', evicted=False)
    """
    at = time if time is not None and 0 < time < LAST * 1000 else 0
    match message:
        case RoundClosed():
            return _entry(RoundSummary.of(message), at)
        case RoundOpened():
            closes = whole(int(1000.0 * min(finite(message.closes) or 0.0, LARGEST)))
            return Opened(
                at, whole(message.entry), whole(message.round), whole(message.epoch), message.resumed > 0, closes
            )
        case Score():
            return Scoring(at, whole(message.round), len(message.slots))
        case Joined():
            return MemberEvent(at, plain(message.client), "joined")
        case Left():
            return MemberEvent(at, plain(message.client), "left")
        case Refusal():
            reason = plain(" ".join(bounded(message.reason).split()), REASON_CHARS)
            return MemberEvent(at, plain(message.client), "refused", reason, message.evicted)
        case MemberChanged():
            return MemberEvent(at, plain(message.client), message.action, evicted=message.action == "evict")
        case Restarted() | LocalDrift() | InputsMoved() | InputsStuck() | Noticed():
            return change_of(dated(_sane(message)), at, clients)
        case Ended():
            return Over(at)
    return None


def _entry(closed: RoundSummary, at: int) -> Entry:
    served = closed.served
    measured = _measured(served.records, served.correct, served.absolute_error, served.no_change)
    taken = tuple(_taken(one, served) for one in closed.accepted[: NAMED.clients])
    return Entry(at, _bounded(closed), measured, taken)


def _bounded(closed: RoundSummary) -> RoundSummary:
    """Return a summary whose numbers and names are in their bounds, without updates; others have a line here."""
    ours: dict[str, Any] = {one.name: _bound(getattr(closed, one.name)) for one in fields(closed)}
    readings = {
        plain(name): Reading(_number(one.statistic), _number(one.threshold))
        for name, one in list(closed.readings.items())[:READINGS]
    }
    return replace(closed, **ours | {"accepted": (), "served": _served(closed.served), "readings": readings})


def _bound(value: object) -> object:
    """Return a field in its bounds: a name, a count, or a number, which is NaN if JSON cannot hold it."""
    match value:
        case str():
            return plain(value)
        case int():
            return whole(value)
        case float():
            return _number(value)
    return None


def _served(served: Served) -> Served:
    """Return sums in their bounds, and the experts with the largest parts that can be true."""
    records = whole(served.records)
    possible = {name: part for name, part in served.shares.items() if 0.0 <= part <= records}
    largest = heapq.nlargest(SHARES, possible, key=lambda name: possible[name])
    return Served(
        records=records,
        correct=whole(served.correct),
        unanswered=whole(served.unanswered),
        absolute_error=_number(served.absolute_error),
        no_change=_number(served.no_change),
        shares={plain(name): possible[name] for name in largest},
    )


def _measured(records: int, right: float, error: float, naive: float) -> Measured:
    """Return how right predictions were; of no record if the sums are none, or of more right ones than there are."""
    sums = [finite(number) for number in (right, error, naive)]
    known = [min(max(number, 0.0), GREATEST) for number in sums if number is not None]
    possible = len(known) == len(sums) and known[0] <= records and (known[2] <= records or known[0] == 0.0)
    return Measured(whole(records), *known) if possible else Measured()


def _taken(one: Accepted, served: Served) -> Taken:
    """Return an accepted update. What its sums are of, right predictions or errors, is known from the entry's."""
    spans = tuple((plain(span.partition), whole(span.start), whole(span.end)) for span in one.spans[:SPANS])
    own, naive = one.measured or (0.0, 0.0)
    right, error = (0.0, own) if served.absolute_error > 0.0 else (own, 0.0)
    measured = Measured() if one.measured is None else _measured(one.records, right, error, naive)
    return Taken(
        plain(one.client),
        whole(one.records),
        whole(one.rejected),
        spans,
        measured,
        _rejected_labels(one.watermark),
    )


def _rejected_labels(watermark: Watermark | None) -> tuple[int, int, int, int]:
    if watermark is None:
        return (0, 0, 0, 0)
    return (
        whole(watermark.unmatched),
        whole(watermark.repeated),
        whole(watermark.unusable),
        whole(watermark.expired),
    )


def _sane(message: Announced) -> Announced:
    """Return an announcement whose numbers, times and first names are in their bounds."""
    ours: dict[str, object] = {
        name: whole(getattr(message, name)) for name in ("round", "epoch", "since", "known_since", "drift")
    }
    ours |= {name: _number(getattr(message, name)) for name in ("statistic", "threshold")}
    ours |= {"labels": _first(message.labels), "times": _times(message.times)}
    ours["positions"] = {
        plain(name): (whole(first), whole(end)) for name, (first, end) in list(message.positions.items())[:PLACES]
    }
    ours |= {
        name: plain(getattr(message, name), 64) for name in ("cause", "chosen", "state") if hasattr(message, name)
    }
    if isinstance(message, Restarted):
        names = list(message.renamed.items())[:LISTED]
        ours["renamed"] = {plain(now): plain(before) for now, before in names}
        ours["clients_better"] = whole(message.clients_better[0]), whole(message.clients_better[1])
    if isinstance(message, InputsMoved) and message.spread is not None:
        ours["spread"] = _number(message.spread[0]), _number(message.spread[1])
    if not isinstance(message, Noticed):
        ours["clients"] = _first(message.clients)
    ours["moved"] = tuple(
        replace(
            one,
            feature=plain(one.feature),
            clients=tuple(map(plain, one.clients[:LISTED])),
            before=_number(one.before),
            after=_number(one.after),
            of_clients=whole(one.of_clients),
        )
        for one in message.moved[:LISTED]
    )
    if isinstance(message, InputsStuck):
        ours["stuck"] = tuple(
            replace(one, feature=plain(one.feature), client=plain(one.client), value=_number(one.value))
            for one in message.stuck[:LISTED]
        )
    return replace(message, **ours)  # type: ignore[arg-type]


def _number(number: float) -> float:
    known = finite(number)
    return math.nan if known is None else known


def _first(names: Sequence[str]) -> tuple[str, ...]:
    """Return all names, those that may be shown made plain: the number of the others is told."""
    return (*map(plain, names[:LISTED]), *names[LISTED:])


def _times(times: tuple[int, int] | None) -> tuple[int, int] | None:
    known = times is not None and all(FIRST * 1000 <= time < LAST * 1000 for time in times)
    return times if known else None


def change_of(found: Dated, at: int = 0, clients: int | None = None) -> AnnouncedChange:
    """Return the event of an announcement, which the log took at a time, in a federation of this many clients."""
    candidates, of_candidates = _candidates(found)
    concerned = () if isinstance(found, DatedNotice) else found.clients
    drift = found if isinstance(found, DatedRestart | DatedLocalDrift) else None
    return AnnouncedChange(
        at,
        kind=_KINDS[type(found)],
        round=found.round,
        epoch=found.epoch,
        since=found.since,
        known_since=found.known_since,
        drift=found.drift,
        cause=found.cause if isinstance(found, DatedRestart | DatedNotice) else "excess" if drift else "",
        statistic=finite(found.statistic),
        threshold=finite(found.threshold),
        chosen=drift.chosen if drift else "",
        online_models_begin_again=isinstance(found, DatedRestart) and found.online_models_begin_again,
        state=found.state if isinstance(found, DatedLocalDrift) else "",
        clients=concerned[:LISTED],
        of_clients=len(concerned),
        labels=found.labels[:LISTED],
        of_labels=len(found.labels),
        places=tuple((name, first, end) for name, (first, end) in found.positions.items()),
        began=found.since_time or "",
        found=found.time or "",
        evidence=evidence(drift) if drift else "",
        candidates=candidates,
        of_candidates=of_candidates,
        sentence=announcement(found, clients),
        moved=tuple(
            (one.feature, finite(one.before), finite(one.after), one.of_clients if one.clients else 0)
            for one in found.moved[:LISTED]
        ),
        stuck=tuple((one.feature, one.client, finite(one.value)) for one in found.stuck[:LISTED])
        if isinstance(found, DatedInputsStuck)
        else (),
    )


_KINDS = {
    DatedRestart: "restart",
    DatedLocalDrift: "local drift",
    DatedInputsMoved: "inputs moved",
    DatedInputsStuck: "inputs stuck",
    DatedNotice: "notice",
}


def _candidates(found: Dated) -> tuple[tuple[tuple[str, float], ...], int]:
    """Return the best candidates with their scores or gains, the best first; and how many there are."""
    match found:
        case DatedRestart():
            numbers, sign = found.scores, 1.0
        case DatedLocalDrift():
            numbers, sign = found.gains, -1.0
        case _:
            return (), 0
    known = [(name, real) for name, number in numbers.items() if (real := finite(number)) is not None]
    best = heapq.nsmallest(CANDIDATES, known, key=lambda one: sign * one[1])
    return tuple((plain(name, 64), number) for name, number in best), len(known)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[AnyEvent])


def packed(events: Iterable[AnyEvent]) -> bytes:
    """Return events as bytes.

    >>> unpacked(packed([Over(0)]))
    [Over(time=0)]
    """
    return _ENCODER.encode(list(events))


def unpacked(data: bytes) -> list[AnyEvent]:
    """Return the events in some bytes."""
    return _DECODER.decode(data)
