"""The layout of a client's sums: which number stands where, so that those of all clients can be added up.

It follows from what the coordinator has published, so that it is the same at all clients, whatever their records.
Numbers are whole multiples of small powers of two in int64, added modulo 2^64: no order changes a bit, and masks that
cancel leave the very same total. Each is clipped so that the total of `MEMBERS` clients does not overflow.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfl.arrays import FloatArray, IntArray
from streamfl.learning.fixed_point import LIMIT, MEMBERS, SCALE
from streamfl.learning.pooling.limbs import IN_MEAN, IN_SQUARE
from streamfl.protocol.messages import RoundOpened, Score, Slot
from streamfl.protocol.registry import Registry

# Steps of sums of squared features: these may be far larger than scores. docs/choices.md, "Bounds and rounding".
COARSE = 2.0**20

# The largest number of a client, and of a total, in steps.
MOST, LARGEST = int(LIMIT / 2 / MEMBERS), int(LIMIT / 2)


@dataclass(frozen=True, slots=True)
class SummedArray:
    """An array among a client's sums."""

    # What it is called, and its shape.
    name: str
    shape: tuple[int, ...]
    scale: float = SCALE  # its steps for each unit; 1 for whole numbers


@dataclass(frozen=True)
class Layout:
    """The blocks of a client's sums, one after another.

    Examples
    --------
    >>> layout = Layout((SummedArray("losses", (2,)), SummedArray("values", (1,), scale=1.0)))
    >>> sums = layout.packed({"losses": np.array([0.5, -1.0]), "values": np.array([7])})
    >>> sums, layout.unpacked(sums + sums)
    (array([ 2147483648, -4294967296,           7]), {'losses': array([ 1., -2.]), 'values': array([14])})
    """

    blocks: tuple[SummedArray, ...]

    @classmethod
    def of_round(
        cls, opened: RoundOpened, registry: Registry, columns: Callable[[int], int], *, by_label: bool = True
    ) -> "Layout":
        """Return the layout of updates.

        Parameters
        ----------
        columns
            Returns the columns of a model for a number of labels.
        by_label
            Whether there are scores by label; under noise there are none, since each block makes all noise larger.
        """
        d, labels = len(registry.features), len(registry.labels)
        shape = (registry.rows, columns(labels))
        blocks = [
            *_of_slots(opened.slots, shape),
            SummedArray("norm", (1,), COARSE),
            SummedArray("served", (3,)),
        ]
        if by_label:
            blocks.append(SummedArray("by_label", (2, labels, 3)))
        if opened.asks.moments:
            blocks += [
                SummedArray("values", (d,), 1.0),
                SummedArray("means", (d, IN_MEAN), 1.0),
                SummedArray("squares", (d, IN_SQUARE), 1.0),
                SummedArray("deviations", (d, IN_SQUARE), 1.0),
            ]
        if opened.asks.second_moments:
            blocks.append(SummedArray("second", (registry.rows * (registry.rows + 1) // 2,), COARSE))
        return cls(tuple(blocks))

    @classmethod
    def of_scores(cls, asked: Score, registry: Registry, columns: Callable[[int], int]) -> "Layout":
        """Return the layout of the scores of candidates."""
        labels = len(registry.labels)
        relabelling = (SummedArray(f"labels {name}", (labels, labels)) for name in asked.relabel)
        return cls((*_of_slots(asked.slots, (registry.rows, columns(labels))), *relabelling))

    @cached_property
    def size(self) -> int:
        """Return how many numbers there are."""
        return sum(math.prod(block.shape) for block in self.blocks)

    def packed(self, parts: Mapping[str, NDArray[Any]]) -> IntArray:
        """Return a client's sums as whole numbers, shape (size,); a part that is lacking is 0."""
        return np.concatenate(
            [np.zeros(0, np.int64), *(_steps(block, parts.get(block.name)) for block in self.blocks)]
        )

    def unpacked(self, sums: IntArray) -> dict[str, Any]:
        """Return the arrays of (a total of) sums, by name: whole numbers as int64, others as float64.

        Numbers are clipped at half of what can be added up: beyond that something else was added than sums.
        """
        parts, at, sums = {}, 0, np.clip(sums, -LARGEST, LARGEST)
        for block in self.blocks:
            part = sums[at : at + math.prod(block.shape)].reshape(block.shape)
            parts[block.name] = part.copy() if block.scale == 1.0 else part / block.scale
            at += part.size
        return parts


def _of_slots(slots: Sequence[Slot], shape: tuple[int, int]) -> Iterable[SummedArray]:
    trained = (SummedArray(f"step {slot.name}", shape) for slot in slots if slot.trained)
    return (SummedArray("losses", (len(slots), 6)), *trained)


def _steps(block: SummedArray, part: NDArray[Any] | None) -> IntArray:
    if part is None:
        return np.zeros(math.prod(block.shape), np.int64)
    if block.scale == 1.0:
        return np.clip(part.ravel().astype(np.int64), -MOST, MOST)
    with np.errstate(over="ignore"):
        steps: FloatArray = np.clip(np.rint(part.ravel() * block.scale), -MOST, MOST)
    return steps.astype(np.int64)
