"""Replays in which each label comes some records of its client after its record."""

from typing import Any

import numpy as np
import pytest

from streamfl.errors import UsageError
from streamfl.machines.client.intake.waiting import Waiting
from streamfl.protocol.decisions import Predicted
from streamfl.protocol.records import Rejection
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.evaluation.result import Figures
from streamfl.run.replay import Replay, Replayed, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl.sampling import generator

ROUND = 20
DELAYS = (0, 1, 2, 7, 45)


def table(n: int, *, targets: bool = False, swap: int | None = None) -> Table:
    """Return records of two overlapping classes, which are exchanged at a row; or targets."""
    rng = generator(3, "late")
    y = rng.integers(0, 2, n).astype(np.float64)
    X = rng.normal(size=(n, 2)) * [1.0, 20.0] + np.outer(y, [2.0, 30.0])
    if targets:
        return Table("late", ("a", "b"), X, 5.0 + X[:, 0] + rng.normal(size=n), (), np.arange(n))
    if swap is not None:
        y = np.where(np.arange(n) >= swap, 1.0 - y, y)
    return Table("late", ("a", "b"), X, y, ("no", "yes"), np.arange(n))


def of_labels(text: str) -> Table:
    """Return records without anything to learn from, with a label for each letter."""
    names = tuple(dict.fromkeys(text))
    y = np.array([names.index(letter) for letter in text], np.float64)
    return Table("letters", ("x",), np.zeros((len(text), 1)), y, names, np.arange(len(text)))


def replayed(
    of: Table, delay: int, *, clients: int = 1, features: str = "rounds", size: int = ROUND, **options: Any
) -> tuple[Replayed, dict[str, list[Any]]]:
    """Return a replay, and what was answered to each record of each client."""
    served: dict[str, list[Any]] = {}

    def observe(event: object) -> None:
        if isinstance(event, Predicted):
            served.setdefault(event.client, []).extend(event.served.tolist())

    last_answer = options.pop("last_answer", False)
    learning = LearningSettings.model_validate({"features": features, "last_answer": last_answer})
    sizes = options.pop("sizes", None)
    settings = ReplaySettings(round_size=size, label_delay=delay, learning=learning, **{"min_records": 1, **options})
    return Replay(of, deal(of, clients, "round-robin", 0), settings, observe, sizes).run(), served


def figures(run: Replayed) -> Figures:
    told = run.result.accuracy or run.result.mae
    assert told is not None
    return told


# --- what is answered, and what NoChange says ------------------------------------------------------------------


def test_no_change_repeats_the_last_label_that_has_come():
    """Three records later: of a b b a a b the fourth is predicted as the first, and so on; a, b, b for a, a, b."""
    run, _ = replayed(of_labels("abbaab"), 3, size=3)
    assert figures(run).no_change == 2 / 6
    without, _ = replayed(of_labels("abbaab"), 0, size=3)
    assert figures(without).no_change == 2 / 6  # the third and the fifth


def test_no_change_repeats_the_last_target_that_has_come():
    """1 2 4 7 11 16, three records later: 0 0 0 1 2 4."""
    y = np.array([1.0, 2.0, 4.0, 7.0, 11.0, 16.0])
    run, _ = replayed(Table("targets", ("x",), np.zeros((6, 1)), y, (), np.arange(6)), 3, size=3)
    assert figures(run).no_change == pytest.approx((1 + 2 + 4 + 6 + 9 + 12) / 6)


@pytest.mark.parametrize("clients", [1, 2])
def test_models_of_rounds_answer_nothing_until_the_labels_of_the_first_round_have_come(clients):
    """The fifth label comes before the eighth record: seven of each client are answered with nothing."""
    run, served = replayed(table(30 * clients), 3, clients=clients, size=5)
    assert run.result.unanswered == 7 * clients
    assert all(of[:7] == [-1.0] * 7 and min(of[7:]) >= 0.0 for of in served.values())


@pytest.mark.compiles
@pytest.mark.parametrize("targets", [False, True])
def test_online_models_answer_nothing_until_the_first_label_has_come(targets):
    run, served = replayed(table(40, targets=targets), 3, features="auto", size=5)
    assert run.result.unanswered == 3
    (of,) = served.values()
    assert of[:3] == [0.0 if targets else -1.0] * 3
    assert (min(map(abs, of[3:])) > 0.0) if targets else (min(of[3:]) >= 0.0)


@pytest.mark.compiles
@pytest.mark.parametrize("features", ["auto", "rounds"])
@pytest.mark.parametrize("targets", [False, True])
def test_a_delay_longer_than_the_stream_answers_everything_without_models(features, targets):
    of = table(100, targets=targets)
    run, served = replayed(of, 1_000_000, features=features)
    result = run.result
    assert (result.unanswered, result.accepted, result.rounds) == (100, 100, 5)
    assert served == {"c0": [0.0 if targets else -1.0] * 100}
    nothing = pytest.approx(np.abs(of.y).mean() if targets else 0.0)
    assert (figures(run).prequential, figures(run).no_change) == (nothing, nothing)


@pytest.mark.compiles
@pytest.mark.parametrize("targets", [False, True])
def test_a_delay_of_one_record_gives_the_same_answers_as_no_delay(targets):
    of = table(7 * ROUND + 5, targets=targets)
    runs = [replayed(of, delay, clients=2, features="auto") for delay in (0, 1)]
    (without, first), (late, second) = runs
    assert first == second
    assert figures(late).prequential == figures(without).prequential
    assert figures(late).no_change == pytest.approx(figures(without).no_change, rel=1e-12)  # by another unit
    assert [told.records for told in late.rounds] == [told.records for told in without.rounds]


@pytest.mark.compiles
@pytest.mark.parametrize("targets", [False, True])
def test_a_delay_of_one_record_gives_the_same_answers_as_no_delay_with_the_last_answer(targets):
    of = table(7 * ROUND + 5, targets=targets)
    runs = [replayed(of, delay, clients=2, features="auto", last_answer=True)[1] for delay in (0, 1)]
    assert runs[0] == runs[1]


@pytest.mark.compiles
def test_the_later_labels_come_the_worse_a_drift_is_answered():
    """After the swap answers are wrong until labels from behind it have been learnt."""
    of = table(20 * ROUND, swap=10 * ROUND)
    right = {}
    for delay in (1, 40):
        _, served = replayed(of, delay, features="auto", size=10)
        right[delay] = np.array(served["c0"]) == of.y
    at = slice(10 * ROUND, 10 * ROUND + 40)
    assert right[1][at].mean() > right[40][at].mean() + 0.3
    assert right[40][at].mean() < 0.3


# --- models do not depend on the delay -------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.compiles
@pytest.mark.parametrize("features", ["auto", "rounds"])
def test_restarts_and_models_are_the_same_whatever_the_delay(features):
    of = table(3 * ROUND * 14 + 7, swap=3 * ROUND * 9)
    runs = [replayed(of, delay, clients=3, features=features)[0] for delay in DELAYS]
    first, told = runs[0].result, figures(runs[0])
    assert first.restarts
    for run in runs[1:]:
        result = run.result
        assert (result.restarts, result.local_drifts, result.notices, result.promotions) == (
            first.restarts, first.local_drifts, first.notices, first.promotions
        )  # fmt: skip
        assert (result.model_sha256, result.accepted, result.rounds) == (
            first.model_sha256, first.accepted, first.rounds
        )  # fmt: skip
        late = figures(run)
        assert (late.round_start, late.post_update, late.model_file) == (
            told.round_start, told.post_update, told.model_file
        )  # fmt: skip


@pytest.mark.compiles
def test_the_same_seed_gives_the_same_answers():
    of = table(5 * ROUND, swap=3 * ROUND)
    one, other = (replayed(of, 7, clients=2, features="auto", last_answer=True) for _ in range(2))
    assert one[1] == other[1]
    assert one[0].rounds == other[0].rounds
    assert one[0].result.model_sha256 == other[0].result.model_sha256


@pytest.mark.parametrize("delay", DELAYS)
def test_bad_records_are_passed_and_counted(delay):
    good = table(400)
    bad = np.arange(500)[np.arange(500) % 5 == 2]
    rejected = tuple(Rejection(int(place), "bad") for place in bad)
    spoilt = Table("spoilt", good.features, good.X, good.y, good.labels, np.setdiff1d(np.arange(500), bad), rejected)
    profile = ProfileSettings(detector="glr")  # which records are held back goes by their number, bad ones counted
    (run, served), (clean, _) = (replayed(of, delay, profile=profile) for of in (spoilt, good))
    result = run.result
    assert (result.records, result.accepted, result.rejected, result.pending) == (500, 400, 100, 0)
    assert result.model_sha256 == clean.result.model_sha256
    assert len(served["c0"]) == 400


def test_all_bad_records_may_lie_in_one_round():
    """Round 2 has records 20 to 24, and waits for five more behind 300 bad ones, more than there is room for."""
    good = table(100)
    rejected = tuple(Rejection(place, "bad") for place in range(25, 325))
    places = np.array([*range(25), *range(325, 400)])
    spoilt = Table("spoilt", good.features, good.X, good.y, good.labels, places, rejected)
    runs = [replayed(spoilt, delay, min_records=10)[0] for delay in DELAYS]
    for run in runs:
        result = run.result
        assert (result.records, result.accepted, result.rejected, result.pending) == (400, 100, 300, 0)
        assert [told.records for told in run.rounds] == [20, 10, 20, 20, 20, 10]
        assert result.model_sha256 == runs[0].result.model_sha256


def test_records_that_have_been_learnt_are_not_kept(monkeypatch):
    """With rounds of 20 and a delay of 7, those of two rounds before the watermark are, and of as many behind it."""
    held: list[int] = []

    def follow(self: Waiting, *given: Any) -> None:
        followed(self, *given)
        held.append(len(self._places))

    followed = Waiting.follow
    monkeypatch.setattr(Waiting, "follow", follow)
    assert replayed(table(100 * ROUND), 7)[0].result.expired == 0
    assert len(held) == 100
    assert max(held) <= 2 * (7 + 2 * ROUND)


def test_records_whose_labels_never_come_stay_pending():
    run, _ = replayed(table(23), 3, size=5, min_records=4)
    result = run.result
    assert (result.accepted, result.pending, result.waiting, result.expired) == (20, 3, 3, 0)


def test_a_result_without_a_delay_says_nothing_about_a_delay():
    result = replayed(table(40), 0)[0].result
    assert (result.label_delay, result.unanswered, result.waiting, result.expired) == (None, None, None, None)


def test_clients_with_delayed_labels_may_have_rounds_of_their_own_sizes():
    sizes = {"c0": (10, 20, 20), "c1": (5, 5, 40)}
    run, _ = replayed(table(100), 4, clients=2, sizes=sizes)
    assert [told.records for told in run.rounds] == [15, 25, 60]


@pytest.mark.parametrize("delay", [-1, 1_000_001])
def test_a_delay_out_of_bounds_is_refused(delay):
    with pytest.raises(UsageError, match="give 0 to 1,000,000"):
        ReplaySettings(label_delay=delay)
