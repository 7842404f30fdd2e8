"""Rounds by event time: every client's records of one period are in one round, killed or not."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from simulation.federation import BAD, CLIENTS, federation
from simulation.test_simulation import faults_of
from streamfl.testing import Faults, Simulation

PERIOD = 60.0
SEEDS = 8


def by_event_time(seed: int = 0, faults: Faults | None = None, *, gap: float = 0.0, least: int = 1) -> Simulation:
    """Return the federation with a record every second: 20 a client and period. Later records may be a gap later."""
    simulation = federation(seed=seed, faults=faults, least=least)
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


@pytest.mark.parametrize("seed", range(1, SEEDS))
def test_under_faults_and_kills_the_model_is_the_undisturbed_one(seed):
    simulation = by_event_time(seed, faults_of(seed))
    assert simulation.run().digest() == undisturbed()
    assert sum(simulation.audit.rejected.values()) == BAD


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
    late = [node.machine.late for name, node in simulation._nodes.items() if name != "coordinator"]
    assert sum(late) == 1


def by_event_time_run() -> Simulation:
    simulation = by_event_time()
    simulation.run()
    return simulation


def test_periods_with_too_few_records_of_a_client_go_with_the_next_one():
    simulation = by_event_time(least=30)
    simulation.run()
    taken = [a.records for closed in simulation.audit.closed for a in closed.accepted if a.records]
    assert min(taken) >= 30
    rest = len(simulation.table) - sum(taken)
    assert 0 <= rest < 30 * CLIENTS
