"""Profile `paper` against Algorithms 2 and 3 written out from the text, on random losses."""

import math
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamfl.learning.drift.evidence import ModelEvidence, RoundEvidence
from streamfl.learning.profiles.paper.profile import Paper, PaperSettings
from streamfl.learning.profiles.paper.schedule import PlacedInstance

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
