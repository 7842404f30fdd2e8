"""Where machine code is kept: in a folder of its own for each version of all that is compiled in."""

import hashlib
import logging
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler import CompileResult
from numba.misc.appdirs import AppDirs

KERNELS = Path(__file__).parent
CORE = KERNELS.parents[2]

# All that machine code can depend on: the loops, and the files that define the constants that these import. A test
# holds that they import nothing else.
SOURCES = (
    *sorted(KERNELS.glob("*.py")),
    CORE / "arrays.py",
    CORE / "protocol" / "moments.py",
    CORE / "protocol" / "native" / "settings.py",
)

# Versions that one place keeps: several checkouts may share it, and none is to grow without bound.
VERSIONS = 4

LOG = logging.getLogger("streamfl")

_config: Any = numba.config
_CacheFile: Any = IndexDataCacheFile
_reduce: Any = CompileResult._reduce  # what Numba's files are made of
_rebuild: Any = CompileResult._rebuild
_dirs: Any = AppDirs


@cache
def version() -> str:
    """Return the digest of all that decides what machine code does.

    Checked indices are other machine code, which Numba's own files do not tell apart.
    """
    digest = hashlib.sha256(repr((numba.__version__, sys.implementation.cache_tag, checked())).encode())
    for source in SOURCES:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def checked() -> bool:
    """Tell whether every index is checked."""
    return bool(_config.BOUNDSCHECK)


def places() -> list[Path]:
    """Return the folders in which to look, and to keep, in this order.

    What `NUMBA_CACHE_DIR` names; beside the sources; the user's own.
    """
    named = [Path(_config.CACHE_DIR)] if _config.CACHE_DIR else []
    user = Path(_dirs(appname="numba", appauthor=False).user_cache_dir)
    return [*named, KERNELS / "__pycache__", user]


class Kept:
    """The machine code of one function, as Numba looks for it and hands it over to be kept.

    Numba's own cache looks at the file of a function alone, not at those of the functions that it calls, nor at
    constants; and it reads nothing from a folder that it cannot write to, such as that of an image.

    Parameters
    ----------
    function
        Defined in one of `SOURCES`.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._folders = [place / f"streamfl-{version()}" for place in places()]

    @property
    def cache_path(self) -> str | None:
        """Return the first folder that keeps any of it."""
        return next((str(folder) for folder in self._folders if any(folder.glob(f"{self._name}-*.nbi"))), None)

    def load_overload(self, sig: object, target_context: Any) -> Any:
        """Return what was compiled for some types of arguments; None if that is kept nowhere."""
        target_context.refresh()
        key = sig, target_context.codegen().magic_tuple()
        name = self._file(key)
        for folder in self._folders:
            try:
                found = _CacheFile(str(folder), name, version()).load(key)
            except Exception as error:  # a file that was cut off ends no process
                LOG.warning("machine code in %s cannot be read, and is compiled anew: %r", folder / name, error)
                with suppress(OSError):
                    (folder / f"{name}.nbi").unlink()
                continue
            if found is not None:
                return _rebuild(target_context, *found)
        return None

    def save_overload(self, sig: object, data: Any) -> None:
        """Keep what was compiled for some types of arguments, in the first place that can be written to.

        Where none can, every process compiles for itself.
        """
        key, code = (sig, data.codegen.magic_tuple()), _reduce(data)
        any(_saved(folder, self._file(key), key, code) for folder in self._folders)

    def _file(self, key: object) -> str:
        """Return a name for each kind of arguments: two processes may compile for two of them at once."""
        return f"{self._name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}"


def _saved(folder: Path, name: str, key: object, code: object) -> bool:
    """Write machine code to a folder; tell whether that could be done."""
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _forget(folder)
        _CacheFile(str(folder), name, version()).save(key, code)
    except OSError:
        return False
    return True


def _forget(newest: Path) -> None:
    """Remove the oldest other versions from a place."""
    others = [folder for folder in newest.parent.glob("streamfl-*") if folder != newest]
    for folder in sorted(others, key=lambda folder: folder.stat().st_mtime, reverse=True)[VERSIONS - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)
