"""Two minutes of the plant of `benchmarks/live/plant.py`, with everything that happens in it."""

import pytest

from live.federation import World
from live.plant import Course, measured

COURSE = Course(minutes=2.0, rate=60.0, interval=2.0, features="rounds", kill_every=30.0, least=1, latest=0.04)


@pytest.mark.full
def test_a_plant_learns_each_label_once_and_tells_each_drift_once_whatever_is_killed(broker, tmp_path):
    found = measured(World(broker.bootstrap, tmp_path, tenth=False, minutes=COURSE.minutes), COURSE)
    assert [name for _, name in found["killed"]] == ["coordinator", "a", "b"]
    assert found["learnt"] == found["written"]["results"], found
    assert (found["learnt twice"], found["rejected"]) == (0, 0)
    assert sum(found["dead letters"].values()) == found["written"]["broken"]
    # A recalibrated sensor restarts nothing if the inputs explain the alarm; swapped results do.
    happened, told = found["happened"], found["drifts"]
    recalibrated = next(one["after"] for one in told if one["kind"] in ("inputs", "all"))
    (swapped,) = (one["after"] for one in told if one["kind"] == "all" and one["after"] > happened["swapped"])
    assert happened["recalibrated"] < recalibrated < happened["swapped"] < swapped
