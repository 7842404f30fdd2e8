"""What is wrong with what a client says its external model has learnt: nothing counts that is not possible."""

import numpy as np

from streamfl.core.between.external.merging import refusal
from streamfl.core.bounds import NAMED, Limits, is_name
from streamfl.core.protocol.external.interface import ExternalModel
from streamfl.core.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.core.protocol.external.tables import Exported

# A name of a model of another library is at most so many times as long as one of a feature.
DERIVED = 4

# Larger numbers are not merged: a count times the square of a mean must be finite.
LARGEST = 1e100


def wrong_external(
    learnt: ExternalLearnt, agreed: ExternalState, model: ExternalModel, *, records: int, limits: Limits = NAMED
) -> str | None:
    """Return why what a client has learnt cannot be used, or None.

    Parameters
    ----------
    learnt
        What it says.
    agreed
        Where it began.
    model
        The model.
    records
        How many records its update covers.
    limits
        How many names it may have learnt, and how long they may be.
    """
    if learnt.records != records or not 0 <= learnt.unlearnt <= records:
        return "another number of records for the external model"
    if learnt.state is None:
        return None if learnt.unlearnt == records else "an external model that has learnt, and does not say what"
    reason = (
        _named_too_much(learnt.state, limits)
        or unusable(learnt.state, agreed)
        or _counted_more(learnt.state, agreed, records)
        or model.refusal(learnt.state)
    )
    return None if reason is None else f"an external model that cannot be merged: {reason}"


def _named_too_much(state: Exported, limits: Limits) -> str | None:
    """Return why a state has more names than may be told, or longer ones, or None.

    Names of rows may be derived: a product of features has the names of both.
    """
    if state.names > limits.external_names:
        return f"{state.names} names, where {limits.external_names} are the most"
    names = (name for path, table in state.tables.items() for name in (path, *table.rows, *table.columns))
    fit = all(is_name(name, DERIVED * limits.name_bytes) for name in names)
    return None if fit else "names that are far too long"


def within(learnt: ExternalLearnt, limits: Limits) -> ExternalLearnt:
    """Return what a client may tell of what it has learnt: nothing where its names are too many, or too long."""
    if learnt.state is None or _named_too_much(learnt.state, limits) is None:
        return learnt
    return ExternalLearnt(None, learnt.records, learnt.records)


def unusable(state: Exported, agreed: ExternalState) -> str | None:
    """Return why a state cannot be merged with others that began where it did, or None.

    >>> from streamfl.core.protocol.external.tables import ExportedTable
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
    """Return which moments are of more values than a client has records: they would outweigh all others."""
    for path, table in state.tables.items():
        base = agreed.state.tables.get(path)
        if table.rule != "moments" or not table.rows:
            continue
        before = 0.0 if base is None else base.aligned(table.rows, table.columns)[:, 0]
        if (table.values[:, 0] - before > records).any():
            return f"{path} has counted more than there are records"
    return None
