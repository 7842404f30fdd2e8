"""What all agree on after a round: with clients apart, and at restarts."""

from dataclasses import replace

import numpy as np
import pytest
from native_streams import LABELS, agreed, drawn, learnt, state

from streamfl.online.native.merging import merging
from streamfl.online.native.merging.agreed_round import after_round
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.native.sleeping import Rest

pytestmark = pytest.mark.compiles

AUTO = NativeSettings("auto")


def none() -> NativeState:
    return NativeState.none(AUTO)


def test_what_clients_apart_learnt_is_left_out_and_what_they_use_stays_awake():
    ours = replace(learnt(AUTO, drawn(20)), unused=("linear", "rounds"))
    theirs = replace(learnt(AUTO, drawn(20, seed=2)), unused=("linear",))
    alone, _ = merging.after(none(), [ours], LABELS)
    after, change = after_round(none(), {"c0": ours, "c1": theirs}, LABELS, AUTO, apart={"c1"})
    assert after.rests == {"linear": Rest(idle=1)}
    np.testing.assert_array_equal(after.weights, alone.weights)
    assert change is not None
    np.testing.assert_array_equal(np.flatnonzero(after.table.any(axis=(1, 2))), change.cells)
    assert set(change.cells) <= set(ours.cells)
    assert not set(change.cells) <= set(theirs.cells)


def test_a_restart_wakes_who_sleeps_and_changes_nothing_else_where_no_label_moved():
    known = replace(agreed(AUTO, learnt(AUTO, drawn(30))), rests={"rounds": Rest(left=3)})
    part = {"c0": replace(learnt(AUTO, drawn(20, seed=2)), unused=("rounds",))}

    def after(renamed: tuple[int, ...] | None) -> NativeState:
        return after_round(replace(known, table=known.table.copy()), part, LABELS, AUTO, renamed=renamed)[0]

    asleep, awake = after(None), after(())
    assert (asleep.rests["rounds"].left, awake.rests) == (2, {"rounds": Rest(idle=1)})
    assert state(replace(asleep, rests={})) == state(replace(awake, rests={}))
