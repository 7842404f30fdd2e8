"""What was found, held against what was imposed."""

import pytest

from streamfl.protocol.messages import LocalDrift
from streamfl_benchmarks.drawn import DrawnStream, affected, lifetimes
from streamfl_benchmarks.findings import (
    Found,
    Local,
    detections,
    false_alarms,
    local_figures,
    local_findings,
    named_by,
    window,
)
from streamfl_benchmarks.meter import Meter

SWAPS = DrawnStream("t", "class-swap", (65, 187, 190), rounds=500)


def at(*rounds: int, cause: str = "glr") -> list[Found]:
    return [Found(round=t, cause=cause) for t in rounds]


def line(t: int, state: str, *clients: str) -> LocalDrift:
    return LocalDrift(
        round=t, epoch=1, clients=clients, labels=(), since=t, state=state, statistic=11.0, threshold=9.2
    )


def test_a_drift_is_found_in_its_round_or_five_later() -> None:
    assert detections(SWAPS, at(70, 187)) == (5, 0, None)
    assert detections(SWAPS, at(64, 71)) == (None, None, None)
    assert false_alarms(SWAPS, at(65, 70, 187, 195)) == 0
    assert false_alarms(SWAPS, at(64, 71, 196)) == 3


def test_an_alarm_belongs_to_the_latest_drift() -> None:
    assert detections(SWAPS, at(189, 191)) == (None, 2, 1)
    assert detections(SWAPS, at(191)) == (None, None, 1)


def test_the_first_of_several_alarms_is_the_delay_and_all_of_a_round_are_one() -> None:
    assert detections(SWAPS, at(68, 66, 67)) == (1, None, None)
    assert false_alarms(SWAPS, [*at(100, 100), *at(100, cause="local"), *at(101)]) == 2


def test_a_gradual_drift_may_be_found_from_its_start_to_fifty_rounds_after_its_end() -> None:
    # It begins in round 50, is complete in round 149, and 199 is the fiftieth after.
    stream = DrawnStream("t", "gradual", (50,), rounds=500)
    assert window(stream, 0) == range(50, 200)
    assert false_alarms(stream, at(49, 50, 199, 200)) == 2
    assert detections(stream, at(199)) == (149,)


def test_class_mix_is_neither_and_new_label_is_no_false_alarm() -> None:
    assert false_alarms(SWAPS, [*at(30, cause="class-mix"), *at(31, cause="new-label")]) == 0
    assert detections(SWAPS, at(65, cause="class-mix")) == (None, None, None)
    assert detections(SWAPS, at(65, cause="new-label")) == (0, None, None)


def test_without_drift_every_alarm_is_false() -> None:
    stream = DrawnStream("t", "none", ())
    assert (detections(stream, at(5)), false_alarms(stream, at(5, 9))) == ((), 2)


def test_a_latch_is_told_once_and_a_branch_without_one_too() -> None:
    told = [line(5, "latched", "a"), line(8, "branched", "a"), line(9, "branched", "b"), line(20, "merged", "a")]
    assert [found.round for found in local_findings(told)] == [5, 9]
    again = [line(5, "latched", "a"), line(7, "released", "a"), line(30, "latched", "a")]
    assert [found.round for found in local_findings(again)] == [5, 30]


def test_a_return_is_a_finding_and_a_merger_is_none() -> None:
    told = [line(5, "latched", "a"), line(8, "branched", "a"), line(20, "returned", "a"), line(30, "merged", "b")]
    assert [found.round for found in local_findings(told)] == [5, 20]
    assert named_by(told, 19, 30) == {"a"}


def test_the_names_are_those_told_up_to_two_rounds_later_even_if_let_go() -> None:
    told = [
        line(10, "latched", "a", "b"),
        line(11, "released", "b"),
        line(12, "merged", "c"),
        line(13, "latched", "d"),
    ]
    assert named_by(told, 10, 12) == {"a", "b"}


def test_precision_recall_and_accuracy_of_a_local_drift() -> None:
    stream = DrawnStream("t", "local", (3,), clients=20, rounds=4, seed=5)
    names = [lifetime.name for lifetime in lifetimes(stream)]
    theirs = affected(stream, 1)
    other = next(name for name in names if name not in theirs)
    meter = Meter(names, 4)
    for name in names:
        for t in range(1, 5):
            # Before the drift nobody is right, which must not matter.
            right = 0 if t < 3 else 3 if name in theirs else 8
            meter.add(name, t, records=10, served=right)
    two_of_three = line(4, "latched", *sorted(theirs)[:2], other)
    found = local_figures(stream, [two_of_three], meter)
    assert (found.precision, found.recall) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert (found.affected, found.others) == (pytest.approx(0.3), pytest.approx(0.8))
    assert local_figures(stream, [], meter) == Local(precision=None, recall=0.0, affected=0.3, others=0.8)
