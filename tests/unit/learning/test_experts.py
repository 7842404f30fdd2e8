"""Profile `experts`: the cover, bets and weights by hand, a change that the mixture follows, its bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from streamfl.arrays import HOLDS_ARRAYS
from streamfl.errors import BrokenInvariantError
from streamfl.learning.drift.evidence import ModelEvidence, RoundEvidence
from streamfl.learning.profiles.base import RoundPlan
from streamfl.learning.profiles.experts import Experts, ExpertsSettings, covering
from streamfl.protocol.alarm import Alarm
from streamfl.wire import codec

SCRATCH = np.zeros((1, 1))


@dataclass
class Kept:
    """The contents of a checkpoint."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    experts: Experts


def play(experts: Experts, t: int, losses: Sequence[float]) -> list[float]:
    """Play a round with the given losses of orders 0, 1, ..; models stay. Return the weights it was played with."""
    live = experts.open(t, SCRATCH, 1.0).live[1:]
    weights = experts.weights()
    played = {model.name: ModelEvidence(1.0 - loss, loss, model.W) for model, loss in zip(live, losses, strict=True)}
    assert experts.close(RoundEvidence(t, 100, played)) is None
    return weights


def chase(experts: Experts, t: int, target: float) -> dict[str, float]:
    """Play a round of F(W) = min(1, (W - target)^2 / 4), stepped by half the gradient, and return all losses."""
    opening = experts.open(t, SCRATCH, 1.0)
    losses = {live.name: min(1.0, float((live.W[0, 0] - target) ** 2 / 4.0)) for live in opening.live}
    stepped = {live.name: live.W - live.eta * (live.W - target) / 2.0 for live in opening.live}
    experts.close(
        RoundEvidence(
            t, 100, {name: ModelEvidence(1.0 - losses[name], losses[name], stepped[name]) for name in losses}
        )
    )
    experts.advance(t)
    return losses


def values(opening: RoundPlan) -> dict[str, float]:
    return {live.name: float(live.W[0, 0]) for live in opening.live}


def test_the_first_rounds_of_experts_are_those_computed_by_hand() -> None:
    # Equal priors until there is a stake. Round 2: mean 0.4, so order 1 gains 0.2, and stakes 0.2 / 2 in round 3.
    # All instances of round 4 are new. In it order 2 gains 0.3; round 6 ends with 0.3 on it after three rounds.
    # Round 7: order 1, from 6, has gained 0.2 in one round: stake 0.1, prior 1 / (36 * 3). Order 2, from 4: stake
    # 0.3 / 4, prior 1 / (16 * 3). So 0.1 / 108 to 0.075 / 48, which is 16 to 27.
    experts = Experts()
    assert play(experts, 1, [0.5]) == [1.0]
    assert play(experts, 2, [0.6, 0.2]) == [0.5, 0.5]
    assert play(experts, 3, [0.3, 0.5]) == [0.0, 1.0]
    assert play(experts, 4, [0.9, 0.6, 0.3]) == pytest.approx([1 / 3] * 3)
    assert play(experts, 5, [0.1, 0.2, 0.4]) == [0.0, 0.0, 1.0]
    assert play(experts, 6, [0.3, 0.3, 0.5]) == [0.0, 0.0, 1.0]
    assert play(experts, 7, [0.5, 0.4, 0.1]) == pytest.approx([0.0, 16 / 43, 27 / 43])
    # Mean 9.1 / 43: order 2 gains 4.8 / 43 on a stake of 0.075.
    coin = experts.instances[2].coin
    assert (coin.rounds, coin.gains, coin.wealth) == pytest.approx((4, 0.3 + 4.8 / 43, 1.0 + 0.075 * 4.8 / 43))


def test_losses_of_an_expert_without_a_stake_do_not_count() -> None:
    # Order 2 loses in rounds 4 and 5. Round 6 has only priors, 1/108 twice and 1/48, which is 4, 4 and 9 of 17: mean
    # 7.5 / 17, so it gains 2.4 / 17, and stakes a quarter of that, for it owes nothing.
    experts = Experts()
    for t, losses in ((1, [0.5]), (2, [0.5] * 2), (3, [0.5] * 2), (4, [0.1, 0.1, 1.0]), (5, [0.1, 0.1, 1.0])):
        play(experts, t, losses)
    play(experts, 6, [0.6, 0.6, 0.3])
    assert experts.instances[2].coin.stake == pytest.approx(2.4 / 17 / 4)


@pytest.mark.parametrize("order", range(4))
def test_steps_are_those_of_the_order(order: int) -> None:
    live = Experts(ExpertsSettings(step=8.0)).open(8, SCRATCH, 4.0).live
    assert live[1 + order].eta == pytest.approx(8.0 / 4.0 / 2.0 ** (order / 2.0))


def test_the_mean_of_the_stepped_models_serves() -> None:
    experts = Experts(ExpertsSettings(start="scratch"))
    for t in (1, 2):
        live = experts.open(t, SCRATCH, 1.0).live[1:]
        played = {
            m.name: ModelEvidence([0.4, 0.8][k], [0.6, 0.2][k], np.full((1, 1), 10.0 + k)) for k, m in enumerate(live)
        }
        experts.close(RoundEvidence(t, 100, played))
    # Round 3: order 0 is new and has no weight; order 1, at 11, has gained.
    opening = experts.open(3, SCRATCH, 1.0)
    assert opening.serves == "mixture"
    assert values(opening) == {"mixture": 11.0, "order-0": 0.0, "order-1": 11.0}
    assert [live.trained for live in opening.live] == [False, True, True]


@pytest.mark.parametrize(("start", "first"), [("warm", 10.0), ("scratch", 0.0)])
def test_instances_of_experts_start_warm_or_from_scratch_as_set(start: str, first: float) -> None:
    experts = Experts(ExpertsSettings(start=start))  # type: ignore[arg-type]
    experts.open(1, SCRATCH, 1.0)
    experts.close(RoundEvidence(1, 100, {"order-0": ModelEvidence(0.5, 0.5, np.full((1, 1), 10.0))}))
    assert values(experts.open(2, SCRATCH, 1.0)) == {"mixture": first, "order-0": first, "order-1": first}


def test_a_round_that_is_opened_twice_is_the_same() -> None:
    experts = Experts(ExpertsSettings(step=1.0))
    for t in range(1, 12):
        chase(experts, t, 1.0)
    assert values(experts.open(12, SCRATCH, 1.0)) == values(experts.open(12, SCRATCH, 1.0))


def test_the_mixture_follows_a_change_sooner_than_slow_models_do() -> None:
    experts = Experts(ExpertsSettings(step=1.0))
    for t in range(1, 101):
        before = chase(experts, t, 1.0)
    assert before["mixture"] < 0.01
    after = [chase(experts, t, -1.0) for t in range(101, 121)]
    assert after[0]["mixture"] > 0.9
    assert all(losses["mixture"] < 0.11 for losses in after[4:])
    assert after[4]["order-6"] > 0.5


def test_there_are_never_more_models_than_orders() -> None:
    experts = Experts(ExpertsSettings(max_order=3, step=1.0))
    sizes = []
    for t in range(1, 100):
        chase(experts, t, 1.0)
        sizes.append(len(experts.instances))
    assert sizes[:8] == [1, 2, 2, 3, 3, 3, 3, 4]
    assert set(sizes[7:]) == {4}


def test_a_change_of_registry_re_expresses_every_model() -> None:
    experts = Experts(ExpertsSettings(step=1.0))
    for t in range(1, 7):
        chase(experts, t, 1.0)
    before = values(experts.open(7, SCRATCH, 1.0))
    mixture = experts.mixture
    assert mixture is not None
    experts.transform(lambda W: np.hstack([2.0 * W, np.zeros((1, 1))]))
    after = experts.open(7, np.zeros((1, 2)), 1.0)
    assert values(after) == {name: pytest.approx(2.0 * W) for name, W in before.items()}
    assert {live.W.shape for live in after.live} == {(1, 2)}
    assert experts.mixture is not None
    assert experts.mixture.tolist() == [[2.0 * mixture[0, 0], 0.0]]


def test_profile_experts_continues_identically_from_its_bytes() -> None:
    experts = Experts(ExpertsSettings(step=1.0, max_order=4))
    for t in range(1, 23):
        chase(experts, t, 1.0)
    again = codec.decode(Kept, codec.encode(Kept(experts))).experts
    assert codec.encode(Kept(again)) == codec.encode(Kept(experts))
    for t in range(23, 70):
        assert chase(again, t, -1.0) == chase(experts, t, -1.0)


def test_profile_experts_has_nothing_to_restart() -> None:
    experts = Experts()
    play(experts, 1, [1.0])
    assert (experts.readings(), experts.advance(1)) == ({}, ())
    with pytest.raises(BrokenInvariantError, match="never alarms"):
        experts.deliberate(Alarm("glr", 1.0, 1.0, since=1), RoundEvidence(1, 100, {}), SCRATCH)


def test_the_cover_of_the_first_rounds() -> None:
    assert [covering(t, None) for t in (1, 2, 3, 4)] == [
        ((0, 1),),
        ((0, 2), (1, 2)),
        ((0, 3), (1, 2)),
        ((0, 4), (1, 4), (2, 4)),
    ]
