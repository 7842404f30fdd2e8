"""The learnt bound: by hand, longer and longer blocks, and how often it is one."""

import math

import pytest

from streamfl.learning.drift.detectors.learnt_bound import LearntBound
from streamfl.sampling import generator


def learnt(losses: list[float], length: int = 8) -> LearntBound:
    bound = LearntBound(length)
    for loss in losses:
        bound.learn(loss)
    return bound


def test_the_learnt_bound_is_the_one_computed_by_hand() -> None:
    # Eight losses with sum 1: (1 + 1) / (8 + 2) = 0.2, and twice sqrt(0.2 * 0.8 / 8).
    assert learnt([0.125] * 7).value is None
    assert learnt([0.125] * 8).value == pytest.approx(0.2 + 2.0 * math.sqrt(0.02))


def test_the_learnt_bound_is_neither_0_nor_below_the_mean() -> None:
    for loss in (0.0, 1.0):
        value = learnt([loss] * 1000).value
        assert value is not None
        assert value > loss or value == pytest.approx(1.0, abs=0.01)


def test_the_blocks_of_the_learnt_bound_double_up_to_the_longest() -> None:
    bound, ends = LearntBound(100), []
    for n in range(1, 7000):
        bound.learn(0.5)
        if bound.count == 0:
            ends.append(n)
    assert ends == [100, 300, 700, 1500, 3100, 4700, 6300]
    assert learnt([0.5] * 5000, length=5000).length == 5000


def test_the_learnt_bound_follows_losses_down_and_never_up() -> None:
    down = learnt([0.5] * 8 + [0.1] * 16).value
    assert down == learnt([0.1] * 16, length=16).value
    assert learnt([0.5] * 8 + [0.1] * 16 + [0.9] * 1000).value == down


@pytest.mark.parametrize("mean", [0.02, 0.3, 0.5])
def test_the_learnt_bound_lies_above_the_mean_of_nearly_every_stream(mean: float) -> None:
    # Two standard errors of one block fail in 2.3% of streams; the least of the first four, in at most four times as
    # many.
    for length, losses, most in ((100, 100, 10), (100, 1500, 28)):
        draws = [(generator(i, "bound", mean).random(losses) < mean).astype(float).tolist() for i in range(200)]
        values = [learnt(draw, length).value for draw in draws]
        assert sum(value is not None and value < mean for value in values) <= most
