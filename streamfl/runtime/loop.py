"""The one driver of all nodes: of live processes, of a table in memory, of an estimator, and of simulated worlds."""

import math
from collections.abc import Callable, Iterable, Sequence

from threadpoolctl import threadpool_limits

from streamfl.runtime.nodes import Node
from streamfl.runtime.ports import Clock

Turns = Callable[[Sequence[Node]], Iterable[Node]]


def in_turn(nodes: Sequence[Node]) -> Iterable[Node]:
    """Return the nodes in the order given."""
    return nodes


def run(nodes: Sequence[Node], clock: Clock, turns: Turns = in_turn) -> None:
    """Drive the nodes until all have finished.

    BLAS runs with one thread, so that the same records give the same bytes on any number of cores.

    Parameters
    ----------
    clock
        The time. A manual clock jumps to the next moment that a node waits for; a service's clock listens meanwhile.
    turns
        Returns the order in which the nodes are stepped, each once; it is asked for again every time.

    Raises
    ------
    BrokenInvariantError
        With a manual clock: no event is left, and some node has not finished.
    """
    with threadpool_limits(1):
        busy = True
        while not all(node.finished for node in nodes):
            if not busy:
                clock.sleep_until(_next_moment(nodes))
            busy = _step_all(nodes, clock, turns)


def settle(nodes: Sequence[Node], clock: Clock) -> None:
    """Drive the nodes until none has anything to do at the present time."""
    while _step_all(nodes, clock, in_turn):
        pass


def _step_all(nodes: Sequence[Node], clock: Clock, turns: Turns) -> bool:
    busy = False
    for node in turns(nodes):
        busy = (not node.finished and node.step(clock.now())) or busy
    return busy


def _next_moment(nodes: Sequence[Node]) -> float:
    """Return when the first node wants a Tick; infinity if none does."""
    moments = [node.wakes_at for node in nodes if not node.finished and node.wakes_at is not None]
    return min(moments, default=math.inf)
