"""Unusable messages are refused, counted and announced; no round waits for their sender, and they end nothing."""

import inspect
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from unit.machines.script import (
    LEARNER,
    PROFILES,
    answer,
    begun,
    broadcast,
    coordinator,
    feed,
    join,
    leave,
    refusals,
    scores,
    uncounted,
)

import streamfl
from streamfl.bounds import REASON_CHARS, REFUSALS_IN_A_ROW, Limits
from streamfl.errors import BrokenInvariantError
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.close import rounds
from streamfl.machines.coordinator.culprits import without_culprits
from streamfl.machines.coordinator.gate import admission
from streamfl.machines.coordinator.machine import PAUSE, Coordinator
from streamfl.machines.coordinator.round.aggregation import RoundAggregation
from streamfl.machines.coordinator.round.refusals import Refusals
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.decisions import Commit, Finished, Publish, Refused
from streamfl.protocol.events import Signed, Tick, Unusable
from streamfl.protocol.messages import Joined, Left, Refusal, RoundClosed, RoundOpened, Score, Watermark
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import Span
from streamfl.runtime.nodes import CoordinatorNode
from streamfl.runtime.transport.memory import MemoryTransport
from streamfl.wire import codec


def spoilt(opened, name, **more):
    """An update that no honest client sends."""
    return answer(opened, name, squared_norm=math.nan, **more)


def accepted(decisions):
    """Whose updates count in the entry that was closed."""
    (closed,) = broadcast(decisions, RoundClosed)
    return [one.client for one in closed.accepted]


# --- who is waited for -----------------------------------------------------------------------------------------


def test_a_client_whose_message_is_at_fault_is_not_waited_for():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    assert feed(machine, spoilt(opened, "c1")) == [Refused("c1", "a norm is out of range", is_fault=True)]
    assert machine.waited_for == {"c0"}
    assert accepted(feed(machine, answer(opened, "c0"))) == ["c0"]


def test_a_fault_closes_the_round_that_waited_for_its_sender_alone_in_one_transaction_behind_the_refusal():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    feed(machine, answer(opened, "c0"))
    refused, commit = feed(machine, spoilt(opened, "c1"))
    assert (type(refused), type(commit)) == (Refused, Commit)
    assert accepted([commit]) == ["c0"]
    assert [m.client for m in commit.messages if isinstance(m, Refusal)] == ["c1"]


def test_a_good_update_after_a_refused_one_counts_while_the_entry_is_open():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    feed(machine, spoilt(opened, "c1"), answer(opened, "c1"))
    assert machine.waited_for == {"c0"}
    assert accepted(feed(machine, answer(opened, "c0"))) == ["c0", "c1"]
    assert machine.state.members["c1"].refused == 0


@pytest.mark.parametrize(
    ("attempt", "is_fault"),
    [
        ("0-1", False),
        ("2-1", False),
        ("i1-1", True),
        ("1", True),
        ("-1", True),
        ("1-", True),
        ("", True),
        ("²-1", True),
    ],
)
def test_a_message_of_another_incarnation_counts_against_no_member(attempt, is_fault):
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    (refused,) = feed(machine, spoilt(opened, "c1", attempt=attempt))
    assert (refused.is_fault, machine.state.refused, machine.waited_for) == (is_fault, is_fault, {"c0", "c1"})


def test_late_messages_are_no_faults_and_are_not_announced():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    feed(machine, answer(opened, "c0"))
    late = [
        answer(opened, "c0"),
        answer(opened, "c9"),
        answer(replace(opened, entry=0), "c1"),
        answer(replace(opened, registry=7), "c1"),
        answer(opened, "c1", attempt="2-1"),
    ]
    decisions = feed(machine, *late)
    assert [decision.is_fault for decision in decisions] == [False] * len(late)
    assert (machine.state.refused, machine.waited_for, machine.announce(0.0)) == (0, {"c1"}, [])
    (closed,) = broadcast(feed(machine, answer(opened, "c1")), RoundClosed)
    assert closed.refused == len(late)


def test_from_the_third_unusable_message_of_an_entry_on_its_client_is_not_waited_for():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    feed(machine, answer(opened, "c0"))
    junk = Unusable("c1", "neither JSON nor safetensors")
    assert refusals(feed(machine, junk, junk)) == [("c1", "neither JSON nor safetensors")] * 2
    assert machine.waited_for == {"c1"}
    assert accepted(feed(machine, junk)) == ["c0"]
    assert (machine.state.refused, machine.state.members["c1"].refused) == (3, 0)
    feed(machine, junk, junk)  # it is counted anew in every entry
    assert machine.waited_for == {"c0", "c1"}


def test_unusable_messages_evict_no_client_as_any_writer_can_send_them():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    for i in range(5):
        junk = [Unusable("c1", "junk")] * 3
        (opened,) = broadcast(feed(machine, answer(opened, "c0", start=4 * i), *junk), RoundOpened)
    assert machine.present == {"c0", "c1"}
    assert machine.state.refused == 15


def test_two_unusable_messages_change_no_byte_of_a_round():
    runs = []
    for junk in (0, 2):
        machine = coordinator(2)
        opened = begun(machine, "c0", "c1")
        feed(machine, answer(opened, "c0"), *[Unusable("c1", "junk")] * junk, answer(opened, "c1"))
        runs.append(uncounted(machine))
    assert runs[0] == runs[1]


def test_nothing_is_remembered_of_strangers_without_number():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    for i in range(300):
        feed(machine, Unusable(f"x{i}", "junk"), join(f"y{i}", labels=("a", "a")))
    kept = machine._unsaved.refusals
    assert (len(kept.unannounced), len(kept.announced), kept.unusable, kept.at_fault) == (100, 100, {}, {})
    assert machine.state.refused == 600
    assert accepted(feed(machine, answer(opened, "c0"), answer(opened, "c1"))) == ["c0", "c1"]


def test_long_names_are_not_announced_and_long_reasons_are_cut():
    machine = coordinator(2)
    begun(machine, "c0", "c1")
    (refused,) = feed(machine, join("x" * 10**6, labels=("a", "a")))
    assert len(refused.client) == REASON_CHARS
    (refused,) = feed(machine, Unusable("c0", "y" * 10**6))
    assert len(refused.reason) == REASON_CHARS
    assert machine._unsaved.refusals.unannounced == {}


def test_whatever_its_name_is_a_refusal_that_is_announced_is_short():
    refusals_ = Refusals()
    for client in ("x" * 257, "\ud800", "x" * 256):
        refusals_.warn(Refusal(client=client, incarnation=1, entry=1, reason="no"), ())
    assert [refusal.client for refusal in refusals_.take()] == ["x" * 256]


# --- entries without anybody -----------------------------------------------------------------------------------


def test_where_all_are_refused_the_entry_closes_without_records():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    before = codec.encode(replace(machine.state, entry=0, refused=0, members={}))
    feed(machine, spoilt(opened, "c0"))
    decisions = feed(machine, spoilt(opened, "c1"))
    (closed,), (again,) = broadcast(decisions, RoundClosed), broadcast(decisions, RoundOpened)
    assert (closed.entry, closed.records, closed.accepted, closed.refused) == (1, 0, (), 2)
    assert (again.entry, again.round) == (2, 1)
    assert codec.encode(replace(machine.state, entry=0, refused=0, members={})) == before
    assert machine.state.members["c0"].positions == {}


def test_at_a_deadline_with_refusals_alone_the_entry_closes_without_records():
    machine = coordinator(2, deadline=3.0)
    opened = begun(machine, "c0", "c1")
    feed(machine, spoilt(opened, "c0"), now=1.0)
    (closed,) = broadcast(feed(machine, Tick(), now=3.0), RoundClosed)
    assert (closed.entry, closed.records) == (1, 0)


# --- eviction --------------------------------------------------------------------------------------------------


def refused_for(machine, opened, entries, name="c1", other="c0"):
    """Let one client be refused for some entries, and another be accepted; return what was decided last."""
    for i in range(entries):
        decisions = feed(machine, spoilt(opened, name), answer(opened, other, start=4 * i))
        (opened,) = broadcast(decisions, RoundOpened)
    return decisions, opened


def test_after_three_entries_in_a_row_a_client_is_evicted_in_the_same_commit():
    machine = coordinator(2)
    decisions, _ = refused_for(machine, begun(machine, "c0", "c1"), REFUSALS_IN_A_ROW)
    (commit,) = [decision for decision in decisions if isinstance(decision, Commit)]
    (told_,) = [message for message in commit.messages if isinstance(message, Refusal)]
    assert (told_.client, told_.incarnation, told_.entry, told_.evicted) == ("c1", 1, 3, True)
    assert told_.reason == "evicted, refused for 3 entries in a row: a norm is out of range"
    member = machine.state.members["c1"]
    assert (member.left, member.evicted, member.refused, member.positions) == (True, True, 3, {})
    assert machine.waited_for == {"c0"}


def test_an_entry_in_which_a_client_counts_or_is_silent_does_not_count_towards_eviction():
    machine = coordinator(2, quorum=1)
    _, opened = refused_for(machine, begun(machine, "c0", "c1"), 2)
    (opened,) = broadcast(feed(machine, answer(opened, "c0", start=8)), RoundOpened)  # nothing was heard of c1
    assert machine.state.members["c1"].refused == 2
    (opened,) = broadcast(feed(machine, answer(opened, "c1")), RoundOpened)
    assert machine.state.members["c1"].refused == 0
    refused_for(machine, opened, 2)
    assert not machine.state.members["c1"].evicted


def test_a_client_that_lies_in_every_other_entry_holds_no_entry_up_and_is_not_evicted():
    machine = coordinator(2)
    opened, counted = begun(machine, "c0", "c1"), []
    for i in range(2 * REFUSALS_IN_A_ROW):
        update = spoilt(opened, "c1") if i % 2 else answer(opened, "c1", start=4 * (i // 2))
        decisions = feed(machine, update, answer(opened, "c0", start=4 * i))
        counted.append(accepted(decisions))
        (opened,) = broadcast(decisions, RoundOpened)
    assert counted == [["c0", "c1"], ["c0"]] * REFUSALS_IN_A_ROW
    assert not machine.state.members["c1"].left


def test_only_a_new_start_brings_an_evicted_client_back():
    machine = coordinator(2)
    _, opened = refused_for(machine, begun(machine, "c0", "c1"), 3)
    ((_, why),) = refusals(feed(machine, answer(opened, "c1")))
    assert why == "it is not a member"
    (publish,) = feed(machine, join("c1"))
    (again,) = publish.messages
    assert (type(publish), again.client, again.incarnation, again.evicted) == (Publish, "c1", 1, True)
    (commit,) = feed(machine, join("c1", start=2))
    assert isinstance(commit, Commit)
    assert broadcast([commit], Joined)[0].read == 0
    member = machine.state.members["c1"]
    assert (member.left, member.evicted, member.refused) == (False, False, 0)
    (opened,) = broadcast(feed(machine, answer(opened, "c0", start=12)), RoundOpened)
    assert machine.waited_for == {"c0"}
    feed(machine, answer(opened, "c1", attempt="2-1"))  # from its first update on it is waited for
    feed(machine, answer(opened, "c0", start=16))
    assert machine.waited_for == {"c0", "c1"}


def test_an_evicted_client_may_leave():
    machine = coordinator(2)
    refused_for(machine, begun(machine, "c0", "c1"), 3)
    assert broadcast(feed(machine, leave("c1")), Left) == [Left(client="c1", nonce="i1")]


def test_a_coordinator_is_finished_when_all_clients_but_evicted_ones_have_left():
    machine = coordinator(2)
    decisions, _ = refused_for(machine, begun(machine, "c0", "c1"), 3)
    assert Finished() not in decisions
    assert Finished() in feed(machine, leave("c0"))


def test_a_coordinator_is_finished_when_all_clients_are_evicted():
    machine = coordinator(1)
    opened = begun(machine, "c0")
    for _ in range(3):
        decisions = feed(machine, spoilt(opened, "c0"))
        (opened,) = broadcast(decisions, RoundOpened)
    assert isinstance(decisions[-1], Finished)
    assert machine.state.members["c0"].evicted


# --- what is announced -----------------------------------------------------------------------------------------


def test_refusals_are_announced_once_a_client_and_entry_and_saved_with_the_count():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    feed(machine, *[spoilt(opened, "c1")] * 5)
    assert machine.wakes_at == -math.inf
    (commit,) = machine.announce(10.0)
    assert isinstance(commit, Commit)
    reason = "a norm is out of range"
    assert commit.messages == (Refusal(client="c1", incarnation=1, entry=1, reason=reason),)
    assert (machine.announce(20.0), machine.wakes_at) == ([], None)


def test_refusals_of_junk_share_one_transaction_after_a_pause():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    feed(machine, spoilt(opened, "c1"))
    assert len(machine.announce(10.0)) == 1
    feed(machine, Unusable("x", "junk"))
    assert (machine.announce(10.5), machine.wakes_at) == ([], 10.0 + PAUSE)
    (commit,) = machine.announce(11.0)
    assert commit == Commit(())


def test_the_next_messages_that_go_out_announce_pending_refusals():
    machine = coordinator(3)
    opened = begun(machine, "c0", "c1", "c2")
    feed(machine, spoilt(opened, "c1"))
    (publish,) = feed(machine, join("c0", question=2))
    assert (type(publish), [m.client for m in publish.messages if isinstance(m, Refusal)]) == (Publish, ["c1"])
    (commit,) = machine.announce(0.0)  # a Publish has not saved the count
    assert commit == Commit(())


def test_a_join_before_the_beginning_is_refused_with_its_reason():
    machine = coordinator(2)
    (refused,) = feed(machine, join("c0", labels=("a", "a")))
    assert refused.is_fault
    (commit,) = machine.announce(0.0)
    assert [(m.client, m.entry, m.reason) for m in commit.messages] == [
        ("c0", 1, "the client joins with impossible counts or labels")
    ]
    codec.decode(CoordinatorState, codec.encode(machine.state))  # it can be saved though nothing is agreed on
    assert begun(machine, "c0", "c1").entry == 1


def test_the_answer_to_a_join_names_the_question():
    machine = coordinator(2)
    (first, second) = broadcast(feed(machine, join("c0", question=3), join("c1", question=5)), Joined)
    assert (first.question, second.question) == (3, 5)
    assert broadcast(feed(machine, join("c1", start=2, question=1)), Joined)[0].question == 1


class Link:
    """A link that remembers what was done with it, in order."""

    def __init__(self, inner):
        self.inner, self.done, self.taken = inner, [], None

    def receive(self):
        for message in self.inner.receive():
            self.taken = message
            yield message

    def refuse(self, reason):
        self.done.append(("refuse", type(self.taken).__name__, self.taken.client, reason))

    def publish(self, told_):
        self.done.append(("publish", [type(message).__name__ for message in told_]))

    def commit(self, told_, state):
        self.done.append(("commit", [type(message).__name__ for message in told_], state.refused))


def test_a_dead_letter_is_kept_before_the_commit_that_leaves_its_place_and_one_commit_is_enough():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    transport = MemoryTransport()
    hears = transport.client("observer")
    link = Link(transport.coordinator())
    node = CoordinatorNode(machine, link)
    late = answer(replace(opened, entry=0), "c0")
    for message in (spoilt(opened, "c1"), spoilt(opened, "c1"), late, Unusable("c0", "junk")):
        hears.send(message)
    node.step(0.0)
    assert link.done == [
        ("refuse", "Update", "c1", "a norm is out of range"),
        ("refuse", "Update", "c1", "a norm is out of range"),
        ("refuse", "Unusable", "c0", "junk"),
        ("commit", ["Refusal"], 3),
    ]


# --- while candidates are scored -------------------------------------------------------------------------------


def deliberating(machine=None, *, after=lambda opened: ()):
    """A coordinator of three whose alarm asks for scores, the updates of its round, and what it asks.

    What `after` an opening comes first is decided by the caller.
    """
    machine = machine or coordinator(3)
    (opened,) = broadcast(feed(machine, *(join(name) for name in ("c0", "c1", "c2"))), RoundOpened)
    for t in range(200):
        loss = 0.1 if t < 20 else 0.9
        updates = {n: answer(opened, n, loss=loss, records=100, start=100 * t) for n in ("c0", "c1", "c2")}
        decisions = feed(machine, *after(opened), *updates.values())
        asked = broadcast(decisions, Score)
        if asked:
            return machine, updates, asked[0]
        (opened,) = broadcast(decisions, RoundOpened)
    raise AssertionError("no alarm")


def test_a_client_with_wrong_scores_is_not_waited_for_and_refused_without_a_commit():
    machine, updates, asked = deliberating()
    assert machine.waited_for == {"c0", "c1", "c2"}
    feed(machine, scores(updates["c1"], asked, math.nan))
    assert machine.waited_for == {"c0", "c2"}
    (publish,) = machine.announce(0.0)
    assert isinstance(publish, Publish)
    assert [message.client for message in publish.messages] == ["c1"]
    feed(machine, Unusable("x", "junk"))
    assert (machine.announce(5.0), machine.wakes_at) == ([], None)  # its count is saved with the round
    decisions = feed(machine, scores(updates["c0"], asked, 0.1), scores(updates["c2"], asked, 0.1))
    assert accepted(_ended(machine, updates, decisions)) == ["c0", "c1", "c2"]
    assert machine.state.members["c1"].refused == 0  # its update counted


def test_a_client_with_a_good_second_update_is_waited_for_when_scores_are_asked_for():
    machine, _, _ = deliberating(after=lambda opened: [spoilt(opened, "c1")])
    assert machine.waited_for == {"c0", "c1", "c2"}


def _ended(machine, updates, decisions):
    """Answer whatever is still asked."""
    while asked := broadcast(decisions, Score):
        decisions = feed(machine, *(scores(update, asked[0], 0.1) for update in updates.values()))
    return decisions


# --- whatever raises -------------------------------------------------------------------------------------------


class Saved:
    """A coordinator whose Commits are saved as bytes, and what it is driven with."""

    def __init__(self, min_clients=3, *, profile=None, **settings):
        self.first = lambda: CoordinatorState(Promotion() if profile is None else profile())
        self.bytes = None
        told_ = {"learner": LEARNER, "min_clients": min_clients, "scaling": True} | settings
        self.machine = Coordinator(CoordinatorSettings(**told_), self.first(), self.restore)

    def restore(self):
        return self.first() if self.bytes is None else codec.decode(CoordinatorState, self.bytes)

    def feed(self, *events, now=0.0):
        """Hand over events, and carry out what is decided; return it."""
        decisions = []
        for event in events:
            for decision in self.machine.handle(event, now):
                decisions.append(decision)
                self.carry_out(decision)
            while self.machine.has_questions:
                for decision in self.machine.answer(now):
                    decisions.append(decision)
                    self.carry_out(decision)
        return decisions

    def carry_out(self, decision):
        if isinstance(decision, Commit):
            self.bytes = codec.encode(self.machine.state)

    def state(self):
        """All that must not change."""
        machine = self.machine
        return (
            uncounted(machine),
            [(update.client, update.attempt) for update in machine._unsaved.updates.values()],
            sorted(machine._unsaved.scores),
            sorted(machine._unsaved.introductions),
            machine.is_scoring,
        )


HERE = str(Path(streamfl.__file__).parent)


def handled(saved, message, at):
    """Handle a message while the call number `at` into streamfl code raises, counted from the first that is guarded.

    Returns what was decided, and where it raised; None where there are not so many calls.
    """
    raised, count = None, 0

    def profile(frame, event, _):
        nonlocal raised, count
        code = frame.f_code
        resumed = code.co_flags & inspect.CO_GENERATOR  # also to be closed, where nothing can be raised
        if event != "call" or raised or resumed or not code.co_filename.startswith(HERE):
            return
        count += code.co_name not in ("handle", "has_questions", "answer", "copy", "__copy__")
        if count == at:
            raised = f"{Path(code.co_filename).name}: {code.co_name}"
            raise ValueError("injected")

    sys.setprofile(profile)
    try:
        decisions = saved.machine.handle(message, 0.0)
        if saved.machine.has_questions:
            decisions += saved.machine.answer(0.0)
    finally:
        sys.setprofile(None)
    return decisions, raised


def scaled(opened, name, **more):
    """An update as an honest client sends it in the adaptive profile."""
    return answer(opened, name, moments=join(name).moments if opened.asks.moments else None, **more)


def to_the_end(saved, opened, start):
    """Let two more rounds close, and return the digest of the model."""
    for t in range(2):
        updates = [scaled(opened, name, start=start + 4 * t) for name in ("c0", "c1", "c2")]
        (opened,) = broadcast(saved.feed(*updates), RoundOpened)
    return saved.machine.digest()


def prepared(event):
    """A coordinator that has begun and stands before an event, the open round, and the event."""
    saved = Saved()
    (opened,) = broadcast(saved.feed(*(join(name) for name in ("c0", "c1", "c2"))), RoundOpened)
    saved.feed(join("c1", start=2))
    saved.feed(join("c1", start=2, question=2))  # not committed
    match event:
        case "join again":
            return saved, opened, join("c1", start=3)
        case "join":
            return saved, opened, join("c3")
        case "update":
            saved.feed(scaled(opened, "c0"))
            return saved, opened, scaled(opened, "c1", attempt="2-1")
        case "leave":
            saved.feed(scaled(opened, "c0"), join("c3"))
            return saved, opened, leave("c3")
    raise AssertionError(event)


@pytest.mark.parametrize("event", ["join", "join again", "update", "leave"])
def test_wherever_handling_raises_the_message_is_refused_and_everything_is_what_it_was(event):
    reference, _, message = prepared(event)
    reference.feed(message)
    expected = reference.state()
    at = 0
    while True:
        at += 1
        saved, _, message = prepared(event)
        before, incarnation = saved.state(), saved.machine.state.members["c1"].incarnation
        decisions, raised = handled(saved, message, at)
        if not raised:
            break
        (refused,) = [decision for decision in decisions if isinstance(decision, Refused)]
        assert refused.reason == "could not be handled: ValueError: injected", raised
        assert (saved.state(), saved.machine.state.refused) == (before, 1), raised
        assert saved.machine.state.members["c1"].incarnation == incarnation == 2
        for decision in decisions:
            saved.carry_out(decision)
        saved.feed(message)  # it comes again, and now it counts
        assert saved.state() == expected, raised
    assert at > 5


def test_what_was_refused_since_the_last_commit_stays_counted_when_something_raises(monkeypatch):
    saved = Saved(2)
    (opened,) = broadcast(saved.feed(join("c0"), join("c1")), RoundOpened)
    saved.feed(Unusable("x", "junk"), spoilt(opened, "c1"))
    monkeypatch.setattr(admission, "refusal", lambda *_, **__: 1 / 0)
    saved.feed(scaled(opened, "c0"))
    assert saved.machine.state.refused == 3


def test_what_was_found_out_about_a_member_since_the_last_commit_is_kept_when_something_raises(monkeypatch):
    saved = Saved(2)
    (first,) = broadcast(saved.feed(join("c0"), join("c1")), RoundOpened)
    saved.feed(join("c2"))
    (second,) = broadcast(saved.feed(scaled(first, "c0"), scaled(first, "c1")), RoundOpened)
    saved.feed(scaled(first, "c2"))  # too late: from now on rounds wait for it
    assert saved.machine.waited_for == {"c0", "c1", "c2"}
    monkeypatch.setattr(admission, "refusal", lambda *_, **__: 1 / 0)
    saved.feed(scaled(second, "c0", start=4))
    assert saved.machine.waited_for == {"c1", "c2"}  # c0 is at fault


def before_the_last():
    saved = Saved()
    (opened,) = broadcast(saved.feed(*(join(name) for name in ("c0", "c1", "c2"))), RoundOpened)
    saved.feed(scaled(opened, "c0"), scaled(opened, "c2"))
    return saved, opened


def test_wherever_closing_raises_the_round_closes_all_the_same():
    undisturbed, opened = before_the_last()
    (second,) = broadcast(undisturbed.feed(scaled(opened, "c1")), RoundOpened)
    model = to_the_end(undisturbed, second, 4)
    without, opened = before_the_last()
    (second,) = broadcast(without.feed(spoilt(opened, "c1")), RoundOpened)
    expected = uncounted(without.machine)
    at, closed, refused = 0, 0, 0
    while True:
        at += 1 if at < 60 else 7  # the checks one by one, the rest by samples
        saved, opened = before_the_last()
        decisions, raised = handled(saved, scaled(opened, "c1"), at)
        if not raised:
            break
        for decision in decisions:
            saved.carry_out(decision)
        (second,) = broadcast(decisions, RoundOpened)
        if refusals(decisions):  # the message could not be judged: the round closes without it
            refused += 1
            assert uncounted(saved.machine) == expected, raised
        else:
            closed += 1
            assert to_the_end(saved, second, 4) == model, raised
    assert closed > 5
    assert refused > 5


def scoring():
    saved = Saved()
    saved, updates, asked = _deliberating(saved)
    saved.feed(scores(updates["c0"], asked, 0.1), scores(updates["c2"], asked, 0.1))
    return saved, updates, asked


def _deliberating(saved):
    (opened,) = broadcast(saved.feed(*(join(name) for name in ("c0", "c1", "c2"))), RoundOpened)
    for t in range(60):
        loss = 0.1 if t < 12 else 0.9
        updates = {n: scaled(opened, n, loss=loss, records=100, start=100 * t) for n in ("c0", "c1", "c2")}
        decisions = saved.feed(*updates.values())
        asked = broadcast(decisions, Score)
        if asked:
            return saved, updates, asked[0]
        (opened,) = broadcast(decisions, RoundOpened)
    raise AssertionError("no alarm")


@pytest.fixture(scope="module")
def alarmed():
    """The bytes of the state before the round of the alarm, its updates, and what the next start asks."""
    saved = Saved(profile=lambda: PROFILES["adaptive"]().profile, scaling=False)
    saved.machine.state.profile.ladder = coordinator(3).state.profile.ladder
    saved.machine.state.profile.detector = coordinator(3).state.profile.detector
    _, updates, asked = _deliberating(saved)
    return saved.bytes, updates, replace(asked, resumed=1)


def asking(alarmed):
    """A coordinator that has heard two of three scores."""
    data, updates, asked = alarmed
    saved = Saved(scaling=False)
    saved.bytes = data
    saved.machine = Coordinator(saved.machine.settings, codec.decode(CoordinatorState, data), saved.restore)
    saved.machine.start(0.0)
    saved.bytes = codec.encode(saved.machine.state)
    (again,) = broadcast(saved.feed(*updates.values()), Score)
    assert again == asked
    assert broadcast(saved.feed(scores(updates["c0"], asked, 0.1), scores(updates["c2"], asked, 0.1)), Score) == []
    return saved


def test_wherever_scoring_raises_the_alarm_is_settled_all_the_same(alarmed):
    _, updates, asked = alarmed
    reference = asking(alarmed)
    _finish(reference, updates, reference.feed(scores(updates["c1"], asked, 0.1)))
    model = reference.machine.digest()
    without = asking(alarmed)
    _finish(without, updates, without.feed(scores(updates["c1"], asked, math.nan)))
    assert reference.machine.state.round == without.machine.state.round
    at, settled, refused = 0, 0, 0
    while True:
        at += 1 if at < 40 else 5
        saved = asking(alarmed)
        decisions, raised = handled(saved, scores(updates["c1"], asked, 0.1), at)
        if not raised:
            break
        for decision in decisions:
            saved.carry_out(decision)
        _finish(saved, updates, decisions)
        refused += bool(refusals(decisions))
        settled += not refusals(decisions)
        expected = without if refusals(decisions) else reference
        assert uncounted(saved.machine) == uncounted(expected.machine), raised
        assert refusals(decisions) or saved.machine.digest() == model, raised
    assert settled > 5
    assert refused > 5


def test_what_raises_before_the_last_scores_leaves_the_deliberation_as_it_was(alarmed):
    _, updates, asked = alarmed
    saved = asking(alarmed)
    saved.machine._unsaved.scores.pop("c0")
    before = saved.state()
    decisions, raised = handled(saved, scores(updates["c1"], asked, 0.1), 3)
    assert raised
    assert refusals(decisions) == [("c1", "could not be handled: ValueError: injected")]
    assert saved.state() == before


class OnlySigned:
    """Whoever has signed may speak for every client."""

    def refusal(self, client, signer, state):
        return None if signer else "its signature is missing or not valid"

    def suggestion(self, client, state):
        return ""


def test_changes_of_signed_membership_that_waited_for_an_alarm_are_made_when_it_is_settled(alarmed):
    _, updates, asked = alarmed
    saved = asking(alarmed)
    saved.machine._admission.grants = OnlySigned()
    assert saved.feed(Signed(leave("c0"), "k"), Signed(join("x1"), "k")) == []
    decisions = saved.feed(Signed(scores(updates["c1"], asked, 0.1), "k"))
    while asks := broadcast(decisions, Score):
        decisions = saved.feed(*(Signed(scores(update, asks[0], 0.1), "k") for update in updates.values()))
    assert refusals(decisions) == []
    assert [told.client for told in broadcast(decisions, Left)] == ["c0"]
    assert [told.client for told in broadcast(decisions, Joined)] == ["x1"]


def test_a_change_of_membership_that_raises_is_forgotten_and_the_alarm_is_settled_all_the_same(alarmed, monkeypatch):
    _, updates, asked = alarmed
    saved = asking(alarmed)
    monkeypatch.setattr(Member, "after_leave", lambda *_: 1 / 0)
    assert saved.feed(leave("c0")) == []
    decisions = saved.feed(scores(updates["c1"], asked, 0.1))
    _finish(saved, updates, decisions)
    assert not saved.machine._unsaved.changes_wait
    assert not saved.machine.state.members["c0"].left


def _finish(saved, updates, decisions):
    while asked := broadcast(decisions, Score):
        decisions = saved.feed(*(scores(update, asked[0], 0.1) for update in updates.values()))
    assert len(broadcast(decisions, RoundClosed)) == 1


# --- those that cannot be added up -----------------------------------------------------------------------------


def poisoned(monkeypatch, *names):
    """Let a round that holds updates of these clients raise when it is added up."""
    whole = RoundAggregation.of.__func__

    def of(cls, learner, agreement, updates, *others):
        if {update.client for update in updates} & set(names):
            raise OverflowError("numbers too large")
        return whole(cls, learner, agreement, updates, *others)

    monkeypatch.setattr(RoundAggregation, "of", classmethod(of))


def test_the_updates_with_which_a_round_cannot_be_closed_are_refused_and_it_closes_without_them(monkeypatch):
    names = [f"c{i}" for i in range(9)]
    saved, other = Saved(9), Saved(9)
    (opened,) = broadcast(saved.feed(*map(join, names)), RoundOpened)
    other.feed(*map(join, names))
    poisoned(monkeypatch, "c2", "c7")
    decisions = saved.feed(*(scaled(opened, name) for name in names))
    reason = "could not be handled: OverflowError: numbers too large"
    assert refusals(decisions) == [("c2", reason), ("c7", reason)]
    assert accepted(decisions) == [name for name in names if name not in ("c2", "c7")]
    assert sorted(m.client for m in broadcast(decisions, Refusal)) == ["c2", "c7"]
    assert saved.machine.state.members["c7"].refused == 1
    other.feed(*(spoilt(opened, n) if n in ("c2", "c7") else scaled(opened, n) for n in names))
    assert uncounted(saved.machine) == uncounted(other.machine)


@pytest.mark.parametrize("what", ["scale", "squared_norm"])
def test_an_update_whose_numbers_become_infinite_without_an_exception_is_refused(monkeypatch, what):
    """An infinite norm, by which steps are divided, makes no number that NumPy would warn of."""
    whole = Agreement.after

    def after(self, updates, **how):
        agreed = whole(self, updates, **how)
        if not any(update.client == "c1" for update in updates):
            return agreed
        if what == "squared_norm":
            return replace(agreed, squared_norm=np.inf)
        return replace(agreed, registry=replace(agreed.registry, scale=np.full(1, np.inf)))

    monkeypatch.setattr(Agreement, "after", after)
    saved = Saved(3)
    (opened,) = broadcast(saved.feed(*map(join, ("c0", "c1", "c2"))), RoundOpened)
    decisions = saved.feed(*(scaled(opened, name) for name in ("c0", "c1", "c2")))
    assert [name for name, _ in refusals(decisions)] == ["c1"]
    assert accepted(decisions) == ["c0", "c2"]
    assert np.isfinite(saved.machine.state.registry.scale).all()
    assert math.isfinite(saved.machine.state.agreed.squared_norm)


def test_the_update_with_which_a_round_cannot_be_closed_is_refused_at_a_deadline(monkeypatch):
    saved = Saved(3, deadline=2.0)
    (opened,) = broadcast(saved.feed(*map(join, ("c0", "c1", "c2"))), RoundOpened)
    poisoned(monkeypatch, "c1")
    saved.feed(scaled(opened, "c0"), scaled(opened, "c1"))
    decisions = saved.feed(Tick(), now=2.0)
    assert accepted(decisions) == ["c0"]
    assert [name for name, _ in refusals(decisions)] == ["c1"]


def test_a_round_that_cannot_be_closed_even_without_updates_raises_a_defect(monkeypatch):
    saved = Saved(1)
    (opened,) = broadcast(saved.feed(join("c0")), RoundOpened)
    monkeypatch.setattr(rounds, "_conclude", lambda *_: 1 / 0)
    with pytest.raises(BrokenInvariantError, match="without updates cannot be closed"):
        saved.feed(scaled(opened, "c0"))


def test_an_exception_is_raised_where_there_is_no_saved_state_to_continue_from(monkeypatch):
    machine = coordinator(1)
    opened = begun(machine, "c0")
    poisoned(monkeypatch, "c0")
    with pytest.raises(OverflowError):
        feed(machine, answer(opened, "c0"))


def test_an_introduction_with_which_a_federation_cannot_begin_is_refused_and_another_awaited(monkeypatch):
    whole = Agreement.of.__func__

    def of(cls, joins, **how):
        if any(one.client == "c1" for one in joins):
            raise OverflowError("numbers too large")
        return whole(cls, joins, **how)

    monkeypatch.setattr(Agreement, "of", classmethod(of))
    saved = Saved(2)
    decisions = saved.feed(join("c0"), join("c1"))
    assert refusals(decisions) == [("c1", "could not be handled: OverflowError: numbers too large")]
    assert (broadcast(decisions, RoundOpened), saved.machine.waiting_clients) == ([], 1)
    assert len(broadcast(saved.feed(join("c2")), RoundOpened)) == 1
    assert sorted(saved.machine.state.members) == ["c0", "c2"]


def test_scores_that_cannot_be_added_up_are_dropped(alarmed, monkeypatch):
    _, updates, asked = alarmed
    without = asking(alarmed)
    _finish(without, updates, without.feed(scores(updates["c1"], asked, math.nan)))
    whole = RoundAggregation.answer

    def answer_(self, heard, live):
        if any(said.client == "c1" for _, said in heard):
            raise OverflowError("numbers too large")
        return whole(self, heard, live)

    monkeypatch.setattr(RoundAggregation, "answer", answer_)
    saved = asking(alarmed)
    decisions = saved.feed(scores(updates["c1"], asked, 0.1))
    assert [name for name, _ in refusals(decisions)] == ["c1"]
    monkeypatch.setattr(RoundAggregation, "answer", whole)
    _finish(saved, updates, decisions)
    assert uncounted(saved.machine) == uncounted(without.machine)


def test_without_usable_scores_the_round_closes_without_scores(alarmed, monkeypatch):
    _, updates, asked = alarmed

    def deaf(self, heard, live):
        if heard:
            raise OverflowError("numbers too large")
        return whole(self, heard, live)

    whole = RoundAggregation.answer
    monkeypatch.setattr(RoundAggregation, "answer", deaf)
    saved = asking(alarmed)
    decisions = saved.feed(scores(updates["c1"], asked, 0.1))
    assert [name for name, _ in refusals(decisions)] == ["c0", "c1", "c2"]
    assert accepted(decisions) == ["c0", "c1", "c2"]


def test_a_join_while_candidates_are_scored_cannot_keep_the_round_open(alarmed, monkeypatch):
    whole = Coordinator._enter

    def enter(self, join_, member):
        if join_.client == "c9":
            raise OverflowError("numbers too large")
        return whole(self, join_, member)

    _, updates, asked = alarmed
    without = asking(alarmed)
    _finish(without, updates, without.feed(scores(updates["c1"], asked, 0.1)))
    monkeypatch.setattr(Coordinator, "_enter", enter)
    saved = asking(alarmed)
    assert saved.feed(join("c9")) == []  # it waits for the end of the round
    _finish(saved, updates, saved.feed(scores(updates["c1"], asked, 0.1)))
    assert uncounted(saved.machine) == uncounted(without.machine)


def test_what_raises_without_any_part_is_raised_at_once_and_no_part_is_blamed():
    tried = []

    def attempt(parts, _):
        tried.append(parts.copy())
        raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        without_culprits([1, 2, 3], attempt)
    assert tried == [[1, 2, 3], []]


def test_a_culprit_is_found_in_few_attempts():
    tried = []

    def attempt(parts, culprits):
        tried.append(len(parts))
        if 700 in parts:
            raise ValueError
        return len(parts), len(culprits)

    result, culprits = without_culprits(list(range(1000)), attempt)
    assert (result, [part for part, _ in culprits]) == ((999, 1), [700])
    assert len(tried) <= 1 + 1 + 10 + 1


def test_parts_that_only_together_raise_lose_the_last_of_them():
    def attempt(parts, _):
        return np.sum(parts) if np.isfinite(np.sum(parts)) else math.fsum(parts)

    result, culprits = without_culprits([1.0, math.inf, 2.0, -math.inf, 3.0], attempt)
    assert (result, [part for part, _ in culprits]) == (math.inf, [-math.inf])


# --- where records are -----------------------------------------------------------------------------------------


PLACES = {
    "topic": (("forest.*/0", "*/0"), "c1", ["forest.c1/0", "c1/0"], ["forest.c0/0", "forest.c1/1", "c1", "c0/0"]),
    "partition": (("*",), "t/1", ["t/1"], ["t/0", "t/1/0", "t"]),
    "key": (("t/#",), "c1", ["t/0", "t/17"], ["t/", "t/x", "t/-1", "t/01", "t/٣", "u/1", "t", "t/1/2", "/1", "t/#"]),
}


@pytest.mark.parametrize("by", PLACES)
def test_a_client_has_its_own_partition_and_no_other(by):
    own, name, good, bad = PLACES[by]
    for partition, is_good in [*((p, True) for p in good), *((p, False) for p in bad)]:
        machine = coordinator(2, partitions=own)
        (opened,) = broadcast(feed(machine, join("c0"), join(name)), RoundOpened)
        update = replace(answer(opened, "c1", spans=(Span(partition, 0, 4),)), client=name)
        expected = [] if is_good else [(name, f"records of {partition}, which is not its partition")]
        assert refusals(feed(machine, update)) == expected


def test_the_partition_of_its_first_records_stays_its_own():
    machine = coordinator(1, partitions=("t/#",))
    opened = begun(machine, "c0")
    both = (Span("t/1", 0, 2), Span("t/2", 0, 2))
    assert refusals(feed(coordinator_like(machine, opened), answer(opened, "c0", spans=both))) == [
        ("c0", "records are of another partition than before")
    ]
    (opened,) = broadcast(feed(machine, answer(opened, "c0", spans=(Span("t/1", 0, 4),))), RoundOpened)
    moved = answer(opened, "c0", spans=(Span("t/2", 0, 4),))
    assert refusals(feed(machine, moved)) == [("c0", "records are of another partition than before")]


MARKED = {
    "its own": ("c1", ("l.*/0",), ("r.*/0",), "l.c1/0", Watermark("r.c1/0", 6), None),
    "by partition": ("r/1", ("l/#",), ("*",), "l/1", Watermark("r/1", 6), None),
    "another's features": (
        "c1",
        ("l.*/0",),
        ("r.*/0",),
        "l.c1/0",
        Watermark("r.c0/0", 6),
        "features of r.c0/0, which",
    ),
    "another's labels": (
        "c1",
        ("l.*/0",),
        ("r.*/0",),
        "l.c0/0",
        Watermark("r.c1/0", 6),
        "records of l.c0/0, which is",
    ),
    "labels of another number": (
        "r/1",
        ("l/#",),
        ("*",),
        "l/0",
        Watermark("r/1", 6),
        "features of r/1, which is not its",
    ),
    "features as labels": (
        "c1",
        ("l.*/0",),
        ("r.*/0",),
        "r.c1/0",
        Watermark("l.c1/0", 6),
        "features of l.c1/0, which",
    ),
    "no watermark": (
        "c1",
        ("l.*/0",),
        ("r.*/0",),
        "l.c1/0",
        None,
        "the update has no watermark, but labels come later here",
    ),
    "a watermark": (
        "c1",
        ("r.*/0",),
        (),
        "r.c1/0",
        Watermark("f", 6),
        "the update has a watermark, but labels come with their records here",
    ),
}


@pytest.mark.parametrize("case", MARKED)
def test_labels_that_come_apart_and_their_features_are_in_the_clients_own_partitions(case):
    name, own, features, labels, watermark, why = MARKED[case]
    machine = coordinator(2, partitions=own, features=features)
    (opened,) = broadcast(feed(machine, join("c0"), join(name)), RoundOpened)
    update = replace(answer(opened, "c1", spans=(Span(labels, 0, 4),)), client=name, watermark=watermark)
    found = refusals(feed(machine, update))
    assert [who for who, _ in found] == ([] if why is None else [name])
    assert why is None or found[0][1].startswith(why)


def test_a_mark_beyond_the_end_of_the_features_is_refused():
    machine = coordinator(2)
    machine._admission.logs.ends = lambda partitions: {one: 4 if one == "l" else 10 for one in partitions}
    opened = begun(machine, "c0", "c1")
    updates = [
        replace(answer(opened, "c1", spans=(Span("l", 0, 4),)), watermark=Watermark("f", at)) for at in (11, 10)
    ]
    assert refusals(feed(machine, updates[0])) == [("c1", "positions of f beyond the end of its log")]
    assert refusals(feed(machine, updates[1])) == []


def coordinator_like(machine, opened):
    other = Coordinator(machine.settings, codec.decode(CoordinatorState, codec.encode(machine.state)))
    other.start(0.0)
    assert other.state.entry == opened.entry
    return other


def test_the_ends_of_logs_are_asked_only_where_a_position_goes_farther():
    asked = []

    def ends(partitions):
        asked.append(sorted(partitions))
        return dict.fromkeys(partitions, 10)

    machine = coordinator(1)
    machine._admission.logs.ends = ends
    opened = begun(machine, "c0")
    for start, calls in ((0, 1), (4, 1)):  # up to 4, then up to 8: less than 10
        (opened,) = broadcast(feed(machine, answer(opened, "c0", start=start)), RoundOpened)
        assert asked == [["c0"]] * calls
    decisions = feed(machine, answer(opened, "c0", start=8))
    assert refusals(decisions) == [("c0", "positions of c0 beyond the end of its log")]
    assert machine.state.members["c0"].positions == {"c0": 8}
    assert asked == [["c0"], ["c0"]]
    (opened,) = broadcast(decisions, RoundOpened)
    (opened,) = broadcast(feed(machine, answer(opened, "c0", start=8, records=2)), RoundOpened)
    assert asked == [["c0"], ["c0"]]  # the end itself is known by now
    behind = answer(opened, "c0", start=10, records=1)
    assert refusals(feed(machine, behind)) == [("c0", "positions of c0 beyond the end of its log")]


@pytest.mark.parametrize("end", [10**12, 2**63 - 1, 2**63, 10**400])
def test_an_end_beyond_the_log_moves_no_position(end):
    machine = coordinator(2)
    machine._admission.logs.ends = lambda partitions: dict.fromkeys(partitions, 100)
    opened = begun(machine, "c0", "c1")
    (refused,) = feed(machine, answer(opened, "c1", spans=(Span("c1", 0, end),)))
    assert refused.is_fault
    assert accepted(feed(machine, answer(opened, "c0"))) == ["c0"]
    assert machine.state.members["c1"].positions == {}


def test_an_unknown_end_of_a_log_refuses_no_update():
    machine = coordinator(1)
    machine._admission.logs.ends = dict.fromkeys
    opened = begun(machine, "c0")
    assert accepted(feed(machine, answer(opened, "c0"))) == ["c0"]


# --- a log that was made again ---------------------------------------------------------------------------------


def test_an_update_about_a_log_that_was_made_again_is_refused_and_its_client_evicted_with_the_reason():
    ids = {"c0": "a", "c1": "b"}
    machine = coordinator(2)
    machine._admission.logs.ids = lambda partitions: {one: ids.get(one) for one in partitions}
    opened = begun(machine, "c0", "c1")
    feed(machine, answer(opened, "c0"))
    (opened,) = broadcast(feed(machine, answer(opened, "c1")), RoundOpened)
    assert machine.state.logs == ids
    ids["c1"] = "made again"
    machine = coordinator_like(machine, opened)
    machine._admission.logs.ids = lambda partitions: {one: ids.get(one) for one in partitions}
    for _ in range(3):
        opened = machine._unsaved.open_round.message
        ((who, why),) = refusals(feed(machine, answer(opened, "c1", start=4)))
        assert (who, why.partition(":")[0]) == ("c1", "the topic of c1 was deleted and made again")
        decisions = feed(machine, answer(opened, "c0", start=machine.state.members["c0"].positions["c0"]))
        assert accepted(decisions) == ["c0"]
    (evicted,) = [one for one in broadcast(decisions, Refusal) if one.evicted]
    assert "the topic of c1 was deleted and made again" in evicted.reason
    assert machine.state.members["c1"].positions == {"c1": 4}


def test_a_log_whose_identity_is_unknown_refuses_nothing_and_the_first_that_is_known_stays():
    ids = {}
    machine = coordinator(1)
    machine._admission.logs.ids = lambda partitions: {one: ids.get(one) for one in partitions}
    opened = begun(machine, "c0")
    for start, known, logs in ((0, None, {}), (4, "a", {"c0": "a"}), (8, None, {"c0": "a"}), (12, "a", {"c0": "a"})):
        ids["c0"] = known
        decisions = feed(machine, answer(opened, "c0", start=start))
        assert accepted(decisions) == ["c0"]
        assert machine.state.logs == logs
        (opened,) = broadcast(decisions, RoundOpened)


# --- too many clients ------------------------------------------------------------------------------------------


def test_no_more_clients_than_the_limit_are_remembered_once_a_federation_has_begun():
    machine = coordinator(2, limits=Limits(clients=3))
    begun(machine, "c0", "c1")
    assert broadcast(feed(machine, join("c2")), Joined)
    why = "the limit of 3 clients is reached"
    assert refusals(feed(machine, *(join(f"x{i}") for i in range(50)))) == [(f"x{i}", why) for i in range(50)]
    assert set(machine.state.members) == {"c0", "c1", "c2"}
    feed(machine, leave("c2"))
    assert refusals(feed(machine, join("x"))) == [("x", why)]  # where c2 goes on must still be known
    assert broadcast(feed(machine, join("c2", start=2)), Joined)


def test_no_more_clients_than_the_limit_are_remembered_while_candidates_are_scored():
    machine, _, _ = deliberating(coordinator(3, limits=Limits(clients=5)))
    why = "the limit of 5 clients is reached"
    assert refusals(feed(machine, *(join(f"x{i}") for i in range(50)))) == [(f"x{i}", why) for i in range(2, 50)]
    assert refusals(feed(machine, join("x1"))) == []  # it waits already


def test_no_more_clients_than_the_limit_are_remembered_before_a_federation_has_begun():
    machine = coordinator(9, limits=Limits(clients=3))
    feed(machine, *(join(f"x{i}") for i in range(50)))
    assert machine.waiting_clients == 3


def test_what_clients_say_before_a_federation_has_begun_is_bounded_by_what_it_takes(monkeypatch):
    names, zeros = tuple(f"x{i}" for i in range(400)), np.zeros(400)
    large = {"moments": Moments(names, zeros, zeros, zeros), "records": 4}
    monkeypatch.setattr(admission, "MOST_KEPT", 5 * join("x0", **large).memory // 2)
    machine = coordinator(9)
    refused = refusals(feed(machine, *(join(f"x{i}", **large) for i in range(5))))
    assert [name for name, _ in refused] == ["x2", "x3", "x4"]
    assert refusals(feed(machine, join("x0", start=2, **large))) == []  # in place of its own
    assert (machine.waiting_clients, refusals(feed(machine, join("x5")))) == (2, [])


def test_a_client_that_waits_for_the_scores_of_others_is_known_by_no_more_than_its_place():
    machine, _, _ = deliberating(coordinator(3))
    feed(machine, join("x1"))
    assert not machine._unsaved.deferred["x1"].moments.features
