"""Scripts for the coordinator machine: membership, opening and closing rounds, quorum and deadline."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.machines.script import (
    LEARNER,
    answer,
    as_bytes,
    batch,
    begun,
    broadcast,
    client,
    coordinator,
    feed,
    join,
    leave,
    opening,
    plain,
    refusals,
    sent,
    uncounted,
)

from streamfl.learning import second_moments
from streamfl.learning.drift.detectors.glr import GLRDetector
from streamfl.learning.profiles.adaptive.ladder import LadderSettings
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.learning.profiles.base import RoundPlan
from streamfl.learning.second_moments import RIDGE
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.round.turns import next_measured
from streamfl.machines.coordinator.saved import agreement
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.decisions import Commit, Finished, Publish
from streamfl.protocol.events import RecordsRead, Tick
from streamfl.protocol.fingerprint import fingerprint
from streamfl.protocol.messages import (
    BranchGroup,
    Fenced,
    Joined,
    Left,
    ModelPublished,
    RegistryPublished,
    RoundClosed,
    RoundOpened,
    Served,
    SlotLosses,
    Update,
)
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import Span
from streamfl.wire import codec
from streamfl_benchmarks.liars.fields import altered

# --- joining ---------------------------------------------------------------------------------------------------


def test_round_one_opens_when_as_many_as_expected_have_joined():
    machine = coordinator(2)
    assert feed(machine, join("c0"), join("c0")) == []
    (commit,) = feed(machine, join("c1"))
    assert isinstance(commit, Commit)
    assert [type(message) for message in commit.messages] == [
        Joined,
        Joined,
        RegistryPublished,
        *[ModelPublished] * 6,
        RoundOpened,
    ]
    opened = commit.messages[-1]
    assert isinstance(opened, RoundOpened)
    assert (opened.entry, opened.round, opened.epoch, opened.known_labels) == (1, 1, 1, 2)
    assert [slot.name for slot in opened.slots] == ["step 16", "step 8", "step 4", "step 2", "step 1", "shadow"]
    assert opened.serves == "step 16"
    assert {message.client for message in broadcast([commit], Joined)} == {"c0", "c1"}


def test_the_agreement_does_not_depend_on_the_order_of_joins():
    mine = join("c1", labels=("10", "9"), moments=Moments(("x",), np.array([4.0]), np.array([1.0]), np.array([4.0])))
    yours = join("c0", labels=("2",), moments=Moments(("y",), np.array([4.0]), np.array([3.0]), np.array([16.0])))
    agreed = []
    for joins in ((mine, yours), (yours, mine)):
        (registry,) = broadcast(feed(coordinator(2, scaling=True), *joins), RegistryPublished)
        agreed.append(registry.registry)
    assert agreed[0].features == agreed[1].features == ("y", "x")
    assert agreed[0].labels == agreed[1].labels == ("2", "9", "10")
    assert agreed[0].mean.tolist() == agreed[1].mean.tolist() == [3.0, 1.0]
    assert agreed[0].scale.tolist() == agreed[1].scale.tolist() == [2.0, 1.0]


def test_a_late_joiner_gets_the_open_round_and_counts_if_it_is_in_time():
    machine = coordinator(1)
    opened = begun(machine, "c0")
    decisions = feed(machine, join("c1"))
    assert isinstance(decisions[0], Commit)
    (answered,) = broadcast(decisions, Joined)
    assert (answered.client, answered.entry, dict(answered.positions), answered.read) == ("c1", 1, {}, 0)
    assert broadcast(decisions, RoundOpened) == [opened]
    assert feed(machine, answer(opened, "c1")) == []
    (closed,) = broadcast(feed(machine, answer(opened, "c0")), RoundClosed)
    assert [a.client for a in closed.accepted] == ["c0", "c1"]
    assert machine.waited_for == {"c0", "c1"}


def test_a_slow_newcomer_is_late_once_and_then_waited_for():
    machine = coordinator(1)
    opened = begun(machine, "c0")
    feed(machine, join("c1"))
    late = answer(opened, "c1")
    (opened,) = broadcast(feed(machine, answer(opened, "c0")), RoundOpened)
    assert machine.waited_for == {"c0"}
    assert refusals(feed(machine, late)) == [("c1", "its round is closed already")]
    assert machine.waited_for == {"c0", "c1"}
    assert feed(machine, answer(opened, "c0", start=4)) == []
    (closed,) = broadcast(feed(machine, answer(opened, "c1")), RoundClosed)
    assert [a.client for a in closed.accepted] == ["c0", "c1"]


def test_a_client_that_comes_back_is_a_newcomer_until_it_sends_an_update():
    machine = coordinator(2)
    begun(machine, "c0", "c1")
    feed(machine, leave("c1"), join("c1", start=2))
    assert machine.waited_for == {"c0"}


def test_with_a_deadline_a_round_waits_for_all_that_come_back_after_a_stop():
    machine = coordinator(2, deadline=3.0, interval=5.0, expire_after=3)
    opened = begun(machine, "c0", "c1", now=10.0)
    feed(machine, leave("c0"), leave("c1"), now=11.0)
    feed(machine, join("c0", start=2, after=1), join("c1", start=2, after=1), now=15.0)
    assert machine.waited_for == {"c0", "c1"}
    assert feed(machine, answer(opened, "c0", attempt="2-1"), now=15.5) == []
    (closed,) = broadcast(feed(machine, answer(opened, "c1", attempt="2-1"), now=16.0), RoundClosed)
    assert [a.client for a in closed.accepted] == ["c0", "c1"]


def test_with_a_deadline_an_evicted_client_or_a_newcomer_is_waited_for_from_its_first_update_on():
    member = Member(1, "7f", left=True, missed=2)
    returned = member.after_join("a0", is_waited_for=True)
    assert (returned.awaited, returned.missed) == (True, 0)
    assert not member.after_join("a0", is_waited_for=False).awaited
    assert not replace(member, evicted=True).after_join("a0", is_waited_for=True).awaited
    assert not replace(member, awaited=False).after_join("a0", is_waited_for=True).awaited
    assert replace(member, left=False).after_join("a0", is_waited_for=False).awaited


def test_a_client_that_comes_back_and_sends_nothing_is_waited_for_as_any_that_is_silent():
    machine = coordinator(2, deadline=3.0, expire_after=2)
    opened = begun(machine, "c0", "c1", now=10.0)
    feed(machine, leave("c1"), join("c1", start=2, after=1), now=11.0)
    for missed in range(2):
        assert (machine.state.members["c1"].missed, machine.waited_for) == (missed, {"c0", "c1"})
        now = 20.0 + 10.0 * missed
        feed(machine, answer(opened, "c0", start=4 * missed), now=now)
        (opened,) = broadcast(feed(machine, Tick(), now=now + 5.0), RoundOpened)
    assert (machine.state.members["c1"].missed, machine.waited_for) == (2, {"c0"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempt": "2-1"},
        {"spans": (Span("c1", 4, 4),), "records": 0},
        {"spans": (Span("c1", 4, 2),)},
        {"spans": (Span("c1", 0, 2**63),)},
        {"spans": (Span("elsewhere", 0, 4),)},
        {"spans": (Span("c1", 0, 9),)},
    ],
)
def test_a_late_update_of_records_that_it_cannot_have_read_makes_nobody_waited_for(wrong):
    settings = CoordinatorSettings(LEARNER, min_clients=1, partitions=("*",))
    machine = Coordinator(settings, CoordinatorState(plain()), log_ends=lambda names: {"c0": 100, "c1": 8})
    opened = begun(machine, "c0")
    moments = join("c0").moments
    feed(machine, join("c1"), answer(opened, "c0", moments=moments))
    assert machine.state.entry == 2
    assert feed(machine, answer(opened, "c1", **wrong))[0].is_fault is False
    assert machine.waited_for == {"c0"}
    feed(machine, answer(opened, "c1"))
    assert machine.waited_for == {"c0", "c1"}


def test_names_that_only_join_hold_up_no_round():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    for t in range(3):
        phantoms = [f"p{100 * t + i}" for i in range(100)]
        feed(machine, *(join(name) for name in phantoms), *(join(name, start=2, after=0) for name in phantoms))
        feed(machine, answer(opened, "c0", start=4 * t))
        (opened,) = broadcast(feed(machine, answer(opened, "c1", start=4 * t)), RoundOpened)
        assert machine.waited_for == {"c0", "c1"}
    assert (opened.entry, len(machine.state.members)) == (4, 302)


def test_a_restarted_member_gets_its_place_in_the_ledger():
    machine = coordinator(1)
    opened = begun(machine, "c0")
    feed(machine, answer(opened, "c0", records=3, rejected=1, spans=(Span("c0", 0, 4),)))
    (commit,) = feed(machine, join("c0", start=2))
    assert isinstance(commit, Commit)  # saved before it is told, so that no other start can have the same number
    (answered,) = broadcast([commit], Joined)
    assert (answered.nonce, answered.incarnation, answered.entry) == ("i2", 2, 2)
    assert (dict(answered.positions), answered.read) == ({"c0": 4}, 4)
    (again,) = feed(machine, join("c0", start=2, question=2))
    assert isinstance(again, Publish)
    assert [(told.incarnation, told.question) for told in broadcast([again], Joined)] == [(2, 2)]


def fenced(decisions):
    return [(told.client, told.nonce, told.after, told.incarnation) for told in broadcast(decisions, Fenced)]


@pytest.mark.parametrize("after", [0, 2])  # a later one: a kill of the coordinator undid it
def test_a_start_is_told_the_present_incarnation_before_it_can_take_its_place(after):
    machine = coordinator(1)
    begun(machine, "c0")
    (told,) = feed(machine, join("c0", start=2, after=after))
    assert isinstance(told, Publish)
    assert fenced([told]) == [("c0", "i2", after, 1)]
    assert machine.state.members["c0"].nonce == "i1"
    (answered,) = broadcast(feed(machine, join("c0", start=2, after=1)), Joined)
    assert (answered.nonce, answered.incarnation) == ("i2", 2)


def test_of_two_starts_that_name_the_same_incarnation_one_gets_the_next():
    machine = coordinator(1)
    begun(machine, "c0")
    assert broadcast(feed(machine, join("c0", start=2)), Joined)
    assert fenced(feed(machine, join("c0", start=3, after=1))) == [("c0", "i3", 1, 2)]
    (answered,) = broadcast(feed(machine, join("c0", start=3, after=2)), Joined)
    assert answered.incarnation == 3


def test_a_replayed_message_of_an_earlier_start_takes_nobodys_place():
    machine = coordinator(1)
    opened = begun(machine, "c0")
    for start in (2, 3):
        feed(machine, join("c0", start=start))
    for message in (join("c0"), join("c0", start=2), leave("c0"), leave("c0", start=2)):
        assert fenced(feed(machine, message)) == [("c0", message.nonce, message.after, 3)]
    assert refusals(feed(machine, answer(opened, "c0", attempt="2-1"))) == [
        ("c0", "another start of the client has taken its place")
    ]
    member = machine.state.members["c0"]
    assert (member.nonce, member.incarnation, member.left, member.refused) == ("i3", 3, False, 0)
    assert machine.state.refused == 0  # none of them is a fault


def test_a_client_that_left_after_its_join_was_lost_does_not_return_by_a_copy_of_that_join():
    machine = coordinator(2)
    begun(machine, "c0", "c1")
    feed(machine, leave("c0", start=2))
    decisions = feed(machine, join("c0", start=2))
    assert (broadcast(decisions, Joined), broadcast(decisions, Left)) == ([], [Left(client="c0", nonce="i2")])
    assert machine.present == {"c1"}
    assert [told.incarnation for told in broadcast(feed(machine, join("c0", start=3)), Joined)] == [3]


def test_a_client_that_left_may_return_but_not_by_an_old_join():
    machine = coordinator(2)
    begun(machine, "c0", "c1")
    (commit,) = feed(machine, leave("c0"))
    assert isinstance(commit, Commit)
    assert broadcast([commit], Left) == [Left(client="c0", nonce="i1")]
    (again,) = feed(machine, join("c0"))  # it may have missed the answer, so that it asks where it stands
    assert isinstance(again, Publish)
    assert broadcast([again], Left) == [Left(client="c0", nonce="i1")]
    assert machine.state.active() == {"c1"}
    (back,) = feed(machine, join("c0", start=2))
    assert isinstance(back, Commit)
    assert machine.state.active() == {"c0", "c1"}


def test_leaving_twice_is_answered_twice_and_written_once():
    machine = coordinator(2)
    begun(machine, "c0", "c1")
    feed(machine, leave("c0"))
    (again,) = feed(machine, leave("c0"))
    assert isinstance(again, Publish)
    assert broadcast([again], Left) == [Left(client="c0", nonce="i1")]


def test_a_stranger_that_leaves_may_go():
    (answered,) = feed(coordinator(2), leave("c9"))
    assert broadcast([answered], Left) == [Left(client="c9", nonce="i1")]


def test_a_coordinator_is_finished_when_the_last_client_leaves():
    machine = coordinator(2)
    begun(machine, "c0", "c1")
    assert not any(isinstance(d, Finished) for d in feed(machine, leave("c0")))
    assert any(isinstance(d, Finished) for d in feed(machine, leave("c1")))


def test_a_leave_closes_the_round_that_waited_for_it_alone_in_one_transaction():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    feed(machine, answer(opened, "c0"))
    decisions = feed(machine, leave("c1"))
    assert [type(d) for d in decisions] == [Commit]
    assert len(broadcast(decisions, Left)) == len(broadcast(decisions, RoundClosed)) == 1


# --- closing ---------------------------------------------------------------------------------------------------


def test_a_closed_round_names_the_accepted_clients_and_opens_the_next():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    assert feed(machine, answer(opened, "c1", loss=0.5, records=2)) == []
    (commit,) = feed(machine, answer(opened, "c0", loss=0.2, records=4, rejected=1, spans=(Span("c0", 0, 5),)))
    closed, *_, following = commit.messages
    assert isinstance(commit, Commit)
    assert [(a.client, a.attempt, a.spans, a.records, a.rejected) for a in closed.accepted] == [
        ("c0", "1-1", (Span("c0", 0, 5),), 4, 1),
        ("c1", "1-1", (Span("c1", 0, 2),), 2, 0),
    ]
    assert (closed.entry, closed.round, closed.epoch) == (1, 1, 1)
    assert (closed.records, closed.trained, closed.rejected) == (6, 6, 1)
    assert closed.losses["step 16"] == pytest.approx((4 * 0.2 + 2 * 0.5) / 6)
    assert (following.entry, following.round, following.epoch) == (2, 2, 1)
    assert closed.model == machine.digest() == fingerprint(*machine.serving())


def test_an_entry_tells_how_good_each_clients_predictions_were_beside_no_change():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    served = Served(records=4, correct=3, no_change=1.0)
    (commit,) = feed(machine, altered(answer(opened, "c0", records=4), served=served), answer(opened, "c1"))
    closed = commit.messages[0]
    assert {one.client: one.measured for one in closed.accepted} == {"c0": (3.0, 1.0), "c1": None}
    assert (closed.served.correct, closed.served.no_change) == (3, 1.0)


def test_models_are_the_mean_of_the_differences_weighed_by_records():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    commit = feed(machine, answer(opened, "c0", records=1), answer(opened, "c1", records=3))
    for model in broadcast(commit, ModelPublished):
        assert model.weights == pytest.approx(np.full((2, 2), (1 * 0.01 + 3 * 0.02) / 4), abs=1e-9)
        assert model.version == 2


def test_a_client_without_records_weighs_nothing():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    commit = feed(machine, answer(opened, "c0", records=0), answer(opened, "c1", loss=0.4))
    (closed,) = broadcast(commit, RoundClosed)
    assert (closed.records, closed.losses["step 16"]) == (4, pytest.approx(0.4))
    assert broadcast(commit, ModelPublished)[0].weights == pytest.approx(np.full((2, 2), 0.02), abs=1e-9)


def test_bad_records_alone_move_positions_and_open_the_round_again():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    models = [m.weights.tolist() for m in broadcast(feed(machine, join("c0")), ModelPublished)]
    bad = answer(opened, "c0", records=0, rejected=3, spans=(Span("c0", 0, 3),))
    commit = feed(machine, bad, answer(opened, "c1", records=0, spans=()))
    (closed,) = broadcast(commit, RoundClosed)
    assert (closed.entry, closed.round, closed.records, closed.rejected, dict(closed.losses)) == (1, 1, 0, 3, {})
    (again,) = broadcast(commit, RoundOpened)
    assert (again.entry, again.round) == (2, 1)
    assert [m.weights.tolist() for m in broadcast(commit, ModelPublished)] == models
    (answered,) = broadcast(feed(machine, join("c0")), Joined)
    assert (dict(answered.positions), answered.read) == ({"c0": 3}, 3)


def test_with_a_quorum_stragglers_are_too_late_and_may_send_again():
    machine = coordinator(3, quorum=2)
    opened = begun(machine, "c0", "c1", "c2")
    assert feed(machine, answer(opened, "c2")) == []
    commit = feed(machine, answer(opened, "c0"))
    (closed,) = broadcast(commit, RoundClosed)
    assert ([a.client for a in closed.accepted], closed.refused) == (["c0", "c2"], 0)
    assert refusals(feed(machine, answer(opened, "c1"))) == [("c1", "its round is closed already")]
    (second,) = broadcast(commit, RoundOpened)
    commit = feed(machine, answer(second, "c1"), answer(second, "c0", start=4))
    (closed,) = broadcast(commit, RoundClosed)
    assert ([a.client for a in closed.accepted], closed.refused) == (["c0", "c1"], 1)
    (third,) = broadcast(commit, RoundOpened)
    (closed,) = broadcast(feed(machine, answer(third, "c1", start=4), answer(third, "c2", start=4)), RoundClosed)
    assert ([a.client for a in closed.accepted], closed.refused) == (["c1", "c2"], 0)


def test_a_quorum_of_more_than_are_left_is_all_of_them():
    machine = coordinator(2, quorum=2)
    opened = begun(machine, "c0", "c1")
    feed(machine, leave("c1"))
    assert len(broadcast(feed(machine, answer(opened, "c0")), RoundClosed)) == 1


def test_at_the_deadline_a_round_closes_with_what_there_is():
    machine = coordinator(2, deadline=3.0)
    opened = begun(machine, "c0", "c1", now=10.0)
    assert machine.wakes_at == 13.0
    feed(machine, answer(opened, "c1"), now=11.0)
    assert feed(machine, Tick(), now=12.9) == []
    (closed,) = broadcast(feed(machine, Tick(), now=13.0), RoundClosed)
    assert [a.client for a in closed.accepted] == ["c1"]
    assert machine.wakes_at == 16.0


def test_a_round_waits_twice_as_long_if_most_updates_of_the_one_before_were_too_late():
    machine = coordinator(4, deadline=3.0)
    first = begun(machine, "c0", "c1", "c2", "c3")
    feed(machine, answer(first, "c0"), now=1.0)
    (second,) = broadcast(feed(machine, Tick(), now=3.0), RoundOpened)
    feed(machine, answer(first, "c1"), answer(first, "c1"), now=3.5)
    assert machine.wakes_at == 6.0, "one was in time and one too late, however often it was sent"
    feed(machine, answer(first, "c2"), now=3.6)
    assert machine.wakes_at == 9.0
    feed(machine, answer(second, "c0", start=4), *(answer(second, name) for name in ("c1", "c2")), now=8.0)
    (third,) = broadcast(feed(machine, answer(second, "c3"), now=8.5), RoundOpened)
    assert machine.wakes_at == 8.5 + 6.0, "it took longer than three seconds"
    for name, start in (("c0", 8), ("c1", 4), ("c2", 4), ("c3", 4)):
        feed(machine, answer(third, name, start=start), now=10.0)
    assert machine.wakes_at == 10.0 + 3.0


def test_clients_whose_turn_comes_only_in_the_next_round_were_too_slow_for_the_last_one_as_well():
    machine = coordinator(4, deadline=3.0)
    first = begun(machine, "c0", "c1", "c2", "c3")
    feed(machine, answer(first, "c0"), now=1.0)
    (second,) = broadcast(feed(machine, Tick(), now=3.0), RoundOpened)
    feed(machine, answer(first, "c1"), now=3.1)  # its host stops here, and c2 and c3 send nothing for round 1
    feed(machine, answer(second, "c1"), answer(second, "c0", start=4), now=4.0)
    assert machine.wakes_at == 6.0, "one in time, one too slow, though it has sent two updates"
    feed(machine, answer(second, "c2"), now=5.0)
    assert machine.wakes_at == 3.0 + 2 * 3.0


def test_a_round_waits_at_most_four_times_as_long_and_not_for_strangers():
    machine = coordinator(3, deadline=3.0)
    opened = begun(machine, "c0", "c1", "c2")
    now, waited = 0.0, []
    for t in range(6):
        feed(machine, answer(opened, "c0", start=4 * t), now=now)
        due = machine.wakes_at
        assert due is not None
        waited.append(due - now)
        (later,) = broadcast(feed(machine, Tick(), now=due), RoundOpened)
        late = ("c1", "c2") if t < 3 else ("d1", "d2", "d3")
        feed(machine, *(answer(opened, name) for name in late), now=due)
        opened, now = later, due
    assert waited == [3.0, 6.0, 12.0, 12.0, 12.0, 6.0]


def test_old_updates_that_are_sent_again_keep_no_round_waiting():
    machine = coordinator(3, deadline=3.0)
    first = opened = begun(machine, "c0", "c1", "c2")
    now = 0.0
    for t in range(3):
        feed(machine, *(answer(opened, name, start=4 * t) for name in ("c0", "c1")), now=now)
        due = machine.wakes_at
        assert due == now + 3.0
        (opened,) = broadcast(feed(machine, Tick(), now=due), RoundOpened)
        feed(machine, *(answer(first, name) for name in ("c0", "c1", "c2")), now=due)  # c2 has never been in time
        now = due


def test_a_round_that_its_quorum_closed_makes_none_wait_longer():
    machine = coordinator(4, deadline=3.0, quorum=1)
    first = begun(machine, "c0", "c1", "c2", "c3")
    feed(machine, answer(first, "c0"), now=1.0)
    feed(machine, *(answer(first, name) for name in ("c1", "c2", "c3")), now=2.0)
    assert machine.wakes_at == 1.0 + 3.0


def test_a_client_that_missed_some_rounds_is_not_waited_for_until_it_sends_again():
    machine = coordinator(2, deadline=3.0, expire_after=2)
    opened = begun(machine, "c0", "c1")
    for t in (1, 2):
        assert feed(machine, answer(opened, "c0", start=4 * t - 4)) == []
        assert machine.waited_for == {"c1"}
        (opened,) = broadcast(feed(machine, Tick(), now=3.0 * t), RoundOpened)
    assert (machine.present, machine.waited_for) == ({"c0"}, {"c0"})
    assert feed(machine, answer(opened, "c1")) == []  # what it sends counts, but the others are waited for
    (closed,) = broadcast(commit := feed(machine, answer(opened, "c0", start=8)), RoundClosed)
    assert [a.client for a in closed.accepted] == ["c0", "c1"]
    (opened,) = broadcast(commit, RoundOpened)
    assert machine.waited_for == {"c0", "c1"}


def test_a_join_counts_as_sending_again():
    machine = coordinator(2, deadline=3.0, expire_after=1)
    opened = begun(machine, "c0", "c1")
    feed(machine, answer(opened, "c0"))
    feed(machine, Tick(), now=3.0)
    assert machine.waited_for == {"c0"}
    feed(machine, join("c1"))
    assert machine.waited_for == {"c0", "c1"}


def test_a_round_without_any_update_at_its_deadline_stays_open():
    machine = coordinator(2, deadline=3.0)
    opened = begun(machine, "c0", "c1")
    assert feed(machine, Tick(), now=3.0) == []
    assert machine.wakes_at == 6.0
    feed(machine, answer(opened, "c0"), now=4.0)
    assert len(broadcast(feed(machine, Tick(), now=6.0), RoundClosed)) == 1


def test_the_deadline_of_a_timed_round_counts_from_the_closing_of_the_buffers():
    machine = coordinator(2, deadline=3.0, interval=5.0)
    assert begun(machine, "c0", "c1", now=10.0).closes == 5.0
    assert machine.wakes_at == 18.0


def test_a_timed_round_without_any_update_at_its_deadline_waits_as_long_again():
    machine = coordinator(2, deadline=3.0, interval=5.0)
    opened = begun(machine, "c0", "c1", now=10.0)
    assert feed(machine, Tick(), now=18.0) == []
    assert machine.wakes_at == 21.0
    feed(machine, answer(opened, "c0"), now=19.0)
    assert feed(machine, Tick(), now=20.9) == []
    (closed,) = broadcast(feed(machine, answer(opened, "c1"), now=20.9), RoundClosed)
    assert [a.client for a in closed.accepted] == ["c0", "c1"]


def test_a_client_that_joins_is_told_how_long_the_round_still_takes():
    machine = coordinator(2, deadline=3.0, interval=5.0)
    begun(machine, "c0", "c1", now=10.0)
    left = [broadcast(feed(machine, join("c2"), now=now), RoundOpened)[0].closes for now in (11.5, 17.0)]
    assert left == [3.5, 0.0]
    assert machine.wakes_at == 18.0


def test_a_coordinator_without_a_deadline_waits_for_everyone():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    feed(machine, answer(opened, "c0"))
    assert machine.wakes_at is None
    assert feed(machine, Tick(), now=1e9) == []


# --- admission -------------------------------------------------------------------------------------------------


def without(update: Update, slot: str) -> Update:
    return altered(update, losses={k: v for k, v in update.numbers.losses.items() if k != slot})


def stepping(update: Update, value: object) -> Update:
    return altered(update, differences={**update.numbers.differences, "step 16": np.asarray(value, np.float64)})


def scoring(update: Update, **sums: float) -> Update:
    losses = SlotLosses(**({"loss": 1.0, "square": 1.0, "proper": 1.0} | sums))
    return altered(update, losses={**update.numbers.losses, "step 16": losses})


REFUSED: dict[str, tuple[Callable[[Update], Update], str]] = {
    "unknown client": (lambda u: replace(u, client="c9"), "it is not a member"),
    "older entry": (lambda u: replace(u, entry=u.entry - 1), "its round is closed already"),
    "older epoch": (lambda u: replace(u, epoch=u.epoch - 1), "its round is closed already"),
    "the update uses another version of the registry": (
        lambda u: replace(u, registry=7),
        "the update uses another version of the registry",
    ),
    "gap after the ledger": (lambda u: replace(u, spans=(Span("c1", 5, 9),)), "do not follow the ledger"),
    "records again": (lambda u: replace(u, spans=(Span("c1", 0, 4),)), "do not follow the ledger"),
    "backwards": (lambda u: replace(u, spans=(Span("c1", 4, 3),)), "run backwards"),
    "one record more than positions": (lambda u: replace(u, rejected=1), "there are more records than positions"),
    "wrong rows": (lambda u: stepping(u, np.zeros((3, 2))), "the shape (3, 2), not (2, 2)"),
    "wrong columns": (lambda u: stepping(u, np.zeros((2, 3))), "the shape (2, 3), not (2, 2)"),
    "no matrix": (lambda u: stepping(u, np.zeros(4)), "the shape (4,), not (2, 2)"),
    "columns for too few labels": (lambda u: replace(u, new_labels=("z",)), "the shape (2, 2), not (2, 3)"),
    "NaN in a step": (lambda u: stepping(u, [[0, np.nan], [0, 0]]), "not finite"),
    "infinity in a step": (lambda u: stepping(u, [[0, -np.inf], [0, 0]]), "not finite"),
    "NaN loss": (lambda u: scoring(u, loss=np.nan), "out of range"),
    "NaN proper loss": (lambda u: scoring(u, proper=np.nan), "out of range"),
    "negative proper loss": (lambda u: scoring(u, proper=-0.1), "out of range"),
    "proper loss of more than one a record": (lambda u: scoring(u, proper=u.records + 0.1), "out of range"),
    "infinite square": (lambda u: scoring(u, square=np.inf), "out of range"),
    "NaN history": (lambda u: scoring(u, history=np.nan), "out of range"),
    "infinite share": (lambda u: scoring(u, history_share=np.inf), "out of range"),
    "negative records": (lambda u: replace(u, records=-1), "impossible counts"),
    "negative trained": (lambda u: replace(u, trained=-1), "impossible counts"),
    "negative rejected": (lambda u: replace(u, rejected=-1), "impossible counts"),
    "trained on more than read": (lambda u: replace(u, trained=u.records + 1), "impossible counts"),
    "a model was not scored": (lambda u: without(u, "step 1"), "losses are not those of the models"),
    "unknown slot scored": (
        lambda u: altered(u, losses={**u.numbers.losses, "what": SlotLosses(loss=1.0, square=1.0, proper=1.0)}),
        "losses are not those of the models",
    ),
    "unknown slot stepped": (
        lambda u: altered(u, differences={**u.numbers.differences, "what": np.zeros((2, 2))}),
        "differences are not those of the models that are trained",
    ),
}


@pytest.mark.parametrize(("spoil", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_an_update_that_does_not_fit_is_refused_counted_and_never_trained_on(
    spoil: Callable[[Update], Update], reason: str
):
    machine = coordinator(2)
    first = begun(machine, "c0", "c1")
    (second,) = broadcast(feed(machine, answer(first, "c0"), answer(first, "c1")), RoundOpened)
    honest = answer(second, "c1", start=4)
    before = uncounted(machine)
    ((_, said),) = refusals(feed(machine, spoil(honest)))
    assert reason in said
    assert uncounted(machine) == before
    commit = feed(machine, honest, answer(second, "c0", start=4))
    (closed,) = broadcast(commit, RoundClosed)
    assert (closed.refused, closed.records) == (1, 8)
    assert refusals(commit) == []
    # 0.015 more in every round: the mean of 0.01 and 0.02.
    assert broadcast(commit, ModelPublished)[0].weights == pytest.approx(np.full((2, 2), 0.03), abs=1e-9)


def test_a_second_update_is_refused_also_if_it_is_another_one():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    first = answer(opened, "c0")
    feed(machine, first)
    for again in (first, replace(first, attempt="1-2", records=1, trained=1)):
        assert refusals(feed(machine, again)) == [("c0", "an update for this round has been accepted before")]
    (closed,) = broadcast(feed(machine, answer(opened, "c1")), RoundClosed)
    assert (closed.records, closed.refused) == (8, 2)


def test_a_client_that_left_is_no_member():
    machine = coordinator(3)
    opened = begun(machine, "c0", "c1", "c2")
    feed(machine, leave("c0"))
    assert refusals(feed(machine, answer(opened, "c0"))) == [("c0", "it is not a member")]


def test_before_round_one_there_is_nothing_to_update():
    machine = coordinator(2)
    opened = begun(coordinator(2), "c0", "c1")
    assert refusals(feed(machine, answer(opened, "c0"))) == [("c0", "no round is open")]


# --- models for some clients, and clients apart ----------------------------------------------------------------


class Branching(Promotion):
    """A profile whose step 1 is for one client alone, and whose step 4 is scored only."""

    only: str = "c0"
    apart: bool = False

    def open(self, t: int, scratch: np.ndarray, squared_norm: float) -> RoundPlan:
        opening = super().open(t, scratch, squared_norm)
        live = list(opening.live)
        live[2] = replace(live[2], trained=False)
        live[4] = replace(live[4], clients=(self.only,))
        apart = (BranchGroup(clients=(self.only,), serves="step 1"),) if self.apart else ()
        return RoundPlan(tuple(live), opening.serves, apart=apart)


class Parting(Branching):
    """The same with c1 apart."""

    only = "c1"
    apart = True


def branching(kind: type[Branching] = Branching) -> Promotion:
    return kind(ladder=plain().ladder, detector=GLRDetector())


def test_models_that_name_their_clients_are_scored_and_trained_by_those_alone():
    machine = coordinator(2, profile=branching())
    opened = begun(machine, "c0", "c1")
    assert [slot.clients for slot in opened.slots] == [None, None, None, None, ("c0",), None]
    mine = replace(opened, slots=tuple(replace(slot, clients=None) for slot in opened.slots))
    everything = replace(opened, slots=tuple(replace(slot, trained=True) for slot in opened.slots))
    for wrong, reason in (
        (answer(mine, "c1"), "losses are not those of the models that were asked for"),
        (answer(everything, "c0"), "differences are not those of the models that are trained"),
    ):
        other = coordinator(2, profile=branching())
        begun(other, "c0", "c1")
        assert refusals(feed(other, wrong)) == [(wrong.client, reason)]
    commit = feed(machine, answer(opened, "c0", loss=0.52, records=1), answer(opened, "c1", loss=0.5, records=3))
    (closed,) = broadcast(commit, RoundClosed)
    assert closed.losses["step 16"] == pytest.approx(0.505)
    assert closed.losses["step 1"] == pytest.approx(0.52)
    weights = {model.slot: model.weights[0, 0] for model in broadcast(commit, ModelPublished)}
    assert weights["step 16"] == pytest.approx(0.0175, abs=1e-9)
    assert weights["step 4"] == 0.0
    assert weights["step 1"] == pytest.approx(0.01, abs=1e-9)


def test_a_client_apart_scores_the_models_of_all_and_trains_only_its_own():
    machine = coordinator(2, profile=branching(Parting))
    opened = begun(machine, "c0", "c1")
    assert opened.apart == (BranchGroup(clients=("c1",), serves="step 1"),)
    assert (opened.served_by("c0"), opened.served_by("c1")) == ("step 16", "step 1")
    of_all = answer(replace(opened, apart=()), "c1")
    assert refusals(feed(machine, of_all))[0][1] == "differences are not those of the models that are trained"
    commit = feed(machine, answer(opened, "c1", loss=0.5, records=3), answer(opened, "c0", loss=0.55, records=1))
    (closed,) = broadcast(commit, RoundClosed)
    assert (closed.records, closed.trained) == (4, 4)
    # What it lost is left out of the models of all, and the step of those is c0's alone.
    assert closed.losses["step 16"] == pytest.approx(0.55)
    assert closed.losses["step 1"] == pytest.approx(0.5)
    assert machine.branches() == machine.branch_of() == {}  # it is latched: a file answers it like all others
    weights = {model.slot: model.weights[0, 0] for model in broadcast(commit, ModelPublished)}
    assert weights["step 16"] == weights["shadow"] == pytest.approx(0.01, abs=1e-9)
    assert weights["step 1"] == pytest.approx(0.02, abs=1e-9)


def test_where_only_clients_apart_have_records_the_models_of_all_stay_as_they_are():
    machine = coordinator(2, profile=branching(Parting))
    opened = begun(machine, "c0", "c1")
    commit = feed(machine, answer(opened, "c0", records=0), answer(opened, "c1", loss=0.9))
    (closed,) = broadcast(commit, RoundClosed)
    assert closed.losses["step 16"] == pytest.approx(0.9)  # no other client scored it
    weights = {model.slot: model.weights[0, 0] for model in broadcast(commit, ModelPublished)}
    assert (weights["step 16"], weights["step 1"]) == (0.0, pytest.approx(0.02, abs=1e-9))


def test_a_client_machine_apart_does_what_the_coordinator_admits():
    machine = coordinator(2, profile=branching(Parting))
    opened = begun(machine, "c0", "c1")
    other = client("c1")
    feed(other, RecordsRead((batch("abaa", of="c1"),)))
    answered = feed(machine, join("c1", question=1))
    (joined,), (registry,) = broadcast(answered, Joined), broadcast(answered, RegistryPublished)
    (update,) = sent(feed(other, joined, registry, *broadcast(answered, ModelPublished), opened), Update)
    assert set(update.numbers.losses) == {slot.name for slot in opened.slots}
    assert set(update.numbers.differences) == {"step 1"}
    commit = feed(machine, update, answer(opened, "c0", loss=0.5))
    assert refusals(commit) == []
    weights = {model.slot: model.weights for model in broadcast(commit, ModelPublished)}
    assert weights["step 16"] == pytest.approx(np.full((2, 2), 0.01), abs=1e-9)
    assert np.abs(weights["step 1"]).max() > 0.1


# --- whitened steps --------------------------------------------------------------------------------------------


def exact(machine: Coordinator) -> list[np.ndarray]:
    """Return the models of the ladder before they are rounded."""
    profile = machine.state.profile
    assert isinstance(profile, Promotion)
    assert profile.main.shadow is not None
    return [*(rung.W for rung in profile.main.rungs), profile.main.shadow]


def whitening(**more: object) -> Promotion:
    return plain(ladder=LadderSettings(orders=(0, 2), heavy=(), averages=False, **more))


def test_whitened_steps_are_taken_by_the_coordinator_in_the_metric_of_the_past_and_of_the_round_itself():
    machine = coordinator(2, profile=whitening())
    opened = begun(machine, "c0", "c1")
    assert opened.asks.second_moments
    assert [(slot.eta, slot.whitened) for slot in opened.slots] == [(16.0, True), (8.0, True), (4.0, True)]
    seen = {"second_moments": np.diag([12.0, 4.0]), "squared_norm": 16.0}
    commit = feed(machine, *(answer(opened, name, **seen) for name in ("c0", "c1")))
    # A = diag(3, 1) and the ridge times their mean, 2. The sums of gradients are 0.01 and 0.02, of eight records.
    first = -16.0 * (0.03 / 8) / (np.array([[3.0], [1.0]]) + 2.0 * RIDGE) * np.ones((2, 2))
    assert exact(machine)[0] == pytest.approx(first, abs=1e-8)
    (opened,) = broadcast(commit, RoundOpened)
    wider = {"second_moments": np.diag([20.0, 4.0]), "squared_norm": 24.0}
    commit = feed(machine, *(answer(opened, name, start=4, **wider) for name in ("c0", "c1")))
    # The round's own are diag(5, 1), so that A is diag(4, 1) and the ridge times 2.5.
    A = np.array([[4.0], [1.0]]) + 2.5 * RIDGE
    assert exact(machine)[0] == pytest.approx(first - 16.0 * (0.03 / 8) / A, abs=1e-8)


def test_where_features_become_too_many_second_moments_are_let_go(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(second_moments, "EVERY_ROUND", 1)
    for module in (agreement, second_moments):
        monkeypatch.setattr(module, "EVER", 2)
    machine = coordinator(1, profile=whitening())
    (opened,) = broadcast(feed(machine, answer(begun(machine, "c0"), "c0")), RoundOpened)
    assert opened.asks.second_moments
    assert machine.state.agreement.second is not None
    (opened,) = broadcast(feed(machine, answer(opened, "c0", start=4, new_features=("late",))), RoundOpened)
    assert not opened.asks.second_moments
    assert machine.state.agreement.second is None


def test_the_penalty_of_whitened_steps_is_a_decay_of_the_weights():
    learner = replace(LEARNER, l2=0.01)
    machine = coordinator(1, profile=whitening(), learner=learner)
    opened = begun(machine, "c0")
    commit = feed(machine, answer(opened, "c0"))
    (opened,) = broadcast(commit, RoundOpened)
    names, before = [slot.name for slot in opened.slots], exact(machine)
    feed(machine, answer(opened, "c0", start=4, differences=dict.fromkeys(names, np.zeros((2, 2)))))
    assert [slot.eta for slot in opened.slots] == [16.0, 8.0, 4.0]
    for eta, W, after in zip((16.0, 8.0, 4.0), before, exact(machine), strict=True):
        assert np.abs(W).max() > 0.0
        assert after == pytest.approx((1.0 - 0.01 * eta) * W, abs=1e-12)


# --- order and repetition --------------------------------------------------------------------------------------


def awkward(opened: RoundOpened, name: str) -> Update:
    """Return an update of numbers whose sum depends on the order in which floats are added."""
    i = int(name[1:])
    rng = np.random.default_rng(i)
    labels = ("z",) if i % 2 else ("w", "z")
    update = answer(opened, name, records=3 + i, loss=0.1 + 0.2 * i / 7, new_labels=labels)
    steps = {slot.name: rng.normal(size=(2, 2 + len(labels))) * 10.0 ** rng.integers(-6, 3) for slot in opened.slots}
    norms = {"squared_norm": float(rng.exponential() * 10.0 ** (i - 2)), "largest_norm": float(i)}
    moments = Moments(("x",), np.array([3.0 + i]), rng.normal(size=1), np.array([0.1 + i]))
    return altered(update, differences=steps, moments=moments, **norms)


NAMES = ("c0", "c1", "c2", "c3", "c4")


def committed(machine: Coordinator, order: list[str]) -> list[bytes]:
    opened = begun(machine, *order)
    (commit,) = feed(machine, *(awkward(opened, name) for name in order))
    assert isinstance(commit, Commit)
    return [*as_bytes(commit.messages), codec.encode(machine.state)]


REFERENCE = committed(coordinator(5, scaling=True), list(NAMES))


@given(st.permutations(NAMES))
def test_the_order_of_arrival_changes_no_bit(order):
    assert committed(coordinator(5, scaling=True), order) == REFERENCE


def test_the_reference_of_the_order_of_arrival_has_ten_different_commits():
    assert len(REFERENCE) == len(set(REFERENCE)) == 10


def test_a_coordinator_that_starts_again_opens_the_same_round():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    commit = feed(machine, answer(opened, "c0"), answer(opened, "c1"))
    again = Coordinator(machine.settings, machine.state)
    (start,) = again.start(5.0)
    assert isinstance(start, Commit)
    (resumed,), (before,) = broadcast([start], RoundOpened), broadcast(commit, RoundOpened)
    assert as_bytes([resumed]) == as_bytes([replace(before, resumed=1)])
    assert as_bytes(broadcast([start], ModelPublished)) == as_bytes(broadcast(commit, ModelPublished))
    assert len(broadcast([start], RegistryPublished)) == 1


def test_a_coordinator_that_never_began_has_nothing_to_open():
    assert coordinator(2).start(0.0) == []


def test_names_of_messages_in_hand_made_rounds_are_those_of_real_ones():
    real = begun(coordinator(1), "c0")
    *_, by_hand = opening()
    assert type(real) is type(by_hand)


# --- turns -----------------------------------------------------------------------------------------------------


def turns(names: str, accepted: str) -> list[tuple[str, ...] | None]:
    members = {name: Member(1, accepted=9 if name in accepted else 0) for name in names}
    return [next_measured(CoordinatorState(Promotion(), members=members, round=t)) for t in range(1, 5)]


def test_one_client_in_eight_sends_moments_in_turn():
    assert turns("abcdefghij", "abcdefghij") == [("c", "d"), ("e", "f"), ("g", "h"), ("i", "j")]
    assert turns("ab", "ab") == [("b",), ("a",), ("b",), ("a",)]
    assert turns("a", "a") == [None] * 4


def test_a_member_without_accepted_records_moves_nobody_s_turn():
    assert turns("abz", "ab") == turns("ab", "ab")
    assert turns("az", "a") == turns("z", "") == [None] * 4


def test_a_round_that_is_opened_again_asks_the_same_clients():
    state = CoordinatorState(Promotion(), round=9, members={name: Member(1, accepted=9) for name in "abc"})
    state.measured = next_measured(state)
    assert state.measured == ("a",)
    state.members["a"].left = True
    assert next_measured(state) == ("c",)
    assert codec.decode(CoordinatorState, codec.encode(state)).measured == ("a",)
