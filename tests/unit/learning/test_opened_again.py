"""A round without records is opened again in the same version: what the round before changed must not be lost."""

from dataclasses import replace

import numpy as np
import pytest

from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging
from streamfl.protocol.messages import OnlinePublished
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings

pytestmark = pytest.mark.compiles

SETTINGS = NativeSettings("ferns", neighbours=False)


def test_changes_of_a_version_are_those_published_first():
    learner = NativeLearner(SETTINGS)
    learner.learn(("x",), np.array([[1.0], [3.0]]), np.array([0.0, 1.0]), ("a", "b"))
    before = NativeState.none(SETTINGS)
    models, change = merging.after(replace(before, table=before.table.copy()), [learner.learnt()], ("a", "b"))
    same, nothing = merging.after(models, [], ("a", "b"))
    between = NativeAtClient(SETTINGS)
    between.take(OnlinePublished(version=2, agreed=change))
    between.take(OnlinePublished(version=2, agreed=nothing))
    between.begin(2, 1)
    between.take(OnlinePublished(version=3, agreed=nothing))
    between.begin(3, 1)
    again = NativeAtClient(SETTINGS)
    again.take(OnlinePublished(version=3, agreed=same))
    again.begin(3, 1)
    assert change.table.any()
    X = np.random.default_rng(0).normal(size=(50, 1))
    served = [one.learner.predicted(("x",), X) for one in (between, again)]
    assert np.array_equal(between.learner.table, again.learner.table)
    assert np.array_equal(*served)
