"""What moved at a change: means before and since, by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import streamfl.run.evaluation.changes
from streamfl.protocol.messages import Accepted, RoundClosed, Served
from streamfl.protocol.records import Rejection, Span
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.changes import ENOUGH, Changes, clocks, counters, moved
from streamfl.run.evaluation.source_figures import missing
from streamfl.run.summary import RoundSummary

NAMES = ("a", "b", "c", "d", "e")
ALTERNATE = np.tile([[-1.0], [1.0]], (200, 1)) * np.ones(5)  # 400 records of mean 0 and deviation 1


def test_the_three_that_moved_most_are_named_with_their_means() -> None:
    since = ALTERNATE + np.array([0.0, 1.0, -3.0, 2.0, 4.0])
    found = moved(NAMES, ALTERNATE, since)
    assert [(each.feature, each.before, each.since) for each in found] == [
        ("e", 0.0, 4.0),
        ("c", 0.0, -3.0),
        ("d", 0.0, 2.0),
    ]
    # The records of both stretches vary by 1 + (4 / 2)^2 around their mean.
    assert found[0].deviations == pytest.approx(4.0 / np.sqrt(5.0), abs=1e-3)
    assert found[1].deviations < 0.0


def test_histograms_count_every_value_before_and_since_over_what_both_span() -> None:
    (found,) = moved(NAMES[:1], ALTERNATE[:, :1], ALTERNATE[:100, :1] + 11.0)
    assert found.span == (-1.0, 12.0)
    before, since = found.counts
    assert (before[0], before[1], sum(before)) == (200, 200, 400)
    assert (since[-2], since[-1], sum(since)) == (50, 50, 100)


def test_missing_values_are_counted_by_column_and_only_where_there_are_any() -> None:
    X = np.array([[1.0, np.nan], [np.inf, np.nan], [3.0, 4.0]])
    table = Table("t", ("a", "b"), X, np.zeros(3), ("x",), np.arange(3))
    assert missing(table) == {"b": 2, "a": 1}
    assert missing(replace(table, X=np.ones((3, 2)))) is None


def test_less_than_half_a_deviation_is_no_move() -> None:
    # A shift by x counts as x / sqrt(1 + x^2 / 4) deviations: 0.5 at x = 0.5164.
    assert moved(NAMES, ALTERNATE, ALTERNATE + np.array([0.51, 0, 0, 0, 0])) == ()
    assert [each.feature for each in moved(NAMES, ALTERNATE, ALTERNATE + np.array([0.52, 0, 0, 0, 0]))] == ["a"]


def test_few_records_must_differ_by_more_than_chance_explains() -> None:
    # Of 8 records each, means of 5 features may differ by (3 + sqrt(2 ln 5)) / 2 = 2.4 deviations.
    few = ALTERNATE[:8]
    assert moved(NAMES, few, few + np.array([1.5, 0, 0, 0, 0])) == ()
    assert moved(NAMES, ALTERNATE, ALTERNATE + np.array([1.5, 0, 0, 0, 0])) != ()


def test_a_constant_that_becomes_another_has_moved() -> None:
    before, since = ALTERNATE.copy(), ALTERNATE.copy()
    before[:, 1], since[:, 1] = 0.0, 7.0
    assert [(each.feature, each.deviations) for each in moved(NAMES, before, since)] == [("b", 2.0)]


@pytest.mark.parametrize("every", [67, 10, 5])
def test_values_far_out_neither_hide_a_move_nor_make_one(every: int) -> None:
    before, since = ALTERNATE.copy(), ALTERNATE + np.array([0.0, 3.0, 0.0, 0.0, 0.0])
    before[::every, :2] = since[::every, :2] = -9999.0
    before[::every, 2] = 1e300
    found = [(each.feature, round(each.before), round(each.since)) for each in moved(NAMES, before, since)]
    assert found == [("b", 0, 3)]


@pytest.mark.parametrize("every", [5, 4])
def test_values_that_are_far_out_since_the_change_alone_have_moved(every: int) -> None:
    before, since = 6.0 + 0.1 * ALTERNATE, 6.0 + 0.1 * ALTERNATE
    since[::every, 0] = 12.0
    assert [each.feature for each in moved(NAMES, before, since)] == ["a"]


def test_a_rare_value_is_not_far_out() -> None:
    rare, common = np.zeros((400, 5)), np.zeros((400, 5))
    rare[::40, 0] = common[::2, 0] = 1.0
    (found,) = moved(NAMES, rare, common)
    assert (found.feature, found.before, found.since) == ("a", 0.025, 0.5)


def test_missing_values_do_not_count_and_what_cannot_be_compared_has_not_moved() -> None:
    before, since = ALTERNATE.copy(), ALTERNATE.copy()
    before[::2, 0] = np.nan  # what is left is 1 everywhere
    since[:, 1] = np.nan  # no value is left
    since[:, 2] = 1e200  # its square overflows
    before[:, 3] = np.inf  # counts as missing
    before[::2, 4] = since[::2, 4] = np.nan
    since[:, 4] += 3.0
    found = [(each.feature, each.before, each.since, each.deviations) for each in moved(NAMES, before, since)]
    # a: 200 ones and 400 of mean 0, so of mean 1/3 and mean square 1.
    assert found == [("e", 1.0, 4.0, 2.0), ("a", 1.0, 0.0, pytest.approx(-1.0 / np.sqrt(8.0 / 9.0), abs=1e-3))]


# --- which records are compared -------------------------------------------------------------------------------


def closed(t: int, *ends: tuple[str, int, int]) -> RoundSummary:
    entry = RoundClosed(
        entry=t,
        round=t,
        epoch=1,
        block=1,
        accepted=tuple(
            Accepted(client=client, attempt="1", spans=(Span(client, start, end),), records=end - start, rejected=0)
            for client, start, end in ends
        ),
        records=sum(end - start for _, start, end in ends),
        trained=0,
        rejected=0,
        losses={},
        serves="0",
        readings={},
        served=Served(),
        model="",
        registry=1,
    )
    return RoundSummary.of(entry)


def table_of(*values: list[float], times: bool = False) -> tuple[Table, dict[str, Log]]:
    """Return one feature, the clients' values in turn, and with times a record a second."""
    X = np.concatenate([np.array(each) for each in values])[:, None]
    table = Table("t", ("x",), X, np.zeros(len(X)), ("u",), np.arange(len(X)))
    if times:
        table = replace(table, times=np.arange(float(len(X))))
    starts = np.cumsum([0, *map(len, values)])
    rows = [np.arange(start, end) for start, end in pairwise(starts)]
    return table, {f"c{i}": Log(each, np.zeros(len(each))) for i, each in enumerate(rows)}


def steps(*levels: float, n: int = 100) -> list[float]:
    """Return n records a round that alternate around the level of the round."""
    return [level + sign for level in levels for sign in (-1.0, 1.0) * (n // 2)]


def changes(table: Table, logs: dict[str, Log], rounds: int, n: int = 100) -> Changes:
    watched = Changes(table, logs)
    for t in range(1, rounds + 1):
        watched.closed(closed(t, *((name, n * (t - 1), n * t) for name in logs)))
    return watched


def test_the_rounds_before_are_compared_with_those_since_at_the_clients_named() -> None:
    table, logs = table_of(steps(0, 0, 0, 6, 6), steps(0, 0, 0, 0, 0), times=True)
    watched = changes(table, logs, 5)
    change = watched.found("local drift", 5, 4, ("c0",))
    assert (change.round, change.since) == (5, 4)
    assert change.moved is not None
    assert [(each.feature, each.before, each.since) for each in change.moved] == [("x", 0.0, 6.0)]
    assert watched.found("local drift", 5, 4, ("c1",)).moved == ()
    everywhere = watched.found("restart", 5, 4, ()).moved
    assert everywhere is not None
    assert [(each.before, each.since) for each in everywhere] == [(0.0, 3.0)]


def test_what_rises_all_the_time_has_not_moved() -> None:
    meter = [float(i) for i in range(500)]
    meter[250] = 0.0  # it was exchanged
    for way in (1.0, -1.0):
        table, logs = table_of([way * each for each in meter], [way * (1e5 + each) for each in meter])
        assert changes(table, logs, 5).found("local drift", 5, 4, ("c1",)).moved == ()
        assert changes(table, logs, 5).found("restart", 5, 4, ()).moved == ()


def test_a_step_at_each_client_a_setting_that_is_raised_and_an_hour_of_the_day_are_no_meters() -> None:
    flags = table_of(*([0.0] * (295 + i) + [1.0] * (205 - i) for i in range(10)))
    raised = table_of([float(i // 50) for i in range(500)])
    for table, logs in (flags, raised):
        assert changes(table, logs, 5).found("restart", 5, 4, ()).moved != ()
    assert not counters([np.array([[float(i % 24)] for i in range(200)])]).any()


def test_an_hour_that_begins_again_has_not_moved_but_a_setting_that_is_put_back_has() -> None:
    hours = [float((i // 10 + 4) % 24) for i in range(500)]
    for way in (1.0, -1.0):
        table, logs = table_of([way * hour for hour in hours])
        assert [changes(table, logs, 3).found("local drift", 3, 3, ("c0",)).moved] == [()]
    table, logs = table_of([20.0] * 240 + [3.0] * 260)
    assert changes(table, logs, 3).found("local drift", 3, 3, ("c0",)).moved != ()


def test_neither_noise_nor_a_level_that_falls_once_is_a_clock() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), np.repeat([5.0, 1.0], 150) + 0.1 * rng.normal(size=300)])
    assert not clocks([X]).any()
    assert clocks([X, X]).tolist() == [False, False]


def test_after_a_restart_the_records_before_it_are_not_compared() -> None:
    table, logs = table_of(steps(0, 0, 6, 6, 6))
    watched = changes(table, logs, 3)
    first = watched.found("restart", 3, 3, ())
    assert first.moved is not None
    assert [each.since for each in first.moved] == [6.0]
    for t in (4, 5):
        watched.closed(closed(t, ("c0", 100 * (t - 1), 100 * t)))
    assert watched.found("restart", 5, 5, ()).moved == ()


def test_nothing_is_said_of_a_sensor_that_has_no_values_any_more() -> None:
    table, logs = table_of([*steps(0, 0, 0), *[np.nan] * 200])
    assert changes(table, logs, 5).found("restart", 5, 4, ()).moved is None


def test_a_change_in_the_first_round_has_nothing_to_compare_with() -> None:
    table, logs = table_of(steps(0, 6))
    assert changes(table, logs, 2).found("restart", 2, 1, ()).moved is None


def test_only_enough_records_show_that_no_feature_has_moved() -> None:
    # One feature of n records before and since may differ by 3 sqrt(2 / n) deviations: less than 1 from 19 on.
    assert ENOUGH == 1.0
    few, many = (changes(*table_of(steps(0, 0, n=n)), 2, n=n).found("restart", 2, 2, ()) for n in (18, 20))
    assert (few.moved, many.moved) == (None, ())


def test_a_change_older_than_what_is_kept_names_nothing() -> None:
    table, logs = table_of(steps(*[0.0] * 70, n=20))
    watched = changes(table, logs, 70, n=20)
    assert watched.found("local drift", 70, 8, ()).moved == ()
    assert watched.found("local drift", 70, 6, ()).moved is None


def test_bad_records_and_a_round_that_is_opened_again_move_no_row() -> None:
    table, logs = table_of(steps(0, 6))
    bad = tuple(Rejection(position, "no label") for position in (100, 101))
    logs = {"c0": replace(logs["c0"], rejected=bad)}
    watched = Changes(table, logs)
    watched.closed(closed(1, ("c0", 0, 100)))
    watched.closed(closed(2, ("c0", 100, 102)))  # bad records alone
    watched.closed(closed(2, ("c0", 102, 202)))
    found = watched.found("restart", 2, 2, ()).moved
    assert found is not None
    assert [(each.before, each.since) for each in found] == [(0.0, 6.0)]


def test_of_many_values_the_newest_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamfl.run.evaluation.changes, "VALUES", 100)
    table, logs = table_of(steps(9, 0, 6))
    found = changes(table, logs, 3).found("restart", 3, 3, ()).moved
    assert found is not None
    assert [(each.before, each.since) for each in found] == [(0.0, 6.0)]
