"""Rounds by event time: a client's records of one period are in one round, killed or not, and if labels come late."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from worlds.faulty import Faults
from worlds.simulation import Simulation

from simulation.federation import BAD, CLIENTS, federation
from simulation.late_labels import late
from simulation.test_late_labels import DELAYED, Outcome, disorder, outcome
from simulation.test_simulation import faults_of
from streamfl.protocol.messages import RoundOpened
from streamfl.run.dealing.source import TableSource
from streamfl.run.settings import LearningSettings

PERIOD = 60.0


def by_event_time(
    seed: int = 0, faults: Faults | None = None, *, gap: float = 0.0, min_records: int = 1
) -> Simulation:
    """Return the federation with a record every second: 20 a client and period. Later records may be a gap later."""
    return in_periods(federation(seed=seed, faults=faults, min_records=min_records), gap)


def in_periods(simulation: Simulation, gap: float = 0.0) -> Simulation:
    times = simulation.table.places.astype(np.float64)
    times[times >= 400.0] += gap
    simulation.table = replace(simulation.table, times=times)
    simulation.client = replace(simulation.client, clock="event_time", period=PERIOD, capacity=200)
    simulation.coordinator = replace(simulation.coordinator, by_event_time=True)
    return simulation


def learnt(simulation: Simulation) -> Mapping[int, Mapping[str, tuple[int, int]]]:
    """Return what each round took of each client, by round."""
    rounds: dict[int, dict[str, tuple[int, int]]] = {}
    for closed in simulation.audit.closed:
        if closed.records:
            rounds[closed.round] = {a.client: (a.spans[0].start, a.spans[0].end) for a in closed.accepted if a.spans}
    return rounds


@cache
def undisturbed() -> str:
    return by_event_time().run().digest()


def test_a_round_is_a_period():
    simulation = by_event_time()
    simulation.run()
    rounds = learnt(simulation)
    n = len(simulation.table) + BAD
    assert len(rounds) == -(-n // int(PERIOD))
    for t, taken in rounds.items():
        seconds = range(int(PERIOD) * (t - 1), min(n, int(PERIOD) * t))
        for client, (start, end) in taken.items():
            own = [s // CLIENTS for s in seconds if s % CLIENTS == int(client[1:])]
            # A bad record has no time: it may go with the record before it, or with the one after it.
            assert abs(start - own[0]) <= 1
            assert abs(end - own[-1] - 1) <= 1


@pytest.mark.worlds(fixed=[1], drawn=2, full=range(1, 8))
def test_under_faults_and_kills_the_model_is_the_undisturbed_one(seed):
    simulation = by_event_time(seed, faults_of(seed))
    assert simulation.run().digest() == undisturbed()
    assert sum(simulation.audit.rejected.values()) == BAD


@pytest.mark.full
@pytest.mark.parametrize("most", [1, 7])
def test_the_model_does_not_depend_on_how_many_records_are_read_at_once(most, monkeypatch):
    poll = TableSource.poll
    monkeypatch.setattr(TableSource, "poll", lambda source, limit: poll(source, min(limit, most)))
    assert by_event_time().run().digest() == undisturbed()


def test_a_gap_of_years_takes_one_entry_and_not_one_a_minute():
    simulation = by_event_time(gap=1e9)
    coordinator = simulation.run()
    assert len(simulation.audit.closed) < 30
    assert coordinator.state.period is not None
    assert coordinator.state.period > 1e9 / PERIOD


def test_one_record_with_a_false_clock_ends_no_round_and_stops_no_client():
    simulation = by_event_time()
    times = simulation.table.times.copy()
    times[[100, 500]] = 1e11
    times[300] = 0.0  # late
    simulation.table = replace(simulation.table, times=times)
    simulation.run()
    assert len(learnt(simulation)) == len(learnt(by_event_time_run()))
    assert sum(simulation.audit.accepted.values()) == len(simulation.table)
    assert late_records_told(simulation) == 1


def by_event_time_run() -> Simulation:
    simulation = by_event_time()
    simulation.run()
    return simulation


def test_periods_with_too_few_records_of_a_client_go_with_the_next_one():
    simulation = by_event_time(min_records=30)
    simulation.run()
    taken = [a.records for closed in simulation.audit.closed for a in closed.accepted if a.records]
    assert min(taken) >= 30
    rest = len(simulation.table) - sum(taken)
    assert 0 <= rest < 30 * CLIENTS


LINEAR = LearningSettings(features="linear")


def few(seed: int = 0, faults: Faults | None = None) -> Simulation:
    """Return the federation in which most rounds of a client have too few records, with models of its own."""
    return in_periods(federation(seed=seed, faults=faults, min_records=30, learning=LINEAR))


@cache
def few_undisturbed() -> str:
    return few().run().digest()


@pytest.mark.worlds(fixed=[1], drawn=0, full=range(2, 6))
def test_what_is_answered_before_it_is_sent_and_learnt_again_changes_no_model_under_faults_and_kills(seed):
    simulation = few(seed, faults_of(seed))
    assert simulation.run().digest() == few_undisturbed()


# --- delayed labels ----------------------------------------------------------------------------------------


def late_records(simulation: Simulation) -> tuple[Outcome, int]:
    """Run a world; return what it comes to, and how many records were learnt after their period, by the ledger."""
    periods: dict[int, int] = {}
    watch = simulation.audit.watch

    def noting(now, node, message):
        watch(now, node, message)
        if isinstance(message, RoundOpened) and node == "coordinator":
            periods[message.entry] = message.period

    simulation.audit.watch = noting
    found, late_ones = outcome(simulation), 0
    for closed in simulation.audit.closed:
        for accepted in closed.accepted:
            log, made = simulation.logs[accepted.client], simulation.audit.made
            for at in made[accepted.client, accepted.attempt].values():
                measured = simulation.table.times[log.rows[log.good_before(at)]]
                late_ones += measured // PERIOD < periods[closed.entry]
    return found, late_ones


def test_late_labels_are_learnt_in_the_rounds_of_their_records_and_the_model_is_that_of_labels_at_once():
    for seed, faults in ((0, None), (6, faults_of(6))):
        simulation = in_periods(late(DELAYED, window=60, seed=seed, faults=faults))
        assert outcome(simulation)[0] == undisturbed()
        assert late_records_told(simulation) == 0


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 3])
def test_labels_out_of_order_put_late_records_into_the_round_that_is_open_the_same_whatever_is_killed(seed):
    labels, window = disorder(seed)
    simulation = in_periods(late(labels, window=window, labels=seed))
    expected, late_ones = late_records(simulation)
    assert late_records_told(simulation) == late_ones > 0
    killed = in_periods(late(labels, window=window, labels=seed, seed=203 + seed, faults=faults_of(203 + seed)))
    assert late_records(killed) == (expected, late_ones)
    assert killed.kills > 0


def late_records_told(simulation: Simulation) -> int:
    """Return how many late records the clients have counted, if none was killed."""
    return sum(node.machine.late for name, node in simulation._nodes.items() if name != "coordinator")
