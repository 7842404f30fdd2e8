"""Online models, under faults: the agreed state is that of the undisturbed run."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from native_streams import state
from worlds.simulation import Simulation

from simulation.federation import BAD, ROUND, exchanged, federation
from simulation.test_simulation import faults_of
from streamfl.run.model_file import ServedModel
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.wire import messages

pytestmark = pytest.mark.compiles

RIVER = "river:preprocessing.StandardScaler|linear_model.SoftmaxRegression(optim.SGD(0.1))"
LEARNING = {
    "own": LearningSettings(features="linear"),
    "softmax": LearningSettings(model=RIVER),
    "two labels": LearningSettings(model="river:linear_model.LogisticRegression"),
    "auto": LearningSettings(features="auto"),
}


def come_of(simulation: Simulation) -> tuple[str, Any, int]:
    """Return the digest of the model, the agreed state, and the number of records that could not be learnt."""
    coordinator = simulation.run()
    unlearnt = sum(closed.unlearnt for closed in simulation.audit.closed)
    return coordinator.digest(), state(coordinator.state.online), unlearnt


@cache
def undisturbed(name: str) -> tuple[str, Any, int]:
    """Return what comes of a run without faults."""
    return come_of(federation(learning=LEARNING[name]))


@pytest.mark.full
def test_the_late_label_is_one_too_many_for_a_model_of_two():
    assert undisturbed("two labels")[2] > 10
    assert undisturbed("softmax")[2] == 0


def is_the_undisturbed_one(name: str, seed: int) -> None:
    simulation = federation(seed=seed, faults=faults_of(seed), learning=LEARNING[name])
    assert come_of(simulation) == undisturbed(name)
    assert sum(simulation.audit.rejected.values()) == BAD


@pytest.mark.worlds(fixed=[2000], drawn=1, full=range(2000, 2012))
def test_the_state_of_linear_models_is_the_undisturbed_one(seed):
    is_the_undisturbed_one("own", seed)


@pytest.mark.worlds(fixed=[2100], drawn=1, full=range(2100, 2112))
def test_the_state_of_a_model_of_river_is_the_undisturbed_one(seed):
    is_the_undisturbed_one("softmax", seed)


@pytest.mark.worlds(fixed=[], drawn=0, full=range(2200, 2212))
def test_the_state_of_a_model_of_two_labels_is_the_undisturbed_one(seed):
    is_the_undisturbed_one("two labels", seed)


# Its tables go over the wire as bytes: seconds a run.
@pytest.mark.worlds(fixed=[2301], drawn=1, full=range(2300, 2306))
def test_the_state_of_ferns_and_linear_models_is_the_undisturbed_one(seed):
    is_the_undisturbed_one("auto", seed)


@cache
def begun_again() -> tuple[str, Any]:
    """Return the digest of the model, and the agreed state, of a run in which online models begin again."""
    simulation = federation(learning=LEARNING["auto"], table=exchanged())
    coordinator = simulation.run()
    assert [(restart.round, restart.cause) for restart in simulation.audit.restarts] == [(11, "answers")]
    online, later = coordinator.state.online, [closed for closed in simulation.audit.closed if closed.round > 11]
    assert online is not None
    assert online.seen == sum(closed.records for closed in later)
    return coordinator.digest(), state(online)


@pytest.mark.worlds(fixed=[2401], drawn=0, full=range(2400, 2403))
def test_online_models_that_begin_again_are_the_undisturbed_ones(seed):
    simulation = federation(seed=seed, faults=faults_of(seed), learning=LEARNING["auto"], table=exchanged())
    coordinator = simulation.run()
    assert (coordinator.digest(), state(coordinator.state.online)) == begun_again()
    assert simulation.kills


@pytest.mark.full
def test_the_model_file_of_a_killed_federation_predicts_what_that_of_a_replay_predicts():
    seed, learning = 2300, LEARNING["auto"]
    simulation = federation(seed=seed, faults=faults_of(seed), learning=learning)
    live = ServedModel.of(simulation.run(), learning)
    assert simulation.kills
    settings = ReplaySettings(round_size=ROUND, min_records=1, learning=learning)
    replayed = Replay(simulation.table, simulation.logs, settings).run().model
    X = np.random.default_rng(1).normal(3.0, 3.0, (300, 2))
    names = simulation.table.features
    assert live.sha256 == replayed.sha256
    assert np.array_equal(live.predict_proba(X, names), replayed.predict_proba(X, names))
    assert live.native is not None
    assert live.native.agreed.seen > 500  # they answer, too


# --- with a budget -----------------------------------------------------------------------------------------------


def sizes(simulation: Simulation) -> list[tuple[int, int]]:
    """Return the records and bytes of all updates from round 5 on."""
    sent = simulation.audit.sent.values()
    return [(update.records, messages.size(update)) for update in sent if update.round >= 5 and update.records]


@cache
def without() -> float:
    """Return the mean bytes a record without a budget."""
    simulation = federation(learning=LEARNING["auto"])
    simulation.run()
    records, taken = np.sum(sizes(simulation), axis=0)
    return float(taken / records)


@pytest.mark.full
def test_every_update_keeps_a_budget_of_half_of_what_it_takes_killed_or_not():
    learning = LearningSettings(features="auto", bytes=round(0.5 * without(), 1))
    plain = federation(learning=learning)
    expected, kills = come_of(plain), 0
    assert expected[0] != undisturbed("auto")[0]
    runs = [plain]
    for seed in range(2300, 2306):
        simulation = federation(seed=seed, faults=faults_of(seed), learning=learning)
        assert come_of(simulation) == expected
        kills += simulation.kills
        runs.append(simulation)
    assert kills > 6
    for simulation in runs:
        kept = sizes(simulation)
        assert len(kept) > 30
        assert [taken for records, taken in kept if taken > learning.bytes * records] == []
    # It is used: no coarser than it must be.
    records, taken = np.sum(sizes(plain), axis=0)
    assert taken > 0.75 * learning.bytes * records
