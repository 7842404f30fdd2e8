"""Compiling: once for all whole numbers; said once, when it begins, and never when machine code is read back."""

import gc
import logging

import numba  # itself: what `compiled` makes is kept on disk, and would be read back by the next run
import numpy as np
import pytest

from streamfl.online.native.kernels import compiled as module
from streamfl.online.native.kernels.compiled import announced, compiled, inner

pytestmark = pytest.mark.compiles


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING, logger="streamfl")
    return caplog


def test_compiling_is_announced_once_however_much_is_compiled(said):
    first, second = numba.njit(lambda x: x + 1), numba.njit(lambda x: x + 2)
    with announced():
        assert (first(1), second(1)) == (2, 3)
    (message,) = said.messages
    assert message.startswith("compiling the models that learn record by record, once after installation")


def test_code_that_is_compiled_already_is_not_announced(said):
    function = numba.njit(lambda x: x + 3)
    function(1)
    with announced():
        assert function(1) == 4
    assert said.messages == []


def test_compiling_outside_of_the_announced_block_is_not_announced(said):
    with announced():
        pass
    numba.njit(lambda x: x + 4)(1)
    assert said.messages == []


def test_the_announcement_of_compiling_says_where_carried_code_does_not_fit(said, monkeypatch):
    monkeypatch.setattr(module, "unfit", lambda: True)
    with announced():
        numba.njit(lambda x: x + 5)(1)
    (message,) = said.messages
    assert message.endswith(f"; the code in {module.CARRIED} is for another version or processor")


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_afterwards_as_it_was_before(collects):
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(KeyError), announced():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


@inner
def add_at(values, i, more):
    values[i] += more
    return values[i]


@compiled
def add_twice(values, i):
    return add_at(values, 0, 1.0) + add_at(values, i, 10.0)


@compiled
def add_four_times(values, i):
    return add_twice(values, i) + add_twice(values, i)


def test_functions_call_one_another_and_python_calls_those_that_it_may():
    values = np.array([1.0, 2.0, 3.0])
    assert add_twice(values, 2) == 2.0 + 13.0
    assert add_four_times(values, 1) == (3.0 + 12.0) + (4.0 + 22.0)
    assert values.tolist() == [4.0, 22.0, 13.0]


def test_a_function_is_compiled_once_for_constants_and_variables():
    add_four_times(np.zeros(2), 1)
    (types,) = add_at.overloads
    assert str(types[1]) == "int64"


@pytest.mark.parametrize("function", [add_twice, add_four_times])
def test_where_indices_are_checked_an_inner_function_raises(function):
    assert numba.config.BOUNDSCHECK  # as `conftest.py` sets it
    with pytest.raises(IndexError, match="out of bounds"):
        function(np.zeros(2), 2)
