"""Compiling: said once, when it begins, and never when machine code is read back."""

import logging

import numba  # itself: what `compiled` makes is kept on disk, and would be read back by the next run
import pytest

from streamfl.core.between.native.kernels.compiled import announced

pytestmark = pytest.mark.compiles


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING, logger="streamfl")
    return caplog


def test_is_said_once_however_much_is_compiled(said):
    first, second = numba.njit(lambda x: x + 1), numba.njit(lambda x: x + 2)
    with announced():
        assert (first(1), second(1)) == (2, 3)
    (message,) = said.messages
    assert message.startswith("compiling the models that learn record by record, once after installation")


def test_what_is_compiled_already_is_not_said(said):
    function = numba.njit(lambda x: x + 3)
    function(1)
    with announced():
        assert function(1) == 4
    assert said.messages == []


def test_what_is_compiled_outside_is_not_said(said):
    with announced():
        pass
    numba.njit(lambda x: x + 4)(1)
    assert said.messages == []
