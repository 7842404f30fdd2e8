"""Grids of native models: draws by client and round, what is sent, and steps that no client sets alone."""

from dataclasses import replace

import numpy as np
import pytest
from native_streams import LABELS, agreed, changed, drawn, exact, learnt, powers, state

from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging
from streamfl.online.native.merging.grids import step_of_cells
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import KINDS, NativeSettings
from streamfl.protocol.native.sleeping import Rest
from streamfl.protocol.native.steps import Steps

AUTO, LINEAR = NativeSettings("auto"), NativeSettings("linear")


def test_each_depth_and_rate_has_its_step():
    steps = step_of_cells(Steps((0,), (1, 2, 3, -4)), np.array([0, 25_599, 25_600, 127_999]))
    assert steps[..., 0].tolist() == [[2.0, 4.0], [2.0, 4.0], [8.0, 0.0625], [8.0, 0.0625]]


# --- what a client sends -----------------------------------------------------------------------------------------


def taught(begin: NativeState | None = None, *, seed: int = 3, settings: NativeSettings = AUTO) -> NativeLearner:
    learner = NativeLearner(settings)
    if begin is not None:
        learner.begin(begin)
    learner.learn(*drawn(60, seed=seed, targets=settings.targets).part(0, 60))
    return learner


def steps_of(part: NativeLearnt, begin: NativeState | None) -> Steps:
    return part.steps if begin is None else begin.steps


@pytest.mark.compiles
@pytest.mark.parametrize("targets", [False, True])
@pytest.mark.parametrize("first", [True, False])
def test_what_is_sent_is_less_than_a_step_from_what_was_learnt(targets, first):
    settings = NativeSettings("auto", targets=targets)
    labels = () if targets else LABELS
    begin = None if first else agreed(settings, learnt(settings, drawn(30, targets=targets)), labels=labels)
    learner = taught(begin, settings=settings)
    told, whole = learner.learnt("c0", 1), exact(learner)
    steps, free = steps_of(told, begin), slice(0, 1 if targets else -1)
    weights = powers(steps.weights, steps.finer)[:, None]
    assert (np.abs(weights * told.weights - whole.weights)[..., free] < weights).all()
    assert told.weights.any()
    sent = np.isin(whole.cells, told.cells)  # most rows that round to nothing are left out
    at = step_of_cells(steps, whole.cells.astype(int))
    np.testing.assert_array_equal(whole.cells[sent], told.cells)
    assert (np.abs(at[sent] * told.table - whole.table[sent])[..., free] < at[sent]).all()
    assert (np.abs(whole.table[~sent])[..., free] < at[~sent]).all()
    # Those that are sent all the same count as eight visits at least.
    counted = np.where(told.table.any(axis=(1, 2)), whole.visits[sent], np.maximum(whole.visits[sent], 8.0))
    np.testing.assert_array_equal(told.visits, np.rint(np.log2(counted)))
    for array in (told.weights, told.table):
        np.testing.assert_array_equal(array, np.rint(array))
        if not targets:
            assert not array.sum(axis=-1).any()


@pytest.mark.compiles
def test_a_client_and_a_round_have_their_own_draws_and_the_same_ones_again():
    begin = agreed(AUTO, learnt(AUTO, drawn(30)), labels=LABELS)
    one, same = taught(begin), taught(begin)
    told = state(one.learnt("c0", 2))
    assert told == state(one.learnt("c0", 2)) == state(same.learnt("c0", 2))
    for key in (("c1", 2), ("c0", 3)):
        other = one.learnt(*key)
        assert state(other.weights) != state(one.learnt("c0", 2).weights)
        assert state(other.table) != state(one.learnt("c0", 2).table)
        # Only what is drawn is another.
        without = ("weights", "table", "cells", "visits")
        assert state(other, without=without) == state(one.learnt("c0", 2), without=without)


@pytest.mark.compiles
def test_the_mean_over_rounds_of_what_is_sent_is_what_was_learnt():
    begin = agreed(LINEAR, learnt(LINEAR, drawn(30)), labels=LABELS)
    learner = taught(begin, settings=LINEAR)
    weights = powers(begin.steps.weights, begin.steps.finer)[:, None]
    mean = np.mean([weights * learner.learnt("c0", t).weights for t in range(2000)], axis=0)
    # Half a step is the largest deviation of a single one; the last column has those of two others.
    assert (np.abs(mean - exact(learner).weights) < 5.0 * 0.5 * np.sqrt(2.0 / 2000.0) * weights).all()


# --- steps -------------------------------------------------------------------------------------------------------


@pytest.mark.compiles
def test_the_steps_that_a_client_chooses_first_follow_the_size_of_what_it_learnt():
    settings = NativeSettings("auto", targets=True)
    stream = drawn(60, targets=True)
    small, large = (learnt(settings, replace(stream, y=factor * stream.y)) for factor in (1.0, 2.0**10))
    assert small.steps.are_known
    assert np.subtract(large.steps.weights, small.steps.weights).tolist() == [10] * len(settings.names)
    assert np.subtract(large.steps.table, small.steps.table).tolist() == [10] * KINDS
    assert small.steps.half == large.steps.half == 3  # sqrt(60) = 2^2.95


@pytest.mark.compiles
def test_published_steps_are_those_of_the_change_and_of_every_client():
    models = NativeState.none(AUTO)
    clients = [NativeLearner(AUTO) for _ in range(3)]
    for t in range(3):
        for c, client in enumerate(clients):
            client.learn(*drawn(60, seed=10 * t + c).part(0, 60))
        parts = [client.learnt(f"c{c}", t) for c, client in enumerate(clients)]
        models, change = merging.after(models, parts, LABELS)
        for client in clients:
            client.begin(*client.following(change))
        assert models.steps.are_sound(len(AUTO.names), KINDS)
        assert models.steps.are_known
        assert {client._agreed.steps for client in clients} == {models.steps} == {change.steps}


def lying(part: NativeLearnt, exponent: int, factor: float) -> NativeLearnt:
    """Return a lie of a client: of its steps, and of its numbers."""
    models = part.weights.shape[1]
    steps = Steps((exponent,) * models, (exponent,) * KINDS, part.steps.half)
    return replace(part, weights=factor * part.weights, table=factor * part.table, steps=steps)


@pytest.mark.compiles
@pytest.mark.parametrize("at", [0, 4])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("exponent", "factor"), [(60, 1e6), (-60, 0.0)])
def test_one_of_five_clients_moves_the_steps_no_farther_than_another_honest_one(at, first, exponent, factor):
    begin = NativeState.none(AUTO) if first else agreed(AUTO, learnt(AUTO, drawn(30)), labels=LABELS)
    honest = [changed(AUTO, begin, drawn(60, seed=seed)) for seed in range(5)]
    alone = [next_steps(begin, [part]) for part in honest]
    told = [lying(part, exponent, factor) if i == at else part for i, part in enumerate(honest)]
    found = next_steps(begin, told)
    others = [steps for i, steps in enumerate(alone) if i != at]
    for kind in range(len(found)):
        assert min(one[kind] for one in others) <= found[kind] <= max(one[kind] for one in others)


def next_steps(begin: NativeState, parts: list[NativeLearnt]) -> tuple[int, ...]:
    models, _ = merging.after(replace(begin, table=begin.table.copy()), parts, LABELS)
    return (*models.steps.weights, *models.steps.table)


@pytest.mark.compiles
def test_models_that_learnt_nothing_keep_their_steps():
    begin = agreed(AUTO, learnt(AUTO, drawn(30)), labels=LABELS)
    published = Steps((20,) * len(AUTO.names), (20,) * KINDS, begin.steps.half)
    asleep = replace(begin, steps=published, rests={"linear": Rest(left=3), "fern-24-10": Rest(left=3)})
    found = next_steps(asleep, [changed(AUTO, asleep, drawn(60, seed=seed)) for seed in range(5)])
    kept = [AUTO.names.index("linear-10"), AUTO.names.index("fern-24-10"), len(AUTO.names) + KINDS - 1]
    assert [found[k] for k in kept] == [20] * 3
    # And without records all do.
    models, change = merging.after(replace(asleep, table=begin.table.copy()), [], LABELS)
    assert models.steps == change.steps == published
