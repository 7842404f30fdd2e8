"""What the page gets: a view as sections of plain data, and what has changed between two of them.

The page puts these texts and numbers in their places, and computes nothing but pixels.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from streamfl.records.values.times import iso
from streamfl.run.page.by_name import KINDS, by_name
from streamfl.run.page.events import Entry, Taken
from streamfl.run.page.health import health, length, usually
from streamfl.run.page.view import Card, ClientView, Point, View, means, short
from streamfl.run.report.waiting import WaitingRecords, waiting
from streamfl.run.report.words import (
    CHOSEN,
    IN_PARALLEL,
    LOCAL,
    MISSING,
    count,
    counted,
    ending,
    measured,
    outcome_text,
    pronoun,
    score,
    serves,
)
from streamfl.runtime.ports import PartitionReach

Sections = dict[str, Any]

# Sections of which only the changed rows are sent again.
ROWS = frozenset({"clients", "rounds"})

STATES = {
    "waiting": "waiting for the first round",
    "gathering": "waiting for updates of clients",
    "scoring": "comparing candidate models after an alarm",
    "closed": "closed",
    "ended": "the federation has ended",
}

# Counts of an entry with a column of their own.
COLUMNS = frozenset({"rejected", "refused"})

# What predictions are measured by: of labels, of targets.
MEASURES = ("Accuracy", "Mean absolute error")

# The model that a branch begins with, trained only by its clients since they were latched.
BRANCHED = CHOSEN | {
    "incumbent": "the model of all clients, then trained only by these",
    "join": "the model of clients that drifted in the same way before",
}

NOT_LOCAL = "did not drift alone: other clients had the same drift"


def sections(
    view: View,
    letters: Sequence[Sections] = (),
    now: int | None = None,
    reaches: Mapping[str, PartitionReach] = MappingProxyType({}),
    *,
    is_silent: bool = False,
) -> Sections:
    """Return the sections of a view.

    Parameters
    ----------
    letters
        The rows of dead letters.
    now
        Milliseconds since 1970, from which it is told whether the federation has stalled; None in a view of the past.
    reaches
        How far partitions go, from which it is told how many records wait; those that are not there are unknown.
    is_silent
        Whether the log does not answer.
    """
    head, line = _headline(view), health(view, now, is_silent=is_silent)
    waits = {name: waiting(one.spans, reaches) for name, one in view.clients.items() if one.state == "present"}
    return {
        "headline": head,
        "story": [line] if line[0] else [],
        "cards": [*_cards(view, head), *_waits(waits)],
        "rounds": [_round(point, view) for point in view.points],
        "drifts": [_drift(card, view) for card in reversed(view.cards)],
        "clients": [_client(client, view, waits.get(client.name, WaitingRecords())) for client in _sorted(view)],
        "letters": list(letters),
        "ledger": [_ledger(line) for line in reversed(view.lines)],
        "epochs": _epochs(view),
        "branches": _branches(view),
        "tables": by_name(view),
    }


def _headline(view: View) -> Sections:
    newest = view.lines[-1].summary if view.lines else None
    value, naive = means(view.lately[-1:], of_errors=view.is_regression)
    lately, naive_lately = means(view.lately, of_errors=view.is_regression)
    return {
        "phase": STATES[view.phase],
        "ended": view.phase == "ended",
        "round": view.open_round,
        "epoch": view.epoch,
        "entry": view.entry,
        "first_entry": view.first_entry,
        "time": _time(view.time),
        "measure": "error" if view.is_regression else "accuracy",
        "value": value,
        "naive": naive,
        "lately": lately,
        "naive_lately": naive_lately,
        "lately_rounds": len(view.lately),
        "measured_in": view.points[-1].last if view.points else None,
        "records_of_entry": newest.records if newest else None,
        "rounds": view.closed,
        "records": view.records,
        "rejected": view.rejected,
        "restarts": view.restarts,
        "local_drifts": view.local_drifts,
        "clients": view.present,
        "shares": serves(view.last.shares) if view.last else "",
        "readings": [
            {"detector": name, "statistic": short(one.statistic), "threshold": short(one.threshold)}
            for name, one in (newest.readings if newest else {}).items()
        ],
        "others": view.others,
        "strangers": view.strangers,
        "strangers_reason": view.strangers_reason,
        "summary": _summary(view),
    }


def card(title: str, text: str, note: str = "", **more: Any) -> Sections:
    """Return a card: what it is of, a short text, and a note below it.

    It may have a `name` and an exact `value`, for programs; a `kind`, how it is marked; and `full`, a second look.
    """
    return {"title": title, "text": text, "note": note, **more}


def _cards(view: View, head: Sections) -> list[Sections]:
    """Return the figures at the top."""
    since = f", since entry {count(view.first_entry)}" if view.first_entry > 1 else ""
    rejected = f"{count(view.rejected)} rejected{since}{_rate(view)}"
    usual = usually(view)
    pace = "" if usual is None or head["ended"] else f"; an entry every {length(usual)} lately"
    at = f"epoch {count(view.epoch)}, entry {count(view.entry)}{pace}" if view.entry else "no round has closed"
    number = view.closed if head["ended"] else view.open_round
    refusals = view.strangers + sum(client.refused for client in view.clients.values())
    refused = f"{counted(refusals, 'message')} refused" if refusals else "taking part"
    local = counted(view.local_drifts, "local drift") if view.local_drifts else "no local drift"
    what = "Rounds" if head["ended"] else "Round"
    return [
        *_good(view, head),
        card(what, count(number) if number else MISSING, at, name="round", value=view.open_round),
        card("Records", count(view.records), rejected, name="records", value=view.records),
        card("Clients", count(view.present), refused, name="clients", value=view.present),
        card("Restarts", count(view.restarts), local, name="restarts", value=view.restarts),
        _score(head["readings"]),
        _models(view),
    ]


def _rate(view: View) -> str:
    """Return how many records were learnt a second lately; nothing if the log has no times."""
    times = [line.time for line in view.lines if line.time]
    if len(times) < 2 or times[-1] <= times[0]:
        return ""
    records = sum(line.summary.records for line in view.lines if line.time > times[0])
    return f"; {score(1000.0 * records / (times[-1] - times[0]))} a second lately"


def _good(view: View, head: Sections) -> Iterator[Sections]:
    """Yield how good the predictions of the last round and of the last rounds were."""
    of_errors = view.is_regression
    is_old = head["records_of_entry"] == 0 and head["measured_in"]
    last = f"round {count(head['measured_in'])}" if is_old else "last round"
    of = {"value": f"{MEASURES[of_errors]}, {last}", "lately": f"Mean of {counted(len(view.lately), 'round')}"}
    kinds = {"value": compared(head["value"], head["naive"], of_errors=of_errors), "lately": ""}
    for (name, title), baseline in zip(of.items(), (head["naive"], head["naive_lately"]), strict=True):
        text, naive = (measured(number, of_errors=of_errors) for number in (head[name], baseline))
        yield card(title, text, f"NoChange {naive}", name=name, value=head[name], kind=kinds[name])


def compared(value: float | None, naive: float | None, *, of_errors: bool) -> str:
    """Return how a figure next to NoChange's is marked: not at all if they are equal, or one is unknown."""
    if value is None or naive is None or value == naive:
        return ""
    return "better" if (value < naive) == of_errors else "worse"


def _score(readings: Sequence[Sections]) -> Sections:
    """Return the card of the drift score; the names of detectors are a second look, unless there are several."""
    known = [(one["detector"], _text(one["statistic"]), f"alarm at {_text(one['threshold'])}") for one in readings]
    full = "; ".join(f"{name} {statistic}, {alarm}" for name, statistic, alarm in known)
    others = [f"{name} {statistic}, {alarm}" for name, statistic, alarm in known[1:]]
    _, first, alarm = known[0] if known else ("", MISSING, "")
    value = readings[0]["statistic"] if readings else None
    return card("Drift score", first, "; ".join([alarm, *others]), name="statistic", value=value, full=full)


def _text(number: float | None) -> str:
    return MISSING if number is None else score(number)


def _models(view: View) -> Sections:
    """Return the card of the models that predict; their technical names are a second look."""
    shares = view.last.shares if view.last else {}
    names = [f"{name} {part:.1%}" for name, part in shares.items()]
    full = ", ".join([*names, *([f"incumbent {view.serves}"] if view.serves else [])])
    since = f"since round {count(view.serves_since)}" if view.serves_since else ""
    text = serves(shares) or ("round model" if view.serves else MISSING)
    return card("Models", text, since, name="serves", value=view.serves, kind="long", full=full)


def _summary(view: View) -> str:
    """Return the open round and the last entry, in one or two sentences."""
    phase = STATES[view.phase]
    at = (
        f"Round {count(view.open_round)}: {phase}"
        if view.open_round and view.phase != "ended"
        else phase.capitalize()
    )
    if not view.entry:
        return f"{at}. No round has closed." if view.open_round else f"{at}."
    value, naive = (
        measured(one, of_errors=view.is_regression) for one in means(view.lately[-1:], of_errors=view.is_regression)
    )
    good = f"{MEASURES[view.is_regression].lower()} {value}, NoChange {naive}"
    if not view.lines[-1].summary.records:
        good = "no records" + (f"; round {count(view.points[-1].last)}: {good}" if view.points else "")
    time = f" at {_time(view.time)}" if view.time else ""
    return f"{at}. Entry {count(view.entry)} closed{time}: {good}."


def _time(milliseconds: int) -> str:
    return iso(milliseconds / 1000.0) if milliseconds else ""


def _round(point: Point, view: View) -> list[Any]:
    """Return first and last round, entry, epoch, records, value, NoChange, and the time in milliseconds."""
    good = means([point.measured], of_errors=view.is_regression)
    return [point.first, point.last, point.entry, point.epoch, point.records, *good, point.time]


def _drift(card: Card, view: View) -> Sections:
    change = card.change
    return {
        "entry": card.entry,
        "title": KINDS.get(change.kind, change.kind),
        "kind": change.kind,
        "round": change.round,
        "epoch": change.epoch,
        "since": change.since,
        "lasted": max(0, change.round - change.since + 1),
        "began": change.began,
        "found": change.found,
        "sentence": change.sentence,
        "cause": change.cause,
        "evidence": change.evidence,
        "online_models_begin_again": change.online_models_begin_again,
        "chosen": card.choice.chosen,
        "chosen_words": _words(card.choice.chosen, card.change.kind),
        "candidates": [
            [name, short(number), _words(name, card.change.kind)] for name, number in card.choice.candidates
        ],
        "of_candidates": card.choice.of_candidates,
        "clients": list(change.clients),
        "of_clients": change.of_clients,
        "labels": list(change.labels),
        "of_labels": change.of_labels,
        "places": [list(place) for place in change.places],
        "drift": change.drift,
        "states": [
            {
                "state": state,
                "round": at,
                "words": _outcome(state, change.of_clients),
            }
            for state, at in card.states
            if state
        ],
    }


def _outcome(state: str, clients: int) -> str:
    """Return what happened to so many clients that drifted alone; "" for a state that is none."""
    words = outcome_text(state, clients) if state in LOCAL else NOT_LOCAL * (state == "corrected")
    return f"{pronoun(clients)} {words}" if words else ""


def _words(name: str, kind: str) -> str:
    """Return what a candidate model is."""
    words = BRANCHED if kind == "local drift" else CHOSEN
    return words.get(name.partition("-")[0], IN_PARALLEL) if name else ""


def _sorted(view: View) -> list[ClientView]:
    return sorted(view.clients.values(), key=lambda client: client.name)


def _waits(waits: Mapping[str, WaitingRecords]) -> Iterator[Sections]:
    """Yield the card of records that wait, if it is known of a client."""
    known = {name: one for name, one in waits.items() if one.unlearnt is not None}
    if not known:
        return
    of_client = {name: (one.unread or 0) + (one.unlearnt or 0) for name, one in known.items()}
    waiting, unread = sum(of_client.values()), sum(one.unread or 0 for one in known.values())
    most = max(of_client, key=of_client.__getitem__)
    where = f"; most at {ending(most)}: {count(of_client[most])}" if of_client[most] else ""
    read = f"{count(unread)} not read yet, {count(waiting - unread)} read and not learnt yet"
    if any(one.unread is None for one in known.values()):
        read = "how many of them hosts have read is not known"
    yield card("Waiting records", count(waiting), f"{read}{where}", name="waiting", value=waiting)


def _client(client: ClientView, view: View, waits: WaitingRecords) -> list[Any]:
    """Return what a client's row has.

    Name, state, last round learnt, rounds missed, records, rejected, refused, the last reason and its round; how good
    its predictions were lately, and NoChange's; which labels found no record, and why; records a second lately; how
    many records wait, not read and not learnt.
    """
    missed = max(0, view.closed - client.waits_since) if client.state == "present" else None
    return [
        client.name,
        client.state,
        client.learnt,
        missed,
        client.records,
        client.rejected,
        client.refused,
        client.reason,
        client.refused_in,
        *means([client.lately], of_errors=view.is_regression),
        rejected_labels_words(client.rejected_labels),
        short(client.pace.a_second(view.time)) if client.state == "present" else None,
        *waits,
    ]


def rejected_labels_words(counts: Sequence[int]) -> str:
    """Return which labels found no record, and why, and how many records no label; "" if all did.

    >>> rejected_labels_words((3, 0, 1, 0))
    '3 labels whose record never came, 1 label whose record was rejected'
    """
    what = (
        ("label", "whose record never came"),
        ("label", "for a record that already had one"),
        ("label", "whose record was rejected"),
        ("record", "whose label did not come in time"),
    )
    return ", ".join(f"{counted(n, noun)} {which}" for n, (noun, which) in zip(counts, what, strict=True) if n)


def update_row(taken: Taken) -> list[Any]:
    """Return what the row of an update has: client, records, rejected, spans, and how good next to NoChange.

    >>> from streamfl.run.page.events import Measured
    >>> update_row(Taken("c0", 100, 2, (("r/0", 5, 107),), Measured(100, right=87.0, naive=40.0)))
    ['c0', 100, 2, [['r/0', 5, 107]], 0.87, 0.4]
    """
    good = means([taken.measured], of_errors=taken.measured.error > 0.0)
    return [taken.client, taken.records, taken.rejected, [list(span) for span in taken.spans], *good]


def _ledger(line: Entry) -> list[Any]:
    """Return what the row of an entry has; the remarks last that have no column of their own."""
    closed = line.summary
    return [
        closed.entry,
        closed.round,
        closed.epoch,
        closed.records,
        closed.rejected,
        closed.refused,
        closed.clients,
        short(closed.loss),
        closed.model,
        _time(line.time),
        ", ".join(text for name, text in closed.remarks().items() if name not in COLUMNS),
    ]


def _epochs(view: View) -> list[Sections]:
    return [
        {
            "epoch": one.epoch,
            "first": one.first,
            "last": max(one.first, one.last),
            "cause": one.cause,
            "chosen": one.chosen,
            "words": _words(one.chosen, "restart"),
        }
        for one in view.epochs
    ]


def _branches(view: View) -> list[Sections]:
    """Return the local drifts as spans of rounds; the last round is None while the clients are apart."""
    return [
        {
            "clients": list(card.change.clients[:5]),
            "of_clients": card.change.of_clients,
            "first": card.change.round,
            "last": None if card.is_apart else max(card.change.round, card.states[-1][1]),
            "state": card.states[-1][0],
            "title": f"{counted(card.change.of_clients, 'client')} apart",
        }
        for card in view.cards
        if card.change.kind == "local drift"
    ]


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Sections:
    """Return what turns one page's sections into another's: `patched` of the page applies it.

    >>> changed({"a": 1, "clients": [["c0", 1], ["c1", 1]]}, {"a": 1, "clients": [["c0", 1], ["c1", 2]]})
    {'clients': {'length': 2, 'rows': {'1': ['c1', 2]}}}
    """
    return {
        name: _rows(before.get(name, []), section) if name in ROWS else section
        for name, section in after.items()
        if before.get(name) != section
    }


def _rows(before: Sequence[Any], after: Sequence[Any]) -> Sections:
    rows = {str(i): row for i, row in enumerate(after) if i >= len(before) or before[i] != row}
    return {"length": len(after), "rows": rows}
