"""The ladder: promotion, averages, the heavy ball and the shadow by hand, and changes of coordinates."""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from streamfl.arrays import FloatArray
from streamfl.learning.drift.evidence import ModelEvidence
from streamfl.learning.profiles.adaptive.ladder import Ladder, LadderSettings
from streamfl.protocol.registry import Registry, TargetUnit, re_expression

ONE = np.zeros((1, 1))

# Records of a round in which a discounted loss decays as fast as it ever does.
MANY = 2000

HEAVY, AVERAGE_OF_HEAVY = "step 4 with momentum", "average of step 4 with momentum"


def model(value: float) -> FloatArray:
    return np.array([[value]])


def ladder(*, orders: tuple[int, ...] = (0, 4), heavy: tuple[int, ...] = (), averages: bool = True) -> Ladder:
    found = Ladder(LadderSettings(orders=orders, heavy=heavy, averages=averages))
    found.reset(ONE, ONE)
    return found


def play(
    ladder: Ladder, losses: Mapping[str, float], stepped: Mapping[str, float] | None = None, records: int = MANY
) -> None:
    """Play a round, given each model's loss and its model after the step; others stay."""
    models = {live.name: live.W for live in ladder.live(1.0)}
    where = {name: model((stepped or {})[name]) if name in (stepped or {}) else models[name] for name in losses}
    ladder.step({name: ModelEvidence(1.0 - loss, loss, where[name]) for name, loss in losses.items()}, ONE, records)
    ladder.promote()


# --- promotion -----------------------------------------------------------------------------------------------------


def test_the_least_discounted_loss_serves() -> None:
    # Rung 0 leads by 0.5 to 0.6 and then loses 0.3 to 0.22: 0.7 * 0.5 + 0.3 = 0.65 to 0.7 * 0.6 + 0.22 = 0.64.
    rungs = ladder(averages=False)
    play(rungs, {"step 16": 0.5, "step 4": 0.6 - 0.03})
    assert (rungs.serves, rungs.promotions) == ("step 16", 0)
    play(rungs, {"step 16": 0.3, "step 4": 0.22})
    assert [rung.loss for rung in rungs.rungs] == pytest.approx([0.65, 0.7 * 0.57 + 0.22])
    assert (rungs.serves, rungs.promotions) == ("step 4", 1)


@pytest.mark.parametrize(("records", "keeps"), [(0, 1.0), (25, 0.975), (299, 0.701), (300, 0.7), (2000, 0.7)])
def test_losses_of_small_rounds_are_remembered_over_a_thousand_records(records: int, keeps: float) -> None:
    rungs = ladder(averages=False)
    for loss in (0.5, 0.3):
        play(rungs, {"step 16": loss, "step 4": loss + 0.02, "shadow": loss}, records=records)
    assert [rung.loss for rung in rungs.rungs] == pytest.approx([keeps * 0.5 + 0.3, keeps * 0.52 + 0.32])
    assert rungs.shadow_loss == pytest.approx(keeps * 0.5 + 0.3)
    assert rungs.weight == rungs.shadow_weight == pytest.approx(keeps + 1.0)


def test_in_small_rounds_the_better_model_serves_and_not_the_last_lucky_one() -> None:
    # Over 25 records a mean loss is off by 0.1; rung 4 is better by 0.05. At 0.7 a round luck would decide.
    served = {}
    for records in (25, 2000):
        rng, rungs, found = np.random.default_rng(0), ladder(averages=False), []
        for _ in range(400):
            play(
                rungs, {"step 16": 0.5 + rng.normal(0.0, 0.1), "step 4": 0.45 + rng.normal(0.0, 0.1)}, records=records
            )
            found.append(rungs.serves == "step 4")
        served[records] = float(np.mean(found[100:]))
    assert served[25] > 0.9
    assert served[2000] < 0.8


@pytest.mark.parametrize(("lead", "serves"), [(0.9e-4, "step 16"), (1.1e-4, "step 4")])
def test_a_challenger_needs_a_lead(lead: float, serves: str) -> None:
    rungs = ladder(averages=False)
    play(rungs, {"step 16": 0.5, "step 4": 0.5 - lead})
    assert rungs.serves == serves


def test_an_average_may_serve() -> None:
    rungs = ladder()
    losses = {"step 16": 0.5, "average of step 16": 0.45, "step 4": 0.5, "average of step 4": 0.44}
    play(rungs, losses, {"step 4": 8.0})
    assert (rungs.serves, rungs.incumbent[0, 0]) == ("average of step 4", 8.0)


def test_a_rung_of_which_both_models_are_hopeless_begins_anew() -> None:
    # 0.4 serves; 0.46 is hopeless. Rung 4's average, at 0.459, saves it in the first round.
    rungs = ladder()
    kept = {"step 16": 0.4, "average of step 16": 0.41, "step 4": 0.9, "average of step 4": 0.459}
    play(rungs, kept, {"step 16": 3.0, "step 4": 5.0})
    assert [rung.W[0, 0] for rung in rungs.rungs] == [3.0, 5.0]
    rungs = ladder()
    play(rungs, {**kept, "average of step 4": 0.461}, {"step 16": 3.0, "step 4": 5.0})
    again = rungs.rungs[1]
    assert (again.W[0, 0], again.average[0, 0], again.age) == (3.0, 3.0, 0)
    assert (again.loss, again.average_loss) == pytest.approx((1.02 * 0.4, 1.02 * 0.4))
    # Its age began anew, so its average does.
    play(rungs, kept, {"step 4": 7.0})
    assert again.average[0, 0] == 7.0


def test_a_reset_starts_every_rung_from_one_model() -> None:
    rungs = ladder(heavy=(4,))
    for _ in range(3):
        play(
            rungs,
            {"step 16": 0.5, "step 4": 0.3, HEAVY: 0.4, "average of step 4": 0.2},
            {HEAVY: 5.0},
        )
    rungs.reset(model(2.0), ONE)
    assert {live.W[0, 0] for live in rungs.live(1.0) if live.name != "shadow"} == {2.0}
    assert [(rung.age, rung.loss, rung.average_loss) for rung in rungs.rungs] == [(0, 0.0, 0.0)] * 3
    velocity = rungs.rungs[2].velocity
    assert velocity is not None
    assert velocity.tolist() == [[0.0]]


# --- averages, momentum, the shadow --------------------------------------------------------------------------------


def test_an_average_weighs_later_models_more_and_then_reaches_back_about_twenty_rounds() -> None:
    # Weights 1, 2, .. a: of models 1, 2, .. a that is (2 a + 1) / 3. From a = 39 on each new model has a twentieth.
    rungs = ladder(orders=(0,))
    for a in range(1, 40):
        play(rungs, {"step 16": 0.5, "average of step 16": 0.5}, {"step 16": float(a)})
        assert rungs.rungs[0].average[0, 0] == pytest.approx((2 * a + 1) / 3)
    for expected in (79 / 3 + (200.0 - 79 / 3) / 20, 0.95**2 * 79 / 3 + (1.0 - 0.95**2) * 200.0):
        play(rungs, {"step 16": 0.5, "average of step 16": 0.5}, {"step 16": 200.0})
        assert rungs.rungs[0].average[0, 0] == pytest.approx(expected)


def test_a_heavy_rung_takes_a_part_of_its_last_step_again() -> None:
    # From 0 a step of 1 leads to 1. A gradient step of -0.5 from there: velocity 0.8 * 1 - 0.5 = 0.3, so 1.3.
    # A step of 0.1: velocity 0.24 + 0.1 = 0.34, so 1.64.
    rungs = ladder(orders=(0,), heavy=(4,), averages=False)
    found = []
    for step in (1.0, -0.5, 0.1):
        play(
            rungs,
            {"step 16": 0.5, HEAVY: 0.5},
            {HEAVY: float(rungs.rungs[1].W[0, 0]) + step},
        )
        found.append(float(rungs.rungs[1].W[0, 0]))
    assert found == pytest.approx([1.0, 1.3, 1.64])


def test_a_label_that_comes_between_two_heavy_steps_has_no_momentum_yet() -> None:
    rungs = ladder(orders=(0,), heavy=(4,), averages=False)
    two = np.array([[1.0, -1.0]])
    for stepped in (model(1.0), two, np.array([[1.3, -2.0]])):
        rungs.step({HEAVY: ModelEvidence(0.5, 0.5, stepped)}, np.zeros_like(stepped), MANY)
    # After round 1: 1, velocity 1. Round 2 stepped by (0, -1): velocity (0.8, -1), so (1.8, -1). Round 3 stepped by
    # (-0.5, -1): velocity (0.64 - 0.5, -0.8 - 1).
    assert rungs.rungs[1].W.tolist() == [pytest.approx([1.94, -2.8])]


def test_a_heavy_rung_that_begins_anew_stands_still() -> None:
    rungs = ladder(orders=(0,), heavy=(4,), averages=False)
    play(rungs, {"step 16": 0.1, HEAVY: 0.9}, {"step 16": 2.0, HEAVY: 7.0})
    assert rungs.rungs[1].W[0, 0] == 2.0
    play(rungs, {"step 16": 0.1, HEAVY: 0.1}, {HEAVY: 2.5})
    assert rungs.rungs[1].W[0, 0] == 2.5
    assert rungs.serves == "step 16"


def shadow(rungs: Ladder, rounds: int, *, own: float = 0.0, rung: float = 0.0) -> list[int]:
    """Play rounds in which the shadow moves by 1; return where it stood in each."""
    seen = []
    for _ in range(rounds):
        assert rungs.shadow is not None
        seen.append(int(rungs.shadow[0, 0]))
        play(rungs, {"step 16": rung, "step 4": rung, "shadow": own}, {"shadow": seen[-1] + 1.0})
    return seen


def test_the_shadow_starts_from_scratch_every_sixteen_rounds() -> None:
    assert shadow(ladder(averages=False), 40) == [t % 16 for t in range(40)]


def test_the_shadow_takes_sixteen_steps_at_most_and_never_serves() -> None:
    rungs = ladder(averages=False)
    seen = shadow(rungs, 40, own=0.0, rung=0.0)
    assert max(seen) <= 16
    assert seen.count(0) == 3
    assert rungs.serves == "step 16"


@pytest.mark.parametrize(("own", "begins"), [(0.43, [0, 0, 2, 2]), (0.44, [0, 0, 0, 0])])
def test_rungs_begin_anew_from_a_shadow_that_is_clearly_better_once_it_is_three_rounds_old(
    own: float, begins: list[int]
) -> None:
    # 1.15 * 0.43 < 0.5 < 1.15 * 0.44. Both are discounted alike, so their losses compare as those of a round.
    rungs = ladder(averages=False)
    found = []
    for expected in begins:
        shadow(rungs, 1, own=own, rung=0.5)
        found.append([rung.W[0, 0] > 0.0 for rung in rungs.rungs])
        assert found[-1] == [expected > 0] * 2
    if begins[2]:
        # After the third round's step it stood at 3; L = 1.02 * 0.43 (1 + 0.7 + 0.49), and then 0.7 of it and 0.5.
        assert [rung.W[0, 0] for rung in rungs.rungs] == [3.0, 3.0]
        least = 1.02 * 0.43 * 2.19
        assert [rung.loss for rung in rungs.rungs] == pytest.approx([0.7 * least + 0.5] * 2)


def test_a_shadow_that_began_later_is_compared_as_if_it_were_as_old() -> None:
    # The rungs' discounted losses have settled at 0.5 / 0.3; three rounds of the shadow's sum to 2.19 times its own.
    for own, takes_over in ((0.43, True), (0.44, False)):
        rungs = ladder(averages=False)
        shadow(rungs, 16, own=0.5, rung=0.5)
        while rungs.shadow is not None and rungs.shadow[0, 0] > 0.0:
            shadow(rungs, 1, own=0.5, rung=0.5)
        shadow(rungs, 2, own=own, rung=0.5)
        assert rungs.rungs[0].W[0, 0] == 0.0
        shadow(rungs, 1, own=own, rung=0.5)
        assert bool(rungs.rungs[0].W[0, 0] == 3.0) is takes_over


def test_models_that_no_client_scored_stay_as_they_are() -> None:
    rungs = ladder(heavy=(4,))
    play(
        rungs,
        dict.fromkeys(["step 16", "average of step 16", HEAVY], 0.5),
        {"step 16": 3.0, HEAVY: 1.0},
    )
    before = [(r.W.tolist(), r.average.tolist(), r.age, r.loss) for r in rungs.rungs]
    play(rungs, {})
    assert [(r.W.tolist(), r.average.tolist(), r.age, r.loss) for r in rungs.rungs] == before


def test_the_ladder_lists_its_live_models_and_their_step_sizes() -> None:
    whitened = Ladder(LadderSettings(), prefix="branch-7/")
    whitened.reset(ONE, ONE)
    live = whitened.live(55.0, ("c0",))
    assert {x.name: x.eta for x in live if x.trained} == {
        "branch-7/step 16": 16.0, "branch-7/step 4": 4.0, "branch-7/step 1": 1.0,
        "branch-7/step 4 with momentum": 4.0, "branch-7/shadow": 4.0,
    }  # fmt: skip
    assert sum(not x.trained for x in live) == 4
    assert {x.clients for x in live} == {("c0",)}
    plain = Ladder(LadderSettings(orders=(0, 2), heavy=(), whitened=False, averages=False))
    plain.reset(ONE, ONE)
    assert [(x.eta, x.whitened) for x in plain.live(8.0)] == [(2.0, False), (1.0, False), (0.5, False)]


# --- changes of coordinates ----------------------------------------------------------------------------------------

OLD = Registry(1, ("x", "y"), ("a", "b"), np.array([1.0, -2.0]), np.array([2.0, 0.5]))
# Another scaler, and a feature and a label more.
GROWN = Registry(2, ("x", "y", "z"), ("a", "b", "c"), np.array([3.0, 0.0, 5.0]), np.array([0.7, 4.0, 2.0]))
# Regression: one column; the unit of targets changes too.
METRES = Registry(1, ("x", "y"), (), np.array([1.0, -2.0]), np.array([2.0, 0.5]), TargetUnit(3.0, 2.0))
FEET = Registry(2, ("x", "y"), (), np.array([0.0, 1.0]), np.array([1.0, 3.0]), TargetUnit(-1.0, 0.5))


def design(registry: Registry, X: FloatArray) -> FloatArray:
    d = len(registry.features)
    return np.column_stack([(X[:, :d] - registry.mean) / registry.scale, np.ones(len(X))])


def predictions(ladder: Ladder, registry: Registry, X: FloatArray) -> dict[str, FloatArray]:
    """Return every model's predictions, in the unit of the records."""
    outputs = {live.name: design(registry, X) @ live.W for live in ladder.live(1.0)}
    if registry.labels:
        return {name: out[:, :2] for name, out in outputs.items()}
    return {name: out * registry.target.scale + registry.target.centre for name, out in outputs.items()}


def stepped(ladder: Ladder, registry: Registry, move: FloatArray) -> dict[str, ModelEvidence]:
    """Return a round in which every trained model moves by the same change of its raw-coordinate weights."""
    d = len(registry.features)
    raw = move[[0, 1, *[2] * (d > 2), -1]] if d > 2 else move[[0, 1, -1]]
    own = np.vstack([raw[:-1] * registry.scale[:, None], raw[-1:] + registry.mean @ raw[:-1]])
    own = own / registry.target.scale
    return {
        live.name: ModelEvidence(0.5, 0.5, live.W + (own[:, : live.W.shape[1]] if live.trained else 0.0))
        for live in ladder.live(1.0)
    }


@pytest.mark.parametrize(("old", "new", "columns"), [(OLD, GROWN, 3), (METRES, FEET, 1)])
def test_a_change_of_coordinates_changes_no_prediction_now_or_after_the_next_steps(
    old: Registry, new: Registry, columns: int
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    move = np.zeros((4, 3))
    kept, changed = Ladder(), Ladder()
    first = 2 if old.labels else 1
    for rungs in (kept, changed):
        rungs.reset(np.zeros((3, first)), np.zeros((3, first)))
    for _ in range(3):
        move[[0, 1, 3], :2] = rng.normal(size=(3, 2))
        for rungs in (kept, changed):
            rungs.step(stepped(rungs, old, move), np.zeros((3, first)), MANY)
    changed.transform(re_expression(old, new, columns))
    for _ in range(3):
        now, then = predictions(changed, new, X), predictions(kept, old, X)
        for name in then:
            assert now[name] == pytest.approx(then[name]), name
        move[[0, 1, 3], :2] = rng.normal(size=(3, 2))
        kept.step(stepped(kept, old, move), np.zeros((3, first)), MANY)
        changed.step(stepped(changed, new, move), np.zeros((new.rows, columns)), MANY)
    assert not math.isclose(float(np.abs(kept.rungs[3].W).sum()), float(np.abs(kept.rungs[1].W).sum()))
