"""The tables of the report, as rows of text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from streamfl.run.evaluation.result import DatedLocalDrift, DatedRestart, Figures, Result
from streamfl.run.report.story import Delay, delays
from streamfl.run.report.words import (
    MISSING,
    beginning,
    count,
    counted,
    evidence,
    listed,
    model_named,
    quantity,
    same_drift,
    serves,
    share,
)

_MOMENTS = (
    ("prequential", "each record predicted just before it is learnt, by the model that predicts then"),
    ("round_start", "by the round model, as it was at the start of the round"),
    ("post_update", "by the model after the round, which has already learnt the record: too optimistic"),
)
_LATE = (
    ("prequential", "the prediction that was given before the label came"),
    ("round_start", "by the round model, as it was at the start of the round in which the label came"),
    _MOMENTS[2],
)


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of one predictor, with NoChange beside it; `better` is None if they are equal or unknown."""

    name: str
    meaning: str
    model: str
    no_change: str
    difference: str
    better: bool | None


@dataclass(frozen=True, slots=True)
class RestartRow:
    """One row of the table of restarts."""

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
    """One row of the table of local drifts."""

    round: str
    since: str
    state: str
    evidence: str
    clients: str
    labels: str


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A value with its name, and a note on its meaning or what to compare it with."""

    name: str
    value: str
    note: str = ""


def measured(result: Result) -> list[MetricRow]:
    """Return all accuracies (or errors) of the run, each with NoChange beside it.

    Parameters
    ----------
    result
        The result of the run.

    Returns
    -------
    list of Measured
        Three rows per metric: prequential, round_start, post_update.
    """
    rows: list[MetricRow] = []
    for name, figures in (("accuracy", result.accuracy), ("MAE", result.mae), ("RMSE", result.rmse)):
        if figures is not None:
            moments = _LATE if result.label_delay else _MOMENTS
            rows.extend(_measured(name, figures, moments, higher_is_better=name == "accuracy"))
    return rows


def _measured(
    name: str, figures: Figures, moments: Sequence[tuple[str, str]], *, higher_is_better: bool
) -> Iterator[MetricRow]:
    text = share if higher_is_better else quantity
    for moment, meaning in moments:
        ours, naive = getattr(figures, moment), figures.no_change
        gap = None if ours is None or naive is None else ours - naive
        yield MetricRow(
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


def headline(result: Result) -> list[NamedValue]:
    """Return the few numbers that summarise the quality of the run.

    Parameters
    ----------
    result
        The result of the run.

    Returns
    -------
    list of NamedValue
        The first is the prequential accuracy or error, with NoChange in its note.
    """
    return [*_scores(result), *_kappas(result), NamedValue("loss", share(result.loss.prequential), "0 best, 1 worst")]


def _scores(result: Result) -> Iterator[NamedValue]:
    measures = (("accuracy", result.accuracy, share), ("MAE", result.mae, quantity), ("RMSE", result.rmse, quantity))
    for name, figures, text in measures:
        if figures is not None:
            yield NamedValue(f"{name}, prequential", text(figures.prequential), f"NoChange {text(figures.no_change)}")


def _kappas(result: Result) -> Iterator[NamedValue]:
    if result.kappa is not None:
        yield NamedValue("kappa, Cohen", share(result.kappa.cohen), "0: as good as guessing by the mix of classes")
        yield NamedValue("kappa, temporal", share(result.kappa.temporal), "0: as good as NoChange")


def restart_rows(restarts: Sequence[DatedRestart], drifts: Sequence[int]) -> list[RestartRow]:
    """Return the table of restarts.

    Parameters
    ----------
    restarts
        The restarts of the run, by round.
    drifts
        The first round of each imposed drift; empty if none is known.

    Returns
    -------
    list of RestartRow
        One row per restart.
    """
    answers = delays([restart.round for restart in restarts], drifts)
    return [_restart_row(restart, delay) for restart, delay in zip(restarts, answers, strict=True)]


def _restart_row(restart: DatedRestart, delay: Delay | None) -> RestartRow:
    return RestartRow(
        round=count(restart.round),
        time=restart.time or MISSING,
        epoch=count(restart.epoch),
        evidence=evidence(restart),
        chosen=model_named(restart.chosen),
        since=beginning(restart).removeprefix("round "),
        clients=listed(restart.clients),
        labels=listed(restart.labels),
        delay=f"{count(delay.rounds)} (drift at {count(delay.drift)})" if delay else "no imposed drift",
    )


def local_rows(drifted: Sequence[DatedLocalDrift]) -> list[LocalRow]:
    """Return the table of local drifts."""
    return [_local_row(drift) for drift in drifted]


def _local_row(drift: DatedLocalDrift) -> LocalRow:
    return LocalRow(
        round=count(drift.round),
        since=beginning(drift).removeprefix("round "),
        state=drift.state + same_drift(drift),
        evidence=evidence(drift),
        clients=listed(drift.clients),
        labels=listed(drift.labels),
    )


def _late_labels(result: Result) -> Iterator[NamedValue]:
    if result.label_delay:
        yield NamedValue("label delay", counted(result.label_delay, "record"), "of the same client")
        yield NamedValue("predicted before any model", count(result.unanswered or 0), "counted as wrong, or as 0")
        yield NamedValue("waiting", count(result.waiting or 0), "predicted, but not learnt by the end")
        yield NamedValue("expired", count(result.expired or 0), "their label did not come in time")


def facts(result: Result) -> list[NamedValue]:
    """Return what is needed to repeat the run or to identify its model."""
    return [
        NamedValue("source", result.source),
        NamedValue("seed", str(result.seed)),
        NamedValue("profile", result.profile),
        *_late_labels(result),
        NamedValue("rounds", count(result.rounds)),
        NamedValue("clients", count(result.clients)),
        NamedValue("restarts", count(len(result.restarts))),
        NamedValue("promotions", count(result.promotions)),
        *([NamedValue("serving", serves(result.serving), "share of the predictions")] if result.serving else []),
        NamedValue("time", f"{result.seconds:,.1f} s"),
        NamedValue("rate", f"{count(result.records_per_second)} records/s"),
        *(
            [
                NamedValue(
                    "bytes sent",
                    f"{result.bytes.up:.1f} per record",
                    f"the record itself has {result.bytes.raw:.0f} as float32",
                )
            ]
            if result.bytes
            else []
        ),
        NamedValue("streamfl", result.streamfl),
        NamedValue("model_sha256", result.model_sha256 or MISSING),
    ]
