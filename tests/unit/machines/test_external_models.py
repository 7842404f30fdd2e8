"""Clients and a coordinator with a model of River: what is agreed on, and what cannot be used."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from river import linear_model, naive_bayes, optim, preprocessing
from unit.machines.script import (
    PROFILES,
    Federation,
    answer,
    as_bytes,
    batch,
    begun,
    broadcast,
    client,
    coordinator,
    cut,
    feed,
    joined,
    opening,
    parting,
    reborn,
    refusals,
    sent,
    swapping,
)
from unit.models.test_by_weights import Softmax

from streamfl.bounds import Limits
from streamfl.errors import UsageError
from streamfl.learning.local_round import Learner
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.models.river_models import FederatedRiverModel, RiverPass, export, merged
from streamfl.online.external.admission import within
from streamfl.online.external.agreed import agreed_after
from streamfl.protocol.events import BufferDue, RecordsRead
from streamfl.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.protocol.external.tables import Exported, ExportedTable
from streamfl.protocol.messages import OnlinePublished, Restarted, RoundClosed, RoundOpened, Update
from streamfl.protocol.records import Batch
from streamfl.run.settings import LearningSettings


def model() -> Any:
    return preprocessing.StandardScaler() | linear_model.SoftmaxRegression()


def learner(river: Any, task: str = "classification") -> Learner:
    return LearningSettings(model=river).learner(task, 0)


def federation(
    river: Any, records: dict[str, Batch] | None = None, *, at: int | None = None, **more: Any
) -> Federation:
    """Return three clients with rounds of 20, whose classes are exchanged at a round if one is given."""
    told_ = CoordinatorSettings(learner=learner(river), min_clients=3)
    records = records or {name: swapping(name, 16, at=at) for name in ("c0", "c1", "c2")}
    settings = ClientSettings(learner=learner(river), round_size=20)
    return Federation(Coordinator(told_, PROFILES["adaptive"]()), records, settings, **more)


def agreed(run: Federation) -> ExternalState:
    assert run.coordinator.state.online is not None
    return run.coordinator.state.online


def tables(state: Exported) -> dict[str, tuple[Any, ...]]:
    return {path: (t.rule, t.rows, t.columns, t.values.tolist()) for path, t in state.tables.items()}


def by_hand(records: dict[str, Batch], rounds: Sequence[int]) -> tuple[Exported, int]:
    """Return what River models learn that meet after every round of 20, and how many records they predicted right."""
    base, right = export(model()), 0
    for t in rounds:
        parts = []
        for name in sorted(records):
            mine, over = records[name], RiverPass(model(), base)
            for row in range(20 * (t - 1), 20 * t):
                x = dict(zip(mine.features, mine.X[row].tolist(), strict=True))
                y = mine.labels[int(mine.y[row])]
                right += over.predict_one(x) == y
                over.learn_one(x, y)
            parts.append((over.export(), 20))
        base = merged(parts, base)
    return base, right


def test_a_federation_learns_what_river_models_learn_that_meet_after_every_round():
    run = federation(model()).run()
    state, right = by_hand(dict(run.records), range(1, 17))
    assert tables(agreed(run).state) == tables(state)
    assert sum(closed.served.correct for closed in run.of(RoundClosed)) == right
    assert (agreed(run).seen, agreed(run).labels) == (3 * 320, ("a", "b"))
    assert [closed.served.shares for closed in run.of(RoundClosed)][3] == {"StandardScaler | SoftmaxRegression": 60.0}


def test_the_digest_covers_what_an_external_model_has_learnt():
    run = federation(model()).run()
    before = run.coordinator.digest()
    run.coordinator.state.online = replace(agreed(run), seen=1)
    assert run.coordinator.digest() != before


def test_an_epoch_begins_with_a_fresh_external_model():
    run = federation(model(), at=11).run()
    (restarted,) = run.of(Restarted)
    assert (restarted.round, restarted.chosen) == (11, "relabelled")
    state, _ = by_hand(dict(run.records), range(12, 17))
    assert tables(agreed(run).state) == tables(state)
    assert agreed(run).seen == 3 * 100
    # Exchanged classes hurt in round 11 only; 20 records a client are enough to learn them anew.
    right = {closed.round: closed.served.correct for closed in run.of(RoundClosed)}
    assert right[11] < 20
    assert right[13] > 50


def test_an_epoch_that_goes_on_as_it_is_keeps_what_was_learnt():
    records = {name: swapping(name, 8) for name in ("c0", "c1", "c2")}
    late = {name: replace(mine, y=_third(mine, after=60), labels=("a", "b", "z")) for name, mine in records.items()}
    run = federation(model(), late).run()
    chosen = {restarted.chosen for restarted in run.of(Restarted)}
    assert chosen, "no restart: this shows nothing"
    seen, expected = 0, {}
    fresh = {restarted.round for restarted in run.of(Restarted) if restarted.chosen != "incumbent"}
    for closed in run.of(RoundClosed):
        seen = 0 if closed.round in fresh else seen + closed.records
        expected[closed.round + 1] = seen
    found = {message.version: message.agreed.seen for message in run.of(OnlinePublished)}
    assert found == {1: 0} | expected


def _third(mine: Batch, after: int) -> np.ndarray:
    there = (np.arange(len(mine)) >= after) & (np.arange(len(mine)) % 2 == 0)
    return np.where(there, 2.0, mine.y)


def test_clients_apart_do_not_count():
    plain = parting(rounds=14)
    both = learner(model())
    machine = Coordinator(CoordinatorSettings(learner=both, min_clients=6), CoordinatorState(Promotion()))
    run = Federation(machine, plain.records, ClientSettings(learner=both, round_size=40)).run()
    apart = {
        message.round: {name for group in message.apart for name in group.clients} for message in run.of(RoundOpened)
    }
    assert {"c1"} in apart.values()
    counts = [
        sum(accepted.records for accepted in closed.accepted if accepted.client not in apart[closed.round])
        for closed in run.of(RoundClosed)
    ]
    assert run.of(Restarted) == []
    # In the round in which it drifts a client that is not apart yet differs from all others, and counts for nothing.
    assert agreed(run).seen == sum(counts) - 40 < sum(closed.records for closed in run.of(RoundClosed))


def test_a_coordinator_that_is_restored_at_every_commit_comes_to_the_same_end():
    undisturbed, restored = federation(model(), at=11).run(), federation(model(), at=11, restart=reborn).run()
    assert restored.coordinator is not undisturbed.coordinator
    assert restored.coordinator.digest() == undisturbed.coordinator.digest()


@pytest.mark.parametrize(
    "learns",
    [
        preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(0.1)),
        preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.Adam(0.01)),
        Softmax,
    ],
)
def test_clients_that_start_again_at_any_time_come_to_the_same_end(learns):
    undisturbed = federation(learns, at=11).run()
    starts = []

    class Restarting(Federation):
        """Every client starts again, with nothing but its source, in rounds 3, 6, 9, .."""

        def _restarted(self) -> None:
            entry = self.coordinator.state.entry
            if entry % 3 == 0 and entry < 15 and entry not in starts:
                starts.append(entry)
                for name in self.clients:
                    machine = type(self.clients[name])(self.settings, name, f"i{100 + len(starts)}")
                    self.clients[name], self.read[name] = machine, 0

    plain = federation(learns, at=11)
    run = Restarting(plain.coordinator, plain.records, plain.settings).run()
    assert len(starts) > 3
    assert run.coordinator.digest() == undisturbed.coordinator.digest()
    served = [[closed.served.correct for closed in one.of(RoundClosed)] for one in (run, undisturbed)]
    assert served[0] == served[1]


def test_a_class_with_weights_begins_in_the_second_round_and_learns_at_once_after_a_restart():
    run = federation(Softmax, at=11).run()
    assert [restarted.round for restarted in run.of(Restarted)] == [11]
    closed = {one.round: one for one in run.of(RoundClosed)}
    assert {number: one.unlearnt for number, one in closed.items() if one.unlearnt} == {1: 60}
    assert closed[1].served.correct == 0
    assert closed[11].served.correct < 20
    assert closed[13].served.correct > 50
    assert closed[16].served.shares == {"Softmax": 60.0}


# --- what cannot be learnt -------------------------------------------------------------------------------------


def test_a_third_label_is_not_learnt_by_a_model_of_two_and_ends_no_client():
    records = {name: swapping(name, 8) for name in ("c0", "c1", "c2")}
    late = {name: replace(mine, y=_third(mine, after=100), labels=("a", "b", "z")) for name, mine in records.items()}
    run = federation(linear_model.LogisticRegression(), late).run()
    unlearnt = {closed.round: closed.unlearnt for closed in run.of(RoundClosed)}
    assert unlearnt == dict.fromkeys(range(1, 6), 0) | dict.fromkeys(range(6, 9), 3 * 10)
    assert sum(closed.records for closed in run.of(RoundClosed)) == 3 * 160


def test_a_model_with_overflowing_numbers_is_left_out_and_the_federation_continues():
    wild = linear_model.LinearRegression(optim.SGD(1e60), clip_gradient=1e60)
    both = LearningSettings(model=wild).learner("regression", 0)
    records = {name: replace(swapping(name, 4), labels=()) for name in ("c0", "c1")}
    machine = Coordinator(
        CoordinatorSettings(learner=both, min_clients=2, task="regression"), CoordinatorState(Promotion())
    )
    run = Federation(machine, records, ClientSettings(learner=both, round_size=20)).run()
    assert [closed.unlearnt for closed in run.of(RoundClosed)] == [40, 40, 40, 40]
    assert [closed.refused for closed in run.of(RoundClosed)] == [0, 0, 0, 0]
    assert tables(agreed(run).state) == tables(export(wild))
    assert all(np.isfinite(closed.served.absolute_error) for closed in run.of(RoundClosed))


# --- what is refused -------------------------------------------------------------------------------------------

NB = naive_bayes.GaussianNB()


def exported(labels: str) -> Exported:
    """Return what naive Bayes knows of records of the feature x, one a label."""
    over = RiverPass(NB.clone())
    for label in labels:
        over.learn_one({"x": 1.0 if label == "a" else -1.0}, label)
    return over.export()


def with_values(state: Exported, value: float) -> Exported:
    path = min(path for path in state.tables if state.tables[path].values.size)
    table = state.tables[path]
    return Exported(state.model, {**state.tables, path: replace(table, values=np.full(table.values.shape, value))})


GOOD = exported("aabb")
BAD: dict[str, tuple[ExternalLearnt | None, str]] = {
    "nothing sent": (None, "either the update or the federation has no online models"),
    "another number of records": (ExternalLearnt(GOOD, 5, 0), "the external model has another number of records"),
    "more unlearnt than there were": (ExternalLearnt(GOOD, 4, 5), "the external model has another number of records"),
    "learnt, and nothing sent": (
        ExternalLearnt(None, 4, 3),
        "the external model has learnt records, but its state is missing",
    ),
    "of another model": (
        ExternalLearnt(export(linear_model.PAClassifier()), 4, 0),
        "it is of PAClassifier, not of Gauss",
    ),
    "not finite": (ExternalLearnt(with_values(GOOD, np.nan), 4, 0), "values that are not finite"),
    "far too large": (ExternalLearnt(with_values(GOOD, 1e200), 4, 0), "far too large"),
    "negative": (ExternalLearnt(with_values(GOOD, -1.0), 4, 0), "a negative count"),
    "a table that the model has not": (
        ExternalLearnt(
            Exported(GOOD.model, {**GOOD.tables, "x.y": ExportedTable.column("sum", "n", {"x": 1.0})}), 4, 0
        ),
        "not an export of GaussianNB",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_the_external_model_cannot_have_learnt_is_refused(name):
    said, reason = BAD[name]
    machine = coordinator(learner=learner(NB))
    opened = begun(machine, "c0", "c1")
    assert opened.online
    (refused,) = refusals(feed(machine, answer(opened, "c1", learnt=said)))
    assert reason in refused[1]
    good = ExternalLearnt(GOOD, 4, 0)
    decisions = feed(machine, answer(opened, "c1", learnt=good), answer(opened, "c0", learnt=good))
    (published,) = broadcast(decisions, OnlinePublished)
    assert (published.version, published.agreed.seen) == (2, 8)


def test_an_external_model_of_another_federation_is_refused():
    machine = coordinator()
    opened = begun(machine, "c0", "c1")
    (refused,) = refusals(feed(machine, answer(opened, "c1", learnt=ExternalLearnt(GOOD, 4, 0))))
    assert refused == ("c1", "either the update or the federation has no online models")


def test_parts_that_contradict_one_another_do_not_stop_the_round():
    """A hostile client writes a label as the number 1, another as the truth value: one key of a dict."""
    machine = coordinator(learner=learner(NB), min_clients=3)
    opened = begun(machine, "c0", "c1", "c2")
    strange = {name: ExternalLearnt(_relabelled(text), 4, 0) for name, text in (("c0", "#1"), ("c1", "#true"))}
    said = [answer(opened, name, learnt=strange.get(name, ExternalLearnt(GOOD, 4, 0))) for name in ("c0", "c1", "c2")]
    (published,) = broadcast(feed(machine, *said), OnlinePublished)
    assert published.agreed.seen == 8
    counts = {
        row: value for t in published.agreed.state.tables.values() for row, value in _counts(t) if row in "#1ab"
    }
    assert counts == {"#1": 2.0, "a": 2.0, "b": 4.0}


def _relabelled(text: str) -> Exported:
    def named(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text if name == "a" else name for name in names)

    told_ = {path: replace(t, rows=named(t.rows), columns=named(t.columns)) for path, t in GOOD.tables.items()}
    return Exported(GOOD.model, told_)


def _counts(table: ExportedTable) -> list[tuple[str, float]]:
    return list(zip(table.rows, table.values[:, 0].tolist(), strict=True)) if table.columns == ("count",) else []


# --- a client --------------------------------------------------------------------------------------------------


def external_opening(entry: int, state: ExternalState, **more: Any) -> tuple[Any, ...]:
    return (OnlinePublished(version=entry, agreed=state), *opening(entry, online=True, **more))


def test_a_client_waits_for_the_agreed_state_and_asks_for_it():
    machine = client(learner=learner(NB))
    decisions = feed(machine, RecordsRead((batch("abab"),)), joined(), *opening(1, online=True))
    assert sent(decisions, Update) == []
    assert machine.wakes_at == 5.0
    fresh = ExternalState(export(NB), ("a", "b"))
    (update,) = sent(feed(machine, OnlinePublished(version=1, agreed=fresh)), Update)
    assert update.numbers.learnt is not None
    assert tables(update.numbers.learnt.state) == tables(exported("abab"))


def test_a_round_of_bad_records_only_sends_no_models():
    machine = client(learner=learner(NB))
    feed(machine, RecordsRead((batch("!!!!"),)), BufferDue(), joined())
    fresh = ExternalState(export(NB), ("a", "b"))
    (update,) = sent(feed(machine, *external_opening(1, fresh)), Update)
    assert (update.rejected, update.numbers.learnt) == (4, None)


def test_records_learnt_before_the_federation_began_are_learnt_again_from_what_all_agree_on():
    machine = client(learner=learner(linear_model.PAClassifier()))
    records = batch("bbab")
    machine.learn_early(cut(records, 0, 2))
    assert machine.answer(records)[1] == ("b",)
    feed(machine, RecordsRead((records,)), joined())
    fresh = ExternalState(export(linear_model.PAClassifier()), ("a", "b"))
    (update,) = sent(feed(machine, *external_opening(1, fresh)), Update)
    over = RiverPass(linear_model.PAClassifier(), labels=("a", "b"))
    for row, label in enumerate("bbab"):
        over.learn_one({"x": float(records.X[row, 0])}, label)
    assert update.numbers.learnt is not None
    assert tables(update.numbers.learnt.state) == tables(over.export())


def test_another_model_than_was_federated_begins_fresh():
    run = federation(model()).run()
    state = run.coordinator.state
    again = Coordinator(CoordinatorSettings(learner=learner(NB), min_clients=3), state)
    again.start(0.0)
    assert state.online is None


def test_the_same_events_give_the_same_bytes():
    assert as_bytes(federation(model()).run().log) == as_bytes(federation(model()).run().log)


def test_an_external_model_of_the_other_task_is_refused():
    with pytest.raises(UsageError, match="LinearRegression is for regression, but the task is classification"):
        FederatedRiverModel(linear_model.LinearRegression(), "classification")


# --- names -----------------------------------------------------------------------------------------------------


def weights(*names: str) -> Exported:
    return Exported("m", {"m.weights": ExportedTable.column("mean", "weight", dict.fromkeys(names, 1.0))})


def test_parts_that_bring_too_many_names_together_are_taken_in_client_order() -> None:
    # One column, and rows: the base has x; with a and b it has four names, with c, d and e six.
    base = ExternalState(weights("x"))
    parts = [ExternalLearnt(weights("x", *more), 4, 0) for more in (("a", "b"), ("c", "d"), ("a",))]
    assert agreed_after(base, parts, (), most=4).state.tables["m.weights"].rows == ("x", "a", "b")
    assert agreed_after(base, parts, (), most=4).seen == 8
    assert agreed_after(base, parts, (), most=6).state.tables["m.weights"].rows == ("x", "a", "b", "c", "d")


def test_an_external_model_with_too_many_names_is_refused_and_no_client_sends_one() -> None:
    limits = Limits(external_names=3)  # the scaler's rows and columns alone are more
    told_ = CoordinatorSettings(learner=learner(model()), min_clients=1, limits=limits)
    machine = Coordinator(told_, CoordinatorState(PROFILES["adaptive"]().profile))
    opened = begun(machine, "c0")
    state = RiverPass(model(), None)
    state.learn_one({"x": 1.0}, "a")
    learnt = ExternalLearnt(state.export(), 4, 0)
    ((name, reason),) = refusals(feed(machine, answer(opened, "c0", learnt=learnt)))
    assert (name, reason) == (
        "c0",
        f"an external model that cannot be merged: {learnt.state.names} names, but at most 3 are allowed",
    )
    assert (within(learnt, limits).state, within(learnt, limits).unlearnt) == (None, 4)
    assert within(learnt, Limits(external_names=learnt.state.names)) is learnt
