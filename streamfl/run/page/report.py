"""The report of a run: the page without a server. What the page shows of a log, it shows here of a result."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from statistics import median
from typing import Any

import msgspec

from streamfl.protocol.messages import Served
from streamfl.run.evaluation.result import Dated, Result
from streamfl.run.page.document import document
from streamfl.run.page.events import AnnouncedChange, Entry, Measured, change_of
from streamfl.run.page.sections import Sections, card, compared, sections
from streamfl.run.page.view import View
from streamfl.run.report.story import delays, drifts_of_some, story
from streamfl.run.report.tables import headline, tables
from streamfl.run.report.words import count, counted, quantity
from streamfl.run.summary import RoundLine, RoundSummary

# The sections of the page that a result has no data for.
LIVE = ("clients", "letters", "ledger")

# Part of the median records of a round below which its figures are mostly chance, and are not drawn.
SPARSE = 0.5


def render(result: Result, *, drifts: Sequence[int] = (), title: str) -> str:
    """Return the page that explains a run to a reader who has not seen it, as one file that needs no other.

    The same result gives the same bytes, since the page has no date.

    Parameters
    ----------
    drifts
        The first round of each imposed drift; empty if none is known.

    Returns
    -------
    str
        A complete HTML document. Names that came from data are escaped.
    """
    made = report(result, sorted(set(drifts)), title)
    return document(made, [text for text, _ in made["story"]])


def report(result: Result, drifts: Sequence[int], title: str) -> Sections:
    """Return the sections of the page of a run; `drifts` are the first rounds of imposed drifts, increasing."""
    view = _view(result)
    made = {name: section for name, section in sections(view).items() if name not in LIVE}
    of = f"{counted(result.rounds, 'round')} · {counted(result.clients, 'client')}"
    what = f"{result.source} · {of} · profile {result.profile} · seed {result.seed}"
    return made | {
        "about": {"name": title},
        "headline": made["headline"] | {"summary": what},
        "story": [(one.text, "warns" if one.warns else "") for one in story(result, drifts)],
        "cards": _cards(result),
        "rounds": _without_sparse(made["rounds"]),
        "drifts": _changes(made["drifts"][::-1], result, drifts),
        "imposed": [drift for drift in drifts if drift <= result.rounds],
        "tables": tables(result),
    }


def _view(result: Result) -> View:
    """Return the page of a log that would have told what the result tells."""
    view = View()
    found: list[Dated] = [*result.restarts, *result.local_drifts, *result.inputs_moved, *result.inputs_stuck]
    found += result.notices
    waiting = sorted(found, key=lambda change: change.round)
    for line in result.per_round:
        while waiting and waiting[0].round < line.round:
            view.fold(_change(waiting.pop(0), result))
        view.fold(_entry(line, result.clients))
    for change in waiting:
        view.fold(_change(change, result))
    view.is_regression = result.mae is not None
    return view


def _entry(line: RoundLine, clients: int) -> Entry:
    """Return the entry of a round, with all that a result keeps of it."""
    good, naive = line.mae if line.mae is not None else line.accuracy, line.no_change
    is_known = good is not None and naive is not None
    of = (0.0, good) if line.mae is not None else (good, 0.0)
    sums = (part * line.records for part in (*of, naive)) if is_known else ()
    rest: dict[str, Any] = {"accepted": (), "trained": 0, "unlearnt": 0, "served": Served(), "readings": {}}
    rest |= {"entry": line.round, "clients": clients, "serves": "", "promotions": 0, "model": ""}
    closed = RoundSummary(**asdict(line), **rest)
    time = 0 if line.time is None else round(1000.0 * datetime.fromisoformat(line.time).timestamp())
    return Entry(time, closed, Measured(line.records, *sums) if is_known else Measured())


def _change(found: Dated, result: Result) -> AnnouncedChange:
    """Return the event of a finding, in the words of the result if it has any."""
    event = change_of(found, clients=result.clients)
    kinds: dict[tuple[str, int], str] = {(one.kind, one.round): one.sentence for one in result.changes}
    told = kinds.get((event.kind, event.round)) if event.state in ("", "latched") else None
    return msgspec.structs.replace(event, sentence=told) if told else event


def _cards(result: Result) -> list[Sections]:
    figures = result.mae or result.accuracy
    kind = compared(figures.prequential, figures.no_change, of_errors=result.mae is not None) if figures else ""
    good = [card(*one) for one in headline(result)]
    good[0]["kind"] = kind
    of_all = sum(restart.cause != "operator" for restart in result.restarts)
    return [
        *good,
        card("Drifts at all clients", count(of_all), f"in {counted(result.rounds, 'round')}"),
        card("Drifts at some clients", count(len(drifts_of_some(result))), "the others went on"),
        card("Records", count(result.accepted), f"{count(result.rejected)} rejected"),
    ]


def _without_sparse(rounds: list[list[Any]]) -> list[list[Any]]:
    """Return rounds, in which those of far fewer records than usual have no figures."""
    each = [records / (last - first + 1) for first, last, _, _, records, *_ in rounds]
    least = SPARSE * median(each) if each else 0.0
    return [
        [*row[:5], None, None, *row[7:]] if records < least else row
        for row, records in zip(rounds, each, strict=True)
    ]


def _changes(cards: list[Sections], result: Result, drifts: Sequence[int]) -> list[Sections]:
    """Return the cards of drifts with the features that moved, and which imposed drift a restart answered."""
    moved = {(change.kind, change.round): change.moved or () for change in result.changes}
    answers = dict(
        zip(
            (restart.round for restart in result.restarts),
            delays([r.round for r in result.restarts], drifts),
            strict=True,
        )
    )
    for one in cards:
        key = (one["kind"], one["round"])
        one["moved"] = [
            [each.feature, *map(quantity, (each.before, each.since, *each.span)), *each.counts]
            for each in moved.get(key, ())
            if each.span
        ]
        answer = answers.get(one["round"]) if one["kind"] == "restart" and drifts else None
        if answer is not None:
            later = f"{counted(answer.rounds, 'round')} later" if answer.rounds else "in it"
            one["imposed"] = f"round {count(answer.drift)}; found {later}"
    return cards
