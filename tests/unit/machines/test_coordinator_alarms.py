"""Scripts for the coordinator machine: what follows an alarm."""

import pytest
from unit.machines.script import answer, as_bytes, begun, coordinator, join, refusals, scores, tell, told

from streamfl import codec
from streamfl.core.coordinator import Coordinator
from streamfl.core.decisions import Commit, Publish
from streamfl.core.events import Tick
from streamfl.core.messages import (
    Joined,
    Leave,
    Left,
    ModelPublished,
    Restarted,
    RoundClosed,
    RoundOpened,
    Score,
    SlotLosses,
    Update,
)

NAMES = ("c0", "c1", "c2")
QUIET = 10


def alarmed(**settings: object) -> tuple[Coordinator, Score, dict[str, Update]]:
    """Return a coordinator whose detector has found the losses of round 11 too high, what it asks, the updates."""
    machine = coordinator(3, **settings)
    opened = begun(machine, *NAMES)
    for t in range(QUIET):
        decisions = tell(machine, *(answer(opened, n, loss=0.2, records=100, start=100 * t) for n in NAMES))
        (opened,) = told(decisions, RoundOpened)
    updates = {name: answer(opened, name, loss=0.7, records=100, start=100 * QUIET) for name in NAMES}
    decisions = tell(machine, *updates.values(), now=50.0)
    assert [type(d) for d in decisions] == [Publish]
    assert told(decisions, RoundClosed) == []
    (asked,) = told(decisions, Score)
    return machine, asked, updates


def test_candidates_are_published_and_scored_before_the_round_closes():
    machine, asked, updates = alarmed()
    assert (asked.entry, asked.round, asked.epoch) == (11, 11, 1)
    assert [slot.name for slot in asked.slots] == ["scratch"]
    assert tell(machine, scores(updates["c0"], asked.slots, 0.1), scores(updates["c1"], asked.slots, 0.1)) == []
    (commit,) = tell(machine, scores(updates["c2"], asked.slots, 0.1))
    assert isinstance(commit, Commit)
    closed, restarted = commit.messages[:2]
    assert (closed.entry, closed.round, closed.epoch, closed.records) == (11, 11, 1, 300)
    assert isinstance(restarted, Restarted)
    assert (restarted.round, restarted.epoch, restarted.cause, restarted.chosen) == (11, 2, "glr", "scratch")
    assert restarted.statistic >= restarted.threshold
    assert restarted.since == 11
    (opened,) = told([commit], RoundOpened)
    assert (opened.entry, opened.round, opened.epoch) == (12, 12, 2)
    # Untrained, and stepped by the difference that came with the scores.
    for model in told([commit], ModelPublished):
        assert model.weights == pytest.approx(0.5)


def test_the_best_live_model_is_kept_when_no_candidate_is_better():
    machine, asked, updates = alarmed()
    decisions = tell(machine, *(scores(updates[name], asked.slots, 0.9) for name in NAMES))
    (restarted,) = told(decisions, Restarted)
    assert restarted.chosen == "incumbent"
    for model in told(decisions, ModelPublished):
        # The mean of 0.01, 0.02 and 0.03, in 11 rounds.
        assert model.weights == pytest.approx(11 * 0.02, abs=1e-6)


def test_those_silent_at_the_deadline_are_left_out():
    machine, asked, updates = alarmed(deadline=5.0)
    assert machine.wakes_at == 55.0
    assert tell(machine, scores(updates["c1"], asked.slots, 0.1), now=52.0) == []
    assert tell(machine, Tick(), now=54.0) == []
    decisions = tell(machine, Tick(), now=55.0)
    (closed,) = told(decisions, RoundClosed)
    assert [a.client for a in closed.accepted] == list(NAMES)
    (restarted,) = told(decisions, Restarted)
    assert restarted.chosen == "scratch"


def test_when_nobody_scores_in_time_the_best_live_model_is_chosen():
    machine, _, _ = alarmed(deadline=5.0)
    (restarted,) = told(tell(machine, Tick(), now=55.0), Restarted)
    assert restarted.chosen == "incumbent"


def test_without_a_deadline_all_are_waited_for():
    machine, asked, updates = alarmed()
    tell(machine, scores(updates["c0"], asked.slots, 0.1))
    assert machine.wakes_at is None
    assert tell(machine, Tick(), now=1e9) == []


def test_scores_that_are_told_again_count_once():
    machine, asked, updates = alarmed()
    again = scores(updates["c0"], asked.slots, 0.1)
    assert tell(machine, again, again, again) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"entry": 10}, "no scores are asked for"),
        ({"client": "c9"}, "no scores are asked for"),
        ({"losses": {}}, "losses of other models"),
        ({"losses": {"scratch": SlotLosses(loss=float("nan"), square=0.0)}}, "scores in [0, 1]"),
        ({"losses": {"rung-0": SlotLosses(loss=1.0, square=0.0)}}, "losses of other models"),
    ],
)
def test_scores_that_do_not_fit_are_refused(changes, reason):
    machine, asked, updates = alarmed()
    ((_, said),) = refusals(tell(machine, scores(updates["c0"], asked.slots, 0.1, **changes)))
    assert reason in said
    (closed,) = told(tell(machine, *(scores(u, asked.slots, 0.1) for u in updates.values())), RoundClosed)
    assert closed.refused == 1


def test_scores_that_nobody_asked_for_are_refused():
    machine = coordinator(1)
    opened = begun(machine, "c0")
    assert refusals(tell(machine, scores(answer(opened, "c0"), (), 0.1))) == [("c0", "no scores are asked for")]


def test_updates_come_too_late_now():
    machine, _, updates = alarmed()
    assert refusals(tell(machine, updates["c0"])) == [("c0", "no round is open")]


def test_one_that_starts_again_meanwhile_is_told_what_is_asked():
    machine, asked, _ = alarmed()
    decisions = tell(machine, join("c1", incarnation="i2"))
    assert [type(d) for d in decisions] == [Publish]
    assert told(decisions, Score) == [asked]
    assert "scratch" in [model.slot for model in told(decisions, ModelPublished)]


def test_membership_waits_so_that_nothing_is_committed_in_between():
    machine, asked, updates = alarmed()
    before = set(machine.standing.active())
    assert tell(machine, Leave(client="c2", incarnation="i1"), join("c7")) == []
    assert machine.standing.active() == before
    decisions = tell(machine, *(scores(u, asked.slots, 0.1) for u in updates.values()))
    assert [type(d) for d in decisions] == [Commit]
    assert [message.client for message in told(decisions, Left)] == ["c2"]
    assert [(message.client, message.entry) for message in told(decisions, Joined)] == [("c7", 12)]
    assert machine.standing.active() == {"c0", "c1", "c7"}


def test_a_kill_in_between_repeats_the_step():
    machine, asked, updates = alarmed()
    expected = tell(machine, *(scores(u, asked.slots, 0.1) for u in updates.values()))

    saved = alarmed_before_the_alarm()
    again = Coordinator(machine.settings, codec.decode(type(machine.standing), saved))
    again.start(0.0)
    (publish,) = tell(again, *updates.values())
    assert as_bytes(told([publish], Score)) == as_bytes([asked])
    repeated = tell(again, *(scores(u, asked.slots, 0.1) for u in updates.values()))
    assert as_bytes(told(repeated, RoundClosed)) == as_bytes(told(expected, RoundClosed))
    assert as_bytes(told(repeated, Restarted)) == as_bytes(told(expected, Restarted))
    assert as_bytes(told(repeated, ModelPublished)) == as_bytes(told(expected, ModelPublished))


def alarmed_before_the_alarm() -> bytes:
    """Return the standing as it was committed last, before the round of the alarm was closed."""
    machine = coordinator(3)
    opened = begun(machine, *NAMES)
    for t in range(QUIET):
        decisions = tell(machine, *(answer(opened, n, loss=0.2, records=100, start=100 * t) for n in NAMES))
        (opened,) = told(decisions, RoundOpened)
    return codec.encode(machine.standing)
