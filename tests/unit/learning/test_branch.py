"""Latches and branches by hand: which trial gains most, whether surely, and when a branch is over."""

from collections.abc import Mapping

import numpy as np
import pytest

from streamfl.learning.drift.detectors.few_clients import RISES
from streamfl.learning.drift.evidence import ClientEvidence, ModelEvidence, RoundEvidence
from streamfl.learning.profiles.adaptive.branch import Branch, Latch, Trial
from streamfl.learning.profiles.adaptive.ladder import Ladder
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.messages import BranchGroup

W = np.zeros((1, 1))
ALARM = Alarm("excess", 12.0, 9.2, 8, ("c0", "c1"), local=True)
RECORDS = {"c0": 10, "c1": 30, "c2": 500}


def observed(scores: Mapping[str, Mapping[str, float]], t: int = 9) -> RoundEvidence:
    """Return a round from mean scores by client and model; every model is stepped to the number of its round."""
    parts = {c: ClientEvidence(RECORDS[c], {m: RECORDS[c] * x for m, x in by.items()}) for c, by in scores.items()}
    models = {name for by in scores.values() for name in by}
    return RoundEvidence(t, 540, {name: ModelEvidence(0.5, 0.5, W + t) for name in models}, clients=parts)


def latch(*trials: str, clients: tuple[str, ...] = ("c0", "c1")) -> Latch:
    return Latch(clients, ALARM, 10, {name: Trial(W) for name in trials})


def test_trials_are_live_for_the_latched_clients_alone() -> None:
    live = latch("scratch", "shadow").live(4.0, whitened=True)
    assert [(x.name, x.eta, x.trained, x.clients, x.whitened) for x in live] == [
        ("trial/scratch", 4.0, True, ("c0", "c1"), True),
        ("trial/shadow", 4.0, True, ("c0", "c1"), True),
    ]


def test_a_trial_s_gain_is_what_the_incumbent_loses_more_at_each_client() -> None:
    trials = latch("scratch", "absent")
    scores = {c: {"step 16": 0.5, "trial/scratch": x} for c, x in (("c0", 0.4), ("c1", 0.2), ("c2", 0.0))}
    trials.close(observed(scores), "step 16")
    gains = trials.trials["scratch"].gains
    assert gains == [(pytest.approx(0.1), 10), (pytest.approx(0.3), 30)]
    assert trials.trials["scratch"].W.tolist() == [[9.0]]
    assert (trials.trials["absent"].gains, trials.trials["absent"].W.tolist()) == ([], [[0.0]])
    trials.close(observed({"c1": {"step 16": 0.5, "trial/scratch": 0.5}}), "step 16")  # c0 is away
    assert gains[2:] == [(pytest.approx(0.0), 30)]


@pytest.mark.parametrize(("lead", "name"), [(1e-6, "scratch"), (-1e-6, None)])
def test_the_best_trial_must_gain_two_standard_errors_and_a_hundredth(lead: float, name: str | None) -> None:
    # Gains g0 = m - 0.06 and g1 = m + 0.02 over 10 and 30 records: mean m, error sqrt(2/1 * ((10 * 0.06)^2
    # + (30 * 0.02)^2)) / 40 = 0.03. So m must be 0.01 + 0.06.
    mean = 0.01 + 0.06 + lead
    trials = latch("shadow", "scratch", "without records")
    trials.trials["scratch"].gains = [(mean - 0.06, 10), (mean + 0.02, 30)]
    trials.trials["shadow"].gains = [(0.04, 10), (0.04, 30)]
    assert trials.best() == name


def test_without_gains_there_is_no_best_trial() -> None:
    assert latch("scratch").best() is None


def test_a_single_client_and_round_has_no_finite_error() -> None:
    trials = latch("scratch")
    trials.trials["scratch"].gains = [(0.9, 500)]
    assert (trials.best(), trials.is_open(10)) == (None, True)
    trials.trials["scratch"].gains *= 2
    assert trials.best() == "scratch"


@pytest.mark.parametrize(
    ("gains", "opened"),
    [
        ([(0.2, 10), (0.21, 10)], (True, False, False)),  # it surely gains
        ([(0.0, 10), (0.0, 10)], (True, False, False)),  # it surely does not
        ([(0.3, 10), (-0.1, 10)], (True, True, False)),  # 0.1, error sqrt(2 * 2 * 2^2)/20 = 0.2: it may
        ([(-0.2, 10), (-0.2, 10)], (True, False, False)),
    ],
)
def test_clients_stay_latched_while_the_trials_are_undecided(
    gains: list[tuple[float, int]], opened: tuple[bool, ...]
) -> None:
    trials = latch("scratch")
    trials.trials["scratch"].gains = gains
    # Latched up to round 10, two after the alarm's, whatever the trials gain, and up to 18 if need be.
    assert tuple(trials.is_open(t) for t in (9, 10, 18)) == opened
    assert trials.is_open(17) is opened[1]


def test_the_model_of_a_branch_is_tried_as_it_is() -> None:
    trials = Latch(("c0",), ALARM, 10, {"join-branch-3": Trial(W, joins="branch-3")})
    assert [(x.name, x.trained) for x in trials.live(4.0, whitened=True)] == [("trial/join-branch-3", False)]


def branch(gain: float = 0.05, began: int = 11) -> Branch:
    ladder = Ladder(prefix="branch-8/")
    ladder.reset(W, W)
    return Branch(("c0", "c1"), ALARM, ladder, began, gain)


def gains(branch: Branch, gain: float, t: int, client: str = "c0") -> None:
    branch.close(observed({client: {"step 16": 0.5, "branch-8/step 16": 0.5 - gain}}, t), "step 16")


def test_the_gain_is_a_running_mean_that_starts_at_a_twentieth() -> None:
    tested = branch()
    gains(tested, 0.2, 11)
    assert tested.gain == pytest.approx(0.9 * 0.05 + 0.1 * 0.2)
    gains(tested, 0.0, 12, client="c2")  # its own clients had no records
    assert tested.gain == pytest.approx(0.065)
    gains(tested, -0.1, 13)
    assert tested.gain == pytest.approx(0.9 * 0.065 - 0.1 * 0.1)


def test_a_branch_without_gain_is_over_once_its_first_credit_is_used_up() -> None:
    # 0.05 * 0.9^26 = 0.00323, 0.05 * 0.9^27 = 0.00291: after its 27th round.
    tested = branch()
    over = []
    for t in range(11, 11 + 40):
        gains(tested, 0.0, t)
        over.append(tested.is_over(t))
    assert over.index(True) == 26


def test_a_branch_lives_for_ten_rounds_at_least() -> None:
    tested = branch(gain=-1.0)
    assert [tested.is_over(t) for t in range(11, 22)] == [False] * 9 + [True] * 2


def test_a_branch_that_gains_stays() -> None:
    tested = branch()
    for t in range(11, 200):
        gains(tested, 0.0031, t)
        assert not tested.is_over(t)


def test_the_variance_of_a_gain_is_a_running_mean_around_the_gain() -> None:
    tested = branch()
    tested.close(
        observed({c: {"step 16": 0.5, "branch-8/step 16": x} for c, x in (("c0", 0.3), ("c1", 0.4))}), "step 16"
    )
    # Around 0.05: 10 * 0.15^2 and 30 * 0.05^2, a mean of 0.15.
    assert tested.variance == pytest.approx(0.9 * 0.1 + 0.1 * 0.15)


def test_the_statistic_of_a_return_by_hand() -> None:
    # The model of all is better by 0.15 over 40 records, twice; the first variance of a record's gain is 0.1.
    tested = branch()
    worse = {c: {"step 16": 0.5, "branch-8/step 16": 0.65} for c in ("c0", "c1")}
    tested.close(observed(worse), "step 16")
    first = np.exp((RISES * 0.14 - RISES**2 / 2.0) / (0.1 / 40))
    assert np.exp(tested.logs) == pytest.approx(first)
    variance = 0.9 * 0.1 + 0.1 * (10 * 0.2**2 + 30 * 0.2**2) / 2
    tested.close(observed(worse), "step 16")
    second = np.exp((RISES * 0.14 - RISES**2 / 2.0) / (variance / 40))
    assert np.exp(tested.logs) == pytest.approx((1.0 + first) * second)
    mean = float(np.exp(tested.logs).mean())
    assert (tested.has_returned(mean * 0.999), tested.has_returned(mean * 1.001)) == (True, False)


def test_a_return_is_found_when_the_model_of_all_is_surely_better_and_not_before() -> None:
    tested = branch()
    for t in range(11, 60):
        gains(tested, 0.2, t)
        assert not tested.has_returned(20.0)
    rounds = []
    for t in range(60, 70):
        gains(tested, -0.3, t)
        rounds.append(tested.has_returned())
    assert rounds.index(True) <= 3


def test_an_alarm_may_show_a_return() -> None:
    tested = branch()
    assert not tested.has_returned()
    tested.returned = True
    assert tested.has_returned()


def test_the_group_names_its_clients_and_the_model_that_serves_them() -> None:
    assert branch().group() == BranchGroup(clients=("c0", "c1"), serves="branch-8/step 16", branch="branch-11")


def test_a_branch_remembers_its_own_clients_records() -> None:
    tested = branch()  # c0 and c1 have 40 of the 540 records
    for t in (11, 12):
        tested.step(observed({c: {"branch-8/step 16": 0.5} for c in RECORDS}, t), W)
    assert tested.ladder.rungs[0].loss == pytest.approx(0.96 * 0.5 + 0.5)
    tested.step(observed({"c1": {"branch-8/step 16": 0.5}, "c2": {"branch-8/step 16": 0.5}}, 13), W)  # c0 is away
    assert tested.ladder.rungs[0].loss == pytest.approx(0.97 * 0.98 + 0.5)


def test_the_model_that_played_is_kept_as_it_was_before_its_step() -> None:
    tested = branch()
    assert tested.served is None
    for t, before in ((11, 0.0), (12, 11.0)):
        round_ = observed({"c0": {"step 16": 0.5, "branch-8/step 16": 0.4}}, t)
        tested.close(round_, "step 16")
        tested.step(round_, W)
        assert tested.served is not None
        assert tested.served.tolist() == [[before]]
    tested.transform(lambda model: model + 0.5)
    assert tested.served.tolist() == [[11.5]]


def test_a_branch_is_silent_after_ten_rounds_without_records() -> None:
    young, active = branch(began=11), branch(began=11)
    assert [young.is_silent(t) for t in (20, 21)] == [False, True]
    active.close(observed({"c0": {"step 16": 0.5, "branch-8/step 16": 0.4}}, 15), "step 16")
    active.close(observed({"c2": {"step 16": 0.5}}, 16), "step 16")
    assert [active.is_silent(t) for t in (24, 25)] == [False, True]
