"""How the clients of a branch mix what all have learnt."""

from dataclasses import replace

import numpy as np
import pytest
from native_streams import LABELS, agreed, drawn, learnt, state

from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging.agreed_round import after_round
from streamfl.online.native.merging.of_branches import with_branches
from streamfl.protocol.native.mixed import AgreedMixture
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.native.sleeping import Rest

pytestmark = pytest.mark.compiles

AUTO = NativeSettings("auto")
EXPERTS = len(AUTO.agreed_experts)


def only(k: int) -> AgreedMixture:
    """Return a mixture of expert k alone."""
    weights = np.eye(EXPERTS)[k]
    return AgreedMixture(weights, np.array([weights, weights]), np.ones(3) / 3.0, 1.0, 0.0, 9)


def test_a_branch_agrees_over_its_own_clients_by_records_and_all_others_without_them():
    known = agreed(AUTO, learnt(AUTO, drawn(30)))
    parts = {f"c{i}": replace(learnt(AUTO, drawn(20, seed=i)), mixture=only(i)) for i in range(4)}
    parts["c2"] = replace(parts["c2"], records=60)
    branches = {"branch-5": ("c1", "c2"), "branch-9": ("c3",), "silent": ("c7",)}
    before = replace(known, table=known.table.copy(), branches={"silent": only(5), "ended": only(6)})
    after, change = after_round(before, parts, LABELS, AUTO, apart={"c1", "c2", "c3"})
    mixed, changed = with_branches(before, parts, branches, after, change)
    assert state(mixed.mixture) == state(after.mixture)
    assert {name: mixture.best[[1, 2, 3, 5]].tolist() for name, mixture in mixed.branches.items()} == {
        "branch-5": [0.25, 0.75, 0.0, 0.0],
        "branch-9": [0.0, 0.0, 1.0, 0.0],
        "silent": [0.0, 0.0, 0.0, 1.0],
    }
    assert changed is not None
    changed = replace(changed, moments=replace(changed.moments, features=mixed.features))  # it leaves them out
    assert state(replace(changed.after(before), table=mixed.table), without=("kept_back", "early", "far")) == state(
        mixed, without=("kept_back", "early", "far")
    )
    assert mixed.chain != after.chain


def test_a_branch_begins_with_its_own_model_alone_which_is_awake_whoever_sleeps():
    known = replace(agreed(AUTO, learnt(AUTO, drawn(30))), rests={"rounds": Rest(left=3)})
    learner = NativeLearner(AUTO)
    learner.begin(known, branch="branch-5")
    assert learner.agreed_mixture.shares.tolist() == np.eye(EXPERTS)[-1].tolist()
    assert learner.mixture.mixing.awake[-1]
    learner.restore()
    assert learner.agreed_mixture.shares.tolist() == np.eye(EXPERTS)[-1].tolist()
    learner.begin(known)
    assert (learner.agreed_mixture.shares[-1], learner.mixture.mixing.awake[-1]) == (0.0, False)
