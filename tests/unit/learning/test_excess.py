"""The excess test: its numbers by hand, what is compared with what, new labels, and local and global drift."""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from streamfl.learning.drift.detectors.dispersion import Dispersion
from streamfl.learning.drift.detectors.excess import Cells, Excess, Excesses
from streamfl.learning.drift.detectors.few_clients import RISES, FewClients, Rise
from streamfl.learning.drift.evidence import ClientEvidence, RoundEvidence
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.messages import LabelSums


def sums(label: str, count: int, loss: float, square: float) -> LabelSums:
    return LabelSums(label=label, count=count, loss=loss, square=square)


def around(label: str, count: int, mean: float, variance: float = 0.04) -> LabelSums:
    """Return the sums of scores of a mean and a variance."""
    return sums(label, count, count * mean, count * (mean**2 + variance))


def observed(t: int, parts: Mapping[str, ClientEvidence], known: tuple[str, ...] = ()) -> RoundEvidence:
    return RoundEvidence(t, sum(part.records for part in parts.values()), {}, known_labels=known, clients=parts)


def part(*new: LabelSums, old: tuple[LabelSums, ...] = ()) -> ClientEvidence:
    return ClientEvidence(sum(x.count for x in new), {}, new, old)


# Label a: c0 and c2 have held out enough for baselines of 0.1 and 0.3; c1, with two records, borrows the mean of all
# twelve, 2.8/12. Label b: c0 has three; c1 has none, and three are not enough to borrow from.
TABLE = {
    "c0": part(
        sums("a", 10, 4.0, 2.0), sums("b", 8, 4.0, 2.5), old=(sums("a", 4, 0.4, 0.08), sums("b", 3, 0.9, 0.3))
    ),
    "c1": part(sums("a", 5, 3.0, 2.0), sums("b", 4, 2.0, 1.0), old=(sums("a", 2, 0.6, 0.2),)),
    "c2": part(sums("a", 6, 1.8, 0.6), old=(sums("a", 6, 1.8, 0.6),)),
}
LENT = 2.8 / 12
# Within cells: 0.08 - 0.16/4 = 0.04, 0.2 - 0.36/2 = 0.02, 0.6 - 3.24/6 = 0.06 over 3 + 1 + 5 degrees of freedom, and
# as if by 20 more that over all twelve, (0.88 - 2.8^2/12)/11; this round's 21 records of label a have 4.6 - 8.8^2/21.
# For b: 0.3 - 0.81/3 = 0.03 over 2 both ways, and 2.5 - 16/8 = 0.5.
OLD_A = (0.12 + 20 * (0.88 - 2.8**2 / 12) / 11) / 29
V_A = (4.6 - 8.8**2 / 21 + 20 * OLD_A) / 41
V_B = (0.5 + 20 * 0.015) / 28
# Clients' means 0.1 and 0.3 have variance 0.02, of which chance explains the mean of V_A/4 and V_A/6.
BETWEEN_A = 0.02 - V_A * (1 / 4 + 1 / 6) / 2


def excesses(groups: Mapping[str, int] | None = None) -> Excesses:
    return Excesses.of(Cells.of(TABLE, groups or {}))


def mask(client: int | None = None, label: int | None = None) -> np.ndarray:
    chosen = np.zeros((3, 2), np.bool_)
    chosen[slice(None) if client is None else client, slice(None) if label is None else label] = True
    return chosen


def test_usable_records_and_variances_by_hand() -> None:
    found = excesses()
    assert found.n.tolist() == [[10, 8], [5, 0], [6, 0]]
    assert found.total.tolist() == [
        pytest.approx([4.0 - 10 * 0.1, 4.0 - 8 * 0.3]),
        pytest.approx([3.0 - 5 * LENT, 0.0]),
        pytest.approx([0.0, 0.0]),
    ]
    assert found.variance == pytest.approx([V_A, V_B])


def test_the_stream_of_all_by_hand() -> None:
    sample = excesses().pooled(mask())
    n, total = 29, 3.0 + 1.6 + (3.0 - 5 * LENT)
    H = (10**2 * V_A / 4 + 6**2 * V_A / 6 + 8**2 * V_B / 3 + 5**2 * BETWEEN_A + 5**2 * V_A / 12) / n**2
    assert sample.count == n
    assert sample.excess == pytest.approx(total / n - 0.01 - 3.0 * math.sqrt(H))


def test_a_client_s_and_a_label_s_stream_by_hand() -> None:
    # c1 has only its borrowed cell: r^2 sums to 2 - 2 * 3 LENT + 5 LENT^2; its variance shrinks towards V_A.
    found = excesses()
    sample, mean = found.pooled(mask(client=1)), 0.6 - LENT
    spread = (2.0 - 6.0 * LENT + 5 * LENT**2) / 5 - mean**2
    assert sample.count == 5
    assert sample.excess == pytest.approx(mean - 0.01 - 3.0 * math.sqrt(BETWEEN_A + V_A / 12))
    assert sample.variance == pytest.approx((5 * spread + 20 * V_A) / 25 / 5)
    # Label b is c0's own cell: r^2 sums to 2.5 - 2 * 0.3 * 4 + 8 * 0.09 = 0.82, mean 0.2.
    sample = found.pooled(mask(label=1))
    assert (sample.count, sample.excess) == (8, pytest.approx(0.2 - 0.01 - 3.0 * math.sqrt(V_B / 3)))
    assert sample.variance == pytest.approx((8 * (0.82 / 8 - 0.04) + 20 * V_B) / 28 / 8)


def test_cells_that_borrow_one_baseline_share_its_error() -> None:
    # Two clients borrow from ten records of a third: (n1 + n2)^2 v/10, not (n1^2 + n2^2) v/10. Scores do not vary,
    # so v is the least variance. One client with a baseline of its own tells no spread between clients: then B = v.
    cells = {c: part(around("a", 20, 0.5, 0.0)) for c in ("c1", "c2")} | {
        "c0": part(old=(around("a", 10, 0.5, 0.0),))
    }
    sample = Excesses.of(Cells.of(cells, {})).pooled(np.ones((3, 1), np.bool_))
    H = (2 * 20**2 * 0.002 + 40**2 * 0.002 / 10) / 40**2
    assert sample.excess == pytest.approx(-0.01 - 3.0 * math.sqrt(H))


def test_scores_that_vary_less_than_the_floor_count_as_if_they_varied_so_much() -> None:
    cells = {"c0": part(around("a", 50, 0.5, 0.0), old=(around("a", 25, 0.5, 0.0),))}
    assert Excesses.of(Cells.of(cells, {})).pooled(np.ones((1, 1), np.bool_)).variance == pytest.approx(0.002 / 50)


def test_one_record_of_a_label_at_each_client_shows_how_scores_vary() -> None:
    # Ten clients hold out one record each, of scores 0.4 and 0.8: 0.4 over nine. This round's records do not vary.
    cells = {
        f"c{i}": part(around("a", 2, 0.6, 0.0), old=(around("a", 1, 0.4 + 0.4 * (i % 2), 0.0),)) for i in range(10)
    }
    assert Excesses.of(Cells.of(cells, {})).variance == pytest.approx([0.4 / 9])


def test_a_client_apart_never_borrows_from_those_served_by_another_model() -> None:
    found = excesses({"c1": 1})
    assert found.n.tolist() == [[10, 8], [0, 0], [6, 0]]
    # With one of its own kind it borrows from that one alone, whatever the others' records say.
    mate = part(old=(around("a", 10, 0.7),))
    cells = Cells.of({**TABLE, "c3": mate}, {"c1": 1, "c3": 1})
    assert Excesses.of(cells).total[1, 0] == pytest.approx(3.0 - 5 * (0.6 + 7.0) / 12)


def filled() -> Excess:
    detector = Excess()
    detector.reset(filled=True)
    return detector


def test_the_statistic_of_two_rounds_by_hand() -> None:
    # One client and one label: two equal streams, and that of few. 50 records at 0.35 against 25 at 0.2, variance
    # 0.04: within cells 25 * 0.04 / 24; both r and the new scores vary less, so V = v / 50 and H = v / 25.
    detector, v = filled(), 25 * 0.04 / 24
    x, V = 0.15 - 0.01 - 3.0 * math.sqrt(v / 25), v / 50
    factors = np.exp(RISES * x / V - RISES**2 / (2 * V))
    parts = {"c": part(around("a", 50, 0.35), old=(around("a", 25, 0.2),))}
    detector.update(observed(1, parts), {})
    assert detector.reading is not None
    assert detector.few.rounds == [{"c": Rise(pytest.approx(0.14), pytest.approx(V), pytest.approx(v / 25))}]
    lone = math.exp(detector.few.statistic())
    assert detector.reading.statistic == pytest.approx(math.log((2.0 * factors.mean() + lone) / 3.0))
    assert detector.reading.threshold == pytest.approx(9.21034)
    detector.update(observed(2, parts), {})
    lone, M = math.exp(detector.few.statistic()), ((1.0 + factors) * factors).mean()
    assert detector.reading.statistic == pytest.approx(math.log((2.0 * M + lone) / 3.0))


def test_held_out_records_are_stale_when_new_ones_are_surely_easier() -> None:
    # As above, and the new records lie 0.15 below: only what falls is counted, by the same recursion.
    detector, v = filled(), 25 * 0.04 / 24
    x, V = 0.15 - 0.01 - 3.0 * math.sqrt(v / 25), v / 50
    factors = np.exp(RISES * x / V - RISES**2 / (2 * V))
    easier = {"c": part(around("a", 50, 0.05), old=(around("a", 25, 0.2),))}
    assert detector.update(observed(1, easier), {}) is None
    assert np.exp(detector.eased) == pytest.approx(factors)
    assert not detector.is_stale
    rounds = 1
    while not detector.is_stale:
        rounds += 1
        assert detector.update(observed(rounds, easier), {}) is None
    M = factors
    for _ in range(rounds - 1):
        M = (1.0 + M) * factors
    assert M.mean() >= 1e4 > ((M / factors) - 1.0).mean()
    detector.reset()
    assert not detector.is_stale


def test_held_out_records_are_not_stale_when_new_ones_are_harder_or_alike() -> None:
    for new in (0.2, 0.35):
        detector = filled()
        for t in range(1, 30):
            detector.update(observed(t, {"c": part(around("a", 50, new), old=(around("a", 25, 0.2),))}), {})
        assert not detector.is_stale


def test_all_records_a_few_clients_and_labels_have_a_third_each() -> None:
    # Means of M: 6; (1 + 15) / 2 = 8; of few 1, where nothing is known: the mean of the three is 5.
    M = {"": 6.0, "label x": 1.0, "label y": 15.0}
    unknown = FewClients([{"a": Rise(0.0, 1e9, 1e9)}])
    detector = Excess(logs={name: [math.log(m)] * 6 for name, m in M.items()}, few=unknown)
    assert detector.statistic() == pytest.approx(math.log(5.0))
    # Rises weigh the same: the mean of 0, 0, 0, 0, 0 and 90.
    detector.logs[""] = [-math.inf] * 5 + [math.log(90.0)]
    assert detector.statistic() == pytest.approx(math.log((15.0 + 1.0 + 8.0) / 3.0))


def test_statistics_too_large_for_a_number_stay_logarithms() -> None:
    detector = filled()
    parts = {"c": part(around("a", 10**7, 0.9), old=(around("a", 1000, 0.1),))}
    alarm = detector.update(observed(1, parts), {})
    assert alarm is not None
    assert 1e6 < alarm.statistic < math.inf


def quiet(*clients: str, records: int = 50) -> dict[str, ClientEvidence]:
    return {c: part(around("a", records, 0.2), old=(around("a", 25, 0.2),)) for c in clients}


def test_an_absent_client_is_named_by_earlier_rounds() -> None:
    detector = filled()
    risen = {"c0": part(around("a", 50, 0.9), old=(around("a", 25, 0.2),))}
    detector.update(observed(1, {**quiet("c1"), **risen}), {})
    detector.update(observed(2, quiet("c1", "c2")), {})
    assert [set(rises) for rises in detector.few.rounds] == [{"c0", "c1"}, {"c1", "c2"}]
    assert detector.few.surely_drifted(["c0", "c1", "c2"]) == ("c0",)


def test_a_client_with_fewer_than_three_records_is_no_evidence() -> None:
    detector = filled()
    for t, count in ((1, 2), (2, 3)):
        few = {"c1": part(around("a", count, 0.9), old=(around("a", 25, 0.2),))}
        detector.update(observed(t, {**quiet("c0"), **few}), {})
    assert [set(rises) for rises in detector.few.rounds] == [{"c0"}, {"c0", "c1"}]


def test_clients_that_another_model_serves_are_forgotten_with_their_streams() -> None:
    detector = filled()
    detector.update(observed(1, quiet("c0", "c1")), {})
    detector.forget(["c0"])
    assert (detector.logs, [set(rises) for rises in detector.few.rounds]) == ({}, [{"c1"}])
    detector.reset()
    assert detector.few.rounds == []


@pytest.mark.parametrize(("usable", "updates"), [(19, False), (20, True)])
def test_a_round_of_less_than_twenty_usable_records_updates_nothing(usable: int, updates: bool) -> None:
    detector = filled()
    unusable = part(around("b", 500, 0.2))  # nothing was held out of it
    detector.update(observed(1, {**quiet("c0", records=usable), "c1": unusable}), {})
    assert bool(detector.logs) is updates
    assert (detector.reading is not None) is updates


def test_the_first_three_rounds_only_fill_the_baseline() -> None:
    detector = Excess()
    risen = {"c0": part(around("a", 500, 0.9), old=(around("a", 25, 0.2),))}
    assert [detector.update(observed(t, risen), {}) for t in (1, 2, 3)] == [None] * 3
    assert (detector.logs, detector.reading) == ({}, None)
    assert detector.update(observed(4, risen), {}) is not None
    detector.reset()
    assert [detector.update(observed(t, risen), {}) for t in (5, 6, 7)] == [None] * 3


# --- new labels ----------------------------------------------------------------------------------------------------


def with_new(count: int, held: int = 0) -> dict[str, ClientEvidence]:
    old = (around("a", 25, 0.2), *((around("b", held, 1.0),) if held else ()))
    return {"c0": part(around("a", 1000 - count, 0.2), around("b", count, 1.0, 0.0), old=old)}


def test_a_new_label_is_an_alarm_beyond_a_twentieth_of_the_records() -> None:
    alarm = filled().update(observed(7, with_new(51), ("a",)), {})
    assert alarm == Alarm("new-label", 0.051, 0.05, since=7, labels=("b",))
    assert filled().update(observed(7, with_new(50), ("a",)), {}) is None


def test_a_label_is_no_alarm_if_it_is_known_or_held_out_or_if_none_was_known() -> None:
    assert filled().update(observed(1, with_new(500), ("a", "b")), {}) is None
    assert filled().update(observed(1, with_new(500, held=10), ("a",)), {}) is None
    assert filled().update(observed(1, with_new(500, held=9), ("a",)), {}) is not None
    assert filled().update(observed(1, with_new(500)), {}) is None


def test_after_a_new_label_the_filling_is_skipped_because_the_history_stays() -> None:
    detector = Excess()
    assert detector.update(observed(1, with_new(500), ("a",)), {}) is not None  # also while it fills
    detector.reset(filled=True)
    assert detector.logs == {}
    risen = {"c0": part(around("a", 500, 0.9), old=(around("a", 25, 0.2),))}
    assert detector.update(observed(2, risen, ("a", "b")), {}) is not None


# --- local and global ----------------------------------------------------------------------------------------------


def ten(drifted: int, rest: float = 0.2, rest_b: float = 0.2, risen: float = 0.9) -> dict[str, ClientEvidence]:
    """Return ten clients of 95 records of label a and 5 of b; the first ones' a rises from 0.2."""
    old = (around("a", 25, 0.2), around("b", 25, 0.2))
    return {
        f"c{i}": part(around("a", 95, risen if i < drifted else rest), around("b", 5, rest_b), old=old)
        for i in range(10)
    }


@pytest.mark.parametrize(("drifted", "local"), [(1, True), (2, True), (3, True), (4, False)])
def test_drift_is_local_where_the_named_hold_at_most_three_tenths(drifted: int, local: bool) -> None:
    alarm = filled().update(observed(9, ten(drifted)), {})
    assert alarm is not None
    assert (alarm.cause, alarm.since) == ("excess", 9)
    assert alarm.labels == ("a",)  # one of ten does not move the label's stream so far, but its own records do
    assert alarm.clients == tuple(f"c{i}" for i in range(drifted))
    assert alarm.local is local


@pytest.mark.parametrize(
    ("rest", "rest_b", "local"), [(0.26, 0.2, True), (0.35, 0.2, False), (0.2, 0.26, True), (0.2, 0.7, False)]
)
def test_drift_is_not_local_where_the_rest_too_exceeds_three_deviations(
    rest: float, rest_b: float, local: bool
) -> None:
    # A rise of the rest in all, or in a twentieth of its records, which does not show in all.
    alarm = filled().update(observed(9, ten(1, rest, rest_b)), {})
    assert alarm is not None
    assert (alarm.clients, alarm.local) == (("c0",), local)


def test_the_deviations_of_the_rest_by_hand() -> None:
    # 9 x 50 records at 0.4 against 9 x 25 at 0.2; the drifted client's are left out, and do not widen v either, since
    # it differs from all others: v is that of the held-out scores of the nine.
    old = (around("a", 25, 0.2),)
    parts = {f"c{i}": part(around("a", 50, 0.4 if i else 0.9), old=old) for i in range(10)}
    v = (225 * 0.04 + 20 * 225 * 0.04 / 224) / (216 + 20)
    deviations = (0.2 - 0.01 - 3.0 * math.sqrt(v * 50**2 / 25 * 9 / 450**2)) / math.sqrt(v / 450)
    detector = filled()
    assert detector.rest_is_quiet(observed(1, parts), {}, ["c0"], deviations + 1e-9)
    assert not detector.rest_is_quiet(observed(1, parts), {}, ["c0"], deviations - 1e-9)


# --- rounds that differ by more than their records explain ---------------------------------------------------------


def scored(mean: float) -> dict[str, ClientEvidence]:
    """Return two clients of 50 records a round; each has held out 100 records of mean 0.2."""
    return {c: part(around("a", 50, mean), old=(around("a", 100, 0.2),)) for c in ("c0", "c1")}


def alarms(means: list[float]) -> list[int]:
    """Return the rounds of alarms, each of which restarts."""
    detector, found = Excess(), []
    for t, mean in enumerate(means, 1):
        if detector.update(observed(t, scored(mean)), {}) is not None:
            detector.reset()
            found.append(t)
    return found


def test_a_rise_that_takes_rounds_to_be_seen_is_dated_to_its_first() -> None:
    detector, found = Excess(), None
    means = [0.2] * 20 + [0.3] * 20
    for t, mean in enumerate(means, 1):
        found = found or detector.update(observed(t, scored(mean)), {})
    assert found is not None
    assert found.since == 21
    reached = alarms(means)[0]
    assert reached > 22  # 100 records at 0.1 above the baseline, of which three errors are taken off


def test_a_rise_of_a_few_is_dated_by_their_own_rounds() -> None:
    detector = filled()
    rounds = [ten(0), ten(0), ten(0), *[ten(2, rest=0.18, risen=0.4)] * 9]
    found, at = next((x, t) for t, parts in enumerate(rounds, 6) if (x := detector.update(observed(t, parts), {})))
    assert at > 9
    assert (found.since, found.clients, found.labels, found.local) == (9, ("c0", "c1"), ("a",), True)


def test_what_began_before_a_restart_is_forgotten() -> None:
    detector = filled()
    for t in range(1, 30):
        if detector.update(observed(t, scored(0.3)), {}) is not None:
            break
    detector.reset(filled=True)
    found = next(x for x in (detector.update(observed(u, scored(0.3)), {}) for u in range(t + 1, 99)) if x)
    assert found.since == t + 1


WEATHER = [0.2 + 0.15 * (t // 3 % 2) for t in range(300)]


def test_weather_that_comes_and_goes_is_no_drift_for_long_and_a_drift_in_it_is_one() -> None:
    found = alarms(WEATHER)
    assert len(found) <= 10
    assert max(found) < 60
    assert alarms([*WEATHER, 0.9, 0.9, 0.9]) == [*found, 302]


def test_only_the_dispersion_keeps_the_excess_test_quiet_in_changing_weather(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dispersion, "factor", 1.0)
    assert len(alarms(WEATHER)) > 30


def test_a_drift_after_calm_rounds_is_found_at_once_and_so_is_the_next() -> None:
    rng = np.random.default_rng(0)
    calm = [float(x) for x in rng.normal(0.2, 0.02, 40)]
    assert alarms([*calm, 0.5, *calm, 0.5, *calm]) == [41, 82]


def test_whether_the_rest_is_quiet_allows_for_dispersion() -> None:
    parts = {f"c{i}": part(around("a", 50, 0.4), old=(around("a", 25, 0.2),)) for i in range(10)}
    detector = filled()
    assert not detector.rest_is_quiet(observed(1, parts), {}, ["c0"], 5.0)
    detector.dispersion.total *= 200.0
    assert detector.rest_is_quiet(observed(1, parts), {}, ["c0"], 5.0)


def test_rounds_of_two_models_are_no_neighbours() -> None:
    detector = filled()
    for t in (1, 2):
        detector.update(observed(t, scored(0.2)), {})
    detector.reset(filled=True)
    detector.update(observed(3, scored(0.3)), {})
    assert detector.dispersion.waiting == [0.0]
    detector.forget(["c1"])
    detector.update(observed(4, scored(0.2)), {})
    assert detector.dispersion.waiting == [0.0]


def test_dispersion_widens_variances_by_hand() -> None:
    # Of all 29 usable records: 9 times the mean square, less the square of the mean, or 9 times what was expected.
    wide, n = excesses().dispersed(9.0).whole, 29
    plain = excesses()
    square, mean = float(plain.square.sum()) / n, float(plain.total.sum()) / n
    expected = 9.0 * (21 * V_A + 8 * V_B) / n
    assert wide.variance == pytest.approx(max(9.0 * square - mean**2, expected) / n)
    assert (wide.rise, wide.baseline) == (plain.whole.rise, plain.whole.baseline)
