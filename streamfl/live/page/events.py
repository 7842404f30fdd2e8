"""What the page keeps of a message: events with names cut to their bound and numbers that any browser can read.

Whoever can write to the control topic may write anything into a message of a right form. So every text and number
goes through `plain`, `whole` or `finite` once, here, and everything behind may trust the events.
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from streamfl.bounds import NAME_BYTES, NAMED, REASON_CHARS, bounded
from streamfl.printable import printable
from streamfl.protocol.messages import (
    Accepted,
    Ended,
    FromCoordinator,
    Joined,
    Left,
    LocalDrift,
    Mark,
    MemberChanged,
    Noticed,
    Refusal,
    Restarted,
    RoundClosed,
    RoundOpened,
    Score,
    Served,
)
from streamfl.records.times import FIRST, LAST
from streamfl.run.report.changes import sentence
from streamfl.run.report.display import notice_text
from streamfl.run.report.words import evidence, local_evidence, serves, since_time, time_of

# The largest whole number that JavaScript tells from its neighbours.
LARGEST = 2**53 - 1

# The largest sum of targets' errors: beyond it nothing can be added any more.
GREATEST = 1e300

# The most names, labels, positions and candidates that a change lists.
LISTED, PLACES, CANDIDATES = 8, 3, 30

# The most partitions of one accepted update.
SPANS = 16

# The most tests whose statistic an entry keeps.
READINGS = 4

Announced = Restarted | LocalDrift | Noticed


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

    `astray` counts, where labels come apart, labels without a record, second ones, those of rejected records, and
    records without a label.
    """

    client: str
    records: int
    rejected: int
    spans: tuple[tuple[str, int, int], ...]
    measured: Measured
    astray: tuple[int, int, int, int] = (0, 0, 0, 0)


class Entry(Event, frozen=True, tag="entry"):
    """An entry of the ledger."""

    entry: int
    round: int
    epoch: int
    records: int
    rejected: int
    refused: int
    measured: Measured
    loss: float | None
    serves: str
    shares: str
    promotions: int
    model: str
    readings: tuple[tuple[str, float | None, float | None], ...]
    taken: tuple[Taken, ...]


class Opened(Event, frozen=True, tag="opened"):
    """A round is open."""

    entry: int
    round: int
    epoch: int
    resumed: bool


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
    """An announcement: a restart, a local drift or a notice."""

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
            return _entry(message, at)
        case RoundOpened():
            return Opened(at, whole(message.entry), whole(message.round), whole(message.epoch), message.resumed)
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
        case Restarted() | LocalDrift() | Noticed():
            return _change(
                _sane(message), len(message.clients) if not isinstance(message, Noticed) else 0, at, clients
            )
        case Ended():
            return Over(at)
    return None


def _entry(closed: RoundClosed, at: int) -> Entry:
    served = closed.served
    return Entry(
        at,
        entry=whole(closed.entry),
        round=whole(closed.round),
        epoch=whole(closed.epoch),
        records=whole(closed.records),
        rejected=whole(closed.rejected),
        refused=whole(closed.refused),
        measured=_measured(served.records, served.correct, served.absolute_error, served.no_change),
        loss=finite(closed.losses.get(closed.serves)),
        serves=plain(closed.serves),
        shares=_shares(served.shares, whole(served.records)),
        promotions=whole(closed.promotions),
        model=plain(closed.model, 64),
        readings=tuple(
            (plain(name), finite(one.statistic), finite(one.threshold))
            for name, one in list(closed.readings.items())[:READINGS]
        ),
        taken=tuple(_taken(one, served) for one in closed.accepted[: NAMED.clients]),
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
    return Taken(plain(one.client), whole(one.records), whole(one.rejected), spans, measured, _astray(one.mark))


def _astray(mark: Mark | None) -> tuple[int, int, int, int]:
    if mark is None:
        return (0, 0, 0, 0)
    return (whole(mark.unmatched), whole(mark.repeated), whole(mark.unusable), whole(mark.expired))


def _shares(shares: Mapping[str, float], records: int) -> str:
    """Return which models predicted, the largest part first."""
    parts = {plain(name): part / records for name, part in shares.items() if records > 0 and 0.0 <= part <= records}
    return serves(parts)


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
    if not isinstance(message, Noticed):
        ours["clients"] = _first(message.clients)
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


def _change(message: Announced, of_clients: int, at: int, clients: int | None) -> AnnouncedChange:
    kinds = {Restarted: "restart", LocalDrift: "local drift", Noticed: "notice"}
    candidates, of_candidates = _candidates(message)
    return AnnouncedChange(
        at,
        kind=kinds[type(message)],
        round=message.round,
        epoch=message.epoch,
        since=message.since,
        known_since=message.known_since,
        drift=message.drift,
        cause="excess" if isinstance(message, LocalDrift) else message.cause,
        statistic=finite(message.statistic),
        threshold=finite(message.threshold),
        chosen="" if isinstance(message, Noticed) else message.chosen,
        state=message.state if isinstance(message, LocalDrift) else "",
        clients=() if isinstance(message, Noticed) else message.clients[:LISTED],
        of_clients=of_clients,
        labels=message.labels[:LISTED],
        of_labels=len(message.labels),
        places=tuple((name, first, end) for name, (first, end) in message.positions.items()),
        began=since_time(message) or "",
        found=time_of(message) or "",
        evidence=_evidence(message),
        candidates=candidates,
        of_candidates=of_candidates,
        sentence=notice_text(message) if isinstance(message, Noticed) else sentence(message, clients=clients),
    )


def _candidates(message: Announced) -> tuple[tuple[tuple[str, float], ...], int]:
    """Return the best candidates with their scores or gains, the best first; and how many there are."""
    match message:
        case Restarted():
            numbers, sign = message.scores, 1.0
        case LocalDrift():
            numbers, sign = message.gains, -1.0
        case _:
            return (), 0
    known = [(name, found) for name, number in numbers.items() if (found := finite(number)) is not None]
    best = heapq.nsmallest(CANDIDATES, known, key=lambda one: sign * one[1])
    return tuple((plain(name, 64), number) for name, number in best), len(known)


def _evidence(message: Announced) -> str:
    match message:
        case Restarted():
            return evidence(message)
        case LocalDrift():
            return local_evidence(message)
    return ""


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
