"""The one loop: it steps every node in turn, and waits when none has anything to do."""

import math
from collections.abc import Sequence

from threadpoolctl import threadpool_limits

from streamfl.runtime.nodes import Node
from streamfl.runtime.ports import Clock


def run(nodes: Sequence[Node], clock: Clock) -> None:
    """Drive the nodes until all have finished.

    BLAS runs with one thread, so that the same records give the same bytes on any number of cores.

    Parameters
    ----------
    nodes
        The nodes, stepped in this order.
    clock
        The time. A manual clock jumps to the next moment that a node waits for; a service's clock listens meanwhile.

    Raises
    ------
    BrokenInvariantError
        With a manual clock: no event is left, and some node has not finished.
    """
    with threadpool_limits(1):
        while not all(node.finished for node in nodes):
            if not _step_all(nodes, clock):
                clock.sleep_until(_next_moment(nodes))


def _step_all(nodes: Sequence[Node], clock: Clock) -> bool:
    busy = False
    for node in nodes:
        busy = (not node.finished and node.step(clock.now())) or busy
    return busy


def _next_moment(nodes: Sequence[Node]) -> float:
    """Return when the first node wants a Tick; infinity if none does."""
    moments = [node.wakes_at for node in nodes if not node.finished and node.wakes_at is not None]
    return min(moments, default=math.inf)
