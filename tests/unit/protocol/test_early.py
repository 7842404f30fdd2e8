"""First values that do not belong there are let go of as soon as the next few tell; nothing else is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.arrays import FloatArray
from streamfl.protocol.early import FEW, Early, followed
from streamfl.protocol.moments import FEWEST, NOTHING, Moments, merged
from streamfl.sampling import generator


def of(values: FloatArray, name: str = "x") -> Moments:
    return Moments.of((name,), np.asarray(values, np.float64)[:, None])


def through(values: FloatArray, size: int) -> list[Moments]:
    """Return what is known after each round of so many values."""
    seen, early, found = NOTHING, Early(), []
    for start in range(0, len(values), size):
        seen, early = followed(seen, early, of(values[start : start + size]))
        found.append(seen)
    return found


def drawn(n: int = 400) -> FloatArray:
    return generator(0, "early").normal(size=n)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 20, 60])
@pytest.mark.parametrize("at", [0, 3, 7])
@pytest.mark.parametrize("value", [1e9, -9999.0, 1e150])
def test_a_glitch_among_the_first_values_does_not_last(size: int, at: int, value: float):
    values = drawn()
    values[at] = value
    last = through(values, size)[-1]
    kept = values[int(400 - last.count[0]) :]
    assert value not in kept
    assert last.mean[0] == pytest.approx(kept.mean())
    assert last.variance[0] == pytest.approx(kept.var())
    assert len(kept) >= 400 - max(2 * size, 24)


@pytest.mark.parametrize("size", [1, 3, 8, 60])
def test_sentinels_that_come_again_are_let_go_of_as_well(size: int):
    values = drawn()
    values[[2, 13, 29]] = -9999.0
    assert through(values, size)[-1].variance[0] < 2.0


@pytest.mark.parametrize("size", [1, 3, 8, 60, 300])
@pytest.mark.parametrize(
    "values",
    [
        np.arange(400.0),  # a clock
        np.cumsum(drawn()),  # a walk
        np.repeat(np.arange(20.0), 20),  # a step now and then
        np.arange(400) % 50 == 49,  # a rare event
        np.full(400, 7.0),
        np.sin(np.arange(400) / 60.0),
    ],
    ids=["clock", "walk", "steps", "rare", "constant", "sine"],
)
def test_what_only_moves_keeps_all_its_values(values: FloatArray, size: int):
    assert through(np.asarray(values, np.float64), size)[-1].count[0] >= 400 - 2 * max(size, FEWEST)


def test_how_few_values_a_large_first_round_is_judged_by():
    first = drawn(1000)
    first[5] = 1e9
    seen, early = followed(NOTHING, Early(), of(first))
    for _ in range(5):  # 8 values of 1000 that hardly differ tell nothing
        seen, early = followed(seen, early, of(np.linspace(0.0, 1e-3, 8)))
        assert seen.count[0] > 1000.0
    seen, early = followed(seen, early, of(drawn(20)))
    assert seen.count[0] == 60.0
    assert early.first.count[0] > 0.0


def test_later_glitches_are_not_what_is_judged_here():
    values = drawn()
    values[300:] = 1e9 + np.arange(100)
    assert through(values, 3)[-1].count[0] == 400.0
    assert FEW < 300


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    sizes=st.lists(st.integers(1, 20), min_size=60, max_size=60),
)
def test_what_is_known_is_always_of_the_last_values(values: list[float], sizes: list[int]):
    seen, early, at = NOTHING, Early(), 0
    for size in sizes:
        part = np.array(values[at : at + size])
        at += len(part)
        if not len(part):
            break
        seen, early = followed(seen, early, of(part))
        count = int(seen.count[0])
        kept = np.array(values[at - count : at])
        assert 1 <= count <= at
        assert seen.mean[0] == pytest.approx(kept.mean(), abs=1e-6)
        assert seen.variance[0] == pytest.approx(kept.var(), rel=1e-6, abs=1e-3)
        assert early.first.count[0] + early.later.count[0] in (0.0, count)


def test_features_are_judged_one_by_one_and_may_come_late():
    seen, early = followed(NOTHING, Early(), of(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1e6]), "a"))
    late = merged([of(np.arange(8.0), "a"), of(np.arange(8.0), "b")])
    seen, early = followed(seen, early, late)
    assert (seen.features, seen.count.tolist(), seen.mean.tolist()) == (("a", "b"), [8.0, 8.0], [3.5, 3.5])
    seen, early = followed(seen, early, of(np.arange(8.0), "b"))
    assert seen.count.tolist() == [8.0, 16.0]
