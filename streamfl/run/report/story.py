"""A run in sentences: the first part of the report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamfl.run.evaluation.changes import Kind
from streamfl.run.evaluation.result import DatedLocalDrift, DatedRestart, Result
from streamfl.run.report.breakdown import extremes
from streamfl.run.report.changes import sentence, stuck_sentence
from streamfl.run.report.compared import verdict
from streamfl.run.report.words import (
    LOCAL,
    again,
    count,
    counted,
    listed,
    model_named,
    outcome_text,
    pronoun,
    quantity,
    serves,
    share,
)

# A further restart within this many rounds after a drift still answers it; benchmarks count the same way.
_STILL = 5
_SHOWN = 6
_MUCH = 0.02  # warn if the accuracy of the model file is that much below the prequential one
_TIMES = 1.1  # or if its error is that many times as large


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence; `warns` if a person should look into it."""

    text: str
    warns: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """A restart that answers an imposed drift: `rounds` after it, the drift being at round `drift`."""

    rounds: int
    drift: int


def delays(restarts: Sequence[int], drifts: Sequence[int]) -> list[Delay | None]:
    """Return for each restart the drift that it answers.

    That is the nearest drift before it, unless an earlier restart has answered that drift and the drift was more than
    five rounds ago: then the restart has another cause.

    Parameters
    ----------
    restarts
        Rounds with a restart, increasing.
    drifts
        The first round of each imposed drift.

    Returns
    -------
    list of Delay or None
        In the order of `restarts`; None where no drift was imposed.

    >>> delays([32, 34, 60, 99], [31, 97])
    [Delay(rounds=1, drift=31), Delay(rounds=3, drift=31), None, Delay(rounds=2, drift=97)]
    """
    answered: set[int] = set()
    result: list[Delay | None] = []
    for at in restarts:
        drift = max((d for d in drifts if d <= at), default=None)
        late = drift is None or (drift in answered and at - drift > _STILL)
        result.append(None if drift is None or late else Delay(at - drift, drift))
        answered.update(() if drift is None else (drift,))
    return result


def unanswered(restarts: Sequence[int], drifts: Sequence[int]) -> list[int]:
    """Return the drifts that no restart followed before the next drift.

    >>> unanswered([32, 99], [31, 65, 97])
    [65]
    """
    met = {delay.drift for delay in delays(restarts, drifts) if delay}
    return [drift for drift in drifts if drift not in met]


def useless(result: Result) -> str:
    """Return that a model of others could learn no record at all, and why; "" if it learnt some."""
    if not result.unlearnt or result.unlearnt < result.accepted:
        return ""
    why = f": {result.unlearnt_reason}" if result.unlearnt_reason else ""
    return f"none of the {counted(result.accepted, 'record')} could be learnt by the model{why}"


def unaccounted(result: Result) -> int:
    """Return the number of records read but not accounted for; 0 unless there is a defect."""
    return result.records - result.accepted - result.rejected - result.pending


def looks_ahead(records: int) -> str:
    """Return in words that a model had learnt later records than one that it predicted.

    >>> looks_ahead(1)
    'ahead: a record was predicted when models had learnt up to 1 later record of other clients'
    """
    later = counted(records, "later record")
    return f"ahead: a record was predicted when models had learnt up to {later} of other clients"


def ledger(result: Result) -> str:
    """Return the equation of the record counts, which must hold, and the difference if it does not.

    Returns
    -------
    str
        For instance ``read 92,962 = accepted 92,960 + rejected 2 + pending 0``.
    """
    parts = f"accepted {count(result.accepted)} + rejected {count(result.rejected)} + pending {count(result.pending)}"
    off = unaccounted(result)
    relation, remark = ("is not", f" (off by {count(off)})") if off else ("=", "")
    return f"read {count(result.records)} {relation} {parts}{remark}"


def story(result: Result, drifts: Sequence[int]) -> list[Sentence]:
    """Return what happened, most important first.

    Parameters
    ----------
    drifts
        The first round of each imposed drift; empty if none is known.

    Returns
    -------
    list of Sentence
        A handful; each can be read alone.
    """
    if result.rounds == 0:
        return [Sentence("No round was closed, so nothing was learnt.", warns=True), *_records(result)]
    changes = [*_changes(result), *_missed(result, drifts), *_others(result)]
    compared = [Sentence(verdict(result.comparison))] if result.comparison else []
    return [*changes, *_quality(result), *compared, _model(result), *_records(result)]


def alone(result: Result) -> list[DatedLocalDrift]:
    """Return the drifts of some clients only, as they were found."""
    corrected = {drift.drift for drift in result.local_drifts if drift.state == "corrected"}
    return [drift for drift in result.local_drifts if drift.state == "latched" and drift.drift not in corrected]


def drifts_found(result: Result) -> str:
    """Return in one line which drifts were found: of all clients, and of some only.

    For instance ``1 at all clients (round 76), 1 at some clients (site=east, since round 50)``, or ``none``.
    """
    of_all = [count(restart.round) for restart in result.restarts if restart.cause != "operator"]
    of_some = drifts_of_some(result)
    parts = []
    if of_all:
        parts.append(
            f"{count(len(of_all))} at all clients ({'round' if len(of_all) == 1 else 'rounds'} {listed(of_all)})"
        )
    if of_some:
        whose = "; ".join(f"{listed(clients, 2)}, since round {count(since)}" for clients, since in of_some[:_SHOWN])
        more = f"; and {count(len(of_some) - _SHOWN)} more" if len(of_some) > _SHOWN else ""
        parts.append(f"{count(len(of_some))} at some clients ({whose}{more})")
    return ", ".join(parts) or "none"


def drifts_of_some(result: Result) -> list[tuple[list[str], int]]:
    """Return the clients of each local drift, which may be found at one after another, and the round it began in."""
    same: dict[int, list[DatedLocalDrift]] = {}
    for drift in alone(result):
        same.setdefault(drift.drift or drift.round, []).append(drift)
    return [
        ([*dict.fromkeys(client for part in parts for client in part.clients)], min(part.since for part in parts))
        for parts in same.values()
    ]


def _changes(result: Result) -> Iterator[Sentence]:
    """Yield the drifts that were found, and then each of the first ones, as time went."""
    over, found = counted(result.rounds, "round"), drifts_found(result)
    yield Sentence(f"No drift was found in {over}." if found == "none" else f"Drifts found in {over}: {found}.")
    known = {(change.kind, change.round): change.sentence for change in result.changes}
    every: list[DatedRestart | DatedLocalDrift] = [*result.restarts, *alone(result)]
    announced = sorted(every, key=lambda change: change.round)
    for change in announced[:_SHOWN]:
        kind: Kind = "local drift" if isinstance(change, DatedLocalDrift) else "restart"
        found = known.get((kind, change.round)) or sentence(change, clients=result.clients)
        yield Sentence(f"{found} {_done(result, change)}".rstrip())
    if len(announced) > _SHOWN:
        yield Sentence(f"There were {count(len(announced) - _SHOWN)} more; the cards of drifts show all.")


def _done(result: Result, change: DatedRestart | DatedLocalDrift) -> str:
    """Return what was done about a change."""
    if isinstance(change, DatedRestart):
        online = again(change, "; ", "began")
        return f"Epoch {count(change.epoch)} began with {model_named(change.chosen)}{online}."
    later = [
        drift
        for drift in result.local_drifts
        if drift.round > change.round and drift.state in LOCAL and not set(drift.clients).isdisjoint(change.clients)
    ]
    done = [
        f"in round {count(drift.round)} {pronoun(len(drift.clients))} {outcome_text(drift.state, len(drift.clients))}"
        for drift in later[:_SHOWN]
    ]
    return f"{'; '.join(done).capitalize()}." if done else ""


def _model(result: Result) -> Sentence:
    """Return which model to take, and how good it is."""
    if result.serving:
        what = f"The predictions came from {serves(result.serving)}."
    else:
        what = f"The predictions came from the round model of epoch {count(1 + len(result.restarts))}."
    if not any(figures.model_file is not None for figures in result.measures.values()):
        return Sentence(what)  # a model of others has no file
    told, is_worse = file_text(result)
    take = "Take the file of --model-out with care" if is_worse else "The model to take is the file of --model-out"
    return Sentence(f"{what} {take}: {told}.", warns=is_worse)


def file_text(result: Result) -> tuple[str, bool]:
    """Return how good the model file is, next to what clients predicted, and whether it is much worse."""
    is_classification = result.accuracy is not None
    figures, measure = (result.accuracy, "accuracy") if is_classification else (result.mae, "MAE")
    text = share if is_classification else quantity
    if figures is None or figures.model_file is None or figures.last_rounds is None:
        return "the model file could not be measured, because no round was predicted", False
    file, served = figures.model_file, figures.last_rounds
    is_worse = file < served - _MUCH if is_classification else file > served * _TIMES
    own = "" if figures.own_file is None else f", clients' own files {text(figures.own_file)}"
    files = f"the model file has {measure} {text(file)}{own}"
    told = f"on the last rounds {files}; the clients themselves had {text(served)}"
    lacks = "what only a client knows (its memory, its mixture) and what it learns within a round"
    return f"{told}. The file lacks {lacks}" if is_worse and result.serving else told, is_worse


def _missed(result: Result, drifts: Sequence[int]) -> Iterator[Sentence]:
    reached = [drift for drift in drifts if drift <= result.rounds]
    missed = unanswered([r.round for r in result.restarts], reached)
    if missed:
        which = f"the drift imposed at round {missed[0]}" if len(missed) == 1 else f"drifts at {listed(missed)}"
        yield Sentence(f"No restart followed {which} before the next drift or the end.", warns=True)
    if later := [drift for drift in drifts if drift > result.rounds]:
        yield Sentence(f"The run ended before the drift planned for round {listed(later)}.", warns=True)


def _quality(result: Result) -> Iterator[Sentence]:
    if result.accuracy is not None:
        ours, naive = result.accuracy.prequential, result.accuracy.no_change
        aim = f" Its labels were chosen for {result.objective}, not for accuracy." if result.objective else ""
        worse = "" if aim else _verdict(ours, naive)
        yield Sentence(
            f"{_tested(result)}, the model had accuracy {share(ours)}; repeating {_previous(result, 'label')} would "
            f"have had {share(naive)}.{worse}{aim}",
            warns=bool(worse),
        )
    if result.mae is not None:
        ours, naive = result.mae.prequential, result.mae.no_change
        worse = _verdict(naive, ours)
        yield Sentence(
            f"{_tested(result)}, the model was off by {quantity(ours)} on average; repeating "
            f"{_previous(result, 'target')} would have been off by {quantity(naive)}.{worse}",
            warns=bool(worse),
        )
    yield from map(Sentence, extremes(result.by_client, result.by_class))


def _tested(result: Result) -> str:
    if not result.label_delay:
        return "Tested on each record before learning it"
    return f"Tested on its prediction for each record, whose label came {counted(result.label_delay, 'record')} later"


def _previous(result: Result, what: str) -> str:
    return f"the last {what} known at the client" if result.label_delay else f"each client's previous {what}"


def _verdict(better: float | None, worse: float | None) -> str:
    beaten = better is not None and worse is not None and better < worse
    return " That baseline did better than the model." if beaten else ""


def _others(result: Result) -> Iterator[Sentence]:
    """Yield the drifts that reached clients in turn, and what was found that is not drift."""
    corrected = sorted({drift.drift for drift in result.local_drifts if drift.state == "corrected"})
    for number in corrected[:_SHOWN]:
        yield Sentence(_in_turn(result, number))
    for stuck in result.inputs_stuck[:_SHOWN]:
        yield Sentence(stuck_sentence(stuck), warns=True)
    if result.notices:
        rounds = listed(sorted({notice.round for notice in result.notices}))
        yield Sentence(
            f"The mix of classes changed (found in round {rounds}). This is not concept drift, so there was "
            "no restart."
        )


def _in_turn(result: Result, number: int) -> str:
    """Return a drift that reached clients in different rounds, with its beginning: the latest that was found.

    Where a round takes a client less time, its beginning is told more exactly.
    """
    found = [drift for drift in result.local_drifts if drift.drift == number and drift.state == "latched"]
    restarts = [restart for restart in result.restarts if restart.drift == number]
    every: list[DatedLocalDrift | DatedRestart] = [*found, *restarts]
    began = max((each.rows[0] for each in every if each.rows), default=None)
    time = max((each.since_time for each in every if each.since_time), default=None)
    when = f", at row {count(began)}" if began is not None else f", at {time}" if time else ""
    reached = [f"{listed(each.clients, 2)} in round {count(each.round)}" for each in every]
    positions = {name: first for each in reversed(every) for name, (first, _) in each.positions.items()}
    places = listed([f"{name} from {count(positions[name])}" for name in sorted(positions)])
    told = listed(reached, _SHOWN)
    return f"One drift began at the same time{when}, and reached clients in different rounds: {told} ({places})."


def _records(result: Result) -> Iterator[Sentence]:
    if result.rejected:
        yield Sentence(f"{counted(result.rejected, 'bad record')} {_was(result.rejected)} rejected.", warns=True)
    if result.left_out:
        yield Sentence(f"These columns were left out, because they are not features: {listed(result.left_out)}.")
    if result.infinite:
        yield Sentence(f"{counted(result.infinite, 'infinite value')} {_was(result.infinite)} treated as missing.")
    if result.unanswered:
        wrong = "as 0" if result.accuracy is None else "as wrong"
        answered = f"{counted(result.unanswered, 'record')} {_was(result.unanswered)} answered"
        yield Sentence(f"{answered} before there was any model, and count{'s' * (result.unanswered == 1)} {wrong}.")
    if result.expired:
        lost = f"{counted(result.expired, 'record')} {_was(result.expired)} given up"
        yield Sentence(f"{lost}: no label came in time.", warns=True)
    if nothing := useless(result):
        yield Sentence(f"{nothing[0].upper()}{nothing[1:]}.", warns=True)
    if result.pending:
        few = "their clients had too few records left for an update (--min-records)"
        if result.privacy is not None and result.privacy.secure_aggregation == "masked":
            few += f", or fewer than {result.privacy.min_clients_per_sum} clients had any for a total"
        answered = f" {count(result.answered)} of them count in the figures." if result.answered else ""
        sent = f"{counted(result.pending, 'record')} {_was(result.pending)} read but not sent: {few}."
        yield Sentence(sent + answered)
    if result.ahead:
        later = counted(result.ahead, "later record")
        yield Sentence(
            f"The figures look ahead: a record was predicted when models had learnt up to {later} of other clients.",
            warns=True,
        )
    if unaccounted(result):
        yield Sentence(f"The record counts do not add up: {ledger(result)}.", warns=True)


def _was(number: int) -> str:
    return "was" if number == 1 else "were"
