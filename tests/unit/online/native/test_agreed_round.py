"""What all agree on after a round: with clients apart, and at restarts."""

from dataclasses import replace

import numpy as np
import pytest
from native_streams import LABELS, agreed, drawn, learnt, state

from streamfl.arrays import FloatArray
from streamfl.online.native.merging import agreed_pairs, influence, merging
from streamfl.online.native.merging.agreed_round import after_round
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.pairs import no_pairs
from streamfl.protocol.native.settings import FOLLOWING, NativeSettings
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


# --- what follows what ---------------------------------------------------------------------------------------------


def with_pairs(pairs: list[list[float]], *, seed: int = 0) -> NativeLearnt:
    return replace(learnt(AUTO, drawn(20, seed=seed)), pairs=np.array(pairs))


def test_pairs_of_all_clients_are_added_up_and_those_of_before_count_less():
    one, other = with_pairs([[0, 1, 4], [1, 0, 2]]), with_pairs([[0, 1, 3]], seed=2)
    one, other = replace(one, labels=LABELS), replace(other, labels=("b", "a", "c"))
    first = agreed_pairs.after_round(no_pairs(), [one, other], LABELS)
    assert dict_of(first) == {(0, 1): 4.0, (1, 0): 2.0 + 3.0}
    # 0.95 of 4 and of 5, down to sixteenths.
    assert dict_of(agreed_pairs.after_round(first, [one], LABELS)) == {(0, 1): 3.75 + 4.0, (1, 0): 4.75 + 2.0}


def test_of_more_labels_than_there_is_room_for_the_rarest_are_forgotten():
    names = tuple(f"l{i}" for i in range(FOLLOWING + 2))
    pairs = [[0.0, float(i), float(1 + i % 7)] for i in range(len(names))] + [[3.0, 0.0, 1.0]]
    part = replace(with_pairs(pairs), labels=names)
    kept = dict_of(agreed_pairs.after_round(no_pairs(), [part], names))
    assert len([a for a, _ in kept if a == 0]) == FOLLOWING
    assert (3, 0) in kept
    assert sorted(set(range(len(names))) - {b for a, b in kept if a == 0}) == [7, 14]  # of 0, 7 and 14 the last


def dict_of(pairs: FloatArray) -> dict[tuple[int, int], float]:
    return {(int(a), int(b)): float(count) for a, b, count in pairs}


def test_pairs_of_clients_apart_are_left_out():
    one, other = with_pairs([[0, 1, 4]]), with_pairs([[0, 0, 9]], seed=2)
    alone, _ = after_round(none(), {"c0": one}, LABELS, AUTO)
    both, _ = after_round(none(), {"c0": one, "c1": other}, LABELS, AUTO, apart={"c1"})
    assert dict_of(alone.pairs) == dict_of(both.pairs)


def test_pairs_of_before_are_renamed_with_the_labels_and_those_of_the_round_are_not():
    known = replace(agreed(AUTO, learnt(AUTO, drawn(30))), pairs=np.array([[0.0, 0.0, 16.0], [0.0, 2.0, 32.0]]))
    part = replace(learnt(AUTO, drawn(20, seed=2)), pairs=no_pairs())
    part = replace(part, right=np.zeros(part.right.shape))  # all models have the new names wrong
    renamed, _ = after_round(replace(known, table=known.table.copy()), {"c0": part}, LABELS, AUTO, renamed=(1, 0))
    # Label 1 is now called what label 0 was: what followed 0 follows 1.
    assert dict_of(renamed.pairs) == {(1, 1): 15.1875, (1, 2): 30.375}


def test_a_client_that_counts_less_has_fewer_pairs():
    part = with_pairs([[0, 1, 5], [1, 0, 1]])
    half = influence.of_fewer(part, part.records // 2)
    assert half.pairs.tolist() == [[0.0, 1.0, 2.0]]
    assert half.pairs[:, 2].sum() <= part.pairs[:, 2].sum() / 2
