"""The rows of the report's tables, as text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from streamfl.core.protocol.messages import LocalDrift
from streamfl.evaluation.result import DatedRestart, Figures, Result
from streamfl.report.story import Delay, delays
from streamfl.report.words import MISSING, count, evidence, listed, local_evidence, quantity, serves, share

_MOMENTS = (
    ("prequential", "each record predicted just before it was learnt, by the model that serves"),
    ("round_start", "by the model of the round's start: as a model file would have"),
    ("post_update", "by the model after the round, which has learnt the record already"),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure at one moment, with NoChange beside it; `better` is None when the two do not compare."""

    name: str
    meaning: str
    model: str
    no_change: str
    difference: str
    better: bool | None


@dataclass(frozen=True, slots=True)
class RestartRow:
    """One restart as the table tells it."""

    round: str
    time: str
    epoch: str
    evidence: str
    chosen: str
    since: str
    clients: str
    labels: str
    delay: str


@dataclass(frozen=True, slots=True)
class LocalRow:
    """One drift of some clients only."""

    round: str
    since: str
    state: str
    evidence: str
    clients: str
    labels: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One named figure, and what it means or compares with."""

    name: str
    value: str
    note: str = ""


def measured(result: Result) -> list[Measured]:
    """Return every accuracy (or error) of the run, each with NoChange beside it.

    Parameters
    ----------
    result
        What the run found.

    Returns
    -------
    list of Measured
        Three rows a measure: prequential, round_start, post_update.
    """
    rows: list[Measured] = []
    for name, figures in (("accuracy", result.accuracy), ("MAE", result.mae), ("RMSE", result.rmse)):
        if figures is not None:
            rows.extend(_moments(name, figures, higher_is_better=name == "accuracy"))
    return rows


def _moments(name: str, figures: Figures, *, higher_is_better: bool) -> Iterator[Measured]:
    text = share if higher_is_better else quantity
    for moment, meaning in _MOMENTS:
        ours, naive = getattr(figures, moment), figures.no_change
        gap = None if ours is None or naive is None else ours - naive
        yield Measured(
            name=f"{name}, {moment}",
            meaning=meaning,
            model=text(ours),
            no_change=text(naive),
            difference=_signed(gap, text),
            better=None if not gap else (gap > 0) == higher_is_better,
        )


def _signed(gap: float | None, text: Callable[[float | None], str]) -> str:
    sign = "+" if gap is not None and gap > 0 else ""
    return sign + text(gap)


def headline(result: Result) -> list[Fact]:
    """Return the few figures that say how good the run was.

    Parameters
    ----------
    result
        What the run found.

    Returns
    -------
    list of Fact
        The first is the prequential accuracy or error, with NoChange in its note.
    """
    return [*_scores(result), *_kappas(result), Fact("loss", share(result.loss.prequential), "0 best, 1 worst")]


def _scores(result: Result) -> Iterator[Fact]:
    measures = (("accuracy", result.accuracy, share), ("MAE", result.mae, quantity), ("RMSE", result.rmse, quantity))
    for name, figures, text in measures:
        if figures is not None:
            yield Fact(f"{name}, prequential", text(figures.prequential), f"NoChange {text(figures.no_change)}")


def _kappas(result: Result) -> Iterator[Fact]:
    if result.kappa is not None:
        yield Fact("kappa, Cohen", share(result.kappa.cohen), "accuracy above the class mix")
        yield Fact("kappa, temporal", share(result.kappa.temporal), "accuracy above NoChange")


def restart_rows(restarts: Sequence[DatedRestart], drifts: Sequence[int]) -> list[RestartRow]:
    """Return the table of restarts.

    Parameters
    ----------
    restarts
        The restarts of the run, by round.
    drifts
        Rounds at which a drift was imposed; empty if none is known.

    Returns
    -------
    list of RestartRow
        One row a restart.
    """
    found = delays([restart.round for restart in restarts], drifts)
    return [_restart_row(restart, delay) for restart, delay in zip(restarts, found, strict=True)]


def _restart_row(restart: DatedRestart, delay: Delay | None) -> RestartRow:
    return RestartRow(
        round=count(restart.round),
        time=restart.time or MISSING,
        epoch=count(restart.epoch),
        evidence=evidence(restart),
        chosen=restart.chosen,
        since=count(restart.since),
        clients=listed(restart.clients),
        labels=listed(restart.labels),
        delay=f"{count(delay.rounds)} (drift at {count(delay.drift)})" if delay else "no drift imposed there",
    )


def local_rows(drifted: Sequence[LocalDrift]) -> list[LocalRow]:
    """Return the table of the drifts that only some clients had."""
    return [_local_row(drift) for drift in drifted]


def _local_row(drift: LocalDrift) -> LocalRow:
    return LocalRow(
        round=count(drift.round),
        since=count(drift.since),
        state=drift.state,
        evidence=local_evidence(drift),
        clients=listed(drift.clients),
        labels=listed(drift.labels),
    )


def facts(result: Result) -> list[Fact]:
    """Return what the run was, as far as somebody needs it to run it again or to find its model."""
    return [
        Fact("source", result.source),
        Fact("seed", str(result.seed)),
        Fact("profile", result.profile),
        Fact("rounds", count(result.rounds)),
        Fact("clients", count(result.clients)),
        Fact("restarts", count(len(result.restarts))),
        Fact("promotions", count(result.promotions)),
        *([Fact("serving", serves(result.serving), "its part in what was served")] if result.serving else []),
        Fact("time", f"{result.seconds:,.1f} s"),
        Fact("rate", f"{count(result.records_per_second)} records/s"),
        Fact("streamfl", result.streamfl),
        Fact("model_sha256", result.model_sha256 or MISSING),
    ]
