"""Earlier models: the ages in the trail, and which entries of the pool are replaced or dropped."""

import numpy as np
import pytest

from streamfl.arrays import FloatArray
from streamfl.learning.profiles.adaptive.recall import MOST, MOST_OF_EPOCH, SLOTS, RecallPool, Trail


def model(value: float) -> FloatArray:
    return np.array([[value]])


@pytest.mark.parametrize("first", [1, 2, 37, 128, 301])
def test_slot_k_holds_an_incumbent_that_is_between_2_to_the_k_minus_1_and_twice_that_old(first: int) -> None:
    trail = Trail()
    for t in range(first, first + 600):
        trail.keep(t, model(t))
        ages = [t - kept for kept, _ in trail.kept]
        assert all(2**k - 1 <= age <= 2 ** (k + 1) - 2 for k, age in enumerate(ages))
        assert [int(W[0, 0]) for _, W in trail.kept] == [t - age for age in ages]
        # Once a slot's time has come it is never empty again.
        assert len(ages) >= min(SLOTS, (t - first + 2).bit_length() - 1)
    assert len(trail.kept) == SLOTS


def test_before_is_the_youngest_incumbent_of_an_earlier_round() -> None:
    trail = Trail()
    assert trail.before(5) is None
    for t in range(1, 101):
        trail.keep(t, model(t))
    kept = [t for t, _ in trail.kept]
    for t in range(1, 102):
        before = trail.before(t)
        younger = [k for k in kept if k < t]
        assert (before is None) == (not younger)
        assert before is None or before[0, 0] == max(younger)


def test_the_trail_is_re_expressed() -> None:
    trail = Trail([(4, model(4.0)), (3, model(3.0))])
    trail.transform(lambda W: 2.0 * W)
    assert [(t, W[0, 0]) for t, W in trail.kept] == [(4, 8.0), (3, 6.0)]


def values(pool: RecallPool) -> dict[str, float]:
    return {name: float(entry.W[0, 0]) for name, entry in pool.entries.items()}


def filled() -> RecallPool:
    """Return a full pool: the model of epoch i, a concept of its own, is i."""
    pool = RecallPool()
    for epoch in range(1, MOST + 1):
        pool.add(model(epoch), epoch=epoch, chosen="scratch")
        pool.choose("scratch", epoch=epoch + 1)
    assert values(pool) == {f"recall-{i}": float(i) for i in range(1, 9)}
    return pool


def test_concepts_that_take_turns_stay_two() -> None:
    # Epochs 1, 2, 3 .. have concepts 0, 1, 0, 1, ..; every model is a little better than the one before.
    pool = RecallPool()
    for epoch in range(1, 21):
        ended = (epoch - 1) % 2
        known = {int(value) // 100: name for name, value in values(pool).items()}
        chosen = known.get(1 - ended, "scratch")
        pool.add(model(100.0 * ended + epoch), epoch=epoch, chosen=chosen)
        pool.choose(chosen, epoch=epoch + 1)
    assert values(pool) == {"recall-1": 19.0, "recall-2": 120.0}


def test_a_model_that_began_from_elsewhere_gets_an_entry_of_its_own() -> None:
    pool = RecallPool()
    pool.add(model(1.0), epoch=1, chosen="recall-1")
    pool.choose("recall-1", epoch=2)
    pool.choose("relabelled", epoch=3)
    pool.add(model(2.0), epoch=3, chosen="scratch")
    assert values(pool) == {"recall-1": 1.0, "recall-2": 2.0}


def test_an_epoch_that_goes_on_from_a_live_model_is_the_concept_that_it_was() -> None:
    pool = filled()
    for epoch in range(MOST + 1, MOST + 10):
        pool.add(model(10.0 * epoch), epoch=epoch, chosen="step 16")
        pool.choose("step 16", epoch=epoch + 1, same=True)
    assert values(pool) == {**{f"recall-{i}": float(i) for i in range(2, 9)}, "recall-9": 170.0}


def test_the_least_recently_chosen_leaves_when_there_are_more_than_eight() -> None:
    pool = filled()
    # The first was made first, but chosen last: the second goes.
    pool.choose("recall-1", epoch=MOST + 1)
    pool.add(model(1.5), epoch=MOST + 1, chosen="scratch")
    pool.choose("scratch", epoch=MOST + 2)
    pool.add(model(9.0), epoch=MOST + 2, chosen="scratch")
    assert values(pool) == {"recall-1": 1.5, **{f"recall-{i}": float(i) for i in range(3, 10)}}


def test_the_entry_that_is_chosen_now_stays_though_it_was_chosen_longest_ago() -> None:
    pool = filled()
    pool.add(model(9.0), epoch=MOST + 1, chosen="recall-1")
    pool.choose("recall-1", epoch=MOST + 2)
    assert list(pool.entries) == ["recall-1", *(f"recall-{i}" for i in range(3, 10))]
    assert pool.current == "recall-1"


def test_an_entry_that_was_chosen_lately_stays_though_its_epoch_left_no_model() -> None:
    pool = filled()
    pool.choose("recall-1", epoch=MOST + 1)
    pool.choose("scratch", epoch=MOST + 2)  # an alarm in the first round of epoch 9
    pool.add(model(9.0), epoch=MOST + 2, chosen="scratch")
    assert list(pool.entries) == ["recall-1", *(f"recall-{i}" for i in range(3, 10))]


def test_an_entry_that_left_is_not_begun_from() -> None:
    pool = RecallPool()
    pool.choose("recall-1", epoch=2)
    pool.add(model(1.0), epoch=2, chosen="gone")
    pool.choose("gone", epoch=3)
    assert pool.current is None


def test_the_pool_is_re_expressed() -> None:
    pool = RecallPool()
    pool.add(model(1.0), epoch=1, chosen="scratch")
    pool.transform(lambda W: np.hstack([3.0 * W, np.zeros((1, 1))]))
    assert pool.entries["recall-1"].W.tolist() == [[3.0, 0.0]]


def test_models_of_one_long_epoch_do_not_push_out_those_of_earlier_ones() -> None:
    pool = RecallPool()
    for epoch in (1, 2, 3):
        pool.add(np.full((1, 1), float(epoch)), epoch=epoch, chosen="scratch")
        pool.choose("scratch", epoch=epoch + 1)
    for k in range(20):
        pool.add(np.full((1, 1), 100.0 + k), epoch=4, chosen="scratch")
        pool.choose("scratch", epoch=4)
    assert {1.0, 2.0, 3.0} <= {*values(pool).values()}
    assert {117.0, 118.0, 119.0} <= {*values(pool).values()}  # and the newest of the epoch
    assert len(pool.of_epoch(4)) > MOST_OF_EPOCH
    assert len(pool.entries) == MOST
