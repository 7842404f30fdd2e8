"""Scripts for the coordinator machine: what follows an alarm."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from unit.machines.script import answer, as_bytes, begun, broadcast, coordinator, feed, fits, join, refusals, scores

from streamfl.learning.profiles.adaptive.choice import Choice
from streamfl.machines.coordinator.gate import admission
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.decisions import Commit, Publish
from streamfl.protocol.events import Tick
from streamfl.protocol.messages import (
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
from streamfl.run.settings import LearningSettings
from streamfl.wire import codec
from streamfl_benchmarks.liars.fields import altered, field_of

NAMES = ("c0", "c1", "c2")
QUIET = 10
ASKED = ("scratch", "incumbent", "former")


def fitted(S: np.ndarray) -> dict[str, np.ndarray]:
    return dict.fromkeys(("incumbent", "former"), S)


def alarmed(**settings: object) -> tuple[Coordinator, Score, dict[str, Update]]:
    """Return a coordinator whose detector has found the losses of round 11 too high, what it asks, the updates."""
    machine = coordinator(3, **settings)
    opened = begun(machine, *NAMES)
    for t in range(QUIET):
        decisions = feed(machine, *(answer(opened, n, loss=0.2, records=100, start=100 * t) for n in NAMES))
        (opened,) = broadcast(decisions, RoundOpened)
    updates = {name: answer(opened, name, loss=0.7, records=100, start=100 * QUIET) for name in NAMES}
    decisions = feed(machine, *updates.values(), now=50.0)
    assert [type(d) for d in decisions] == [Publish]
    assert broadcast(decisions, RoundClosed) == []
    (asked,) = broadcast(decisions, Score)
    return machine, asked, updates


def test_candidates_are_published_and_scored_before_the_round_closes():
    machine, asked, updates = alarmed()
    assert (asked.entry, asked.round, asked.epoch) == (11, 11, 1)
    # What was before is asked about for its labels, so it need not be trained.
    assert [(slot.name, slot.trained) for slot in asked.slots] == [
        ("scratch", True),
        ("incumbent", False),
        ("former", False),
    ]
    assert (asked.stage, asked.relabel) == (1, ("incumbent", "former"))
    assert feed(machine, scores(updates["c0"], asked, 0.1), scores(updates["c1"], asked, 0.1)) == []
    (commit,) = feed(machine, scores(updates["c2"], asked, 0.1))
    assert isinstance(commit, Commit)
    closed, restarted = commit.messages[:2]
    assert (closed.entry, closed.round, closed.epoch, closed.records) == (11, 11, 1, 300)
    assert isinstance(restarted, Restarted)
    assert (restarted.round, restarted.epoch, restarted.cause, restarted.chosen) == (11, 2, "glr", "scratch")
    assert restarted.statistic >= restarted.threshold
    assert restarted.since == 11
    # Every live model, what serves under the name that it has as a candidate, and the one that was asked about.
    assert "step 16" not in restarted.scores
    assert restarted.scores["scratch"] == 0.1 < restarted.scores["incumbent"] == 0.7
    assert restarted.scores.keys() >= {"incumbent", "scratch", "shadow"}
    (opened,) = broadcast([commit], RoundOpened)
    assert (opened.entry, opened.round, opened.epoch) == (12, 12, 2)
    # Untrained, and stepped by the difference that came with the scores; the shadow begins anew.
    models = {model.slot: model.weights for model in broadcast([commit], ModelPublished)}
    assert not models.pop("shadow").any()
    for weights in models.values():
        assert weights == pytest.approx(0.5)


def test_the_best_live_model_is_kept_when_no_candidate_is_better():
    machine, asked, updates = alarmed()
    decisions = feed(machine, *(scores(updates[name], asked, 0.9) for name in NAMES))
    # What serves took a longer step than candidates do; before all begin anew from it it takes theirs.
    (asked,) = broadcast(decisions, Score)
    (slot,) = asked.slots
    assert (asked.stage, slot.name, slot.trained, slot.eta) == (2, "step 16", True, 2.0)
    (played,) = broadcast(decisions, ModelPublished)
    assert played.weights == pytest.approx(10 * 0.02, abs=1e-6)  # the mean of 0.01, 0.02 and 0.03, in 10 rounds
    decisions = feed(machine, *(scores(updates[name], asked, 0.7) for name in NAMES))
    (restarted,) = broadcast(decisions, Restarted)
    assert restarted.chosen == "incumbent"
    models = {model.slot: model.weights for model in broadcast(decisions, ModelPublished)}
    assert not models.pop("shadow").any()
    for weights in models.values():
        assert weights == pytest.approx(10 * 0.02 + 0.5, abs=1e-6)


def test_clients_that_send_no_scores_by_the_deadline_are_left_out():
    machine, asked, updates = alarmed(deadline=5.0)
    assert machine.wakes_at == 55.0
    assert feed(machine, scores(updates["c1"], asked, 0.1), now=52.0) == []
    assert feed(machine, Tick(), now=54.0) == []
    decisions = feed(machine, Tick(), now=55.0)
    (closed,) = broadcast(decisions, RoundClosed)
    assert [a.client for a in closed.accepted] == list(NAMES)
    (restarted,) = broadcast(decisions, Restarted)
    assert restarted.chosen == "scratch"


def test_without_scores_in_time_the_best_live_model_is_chosen():
    machine, _, _ = alarmed(deadline=5.0)
    (restarted,) = broadcast(feed(machine, Tick(), now=55.0), Restarted)
    assert restarted.chosen == "incumbent"


def test_a_coordinator_without_a_deadline_waits_for_the_scores_of_all():
    machine, asked, updates = alarmed()
    assert (machine.is_scoring, machine.waited_for) == (True, set(NAMES))
    feed(machine, scores(updates["c0"], asked, 0.1))
    assert machine.waited_for == {"c1", "c2"}
    assert machine.wakes_at is None
    assert feed(machine, Tick(), now=1e9) == []


def test_scores_sent_again_count_once():
    machine, asked, updates = alarmed()
    again = scores(updates["c0"], asked, 0.1)
    assert feed(machine, again, again, again) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"entry": 10}, "nobody has asked for scores"),
        ({"client": "c9"}, "nobody has asked for scores"),
        ({"losses": {}}, "losses are not those of the models"),
        (
            {"losses": dict.fromkeys(ASKED, SlotLosses(loss=float("nan"), square=0.0, proper=0.0))},
            "a loss is out of range",
        ),
        ({"stage": 0}, "nobody has asked for scores"),
        ({"stage": 2}, "nobody has asked for scores"),
        ({"differences": {}}, "differences are not those of the models that are trained"),
        (
            {"differences": dict.fromkeys(ASKED, np.zeros((2, 2)))},
            "differences are not those of the models that are trained",
        ),
        ({"relabelling": {}}, "labels were not fitted to the models"),
        ({"relabelling": dict.fromkeys(ASKED, np.zeros((2, 2)))}, "labels were not fitted to the models"),
        ({"relabelling": fitted(np.zeros((2, 3)))}, "fitted labels have another shape"),
        ({"relabelling": fitted(np.zeros(4))}, "fitted labels have another shape"),
        ({"relabelling": fitted(np.zeros((0, 0)))}, "fitted labels have another shape"),
        ({"relabelling": fitted(np.array([[0.0, np.nan], [0.0, 0.0]]))}, "log-likelihoods are out of range"),
        ({"relabelling": fitted(np.array([[0.0, 1e-3], [0.0, 0.0]]))}, "log-likelihoods are out of range"),
        ({"relabelling": fitted(np.array([[0.0, -np.inf], [0.0, 0.0]]))}, "log-likelihoods are out of range"),
        # 100 records, each at least -2 ln 2.
        ({"relabelling": fitted(np.full((2, 2), -139.0))}, "log-likelihoods are out of range"),
        ({"losses": {"step 16": SlotLosses(loss=1.0, square=0.0, proper=1.0)}}, "losses are not those of the models"),
    ],
)
def test_scores_that_do_not_fit_are_refused(changes, reason):
    machine, asked, updates = alarmed()
    ((_, said),) = refusals(feed(machine, scores(updates["c0"], asked, 0.1, **changes)))
    assert reason in said
    (closed,) = broadcast(feed(machine, *(scores(u, asked, 0.1) for u in updates.values())), RoundClosed)
    assert closed.refused == 1


def test_a_client_with_far_more_records_scores_candidates_as_it_scored_live_models():
    machine, records = coordinator(3), {"c0": 100, "c1": 100, "c2": 5000}
    opened = begun(machine, *NAMES)
    for t in range(QUIET):
        decisions = feed(machine, *(answer(opened, n, loss=0.2, records=100, start=100 * t) for n in NAMES))
        (opened,) = broadcast(decisions, RoundOpened)
    updates = [answer(opened, n, loss=0.7, records=records[n], start=100 * QUIET) for n in NAMES]
    (asked,) = broadcast(feed(machine, *updates, now=50.0), Score)
    (restarted,) = broadcast(feed(machine, *(scores(u, asked, 0.1) for u in updates)), Restarted)
    assert restarted.chosen == "scratch"
    assert (restarted.scores["scratch"], restarted.scores["incumbent"]) == (0.1, 0.7)


def asked_about_online_models(monkeypatch: pytest.MonkeyPatch) -> tuple[Coordinator, Score, dict[str, Update]]:
    """Return a coordinator that asks whether untrained online models are better, before anything else."""
    monkeypatch.setattr(Choice, "_questions", property(lambda choice: (choice._whether_founded,)))
    monkeypatch.setattr(Choice, "is_unfounded", True)
    return alarmed()


def test_a_question_without_models_is_answered_without_scores(monkeypatch):
    machine, asked, updates = asked_about_online_models(monkeypatch)
    assert (asked.slots, asked.relabel, asked.wants_untrained_loss) == ((), (), True)
    said = [
        scores(u, asked, 0.1, untrained_loss=loss)
        for u, loss in zip(updates.values(), (0.0, 20.0, None), strict=True)
    ]
    decisions = feed(machine, *said)
    (closed,) = broadcast(decisions, RoundClosed)
    assert (closed.records, closed.refused) == (300, 0)
    assert broadcast(decisions, Restarted) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"untrained_loss": 20.1}, "the loss of untrained online models"),
        ({"untrained_loss": -0.1}, "the loss of untrained online models"),
        ({"untrained_loss": np.nan}, "the loss of untrained online models"),
        ({"losses": {"m": SlotLosses(loss=1.0, square=1.0, proper=1.0)}}, "losses are not those of the models"),
        ({"differences": {"m": np.zeros((2, 2))}}, "differences are not those of the models"),
        ({"relabelling": {"m": np.zeros((2, 2))}}, "labels were not fitted to the models"),
    ],
)
def test_answers_to_a_question_without_models_that_do_not_fit_are_refused(monkeypatch, changes, reason):
    machine, asked, updates = asked_about_online_models(monkeypatch)
    ((_, said),) = refusals(feed(machine, scores(updates["c0"], asked, 0.1, **changes)))
    assert reason in said


def test_a_loss_of_untrained_models_that_was_not_asked_for_is_refused():
    machine, asked, updates = alarmed()
    ((_, said),) = refusals(feed(machine, scores(updates["c0"], asked, 0.1, untrained_loss=0.5)))
    assert "was not asked for" in said


def test_scores_that_were_not_asked_for_are_refused():
    machine = coordinator(1)
    opened = begun(machine, "c0")
    asked = Score(entry=1, round=1, epoch=1, registry=1, slots=())
    assert refusals(feed(machine, scores(answer(opened, "c0"), asked, 0.1))) == [
        ("c0", "nobody has asked for scores")
    ]


def test_updates_that_come_while_candidates_are_scored_are_refused():
    machine, _, updates = alarmed()
    assert refusals(feed(machine, updates["c0"])) == [("c0", "no round is open")]


def test_a_client_that_restarts_meanwhile_gets_the_score_message():
    machine, asked, _ = alarmed()
    decisions = feed(machine, join("c1", start=2))
    assert [type(d) for d in decisions] == [Publish]
    assert broadcast(decisions, Score) == [asked]
    assert "scratch" in [model.slot for model in broadcast(decisions, ModelPublished)]


def test_joins_and_leaves_wait_while_candidates_are_scored():
    machine, asked, updates = alarmed()
    before = set(machine.state.active())
    assert feed(machine, Leave(client="c2", nonce="i1"), join("c7")) == []
    assert machine.state.active() == before
    decisions = feed(machine, *(scores(u, asked, 0.1) for u in updates.values()))
    assert [type(d) for d in decisions] == [Commit, Commit]
    assert [message.client for message in broadcast(decisions, Left)] == ["c2"]
    assert [(message.client, message.entry) for message in broadcast(decisions, Joined)] == [("c7", 12)]
    assert machine.state.active() == {"c0", "c1", "c7"}


def test_a_coordinator_killed_while_candidates_are_scored_repeats_the_step():
    machine, asked, updates = alarmed()
    expected = feed(machine, *(scores(u, asked, 0.1) for u in updates.values()))

    saved = alarmed_before_the_alarm()
    again = Coordinator(machine.settings, codec.decode(type(machine.state), saved))
    again.start(0.0)
    (publish,) = feed(again, *updates.values())
    later = replace(asked, resumed=1)
    assert as_bytes(broadcast([publish], Score)) == as_bytes([later])
    repeated = feed(again, *(scores(u, later, 0.1) for u in updates.values()))
    assert as_bytes(broadcast(repeated, RoundClosed)) == as_bytes(broadcast(expected, RoundClosed))
    assert as_bytes(broadcast(repeated, Restarted)) == as_bytes(broadcast(expected, Restarted))
    assert as_bytes(broadcast(repeated, ModelPublished)) == as_bytes(broadcast(expected, ModelPublished))


@pytest.mark.parametrize("kills", [1, 2])
def test_scores_for_an_earlier_start_of_the_coordinator_do_not_count(kills):
    machine, asked, updates = alarmed()
    state = codec.decode(CoordinatorState, alarmed_before_the_alarm())
    for _ in range(kills):  # each start saves its number, though it closes nothing
        again = Coordinator(machine.settings, state)
        assert [type(decision) for decision in again.start(0.0)] == [Commit]
        state = codec.decode(CoordinatorState, codec.encode(again.state))
    (later,) = broadcast(feed(again, *updates.values()), Score)
    assert later.resumed == kills
    for start in range(kills):
        delayed = [scores(u, replace(asked, resumed=start), 0.1) for u in updates.values()]
        assert {reason for _, reason in refusals(feed(again, *delayed))} == {"nobody has asked for scores"}
    decisions = feed(again, *(scores(u, later, 0.1) for u in updates.values()))
    (opened,) = broadcast(decisions, RoundOpened)
    assert (opened.entry, opened.resumed, again.state.resumed) == (asked.entry + 1, 0, 0)


def alarmed_before_the_alarm() -> bytes:
    """Return the state as it was committed last, before the round of the alarm was closed."""
    machine = coordinator(3)
    opened = begun(machine, *NAMES)
    for t in range(QUIET):
        decisions = feed(machine, *(answer(opened, n, loss=0.2, records=100, start=100 * t) for n in NAMES))
        (opened,) = broadcast(decisions, RoundOpened)
    return codec.encode(machine.state)


# --- the second stage: a relabelled model ----------------------------------------------------------------------


def exchanging(**settings: object) -> tuple[Coordinator, Score, dict[str, Update]]:
    """Return a coordinator that has heard of all that exchanged labels would fit, what it asks now, the updates."""
    machine, asked, updates = alarmed(**settings)
    decisions = feed(machine, *(scores(u, asked, 0.6, exchanged=0.1) for u in updates.values()), now=51.0)
    assert [type(d) for d in decisions] == [Publish]
    (second,) = broadcast(decisions, Score)
    # Columns of what was the incumbent, the other way round; here all columns are alike.
    (model,) = broadcast(decisions, ModelPublished)
    assert model.slot == "relabelled"
    return machine, second, updates


def test_labels_that_would_surely_fit_better_are_tried_before_the_round_closes():
    machine, second, updates = exchanging()
    assert (second.entry, second.stage, second.relabel) == (11, 2, ())
    assert [(slot.name, slot.trained) for slot in second.slots] == [("relabelled", True)]
    (commit,) = feed(machine, *(scores(u, second, 0.1) for u in updates.values()))
    assert isinstance(commit, Commit)
    (restarted,) = broadcast([commit], Restarted)
    assert restarted.chosen == "relabelled"
    models = {model.slot: model.weights for model in broadcast([commit], ModelPublished)}
    # Made from the model that the alarm round played, ten steps of 0.02 (the first of equals), and stepped.
    assert models["step 16"] == pytest.approx(10 * 0.02 + 0.5, abs=1e-6)


def test_a_relabelled_model_is_not_chosen_by_what_its_fitted_labels_promise():
    machine, second, updates = exchanging()
    (restarted,) = broadcast(feed(machine, *(scores(u, second, 0.65) for u in updates.values())), Restarted)
    assert restarted.chosen == "scratch"


def test_labels_that_fit_no_better_than_a_candidate_are_not_tried():
    machine, asked, updates = alarmed()
    (commit,) = feed(machine, *(scores(u, asked, 0.1, exchanged=0.1001) for u in updates.values()))
    assert isinstance(commit, Commit)


def test_labels_that_fit_some_and_harm_others_are_not_tried():
    # Gains of 0.5, 0.5 and -0.4: 0.2 in the mean, with a standard error of 0.42.
    machine, asked, updates = alarmed()
    found = zip(updates.values(), (0.1, 0.1, 1.0), strict=True)
    (commit,) = feed(machine, *(scores(u, asked, 0.6, exchanged=e) for u, e in found))
    assert isinstance(commit, Commit)


def test_the_permutation_that_is_published_is_the_one_that_fits():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    step = np.array([[0.1, -0.1], [0.0, 0.2]])
    for t in range(QUIET):
        updates = [answer(opened, n, loss=0.2, records=100, start=100 * t) for n in ("c0", "c1")]
        (opened,) = broadcast(feed(machine, *(stepping(u, step) for u in updates)), RoundOpened)
    updates = [answer(opened, n, loss=0.7, records=100, start=100 * QUIET) for n in ("c0", "c1")]
    (asked,) = broadcast(feed(machine, *(stepping(u, step) for u in updates)), Score)
    # An older one fits better than the one that the round played.
    fit = {"incumbent": fits(updates[0], exchanged=0.2), "former": fits(updates[0], exchanged=0.1)}
    decisions = feed(machine, *(scores(u, asked, 0.6, relabelling=fit) for u in updates))
    (model,) = broadcast(decisions, ModelPublished)
    # The youngest kept from before round 11 is what round 9 played, after eight steps.
    assert model.weights == pytest.approx(8 * step[:, ::-1], abs=1e-6)


def test_a_logistic_model_with_one_known_label_has_no_labels_to_exchange():
    """A logistic model has one column, also while a single label is known: there are no labels to exchange."""
    learner = LearningSettings(model="logistic").learner("classification", 0)
    machine = coordinator(1, learner=learner)
    (opened,) = broadcast(feed(machine, join("c0", labels=("a",))), RoundOpened)

    def update(t: int, loss: float) -> Update:
        return one_column(answer(opened, "c0", loss=loss, records=100, start=100 * t))

    for t in range(QUIET):
        (opened,) = broadcast(feed(machine, update(t, 0.2)), RoundOpened)
    last = update(QUIET, 0.7)
    (asked,) = broadcast(feed(machine, last), Score)
    nothing = fitted(np.zeros((0, 0)))
    decisions = feed(machine, one_column(scores(last, asked, 0.1, relabelling=nothing)))
    assert refusals(decisions) == []
    assert len(broadcast(decisions, Restarted)) == 1


def one_column(message: Any) -> Any:
    differences = field_of(message, "differences")
    return altered(message, differences={name: x[:, :1] for name, x in differences.items()})


def stepping(update: Update, step: np.ndarray) -> Update:
    return altered(update, differences=dict.fromkeys(update.numbers.differences, step))


def test_an_answer_that_comes_a_stage_late_is_refused_and_the_client_left_out():
    machine, asked, updates = alarmed(deadline=5.0)
    first = {name: scores(updates[name], asked, 0.6, exchanged=0.1) for name in NAMES}
    assert feed(machine, first["c0"], first["c1"], now=52.0) == []
    (second,) = broadcast(feed(machine, Tick(), now=55.0), Score)
    assert second.stage == 2
    assert refusals(feed(machine, first["c2"], now=56.0)) == [("c2", "nobody has asked for scores")]
    # A stage has a deadline of its own.
    assert machine.wakes_at == 60.0
    (closed,) = broadcast(feed(machine, *(scores(updates[n], second, 0.1) for n in NAMES), now=57.0), RoundClosed)
    assert (closed.records, closed.refused) == (300, 1)


def test_clients_that_are_silent_in_the_second_stage_are_left_out():
    machine, second, updates = exchanging(deadline=5.0)
    assert machine.wakes_at == 56.0
    assert feed(machine, scores(updates["c1"], second, 0.1), now=52.0) == []
    (restarted,) = broadcast(feed(machine, Tick(), now=56.0), Restarted)
    assert restarted.chosen == "relabelled"


def test_when_all_are_silent_in_the_second_stage_the_best_of_the_first_is_chosen():
    machine, _, _ = exchanging(deadline=5.0)
    (restarted,) = broadcast(feed(machine, Tick(), now=56.0), Restarted)
    assert restarted.chosen == "scratch"


def test_answers_sent_again_count_once_in_either_stage():
    machine, asked, updates = alarmed()
    first = [scores(u, asked, 0.6, exchanged=0.1) for u in updates.values()]
    assert feed(machine, first[0], first[0], first[1], first[0]) == []
    (second,) = broadcast(feed(machine, first[2]), Score)
    assert refusals(feed(machine, *first)) == [(name, "nobody has asked for scores") for name in NAMES]
    again = [scores(u, second, 0.1) for u in updates.values()]
    assert feed(machine, again[0], again[0], again[1], again[1]) == []
    assert len(broadcast(feed(machine, again[2]), Restarted)) == 1


def test_a_client_that_restarts_in_the_second_stage_gets_that_stage():
    machine, second, _ = exchanging()
    decisions = feed(machine, join("c1", start=2))
    assert broadcast(decisions, Score) == [second]
    assert "relabelled" in [model.slot for model in broadcast(decisions, ModelPublished)]


def test_what_raises_in_the_second_stage_leaves_what_was_answered_in_the_first(monkeypatch: pytest.MonkeyPatch):
    machine, second, updates = exchanging()
    expected = feed(machine, *(scores(u, second, 0.65) for u in updates.values()))
    assert broadcast(expected, Restarted)[0].chosen == "scratch"  # by its answer to the first
    other, second, updates = exchanging()
    before = alarmed_before_the_alarm()
    other._recovery.last_saved = lambda: codec.decode(CoordinatorState, before)
    with monkeypatch.context() as patched:
        patched.setattr(admission, "wrong_scores", lambda *_, **__: 1 / 0)
        assert len(refusals(feed(other, scores(updates["c0"], second, 0.65)))) == 1
    decisions = feed(other, *(scores(u, second, 0.65) for u in updates.values()))
    for kind in (Restarted, ModelPublished):
        assert as_bytes(broadcast(decisions, kind)) == as_bytes(broadcast(expected, kind))


def test_a_coordinator_killed_in_the_second_stage_repeats_both_stages():
    machine, second, updates = exchanging()
    expected = feed(machine, *(scores(u, second, 0.1) for u in updates.values()))
    again = Coordinator(machine.settings, codec.decode(type(machine.state), alarmed_before_the_alarm()))
    again.start(0.0)
    (first,) = broadcast(feed(again, *updates.values()), Score)
    assert first.stage == 1
    (repeated,) = broadcast(feed(again, *(scores(u, first, 0.6, exchanged=0.1) for u in updates.values())), Score)
    assert as_bytes([repeated]) == as_bytes([replace(second, resumed=1)])
    decisions = feed(again, *(scores(u, repeated, 0.1) for u in updates.values()))
    for kind in (RoundClosed, Restarted, ModelPublished):
        assert as_bytes(broadcast(decisions, kind)) == as_bytes(broadcast(expected, kind))
