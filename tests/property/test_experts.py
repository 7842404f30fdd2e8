"""Laws of the geometric cover, and of weights by coin betting on any bounded losses."""

import math
from collections import Counter, defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamfl.learning.drift.evidence import ModelEvidence, RoundEvidence
from streamfl.learning.profiles.experts import Coin, Experts, ExpertsSettings, covering

SCRATCH = np.zeros((1, 1))


@given(t=st.integers(1, 10**6), max_order=st.none() | st.integers(0, 20))
def test_one_interval_of_each_order_holds_a_round(t: int, max_order: int | None) -> None:
    found = covering(t, max_order)
    assert [k for k, _ in found] == list(range(len(found)))
    assert all(start <= t < start + 2**k and start % 2**k == 0 and start > 0 for k, start in found)
    next_ = len(found)
    assert 2**next_ > t or next_ == (max_order or 0) + 1


@given(first=st.integers(1, 5000), rounds=st.integers(1, 5000))
def test_every_run_of_rounds_is_a_union_of_intervals_two_of_an_order_at_most(first: int, rounds: int) -> None:
    t, last, orders = first, first + rounds - 1, Counter[int]()
    while t <= last:
        longest = max(k for k, start in covering(t, None) if start == t and t + 2**k - 1 <= last)
        orders[longest] += 1
        t += 2**longest
    assert t == last + 1
    assert max(orders.values()) <= 2


@given(
    seed=st.integers(0, 10**6),
    max_order=st.sampled_from([None, 0, 2, 8]),
    share=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_weights_are_a_distribution_and_the_mixture_lies_between_the_models(
    seed: int, max_order: int | None, share: float
) -> None:
    rng = np.random.default_rng(seed)
    experts = Experts(ExpertsSettings(max_order=max_order))
    for t in range(1, 70):
        opening = experts.open(t, SCRATCH, 1.0)
        weights = experts.weights()
        assert min(weights) >= 0.0
        assert math.isclose(sum(weights), 1.0)
        mixture, *models = (live.W[0, 0] for live in opening.live)
        assert min(models) - 1e-9 <= mixture <= max(models) + 1e-9
        played = {
            live.name: ModelEvidence(
                0.5, float(rng.random() < share) if rng.random() < 0.5 else rng.random(), rng.normal(size=(1, 1))
            )
            for live in opening.live
        }
        experts.close(RoundEvidence(t, 1, played))


@given(st.lists(st.floats(-1.0, 1.0), max_size=200))
def test_a_bettor_is_never_ruined(gains: list[float]) -> None:
    coin = Coin()
    for gain in gains:
        coin = coin.after(gain)
        assert coin.wealth > 0.0
        assert abs(coin.stake) <= coin.wealth


@given(
    seed=st.integers(0, 10**6),
    good=st.lists(st.integers(0, 8), min_size=1, max_size=6),
    noise=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_regret_against_every_instance_is_within_the_bound(seed: int, good: list[int], noise: float) -> None:
    # Theorem 2 of Jun et al.: over an interval J that ends at b, at most sqrt(|J| (7 ln b + 5)). The order that is
    # good changes as the stream goes on; all others lose 1.
    rng = np.random.default_rng(seed)
    experts = Experts(ExpertsSettings(max_order=None))
    regret: defaultdict[tuple[int, int], float] = defaultdict(float)
    for t in range(1, 256):
        experts.open(t, SCRATCH, 1.0)
        best = good[len(good) * t // 256]
        losses = [noise * rng.random() + (1.0 - noise) * float(i.order != best) for i in experts.instances]
        mean = float(np.dot(experts.weights(), losses))
        played = {
            f"order-{i.order}": ModelEvidence(1.0 - x, x, SCRATCH)
            for i, x in zip(experts.instances, losses, strict=True)
        }
        for instance, loss in zip(experts.instances, losses, strict=True):
            regret[instance.order, instance.start] += mean - loss
        experts.close(RoundEvidence(t, 1, played))
    for (order, start), found in regret.items():
        assert found <= math.sqrt(2**order * (7.0 * math.log(start + 2**order - 1) + 5.0))
