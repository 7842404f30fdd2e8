"""Compiles loops over single records, for which NumPy would need fifty calls a record."""

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

# Python's own logging shows warnings on standard error without any set-up, also in a notebook.
LOG = logging.getLogger("streamfl")

_untyped: Any = structref


@structref.register
class _HeldType(types.StructRef):
    """The compiled type of `KeptArguments`."""


class KeptArguments(structref.StructRefProxy):
    """Arguments kept for compiled functions: to pass forty arrays at every call costs as much as the work itself.

    A compiled function makes it; other compiled functions take it and find the arguments in `inside`.

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
    """Return a function of arrays and numbers that is compiled at its first call and cached: see `Kept`.

    Arithmetic keeps the order in which it is written, without fast math, so that the bits do not depend on how
    records are cut into batches.

    Examples
    --------
    >>> compiled(lambda x: x + 1)(1)
    2
    """
    return _compiled(function)


def released(function: F) -> F:
    """Return a compiled function that lets other threads run meanwhile: each must have arrays of its own."""
    return _compiled(function, nogil=True)


def inner(function: F) -> F:
    """Return a compiled function that only compiled functions call: it has no entry point for Python."""
    return _compiled(function, no_cpython_wrapper=True)


def _compiled(function: F, **options: bool) -> F:
    njit: Any = numba.njit  # not all of its options are typed
    made = njit(error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    if Path(function.__code__.co_filename).parent == KERNELS:
        with suppress(OSError):  # installed without its sources: every process compiles for itself
            made._cache = Kept(function)
    return cast(F, made)


@contextmanager
def announced() -> Iterator[None]:
    """Log once when a compilation begins; reading from the cache logs nothing.

    To compile takes ten seconds, on a busy machine a minute and more, during which the process seems to hang.

    Examples
    --------
    >>> with announced():
    ...     compiled(lambda x: x + 2)(1)
    3
    """
    with event.install_listener("numba:compile", _Announcer()):
        yield


class _Announcer(event.Listener):
    """Logs the start of the first compilation."""

    _logged = False

    def on_start(self, _: event.Event) -> None:
        """Log it."""
        if not self._logged:
            self._logged = True
            LOG.warning(
                "compiling the models that learn record by record, once after installation: ten seconds to a minute "
                "or two (streamfl compile does it beforehand)"
            )

    def on_end(self, _: event.Event) -> None:
        """Log nothing."""


def plain(array: FloatArray) -> FloatArray:
    """Return an array as the loops take it: by rows and writable; a read-only one would need another compilation."""
    if array.flags.c_contiguous and array.flags.writeable and array.dtype == np.float64:
        return array
    return np.array(array, np.float64, order="C")
