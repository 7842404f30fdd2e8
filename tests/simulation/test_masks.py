"""A federation whose sums are masked, under faults: the model is that of the same sums in the clear."""

from dataclasses import replace
from functools import cache

import pytest

from simulation.federation import BAD, federation
from streamfl.core.sampling import generator
from streamfl.testing import Faults


@cache
def in_the_clear(profile: str) -> tuple[str, tuple[int, ...]]:
    """Return the model and the rounds of the restarts of a run without masks or faults."""
    simulation = federation(profile, sums="pooled")
    coordinator = simulation.run()
    return coordinator.digest(), tuple(restarted.round for restarted in simulation.audit.restarts)


def faults_of(seed: int) -> Faults:
    """Return the faults of a seed; each kill closes an entry without records, so these have fewer."""
    rng = generator(seed, "faults of masks")
    return Faults(
        loss=float(rng.choice([0.0, 0.05, 0.2])),
        duplicate=float(rng.choice([0.0, 0.1, 0.5])),
        delay=float(rng.choice([0.01, 0.3, 2.0])),
        kill=float(rng.choice([0.0, 0.01, 0.02])),
    )


def test_masks_change_no_bit_of_the_model():
    for profile in ("adaptive", "paper"):
        simulation = federation(profile, sums="masked")
        coordinator = simulation.run()
        assert coordinator.digest() == in_the_clear(profile)[0]
        assert len(in_the_clear(profile)[1]) > 0


@pytest.mark.worlds(fixed=range(2), drawn=4, full=range(40))
def test_with_every_client_waited_for_the_model_is_the_undisturbed_one(seed):
    profile = ("adaptive", "paper")[seed % 2]
    simulation = federation(profile, seed=seed, faults=faults_of(seed), sums="masked")
    coordinator = simulation.run()
    assert (coordinator.digest(), tuple(r.round for r in simulation.audit.restarts)) == in_the_clear(profile)
    assert sum(simulation.audit.rejected.values()) == BAD


@pytest.mark.full
def test_worlds_with_kills_have_many():
    deadly = [seed for seed in range(40) if faults_of(seed).kill > 0.0][:8]
    kills = []
    for seed in deadly:
        simulation = federation("paper", seed=seed, faults=faults_of(seed), sums="masked")
        simulation.run()
        kills.append(simulation.kills)
    assert sum(kills) >= 2 * len(kills) == 16


@pytest.mark.worlds(fixed=[1000], drawn=2, full=range(1000, 1016))
def test_with_a_quorum_every_record_is_trained_once(seed):
    # One client may be left at the end; and an entry needs two messages of each, so the deadline is longer.
    simulation = federation("adaptive", seed=seed, faults=faults_of(seed), quorum=2, sums="masked", fewest=1)
    simulation.coordinator = replace(simulation.coordinator, deadline=10.0)
    simulation.run()
    assert sum(simulation.audit.rejected.values()) == BAD
