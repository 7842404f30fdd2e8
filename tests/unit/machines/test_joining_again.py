"""Many clients that ask at once, and a backlog of single records: what that costs grows with neither."""

from collections import deque

import numpy as np
import pytest
from unit.machines.script import answer, begun, broadcast, coordinator, join, leave

from streamfl.machines.client.intake.buffer import Buffer
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.protocol.messages import Fenced, Joined, Left, RoundOpened
from streamfl.protocol.records import Batch, Span
from streamfl.runtime.log.links import Links
from streamfl.runtime.log.partition import LogSource
from streamfl.runtime.nodes import CoordinatorNode

CLIENTS = 300


class Link:
    """A link that keeps what is written: `streamfl.runtime.ports.CoordinatorLink`."""

    def __init__(self):
        self.arrived, self.commits, self.published = deque(), 0, []

    def receive(self):
        while self.arrived:
            yield self.arrived.popleft()

    def publish(self, messages):
        self.published += messages

    def commit(self, messages, state):
        self.commits += 1
        self.publish(messages)

    def refuse(self, reason):
        raise AssertionError(reason)


def federation(n: int) -> tuple[CoordinatorNode, Link]:
    """Return the node of a coordinator that has begun with so many clients."""
    machine = coordinator(n)
    begun(machine, *(f"c{i}" for i in range(n)))
    link = Link()
    return CoordinatorNode(machine, link), link


def joined_again(n: int, *, after: int) -> tuple[Link, list[Joined]]:
    """Let all of them join again, as after a kill of their host; return what was written, and the answers."""
    node, link = federation(n)
    link.arrived.extend(join(f"c{i}", start=2, after=after) for i in range(n))
    node.step(0.0)
    return link, [message for message in link.published if isinstance(message, Joined | Fenced)]


def test_clients_that_join_again_together_are_answered_by_one_commit_and_told_once_what_the_round_is():
    for n in (1, 30, CLIENTS):
        link, answers = joined_again(n, after=1)
        assert [one.client for one in answers] == [f"c{i}" for i in range(n)]
        assert all(isinstance(one, Joined) and one.incarnation == 2 for one in answers)
        assert link.commits == 1
        others = [message for message in link.published if not isinstance(message, Joined)]
        assert sum(isinstance(message, RoundOpened) for message in others) == 1
        assert len(others) <= 12  # whatever the number of clients


def test_starts_that_do_not_know_the_present_ones_are_told_these_and_nothing_else():
    link, answers = joined_again(CLIENTS, after=0)
    assert link.commits == 0
    assert len(link.published) == len(answers) == CLIENTS
    assert all(isinstance(one, Fenced) for one in answers)


def test_clients_that_leave_together_are_answered_by_one_commit_and_the_end_follows_the_last_of_them():
    node, link = federation(CLIENTS)
    link.arrived.extend(leave(f"c{i}") for i in range(1, CLIENTS))
    node.step(0.0)
    assert [one.client for one in link.published if isinstance(one, Left)] == [f"c{i}" for i in range(1, CLIENTS)]
    assert (link.commits, node.finished) == (1, False)
    link.arrived.append(leave("c0"))
    node.step(1.0)
    assert (link.commits, node.finished) == (2, True)


def test_a_start_that_joins_right_after_the_one_before_it_has_left_is_a_member():
    node, link = federation(2)
    link.arrived.extend([leave("c0"), join("c0", start=2)])
    node.step(0.0)
    assert [type(one) for one in link.published if isinstance(one, Left | Joined)] == [Left, Joined]
    assert not node.machine.state.members["c0"].left


def test_an_update_that_arrives_with_a_join_counts_and_the_answer_says_so():
    node, link = federation(2)
    opened = node.machine._unsaved.open_round.message
    updates = [answer(opened, name) for name in ("c0", "c1")]
    link.arrived.extend([join("c0", start=2, after=1), *updates])
    node.step(0.0)
    (told,) = [message for message in link.published if isinstance(message, Joined)]
    assert (told.entry, told.read) == (2, updates[0].records)


def test_one_join_that_cannot_be_answered_is_refused_and_the_others_are_answered(monkeypatch):
    machine = coordinator(2)
    machine._recovery.last_saved = lambda: machine.state
    begun(machine, "c0", "c1")
    enter = Coordinator._enter

    def raises(self, asked, member):
        return 1 / 0 if asked.client == "bad" else enter(self, asked, member)

    monkeypatch.setattr(Coordinator, "_enter", raises)
    for name in ("c2", "bad", "c3"):
        machine.handle(join(name), 0.0)
    decisions = []
    while machine.has_questions:
        decisions += machine.answer(0.0)
    assert [one.client for one in broadcast(decisions, Joined)] == ["c2", "c3"]
    assert machine.state.refused == 1


class Told(Links):
    """Links that receive what a coordinator has written."""

    def __init__(self, messages):
        super().__init__()
        self.messages = messages

    def send(self, message):
        raise AssertionError(message)

    def received(self):
        received, self.messages = self.messages, []
        return received

    def current(self):
        return ()


@pytest.mark.parametrize("after", [0, 1])
def test_what_each_client_is_told_when_all_join_again_does_not_grow_with_their_number(after):
    longest = []
    for n in (30, CLIENTS):
        links = Told([])
        of = [links.link(f"c{i}") for i in range(n)]
        links.messages = joined_again(n, after=after)[0].published
        longest.append(max(len(link.receive()) for link in of))
    assert longest[0] == longest[1] <= 13


def single(n: int) -> list[Batch]:
    return [Batch(Span("p", i, i + 1), np.array([i]), ("x",), np.ones((1, 1)), np.zeros(1), ("a",)) for i in range(n)]


@pytest.mark.parametrize("n", [10, 1000])
def test_how_many_records_wait_is_known_without_a_look_at_them(n, monkeypatch):
    buffer, source = Buffer(5000), LogSource("p", 0, lambda positions: None)
    buffer.add(single(n))
    source.put_back(single(n))
    looks = []
    monkeypatch.setattr(Batch, "read", property(lambda self: looks.append(self) or 1))
    monkeypatch.setattr(Batch, "__len__", lambda self: looks.append(self) or 1)
    assert (buffer.size, buffer.pending, buffer.room, source.waiting) == (n, n, 5000 - n, n)
    assert looks == []
    source.poll(2)
    assert (source.waiting, len(looks) < 10) == (n - 2, True)
