"""The one loop: gives every node its turn, and lets time pass when none has anything to do."""

import math
from collections.abc import Sequence

from threadpoolctl import threadpool_limits

from streamfl.ports import Clock
from streamfl.runtime.nodes import Node


def run(nodes: Sequence[Node], clock: Clock) -> None:
    """Drive the nodes until all have finished.

    One BLAS thread, so that the same records give the same bytes on any number of cores.

    Parameters
    ----------
    nodes
        Driven in turn, in this order.
    clock
        The time; a manual one jumps to the next moment that a node waits for, one of a service listens meanwhile.

    Raises
    ------
    BrokenInvariantError
        By a manual clock: nothing is left to happen and some node has not finished.
    """
    with threadpool_limits(1):
        while not all(node.finished for node in nodes):
            if not _everyone_steps(nodes, clock):
                clock.sleep_until(_next_moment(nodes))


def _everyone_steps(nodes: Sequence[Node], clock: Clock) -> bool:
    busy = False
    for node in nodes:
        busy = (not node.finished and node.step(clock.now())) or busy
    return busy


def _next_moment(nodes: Sequence[Node]) -> float:
    """Return when the first node wants a Tick; infinity when all wait for something else than time."""
    moments = [node.wakes_at for node in nodes if not node.finished and node.wakes_at is not None]
    return min(moments, default=math.inf)
