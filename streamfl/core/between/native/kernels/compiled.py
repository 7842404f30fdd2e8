"""Loops over single records as machine code: what NumPy would do in fifty calls a record."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.core import event
from numba.experimental import structref

from streamfl.core.arrays import FloatArray
from streamfl.core.between.native.kernels.kept import KERNELS, Kept

F = TypeVar("F", bound=Callable[..., object])

# Python's own logging shows warnings on standard error where nobody has set it up: in a notebook, too.
LOG = logging.getLogger("streamfl")

_untyped: Any = structref


@structref.register
class _HeldType(types.StructRef):
    """How machine code sees `KeptArguments`."""


class KeptArguments(structref.StructRefProxy):
    """Arguments that machine code keeps: to hand over forty arrays anew at every call costs as much as what it does.

    Made by a compiled function; another one that is handed it finds them in `inside`.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> class Two(NamedTuple):
    ...     a: np.ndarray
    ...     b: np.ndarray
    >>> held = compiled(lambda two: KeptArguments(two))(Two(np.ones(2), np.ones(3)))
    >>> compiled(lambda held: held.inside.a.sum() + held.inside.b.sum())(held)
    5.0
    """

    inside: Any

    def __new__(cls, inside: object) -> "KeptArguments":
        """Keep arguments."""
        held: KeptArguments = _untyped.StructRefProxy.__new__(cls, inside)
        return held


_untyped.define_proxy(KeptArguments, _HeldType, ["inside"])


def compiled(function: F) -> F:
    """Return a function of arrays and numbers that is compiled when it is first called, and kept: see `Kept`.

    Arithmetic is done in the order in which it is written, without fast math: the same bits however records are cut.

    Examples
    --------
    >>> compiled(lambda x: x + 1)(1)
    2
    """
    return _compiled(function)


def inner(function: F) -> F:
    """Return a function that only compiled ones call: without what it takes to call it from Python."""
    return _compiled(function, no_cpython_wrapper=True)


def _compiled(function: F, **options: bool) -> F:
    njit: Any = numba.njit  # not all of its options are typed
    made = njit(error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    if Path(function.__code__.co_filename).parent == KERNELS:
        with suppress(OSError):  # packed without its sources: every process compiles for itself
            made._cache = Kept(function)
    return cast(F, made)


@contextmanager
def announced() -> Iterator[None]:
    """Say on the log that something is being compiled, once, as soon as it begins; what is read back is not.

    Compiling takes ten seconds, on a busy machine a minute and more, and looks like a process that hangs.

    Examples
    --------
    >>> with announced():
    ...     compiled(lambda x: x + 2)(1)
    3
    """
    with event.install_listener("numba:compile", _Announcer()):
        yield


class _Announcer(event.Listener):
    """Logs the first beginning of a compilation."""

    _said = False

    def on_start(self, _: event.Event) -> None:
        """Say it."""
        if not self._said:
            self._said = True
            LOG.warning(
                "compiling what learns record by record, once after installation: ten seconds to a minute or two "
                "(streamfl compile does it beforehand)"
            )

    def on_end(self, _: event.Event) -> None:
        """Say nothing: whoever waited goes on."""


def plain(array: FloatArray) -> FloatArray:
    """Return an array as the loops take it: by rows, and not read-only, which would be compiled for once more."""
    if array.flags.c_contiguous and array.flags.writeable and array.dtype == np.float64:
        return array
    return np.array(array, np.float64, order="C")
