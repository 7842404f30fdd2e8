"""The limit: the minimiser of its segment, in the right rounds."""

import math

import numpy as np
import pytest

from streamfl.learning.model import gradient, objective
from streamfl.sampling import generator
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, pooled
from streamfl_benchmarks.peers.limit import Limit, fit


def drawn(t: int, n: int = 200) -> ClientRecords:
    """Return records whose label follows the first feature, the other way round from round 11 on."""
    rng = generator(2, "limit", t)
    Z = np.hstack([rng.normal(size=(n, 3)), np.ones((n, 1))])
    y = (Z[:, 0] + rng.normal(size=n) > 0).astype(np.float64)
    return ClientRecords(Z, y if t < 11 else 1.0 - y)


def test_the_gradient_is_near_zero_and_nothing_near_by_is_better() -> None:
    own = drawn(1)
    W = fit(own, 4, 3, l2=2e-4)
    assert np.abs(gradient(SOFTMAX, W, own.Z, own.y, l2=2e-4)).max() < 1e-5
    least = objective(SOFTMAX, W, own.Z, own.y, l2=2e-4)
    for i in range(20):
        near = W + 0.1 * generator(i, "near").normal(size=W.shape)
        assert objective(SOFTMAX, near, own.Z, own.y, l2=2e-4) > least


def test_the_limit_on_coins_is_the_share_of_each_label() -> None:
    # Three quarters of label 1: without a penalty the log-odds are ln 3.
    W = fit(ClientRecords(np.ones((4, 1)), np.array([0.0, 1.0, 1.0, 1.0])), 1, 2, l2=0.0)
    assert W[0, 1] - W[0, 0] == pytest.approx(math.log(3.0), abs=1e-3)


def test_each_segment_is_played_from_its_first_round_to_its_last() -> None:
    peer = Limit(4, 2, rounds=20, at=(11,), rounds_of=lambda t: [drawn(t)])
    right = []
    for t in range(1, 21):
        own = drawn(t)
        right.append(float((SOFTMAX.predict(own.Z @ peer.W) == own.y).mean()))
        assert peer.learn(t, [own], 0.5) is None
    assert min(right) > 0.65  # 0.75 in expectation; the other segment's model has 0.25
    segments = [pooled([drawn(t) for t in span]) for span in (range(1, 11), range(11, 21))]
    np.testing.assert_array_equal(peer.W, fit(segments[1], 4, 2, l2=2e-4))
    assert not np.array_equal(peer.W, fit(segments[0], 4, 2, l2=2e-4))


def test_a_fit_takes_ten_rounds_at_even_distances_or_fewer_large_ones() -> None:
    peer = Limit(4, 2, rounds=30, at=(11, 14), rounds_of=lambda t: [drawn(t)])
    assert peer.fitted_on(0) == tuple(range(1, 11))
    assert peer.fitted_on(1) == (11, 12, 13)
    assert peer.fitted_on(2) == (14, 16, 18, 19, 21, 23, 25, 26, 28, 30)
    peer.most_records = 450
    assert peer.fitted_on(2) == (14, 30)


def test_a_drift_in_round_1_begins_no_empty_segment() -> None:
    peer = Limit(4, 2, rounds=12, at=(1, 11), rounds_of=lambda t: [drawn(t)])
    np.testing.assert_array_equal(peer.W, fit(pooled([drawn(t) for t in range(1, 11)]), 4, 2, l2=2e-4))
