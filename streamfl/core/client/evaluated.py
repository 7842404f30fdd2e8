"""What a client answered in a round beside the truth, counted; and truth and answers in one unit."""

from collections.abc import Mapping

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.learning.local_round import RoundRecords
from streamfl.core.protocol.messages import Served


def counted(records: RoundRecords, served: FloatArray, repeated: FloatArray, shares: Mapping[str, float]) -> Served:
    """Return how often, or how far, the answers of a round were wrong.

    Parameters
    ----------
    records
        The round's, with the truth.
    served
        What was answered, as label indices or targets in the registry's unit, shape (n,); empty if nothing was.
    repeated
        What NoChange says, shape (n,).
    shares
        By expert, its part in the answers.

    Examples
    --------
    >>> from streamfl.core.protocol.registry import Registry
    >>> registry = Registry(1, ("x",), ("a", "b"), np.zeros(1), np.ones(1))
    >>> records = RoundRecords(registry, ("a", "b"), np.zeros((3, 2)), np.array([0.0, 1.0, 1.0]))
    >>> told = counted(records, np.array([0.0, 1.0, 0.0]), np.array([-1.0, 0.0, 1.0]), {"rounds": 0.5})
    >>> told.records, told.correct, told.no_change, told.shares
    (3, 2, 1.0, {'rounds': 1.5})
    """
    if not len(served):
        return Served()
    truth, answers = natural(records.y, records), natural(served, records)
    n, parts = len(truth), {name: len(truth) * share for name, share in shares.items()}
    if records.labels:
        correct, same = np.count_nonzero(answers == truth), np.count_nonzero(repeated == truth)
        return Served(records=n, correct=int(correct), no_change=float(same), shares=parts)
    error, change = np.abs(answers - truth).sum(), np.abs(repeated - truth).sum()
    return Served(records=n, absolute_error=float(error), no_change=float(change), shares=parts)


def coded(served: FloatArray, labels: tuple[str, ...], records: RoundRecords) -> FloatArray:
    """Return answers in the coordinates of a round's records: label indices, or targets in the registry's unit.

    Parameters
    ----------
    served
        Indices of `labels`, -1 where there was no answer; or targets in their own unit.
    labels
        Of whoever answered.
    records
        The round's.
    """
    if not records.labels:
        return (served - records.registry.target.centre) / records.registry.target.scale
    at = {label: code for code, label in enumerate(records.labels)}
    codes = np.array([at.get(label, -1) for label in labels] + [-1], dtype=np.float64)  # the last stands for -1
    return codes[served.astype(np.intp)]


def natural(values: FloatArray, records: RoundRecords) -> FloatArray:
    """Return label indices as they are, and targets of the registry's unit in their own."""
    target = records.registry.target
    return values if records.labels else values * target.scale + target.centre
