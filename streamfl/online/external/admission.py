"""Checks what a client's update says its external model has learnt: an impossible state is refused."""

import numpy as np

from streamfl.bounds import NAMED, Limits, is_name
from streamfl.online.external.merging import refusal
from streamfl.protocol.external.interface import ExternalModel
from streamfl.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.protocol.external.tables import Exported

# The names of rows may be so many times as long as the name of a feature: they may be derived from several.
DERIVED = 4

# Larger numbers are refused: a count times the square of a mean must be finite.
LARGEST = 1e100


def wrong_external(
    learnt: ExternalLearnt, agreed: ExternalState, model: ExternalModel, *, records: int, limits: Limits = NAMED
) -> str | None:
    """Return why a client's external model cannot be merged, or None if it can."""
    if learnt.records != records or not 0 <= learnt.unlearnt <= records:
        return "the external model has another number of records than the update"
    if learnt.state is None:
        return (
            None if learnt.unlearnt == records else "the external model has learnt records, but its state is missing"
        )
    reason = (
        _named_too_much(learnt.state, limits)
        or unusable(learnt.state, agreed)
        or _counted_more(learnt.state, agreed, records)
        or model.refusal(learnt.state, agreed)
    )
    return None if reason is None else f"an external model that cannot be merged: {reason}"


def _named_too_much(state: Exported, limits: Limits) -> str | None:
    """Return why a state has too many names, or too long ones, or None.

    Names of rows may be derived: a product of features has the names of both.
    """
    if state.names > limits.external_names:
        return f"{state.names} names, but at most {limits.external_names} are allowed"
    names = (name for path, table in state.tables.items() for name in (path, *table.rows, *table.columns))
    fit = all(is_name(name, DERIVED * limits.name_bytes) for name in names)
    return None if fit else "names are too long"


def within(learnt: ExternalLearnt, limits: Limits) -> ExternalLearnt:
    """Return what a client may send; without a state if its names are too many, or too long."""
    if learnt.state is None or _named_too_much(learnt.state, limits) is None:
        return learnt
    return ExternalLearnt(None, learnt.records, learnt.records)


def unusable(state: Exported, agreed: ExternalState) -> str | None:
    """Return why a state cannot be merged with others that began at the same agreed state, or None.

    >>> from streamfl.protocol.external.tables import ExportedTable
    >>> def exported(x):
    ...     return Exported("Linear", {"Linear.weights": ExportedTable.column("mean", "weight", {"x": x})})
    >>> unusable(exported(float("nan")), ExternalState(exported(0.0)))
    'Linear.weights has values that are not finite'
    >>> unusable(exported(1e101), ExternalState(exported(0.0)))
    'Linear.weights has values that are far too large'
    """
    reason = refusal(state, agreed.state)
    if reason is not None:
        return reason
    large = (path for path, table in state.tables.items() if np.abs(table.values).max(initial=0.0) > LARGEST)
    return next((f"{path} has values that are far too large" for path in large), None)


def _counted_more(state: Exported, agreed: ExternalState, records: int) -> str | None:
    """Return which moments count more values than the client has records, and so would outweigh others, or None."""
    for path, table in state.tables.items():
        base = agreed.state.tables.get(path)
        if table.rule != "moments" or not table.rows:
            continue
        before = 0.0 if base is None else base.aligned(table.rows, table.columns)[:, 0]
        if (table.values[:, 0] - before > records).any():
            return f"{path} has counted more than there are records"
    return None
