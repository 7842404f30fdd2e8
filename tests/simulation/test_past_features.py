"""Lags under faults: after any kill a record has the features that a file with all records gives it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from simulation.federation import BAD, federation
from simulation.test_simulation import faults_of
from streamfl.records import past_features, past_source
from streamfl.records.past_features import PastFeatures
from streamfl.records.table import Table
from streamfl.records.values.made_features import with_made

PAST = PastFeatures(lags=(1, 4), window=3)


@pytest.fixture(autouse=True)
def short_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad records then push a value out of reach, and what is read again begins in the middle of a log."""
    for module in (past_features, past_source):
        monkeypatch.setattr(module, "REACH", 5)


def whole(profile: str) -> Table:
    """Return the table of the simulation with lags by client."""
    simulation = federation(profile)
    table, names = simulation.table, PAST.names(simulation.table.features)
    made = np.full((len(table), len(names)), np.nan)
    for log in simulation.logs.values():
        good = np.setdiff1d(np.arange(len(log)), [bad.position for bad in log.rejected])
        made[log.rows] = PAST.of(good, table.X[log.rows])
    features, X = with_made(table.features, table.X, names, made)
    assert np.isnan(made).sum(axis=0).tolist() != [3, 3, 12, 12, 0, 0, 9, 9]  # more is missing than at the beginning
    return replace(table, features=features, X=X)


@cache
def undisturbed(profile: str) -> tuple[str, tuple[int, ...]]:
    simulation = federation(profile)
    simulation.table = whole(profile)
    coordinator = simulation.run()
    return coordinator.digest(), tuple(restarted.round for restarted in simulation.audit.restarts)


@pytest.mark.worlds(fixed=[0], drawn=1, full=range(60))
def test_after_any_kill_a_record_has_the_features_that_it_has_in_a_file(seed):
    profile = ("adaptive", "paper")[seed % 2]
    simulation = federation(profile, seed=seed, faults=replace(faults_of(seed), kill=0.05))
    simulation.past = PAST
    coordinator = simulation.run()
    assert (coordinator.digest(), tuple(r.round for r in simulation.audit.restarts)) == undisturbed(profile)
    assert simulation.kills or seed > 1
    assert sum(simulation.audit.rejected.values()) == BAD
