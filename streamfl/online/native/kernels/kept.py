"""The cache of compiled code: a folder for each version of the sources that are compiled."""

import hashlib
import logging
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.misc.appdirs import AppDirs

KERNELS = Path(__file__).parent
CORE = KERNELS.parents[2]

# What a wheel or an image carries: `streamfl compile --to` writes it there before either is built.
CARRIED = KERNELS / "carried"

# All sources on which compiled code can depend: the loops, how they take arguments, and the files with the constants
# that they import. A test checks that they import nothing else.
SOURCES = (
    *sorted(KERNELS.glob("*.py")),
    KERNELS.parent / "kept_arguments.py",
    CORE / "arrays.py",
    CORE / "protocol" / "digits.py",
    CORE / "protocol" / "moments.py",
    CORE / "protocol" / "native" / "settings.py",
)

# The most versions in one place: several checkouts may share it, and it must not grow without bound.
VERSIONS = 4

LOG = logging.getLogger("streamfl")

_config: Any = numba.config
_CacheFile: Any = IndexDataCacheFile
_reduce: Any = CompileResult._reduce  # the content of Numba's files
_rebuild: Any = CompileResult._rebuild
_dirs: Any = AppDirs
_target: Any = cpu_target


@cache
def version() -> str:
    """Return the digest of everything on which compiled code depends.

    Code with checked indices differs, which the names of Numba's own files do not show.
    """
    compilers = numba.__version__, llvmlite.__version__, sys.implementation.cache_tag
    digest = hashlib.sha256(repr((compilers, checked(), processor())).encode())
    for source in SOURCES:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def checked() -> bool:
    """Tell whether every index is checked."""
    return bool(_config.BOUNDSCHECK)


def processor() -> tuple[str, ...]:
    """Return the platform, the name of the processor, and what it can do, as LLVM names them."""
    named: tuple[str, ...] = _target.target_context.codegen().magic_tuple()
    return named


def unfit() -> bool:
    """Tell whether compiled code is carried, but none for these sources, compilers and processor."""
    return any(CARRIED.glob("streamfl-*")) and not (CARRIED / f"streamfl-{version()}").is_dir()


def places() -> list[Path]:
    """Return the folders for the cache, in order: `NUMBA_CACHE_DIR`, next to the sources, the user's cache."""
    named = [Path(_config.CACHE_DIR)] if _config.CACHE_DIR else []
    user = Path(_dirs(appname="numba", appauthor=False).user_cache_dir)
    return [*named, KERNELS / "__pycache__", user]


class Kept:
    """The cache of one compiled function, with the interface that Numba expects.

    Numba's own cache depends on the file of a function alone, not on those of functions that it calls, nor on
    constants. It also reads nothing from a folder that it cannot write to, such as that of an image.

    Parameters
    ----------
    function
        A function in one of `SOURCES`.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._folders = [place / f"streamfl-{version()}" for place in places()]
        self._readable = [*self._folders, CARRIED / f"streamfl-{version()}"]

    @property
    def cache_path(self) -> str | None:
        """Return the first folder that holds compiled code of the function."""
        return next((str(folder) for folder in self._readable if any(folder.glob(f"{self._name}-*.nbi"))), None)

    def copy(self, to: Path) -> None:
        """Copy what is kept to a folder, from which `CARRIED` can be filled.

        Raises
        ------
        OSError
            The folder cannot be written to.
        """
        copies = to / f"streamfl-{version()}"
        copies.mkdir(parents=True, exist_ok=True)
        kept = [file for folder in self._readable for file in folder.glob(f"{self._name}-*.nb*")]
        for file in kept:
            if not (copies / file.name).exists():
                shutil.copy(file, copies)

    def load_overload(self, sig: object, target_context: Any) -> Any:
        """Return the code compiled for some types of arguments; None if no folder holds it."""
        target_context.refresh()
        key = sig, target_context.codegen().magic_tuple()
        name = self._file(key)
        for folder in self._readable:
            try:
                code = _CacheFile(str(folder), name, version()).load(key)
            except Exception as error:  # a damaged file must not end the process
                LOG.warning("compiled code in %s cannot be read, so it is compiled again: %r", folder / name, error)
                with suppress(OSError):
                    (folder / f"{name}.nbi").unlink()
                continue
            if code is not None:
                return _rebuild(target_context, *code)
        return None

    def save_overload(self, sig: object, data: Any) -> None:
        """Save the code compiled for some types of arguments, in the first folder that can be written to.

        If none can, every process compiles for itself.
        """
        key, code = (sig, data.codegen.magic_tuple()), _reduce(data)
        any(_saved(folder, self._file(key), key, code) for folder in self._folders)

    def _file(self, key: object) -> str:
        """Return a file name for some types of arguments: two processes may compile for different ones at once."""
        return f"{self._name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}"


def _saved(folder: Path, name: str, key: object, code: object) -> bool:
    """Write compiled code to a folder; tell whether that succeeded."""
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _forget(folder)
        _CacheFile(str(folder), name, version()).save(key, code)
    except OSError:
        return False
    return True


def _forget(newest: Path) -> None:
    """Remove all but the newest versions next to a folder."""
    others = [folder for folder in newest.parent.glob("streamfl-*") if folder != newest]
    for folder in sorted(others, key=lambda folder: folder.stat().st_mtime, reverse=True)[VERSIONS - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)
