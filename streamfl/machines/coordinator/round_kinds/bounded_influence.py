"""The stage between admission and aggregation: updates whose influence is bounded, whatever their clients sent.

Pure, and applied to the updates in the order of their clients' names, so the order of arrival changes no bit. Honest
updates pass it unchanged unless they stand out: see `influence`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Any, TypeVar

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.drift.evidence import LiveModel
from streamfl.learning.influence import (
    FEWEST,
    HEAVIEST,
    LEAST,
    Contributions,
    Influence,
    Judged,
    are_compared,
    judge,
    smallest,
)
from streamfl.learning.online_models import OnlineModels
from streamfl.machines.coordinator.saved.agreement import Agreement, labels_seen_first
from streamfl.protocol.messages import AgreedState, LabelSums, Numbers, Scores, SlotLosses, Tried, Update
from streamfl.protocol.registry import placed_columns

STEPS = "steps"

# A client's mean squared norm, and its largest norm, are at most so many times the middle ones; beyond that its
# second moments and its gradients count less, both alike. docs/choices.md, "Influence".
LONGEST = 8.0

# The measurements of a client, in its update or of candidates.
_Measured = TypeVar("_Measured", Numbers, Scores)


@dataclass(frozen=True, eq=False)
class Bounded:
    """The updates of a round with bounded influence."""

    updates: tuple[Update, ...]  # in the order of the clients' names
    shares: Mapping[str, float]  # how much of each client's numbers counts, from 0 to 1
    influence: Influence  # the histories after the round


def with_bounded_influence(
    updates: Sequence[Update],
    live: Sequence[LiveModel],
    agreement: Agreement,
    influence: Influence,
    *,
    apart: frozenset[str] = frozenset(),
    most: int | None = None,
    online: OnlineModels[Any, Any] | None = None,
    agreed: AgreedState | None = None,
    seed: int = 0,
) -> Bounded:
    """Return the updates of a round with bounded influence.

    Parameters
    ----------
    updates
        The accepted updates, in the order of the clients' names.
    apart
        The clients that have models of their own: they add nothing to what is common.
    most
        The most records that an update counts as; None: only the others bound it.
    seed
        The seed of the signs of sketches: who knows it can push where histories see nothing.
    """
    sums = {model.name for model in live if model.whitened}
    light = _shortened(_lighter(updates, most, sums, online), sums)
    common = [model for model in live if model.trained and model.clients is None]
    learnt = {u.client: u.numbers.learnt for u in light if u.numbers.learnt is not None and u.client not in apart}
    online_ones = {} if online is None or agreed is None else online.contributions(learnt, agreed, seed)
    verdicts = {STEPS: _judged_steps(light, common, agreement, influence, seed)}
    verdicts |= {kind: judge(each, influence.histories.get(kind, {})) for kind, each in online_ones.items()}
    shares = smallest([verdict.shares for verdict in verdicts.values()])
    counted = tuple(_shared(update, shares.get(update.client, 1.0), online) for update in light)
    return Bounded(counted, shares, Influence({kind: v.histories for kind, v in verdicts.items()}))


def bounded_scores(scores: Scores, share: float, sent: Update, counted: Update, sums: set[str]) -> Scores:
    """Return scores of candidates as if they were of the records as which their client's update counts.

    Parameters
    ----------
    share
        How much of the client's steps counts, from 0 to 1.
    sent, counted
        The client's update, and what is left of it after `with_bounded_influence`.
    sums
        The candidates whose differences are sums over records.
    """
    part, norm = counted.records / sent.records, sent.numbers.squared_norm
    slopes = counted.numbers.squared_norm / norm if norm else part  # of fewer records, or of shorter ones
    if share == part == slopes == 1.0:
        return scores
    fewer = _of_part(scores, part, slopes, sums)
    relabelling = {name: part * S for name, S in scores.relabelling.items()}
    return replace(fewer, relabelling=relabelling, differences=_times(fewer.differences, share))


def _judged_steps(
    updates: Sequence[Update],
    common: Sequence[LiveModel],
    agreement: Agreement,
    influence: Influence,
    seed: int,
) -> Judged:
    """Judge the differences of the models that all clients train."""
    names = [model.name for model in common]
    whitened = bool(common) and common[0].whitened
    senders = [u for u in updates if u.trained and u.numbers.differences.keys() >= set(names)]
    before = influence.histories.get(STEPS, {})
    if not senders or not names:
        return Judged({}, dict(before))
    if not are_compared(len(senders)):
        return Judged(dict.fromkeys([update.client for update in senders], 1.0), dict(before))
    X = _stacked(senders, names, agreement)
    records = np.array([update.trained for update in senders], np.float64)
    least = 0.0
    if whitened:
        clients, rows, models, columns = X.shape
        halved = agreement.half_whitened(X.transpose(1, 0, 2, 3).reshape(rows, -1))
        X = halved.reshape(rows, clients, models, columns).transpose(1, 0, 2, 3) / records[:, None, None, None]
        least = LEAST * float(np.sqrt(models * rows / np.median(records)))
    return judge(Contributions.of(STEPS, tuple(u.client for u in senders), records, X, seed), before, least=least)


def _stacked(updates: Sequence[Update], names: Sequence[str], agreement: Agreement) -> FloatArray:
    """Return all differences with the columns of all labels, shape (clients, rows, models, columns)."""
    known = agreement.registry.labels
    labels = (*known, *labels_seen_first(updates))
    at = {label: i for i, label in enumerate(labels)}
    widest = max(x.shape[1] for update in updates for x in update.numbers.differences.values())
    columns = len(labels) if widest > 1 and labels else widest
    stacked = []
    for update in updates:
        arrays = [update.numbers.differences[name] for name in names]
        if arrays[0].shape[1] != columns:
            own = np.array([at[label] for label in (*known, *update.new_labels)], np.int64)
            arrays = [placed_columns(x, own, columns) for x in arrays]
        stacked.append(np.stack(arrays, axis=1))
    return np.array(stacked)


def _shared(update: Update, share: float, online: OnlineModels[Any, Any] | None) -> Update:
    """Return an update of which a share of what it learnt counts; without any, it counts as untrained."""
    if share == 1.0:
        return update
    if share == 0.0:
        untrained = replace(update.numbers, differences={}, learnt=None, second_moments=None)
        return replace(update, trained=0, numbers=untrained)
    numbers, learnt = update.numbers, update.numbers.learnt
    learnt = learnt if online is None or learnt is None else online.times(learnt, share)
    return replace(update, numbers=replace(numbers, differences=_times(numbers.differences, share), learnt=learnt))


def _times(differences: Mapping[str, FloatArray], share: float) -> dict[str, FloatArray]:
    return {name: share * x for name, x in differences.items()} if share else {}


def _lighter(
    updates: Sequence[Update], size: int | None, sums: set[str], online: OnlineModels[Any, Any] | None
) -> list[Update]:
    """Return updates none of which is about more records than a round has, or than so many times the middle one."""
    records = sorted(update.records for update in updates if update.records)
    most = HEAVIEST * records[(len(records) - 1) // 2] if records else 0
    most = most if size is None else min(most, size)
    return [_of_fewer(update, most, sums, online) if update.records > most else update for update in updates]


def _of_fewer(update: Update, records: int, sums: set[str], online: OnlineModels[Any, Any] | None) -> Update:
    """Return an update as if it were about fewer records: all that is a sum over records is smaller."""
    part, numbers = records / update.records, update.numbers
    C, learnt = numbers.second_moments, numbers.learnt
    fewer = replace(
        _of_part(numbers, part, part, sums),
        new=tuple(fewer for x in numbers.new if (fewer := _part_of_label(x, part)).count),
        tried=tuple(_part_of_tried(x, part) for x in numbers.tried),
        second_moments=None if C is None else part * C,
        squared_norm=part * numbers.squared_norm,
        learnt=learnt if online is None or learnt is None else online.of_fewer(learnt, records),
    )
    return replace(update, records=records, trained=round(part * update.trained), numbers=fewer)


def _shortened(updates: Sequence[Update], sums: set[str]) -> list[Update]:
    """Return updates none of which claims far longer records than the others do."""
    there = [update for update in updates if update.records]
    if len(there) < FEWEST:
        return list(updates)
    square = LONGEST * median_low([update.numbers.squared_norm / update.records for update in there])
    longest = LONGEST * median_low([update.numbers.largest_norm for update in there])
    return [_of_norms(update, square * update.records, longest, sums) for update in updates]


def _of_norms(update: Update, most: float, longest: float, sums: set[str]) -> Update:
    """Return an update with norms of at most so much.

    Gradients count as second moments do: whitened by the moments of all others alone, they would be far too long.
    """
    numbers = update.numbers
    if numbers.largest_norm > longest:
        numbers = replace(numbers, largest_norm=longest)
    if numbers.squared_norm > most:
        part, C = most / numbers.squared_norm, numbers.second_moments
        shorter = _of_part(numbers, 1.0, part, sums)
        numbers = replace(shorter, squared_norm=most, second_moments=None if C is None else part * C)
    return update if numbers is update.numbers else replace(update, numbers=numbers)


def _of_part(measured: _Measured, part: float, slopes: float, sums: set[str]) -> _Measured:
    """Return numbers or scores with losses of a part of the records, and `slopes` times the gradients in `sums`."""
    losses = {name: _part_of(one, part) for name, one in measured.losses.items()}
    differences = {name: slopes * x if name in sums else x for name, x in measured.differences.items()}
    return replace(measured, losses=losses, differences=differences)


def _part_of(losses: SlotLosses, part: float) -> SlotLosses:
    return replace(losses, loss=part * losses.loss, square=part * losses.square, proper=part * losses.proper)


def _part_of_label(sums: LabelSums, part: float) -> LabelSums:
    """Return sums as if they were of fewer records, a whole number of them, with the same mean."""
    count = round(part * sums.count)
    left = count / max(1, sums.count)
    return replace(sums, count=count, loss=left * sums.loss, square=left * sums.square)


def _part_of_tried(tried: Tried, part: float) -> Tried:
    answers = {label: round(part * count) for label, count in tried.answers.items()}
    return Tried(correct=round(part * tried.correct), answers=answers)
