"""Formats numbers and names as text, the same way in the report and in a terminal."""

import math
from collections.abc import Mapping, Sequence

from streamfl.run.evaluation.result import DatedFinding, DatedLocalDrift, DatedRestart

MISSING = "–"

# Smaller shares are not listed.
LEAST_SHARE = 0.01

# What people call the models that predict: the first part of a name is its kind.
KINDS = {
    "whitened": "linear model",
    "linear": "linear model",
    "fern": "fast trees",
    "neighbours": "nearest records",
    "last": "last label",
    "rounds": "round model",
    "own": "each client's own model",
}

# What the model is that an epoch begins with, by the first part of its name.
CHOSEN = {
    "scratch": "an untrained model",
    "incumbent": "the same model as before",
    "recall": "the model of an earlier epoch",
    "relabelled": "the same model with its labels renamed",
    "branch": "the model of clients that had drifted alone",
    "round": "the model that predicted in that round",
}

IN_PARALLEL = "a model trained in parallel"

# What happened to clients that drifted alone, by the state of their drift.
LOCAL = {
    "latched": "drifted alone",
    "branched": "got a model of their own",
    "released": "learnt with all clients again, because no other model was clearly better for them",
    "merged": "learnt with all clients again, because their own model was hardly better",
    "returned": "learnt with all clients again, because the model of all clients was better for them by then",
    "restarted": "began a new epoch together with all clients",
}


def outcome_text(state: str, clients: int) -> str:
    """Return what happened to so many clients that drifted alone.

    >>> outcome_text("branched", 1), outcome_text("merged", 2)
    ('got a model of its own', 'learnt with all clients again, because their own model was hardly better')
    """
    words = LOCAL.get(state, "")
    if clients == 1:
        words = words.replace("their", "its").replace("them", "it")
    return words


def pronoun(clients: int) -> str:
    """Return what so many clients are called in a second sentence about them."""
    return "it" if clients == 1 else "they"


def share(value: float | None, missing: str = MISSING) -> str:
    """Return a number on a fixed scale (accuracy, kappa, loss) with three decimals.

    >>> share(0.70249), share(-0.0001), share(None)
    ('0.702', '0.000', '–')
    """
    return missing if value is None or not math.isfinite(value) else f"{value:z.3f}"


def quantity(value: float | None, missing: str = MISSING) -> str:
    """Return a number on any scale (a statistic, an error in the target's unit) with four digits.

    >>> quantity(113.84), quantity(11.7), quantity(0.00031), quantity(123456.7), quantity(2.5e30)
    ('113.8', '11.7', '0.00031', '123,457', '2.5e+30')
    """
    if value is None or math.isnan(value):
        return missing
    return f"{value:z,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:z.4g}"


def measured(value: float | None, *, of_errors: bool) -> str:
    """Return a mean absolute error, or an accuracy."""
    return quantity(value) if of_errors else share(value)


def ending(name: str, most: int = 20) -> str:
    """Return a name by its end, where long names of one federation differ.

    >>> ending("machine 7"), ending("plant=north/hall=2/machine=017")
    ('machine 7', '…/hall=2/machine=017')
    """
    return name if len(name) <= most else f"…{name[1 - most :]}"


def count(number: float) -> str:
    """Return a count with thousands separators.

    >>> count(92962)
    '92,962'
    """
    return f"{number:,.0f}"


def counted(number: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1.

    >>> counted(1, "round"), counted(1200, "round")
    ('1 round', '1,200 rounds')
    """
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[object], at_most: int = 8) -> str:
    """Return the names in one line; beyond `at_most` only their number, as there may be thousands of clients.

    >>> listed(["a", "b", "c"]), listed("abcd", at_most=2), listed([])
    ('a, b, c', 'a, b and 2 more', '–')
    """
    shown = ", ".join(str(name) for name in names[:at_most]) or MISSING
    rest = len(names) - at_most
    return f"{shown} and {count(rest)} more" if rest > 0 else shown


def evidence(found: DatedRestart | DatedLocalDrift) -> str:
    """Return the evidence of an alarm: the detector, its statistic and its threshold.

    A new label is not a test, so it has no numbers. Local drifts do not tell which detector found them.

    Returns
    -------
    str
        For instance ``drift score 114 (alarm at 9.2)``, with the detector's name if it is not ``excess``.
    """
    cause = "excess" if isinstance(found, DatedLocalDrift) else found.cause
    if cause == "new-label":
        return "a new label"
    if cause == "operator":
        return "an operator asked for it"
    if cause == "answers":
        return f"answers became worse, score {score(found.statistic)} (alarm at {score(found.threshold)})"
    by = "" if cause == "excess" else f"{cause} "
    return f"{by}drift score {score(found.statistic)} (alarm at {score(found.threshold)})"


def beginning(finding: DatedFinding, at_most: int = 2) -> str:
    """Return when a change began: the round, and in brackets the time, or else the row, and some positions.

    Parameters
    ----------
    at_most
        How many partitions are listed with the position from which on their records changed.

    >>> drift = DatedLocalDrift(round=65, epoch=1, clients=("c3",), since=64, state="latched", statistic=23.4,
    ...                         threshold=9.2, positions={"c3": (1234, 1279)}, since_time="2023-11-14T22:13:20Z")
    >>> beginning(drift)
    'round 64 (2023-11-14T22:13:20Z; c3 from 1,234)'
    """
    told = [text] if (text := since_time(finding)) else []
    if finding.positions:
        told.append(
            listed([f"{name} from {count(first)}" for name, (first, _) in finding.positions.items()], at_most)
        )
    if told and finding.known_since > finding.since:
        told.append(f"positions of round {count(finding.known_since)}, the earliest known")
    return f"round {count(finding.since)}" + (f" ({'; '.join(told)})" if told else "")


def same_drift(finding: DatedFinding) -> str:
    """Return that a finding is of a drift that was reported before, if it is."""
    return f", the same drift as in round {count(finding.drift)}" if 0 < finding.drift < finding.round else ""


def since_time(finding: DatedFinding) -> str | None:
    """Return when a change began, as ISO 8601 in UTC, or as a row of a file without times; None if unknown."""
    return finding.since_time if finding.rows is None else f"row {count(finding.rows[0])}"


def score(value: float) -> str:
    """Return a statistic or a threshold as short as people need it.

    >>> score(322.14), score(9.21), score(0.00031)
    ('322', '9.2', '0.00031')
    """
    if not math.isfinite(value) or abs(value) < 1:
        return quantity(value) if not math.isfinite(value) else f"{value:z.2g}"
    return count(value) if abs(value) >= 100 else f"{value:.1f}"


def model_named(name: str) -> str:
    """Return the model that an epoch or a branch begins with: what it is, and its name.

    >>> model_named("recall-3"), model_named("step-16")
    ('the model of an earlier epoch (recall-3)', 'a model trained in parallel (step-16)')
    """
    return f"{CHOSEN.get(name.partition('-')[0], IN_PARALLEL)} ({name})"


def again(restart: DatedRestart, separator: str, begin: str = "begin") -> str:
    """Return `separator` and that online models begin again; an empty text if they do not.

    >>> again(DatedRestart(round=32, epoch=2, cause="excess", statistic=113.8, threshold=9.21, chosen="scratch",
    ...                    since=32, clients=(), labels=(), online_models_begin_again=True), "; ", "began")
    '; online models began again'
    """
    return f"{separator}online models {begin} again" if restart.online_models_begin_again else ""


def serves(shares: Mapping[str, float], most: int = 4) -> str:
    """Return the kinds of models with the largest shares in the predictions.

    >>> serves({"linear-10": 0.1, "whitened-0.1": 0.2, "fern-8-10": 0.6, "rounds": 0.004})
    'fast trees 60%, linear model 30%'
    """
    kinds: dict[str, float] = {}
    for name, part in shares.items():
        kind = KINDS.get(name.partition("-")[0], name)
        kinds[kind] = kinds.get(kind, 0.0) + part
    largest = sorted(kinds.items(), key=lambda item: -item[1])[:most]
    return ", ".join(f"{name} {part:.0%}" for name, part in largest if part >= LEAST_SHARE)
