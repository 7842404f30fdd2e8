"""What nobody uses sleeps: it is not asked, not taught and not told of, and wakes now and then."""

from dataclasses import replace

import numpy as np
import pytest
from native_streams import LABELS, Stream, agreed, drawn, exact, learnt, state
from one_record import LabelMixture, TargetMixture
from unit.machines.script import opening

from streamfl.errors import PeerError
from streamfl.learning.serving import Serving
from streamfl.models import Softmax
from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging
from streamfl.protocol.messages import OnlinePublished
from streamfl.protocol.messages.decision_rule import likeliest
from streamfl.protocol.native import sleeping
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import FERNS, NativeSettings
from streamfl.protocol.native.sleeping import Rest, rested, unused
from streamfl.protocol.registry import Registry

AUTO = NativeSettings("auto")
FERN_MODELS = ("fern-8-0.3", "fern-8-10", "fern-24-0.3", "fern-24-10")
GROUPS = ("linear", *FERN_MODELS, "whitened", "neighbours", "rounds")


def models(*asleep: str, settings: NativeSettings = AUTO) -> NativeState:
    """Return agreed models of which some sleep."""
    known = agreed(settings, learnt(settings, drawn(30, targets=settings.targets)))
    return replace(known, rests={name: Rest(left=3) for name in asleep})


def beginning(at: NativeState, settings: NativeSettings = AUTO) -> NativeLearner:
    learner = NativeLearner(settings)
    learner.begin(at)
    return learner


# --- who sleeps when ---------------------------------------------------------------------------------------------


def test_eight_rounds_without_a_part_then_sleep_that_grows_from_two_rounds_to_sixteen():
    rests, script = {"x": Rest()}, ""
    for _ in range(64):
        rests = rested(rests, ["x"])
        script += "-" if rests["x"].left else "x"
    naps = [2, 4, 8, 16, 16]
    assert script == ("x" * 7 + "".join("-" * nap + "x" for nap in naps) + "-" * 16)[:64]


def test_a_round_with_a_part_wakes_for_good():
    rests = {"x": Rest(idle=7, next=16)}
    assert rested(rests, []) == {}
    assert rested(rested(rests, []), ["x"]) == {"x": Rest(idle=1)}


def test_experts_that_share_their_work_sleep_only_together_and_ferns_alone():
    parts = np.zeros(len(AUTO.experts))
    parts[[AUTO.experts.index("fern-8-10"), AUTO.experts.index("neighbours-1000")]] = [0.99, 0.01]
    assert unused(AUTO.experts, parts) == (
        *("linear", "fern-8-0.3", "fern-24-0.3", "fern-24-10"),
        *("whitened", "rounds"),
    )
    assert set(unused(AUTO.experts, np.zeros(len(AUTO.experts)))) == set(GROUPS)


@pytest.mark.compiles
def test_what_one_client_uses_stays_awake_at_all():
    parts = [learnt(AUTO, drawn(20, seed=seed)) for seed in (1, 2)]
    alone = [
        replace(part, unused=names) for part, names in zip(parts, [("rounds", "linear"), ("linear",)], strict=True)
    ]
    after, _ = merging.after(NativeState.none(AUTO), alone, ("a", "b", "c"))
    assert after.rests == {"linear": Rest(idle=1)}


@pytest.mark.compiles
def test_a_client_without_records_has_no_say_in_it():
    one, silent = replace(learnt(AUTO, drawn(20)), unused=("rounds",)), beginning(NativeState.none(AUTO)).learnt()
    after, _ = merging.after(NativeState.none(AUTO), [one, silent], ("a", "b", "c"))
    assert after.rests == {"rounds": Rest(idle=1)}


@pytest.mark.compiles
def test_what_a_client_apart_uses_stays_awake():
    ours = replace(learnt(AUTO, drawn(20)), unused=("linear", "rounds"))
    theirs = replace(learnt(AUTO, drawn(20, seed=2)), unused=("linear",))
    alone, _ = merging.after(NativeState.none(AUTO), [ours], ("a", "b", "c"))
    after, _ = merging.after(NativeState.none(AUTO), [ours], ("a", "b", "c"), [theirs])
    assert after.rests == {"linear": Rest(idle=1)}
    np.testing.assert_array_equal(after.weights, alone.weights)


@pytest.mark.compiles
@pytest.mark.parametrize("rest", [Rest(left=17), Rest(left=-1), Rest(idle=8), Rest(next=1), Rest(next=32)])
def test_rests_that_cannot_come_about_are_refused(rest):
    with pytest.raises(PeerError, match="do not fit"):
        beginning(replace(models(), rests={"rounds": rest}))


# --- what sleeping is ---------------------------------------------------------------------------------------------


@pytest.mark.compiles
@pytest.mark.parametrize("targets", [False, True])
@pytest.mark.parametrize(
    "names",
    [("linear",), *((name,) for name in FERN_MODELS), FERN_MODELS[:2], FERN_MODELS[2:], FERN_MODELS, ("whitened",)],
    ids=" ".join,
)
def test_whatever_sleepers_hold_changes_nothing_and_stays_as_it_is(names, targets):
    settings = replace(AUTO, targets=targets)
    asleep = models(*names, settings=settings)
    mine = [i for i, expert in enumerate(settings.names) if expert.startswith(names)]
    other = replace(asleep, weights=asleep.weights.copy(), table=asleep.table.copy())
    other.weights[:, mine] = 7.0
    held = settings.in_table(np.isin(np.arange(len(settings.names)), mine))  # the entries of the table that sleep
    other.table[held] = -5.0
    one, two = beginning(asleep, settings), beginning(other, settings)
    stream = drawn(40, seed=4, targets=targets)
    np.testing.assert_array_equal(one.learn(*stream.part(0, 40)), two.learn(*stream.part(0, 40)))
    asked = drawn(9, seed=5, targets=targets)
    np.testing.assert_array_equal(one.predicted(asked.features, asked.X), two.predicted(asked.features, asked.X))
    told = exact(one)
    assert not told.weights[:, mine].any()
    assert all(told.weights[:, i].any() for i in range(len(settings.names)) if i not in mine)
    cells = told.cells.astype(int)
    assert not told.table[held[cells]].any()
    assert not held[cells].all(axis=1).any()  # a cell of which all models sleep is not visited
    for rate in range(2):
        awake = ~held[cells, rate]
        assert not awake.any() or told.table[awake, rate].any()
    assert (len(cells) > 0) == (names != FERN_MODELS)
    rounded = one.learnt()
    assert not rounded.weights[:, mine].any()
    assert not rounded.table[held[rounded.cells.astype(int)]].any()
    assert set(names) <= set(told.unused)


@pytest.mark.compiles
def test_moments_and_norms_count_all_records_and_neighbours_keep_them_meanwhile():
    awake, asleep = beginning(models()), NativeLearner(AUTO, rest=Rest(left=3))
    asleep.begin(models("whitened", "linear"))
    assert asleep.mixture.mixing.awake[~AUTO.shared].tolist() == [False, False]
    stream = drawn(40, seed=4)
    for learner in (awake, asleep):
        learner.learn(*stream.part(0, 40))
    assert awake.near is not None
    assert asleep.near is not None
    assert state(asleep.near) == state(awake.near)
    one, two = awake.learnt(), asleep.learnt()
    np.testing.assert_array_equal(one.second, two.second)
    np.testing.assert_array_equal(one.norms, two.norms)


@pytest.mark.compiles
def test_what_serves_rounds_is_not_asked_while_it_sleeps():
    registry = Registry(1, ("x", "y"), LABELS, np.zeros(2), np.ones(2))
    serving = Serving(opening()[-1], registry, Softmax(), np.ones((3, 3)))
    batch = drawn(20).batch(9, 12)
    assert beginning(models("rounds")).predicted_by_rounds(serving, batch) is None
    said = beginning(models()).predicted_by_rounds(serving, batch)
    assert said is not None
    assert said.shape == (3, 3)


@pytest.mark.compiles
def test_all_experts_serve_where_all_would_sleep():
    learner = beginning(models(*GROUPS))
    served = likeliest(learner.learn(*drawn(40, seed=4).part(0, 40)))
    assert learner.mixture.mixing.awake.all()
    assert (served == drawn(40, seed=4).y).mean() > 0.5


@pytest.mark.compiles
def test_where_all_agreed_experts_would_sleep_all_serve_whatever_a_client_has_of_its_own():
    at = models(*(name for name in GROUPS if name != "neighbours"))
    learners = [NativeLearner(AUTO), NativeLearner(AUTO, rest=Rest(left=3))]
    for learner, neighbours in zip(learners, (True, False), strict=True):
        learner.begin(at)
        learner.learn(*drawn(40, seed=4).part(0, 40))
        assert learner.mixture.mixing.awake.tolist() == np.where(AUTO.shared, True, neighbours).tolist()
    assert state(learners[0].learnt()) == state(learners[1].learnt())


# --- a client's own experts ----------------------------------------------------------------------------------------


@pytest.mark.compiles
def test_a_client_lets_its_own_experts_sleep_alone_and_a_restart_wakes_them():
    client, rounds = NativeAtClient(AUTO), iter(range(2, 20))
    experts, serving = AUTO.experts, client.learner.mixture.mixing

    def following(epoch: int, *, uses: str, count: int = 1) -> str:
        script = ""
        for version in (next(rounds) for _ in range(count)):
            client.learn([drawn(1, seed=version).batch(0, 1)])
            serving.best[:] = [expert == uses for expert in experts]
            serving.stacked[:] = serving.best
            client.take(OnlinePublished(version=version, agreed=models()))
            client.begin(version, epoch)
            script += "x" if serving.awake[experts.index("neighbours-100")] else "-"
        return script

    assert following(1, uses="linear-10", count=8) == "xxxxxxx-"
    assert client.learner.rest == Rest(left=2, next=4)
    assert serving.awake[AUTO.shared].all()
    assert following(2, uses="linear-10") == "x"
    assert client.learner.rest == Rest()
    assert following(2, uses="linear-10", count=7) == "xxxxxxx"
    assert following(2, uses="neighbours-1000") == "x"
    assert client.learner.rest == Rest()


@pytest.mark.compiles
def test_without_records_no_round_counts_and_read_again_they_count_once():
    learner = NativeLearner(AUTO)
    learner.rest_own()
    assert learner.rest == Rest()
    learner.learn(*drawn(1).part(0, 1))
    learner.mixture.mixing.best[~AUTO.shared] = 0.0
    learner.mixture.mixing.stacked[:, ~AUTO.shared] = 0.0
    learner.restore()
    assert learner.rest == Rest()


# --- mixtures ----------------------------------------------------------------------------------------------------

P = np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]])


@pytest.mark.compiles
def test_without_a_sleeper_a_mixture_is_that_of_the_others():
    three, two = LabelMixture(3), LabelMixture(2)
    three.wake(np.array([True, True, False]))
    two.mixing.stacked[:] = 1.0 / 3.0  # what is stacked is no share
    for truth in (0, 1, 0, 0):
        assert three.mixed(P).tolist() == two.mixed(P[:2]).tolist()
        three.learn(truth)
        two.learn(truth)
    assert three.shares[2] == three.influence[2] == 0.0
    assert three.shares.sum() == pytest.approx(1.0)


@pytest.mark.compiles
def test_without_a_sleeper_a_mixture_of_targets_is_that_of_the_others():
    three, two = TargetMixture(3), TargetMixture(2)
    three.wake(np.array([True, True, False]))
    two.mixing.stacked[:] = 1.0 / 3.0
    for truth in (1.0, 1.5, -2.0):
        assert three.mixed(np.array([1.0, 2.0, 1e6])) == two.mixed(np.array([1.0, 2.0]))
        three.learn(truth)
        two.learn(truth)
    assert three.shares[2] == 0.0


@pytest.mark.compiles
def test_an_expert_that_wakes_begins_without_a_weight_and_earns_one():
    mixture = LabelMixture(3)
    mixture.wake(np.array([True, True, False]))
    mixture.wake(np.ones(3, np.bool_))
    assert mixture.shares[2] == 0.0
    right = np.array([[0.5, 0.5], [0.6, 0.4], [0.05, 0.95]])
    for _ in range(60):
        mixture.mixed(right)
        mixture.learn(1)
    assert mixture.shares[2] > 0.5


def test_a_mixture_of_which_only_newcomers_are_left_shares_alike():
    mixture = LabelMixture(3)
    mixture.wake(np.array([True, True, False]))
    mixture.wake(np.array([False, False, True]))
    assert mixture.shares.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.compiles
def test_an_expert_with_a_negative_weight_has_an_influence_and_no_share():
    mixture = LabelMixture(2)
    for _ in range(100):
        mixture.mixed(P[:2])
        mixture.learn(1)
    assert mixture.shares[0] < 0.01
    assert mixture.influence[0] > 0.3
    assert unused(("wrong", "right"), mixture.influence) == ()


# --- on a stream -------------------------------------------------------------------------------------------------


@pytest.mark.compiles
def test_with_a_higher_bar_ferns_fall_asleep_and_cost_no_messages_until_they_wake(monkeypatch):
    monkeypatch.setattr(sleeping, "LEAST_PART", 0.15)
    X = np.random.default_rng(0).normal(size=(3000, 10))
    y = (X.sum(axis=1) > 0).astype(np.float64)
    stream = Stream(X, y, tuple(f"x{j}" for j in range(10)), ("no", "yes"))
    at, learner, cells, right = NativeState.none(AUTO), NativeLearner(AUTO), [], 0
    for start in range(0, 3000, 100):
        right += int((likeliest(learner.learn(*stream.part(start, start + 100))) == y[start : start + 100]).sum())
        part = learner.learnt()
        cells.append(int((part.cells >= 256 * FERNS).sum()))  # of the deep ones
        at, change = merging.after(at, [part], stream.labels)
        learner.begin(*learner.following(change))
    script = "".join("-" if count == 0 else "x" for count in cells)
    assert script.startswith("x" * 8 + "--x----x")
    assert right > 0.9 * 3000
