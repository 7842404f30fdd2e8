"""Places the labels of vertical lines in lanes above the plot so that none overlap."""

from collections.abc import Sequence
from dataclasses import dataclass

_GAP = 6.0
_OFF = 4.0


@dataclass(frozen=True, slots=True)
class LabelPlace:
    """The place of a label: it starts at `x`, or ends there if it is `before` its line. Lanes count upwards."""

    x: float
    lane: int
    before: bool = False


def place(lines: Sequence[tuple[float, float]], right: float, lanes: int) -> list[LabelPlace | None]:
    """Place one label beside each line.

    Labels are placed from right to left. A label without room in the lowest lane goes to a higher one; its line then
    passes to the left of the labels below it, not through them.

    Parameters
    ----------
    lines
        The coordinate of each line and the width of its label, from left to right.
    right
        The right edge; a label that would cross it goes to the left of its line.
    lanes
        The number of lanes.

    Returns
    -------
    list of LabelPlace or None
        In the order of `lines`; None if there is no room.

    >>> [(label.x, label.lane, label.before) for label in place([(10, 50), (40, 50), (200, 50)], right=220, lanes=2)]
    [(14.0, 1, False), (44.0, 0, False), (196.0, 0, True)]
    """
    taken: list[list[tuple[float, float]]] = [[] for _ in range(lanes)]
    return [_place(x, width, right, taken) for x, width in reversed(lines)][::-1]


def _place(x: float, width: float, right: float, taken: list[list[tuple[float, float]]]) -> LabelPlace | None:
    before = x + _OFF + width > right
    left = x - _OFF - width if before else x + _OFF
    for lane, spans in enumerate(taken):
        if left >= 0 and all(left + width + _GAP <= start or end + _GAP <= left for start, end in spans):
            spans.append((left, left + width))
            return LabelPlace(x - _OFF if before else left, lane, before)
    return None
