"""Federations among liars: hostile members and producers, forgers on both sides. Honest clients lose nothing."""

import itertools
from dataclasses import replace

import pytest
from worlds.faulty import Faults
from worlds.lies import STRANGERS, Liar
from worlds.simulation import Simulation

from simulation.federation import CLIENTS, federation
from simulation.late_labels import Disorder, late
from simulation.test_simulation import faults_of
from streamfl.bounds import Limits
from streamfl.machines.coordinator.gate.admission import Admission
from streamfl.run.settings import LearningSettings
from streamfl.testing import Violation

# Fewer than forgers try to bring in.
LIMITS = Limits(features=12, labels=6, clients=5)

DEADLINE = 1.0

# A model of River, whose tables are sent by name.
RIVER = LearningSettings(model="river:preprocessing.StandardScaler|linear_model.SoftmaxRegression(optim.SGD(0.1))")


def among_liars(seed: int, simulation: Simulation | None = None, forged: float = 1.0, **settings) -> Simulation:
    """Return a world of a seed with a liar among its clients, and forgers."""
    faults = replace(faults_of(seed).with_liars(f"c{seed % CLIENTS}"), forged=forged)
    simulation = simulation or federation(seed=seed, faults=faults, quorum=2, **settings)
    simulation.coordinator = replace(simulation.coordinator, expire_after=3, limits=LIMITS)
    if simulation.halves is None:
        simulation.coordinator = replace(simulation.coordinator, partitions=("*",))
    simulation.calm_after = 40.0
    return simulation


def lost(simulation: Simulation) -> dict[str, int]:
    """Return how many records of honest clients are in no entry."""
    honest = {name: log for name, log in simulation.logs.items() if name not in simulation.faults.liars}
    audit = simulation.audit
    rest = {name: len(log) - audit.accepted[name] - audit.rejected[name] for name, log in honest.items()}
    return {name: records for name, records in rest.items() if records}


@pytest.mark.worlds(fixed=range(3), drawn=6, full=range(12))
def test_honest_clients_lose_no_record(seed):
    simulation = among_liars(seed, profile=("adaptive", "paper")[seed % 2])
    simulation.run()
    assert lost(simulation) == {}
    assert simulation.audit.refusals


@pytest.mark.full
def test_a_world_of_late_labels_or_of_a_model_of_river_goes_on_among_liars():
    worlds = [among_liars(400, learning=RIVER)]
    for seed in (300, 301):
        faults = faults_of(seed).with_liars(f"c{seed % CLIENTS}")
        worlds.append(among_liars(seed, late(Disorder((7,)), window=60, seed=seed, faults=faults, quorum=2)))
    for simulation in worlds:
        simulation.run()
        assert simulation.audit.refusals


@pytest.mark.worlds(fixed=[500], drawn=1, full=range(500, 506))
def test_honest_clients_lose_no_record_if_sums_are_masked_though_nothing_bounds_what_a_liar_adds(seed):
    simulation = among_liars(seed, secure_aggregation="masked", min_clients_per_sum=1)
    simulation.coordinator = replace(simulation.coordinator, deadline=10.0)
    simulation.run()
    assert lost(simulation) == {}
    assert simulation.audit.refusals


@pytest.mark.full
@pytest.mark.compiles
def test_honest_clients_lose_no_record_if_models_learn_record_by_record():
    simulation = among_liars(200, learning=LearningSettings(features="auto"))
    simulation.run()
    assert lost(simulation) == {}


@pytest.mark.worlds(fixed=[20], drawn=0, full=[21])
def test_no_lie_keeps_a_round_open_beyond_its_deadline(seed):
    simulation = federation(seed=seed, faults=Faults(delay=0.01).with_liars("c1"))
    simulation.coordinator = replace(
        simulation.coordinator, deadline=DEADLINE, expire_after=3, limits=LIMITS, partitions=("*",)
    )
    simulation.calm_after = 40.0
    simulation.run()
    closed = simulation.audit.closed_at
    assert len(closed) > 15
    # Three stages of scores may follow the updates; a client that was misled asks where it is after its patience.
    most = 4.0 * DEADLINE + 2.0 * simulation.client.retry
    assert max(after - before for before, after in itertools.pairwise(closed)) <= most


@pytest.mark.full
def test_the_same_seed_tells_the_same_lies():
    def transcript() -> list[str]:
        simulation = among_liars(4)
        simulation.run()
        return simulation.audit.transcript

    assert transcript() == transcript()


@pytest.mark.full
def test_lies_are_of_every_kind():
    """Attacks that pass the checks, content that does not, junk, strangers, and forgeries towards clients."""
    refused, accepted, dropped, strangers = "", 0, 0, set()
    for seed in range(3, 9):
        simulation = among_liars(seed)
        coordinator = simulation.run()
        refused += " ".join(simulation.audit.refusals)
        accepted += sum(closed.accepted_of(f"c{seed % CLIENTS}") is not None for closed in simulation.audit.closed)
        dropped += simulation.audit.dropped
        strangers.update(coordinator.state.members)
    assert "neither JSON nor safetensors" in refused
    assert "not a Update" in refused or "not a Join" in refused
    assert accepted > 3
    assert dropped > 0
    assert strangers.intersection(STRANGERS)


# --- what is taken out is missed ----------------------------------------------------------------------------------


def test_a_coordinator_that_takes_any_number_of_clients_is_noticed(monkeypatch):
    monkeypatch.setattr(Admission, "_one_too_many", lambda *_: None)
    with pytest.raises(Violation, match="clients, where 5 are the most"):
        for seed in range(3, 12):
            among_liars(seed, forged=5.0).run()


def test_a_liar_draws_by_itself_so_that_the_faults_stay_those_of_the_seed():
    one, other = Liar(1, ("c0",)), Liar(1, ("c0",))
    assert [one.forged() for _ in range(20)] == [other.forged() for _ in range(20)]
