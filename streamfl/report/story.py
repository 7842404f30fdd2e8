"""A run in sentences: the first part of the report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamfl.evaluation.result import DatedRestart, Result
from streamfl.report.words import count, counted, evidence, listed, quantity, share

# A further restart within so many rounds after a drift still answers it; benchmarks count the same way.
_STILL = 5
_SHOWN = 6


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


def unaccounted(result: Result) -> int:
    """Return the number of records read but not accounted for; 0 unless there is a defect."""
    return result.records - result.accepted - result.rejected - result.pending


def ledger(result: Result) -> str:
    """Return the equation of the record counts, which must hold, and the difference if it does not.

    Parameters
    ----------
    result
        The result of the run.

    Returns
    -------
    str
        For instance ``read 92,962 = accepted 92,960 + rejected 2 + pending 0``.
    """
    parts = f"accepted {count(result.accepted)} + rejected {count(result.rejected)} + pending {count(result.pending)}"
    off = unaccounted(result)
    relation, remark = ("is not", f" (off by {count(off)})") if off else ("=", "")
    return f"read {count(result.records)} {relation} {parts}{remark}"


def epochs(result: Result) -> list[tuple[int, int]]:
    """Return the number and first round of each epoch, starting with the epoch of the first round in `per_round`."""
    if not result.per_round:
        return []
    first = result.per_round[0]
    later = sorted((r.round, r.epoch) for r in result.restarts)
    return [(first.epoch, first.round), *((epoch, at) for at, epoch in later if at >= first.round)]


def story(result: Result, drifts: Sequence[int]) -> list[Sentence]:
    """Return what happened, most important first.

    Parameters
    ----------
    result
        The result of the run.
    drifts
        The first round of each imposed drift; empty if none is known.

    Returns
    -------
    list of Sentence
        A handful; each can be read alone.
    """
    if result.rounds == 0:
        return [Sentence("No round was closed, so nothing was learnt.", warns=True), *_records(result)]
    return [*_restarts(result), *_missed(result, drifts), *_quality(result), *_local(result), *_records(result)]


def _restarts(result: Result) -> Iterator[Sentence]:
    over = counted(result.rounds, "round")
    if not result.restarts:
        yield Sentence(f"There was no restart in {over}.")
        return
    yield Sentence(f"There {_were(len(result.restarts), 'restart')} in {over}.")
    for restart in result.restarts[:_SHOWN]:
        yield Sentence(_restart(restart))
    if len(result.restarts) > _SHOWN:
        yield Sentence(f"The table of restarts lists {count(len(result.restarts) - _SHOWN)} more.")


def _restart(restart: DatedRestart) -> str:
    seen = "a label not seen before" if restart.cause == "new-label" else evidence(restart)
    when = f" ({restart.time})" if restart.time else ""
    return (
        f"Round {count(restart.round)}{when}: {seen}, change since round {count(restart.since)}; "
        f"epoch {count(restart.epoch)} began with model {restart.chosen}."
    )


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
        yield Sentence(
            f"Tested on each record before learning it, the model had accuracy {share(ours)}; repeating each "
            f"client's previous label has {share(naive)}.{_verdict(ours, naive)}",
            warns=bool(_verdict(ours, naive)),
        )
    if result.mae is not None:
        ours, naive = result.mae.prequential, result.mae.no_change
        worse = _verdict(naive, ours)
        yield Sentence(
            f"Tested on each record before learning it, the model was off by {quantity(ours)} on average; "
            f"repeating each client's previous target would have been off by {quantity(naive)}.{worse}",
            warns=bool(worse),
        )


def _verdict(better: float | None, worse: float | None) -> str:
    beaten = better is not None and worse is not None and better < worse
    return " That baseline did better than the model." if beaten else ""


def _local(result: Result) -> Iterator[Sentence]:
    if result.local_drifts:
        rounds = listed(sorted({drift.round for drift in result.local_drifts}))
        yield Sentence(f"Only some clients drifted (detected in round {rounds}); see the local drifts.")
    if result.notices:
        rounds = listed(sorted({notice.round for notice in result.notices}))
        yield Sentence(f"The class mix changed (detected in round {rounds}): not a concept drift, so no restart.")


def _records(result: Result) -> Iterator[Sentence]:
    if result.rejected:
        yield Sentence(f"{counted(result.rejected, 'bad record')} {_was(result.rejected)} rejected.", warns=True)
    if result.left_out:
        yield Sentence(f"Columns left out, as they are not features: {listed(result.left_out)}.")
    if result.infinite:
        yield Sentence(f"{counted(result.infinite, 'infinite value')} {_was(result.infinite)} treated as missing.")
    if result.pending:
        few = "the client had too few left to send an update (--least)"
        yield Sentence(f"{counted(result.pending, 'record')} {_was(result.pending)} read but not learnt: {few}.")
    if unaccounted(result):
        yield Sentence(f"The record counts do not add up: {ledger(result)}.", warns=True)


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def _were(number: int, noun: str) -> str:
    return f"{_was(number)} {counted(number, noun)}"
