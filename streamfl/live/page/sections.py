"""What the page gets: a view as sections of plain data, and what has changed between two of them.

The page puts these texts and numbers in their places, and computes nothing but pixels.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from streamfl.live.page.events import Entry, Measured, Taken
from streamfl.live.page.letters import LetterKind
from streamfl.live.page.view import Card, ClientView, Point, View
from streamfl.protocol.digits import significant
from streamfl.records.times import iso
from streamfl.run.report.words import counted, serves

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

KINDS = {"restart": "Restart", "local drift": "Local drift", "notice": "Notice"}

CHOSEN = {
    "": "",
    "scratch": "an untrained model",
    "incumbent": "the same model as before",
    "recall": "the model of an earlier epoch",
    "relabelled": "the same model with its labels renamed",
    "branch": "the model of clients that had drifted alone",
    "round": "the model that predicted in this round",
}

# The model that a branch begins with, trained only by its clients since they were latched.
BRANCHED = CHOSEN | {
    "incumbent": "the model of all clients, then trained only by these",
    "join": "the model of clients that drifted in the same way before",
}

IN_PARALLEL = "a model trained in parallel"

LOCAL = {
    "latched": "they drifted alone: candidate models are now compared on their records only",
    "branched": "they got a model of their own",
    "released": "back with all clients: no candidate was clearly better, or there are too many branches",
    "merged": "back with all clients: their own model was hardly better",
    "returned": "back with all clients: the model of all clients is better for them again",
    "corrected": "they did not drift alone: other clients had the same drift",
    "restarted": "all clients began a new epoch together",
}


def sections(view: View, letters: Sequence[tuple[LetterKind, int]] = ()) -> Sections:
    """Return the sections of a view.

    Parameters
    ----------
    view
        The view.
    letters
        Kinds of dead letters, with the number of each.
    """
    return {
        "headline": _headline(view),
        "rounds": [_round(point, view) for point in view.points],
        "drifts": [_drift(card, view) for card in reversed(view.cards)],
        "clients": [_client(client, view) for client in _sorted(view)],
        "letters": [_letters(kind, count) for kind, count in letters],
        "ledger": [_ledger(line) for line in reversed(view.lines)],
        "epochs": _epochs(view),
        "branches": _branches(view),
    }


def _headline(view: View) -> Sections:
    last, newest = view.last, view.lines[-1].summary if view.lines else None
    value, naive = _means(view.lately[-1:], of_errors=view.is_regression)
    lately, naive_lately = _means(view.lately, of_errors=view.is_regression)
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
        "loss": _short(last.loss) if last else None,
        "rounds": view.closed,
        "records": view.records,
        "rejected": view.rejected,
        "refused": view.refused,
        "restarts": view.restarts,
        "local_drifts": view.local_drifts,
        "clients": view.present,
        "serves": view.serves,
        "serves_since": view.serves_since,
        "shares": serves(last.shares) if last else "",
        "model": newest.model if newest else "",
        "readings": [
            {"detector": name, "statistic": _short(one.statistic), "threshold": _short(one.threshold)}
            for name, one in (newest.readings if newest else {}).items()
        ],
        "others": view.others,
        "strangers": view.strangers,
        "strangers_reason": view.strangers_reason,
    }


def _means(parts: Sequence[Measured], *, of_errors: bool) -> tuple[float | None, float | None]:
    """Return how good predictions were, in all parts together, and NoChange's.

    >>> _means([Measured(30, right=24.0, naive=9.0), Measured(10, right=8.0, naive=1.0)], of_errors=False)
    (0.8, 0.25)
    """
    records = [part.records for part in parts]
    good = [part.error if of_errors else part.right for part in parts]
    return _mean(records, good), _mean(records, [part.naive for part in parts])


def _mean(records: Sequence[int], sums: Sequence[float]) -> float | None:
    return _short(sum(sums) / sum(records)) if sum(records) else None


def _short(number: float | None) -> float | None:
    return None if number is None or math.isnan(number) else significant(number)


def _time(milliseconds: int) -> str:
    return iso(milliseconds / 1000.0) if milliseconds else ""


def _round(point: Point, view: View) -> list[Any]:
    """Return first and last round, entry, epoch, records, value and NoChange."""
    good = _means([point.measured], of_errors=view.is_regression)
    return [point.first, point.last, point.entry, point.epoch, point.records, *good]


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
        "statistic": _short(change.statistic),
        "threshold": _short(change.threshold),
        "chosen": card.choice.chosen,
        "chosen_words": _chosen_words(card),
        "candidates": [[name, _short(number)] for name, number in card.choice.candidates],
        "of_candidates": card.choice.of_candidates,
        "clients": list(change.clients),
        "of_clients": change.of_clients,
        "labels": list(change.labels),
        "of_labels": change.of_labels,
        "places": [list(place) for place in change.places],
        "drift": change.drift,
        "states": [
            {"state": state, "round": round_, "words": LOCAL.get(state, "")} for state, round_ in card.states if state
        ],
    }


def _chosen_words(card: Card) -> str:
    words = BRANCHED if card.change.kind == "local drift" else CHOSEN
    return words.get(card.choice.chosen.partition("-")[0], IN_PARALLEL)


def _sorted(view: View) -> list[ClientView]:
    return sorted(view.clients.values(), key=lambda client: client.name)


def _client(client: ClientView, view: View) -> list[Any]:
    """Return what a client's row has.

    Name, state, last round learnt, rounds missed, records, rejected, refused, the last reason and its round; how good
    its predictions were lately, and NoChange's; which labels found no record, and why.
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
        *_means([client.lately], of_errors=view.is_regression),
        astray_words(client.astray),
    ]


def astray_words(counts: Sequence[int]) -> str:
    """Return which labels found no record, and why, and how many records no label; "" if all did.

    >>> astray_words((3, 0, 1, 0))
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
    """Return what the row of an update has: client, records, rejected, spans, and how good beside NoChange.

    >>> update_row(Taken("c0", 100, 2, (("r/0", 5, 107),), Measured(100, right=87.0, naive=40.0)))
    ['c0', 100, 2, [['r/0', 5, 107]], 0.87, 0.4]
    """
    good = _means([taken.measured], of_errors=taken.measured.error > 0.0)
    return [taken.client, taken.records, taken.rejected, [list(span) for span in taken.spans], *good]


def _letters(kind: LetterKind, count: int) -> Sections:
    place = f"{kind.topic}/{kind.partition} at {kind.offset}"
    return {"reason": kind.reason, "count": count, "remedy": kind.remedy, "example": place}


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
        _short(closed.loss),
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
    """Return what turns one page's sections into another's, for `patched` or its like in the page.

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


def patched(before: Mapping[str, Any], changes: Mapping[str, Any]) -> Sections:
    """Return the sections after some changes, as the page has them.

    >>> patched({"clients": [["c0", 1], ["c1", 1]]}, {"clients": {"length": 1, "rows": {"0": ["c1", 1]}}})
    {'clients': [['c1', 1]]}
    """
    after = dict(before)
    for name, section in changes.items():
        if name not in ROWS:
            after[name] = section
            continue
        rows = [*before.get(name, [])][: section["length"]]
        rows += [None] * (section["length"] - len(rows))
        for at, row in section["rows"].items():
            rows[int(at)] = row
        after[name] = rows
    return after
