"""Kept arguments: compiled functions read and write arrays of every kind where they are."""

import gc
from typing import NamedTuple

import numba
import numpy as np
import pytest

from streamfl.online.native import kept_arguments
from streamfl.online.native.kept_arguments import KeptArguments, kept
from streamfl.online.native.kernels.compiled import compiled

pytestmark = pytest.mark.compiles

COUNTED = np.dtype([("rows", np.int64), ("mean", np.float64)])


class Inner(NamedTuple):
    first: int
    table: np.ndarray
    flags: np.ndarray


class Outer(NamedTuple):
    inner: Inner
    column: np.ndarray
    counted: np.ndarray
    cube: np.ndarray
    empty: np.ndarray
    last: int
    targets: bool


@compiled
def read(inside):
    return (
        inside.inner.first,
        inside.inner.table[1, 2],
        inside.inner.table.shape[1],
        inside.inner.flags[1],
        inside.column[2],
        inside.counted[0].mean,
        inside.cube[1, 2, 3],
        len(inside.empty),
        inside.last,
        inside.targets,
    )


@compiled
def write(inside, i, value):
    inside.inner.table[i, i] = value
    inside.column[i] += value
    inside.counted[0].rows += 1


def outer(targets: bool) -> Outer:
    inner = Inner(7, np.arange(6.0, dtype=np.float32).reshape(2, 3), np.array([False, True]))
    every_other = np.arange(8.0)[::2]
    cube = np.arange(24).reshape(2, 3, 4)
    return Outer(inner, every_other, np.array([(3, 0.5)], COUNTED), cube, np.zeros((0, 4)), -2, targets)


@pytest.mark.parametrize("targets", [True, False])
def test_every_kind_of_argument_is_read(targets):
    assert read(KeptArguments(outer(targets))) == (7, 5.0, 3, True, 4.0, 0.5, 23, 0, -2, targets)


def test_arrays_are_written_where_they_are():
    arguments = outer(True)
    held = KeptArguments(arguments)
    write(held, 1, 10.0)
    write(held, 0, 20.0)
    assert arguments.inner.table.tolist() == [[20.0, 1.0, 2.0], [3.0, 10.0, 5.0]]
    assert arguments.column.tolist() == [20.0, 12.0, 4.0, 6.0]
    assert arguments.counted.tolist() == [(5, 0.5)]


@compiled
def tail(inside):
    return inside.inner.table[0, 0] + read(inside)[1]


def test_kept_arguments_are_passed_on_as_one_pointer():
    assert tail(kept(outer(True))) == 0.0 + 5.0


def test_a_kept_argument_that_is_no_word_is_refused():
    with pytest.raises(TypeError, match="float"):
        KeptArguments(outer(True)._replace(last=0.5))


def test_a_field_that_there_is_not_is_refused():
    with pytest.raises(numba.TypingError, match="Unknown attribute 'other'"):
        compiled(lambda inside: inside.other)(KeptArguments(outer(True)))


def test_arrays_of_kept_arguments_are_not_freed():
    held = KeptArguments(outer(False))
    gc.collect()
    others = [np.full((2, 3), 9.0, np.float32) for _ in range(100)]
    assert read(held)[1] == 5.0
    assert len(others) == 100


class Other(NamedTuple):
    only: np.ndarray


def test_another_representation_of_arrays_is_refused(monkeypatch):
    monkeypatch.setattr(kept_arguments, "_flatten", lambda _, words, kinds: words.extend(range(6)))  # an array has 7
    monkeypatch.setattr(kept_arguments, "_TYPES", {})
    held = KeptArguments(Other(np.zeros(1)))
    with pytest.raises(NotImplementedError, match="represents arrays in another way"):
        compiled(lambda inside: inside.only[0])(held)


def test_arguments_have_the_type_that_numba_finds_whatever_was_kept_before():
    plain = np.zeros((4, 4))
    parts = [plain, plain[:, :2], plain.T, plain[0], plain.astype(np.float32), plain.view(), plain[:0]]
    readonly = plain.copy()
    readonly.flags.writeable = False
    for array in [*parts, readonly, *reversed(parts)]:
        assert KeptArguments(Other(array))._numba_type_.inside == numba.typeof(Other(array))


def test_the_types_that_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(kept_arguments, "_TYPES", {})
    monkeypatch.setattr(kept_arguments, "MOST_TYPES", 3)
    for dtype in (np.float64, np.float32, np.int64, np.int32, np.int8):
        KeptArguments(Other(np.zeros(1, dtype)))
    assert len(kept_arguments._TYPES) == 3
