"""The one driver: every node has its turn, time passes only when none has anything to do, and the end is the end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from streamfl.errors import BrokenInvariantError
from streamfl.runtime.clock import ManualClock
from streamfl.runtime.loop import run, settle
from streamfl.runtime.nodes import Node


@dataclass
class Counter:
    """A node that has something to do at some moments, and has finished after the last."""

    name: str
    moments: list[float]
    turns: list[tuple[str, float]] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return not self.moments

    @property
    def wakes_at(self) -> float | None:
        return self.moments[0]

    def step(self, now: float) -> bool:
        self.turns.append((self.name, now))
        busy = self.moments[0] <= now
        self.moments = self.moments[busy:]
        return busy


def test_time_jumps_to_the_next_moment_that_any_node_waits_for():
    told: list[tuple[str, float]] = []
    run([Counter("a", [0.0, 5.0], told), Counter("b", [2.0], told)], ManualClock())
    assert [now for _, now in told] == [0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 5.0]


def test_the_order_of_turns_is_asked_for_again_every_time():
    told: list[tuple[str, float]] = []
    orders = iter([1, -1, 1, -1, 1, -1])

    def turns(nodes: Sequence[Node]) -> Iterator[Node]:
        yield from nodes[:: next(orders)]

    run([Counter("a", [1.0], told), Counter("b", [1.0], told)], ManualClock(), turns)
    assert told == [("a", 0.0), ("b", 0.0), ("b", 1.0), ("a", 1.0)]


def test_settling_lets_no_time_pass():
    clock, node = ManualClock(), Counter("a", [0.0, 0.0, 1.0])
    settle([node], clock)
    assert (node.moments, clock.now()) == ([1.0], 0.0)


def test_nodes_that_wait_for_each_other_are_an_error():
    class Waits(Counter):
        @property
        def wakes_at(self) -> float | None:
            return None

    with pytest.raises(BrokenInvariantError, match="every machine waits for another one"):
        run([Waits("a", [1.0])], ManualClock())
