"""What a client learns between rounds: names that come late, rounds that do not count, and what is told of it."""

import numpy as np
import pytest
from online_streams import Stream, agreed, drawn, learnt, state

from streamfl.core.online.learner import OnlineLearner
from streamfl.core.online.rungs import OnlineSettings

FEATURES = pytest.mark.parametrize("features", ["linear", "ferns", "auto"])

# A client's own goes on through rounds that do not count; of the agreed table only what changed is kept.
OWN = ("mixture", "near", "_agreed")

NEWS = Stream(
    np.array([[1.0, 500.0, np.nan], [-2.0, np.nan, 4.0], [0.5, 480.0, -3.0]]),
    np.array([0.0, 1.0, 0.0]),
    ("x", "y", "late"),
    ("z", "a"),
)


@FEATURES
@pytest.mark.parametrize("from_nothing", [True, False])
def test_restore_undoes_all_that_a_round_did_to_the_models(features, from_nothing):
    settings = OnlineSettings(features)
    learner, stream = OnlineLearner(settings), drawn()
    if not from_nothing:
        learner.begin(agreed(settings, learnt(settings, stream, 0, 30)))
    before = state(learner, without=OWN)
    learner.learn(*stream.part(30, 60))
    learner.learn(*NEWS.part(0, 3))
    assert {"z", "c"} < set(learner.labels)
    assert "late" in learner.features
    learner.restore()
    assert state(learner, without=OWN) == before
