"""What a run's figures say, in sentences: the part of the report that is read first, at three in the morning."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamfl.evaluation.result import DatedRestart, Result
from streamfl.report.words import count, counted, evidence, listed, quantity, share

# Within so many rounds after a drift, a further restart still answers it; benchmarks count the same way.
_STILL = 5
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Sentence:
    """One statement; `warns` if somebody should look into it."""

    text: str
    warns: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """How a restart answers an imposed drift: `rounds` after the drift of round `drift`."""

    rounds: int
    drift: int


def delays(restarts: Sequence[int], drifts: Sequence[int]) -> list[Delay | None]:
    """Return for each restart the drift that it answers.

    That is the nearest drift before it, unless an earlier restart answered that one more than five rounds
    ago: what is found that late was not imposed there.

    Parameters
    ----------
    restarts
        Rounds with a restart, increasing.
    drifts
        Rounds at which a drift was imposed, the first round that has it.

    Returns
    -------
    list of Delay or None
        In the order of `restarts`; None where no drift was imposed.

    >>> delays([32, 34, 60, 99], [31, 97])
    [Delay(rounds=1, drift=31), Delay(rounds=3, drift=31), None, Delay(rounds=2, drift=97)]
    """
    answered: set[int] = set()
    found: list[Delay | None] = []
    for at in restarts:
        drift = max((d for d in drifts if d <= at), default=None)
        late = drift is None or (drift in answered and at - drift > _STILL)
        found.append(None if drift is None or late else Delay(at - drift, drift))
        answered.update(() if drift is None else (drift,))
    return found


def unanswered(restarts: Sequence[int], drifts: Sequence[int]) -> list[int]:
    """Return the drifts that no restart followed before the next drift.

    >>> unanswered([32, 99], [31, 65, 97])
    [65]
    """
    met = {delay.drift for delay in delays(restarts, drifts) if delay}
    return [drift for drift in drifts if drift not in met]


def unaccounted(result: Result) -> int:
    """Return how many records were read and never accounted for: 0, or the ledger is broken."""
    return result.records - result.accepted - result.rejected - result.pending


def ledger(result: Result) -> str:
    """Return the equation that must hold, and by how much it fails if it does.

    Parameters
    ----------
    result
        What the run found.

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
    """Return each epoch's number with the round at which it begins, from the first round kept on."""
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
        What the run found.
    drifts
        Rounds at which a drift was imposed; empty if none is known.

    Returns
    -------
    list of Sentence
        A handful, each complete in itself.
    """
    if result.rounds == 0:
        return [Sentence("No round was closed, so nothing was learnt.", warns=True), *_records(result)]
    return [*_restarts(result), *_missed(result, drifts), *_quality(result), *_local(result), *_records(result)]


def _restarts(result: Result) -> Iterator[Sentence]:
    over = counted(result.rounds, "round")
    if not result.restarts:
        yield Sentence(f"There was no restart: over {over}, no alarm made the model start over.")
        return
    yield Sentence(f"There {_were(len(result.restarts), 'restart')} in {over}.")
    for restart in result.restarts[:_SHOWN]:
        yield Sentence(_told(restart))
    if len(result.restarts) > _SHOWN:
        yield Sentence(f"{count(len(result.restarts) - _SHOWN)} more are in the table of restarts.")


def _told(restart: DatedRestart) -> str:
    seen = "a label not seen before" if restart.cause == "new-label" else evidence(restart)
    when = f" ({restart.time})" if restart.time else ""
    return (
        f"Round {count(restart.round)}{when}: {seen}, with the change dated to round {count(restart.since)}; "
        f"epoch {count(restart.epoch)} began with {restart.chosen}."
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
            f"Tested on each record before learning it, the model's accuracy was {share(ours)}; repeating each "
            f"client's previous label gives {share(naive)}.{_verdict(ours, naive)}",
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
    return " That naive rule did better than the model." if beaten else ""


def _local(result: Result) -> Iterator[Sentence]:
    if result.local_drifts:
        rounds = listed(sorted({drift.round for drift in result.local_drifts}))
        yield Sentence(f"Some clients drifted on their own (found at round {rounds}); see the local drifts.")
    if result.notices:
        rounds = listed(sorted({notice.round for notice in result.notices}))
        yield Sentence(f"The mix of labels changed (noticed in round {rounds}): no drift of the concept, no restart.")


def _records(result: Result) -> Iterator[Sentence]:
    if result.rejected:
        yield Sentence(f"{counted(result.rejected, 'bad record')} {_was(result.rejected)} rejected.", warns=True)
    if result.left_out:
        yield Sentence(f"Left out, as they are no features: {listed(result.left_out)}.")
    if result.infinite:
        yield Sentence(f"{counted(result.infinite, 'infinite value')} {_was(result.infinite)} taken for missing.")
    if result.pending:
        few = "too few to leave a client"
        yield Sentence(f"{counted(result.pending, 'record')} {_was(result.pending)} read and not learnt: {few}.")
    if unaccounted(result):
        yield Sentence(f"The record ledger does not add up: {ledger(result)}.", warns=True)


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def _were(number: int, noun: str) -> str:
    return f"{_was(number)} {counted(number, noun)}"
