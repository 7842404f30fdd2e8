"""Bounded influence: what one client of several can move, and that honest clients pass unchanged."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from suites.examples import examples
from unit.machines.script import answer, begun, coordinator, feed

from streamfl.learning.algorithms import FedAvg
from streamfl.learning.drift.detectors.excess import Excess
from streamfl.learning.drift.evidence import ClientEvidence, LiveModel, RoundEvidence
from streamfl.learning.influence import Contributions, Influence, judge, outliers
from streamfl.learning.local_round import Learner
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.aggregators import AGGREGATORS
from streamfl.machines.coordinator.round.aggregation import RoundAggregation
from streamfl.machines.coordinator.round_kinds.bounded_influence import bounded_scores, with_bounded_influence
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.models import Softmax
from streamfl.protocol.messages import LabelSums, Numbers, Scores, SlotLosses, Update
from streamfl.protocol.moments import Moments
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.records import Span
from streamfl.protocol.registry import Registry
from streamfl.protocol.tempered import tempered
from streamfl_benchmarks.liars.fields import altered

REGISTRY = Registry(1, ("x",), ("a", "b"), np.zeros(1), np.ones(1))
LIVE = (LiveModel("m", np.zeros((2, 2)), 1.0, whitened=True),)


def update(client: str, slope: float = 1.0, records: int = 100, loss: float = 0.3) -> Update:
    """A client whose gradients sum up to `slope` a record, in one direction."""
    x = records * slope * np.array([[1.0, -1.0], [0.5, -0.5]])
    return Update(
        client=client,
        attempt="1",
        entry=1,
        round=1,
        epoch=1,
        registry=1,
        records=records,
        trained=records,
        rejected=0,
        spans=(Span(client, 0, records),),
        numbers=Numbers(
            losses={"m": SlotLosses(loss=records * loss, square=records * loss**2, proper=records * loss)},
            differences={"m": x},
            squared_norm=2.0 * records,
            largest_norm=2.0,
            new=(LabelSums(label="a", count=records, loss=records * loss, square=records * loss**2),),
        ),
    )


def honest(n: int = 8) -> list[Update]:
    return [update(f"c{i}", 1.0 + 0.05 * i) for i in range(n)]


def made(updates, influence=None, **more):
    return with_bounded_influence(updates, LIVE, Agreement(REGISTRY, 2.0), influence or Influence(), **more)


def test_honest_updates_pass_as_they_are():
    updates = honest()
    result = made(updates)
    assert all(a is b for a, b in zip(result.updates, updates, strict=True))
    assert set(result.shares.values()) == {1.0}


@pytest.mark.parametrize(("times", "share"), [(6.0, 1.0), (8.0, 0.5), (12.0, 0.0), (1e6, 0.0)])
def test_the_share_of_an_update_falls_with_its_size_as_computed_by_hand(times, share):
    # Each sends two independent numbers, for the columns sum up to 0; 10 over 2 numbers of 5 clients is 1, so bounds
    # are twice as wide. The middle of 1, 1, 1, 1 and a liar is 1: up to six times as large counts, at eight times
    # half, at twelve nothing.
    result = made([*(update(f"c{i}") for i in range(4)), update("c9", times)])
    assert result.shares["c9"] == pytest.approx(share)
    moved = result.updates[-1].numbers.differences.get("m", np.zeros((2, 2)))
    assert moved[0, 0] == pytest.approx(100.0 * times * share)
    assert result.updates[-1].trained == (100 if share else 0)


def test_a_small_push_in_every_round_is_noticed():
    rng, influence, shares = np.random.default_rng(0), Influence(), {}
    for _ in range(30):
        sent = [altered(each, differences={"m": 100.0 * rng.normal(size=(2, 2))}) for each in honest()]
        sent.append(altered(update("c9"), differences={"m": np.array([[250.0, -250.0], [0.0, 0.0]])}))
        result = made(sent, influence)
        influence, shares = result.influence, result.shares
    assert shares["c9"] < 0.1
    assert {share for client, share in shares.items() if client != "c9"} == {1.0}


def test_histories_follow_the_client_in_the_state():
    result = made(honest())
    assert sorted(result.influence.histories["steps"]) == [f"c{i}" for i in range(8)]
    assert all(len(sketch) == 64 for sketch in result.influence.histories["steps"].values())


def test_a_thousandfold_weight_counts_as_ten_middle_clients():
    heavy = made([*honest(), update("c9", records=100_000)]).updates[-1]
    assert (heavy.records, heavy.trained, heavy.numbers.new[0].count) == (1000, 1000, 1000)
    assert heavy.numbers.losses["m"].loss == pytest.approx(300.0)
    assert heavy.numbers.squared_norm == pytest.approx(2000.0)


def scored(records: int, *, slope: float = 1.0, loss: float = 0.3) -> Scores:
    """Return scores of one candidate, with the sums that `update` has of the live model."""
    numbers = update("c9", slope, records, loss).numbers
    S = np.full((2, 2), -0.5 * records)
    return Scores(
        client="c9",
        attempt="1",
        entry=1,
        epoch=1,
        losses=numbers.losses,
        differences=numbers.differences,
        relabelling={"m": S},
    )


def test_scores_are_of_as_many_records_as_the_update_counts():
    # 4,000 records count as 1,000, so sums over them are a quarter: means are those of the client, 0.3 and -0.5.
    sent = update("c9", records=4000)
    counted = made([*honest(), sent]).updates[-1]
    fewer = bounded_scores(scored(4000), 1.0, sent, counted, {"m"})
    assert counted.records == 1000
    assert (fewer.losses["m"].loss, fewer.losses["m"].square, fewer.losses["m"].proper) == (300.0, 90.0, 300.0)
    assert fewer.losses["m"] == counted.numbers.losses["m"]
    assert fewer.relabelling["m"].tolist() == [[-500.0, -500.0], [-500.0, -500.0]]
    assert fewer.differences["m"].tolist() == [[1000.0, -1000.0], [500.0, -500.0]]
    # A difference of weights is no sum; half of it counts, if the client stands out.
    assert bounded_scores(scored(4000), 0.5, sent, counted, set()).differences["m"][0].tolist() == [2000.0, -2000.0]


def test_steps_of_candidates_count_less_if_records_are_too_long():
    # A squared norm of 32 a record, where eight times the middle one is 16: gradients are halved, as in the update.
    sent = altered(update("c9"), squared_norm=3200.0)
    result = made([*honest(), sent])
    counted, share = result.updates[-1], result.shares["c9"]
    halved = bounded_scores(scored(100), 1.0, sent, counted, {"m"})
    assert halved.differences["m"][0].tolist() == [50.0, -50.0]
    as_in_update = bounded_scores(scored(100), share, sent, counted, {"m"})
    assert as_in_update.differences["m"].tolist() == counted.numbers.differences["m"].tolist()
    assert halved.losses == sent.numbers.losses


def test_scores_of_an_update_that_counts_as_it_is_are_as_they_are():
    one = scored(100)
    assert bounded_scores(one, 1.0, update("c9"), update("c9"), {"m"}) is one


@given(st.lists(st.integers(1, 400), min_size=1, max_size=6))
def test_scores_by_label_that_count_as_fewer_keep_their_means(counts):
    told = tuple(LabelSums(label=f"l{i}", count=n, loss=0.3 * n, square=0.1 * n) for i, n in enumerate(counts))
    one = update("c9", records=max(2001, sum(counts)))
    left = made([*honest(), replace(one, numbers=replace(one.numbers, new=told))]).updates[-1].numbers.new
    for sums in left:  # a label of which nothing is left is not named
        assert sums.count
        assert (sums.loss / sums.count, sums.square / sums.count) == pytest.approx((0.3, 0.1))


def test_a_known_size_bounds_the_weight():
    assert [u.records for u in made([*honest(), update("c9", records=900)], most=120).updates][-2:] == [100, 120]


def test_clients_whose_rates_are_one_to_thirty_keep_their_influence():
    rates = (1, 2, 5, 12, 30, 30, 30, 30)
    updates = [update(f"c{i}", records=10 * rate) for i, rate in enumerate(rates)]
    assert [u.records for u in made(updates).updates] == [10 * rate for rate in rates]


def test_norms_far_beyond_all_others_are_cut_and_gradients_with_second_moments():
    slope, part = update("c9").numbers.differences["m"], 8.0 * 2.0 * 100 / 1e6
    norms = {"squared_norm": 1e6, "largest_norm": 1e3, "second_moments": np.diag([1e6 - 100.0, 100.0])}
    cut = made([*honest(), altered(update("c9"), differences={"m": slope / part}, **norms)]).updates[-1].numbers
    assert (cut.squared_norm, cut.largest_norm) == (8.0 * 2.0 * 100, 8.0 * 2.0)
    assert np.trace(cut.second_moments) == pytest.approx(cut.squared_norm)
    np.testing.assert_allclose(cut.differences["m"], slope)


def test_no_update_is_judged_among_three_clients():
    assert set(made([*honest(2), update("c9", 1e6)]).shares.values()) == {1.0}


@given(st.permutations(range(9)), st.floats(-1e3, 1e3))
def test_no_update_moves_the_sum_by_more_than_three_middle_ones(order, slope):
    """Whatever one client sends, the sum of steps moves by at most three times the middle size."""
    updates = [*honest(), update("c9", slope)]
    result = made([updates[i] for i in sorted(order)])
    mine = result.updates[-1].numbers.differences.get("m", np.zeros((2, 2)))
    middle = np.median([np.linalg.norm(u.numbers.differences["m"]) for u in updates])
    assert np.linalg.norm(mine) <= 3.0 * middle * (1.0 + 1e-9)


@given(st.permutations(range(5)))
@settings(max_examples=examples(20))
def test_the_order_of_arrival_changes_no_byte(order):
    def digest(order):
        machine = coordinator(5, scaling=True, profile=Promotion())
        opened = begun(machine, *(f"c{i}" for i in range(5)))
        moments = Moments(("x",), np.ones(1), np.zeros(1), np.ones(1))
        sent = [altered(answer(opened, f"c{i}"), moments=moments) for i in range(5)]
        big = {name: 50.0 * x for name, x in sent[3].numbers.differences.items()}
        sent[3] = altered(sent[3], differences=big)
        feed(machine, *(sent[i] for i in order))
        assert machine.state.round == 2
        histories = machine.state.influence.histories["steps"]
        return machine.digest(), [histories[name].tobytes() for name in sorted(histories)]

    assert digest(order) == digest(range(5))


def test_losses_that_rank_models_the_other_way_round_are_outliers():
    parts = {f"c{i}": np.array([0.3 + 0.01 * i, 0.2 + 0.01 * i]) for i in range(6)}
    assert outliers(parts) == frozenset()
    assert outliers(parts | {"liar": np.array([0.2, 0.5])}) == {"liar"}


@pytest.mark.parametrize(("clients", "most"), [(4, 0.06), (5, 0.06), (8, 0.03), (20, 0.01)])
@pytest.mark.parametrize("models", [4, 10])
def test_few_honest_clients_are_left_out_however_many_models_live(clients, most, models):
    """Where each column had its own spread it was 15 to 23% of four or five, with ten models."""
    rng = np.random.default_rng(0)
    rounds = [
        {f"c{i}": 0.4 + 0.05 * rng.normal() + 0.05 * rng.normal(size=models) for i in range(clients)}
        for _ in range(100)
    ]
    assert sum(len(outliers(each)) for each in rounds) / (100 * clients) <= most


def test_honest_clients_that_rank_two_models_the_other_way_by_chance_are_not_left_out():
    rng = np.random.default_rng(0)
    rounds = [{f"c{i}": np.array([0.35, 0.4]) + 0.02 * rng.normal(size=2) for i in range(20)} for _ in range(200)]
    assert sum(len(outliers(each)) for each in rounds) <= 4  # of 4,000; 18 if their ranking were judged again


def test_a_liar_that_reverses_ranks_stands_out_where_no_model_alone_shows_it():
    rng = np.random.default_rng(0)
    ranking = np.linspace(-0.05, 0.05, 10)
    caught = 0
    for _ in range(100):
        honest = {f"c{i}": 0.4 + ranking + 0.04 * rng.normal(size=10) for i in range(9)}
        caught += "liar" in outliers(honest | {"liar": 0.4 - ranking + 0.04 * rng.normal(size=10)})
    assert caught >= 80  # by columns alone 19


def test_losses_that_are_odd_change_no_mean():
    sent, live = [*honest(4), update("c9", records=300, loss=0.9)], (replace(LIVE[0], whitened=False),)
    learner, agreement = Learner(Softmax(), FedAvg()), Agreement(REGISTRY, 2.0)
    without = RoundAggregation.of(learner, agreement, sent, outliers=frozenset({"c9"}))
    played = without.observed(sent, live, t=1, known_labels=("a", "b"), serves="m").models["m"]
    assert (played.loss, played.proper, played.variance) == pytest.approx((0.3, 0.3, 0.0))


def answered(records: int) -> NativeLearnt:
    """What online models learnt that lost 0.4 a record."""
    none = np.zeros(0)
    return NativeLearnt(
        (), (), records, none, np.ones(2), none, none, none, none, none, none, none, loss=0.4 * records
    )


@pytest.mark.parametrize(
    ("records", "compared"), [((20, 20, 9), {}), ((20, 20, 10), {"c0": 0.4, "c1": 0.4, "c2": 0.4})]
)
def test_fewer_than_fifty_records_do_not_say_how_well_online_models_answer(records, compared):
    sent = [update(f"c{i}", records=n) for i, n in enumerate(records)]
    sent = [replace(one, numbers=replace(one.numbers, learnt=answered(one.records))) for one in sent]
    observed = RoundAggregation.of(Learner(Softmax(), FedAvg()), Agreement(REGISTRY, 2.0), sent).observed(
        sent, (replace(LIVE[0], whitened=False),), t=1, known_labels=("a", "b"), serves="m"
    )
    assert observed.online_losses == compared
    assert (observed.online_loss is not None) == bool(compared)


def excess_of(liars: int, new: float, old: float, rise: float) -> tuple[list[int], list[tuple[str, ...]]]:
    """Rounds of alarms for all, and the clients of local ones: eight or nine honest clients rise in round 20."""
    rng, detector = np.random.default_rng(1), Excess()
    restarts, local = [], []
    for t in range(1, 31):
        parts = {}
        for i in range(10):
            lies = i < liars
            mean = new if lies else 0.25 + 0.02 * rng.normal() + (rise if t >= 20 else 0.0)
            base = old if lies else 0.25
            sums = [
                LabelSums(label="a", count=n, loss=n * m, square=n * (m**2 + (0.0 if lies else 0.04)))
                for n, m in ((60, mean), (40, base))
            ]
            parts[f"c{i}"] = ClientEvidence(60, {}, (sums[0],), (sums[1],))
        alarm = detector.update(RoundEvidence(t, 600, {}, clients=parts), {})
        if alarm is not None and alarm.local:
            local.append(alarm.clients)
            detector.forget(alarm.clients)
        elif alarm is not None:
            restarts.append(t)
            detector.reset()
    return restarts, local


@pytest.mark.parametrize("liars", [1, 2])
def test_liars_neither_hide_a_drift_nor_make_one_up(liars):
    names = tuple(f"c{i}" for i in range(liars))
    assert excess_of(liars, new=0.0, old=1.0, rise=0.2)[0][:1] == [20]  # low losses
    restarts, local = excess_of(liars, new=1.0, old=0.0, rise=0.0)  # high ones: a local drift at the liars
    assert restarts == []
    assert set(local) == {names}


def test_moments_that_are_outliers_are_moved_nearer_and_honest_ones_are_not():
    each = [Moments(("x",), np.array([50.0]), np.array([0.1 * i]), np.array([50.0])) for i in range(8)]
    assert all(a is b for a, b in zip(tempered(each), each, strict=True))
    far = tempered([*each, Moments(("x",), np.array([50.0]), np.array([1e9]), np.array([1e18]))])[-1]
    # 10 deviations: 1 within clients, and 1.4826 times the middle distance of 0.2 between their means; around 0.4.
    bound = 10.0 * np.sqrt(1.0 + (1.4826 * 0.2) ** 2)
    assert far.mean[0] == pytest.approx(0.4 + bound)
    assert far.m2[0] == pytest.approx(50.0 * bound**2)


def test_values_that_count_as_fewer_keep_their_variance():
    each = [Moments(("x",), np.array([50.0]), np.array([0.1 * i]), np.array([50.0])) for i in range(8)]
    heavy = tempered([*each, Moments(("x",), np.array([50_000.0]), np.array([0.3]), np.array([50_000.0]))])[-1]
    assert (heavy.count, heavy.mean, heavy.variance) == pytest.approx((500.0, 0.3, 1.0))


@pytest.mark.parametrize("name", [name for name in AGGREGATORS if name != "mean"])
def test_three_liars_of_ten_do_not_move_an_aggregation(name):
    rng = np.random.default_rng(0)
    X = 1.0 + 0.1 * rng.normal(size=(10, 3, 2))
    X[:3] = -50.0
    combined = AGGREGATORS[name](X, X, np.full(10, 60.0))
    assert np.abs(combined - 1.0).max() < 0.2


def test_sizes_may_differ_by_noise_alone():
    # A mean over 25 records has twice the noise of one over 100, and is judged by half its size.
    sizes, records = np.array([1.0, 1.0, 1.0, 1.0, 6.0]), np.array([100.0, 100.0, 100.0, 100.0, 25.0])
    sent = Contributions(("c0", "c1", "c2", "c3", "c4"), records, sizes, np.zeros((5, 64)), 10**6)
    assert judge(sent, {}).shares["c4"] == pytest.approx(1.0)
    assert judge(sent._replace(records=np.full(5, 100.0)), {}).shares["c4"] == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("features", [1, 2])
def test_honest_clients_hardly_ever_stand_out_where_few_clients_send_few_numbers(features):
    rng, scaled, rounds = np.random.default_rng(1), 0, 400
    names, records, histories = tuple(f"c{i}" for i in range(6)), np.full(6, 40.0), {}
    for _ in range(rounds):
        steps = rng.normal(size=(6, 1 + features, 1, 1)) * np.array([1.0, -1.0])
        shares, histories = judge(Contributions.of("steps", names, records, steps), histories)
        scaled += sum(share < 1.0 for share in shares.values())
    assert scaled <= 0.002 * rounds * len(names)
