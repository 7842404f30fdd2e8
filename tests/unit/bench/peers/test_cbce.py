"""CBCE: the geometric cover, bets by hand, weights, and what it is for: a change."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl_benchmarks.peers.base import ClientRecords, scores
from streamfl_benchmarks.peers.cbce import CBCE, Bettor, ends
from streamfl_benchmarks.peers.fedavg import FedAvgPeer

SCRATCH = np.zeros((1, 2))


def score(W: np.ndarray[tuple[int, ...], np.dtype[np.float64]], own: ClientRecords) -> float:
    return float(scores(own.Z @ W, own).mean())


def coins(zeros: int, ones: int) -> list[ClientRecords]:
    return [ClientRecords(np.ones((zeros + ones, 1)), np.repeat([0.0, 1.0], [zeros, ones]))]


def test_the_live_intervals_are_the_geometric_cover() -> None:
    peer = CBCE(SCRATCH, step=1.0)
    for t in range(1, 70):
        # Those of length 2^k that start at a multiple of it, from the first multiple on, and hold t.
        cover = {(t // 2**k * 2**k, t // 2**k * 2**k + 2**k - 1) for k in range(7) if t >= 2**k}
        assert {(live.start, live.end) for live in peer.live} == cover
        assert len(peer.live) == len(cover)
        peer.learn(t, coins(1, 1), 0.5)


@given(st.integers(1, 500))
def test_every_stretch_of_rounds_is_cut_into_few_intervals(start: int) -> None:
    # Daniely et al.: from any round on, the longest interval that starts there at least doubles in length at each
    # next cut, so 2^j rounds need no more than j + 1 intervals.
    at, lengths = start, []
    while at < start + 256:
        lengths.append(ends(at)[-1] - at + 1)
        at += lengths[-1]
    assert all(after >= 2 * before for before, after in pairwise(lengths))


def test_bets_by_hand() -> None:
    # Round 4: no gains, no bet; g = 0.5. Round 5: 1 * 0.5 / 2 = 0.25, wins 0.25 * 0.4: wealth 1.1. Round 6:
    # 1.1 * 0.9 / 3 = 0.33, loses 0.33: wealth 0.77, gains -0.1. Round 7: it bets against itself, so nothing is lost.
    live = Bettor(4, 7, SCRATCH)
    bets = []
    for t, gain in ((4, 0.5), (5, 0.4), (6, -1.0), (7, -0.5)):
        bets.append(live.bet(t))
        live.settle(t, gain)
    assert bets == pytest.approx([0.0, 0.25, 0.33, 0.77 * -0.1 / 4])
    assert (live.gains, live.wealth) == (pytest.approx(-0.1), pytest.approx(0.77))
    assert live.prior == 1 / (4**2 * 3)


def test_two_rounds_by_hand() -> None:
    # Round 1: w = 0; [1,1] steps, ends, and [2,2], [2,3] begin from scratch with nothing bet: W is 0 again.
    peer = CBCE(SCRATCH, step=1.0, l2=0.0)
    peer.learn(1, coins(1, 0), 0.5)
    assert peer.W.tolist() == [[0.0, 0.0]]
    # Round 2: both play 0 like the mean and gain 0. [2,3] steps by 1/sqrt(2) * 0.5; [3,3] begins at 0. No bets, so
    # priors: 1/(2^2 * 2) = 1/8 for [2,3] and 1/(3^2 * 2) = 1/18 for [3,3], that is 9/13 and 4/13.
    peer.learn(2, coins(1, 0), 0.5)
    assert peer.weights() == pytest.approx([9 / 13, 4 / 13])
    assert peer.W[0, 0] == pytest.approx(9 / 13 * 0.5 / math.sqrt(2.0))
    # Round 3: [2,3] does better than the mean, [3,3] worse; both end, and [4,4], [4,5], [4,7] share one prior.
    peer.learn(3, coins(1, 0), 0.5)
    assert peer.weights() == pytest.approx([1 / 3] * 3)


def test_an_instance_that_gains_gets_the_weight() -> None:
    # [4,7] is the only instance with gains in round 6: the other two begin there.
    peer = CBCE(SCRATCH, step=1.0, l2=0.0)
    for t in range(1, 6):
        peer.learn(t, coins(1, 0), 0.5)
    assert [(live.start, live.end) for live in peer.live] == [(4, 7), (6, 6), (6, 7)]
    assert peer.live[0].gains == pytest.approx(score(_mean_of_round_5(), coins(1, 0)[0]) - _own_of_round_5())
    assert peer.weights().tolist() == [1.0, 0.0, 0.0]


def _own_of_round_5() -> float:
    # [4,7] has made one step of 1/2 on gradient (-0.5, 0.5).
    return score(np.array([[0.25, -0.25]]), coins(1, 0)[0])


def _mean_of_round_5() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    # Live in round 5: [4,5] at 0.5/sqrt(2), [4,7] at 0.25, [5,5] at 0, priors 1/48, 1/48, 1/75: no bets yet.
    w = (0.5 / math.sqrt(2.0) + 0.25) / 48 / (2 / 48 + 1 / 75)
    return np.array([[w, -w]])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.booleans())
def test_weights_are_a_distribution_and_wealth_stays_positive(ones: list[int], warm: bool) -> None:
    peer = CBCE(SCRATCH, step=3.0, warm=warm)
    for t, k in enumerate(ones, start=1):
        peer.learn(t, coins(5 - k, k), 0.5)
        assert peer.weights().sum() == pytest.approx(1.0)
        assert peer.weights().min() >= 0.0
        assert min(live.wealth for live in peer.live) > 0.0


def test_after_a_change_the_short_intervals_take_over() -> None:
    # Labels turn over after round 100; FedAvg with the step of the interval [64, 127], 3 / sqrt(64), follows slowly.
    cbce, fedavg = CBCE(SCRATCH, step=3.0, warm=True), FedAvgPeer(SCRATCH, 3.0 / 8.0)
    losses: dict[str, list[float]] = {"cbce": [], "fedavg": []}
    for t in range(1, 121):
        clients = coins(190, 10) if t <= 100 else coins(10, 190)
        for name, peer in (("cbce", cbce), ("fedavg", fedavg)):
            losses[name].append(score(peer.W, clients[0]))
            peer.learn(t, clients, losses[name][-1])
    before, turned = losses["cbce"][99], losses["cbce"][100]
    assert turned > 0.9
    assert max(losses["cbce"][104:]) < before + 0.05
    assert sum(losses["cbce"][100:]) < 0.7 * sum(losses["fedavg"][100:])


def test_from_scratch_nothing_is_known_in_round_64_and_warm_it_is() -> None:
    known = {}
    for warm in (False, True):
        peer = CBCE(SCRATCH, step=3.0, warm=warm)
        for t in range(1, 64):
            peer.learn(t, coins(19, 1), 0.5)
        known[warm] = float(peer.W[0, 0])
    assert known[False] == 0.0
    assert known[True] > 0.5
