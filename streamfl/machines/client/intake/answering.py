"""What a client answers to records whose labels come later, in the form in which it is kept until they do."""

from dataclasses import replace

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.decisions import Answered
from streamfl.protocol.delayed import NO_LABEL, Answers
from streamfl.protocol.messages.decision_rule import DecisionRule
from streamfl.protocol.records import Batch


def answer_of(
    client: str,
    batch: Batch,
    P: FloatArray,
    labels: tuple[str, ...],
    *,
    rule: DecisionRule,
    known: str | float | None,
    targets: bool,
) -> Answered:
    """Return the answers to some records.

    Parameters
    ----------
    P, labels
        Probabilities of the labels, shape (n, labels), or targets, shape (n, 1); no columns without models.
    known
        The last label or target that is known, which NoChange repeats; None: none.

    Examples
    --------
    >>> from streamfl.protocol.records import Span
    >>> batch = Batch(Span("f", 0, 1), np.arange(1), ("x",), np.ones((1, 1)), np.zeros(1))
    >>> P, rule = np.array([[0.2, 0.8]]), DecisionRule()
    >>> told = answer_of("c0", batch, P, ("a", "b"), rule=rule, known="c", targets=False)
    >>> told.batch.answers
    Answers(served=array([1.]), no_change=array([2.]), labels=('a', 'b', 'c'))
    """
    n = len(batch)
    if targets:
        served = P[:, 0] if P.shape[1] else np.zeros(n)
        answers = Answers(served, np.full(n, known if isinstance(known, float) else 0.0))
    else:
        named = labels if known is None or known in labels else (*labels, str(known))
        served = rule.label_indices(P, labels)
        repeated = NO_LABEL if known is None else float(named.index(str(known)))
        answers = Answers(served, np.full(n, repeated), named)
    return Answered(client, replace(batch, answers=answers), P, labels)
