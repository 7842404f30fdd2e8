"""A federation in a bad world: nothing is lost, nothing is trained twice, the model is the undisturbed run's."""

from functools import cache

import numpy as np
import pytest

from simulation.federation import BAD, federation
from streamfl.core.sampling import generator
from streamfl.testing import Faults, Simulation

SEEDS = 360
A_FILE = 20


@cache
def undisturbed(profile: str) -> tuple[str, tuple[int, ...]]:
    """Return the model and the rounds of the restarts of a run without faults."""
    simulation = federation(profile)
    coordinator = simulation.run()
    return coordinator.digest(), tuple(restarted.round for restarted in simulation.audit.restarts)


def faults_of(seed: int) -> Faults:
    """Return a world for a seed: from a little late to very bad."""
    rng = generator(seed, "faults")
    return Faults(
        loss=float(rng.choice([0.0, 0.05, 0.2])),
        duplicate=float(rng.choice([0.0, 0.1, 0.5])),
        delay=float(rng.choice([0.01, 0.3, 2.0])),
        kill=float(rng.choice([0.0, 0.02, 0.08])),
    )


@pytest.mark.parametrize("profile", ["adaptive", "paper"])
def test_an_undisturbed_run_restarts_at_the_swap(profile):
    _, restarts = undisturbed(profile)
    assert restarts == (11,)


@pytest.mark.parametrize("first", range(0, SEEDS, A_FILE))
def test_with_every_client_waited_for_the_model_is_the_undisturbed_one(first):
    for seed in range(first, first + A_FILE):
        profile = ("adaptive", "paper")[seed % 2]
        simulation = federation(profile, seed=seed, faults=faults_of(seed))
        coordinator = simulation.run()
        assert (coordinator.digest(), tuple(r.round for r in simulation.audit.restarts)) == undisturbed(profile)
        assert sum(simulation.audit.rejected.values()) == BAD


@pytest.mark.parametrize("first", range(1000, 1120, A_FILE))
def test_with_a_quorum_every_record_is_trained_once(first):
    for seed in range(first, first + A_FILE):
        simulation = federation("adaptive", seed=seed, faults=faults_of(seed), quorum=2)
        simulation.run()
        assert sum(simulation.audit.rejected.values()) == BAD


def test_the_same_seed_replays_the_same_run_step_by_step():
    def transcript() -> list[str]:
        simulation = federation("paper", seed=5, faults=Faults(loss=0.1, duplicate=0.2, delay=0.5, kill=0.05))
        simulation.run()
        return simulation.audit.transcript

    first = transcript()
    assert first == transcript()
    assert any("is killed" in line for line in first)


def test_the_worlds_are_bad_enough():
    kills, simulations = 0, 0
    for seed in range(40):
        simulation: Simulation = federation("adaptive", seed=seed, faults=faults_of(seed))
        simulation.run()
        kills += simulation.kills
        simulations += 1
    assert kills > 2 * simulations
    assert np.isfinite(kills)
