"""Models that learn between rounds, under faults: the agreed state is that of the undisturbed run."""

from functools import cache

import pytest

from simulation.federation import BAD, federation
from simulation.test_simulation import faults_of
from streamfl.settings import LearningSettings

pytestmark = pytest.mark.compiles

RIVER = "river:preprocessing.StandardScaler|linear_model.SoftmaxRegression(optim.SGD(0.1))"
LEARNING = {
    "own": LearningSettings(features="linear"),
    "softmax": LearningSettings(model=RIVER),
    "two labels": LearningSettings(model="river:linear_model.LogisticRegression"),
}
SEEDS = {name: range(2000 + 100 * i, 2012 + 100 * i) for i, name in enumerate(LEARNING)}


@cache
def undisturbed(name: str) -> tuple[str, int]:
    """Return the digest of the model, and the number of records that it could not learn, of a run without faults."""
    simulation = federation(learning=LEARNING[name])
    digest = simulation.run().digest()
    return digest, sum(closed.unlearnt for closed in simulation.audit.closed)


def test_the_late_label_is_one_too_many_for_a_model_of_two():
    assert undisturbed("two labels")[1] > 10
    assert undisturbed("softmax")[1] == 0


@pytest.mark.parametrize("name", LEARNING)
def test_the_model_is_the_undisturbed_one(name):
    kills = 0
    for seed in SEEDS[name]:
        simulation = federation(seed=seed, faults=faults_of(seed), learning=LEARNING[name])
        digest = simulation.run().digest()
        kills += simulation.kills
        assert (digest, sum(closed.unlearnt for closed in simulation.audit.closed)) == undisturbed(name)
        assert sum(simulation.audit.rejected.values()) == BAD
    assert kills > len(SEEDS[name])
