"""Compiles loops over single records, for which NumPy would need fifty calls a record."""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.core import event

from streamfl.arrays import FloatArray
from streamfl.online.native.kernels.kept import CARRIED, KERNELS, Kept, unfit
from streamfl.online.native.kernels.program import PartCompiler, ProgramCompiler

F = TypeVar("F", bound=Callable[..., object])

# Python's own logging shows warnings on standard error without any set-up, also in a notebook.
LOG = logging.getLogger("streamfl")

_unliteral: Any = types.unliteral


def compiled(function: F) -> F:
    """Return a function of arrays and numbers that is compiled at its first call and cached: see `Kept`.

    Arithmetic keeps the order in which it is written, without fast math, so that the bits do not depend on how
    records are cut into batches.

    Examples
    --------
    >>> compiled(lambda x: x + 1)(1)
    2
    """
    return _program(function)


def released(function: F) -> F:
    """Return a compiled function that lets other threads run meanwhile: each must have arrays of its own."""
    return _program(function, nogil=True)


def _program(function: F, **options: bool) -> F:
    made, part = _made(function, ProgramCompiler, **options), cast(Any, inner(function))
    made.get_call_template, made.get_overload = part.get_call_template, part.get_overload
    if Path(function.__code__.co_filename).parent == KERNELS:
        with suppress(OSError):  # installed without its sources: every process compiles for itself
            made._cache = Kept(function)
    return cast(F, made)


def inner(function: F) -> F:
    """Return a compiled function that only compiled functions call: it has no entry point for Python."""
    made = _made(function, PartCompiler, no_cpython_wrapper=True)
    template = made.get_call_template

    def unspecialised(arguments: Any, by_name: Any) -> Any:
        """Compile once for all whole numbers, not for each constant."""
        return template([_unliteral(kind) for kind in arguments], by_name)

    made.get_call_template = unspecialised
    return cast(F, made)


def _made(function: Callable[..., object], compiler: type, **options: bool) -> Any:
    njit: Any = numba.njit  # not all of its options are typed
    # No function makes or keeps an array, so references need not be counted, which would take a third of the time.
    return njit(error_model="numpy", no_cfunc_wrapper=True, _nrt=False, pipeline_class=compiler, **options)(function)


@contextmanager
def announced() -> Iterator[None]:
    """Log once when a compilation begins; reading from the cache logs nothing.

    To compile takes five seconds, on a busy machine half a minute, during which the process seems to hang.

    Examples
    --------
    >>> with announced():
    ...     compiled(lambda x: x + 2)(1)
    3
    """
    collects = gc.isenabled()
    gc.disable()  # a million objects and hardly any cycles: collecting takes an eighth of the time
    try:
        with event.install_listener("numba:compile", _Announcer()):
            yield
    finally:
        if collects:
            gc.enable()


class _Announcer(event.Listener):
    """Logs the start of the first compilation."""

    _logged = False

    def on_start(self, _: event.Event) -> None:
        """Log it."""
        if not self._logged:
            self._logged = True
            LOG.warning(
                "compiling the models that learn record by record, once after installation: five seconds, on a busy "
                "machine half a minute (streamfl compile does it beforehand)%s",
                f"; the code in {CARRIED} is for another version or processor" if unfit() else "",
            )

    def on_end(self, _: event.Event) -> None:
        """Log nothing."""


def plain(array: FloatArray) -> FloatArray:
    """Return an array as the loops take it: by rows and writable; a read-only one would need another compilation."""
    if array.flags.c_contiguous and array.flags.writeable and array.dtype == np.float64:
        return array
    return np.array(array, np.float64, order="C")
