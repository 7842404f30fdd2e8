"""Features of the time that the first rounds show little of cost no accuracy, and hide no drift."""

from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import polars as pl
import pytest

import streamfl
from streamfl.run.evaluation.result import Result

DAYS, RECORDS, TURNED = 8, 6000, 0.625


@cache
def run(*kinds: str, drift: bool = False) -> Result:
    """Return a run of rounds over eight days; a round takes two hours.

    A label says on which side of a plane a record lies, nine times of ten; in drift it is another plane after five
    days.
    """
    rng = np.random.default_rng(2)
    days, X = np.sort(rng.uniform(0.0, DAYS, RECORDS)), rng.normal(size=(RECORDS, 3))
    first = np.where(days >= TURNED * DAYS, X[:, 1], X[:, 0]) if drift else X[:, 0]
    label = (first > 0.0) ^ (rng.random(RECORDS) < 0.1)
    monday = datetime(2026, 3, 2, tzinfo=UTC)
    table = pl.DataFrame(
        {f"x{j}": X[:, j] for j in range(3)}
        | {"at": [(monday + timedelta(days=day)).isoformat() for day in days.tolist()], "label": label}
    )
    times = {"time_features": [*kinds]} if kinds else {}
    options = {"label": "label", "time": "at", "interval": 7200.0, "clients": 2, "features": "rounds"}
    return streamfl.replay(table, **options, **times).result


def accuracy(result: Result) -> float:
    assert result.accuracy is not None
    assert result.accuracy.prequential is not None
    return result.accuracy.prequential


@pytest.mark.parametrize(("kinds", "cost"), [(("season",), 0.005), (("hour", "weekday", "season"), 0.03)])
def test_features_of_the_time_that_say_nothing_cost_little_and_restart_nothing(
    kinds: tuple[str, ...], cost: float
) -> None:
    """By the deviation of the first rounds, `season` alone costs 0.018, and all three 0.065 and a restart."""
    assert run(*kinds).restarts == ()
    assert accuracy(run(*kinds)) > accuracy(run()) - cost


@pytest.mark.parametrize("kinds", [("hour",), ("season",)])
def test_a_drift_is_found_next_to_features_of_the_time(kinds: tuple[str, ...]) -> None:
    """After 60 rounds. The hour and the season differ from those before, but they always do."""
    result = run(*kinds, drift=True)
    (restart,) = result.restarts
    assert 60 < restart.round <= 64
    assert restart.moved == ()
    assert result.inputs_moved == ()
