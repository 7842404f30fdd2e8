"""Each peer's round by hand, on coins: the only feature is the constant 1, there are two labels.

A model is then W = (w, -w), which says label 0 with probability s(2w), s the logistic function; on records of which a
share q has label 0 the gradient at w is s(2w) - q. Client A: four records, three of label 0, q = 0.75. Client B:
twelve records of label 1, q = 0. So p = 1/4 and 3/4, and pooled q = 3/16. All steps have eta = 1 and no penalty.
"""

import math

import numpy as np
import pytest

from streamfl_benchmarks.peers.adaptive_fedavg import AdaptiveFedAvg
from streamfl_benchmarks.peers.base import ClientRecords, Peer
from streamfl_benchmarks.peers.cda_fedavg import CDAFedAvg
from streamfl_benchmarks.peers.coin import CoinBetting
from streamfl_benchmarks.peers.fedavg import FedAvgPeer
from streamfl_benchmarks.peers.feddyn import FedDyn
from streamfl_benchmarks.peers.fednova import FedNova
from streamfl_benchmarks.peers.ifca import IFCA
from streamfl_benchmarks.peers.local_work import LocalWork
from streamfl_benchmarks.peers.scaffold import Scaffold
from streamfl_benchmarks.peers.server_adaptive import ServerAdaptive

SCRATCH = np.zeros((1, 2))
A = ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))
B = ClientRecords(np.ones((12, 1)), np.ones(12))
NONE = ClientRecords(np.ones((0, 1)), np.ones(0))


def s(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def after(peer: Peer, *rounds: list[ClientRecords]) -> float:
    """Return w after the rounds."""
    for t, clients in enumerate(rounds, start=1):
        assert peer.learn(t, clients, 0.5) is None
    assert peer.W[0, 0] == pytest.approx(-peer.W[0, 1])
    return float(peer.W[0, 0])


def test_fedavg_with_one_step_gives_the_model_computed_by_hand() -> None:
    # A: 0 - (0.5 - 0.75) = 0.25. B: 0 - 0.5 = -0.5. 0.25 / 4 - 3 * 0.5 / 4.
    assert after(FedAvgPeer(SCRATCH, 1.0, l2=0.0), [A, B]) == pytest.approx(-0.3125)


def test_fedavg_with_two_steps_and_a_client_without_records_gives_the_model_computed_by_hand() -> None:
    # A: 0.25, then 0.25 - (0.62246 - 0.75) = 0.37754. B: -0.5, then -0.5 - 0.26894 = -0.76894.
    w = after(FedAvgPeer(SCRATCH, 1.0, LocalWork(2), l2=0.0), [A, NONE, B])
    assert w == pytest.approx(0.25 * 0.37754 - 0.75 * 0.76894, abs=1e-5)


def test_fedavg_with_a_penalty_gives_the_model_computed_by_hand() -> None:
    # The first step as above; the second round's gradient is s(-0.625) - 3/16 - 0.1 * 0.3125.
    w = after(FedAvgPeer(SCRATCH, 1.0, l2=0.1), [A, B], [A, B])
    assert w == pytest.approx(-0.3125 - (s(-0.625) - 0.1875) + 0.03125)


def test_fedprox_with_two_steps_gives_the_model_computed_by_hand() -> None:
    # The second steps as FedAvg's, and 0.5 of the way from x = 0 back: A 0.37754 - 0.125, B -0.76894 + 0.25.
    w = after(FedAvgPeer(SCRATCH, 1.0, LocalWork(2), l2=0.0, mu=0.5), [A, B])
    assert w == pytest.approx(0.25 * 0.25254 - 0.75 * 0.51894, abs=1e-5)


def test_feddyn_with_two_rounds_and_a_client_without_records_gives_the_model_computed_by_hand() -> None:
    # alpha 0.5. Round 1: A steps to 0.25, B to -0.5; g_A = -0.125, g_B = 0.25; h = -0.5 (0.25 - 0.5) / 3, since three
    # clients count; x = -0.125 - h / 0.5. Round 2, A alone, from x: w = x - (s(2x) - 0.75 + 0.125).
    first = -0.125 - 2.0 * 0.5 * 0.25 / 3
    moved = -(s(2 * first) - 0.75 + 0.125)
    h = 0.125 / 3 - 0.5 * moved / 3
    peer = FedDyn(SCRATCH, 1.0, 0.5, l2=0.0)
    assert after(peer, [A, NONE, B], [A, NONE, NONE]) == pytest.approx(first + moved - 2.0 * h)
    assert peer.own[:, 0, 0] == pytest.approx([-0.125 - 0.5 * moved, 0.0, 0.25])


def test_scaffold_with_two_rounds_and_a_client_without_records_gives_the_model_computed_by_hand() -> None:
    # Round 1, two steps, no variates yet: A 0.37754, B -0.76894 (as for FedAvg), each weighing the same; half of the
    # mean is taken. c_A = -0.37754 / 2, c_B = 0.76894 / 2, and c their sum / 3, since three clients count.
    first = 0.5 * (0.37754 - 0.76894) / 2
    own, c = -0.37754 / 2, (0.76894 - 0.37754) / 6
    # Round 2, A alone, from there.
    w1 = first - (s(2 * first) - 0.75 - own + c)
    w2 = w1 - (s(2 * w1) - 0.75 - own + c)
    peer = Scaffold(SCRATCH, 1.0, 0.5, LocalWork(2), l2=0.0)
    assert after(peer, [A, NONE, B], [A, NONE, NONE]) == pytest.approx(first + 0.5 * (w2 - first), abs=1e-5)
    assert peer.own[:, 0, 0] == pytest.approx([own - c + (first - w2) / 2, 0.0, 0.76894 / 2], abs=1e-5)


def test_cda_fedavg_trains_on_the_newest_records_of_earlier_rounds_also() -> None:
    # Round 2: A's memory of six is the end of round 1, 0 and 1, before the four of round 2: q = 4/6. B has no new
    # records, and still trains on the twelve that it has: it weighs 12 / 18.
    w1 = -0.3125
    w2 = w1 - (s(2 * w1) - (4 / 6) * 6 / 18)
    peer = CDAFedAvg(SCRATCH, 1.0, memory=12, l2=0.0)
    peer.learn(1, [A, B], 0.5)
    peer.memory = 6
    assert after(peer, [A, NONE]) == pytest.approx(w2)


def test_a_client_of_cda_fedavg_whose_model_has_become_less_sure_forgets_what_was_before() -> None:
    # Outputs are the second feature times (1, -1): the confidence is s(4), then s(0.5). Another client stays sure.
    def far(at: float, label: float) -> ClientRecords:
        jitter = np.tile([0.9, 1.0, 1.1], 50)
        return ClientRecords(np.column_stack([np.ones(150), at * jitter]), np.full(150, label))

    peer = CDAFedAvg(np.array([[0.0, 0.0], [1.0, -1.0]]), 0.0, memory=1000)
    assert peer.learn(1, [far(2.0, 0.0), far(2.0, 0.0)], 0.5) is None
    assert peer.learn(2, [far(0.25, 1.0), far(2.0, 0.0)], 0.5) == "confidence"
    assert peer.long[0].y.tolist() == [1.0] * 150
    assert [len(short) for short in peer.short_of] == [150, 300]
    assert len(peer.long[1].y) == 300
    # What is left is one concept: it gives no second alarm.
    assert peer.learn(3, [far(0.25, 1.0), far(2.0, 0.0)], 0.5) is None


def test_with_ifca_clients_that_differ_train_models_of_their_own() -> None:
    peer = IFCA(SCRATCH, 2, 1.0, l2=0.0)
    peer.stack = np.array([[[0.5, -0.5]], [[-0.5, 0.5]]])
    # A fits the first model, with s(1) for label 0 of which it has 3/4; B the second. B has more records.
    assert after(peer, [A, NONE, B]) == pytest.approx(-0.5 - s(-1))
    assert peer.stack[0, 0, 0] == pytest.approx(0.5 - (s(1) - 0.75))
    # Both choose the first: their steps count by records, and the second model stays.
    peer.stack = np.array([[[0.0, 0.0]], [[3.0, -3.0]]])
    assert after(peer, [A, B]) == pytest.approx(-0.3125)
    assert peer.stack[1, 0].tolist() == [3.0, -3.0]


def test_fednova_with_more_steps_on_the_larger_client_gives_the_model_computed_by_hand() -> None:
    # Batches of 4: A takes one step to 0.25, B three, to -0.5, -0.76894, -0.76894 - s(-1.53788) = -0.94578.
    # d_A = -0.25, d_B = 0.94578 / 3, tau_eff = 1/4 + 3 * 3/4 = 2.5.
    w = after(FedNova(SCRATCH, 1.0, work=LocalWork(batch=4), l2=0.0), [A, B])
    assert w == pytest.approx(-2.5 * (0.25 * -0.25 + 0.75 * 0.94578 / 3), abs=1e-5)


def test_fednova_with_momentum_gives_the_model_computed_by_hand() -> None:
    # Momentum 0.5, B: velocities 0.5, 0.25 + s(-1) = 0.51894, 0.25947 + s(-2.03788) = 0.37476; so w = -1.39370.
    # The first gradient enters 1 + 0.5 + 0.25 times, the second 1.5, the third once: a = 4.25. A: a = 1.
    w = after(FedNova(SCRATCH, 1.0, momentum=0.5, work=LocalWork(batch=4), l2=0.0), [A, B])
    tau_eff = 0.25 + 0.75 * 4.25
    assert w == pytest.approx(-tau_eff * (0.25 * -0.25 + 0.75 * 1.39370 / 4.25), abs=1e-5)


def test_fednova_with_a_pull_gives_the_model_computed_by_hand() -> None:
    # eta mu = 0.5, B: -0.5; -0.25 - s(-1) = -0.51894; -0.25947 - s(-1.03788) = -0.52103. Weights of the gradients:
    # 0.25, 0.5, 1: a = 1.75. tau_eff counts steps: 2.5.
    w = after(FedNova(SCRATCH, 1.0, mu=0.5, work=LocalWork(batch=4), l2=0.0), [A, B])
    assert w == pytest.approx(-2.5 * (0.25 * -0.25 + 0.75 * 0.52103 / 1.75), abs=1e-5)


def test_the_pull_is_to_the_rounds_model_not_to_zero() -> None:
    # A alone, from x = 1: the first step has no pull, the second pulls by half of what the first moved.
    w1 = 1.0 - (s(2.0) - 0.75)
    w2 = w1 - (s(2 * w1) - 0.75) - 0.5 * (w1 - 1.0)
    x = np.array([[1.0, -1.0]])
    assert after(FedAvgPeer(x, 1.0, LocalWork(2), l2=0.0, mu=0.5), [A]) == pytest.approx(w2)
    # FedNova: a = 0.5 + 1, tau_eff = 2.
    nova = FedNova(x, 1.0, mu=0.5, work=LocalWork(2), l2=0.0)
    assert after(nova, [A]) == pytest.approx(1.0 - 2.0 * (1.0 - w2) / 1.5)


def test_adaptive_fedavg_over_three_rounds_gives_the_model_computed_by_hand() -> None:
    # Round 1: w1 = -0.3125, from a mean of 0, so v = w1^2. Round 2 has still eta = 1. Before correction m = w1/2 and
    # v = w1^2/2; then v = w1^2/4 + (w2 - w1)^2/2, over 0.75; the ratio's own: 1/2, then 1/4 + ratio/2, over 0.75.
    w1 = -0.3125
    w2 = w1 - (s(2 * w1) - 0.1875)
    ratio = (w1**2 / 4 + (w2 - w1) ** 2 / 2) / 0.75 / w1**2
    eta = (0.25 + ratio / 2) / 0.75
    assert 0.1 < eta < 1.0
    w3 = w2 - eta * (s(2 * w2) - 0.1875)
    assert after(AdaptiveFedAvg(SCRATCH, 1.0, l2=0.0), *([A, B],) * 3) == pytest.approx(w3)
    # Over t, the step of round 2 is eta0 over 1, that of round 3 half of the above.
    halved = w2 - eta / 2 * (s(2 * w2) - 0.1875)
    assert after(AdaptiveFedAvg(SCRATCH, 1.0, True, l2=0.0), *([A, B],) * 3) == pytest.approx(halved)


def test_adaptive_fedavg_never_exceeds_its_first_step() -> None:
    # A model that stood at 1 and jumps to 9: the ratio is far above 1.
    peer = AdaptiveFedAvg(SCRATCH, 0.5)
    for theta in (1.0, 1.0, 1.0, 9.0):
        peer.follow(np.full((1, 2), theta))
    assert peer.eta == 0.5


# D = -0.3125 from the first round; tau = 0.1, so v starts at 0.01.
SQUARE = 0.3125**2


@pytest.mark.parametrize(
    ("rule", "v"),
    [("adagrad", 0.01 + SQUARE), ("adam", 0.99 * 0.01 + 0.01 * SQUARE), ("yogi", 0.01 + 0.01 * SQUARE)],
)
def test_adaptive_servers_give_the_models_computed_by_hand(rule: str, v: float) -> None:
    # beta1 = 0.9: m = 0.1 D, and no correction of its bias.
    peer = ServerAdaptive(SCRATCH, rule, server_step=2.0, tau=0.1, beta1=0.9, l2=0.0)  # type: ignore[arg-type]
    assert after(peer, [A, B]) == pytest.approx(2.0 * 0.1 * -0.3125 / (math.sqrt(v) + 0.1))


def test_yogi_lets_v_fall_slowly() -> None:
    # tau = 1: v = 1 is above D^2, so it falls by 0.01 D^2, where Adam's would fall by 0.01 (1 - D^2).
    peer = ServerAdaptive(SCRATCH, "yogi", server_step=1.0, tau=1.0, l2=0.0)
    assert after(peer, [A, B]) == pytest.approx(-0.3125 / (math.sqrt(1.0 - 0.01 * SQUARE) + 1.0))


def test_the_server_remembers_from_round_to_round() -> None:
    # AdaGrad, tau = 0.1: v adds up the squares of both rounds' differences.
    w1 = -0.3125 / (math.sqrt(0.01 + SQUARE) + 0.1)
    second = -(s(2 * w1) - 0.1875)
    w2 = w1 + second / (math.sqrt(0.01 + SQUARE + second**2) + 0.1)
    peer = ServerAdaptive(SCRATCH, "adagrad", server_step=1.0, tau=0.1, l2=0.0)
    assert after(peer, [A, B], [A, B]) == pytest.approx(w2)


def test_the_second_bet_is_made_with_what_the_first_has_gained() -> None:
    # g = 0.5 - 0.75, and the first bet is 0.25 / (0.25 * 25) * 0.25 = 0.01. It gains 0.01 times the next gradient.
    assert after(CoinBetting(SCRATCH, l2=0.0), [A]) == pytest.approx(0.01)
    g = s(0.02) - 0.75
    w = (0.25 - g) / (0.25 * 25.0) * (0.25 - 0.01 * g)
    assert after(CoinBetting(SCRATCH, l2=0.0), [A], [A]) == pytest.approx(w)


def test_bets_that_lose_all_begin_again_with_the_range() -> None:
    # B's gradient is s(0.02): the bet on label 0 loses 0.01 s(0.02), and no reward is left, not less than none.
    g = s(0.02)
    w = (0.25 - g) / (g * 100.0 * g) * g
    assert after(CoinBetting(SCRATCH, l2=0.0), [A], [B]) == pytest.approx(w)


def test_flash_takes_a_longer_step_than_adam_where_differences_grow() -> None:
    # The differences are 0.25 and 0.75 - s(2w). d is beta3 d + (1 - beta3) (D^2 - v), and so shortens the divisor.
    constants = {"server_step": 0.01, "tau": 0.3, "beta1": 0.9, "l2": 0.0}
    first = 0.25
    w = after(ServerAdaptive(SCRATCH, "flash", **constants), [A])
    v = 0.99 * 0.3**2 + 0.01 * first**2
    away = first**2 - v
    last = (1.0 - 0.3**2 / (abs(away) + 0.3**2)) * away
    assert w == pytest.approx(0.01 * 0.1 * first / (math.sqrt(v) - last + 0.3))
    grown, adam = ServerAdaptive(SCRATCH, "flash", **constants), ServerAdaptive(SCRATCH, "adam", **constants)
    grown.v, adam.v = np.full((1, 2), 1e-6), np.full((1, 2), 1e-6)
    assert after(grown, [A]) > 1.05 * after(adam, [A])


def test_flash_never_divides_by_less_than_tau() -> None:
    peer = ServerAdaptive(SCRATCH, "flash", server_step=0.1, tau=0.01, beta1=0.9, l2=0.0)
    assert after(peer, [A]) == pytest.approx(0.1 * 0.025 / 0.01)
