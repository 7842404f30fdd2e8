"""Sums of a client's scores, its shares and its gradients of targets, in few bits: chance moves them far more.

Only what is sent as it is has few bits: totals over clients are added exactly, and noise counts on exact sums.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.digits import in_bits
from streamfl.protocol.messages import LabelSums, Numbers, SlotLosses


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
    SlotLosses(loss=100.5, square=256.0, proper=0.0, history=0.0, history_share=0.0, history_records=0)
    """
    parts = (*numbers.new, *numbers.old)
    shares = numbers.served.shares
    sums = _short(
        [
            *_of_losses(numbers.losses),
            *chain.from_iterable((part.loss, part.square) for part in parts),
            *shares.values(),
        ]
    )
    losses = _with_losses(numbers.losses, sums, records)
    new, old = _with_sums(numbers.new, sums), _with_sums(numbers.old, sums)
    return replace(
        numbers,
        losses=losses,
        new=new,
        old=old,
        differences=differences_in_few_bits(numbers.differences, residuals),
        served=replace(numbers.served, shares=dict(zip(shares, sums, strict=True))) if shares else numbers.served,
    )


def losses_in_few_bits(losses: Mapping[str, SlotLosses], records: int) -> dict[str, SlotLosses]:
    """Return scores of models by name with sums in few bits."""
    return _with_losses(losses, _short([*_of_losses(losses)]), records)


def differences_in_few_bits(
    differences: Mapping[str, FloatArray], residuals: Collection[str]
) -> dict[str, FloatArray]:
    """Return differences by model, those that are sums of gradients of targets in few bits."""
    return {name: in_bits(x) if name in residuals else x for name, x in differences.items()}


def _of_losses(losses: Mapping[str, SlotLosses]) -> Iterator[float]:
    return chain.from_iterable((x.loss, x.square, x.proper) for x in losses.values())


def _short(sums: list[float]) -> Iterator[float]:
    """Yield sums in few bits."""
    few: list[float] = in_bits(np.array(sums)).tolist()
    return iter(few)


def _with_losses(losses: Mapping[str, SlotLosses], sums: Iterator[float], records: int) -> dict[str, SlotLosses]:
    """Return scores of models with the next sums, of which none exceeds the number of records."""
    most = float(records)
    return {
        name: SlotLosses(
            loss=min(next(sums), most),
            square=min(next(sums), most),
            proper=min(next(sums), most),
            history=x.history,
            history_share=x.history_share,
            history_records=x.history_records,
        )
        for name, x in losses.items()
    }


def _with_sums(parts: tuple[LabelSums, ...], sums: Iterator[float]) -> tuple[LabelSums, ...]:
    """Return sums by label with the next ones, of which none exceeds the number of records of its label."""
    return tuple(
        [
            LabelSums(label=x.label, count=x.count, loss=min(next(sums), most), square=min(next(sums), most))
            for x in parts
            for most in [float(x.count)]
        ]
    )
