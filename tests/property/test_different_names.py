"""Clients have different columns, in different units, some of them late: every federation learns from them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from suites.examples import examples

from streamfl.protocol.decisions import Refused
from streamfl.protocol.messages import Refusal
from streamfl.protocol.moments import Moments
from streamfl.protocol.tempered import tempered
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings

CLIENTS, SIZE, ROUNDS, COLUMNS = 5, 10, 4, ("a", "b", "c")
OFFSETS = st.sampled_from([0.0, 0.0, 0.0, 273.15, 1e6, -1e12])
# The first round in which a client has a column: most have it from the first on, some never.
FIRST = st.sampled_from([0, 0, 0, 1, ROUNDS])


@st.composite
def moments(draw) -> Moments:
    names = tuple(draw(st.permutations(COLUMNS))[: draw(st.integers(0, 3))])
    count = draw(arrays(np.float64, len(names), elements=st.sampled_from([0.0, 1.0, 20.0, 1e9])))
    mean = draw(arrays(np.float64, len(names), elements=st.sampled_from([0.0, 1.0, 2.0, 1e9])))
    m2 = draw(arrays(np.float64, len(names), elements=st.sampled_from([0.0, 1.0, 1e12])))
    return Moments(names, count, np.where(count > 0.0, mean, 0.0), np.where(count > 1.0, m2, 0.0))


@given(st.lists(moments(), min_size=4, max_size=8))
def test_tempered_moments_are_of_the_same_features_and_never_heavier(parts):
    for before, after in zip(parts, tempered(parts), strict=True):
        assert after.features == before.features
        assert (after.count <= before.count).all()


def table(offsets: np.ndarray, first: np.ndarray, targets: bool) -> tuple[Table, dict[str, Log]]:
    """Return a table whose records belong to the clients in turn, and their logs; a missing value is NaN."""
    n, rng = CLIENTS * SIZE * ROUNDS, np.random.default_rng(0)
    client, round_ = np.arange(n) % CLIENTS, np.arange(n) // (CLIENTS * SIZE)
    X = rng.normal(size=(n, len(COLUMNS)))
    score = X @ [2.0, -1.0, 0.5]
    y = score if targets else (score > 0.0).astype(np.float64)
    X = np.where(round_[:, None] >= first[client], X + offsets[client], np.nan)
    rows = {f"c{i}": np.flatnonzero(client == i) for i in range(CLIENTS)}
    labels = () if targets else ("no", "yes")
    return Table("different", COLUMNS, X, y, labels, np.arange(n)), {c: Log(r, y[r]) for c, r in rows.items()}


@pytest.mark.compiles
@pytest.mark.parametrize("features", ["auto", "rounds"])
@pytest.mark.parametrize("targets", [False, True])
@settings(max_examples=examples(5))
@given(
    arrays(np.float64, (CLIENTS, len(COLUMNS)), elements=OFFSETS),
    arrays(np.int64, (CLIENTS, len(COLUMNS)), elements=FIRST),
)
def test_clients_with_different_columns_and_units_learn_together(targets, features, offsets, first):
    if (first == ROUNDS).all():
        first[0, 0] = 0  # somebody has a column
    events: list[object] = []
    how = ReplaySettings(round_size=SIZE, learning=LearningSettings(features=features))
    replayed = Replay(*table(offsets, first, targets), how, observe=events.append).run()
    assert not [event for event in events if isinstance(event, Refused | Refusal)]
    assert replayed.result.accepted == CLIENTS * SIZE * ROUNDS
    assert np.isfinite(replayed.model.weights).all()
