"""Sums of a client's scores, its shares and its gradients of targets, in few bits: chance moves them far more.

Only what is sent as it is has few bits: totals over clients are added exactly, and noise counts on exact sums.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.digits import in_bits
from streamfl.protocol.messages import LabelSums, Numbers, Served, SlotLosses


def in_few_bits(numbers: Numbers, records: int, residuals: Collection[str]) -> Numbers:
    """Return numbers of an update with sums in few bits.

    Parameters
    ----------
    records
        The good records: no sum of scores in [0, 1] is larger.
    residuals
        The models whose differences are sums of gradients of targets. Gradients of labels lie on a grid.

    >>> one = SlotLosses(loss=100.3, square=256.9, proper=0.0)
    >>> in_few_bits(Numbers(losses={"m": one}), 257, ()).losses["m"]
    SlotLosses(loss=100.5, square=257.0, proper=0.0, history=0.0, history_share=0.0, history_records=0)
    """
    return replace(
        numbers,
        losses=losses_in_few_bits(numbers.losses, records),
        new=_by_label(numbers.new),
        old=_by_label(numbers.old),
        differences=differences_in_few_bits(numbers.differences, residuals),
        served=_served(numbers.served),
    )


def losses_in_few_bits(losses: Mapping[str, SlotLosses], records: int) -> dict[str, SlotLosses]:
    """Return scores of models by name with sums in few bits."""
    if not losses:
        return {}
    sums = _of_scores([(x.loss, x.square, x.proper) for x in losses.values()], records)
    return {
        name: replace(x, loss=loss, square=square, proper=proper)
        for (name, x), (loss, square, proper) in zip(losses.items(), sums, strict=True)
    }


def differences_in_few_bits(
    differences: Mapping[str, FloatArray], residuals: Collection[str]
) -> dict[str, FloatArray]:
    """Return differences by model, those that are sums of gradients of targets in few bits."""
    return {name: in_bits(x) if name in residuals else x for name, x in differences.items()}


def _served(served: Served) -> Served:
    if not served.shares:
        return served
    shares = in_bits(np.array([*served.shares.values()])).tolist()
    return replace(served, shares=dict(zip(served.shares, shares, strict=True)))


def _by_label(parts: tuple[LabelSums, ...]) -> tuple[LabelSums, ...]:
    if not parts:
        return ()
    sums = _of_scores([(x.loss, x.square) for x in parts], [[x.count] for x in parts])
    return tuple([replace(x, loss=loss, square=square) for x, (loss, square) in zip(parts, sums, strict=True)])


def _of_scores(sums: list[tuple[float, ...]], records: int | list[list[int]]) -> list[list[float]]:
    few: list[list[float]] = np.minimum(in_bits(np.array(sums)), records).tolist()
    return few
