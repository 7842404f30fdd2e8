"""Models that learn between rounds, under faults: the agreed state is that of the undisturbed run."""

from functools import cache
from typing import Any

import pytest
from native_streams import state

from simulation.federation import BAD, federation
from simulation.test_simulation import faults_of
from streamfl.settings import LearningSettings
from streamfl.testing import Simulation

pytestmark = pytest.mark.compiles

RIVER = "river:preprocessing.StandardScaler|linear_model.SoftmaxRegression(optim.SGD(0.1))"
LEARNING = {
    "own": LearningSettings(features="linear"),
    "softmax": LearningSettings(model=RIVER),
    "two labels": LearningSettings(model="river:linear_model.LogisticRegression"),
    "auto": LearningSettings(features="auto"),
}
SEEDS = {name: range(2000 + 100 * i, 2012 + 100 * i) for i, name in enumerate(LEARNING)}
SEEDS["auto"] = SEEDS["auto"][:6]  # its tables go over the wire as bytes: seconds a run


def come_of(simulation: Simulation) -> tuple[str, Any, int]:
    """Return the digest of the model, the agreed state, and the number of records that could not be learnt."""
    coordinator = simulation.run()
    unlearnt = sum(closed.unlearnt for closed in simulation.audit.closed)
    return coordinator.digest(), state(coordinator.state.between), unlearnt


@cache
def undisturbed(name: str) -> tuple[str, Any, int]:
    """Return what comes of a run without faults."""
    return come_of(federation(learning=LEARNING[name]))


def test_the_late_label_is_one_too_many_for_a_model_of_two():
    assert undisturbed("two labels")[2] > 10
    assert undisturbed("softmax")[2] == 0


@pytest.mark.parametrize("name", LEARNING)
def test_the_model_is_the_undisturbed_one(name):
    kills = 0
    for seed in SEEDS[name]:
        simulation = federation(seed=seed, faults=faults_of(seed), learning=LEARNING[name])
        assert come_of(simulation) == undisturbed(name)
        kills += simulation.kills
        assert sum(simulation.audit.rejected.values()) == BAD
    assert kills > len(SEEDS[name])
