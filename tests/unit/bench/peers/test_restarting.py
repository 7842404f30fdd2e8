"""Restarts: by the GLR test, by ADWIN on a rise only, and at known rounds."""

import numpy as np
import pytest

from streamfl_benchmarks.peers.base import ClientRecords
from streamfl_benchmarks.peers.fedavg import FedAvgPeer
from streamfl_benchmarks.peers.restarting import AtRounds, OnADWIN, OnGLR, Restarting, Rule, Seen

ROUND = [ClientRecords(np.ones((1000, 1)), np.zeros(1000)), ClientRecords(np.ones((1000, 1)), np.zeros(1000))]


def restarting(rule: Rule) -> Restarting:
    return Restarting(lambda: FedAvgPeer(np.zeros((1, 2)), 1.0, l2=0.0), rule)


def causes(rule: Rule, losses: list[float], spread: float = 0.0) -> dict[int, str]:
    """Return the cause of each round with one; two clients, `spread` apart."""
    found = {
        t: rule.cause(t, Seen(loss, 2000, np.array([loss - spread, loss + spread])))
        for t, loss in enumerate(losses, start=1)
    }
    return {t: cause for t, cause in found.items() if cause is not None}


def test_after_a_restart_the_model_has_learnt_that_round_alone() -> None:
    # One step from scratch on label 0 alone is (0.5, -0.5).
    peer = restarting(AtRounds((3,)))
    assert [peer.learn(t, ROUND, 0.5) for t in (1, 2)] == [None, None]
    assert peer.outputs(np.ones((1, 1)))[0, 0] > 0.6
    assert peer.learn(3, ROUND, 0.5) == "oracle"
    assert peer.outputs(np.ones((1, 1))).tolist() == [[0.5, -0.5]]
    assert peer.learn(4, ROUND, 0.5) is None
    assert peer.outputs(np.ones((1, 1)))[0, 0] > 0.6


def test_glr_restarts_in_the_first_round_of_a_rise_and_forgets_the_rounds_before() -> None:
    # 2000 records: far above the threshold, as in the tests of GLR itself. The loss stays high: no second alarm.
    assert causes(OnGLR(), [0.2] * 20 + [0.6] * 20) == {21: "glr"}
    assert causes(OnGLR(), [0.2] * 20 + [0.6] * 20 + [0.9]) == {21: "glr", 41: "glr"}
    peer = restarting(OnGLR())
    assert [peer.learn(t, ROUND, 0.2) for t in range(1, 21)] == [None] * 20
    assert peer.learn(21, ROUND, 0.6) == "glr"
    assert peer.outputs(np.ones((1, 1))).tolist() == [[0.5, -0.5]]


def test_adwin_restarts_on_a_rise_within_tens_of_rounds_and_not_on_a_fall() -> None:
    (when,) = causes(OnADWIN(), [0.2] * 60 + [0.8] * 60)
    assert 70 < when < 100
    assert causes(OnADWIN(), [0.8] * 60 + [0.2] * 60) == {}


def test_a_more_willing_adwin_is_quicker() -> None:
    losses = [0.2] * 60 + [0.8] * 60
    assert min(causes(OnADWIN(delta=0.5), losses)) < min(causes(OnADWIN(), losses))


def test_adwin_on_each_client_is_quicker_than_on_the_pooled_loss() -> None:
    losses = [0.3] * 60 + [0.8] * 60
    by_client = causes(OnADWIN(by_client=True), losses, spread=0.1)
    assert 60 < min(by_client) < min(causes(OnADWIN(), losses, spread=0.1))
    assert set(by_client.values()) == {"adwin"}


def test_a_rule_sees_each_clients_own_loss() -> None:
    seen: list[Seen] = []

    class Watch:
        def cause(self, t: int, round_: Seen) -> str | None:
            seen.append(round_)
            return None

    # At W = 0 with K = 2 every record scores ln 2 / (2 ln 2); after a step to (0.5, -0.5) label 0 scores less.
    other = ClientRecords(np.ones((3, 1)), np.ones(3))
    none = ClientRecords(np.ones((0, 1)), np.ones(0))
    peer = restarting(Watch())
    peer.learn(1, ROUND, 0.5)
    peer.learn(2, [ROUND[0], none, other], 0.5)
    assert seen[0].by_client.tolist() == [0.5, 0.5]
    # ln(1 + e^-1) = 0.31326 and 1.31326, over 1.38629.
    assert seen[1].by_client == pytest.approx([0.22597, 0.94731], abs=1e-5)
    assert (seen[1].loss, seen[1].records) == (0.5, 1003)
