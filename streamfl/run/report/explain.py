"""What happened in a run, or in one round of it, in sentences for people who have not seen the run."""

from collections.abc import Iterator, Mapping

from streamfl.run.evaluation.result import DatedLocalDrift, DatedRestart, Result
from streamfl.run.report.changes import moved_sentence, stuck_sentence
from streamfl.run.report.story import story
from streamfl.run.report.words import count, counted, listed, model_named, outcome_text, score, share
from streamfl.run.summary import RoundLine

# The mean of this many rounds before a round is reported next to it.
BEFORE = 10

# Candidates that are listed; profile `adaptive` has 24 at most.
MOST_CANDIDATES = 30


def explained(result: Result, round: int | None = None) -> list[str]:  # noqa: A002  the user's word
    """Return sentences about a run, or about one of its rounds.

    Parameters
    ----------
    round
        The round; None: the whole run.

    Raises
    ------
    ValueError
        The run has no such round.
    """
    if round is None:
        return [sentence.text for sentence in story(result, ())]
    if not 1 <= round <= result.rounds:
        raise ValueError(f"the run has no round {round}; name a round from 1 to {count(result.rounds)}")
    return [*_quality(result, round), *_found(result, round), *_since(result, round)]


def _quality(result: Result, t: int) -> Iterator[str]:
    """Yield how good the predictions of a round were, next to the rounds before it."""
    lines = {line.round: line for line in result.per_round}
    if t not in lines:
        yield f"Round {count(t)} of {count(result.rounds)}. To see how good it was, write the file with --per-round."
        return
    line, before = lines[t], [lines[s] for s in range(max(1, t - BEFORE), t) if s in lines]
    place = f"Round {count(t)} of {count(result.rounds)}, epoch {line.epoch}"
    text = f"{place}, {count(line.records)} records: {_of([line])}"
    yield f"{text}; in the {counted(len(before), 'round')} before it {_of(before)}." if before else f"{text}."


def _of(lines: list[RoundLine]) -> str:
    records = sum(line.records for line in lines)

    def mean(name: str) -> float:
        values: list[float | None] = [getattr(line, name) for line in lines]
        return sum((value or 0.0) * line.records for value, line in zip(values, lines, strict=True)) / records

    if lines[0].mae is not None:
        return f"mean absolute error {mean('mae'):.4g} (NoChange {mean('no_change'):.4g})"
    return f"accuracy {mean('accuracy'):.3f} (NoChange {mean('no_change'):.3f})"


def _found(result: Result, t: int) -> Iterator[str]:
    """Yield what was found in a round, and what was done about it."""
    for change in result.changes:
        if change.round == t:
            yield change.sentence
    for moved in result.inputs_moved:
        if moved.round == t:
            yield moved_sentence(moved)
    for stuck in result.inputs_stuck:
        if stuck.round == t:
            yield stuck_sentence(stuck)
    for restart in result.restarts:
        if restart.round == t:
            yield from _restart(restart)
    for drift in result.local_drifts:
        if drift.round == t:
            yield _local(drift)
            if drift.gains:
                gains = _ranked(drift.gains, highest=True)
                yield f"By how much each candidate's loss was lower than that of the model of all clients: {gains}."


def _local(drift: DatedLocalDrift) -> str:
    """Return what happened to clients that drifted alone."""
    whose = f"Client{'s' * (len(drift.clients) != 1)} {listed(drift.clients)}"
    if drift.state == "corrected":
        return f"{whose} did not drift alone: other clients had the same drift (corrected)."
    return f"{whose} {outcome_text(drift.state, len(drift.clients))} ({drift.state})."


def _restart(restart: DatedRestart) -> Iterator[str]:
    """Yield how sure a restart was, and what was chosen among which candidates."""
    is_best = restart.scores.get(restart.chosen, 0.0) <= min(restart.scores.values(), default=0.0)
    chosen = "the model that predicted best" if is_best else "the model that the operator asked for"
    if restart.cause == "operator":
        why = "An operator asked for a new epoch"
    else:
        numbers = f"{score(restart.statistic)}; it raises an alarm above {score(restart.threshold)}"
        why = f"The drift score (detector {restart.cause}) was {numbers}"
    yield f"{why}. Epoch {restart.epoch} began with {chosen}: {model_named(restart.chosen)}."
    if restart.online_models_begin_again:
        yield "Online models began again, because untrained ones predicted this round better at most clients."
    if restart.scores:
        yield f"Mean loss of each candidate on the records of this round: {_ranked(restart.scores)}."


def _ranked(numbers: Mapping[str, float], *, highest: bool = False) -> str:
    """Return candidates with a number of each, the least first, or the highest.

    >>> _ranked({"scratch": 0.5, "relabelled": 0.2125})
    'relabelled 0.212, scratch 0.500'
    """
    names = sorted(numbers, key=lambda name: numbers[name], reverse=highest)
    return listed([f"{name} {share(numbers[name])}" for name in names], MOST_CANDIDATES)


def _since(result: Result, t: int) -> Iterator[str]:
    """Yield which change a round belongs to, if none was found in it."""
    found = {*(change.round for change in result.changes), *(drift.round for drift in result.local_drifts)}
    if t in found:
        return
    begun = [change for change in result.changes if change.since <= t < change.round]
    if begun:
        change = begun[0]
        yield f"This round belongs to a drift that was found only in round {count(change.round)}: {change.sentence}"
        return
    yield "No drift was found in this round."
    earlier = [change for change in result.changes if change.round < t]
    if earlier:
        yield f"The last drift before it was found in round {count(earlier[-1].round)}: {earlier[-1].sentence}"
