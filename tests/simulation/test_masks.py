"""A federation whose sums are masked, under faults: the model is that of the same sums in the clear."""

from dataclasses import replace
from functools import cache

import pytest
from worlds.faulty import Faults
from worlds.simulation import Simulation

from simulation.federation import BAD, OF_SUMS, PROFILES, ROUND, federation
from simulation.late_labels import Disorder
from streamfl.machines.client.work.sending import MaskedSums
from streamfl.sampling import generator
from streamfl.testing import Violation


@cache
def in_the_clear(profile: str) -> tuple[str, tuple[int, ...]]:
    """Return the model and the rounds of the restarts of a run without masks or faults."""
    simulation = federation(profile, secure_aggregation="pooled")
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
        simulation = federation(profile, secure_aggregation="masked")
        coordinator = simulation.run()
        assert coordinator.digest() == in_the_clear(profile)[0]
        assert len(in_the_clear(profile)[1]) > 0


@pytest.mark.worlds(fixed=range(2), drawn=4, full=range(40))
def test_with_every_client_waited_for_the_model_is_the_undisturbed_one(seed):
    profile = ("adaptive", "paper")[seed % 2]
    simulation = federation(profile, seed=seed, faults=faults_of(seed), secure_aggregation="masked")
    coordinator = simulation.run()
    assert (coordinator.digest(), tuple(r.round for r in simulation.audit.restarts)) == in_the_clear(profile)
    assert sum(simulation.audit.rejected.values()) == BAD


@pytest.mark.worlds(fixed=[504], drawn=0, full=range(500, 520))
def test_a_client_that_makes_its_update_again_after_a_late_answer_ends_no_world(seed):
    faults = Faults(loss=0.0, duplicate=0.1, delay=0.3, kill=0.0)  # messages only overtake each other, or come twice
    simulation = federation(seed=seed, faults=faults, secure_aggregation="masked")
    simulation.most_steps = 15_000  # this seed takes fewer than 5,000
    assert simulation.run().digest() == in_the_clear("adaptive")[0]


@pytest.mark.full
def test_worlds_with_kills_have_many():
    deadly = [seed for seed in range(40) if faults_of(seed).kill > 0.0][:8]
    kills = []
    for seed in deadly:
        simulation = federation("paper", seed=seed, faults=faults_of(seed), secure_aggregation="masked")
        simulation.run()
        kills.append(simulation.kills)
    assert sum(kills) >= 2 * len(kills) == 16


def with_late_answers(seed: int) -> Simulation:
    """Return a world in which answers come after their deadlines, and the clients that are left alone leave."""
    simulation = federation(
        seed=seed, faults=faults_of(seed), quorum=2, secure_aggregation="masked", min_clients_per_sum=2
    )
    simulation.coordinator = replace(simulation.coordinator, deadline=2.0)
    simulation.client = replace(simulation.client, waits=False)
    simulation.calm_after = 60.0
    return simulation


@pytest.mark.worlds(fixed=[1, 6, 7], drawn=1, full=range(40))
def test_no_combination_of_totals_tells_about_one_client(seed):
    simulation = with_late_answers(seed)
    simulation.run()  # it ends with the observer's check
    assert simulation.observer.totals()


@pytest.mark.worlds(fixed=[], drawn=0, full=range(1, 6))
def test_where_labels_come_apart_and_windows_are_small_failed_totals_stall_no_world(seed):
    simulation = with_late_answers(seed)
    simulation.client = replace(simulation.client, window=ROUND)
    simulation.halves = Disorder((7,)).halves(0)
    simulation.most_steps = 15_000  # this seed takes fewer than 5,000
    simulation.run()
    assert simulation.observer.totals()


def test_clients_that_forget_what_they_have_told_about_are_noticed(monkeypatch):
    monkeypatch.setattr(MaskedSums, "disclosed", None)
    with pytest.raises(Violation, match=r"totals tell about c\d alone"):
        with_late_answers(8).run()


@pytest.mark.parametrize("profile", OF_SUMS)
def test_totals_about_records_of_earlier_rounds_are_noticed(profile):
    simulation = federation(profile, secure_aggregation="masked")
    simulation.state = PROFILES[profile]
    with pytest.raises(Violation, match="totals of round 1 are about records of earlier ones"):
        simulation.run()


@pytest.mark.worlds(fixed=[1000], drawn=2, full=range(1000, 1016))
def test_with_a_quorum_every_record_is_trained_once(seed):
    # One client may be left at the end; and an entry needs two messages of each, so the deadline is longer.
    simulation = federation(
        "adaptive", seed=seed, faults=faults_of(seed), quorum=2, secure_aggregation="masked", min_clients_per_sum=1
    )
    simulation.coordinator = replace(simulation.coordinator, deadline=10.0)
    simulation.run()
    assert sum(simulation.audit.rejected.values()) == BAD
