"""Where the labels of vertical lines go: in lanes above the plot, none over another."""

from collections.abc import Sequence
from dataclasses import dataclass

_GAP = 6.0
_OFF = 4.0


@dataclass(frozen=True, slots=True)
class LabelPlace:
    """Where a label is tied: at `x` it starts, or ends if it stands `before` its line. Lanes count upwards."""

    x: float
    lane: int
    before: bool = False


def place(lines: Sequence[tuple[float, float]], right: float, lanes: int) -> list[LabelPlace | None]:
    """Place one label beside each line.

    They are placed from right to left: a label that finds no room in the lowest lane then rises on its own
    line, which passes left of the labels below it instead of through them.

    Parameters
    ----------
    lines
        The place of each line and the width of its label, from left to right.
    right
        Where the paper ends; a label that would cross it stands to the left of its line.
    lanes
        How many lanes there are.

    Returns
    -------
    list of LabelPlace or None
        In the order of `lines`; None where there is no room.

    >>> [(found.x, found.lane, found.before) for found in place([(10, 50), (40, 50), (200, 50)], right=220, lanes=2)]
    [(14.0, 1, False), (44.0, 0, False), (196.0, 0, True)]
    """
    taken: list[list[tuple[float, float]]] = [[] for _ in range(lanes)]
    return [_settle(x, width, right, taken) for x, width in reversed(lines)][::-1]


def _settle(x: float, width: float, right: float, taken: list[list[tuple[float, float]]]) -> LabelPlace | None:
    before = x + _OFF + width > right
    left = x - _OFF - width if before else x + _OFF
    for lane, spans in enumerate(taken):
        if left >= 0 and all(left + width + _GAP <= start or end + _GAP <= left for start, end in spans):
            spans.append((left, left + width))
            return LabelPlace(x - _OFF if before else left, lane, before)
    return None
