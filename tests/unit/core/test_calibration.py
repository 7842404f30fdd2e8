"""Profile `calibrated`: ratios by hand, quiet and drifting streams, and the first rounds in which no test acts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from unit.core.driving import SCRATCH, instance, play

from streamfl import codec
from streamfl.core.arrays import HOLDS_ARRAYS
from streamfl.core.profiles.paper.calibration import Calibration, Replay
from streamfl.core.profiles.paper.master_tests import MasterTests
from streamfl.core.profiles.paper.profile import Paper, PaperSettings
from streamfl.core.sampling import generator

# As in test_master_tests: thresholds 0.9 / sqrt(2^k) of Test 1 and 0.3 / sqrt(rounds) of Test 2.
TESTS = MasterTests(8, delta=8.0 * math.exp(-4.0), rho_scale=1.0 / 960.0)
QUICK = Calibration(rounds=16, shuffles=40)


@dataclass
class Kept:
    """What a checkpoint holds."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    paper: Paper


def warm(calibration: Calibration = QUICK, seed: int = 0) -> Paper:
    return Paper(
        PaperSettings(new_instance="warm", new_block="warm", after_alarm="warm", calibration=calibration, seed=seed)
    )


def stream(seed: int, *means: tuple[int, float]) -> list[float]:
    """Return losses of some rounds around each mean, with noise of at most 0.02."""
    rng = generator(seed, "stream")
    return [mean + float(rng.uniform(-0.02, 0.02)) for rounds, mean in means for _ in range(rounds)]


def alarms(paper: Paper, losses: Sequence[float], past: float, first: int = 1) -> list[int]:
    """Play losses, with models that lose `past` on old rounds, and return the rounds with an alarm."""
    return [
        t
        for t, loss in enumerate(losses, start=first)
        if play(paper, t, loss, past=past, records=10**6)[1] is not None
    ]


def test_ratios_by_hand() -> None:
    # Test 2: gaps 0.1, 0.3, 0, 0.4 have means 0.1, 0.2, 0.4/3, 0.2 against 0.3, 0.3/sqrt(2), 0.3/sqrt(3), 0.15.
    # Test 1: order 1 on rounds 1-2: U = 0.4 less the mean of 0.2 and 0.6: 0. Order 0 on round 3: 0.4 - 0.1 = 0.3 of
    # 0.9. Round 4: order 0, 0.4 - 0.5 = -0.1 of 0.9; order 2, 0.4 - 1.4 / 4 = 0.05 of 0.45, which is more.
    schedule = (instance(2, 1), instance(1, 1), instance(0, 3), instance(0, 4))
    replay = Replay(schedule, np.array([0.2, 0.6, 0.1, 0.5]), np.array([0.1, 0.4, 0.1, 0.1]))
    one, two = replay.ratios(TESTS)
    middle = 0.4 - (0.2 + 0.6) / 2
    assert one == pytest.approx([-math.inf, middle / (0.9 / math.sqrt(2)), 0.3 / 0.9, 0.05 / 0.45], abs=1e-12)
    gaps = np.cumsum([0.1, 0.2, 0.0, 0.4]) / np.arange(1, 5)
    assert two == pytest.approx(gaps / (0.3 / np.sqrt(np.arange(1, 5))))


def test_ratios_are_those_of_the_tests_that_act() -> None:
    # Whatever the losses: a ratio of at least 1 is an alarm, and the other way round.
    for i in range(30):
        rng = generator(0, "ratios", i)
        replay = Replay.drawn(rng.random((2, 16)), 4, 0, i)
        ratios = replay.ratios(TESTS)
        for t in range(1, 17):
            played, optimistic = list(replay.played[:t]), list(replay.optimistic[:t])
            ending = [p for p in replay.schedule if p.end == t]
            found = [TESTS.test1(p, block_start=1, played=played, optimistic=optimistic) for p in ending]
            assert any(found) == (ratios[0, t - 1] >= 1.0)
            test2 = TESTS.test2(block_start=1, played=played, optimistic=optimistic)
            assert (test2 is not None) == (ratios[1, t - 1] >= 1.0)


def test_a_replay_keeps_pairs_and_is_drawn_with_replacement() -> None:
    pairs = np.array([np.arange(16.0), 100.0 + np.arange(16.0)])
    replays = [Replay.drawn(pairs, 4, 0, i) for i in range(50)]
    assert all(np.array_equal(r.optimistic, 100.0 + r.played) for r in replays)
    assert {len(r.played) for r in replays} == {16}
    assert {x for r in replays for x in r.played} == set(range(16))
    assert len({float(r.played.sum()) for r in replays}) > 25
    assert len({r.schedule for r in replays}) > 25


def test_an_implanted_rise_reaches_optimistic_losses_as_far_as_instances_knew_it() -> None:
    # Order 2 is active in rounds 1, 2 and 4, order 0 in 3: after round 2 all is new to it, and a third to order 2.
    replay = Replay((instance(2, 1), instance(0, 3)), np.array([0.2, 0.2, 0.2, 0.9]), np.array([0.1, 0.1, 0.1, 0.1]))
    shares = replay.shares_after(2)
    assert shares.tolist() == pytest.approx([0.0, 0.0, 1.0, 1 / 3])
    risen = replay.risen(0.3, shares)
    assert risen.played.tolist() == pytest.approx([0.2, 0.2, 0.5, 1.0])
    assert risen.optimistic.tolist() == pytest.approx([0.1, 0.1, 0.4, 0.2])


def test_each_factor_is_the_quantile_of_its_own_test() -> None:
    played, optimistic = generator(0, "pairs").random((2, 16))
    plan = Calibration(rounds=16, shuffles=100, rate=0.1)
    found = plan.run(played, optimistic, tests=TESTS, order=4, seed=3)
    replays = [Replay.drawn(np.array([played, optimistic]), 4, 3, i) for i in range(100)]
    largest = np.array([r.ratios(TESTS).max(axis=1) for r in replays])
    assert (largest >= [found.kappa1, found.kappa2]).sum(axis=0).tolist() == [9, 9]


def test_power_is_none_where_first_rounds_vary_more_than_the_drift_does() -> None:
    steady, wild = stream(0, (64, 0.3)), stream(0, (32, 0.9), (32, 0.1))
    powers = {
        name: [p.found for p in Calibration().run(losses, [0.28] * 64, tests=TESTS, order=6, seed=0).powers]
        for name, losses in (("steady", steady), ("wild", wild))
    }
    assert powers["steady"] == [1.0, 1.0]
    assert powers["wild"][0] < 0.4
    assert "0.1 in 100% of replays" in Calibration().run(steady, [0.28] * 64, tests=TESTS, order=6, seed=0).summary()


def test_no_test_acts_in_the_first_rounds() -> None:
    # Losses of 0 and 1 in turn, and old ones of 0, would be an alarm with any small factor.
    paper = warm()
    assert alarms(paper, [0.0, 1.0] * 8, past=0.0) == []
    assert (paper.profile, len(paper.first_losses)) == ("calibrated", 0)
    assert paper.calibrated is not None
    assert Paper(PaperSettings()).profile == "paper"


def test_a_drift_after_the_first_rounds_is_found_and_none_without() -> None:
    # Two tests at 5% in the block of rounds 65 to 128; a sample of 64 rounds tells quantiles roughly.
    quiet = [alarms(warm(Calibration(), seed), stream(seed, (128, 0.3)), past=0.28) for seed in range(8)]
    assert sum(map(bool, quiet)) <= 3
    for seed in range(10):
        paper = warm(seed=seed)
        found = alarms(paper, stream(seed, (40, 0.3), (20, 0.6)), past=0.28)
        assert any(41 <= t <= 44 for t in found)


def test_equal_losses_are_no_alarm_and_small_changes_of_them_neither() -> None:
    assert alarms(warm(), [0.3] * 100, past=0.3) == []
    assert alarms(warm(), [0.0] * 40 + [0.0005] * 60, past=0.0) == []


def test_no_threshold_is_below_the_margin() -> None:
    found = Calibration(margin=0.02).run([0.0] * 64, [0.0] * 64, tests=TESTS, order=6, seed=0)
    tests = MasterTests(8, TESTS.delta, TESTS.rho_scale, found.kappa1, found.kappa2)
    assert (tests.threshold1(6), tests.threshold2(64)) == pytest.approx((0.02, 0.02))


def test_readings_begin_when_the_tests_act() -> None:
    paper = warm()
    alarms(paper, [0.3] * 15, past=0.3)
    assert paper.readings() == {}
    alarms(paper, [0.3, 0.3], past=0.2, first=16)
    assert paper.calibrated is not None
    reading = paper.readings()["test2"]
    plain = MasterTests(500).threshold2(1)
    assert reading.threshold == pytest.approx(plain * paper.calibrated.kappa2)


def test_the_first_rounds_are_one_block() -> None:
    paper, blocks = warm(), []
    for t in range(1, 18):
        blocks.append(paper.open(t, SCRATCH, 1.0).block)
        play(paper, t)
    assert blocks == 16 * [1] + [2]


@pytest.mark.parametrize(("max_order", "longest"), [(8, 4), (2, 2)])
def test_blocks_are_no_longer_than_the_replays(max_order: int, longest: int) -> None:
    paper, orders = Paper(PaperSettings(max_order=max_order, calibration=QUICK)), set()
    for t in range(1, 200):
        play(paper, t)
        if paper.block is not None:
            orders.add(paper.block.order)
    assert max(orders) == longest


@pytest.mark.parametrize("at", [10, 16, 30])
def test_it_goes_on_identically_from_its_bytes(at: int) -> None:
    losses = stream(0, (40, 0.3), (20, 0.6))
    paper = warm()
    alarms(paper, losses[:at], past=0.28)
    data = codec.encode(Kept(paper))
    # The models of the driver are as long as a stream, so they are compared by their bytes.
    again = codec.decode(Kept, data).paper
    assert again.calibrated == paper.calibrated
    rest = alarms(paper, losses[at:], past=0.28, first=at + 1)
    assert rest
    assert alarms(again, losses[at:], past=0.28, first=at + 1) == rest
    assert codec.encode(Kept(again)) == codec.encode(Kept(paper))


def test_the_outlook_is_that_of_the_calibration() -> None:
    text = PaperSettings(calibration=Calibration()).outlook()
    assert text == Calibration().outlook()
    assert "profile calibrated" in text
