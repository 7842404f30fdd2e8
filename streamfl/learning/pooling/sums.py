"""A client's numbers about its records as one vector of sums, and the update that the total of all clients makes.

What stays next to the vector is what the ledger needs, which each client answers for: positions, counts, names.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.learning.pooling.layout import Layout
from streamfl.learning.pooling.limbs import moments_in_limbs, moments_of_limbs
from streamfl.protocol.messages import (
    LabelSums,
    Numbers,
    RoundOpened,
    Score,
    Scores,
    Served,
    Slot,
    SlotLosses,
    Update,
)
from streamfl.protocol.moments import Moments
from streamfl.protocol.registry import Registry

# No log-likelihood of a label is below -2 ln K, whatever the number K of labels that anybody has.
LOGS = 30.0

# By how much rounding may make second moments indefinite, as a part of their mean: the ridge of whitening is larger.
SLACK = 1e-6

# The name of the one client that all are together, which no client has.
EVERYBODY = ""


def as_text(sums: IntArray) -> str:
    """Return whole numbers as the text that messages carry.

    >>> as_text(np.array([1, -1])), of_text(as_text(np.array([1, -1])))
    ('AQAAAAAAAAD//////////w==', array([ 1, -1]))
    """
    return base64.b64encode(sums.astype("<i8").tobytes()).decode()


def of_text(text: str) -> IntArray | None:
    """Return the whole numbers of a text, None if it holds none; they are a copy."""
    try:
        raw = base64.b64decode(text, validate=True)
        return np.frombuffer(raw, "<i8").astype(np.int64)
    except ValueError:
        return None


# --- what a client sends ---------------------------------------------------------------------------------------


def sums_of(update: Update, opened: RoundOpened, layout: Layout, registry: Registry) -> IntArray:
    """Return an update's numbers about its records, shape (size,); what concerns unregistered names is left out."""
    d, labels, numbers = len(registry.features), registry.labels, update.numbers
    served, moments = numbers.served, numbers.moments
    parts: dict[str, Any] = _of_slots(numbers, opened.slots, update.trained, registry)
    parts |= {
        "by_label": np.array([_by_label(update.numbers.new, labels), _by_label(update.numbers.old, labels)]),
        "norm": np.array([update.numbers.squared_norm]),
        "served": np.array([served.records, served.correct, served.no_change], np.float64),
    }
    if update.numbers.moments is not None:
        moments = update.numbers.moments
        first = Moments(registry.features, moments.count[:d], moments.mean[:d], moments.m2[:d])
        parts |= moments_in_limbs(first)
    if update.numbers.second_moments is not None:
        parts["second"] = update.numbers.second_moments[np.tril_indices(registry.rows)]
    return layout.packed(parts)


def sums_of_scores(scores: Scores, asked: Score, layout: Layout, registry: Registry, trained: int) -> IntArray:
    """Return the numbers of a client's scores, of an update that was trained on this many records."""
    parts: dict[str, Any] = _of_slots(scores, asked.slots, trained, registry)
    parts |= {f"labels {name}": fits for name, fits in scores.relabelling.items()}
    return layout.packed(parts)


def with_sums(update: Update, sums: IntArray) -> Update:
    """Return an update that tells of its records nothing but counts, places, names and the sums."""
    return replace(update, numbers=Numbers(), sums=as_text(sums))


def _of_slots(told: Numbers | Scores, slots: Sequence[Slot], trained: int, registry: Registry) -> dict[str, Any]:
    losses = [told.losses.get(slot.name, SlotLosses(loss=0.0, square=0.0, proper=0.0)) for slot in slots]
    parts: dict[str, Any] = {"losses": np.array([_numbers(x) for x in losses]).reshape(len(slots), 6)}
    whitened = {slot.name for slot in slots if slot.whitened}
    for name, x in told.differences.items():
        known = x[:, : len(registry.labels)] if x.shape[1] > 1 else x
        parts[f"step {name}"] = known * (1 if name in whitened else trained)
    return parts


def _numbers(x: SlotLosses) -> tuple[float, ...]:
    return (x.loss, x.square, x.proper, x.history, x.history_share, float(x.history_records))


def _by_label(sums: Sequence[LabelSums], labels: Sequence[str]) -> FloatArray:
    each = {x.label: (float(x.count), x.loss, x.square) for x in sums}
    return np.array([each.get(label, (0.0, 0.0, 0.0)) for label in labels]).reshape(len(labels), 3)


# --- what the total of all clients is --------------------------------------------------------------------------


def pooled(
    updates: Sequence[Update], total: IntArray, opened: RoundOpened, layout: Layout, registry: Registry
) -> Update:
    """Return the update that all clients together have made.

    Whatever clients added up, its numbers are finite, and possible as sums.

    Parameters
    ----------
    updates
        The updates behind the total, in the order of their clients.
    total
        The sum of their sums, shape (size,).
    """
    parts = layout.unpacked(total)
    records, trained = sum(u.records for u in updates), sum(u.trained for u in updates)
    new_labels = tuple(sorted({name for update in updates for name in update.new_labels}))
    new, old = [_label_sums(registry.labels, part, records) for part in parts.get("by_label", np.zeros((2, 0, 3)))]
    answered, correct, no_change = parts["served"].tolist()
    answered = min(max(0.0, answered), float(records))
    return Update(
        client=EVERYBODY,
        attempt="0-0",
        entry=opened.entry,
        round=opened.round,
        epoch=opened.epoch,
        registry=opened.registry,
        records=records,
        trained=trained,
        rejected=sum(update.rejected for update in updates),
        spans=(),
        numbers=Numbers(
            losses=_losses(parts, opened.slots, records),
            differences=_differences(parts, opened.slots, trained, more=len(new_labels)),
            new=new,
            old=old,
            moments=moments_of_limbs(registry.features, parts) if opened.asks.moments else None,
            second_moments=_second(parts["second"], registry.rows) if opened.asks.second_moments else None,
            squared_norm=max(0.0, float(parts["norm"][0])),
            largest_norm=float(np.sqrt(1.0 + len(registry.features) * min(registry.farthest, 1e100) ** 2)),
            served=Served(
                records=round(answered),
                correct=round(min(max(0.0, correct), answered)),
                no_change=min(max(0.0, no_change), answered),
            ),
        ),
        new_labels=new_labels,
        new_features=tuple(sorted({name for update in updates for name in update.new_features})),
    )


def pooled_scores(total: IntArray, asked: Score, layout: Layout, *, records: int, trained: int, more: int) -> Scores:
    """Return the scores that all clients together have sent, of this many records; `more` labels are new."""
    parts = layout.unpacked(total)
    return Scores(
        client=EVERYBODY,
        attempt="0-0",
        entry=asked.entry,
        epoch=asked.epoch,
        stage=asked.stage,
        losses=_losses(parts, asked.slots, records),
        differences=_differences(parts, asked.slots, trained, more=more),
        relabelling={name: np.clip(parts[f"labels {name}"], -LOGS * records, 0.0) for name in asked.relabel},
    )


def _losses(parts: Mapping[str, Any], slots: Sequence[Slot], records: int) -> dict[str, SlotLosses]:
    rows = np.maximum(0.0, parts["losses"]).tolist()
    return {slot.name: _slot_losses(row, float(records)) for slot, row in zip(slots, rows, strict=True)}


def _slot_losses(row: list[float], most: float) -> SlotLosses:
    loss, square, proper, history, share, count = row
    return SlotLosses(
        loss=min(loss, most),
        square=min(square, most),
        proper=min(proper, most),
        history=min(history, share),
        history_share=share,
        history_records=round(count),
    )


def _differences(
    parts: Mapping[str, Any], slots: Sequence[Slot], trained: int, *, more: int
) -> dict[str, FloatArray]:
    """Return the differences, with a column of zeros for every label that is new, where labels have columns."""
    if not trained:
        return {}
    steps = {
        slot.name: parts[f"step {slot.name}"] / (1 if slot.whitened else trained) for slot in slots if slot.trained
    }
    return {name: np.pad(x, ((0, 0), (0, more if x.shape[1] > 1 else 0))) for name, x in steps.items()}


def _label_sums(labels: Sequence[str], part: FloatArray, records: int) -> tuple[LabelSums, ...]:
    made = []
    for label, (count, loss, square) in zip(labels, np.maximum(0.0, part).tolist(), strict=False):
        n = round(min(count, 2.0**53))
        if n:
            made.append(LabelSums(label=label, count=n, loss=min(loss, float(n)), square=min(square, float(n))))
    return tuple(made)


def _second(triangle: FloatArray, rows: int) -> FloatArray:
    """Return second moments, which are those of some records, and of the constant 1 at least one."""
    C = np.zeros((rows, rows))
    C[np.tril_indices(rows)] = triangle
    C += np.tril(C, -1).T
    C[-1, -1] = max(1.0, C[-1, -1])
    try:
        np.linalg.cholesky(C + (SLACK * np.trace(C) / rows) * np.eye(rows))
    except np.linalg.LinAlgError:  # rounding alone does not make them so
        values, vectors = np.linalg.eigh(C)
        C = (vectors * np.maximum(0.0, values)) @ vectors.T
        C = 0.5 * (C + C.T)
    np.fill_diagonal(C, np.maximum(0.0, np.diag(C)))  # the slack lets through what is a little below 0
    return C
