"""Counts of a client's right predictions in a round; labels and targets in common units."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.grid import short
from streamfl.learning.local_round import RoundRecords
from streamfl.protocol.delayed import answers_together
from streamfl.protocol.messages import DecisionRule, Served, Tried
from streamfl.protocol.messages.decision_rule import named
from streamfl.protocol.records import Batch


def served_counts(
    records: RoundRecords, served: FloatArray, repeated: FloatArray, shares: Mapping[str, float]
) -> Served:
    """Return counts of right predictions of a round, or sums of absolute errors in regression.

    Parameters
    ----------
    served
        Predictions, as label indices or targets in the registry's unit, shape (n,); empty if there were none.
    repeated
        The predictions of NoChange, shape (n,).
    shares
        By expert, its share of the predictions.

    Examples
    --------
    >>> from streamfl.protocol.registry import Registry
    >>> registry = Registry(1, ("x",), ("a", "b"), np.zeros(1), np.ones(1))
    >>> records = RoundRecords(registry, ("a", "b"), np.zeros((3, 2)), np.array([0.0, 1.0, 1.0]))
    >>> served = served_counts(records, np.array([0.0, 1.0, 0.0]), np.array([-1.0, 0.0, 1.0]), {"rounds": 0.5})
    >>> served.records, served.correct, served.no_change, served.shares
    (3, 2, 1.0, {'rounds': 1.5})
    >>> served_counts(records, np.array([-1.0, -1.0, 1.0]), np.array([-1.0, 0.0, 1.0]), {}).unanswered
    2
    """
    if not len(served):
        return Served()
    truth, answers = in_original_units(records.y, records), in_original_units(served, records)
    n, parts = len(truth), {name: short(len(truth) * share) for name, share in shares.items()}
    if records.labels:
        correct, same = np.count_nonzero(answers == truth), np.count_nonzero(repeated == truth)
        missing = np.count_nonzero(answers < 0)
        counts = {"correct": int(correct), "unanswered": int(missing)}
        return Served(records=n, **counts, no_change=float(same), shares=parts)
    error, change = np.abs(answers - truth).sum(), np.abs(repeated - truth).sum()
    return Served(records=n, absolute_error=float(error), no_change=float(change), shares=parts)


def tried_answers(
    rule: DecisionRule, P: FloatArray, labels: tuple[str, ...], records: RoundRecords
) -> tuple[Tried, ...]:
    """Return what each power that a rule tries would have answered to a round's records.

    Parameters
    ----------
    P, labels
        Their predictions, shape (n, labels), and the labels of the columns.

    Examples
    --------
    >>> from streamfl.protocol.registry import Registry
    >>> registry = Registry(1, (), ("a", "b"), np.zeros(0), np.ones(0))
    >>> records = RoundRecords(registry, ("a", "b"), np.ones((1, 1)), np.ones(1))
    >>> tried_answers(DecisionRule(weights={"b": 9.0}, tried=(0.0, 1.0)), np.array([[0.8, 0.2]]), ("a", "b"), records)
    (Tried(correct=0, answers={'a': 1}), Tried(correct=1, answers={'b': 1}))
    """
    found = []
    for power in rule.tried:
        codes = rule.label_indices(P, labels, power=power)
        answers = Counter(name for name in named(codes, labels) if name is not None)
        correct = int(np.count_nonzero(encode(codes, labels, records) == records.y))
        found.append(Tried(correct=correct, answers=dict(sorted(answers.items()))))
    return tuple(found)


def encode(served: FloatArray, labels: tuple[str, ...], records: RoundRecords) -> FloatArray:
    """Return predictions in the coordinates of a round's records: label indices, or targets in the registry's unit.

    Parameters
    ----------
    served
        Indices into `labels`, -1 where there was no prediction; or targets in their original unit.
    labels
        The labels of the model that predicted.
    """
    if not records.labels:
        return _in_unit(served, records)
    at = {label: code for code, label in enumerate(records.labels)}
    codes = np.array([at.get(label, -1) for label in labels] + [-1], dtype=np.float64)  # the last stands for -1
    return codes[served.astype(np.intp)]


def earlier_answers(batches: Sequence[Batch], records: RoundRecords) -> tuple[FloatArray, FloatArray]:
    """Return what was answered to a round's records before their labels came, and the forecasts of NoChange then.

    Returns
    -------
    The answers as `encode` returns them, and the forecasts as `in_original_units` does; both of shape (n,).
    """
    answers = answers_together([batch.answers for batch in batches if batch.answers is not None])
    served, repeated = answers.coded(records.labels)
    return (served if records.labels else _in_unit(served, records)), repeated


def _in_unit(targets: FloatArray, records: RoundRecords) -> FloatArray:
    unit = records.registry.target
    return (targets - unit.centre) / unit.scale


def in_original_units(values: FloatArray, records: RoundRecords) -> FloatArray:
    """Return label indices as they are, and targets converted from the registry's unit to their original one."""
    target = records.registry.target
    return values if records.labels else values * target.scale + target.centre
