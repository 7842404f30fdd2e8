"""A round without records is opened again in the same version: what the round before changed must not be lost."""

from dataclasses import replace

import numpy as np
import pytest

from streamfl.core.between.native.at_client import NativeAtClient
from streamfl.core.protocol.messages import BetweenPublished
from streamfl.core.protocol.native.models import NativeState
from streamfl.core.protocol.native.settings import NativeSettings

pytestmark = pytest.mark.compiles

SETTINGS = NativeSettings("ferns", neighbours=False)


def test_changes_of_a_version_are_those_published_first():
    whole = NativeState.none(SETTINGS).grown(("x",), ("a", "b"))
    rows = np.ones((1, *whole.table.shape[1:]))
    between = NativeAtClient(SETTINGS)
    between.take(BetweenPublished(version=2, agreed=replace(whole, table=rows), cells=np.array([7.0])))
    between.take(BetweenPublished(version=2, agreed=replace(whole, table=rows[:0]), cells=np.zeros(0)))
    between.begin(2)
    between.take(BetweenPublished(version=3, agreed=replace(whole, table=rows[:0]), cells=np.zeros(0)))
    between.begin(3)
    again = NativeAtClient(SETTINGS)
    table = whole.table.copy()
    table[7] = 1.0
    again.take(BetweenPublished(version=3, agreed=replace(whole, table=table), cells=None))
    again.begin(3)
    X = np.random.default_rng(0).normal(size=(50, 1))
    served = [one.learner.predicted(("x",), X) for one in (between, again)]
    assert np.array_equal(between.learner._models.table, again.learner._models.table)
    assert np.array_equal(*served)
