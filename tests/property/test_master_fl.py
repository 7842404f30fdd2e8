"""Profile `paper` against Algorithms 2 and 3 written out from the text, on random losses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamfl.arrays import FloatArray
from streamfl.learning.drift.evidence import ModelEvidence, RoundEvidence
from streamfl.learning.profiles.paper.master_tests import PaperTests
from streamfl.learning.profiles.paper.profile import Paper, PaperSettings
from streamfl.learning.profiles.paper.schedule import PlacedInstance, placed, rho_hat
from streamfl_benchmarks.regret_driver import Driven
from streamfl_benchmarks.regret_streams import RADIUS, StreamName, stream

HORIZON, DELTA, RECORDS = 64, 0.05, 500


@dataclass
class WrittenOut:
    """One block's statistics, computed anew in every round from all losses played."""

    start: int
    schedule: tuple[PlacedInstance, ...]
    scale: float
    played: list[float] = field(default_factory=list)
    optimistic: list[float] = field(default_factory=list)

    def playing(self, t: int) -> PlacedInstance:
        covering = [p for p in self.schedule if p.start <= t <= p.end]
        soonest = min(p.end for p in covering)
        return min((p for p in covering if p.end == soonest), key=lambda p: p.order)

    def alarm(self, t: int, loss: float, past: float) -> str | None:
        rounds = sum(self.playing(tau) == self.playing(t) for tau in range(self.start, t + 1))
        # The first active round of an instance has no past.
        estimate = loss if rounds == 1 else (loss + (rounds - 1) * past) / rounds
        records = RECORDS * min(rounds, 2)
        self.played.append(loss)
        self.optimistic.append(estimate - self.scale * math.sqrt(math.log(HORIZON / DELTA) / records))
        for p in self.schedule:
            if p.end == t:
                span = [self.played[tau - self.start] for tau in range(p.start, p.end + 1)]
                if max(self.optimistic) >= float(np.mean(span)) + 9.0 * self.rho_hat(2**p.order):
                    return "test1"
        rounds = t - self.start + 1
        gap = float(np.mean(np.array(self.played) - np.array(self.optimistic)))
        return "test2" if gap >= 3.0 * self.rho_hat(rounds) else None

    def rho_hat(self, t: int) -> float:
        return self.scale * 6.0 * (math.log2(HORIZON) + 1.0) * math.log(HORIZON / DELTA) / math.sqrt(t)


@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([1e-4, 2e-4, 5e-4, 1e-3]),
    quiet=st.floats(0.0, 1.0),
    old=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_profile_paper_alarms_in_the_rounds_in_which_the_printed_algorithms_do(
    seed: int, scale: float, quiet: float, old: float
) -> None:
    rng = np.random.default_rng(seed)
    paper = Paper(PaperSettings(horizon=HORIZON, delta=DELTA, rho_scale=scale, max_order=4, seed=seed))
    reference: WrittenOut | None = None
    for t in range(1, HORIZON + 1):
        (live,) = paper.open(t, np.zeros((1, 1)), 1.0).live
        block = paper.block
        assert block is not None
        if reference is None or reference.start != block.start:
            reference = WrittenOut(block.start, block.schedule, scale)
        assert live.name == f"order-{reference.playing(t).order}"
        loss, past = (float(rng.random()) if rng.random() > quiet else 0.4 for _ in range(2))
        past *= old
        known = bool(live.history)
        played = ModelEvidence(
            loss,
            1.0 - loss,
            live.W,
            history_loss=past if known else None,
            history_records=RECORDS if known else 0,
        )
        alarm = paper.close(RoundEvidence(t, RECORDS, {live.name: played}))
        assert (alarm.cause if alarm else None) == reference.alarm(t, loss, past)
        if alarm:
            paper.conclude(paper.deliberate(alarm, RoundEvidence(t, RECORDS, {}), np.zeros((1, 1))))
        else:
            paper.advance(t)


def test_the_losses_of_these_tests_raise_the_alarms_of_both_printed_tests() -> None:
    # So that the test above compares something: random losses, and steady ones of perfect models.
    def causes(loss: float | None, scale: float, seed: int) -> set[str]:
        rng = np.random.default_rng(seed)
        paper = Paper(PaperSettings(horizon=HORIZON, rho_scale=scale, max_order=4, seed=seed))
        found = set()
        for t in range(1, HORIZON + 1):
            (live,) = paper.open(t, np.zeros((1, 1)), 1.0).live
            played = ModelEvidence(
                float(rng.random()) if loss is None else loss,
                0.5,
                live.W,
                history_loss=0.0 if live.history else None,
                history_records=RECORDS,
            )
            alarm = paper.close(RoundEvidence(t, RECORDS, {live.name: played}))
            if alarm:
                found.add(alarm.cause)
                paper.conclude(paper.deliberate(alarm, RoundEvidence(t, RECORDS, {}), np.zeros((1, 1))))
            else:
                paper.advance(t)
        return found

    assert "test1" in set().union(*(causes(None, 5e-4, seed) for seed in range(20)))
    assert "test2" in set().union(*(causes(0.4, 2e-4, seed) for seed in range(20)))


@st.composite
def near_stationary(draw: st.DrawFn) -> tuple[PaperTests, Sequence[PlacedInstance], FloatArray, FloatArray]:
    """Return tests, a block's schedule, and F and Ft as Requirement 1 allows them, with drift of at most rho(2^m).

    rho and rho_hat are scaled alike, so that thresholds are below 1 and losses can reach them.
    """
    order, scale = draw(st.integers(0, 8)), draw(st.sampled_from([2e-4, 1e-3, 3e-3]))
    rng, rounds = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), 2**order
    tests = PaperTests(HORIZON, DELTA, scale)
    drift = scale / math.sqrt(rounds)
    steps = rng.choice([-1.0, 0.0, 1.0], size=rounds) * rng.random(rounds)
    best = 0.5 + (drift * steps / max(1.0, float(np.abs(steps).sum()))).cumsum()
    optimistic = np.maximum.accumulate(best) + drift  # the most that (1) allows
    allowed = rho_hat(1, horizon=HORIZON, delta=DELTA, scale=scale)  # n rho_hat(n) = sqrt(n) rho_hat(1)
    gaps = np.diff(np.sqrt(np.arange(rounds + 1))) * allowed + drift  # the most that (2) allows, round by round
    # From the least that a loss can be up to the most that (2) allows.
    part = draw(st.sampled_from([np.zeros(rounds), np.ones(rounds), rng.random(rounds)]))
    served = best + part * (optimistic + gaps - best)
    return tests, placed(order, 1, rng), served, optimistic


@given(near_stationary())
def test_no_test_fires_on_a_near_stationary_block_if_the_base_algorithm_meets_requirement_1(
    case: tuple[PaperTests, Sequence[PlacedInstance], FloatArray, FloatArray],
) -> None:
    tests, schedule, served, optimistic = case
    for t in range(1, len(served) + 1):
        so_far = {"block_start": 1, "served": served[:t].tolist(), "optimistic": optimistic[:t].tolist()}
        assert tests.test2(**so_far) is None
        assert [tests.test1(p, **so_far) for p in schedule if p.end == t] == [None for p in schedule if p.end == t]


def restarts(name: StreamName, seed: int) -> tuple[int, int]:
    """Return how often the profile restarts on a stream of exact losses, and the stream's L.

    The printed thresholds are never reached at T = 512; these are 0.003 times as high.
    """
    played = stream(name, 512, seed)
    options = PaperSettings(
        horizon=512, rho_scale=3e-3, max_order=20, optimistic="regret", distance=RADIUS, step=10.0, seed=seed
    )
    driven = Driven(Paper(options), played.Z, radius=2.0 * RADIUS)
    for loss, _ in played.losses():
        driven.play()
        driven.learn(loss)
    return driven.alarms, len(played.starts)


def test_a_stream_that_never_changes_has_no_restart_and_others_at_most_one_for_each_change() -> None:
    assert [restarts("still", seed) for seed in (0, 1)] == [(0, 1), (0, 1)]
    found = [restarts("abrupt", seed) for seed in (0, 1)]
    assert all(0 < alarms < L for alarms, L in found)
    alarms, L = restarts("moving", 0)
    assert alarms < L
