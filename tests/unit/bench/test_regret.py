"""Regret with exact losses: the streams by their definitions, a stream by hand, slopes, bounds, and the command."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from streamfl.arrays import FloatArray
from streamfl.errors import UsageError
from streamfl.learning.drift.evidence import LiveModel, RoundEvidence
from streamfl.learning.profiles.base import Answer, Ask, Restart, RoundPlan
from streamfl.learning.second_moments import RIDGE
from streamfl.protocol.alarm import Alarm, Reading
from streamfl.protocol.messages import BranchGroup, HoldoutRule
from streamfl_benchmarks.regret import Case, Measured, grid, load, measure, measure_all, regret
from streamfl_benchmarks.regret_command import regret as command
from streamfl_benchmarks.regret_driver import EACH, Driven
from streamfl_benchmarks.regret_players import STEPS, ConstantFedAvg, oracle
from streamfl_benchmarks.regret_slopes import Slope, curves, fitted, held
from streamfl_benchmarks.regret_streams import BOUND, RADIUS, RoundLoss, Stream, StreamName, pooled, stream
from streamfl_benchmarks.regret_table import tables


@dataclass
class Clairvoyant:
    """Plays the minimiser of every round."""

    bests: list[FloatArray]

    def play(self) -> FloatArray:
        return self.bests[0]

    def learn(self, loss: RoundLoss) -> None:
        self.bests.pop(0)


@pytest.mark.parametrize("name", ["abrupt", "moving"])
def test_the_comparator_has_no_regret_and_is_the_minimiser_that_lbfgs_finds(name: StreamName) -> None:
    played = stream(name, 64, seed=3)
    rounds = list(played.losses())
    assert regret(Clairvoyant([best for _, best in rounds]), played) == 0.0
    loss, best = rounds[40]

    def slope(x: FloatArray) -> FloatArray:
        return loss.slopes(x[:, None]).mean(axis=0)[:, 0]

    found = minimize(loss.mean, np.zeros(len(best)), jac=slope, options={"gtol": 1e-8}, method="L-BFGS-B")
    assert np.linalg.norm(slope(best)) < 1e-12
    assert loss.mean(best) <= found.fun + 1e-12
    assert found.fun == pytest.approx(loss.mean(best), abs=1e-7)


def test_the_slope_is_the_derivative_of_the_loss() -> None:
    (loss, _), x = next(stream("abrupt", 16, seed=0).losses()), np.linspace(-1.0, 1.0, 7)
    steps = 1e-6 * np.eye(7)
    numeric = [(loss.mean(x + step) - loss.mean(x - step)) / 2e-6 for step in steps]
    assert loss.slopes(x[:, None]).mean(axis=0)[:, 0] == pytest.approx(numeric, abs=1e-8)


@pytest.mark.parametrize("rounds", [32, 200])
def test_the_moving_stream_varies_by_what_is_stated_and_in_every_round(rounds: int) -> None:
    played = stream("moving", rounds, seed=1)
    losses = [loss for loss, _ in played.losses()]
    rng = np.random.default_rng(0)
    inside = rng.normal(size=(20, 7))
    inside *= RADIUS / np.linalg.norm(inside, axis=1, keepdims=True)
    total = 0.0
    for one, two in pairwise(losses):

        def change(x: FloatArray, one: RoundLoss = one, two: RoundLoss = two) -> float:
            return abs(two.mean(x) - one.mean(x)) / BOUND

        # The change is linear in x, so its values at the unit vectors are its gradient, and the farthest point along
        # that has the supremum over the ball.
        gradient = np.array([two.mean(e) - one.mean(e) for e in np.eye(7)]) - (
            two.mean(np.zeros(7)) - one.mean(np.zeros(7))
        )
        size = change(RADIUS * gradient / np.linalg.norm(gradient))
        assert size > 0.0
        assert max(map(change, inside)) <= size + 1e-12
        total += size
    assert total == pytest.approx(rounds**0.4)
    assert played.variation() == pytest.approx(total)
    assert len(played.starts) == rounds
    assert np.linalg.norm(played.concepts, axis=1) == pytest.approx(np.full(rounds, RADIUS))


def test_the_abrupt_stream_has_segments_of_about_one_length() -> None:
    played = stream("abrupt", 1000, seed=2)
    lengths = np.diff([*played.starts, 1001])
    assert len(lengths) == round(1000**0.4) == 16
    assert lengths.sum() == 1000
    assert set(lengths) == {62, 63}


def by_hand() -> Stream:
    """Return one record z = 1 of one client, with the concepts ln 3 and -ln 3, two rounds each."""
    return Stream("abrupt", np.ones((1, 1, 1)), np.array([[math.log(3)], [-math.log(3)]]), np.array([0, 0, 1, 1]))


def test_the_path_and_the_change_of_gradients_by_hand() -> None:
    # v goes from ln 3 to -ln 3, and with it the chance of label 1 from 3/4 to 1/4: the gradient moves by 1/2 nat.
    assert by_hand().path() == pytest.approx(2.0 * math.log(3.0))
    assert by_hand().gradient_variability() == pytest.approx((0.5 / (2.0 * math.log(2.0))) ** 2)
    assert (stream("still", 64, seed=0).path(), stream("still", 64, seed=0).gradient_variability()) == (0.0, 0.0)


def test_the_change_of_gradients_is_that_of_any_model() -> None:
    played = stream("abrupt", 64, seed=3)
    x = np.linspace(-1.0, 1.0, 7)
    slopes = [loss.slopes(x[:, None]).mean(axis=0)[:, 0] for loss, _ in played.losses()]
    changes = [float(np.sum((two - one) ** 2)) for one, two in pairwise(slopes)]
    assert played.gradient_variability() == pytest.approx(sum(changes) / BOUND**2)
    bests = [best for _, best in played.losses()]
    assert played.path() == pytest.approx(sum(float(np.linalg.norm(b - a)) for a, b in pairwise(bests)))


def test_the_table_has_path_and_gradients_where_all_results_have_them() -> None:
    known = [replace(found, path=3.25, gradients=0.5) for found in measured([0.5])]
    assert "| C_T |  | 3.25 | 3.25 | 3.25 |" in tables(curves(known))
    assert "| D_T |  | 0.500 | 0.500 | 0.500 |" in tables(curves(known))
    assert "| C_T |" not in tables(curves([*known, *measured([0.5, 0.5])[3:]]))


def test_two_segments_by_hand() -> None:
    # P(1) = 3/4, then 1/4; the best loss is ln 4 - 0.75 ln 3 = 0.562335 in every round. Step 2 from 0 plays
    # 0, 0.5, 0.755081, -0.105496 and loses 0.693147, 0.599077, 0.951555, 0.668164.
    assert regret(ConstantFedAvg(1, 2.0), by_hand()) == pytest.approx(
        (2.911943 - 4 * 0.562335) / (2 * math.log(2)), abs=2e-6
    )


def test_two_segments_by_hand_with_a_restart() -> None:
    # The second segment mirrors the first: 0, -0.5. The oracle's step, 1/sqrt(2), plays 0 and 0.176777 in the first,
    # and loses 0.693147, 0.652854 = ln(1 + e^0.176777) - 0.75 * 0.176777.
    assert regret(ConstantFedAvg(1, 2.0, frozenset({3})), by_hand()) == pytest.approx(
        2 * (0.693147 + 0.599077 - 2 * 0.562335) / (2 * math.log(2)), abs=2e-6
    )
    assert regret(oracle(by_hand()), by_hand()) == pytest.approx(
        2 * (0.693147 + 0.652854 - 2 * 0.562335) / (2 * math.log(2)), abs=2e-6
    )


@dataclass
class Decision:
    """Asks once for a model of all ones to be scored."""

    alarm: Alarm
    answered: Answer | None = None

    def ask(self) -> Ask | None:
        return None if self.answered else Ask((LiveModel("ones", np.ones((2, 1)), 0.0, trained=False),))

    def answer(self, answer: Answer) -> None:
        self.answered = answer


@dataclass
class Script:
    """A profile with given live models; each goes on from where it stepped. It alarms in one round."""

    live: list[LiveModel]
    held: HoldoutRule | None = None
    apart: tuple[BranchGroup, ...] = ()
    alarm_at: int | None = None
    seen: list[RoundEvidence] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    profile: str = "script"
    epoch: int = 1
    promotions: int = 0

    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        return RoundPlan(tuple(self.live), self.live[0].name, held=self.held, apart=self.apart)

    def close(self, observed: RoundEvidence) -> Alarm | None:
        self.seen.append(observed)
        self.live = [replace(model, W=observed.models[model.name].stepped) for model in self.live]
        return Alarm("script", 1.0, 0.5, observed.round) if observed.round == self.alarm_at else None

    def deliberate(self, alarm: Alarm, observed: RoundEvidence, scratch: FloatArray) -> Decision:
        return Decision(alarm)

    def conclude(self, deliberation: Decision) -> Restart:
        assert deliberation.answered is not None
        self.answers.append(deliberation.answered)
        return Restart(len(self.seen), 2, deliberation.alarm, "ones")

    def advance(self, t: int) -> tuple[()]:
        return ()

    def readings(self) -> dict[str, Reading]:
        return {}


def driven(script: Script, played: Stream, radius: float = 100.0) -> float:
    return regret(Driven(script, played.Z, radius=radius), played)  # type: ignore[arg-type]


def test_a_profile_of_one_model_is_fedavg() -> None:
    for name in ("abrupt", "moving"):
        played = stream(name, 40, seed=0)  # type: ignore[arg-type]
        script = Script([LiveModel("one", np.zeros((7, 1)), 0.7)])
        assert driven(script, played) == pytest.approx(regret(ConstantFedAvg(7, 0.7), played), rel=1e-12)


def test_the_constant_step_is_the_best_of_its_grid_in_hindsight() -> None:
    played = stream("abrupt", 64, seed=0)
    by_hand = {step: regret(ConstantFedAvg(7, step), stream("abrupt", 64, seed=0)) for step in STEPS}
    found = measure(Case(64, "abrupt", "constant", 0))
    assert found.regret == min(by_hand.values()) < by_hand[1.0]
    assert STEPS[found.way] == min(by_hand, key=by_hand.__getitem__)
    assert found.changes == len(played.starts)


def test_nothing_changes_on_the_still_stream_and_the_oracle_never_begins_anew() -> None:
    played = stream("still", 64, seed=3)
    assert (played.starts, played.variation(), played.rounds) == ([1], 0.0, 64)
    assert measure(Case(64, "still", "oracle", 3)).regret == measure(Case(64, "still", "fedavg", 3)).regret


def test_without_a_cap_the_paper_goes_on_where_capped_blocks_begin_anew() -> None:
    # Blocks of 1, 2, .., 256 rounds are 511; the next one is of 256 again, or of 512.
    capped, longer = (measure(Case(2048, "still", name, 0)).regret for name in ("paper", "paper-uncapped"))
    assert longer < capped
    first = [measure(Case(256, "still", name, 0)).regret for name in ("paper", "paper-uncapped")]
    assert first[0] == first[1]


def test_the_benchmark_of_regret_whitens_steps_by_the_second_moments_of_the_records() -> None:
    played = stream("abrupt", 16, seed=0)
    script = Script([LiveModel("one", np.zeros((7, 1)), 0.5, whitened=True)])
    player = Driven(script, played.Z, radius=100.0)  # type: ignore[arg-type]
    loss, one = next(played.losses())[0], np.zeros(7)
    Z = pooled(played.Z)
    A = Z.T @ Z / len(Z)
    A += RIDGE * np.trace(A) / 7 * np.eye(7)
    for _ in range(2):
        player.learn(loss)
        stepped = player.play()[0]
        assert A @ (stepped - one) == pytest.approx(-0.5 * loss.slopes(one[:, None]).mean(axis=0)[:, 0])
        one = stepped


def two_clients(chances: Sequence[float]) -> RoundLoss:
    """Return one record of two for each of two clients: z = (1, 1), with chances of the label 1."""
    return RoundLoss(np.ones((2, 1, 2)), np.array([[c] for c in chances]))


def test_proper_scores_are_a_third_errors_and_clipped_at_twice_as_much() -> None:
    # At W = (1, 1) label 0 loses ln(1 + e^2) = 2.126928 nats: more than 2 ln 2, and 0.767127 of 4 ln 2; it is wrong.
    # Label 1 loses 0.126928 nats, 0.045780 of 4 ln 2; it is right.
    script = Script([LiveModel("main", np.ones((2, 1)), 0.0)])
    player = Driven(script, np.ones((2, 1, 2)), radius=100.0)  # type: ignore[arg-type]
    player.learn(two_clients([0.0, 0.0]))
    player.learn(two_clients([1.0, 1.0]))
    wrong, right = (seen.models["main"] for seen in script.seen)
    assert (wrong.loss, wrong.proper) == (1.0, pytest.approx((1.0 + 2 * 0.767127) / 3.0, abs=1e-6))
    assert (right.loss, right.proper) == (
        pytest.approx(2 * 0.045780, abs=1e-6),
        pytest.approx(2 / 3 * 0.045780, abs=1e-6),
    )


def test_with_a_bound_of_their_own_models_compete_by_that_loss() -> None:
    script = Script([LiveModel("main", np.ones((2, 1)), 0.0)])
    player = Driven(script, np.ones((2, 1, 2)), radius=100.0, bound=10.0)  # type: ignore[arg-type]
    player.learn(two_clients([0.0, 0.0]))
    main = script.seen[0].models["main"]
    assert (main.loss, main.proper) == (pytest.approx(0.2126928), pytest.approx(0.2126928))


def test_scores_by_client_are_clipped_and_clients_apart_train_their_own_models() -> None:
    # At W = (4, 4) label 0 loses 8.0003 nats, clipped to 1, and label 1 loses 0.000335 nats, 0.000242 in scores.
    main = LiveModel("main", np.full((2, 1), 4.0), 1.0)
    own = LiveModel("own", np.zeros((2, 1)), 1.0, clients=("c1",))
    script = Script([main, own], apart=(BranchGroup(clients=("c1",), serves="own"),))
    player = Driven(script, np.ones((2, 1, 2)), radius=100.0)  # type: ignore[arg-type]
    assert player.play().tolist() == [[4.0, 4.0], [0.0, 0.0]]
    player.learn(two_clients([0.25, 1.0]))
    seen = script.seen[0]
    low = math.log1p(math.exp(-8.0)) / BOUND
    assert seen.clients["c0"].losses == pytest.approx({"main": EACH * (0.75 + 0.25 * low)})
    assert seen.clients["c1"].losses == pytest.approx({"main": EACH * low, "own": EACH * 0.5})
    assert seen.models["main"].loss == pytest.approx((0.75 + 1.25 * low) / 2)
    assert seen.models["own"].loss == pytest.approx(0.5)
    # `main` steps on client 0 alone, where P(1) = 0.25; `own` on client 1 alone, where P(1) = 1.
    assert player.play()[0] == pytest.approx(4.0 - (expit(8.0) - 0.25) * np.ones(2))
    assert player.play()[1] == pytest.approx(np.full(2, 0.5))


def test_what_is_held_back_remembers_the_rounds_since() -> None:
    # One record that stands for 20, of which 2 a round are held back: 2 of label 1 after a round with P(1) = 1, 2 of
    # each after one more with P(1) = 0, 3 of each after a third with 0.5. Rounds 2 to 4 had 1/3 on average: 2 of
    # label 1, and of the 4 of label 0 three are kept.
    script = Script([LiveModel("one", np.zeros((2, 1)), 0.0)], held=HoldoutRule(per_label=3, since=1))
    player = Driven(script, np.ones((2, 1, 2)), radius=100.0)  # type: ignore[arg-type]
    player.learn(two_clients([1.0, 1.0]))
    player.learn(two_clients([0.0, 1.0]))
    player.learn(two_clients([0.5, 1.0]))
    script.held = HoldoutRule(per_label=3, since=2)
    player.learn(two_clients([0.5, 1.0]))  # was opened before
    player.learn(two_clients([0.5, 1.0]))
    old = [[{s.label: s.count for s in seen.clients[c].old} for seen in script.seen] for c in ("c0", "c1")]
    assert old[0] == [{}, {"1": 2}, {"0": 2, "1": 2}, {"0": 3, "1": 3}, {"0": 3, "1": 2}]
    assert old[1] == [{}, {"1": 2}, {"1": 3}, {"1": 3}, {"1": 3}]
    new = script.seen[2].clients["c0"].new
    assert [(s.label, s.count, s.loss, s.square) for s in new] == [("0", 10, 5.0, 2.5), ("1", 10, 5.0, 2.5)]


def test_an_alarm_has_its_candidates_scored_on_the_rounds_records() -> None:
    script = Script([LiveModel("one", np.zeros((2, 1)), 1.0)], alarm_at=2)
    player = Driven(script, np.ones((2, 1, 2)), radius=100.0)  # type: ignore[arg-type]
    player.learn(two_clients([0.0, 0.0]))
    assert player.alarms == 0
    player.learn(two_clients([1.0, 1.0]))
    assert player.alarms == 1
    ones = script.answers[0].models["ones"]
    assert ones.loss == pytest.approx(math.log1p(math.exp(-2.0)) / BOUND)
    assert ones.stepped.tolist() == [[1.0], [1.0]]


@given(st.floats(-1.0, 2.0), st.floats(0.01, 1e4))
def test_the_slope_of_a_power_law_is_its_exponent(power: float, factor: float) -> None:
    horizons = [2**k for k in range(7, 15)]
    assert fitted(horizons, [factor * T**power for T in horizons]) == pytest.approx(power, abs=1e-9)


def measured(powers: Sequence[float], stream_: StreamName = "abrupt") -> list[Measured]:
    """Return R = T^power for each seed's power, L = 2 and Delta = 1, at T = 64, 256, 1024."""
    return [
        Measured(Case(T, stream_, "adaptive", seed), T**power, 2, 1.0, 0, 0.0)
        for seed, power in enumerate(powers)
        for T in (64, 256, 1024)
    ]


def test_the_interval_of_a_slope_is_over_seeds() -> None:
    # Mean 0.5, deviation 0.1, 4.3027 for two degrees of freedom: 4.3027 * 0.1 / sqrt(3).
    (curve,) = curves(measured([0.4, 0.5, 0.6]))
    assert curve.slope.mean == pytest.approx(0.5)
    assert curve.slope.half == pytest.approx(4.302653 * 0.1 / math.sqrt(3), rel=1e-6)
    assert math.isnan(Slope.over([0.5]).half)


def test_a_bound_that_is_broken_is_marked() -> None:
    # With the constant fitted at T = 64, R = T^0.6 is 16^0.1 = 1.32 times sqrt(LT) at T = 1024; T^0.4 stays below it.
    broken = tables(curves(measured([0.6])))
    assert "1.320 at 1,024 **BROKEN**" in broken
    assert "BROKEN" not in tables(curves(measured([0.4])))
    kept = held("√(LT)", [64, 256, 1024], [1.0, 2.1, 3.9], [2, 2, 2], [1.0, 1.0, 1.0])
    assert (kept.values, kept.worst, kept.at, kept.broken) == (pytest.approx((1.0, 2.0, 4.0)), 1.05, 256, True)


@pytest.mark.parametrize(("power", "said"), [(0.74, "holds"), (0.76, "**BROKEN**")])
def test_a_slope_above_the_wanted_one_is_marked(power: float, said: str) -> None:
    assert f"slope at most 0.75; {power:.3f}: {said}" in tables(curves(measured([power])))


def test_measured_cases_are_kept_and_not_measured_again(tmp_path: Path) -> None:
    kept = tmp_path / "regret.json"
    cases = grid([5, 4], [0], ["fedavg", "constant"], ["moving"])
    told: list[Measured] = []
    first = measure_all(cases[:3], kept, jobs=1, report=lambda found, done, of: told.append(found))
    again = measure_all(cases, kept, jobs=1, report=lambda found, done, of: told.append(found))
    assert [found.case for found in told] == cases
    assert again[:3] == first
    assert [found for _, found in load(kept).values()] == sorted(again, key=lambda found: found.case)
    assert again[0].regret == measure(cases[0]).regret
    kept.write_text(kept.read_text().replace('"features": 6.0', '"features": 5.0'))
    with pytest.raises(UsageError, match="name another file"):
        measure_all(cases, kept, jobs=1, report=lambda found, done, of: None)


def test_the_regret_command_prints_its_table(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    arguments = ["--from", "4", "--to", "5", "--seeds", "2", "--jobs", "1", "--method", "oracle,fedavg"]
    done = CliRunner().invoke(command, [*arguments, "--markdown", str(table)])
    assert done.exit_code == 0
    assert done.stdout == table.read_text()
    assert "16/16" in done.stderr


def test_the_regret_command_refuses_unknown_methods_and_a_single_horizon() -> None:
    for arguments, told in (
        (["--method", "best"], "take some of adaptive"),
        (["--from", "8", "--to", "8"], "two horizons"),
    ):
        found = CliRunner().invoke(command, arguments)
        assert isinstance(found.exception, UsageError)
        assert told in str(found.exception)
