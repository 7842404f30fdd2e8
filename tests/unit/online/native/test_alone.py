"""A client that is alone, for good, goes on with what it has learnt: its round has no effect on what it predicts."""

import numpy as np
import pytest
from native_streams import drawn

from streamfl.bounds import NAMED
from streamfl.learning.online_models import Covered
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.protocol.native.settings import NativeSettings

pytestmark = pytest.mark.compiles


@pytest.mark.parametrize("targets", [False, True])
def test_what_it_learnt_is_agreed_on_as_it_is(targets):
    stream = drawn(targets=targets)
    online = NativeOnlineModels(NativeSettings("auto", targets=targets)).alone()
    machine, agreed = online.at_client(), online.initial(())
    for version, first in enumerate((0, 30), start=2):
        machine.learn_next(stream.batch(first, first + 30))
        learner = machine.learner
        weights, table = learner._models.weights.copy(), learner.table.copy()
        learnt = online.named(machine.learnt(NAMED, "c0"), agreed)
        covered = Covered(30, set(learnt.features), set(learnt.labels), 1, NAMED)
        assert online.wrong(learnt, agreed, covered) is None
        agreed, change = online.after(agreed, {"c0": learnt}, learnt.labels, limits=NAMED)
        machine.take(online.published(agreed, version, change))
        machine.begin(version, 1)
        np.testing.assert_allclose(agreed.weights, weights, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(learner.table, table, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(learner.table, agreed.table)
        assert agreed.kept_back.table.size == 0
        assert not agreed.steps.are_known


def test_it_goes_on_from_a_state_that_was_rounded():
    stream = drawn()
    on_grids = NativeOnlineModels(NativeSettings("linear"))
    machine, agreed = on_grids.at_client(), on_grids.initial(())
    machine.learn_next(stream.batch(0, 30))
    agreed, _ = on_grids.after(
        agreed, {"c0": on_grids.named(machine.learnt(NAMED, "c0"), agreed)}, ("a", "b", "c"), limits=NAMED
    )
    assert agreed.steps.are_known
    assert agreed.kept_back.weights.size
    alone = on_grids.alone()
    machine = alone.at_client()
    machine.take(alone.published(agreed, 2))
    machine.begin(2, 1)
    machine.learn_next(stream.batch(30, 60))
    weights = machine.learner._models.weights.copy()
    after, _ = alone.after(
        agreed, {"c0": alone.named(machine.learnt(NAMED, "c0"), agreed)}, agreed.labels, limits=NAMED
    )
    np.testing.assert_allclose(after.weights, weights, rtol=1e-12, atol=1e-12)
    assert not after.kept_back.weights.size
    assert not after.steps.are_known
