"""Where machine code is kept: in a folder of its own for each version of all that is compiled in."""

import hashlib
import logging
import pickle
import shutil
import sys
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
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
_reduce: Any = CompileResult._reduce  # what Numba's own files are made of
_rebuild: Any = CompileResult._rebuild
_dumps: Any = dumps
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
        return next((str(folder) for folder in self._folders if any(folder.glob(f"{self._name}-*.nbc"))), None)

    def load_overload(self, sig: object, target_context: Any) -> Any:
        """Return what was compiled for some types of arguments; None if that is kept nowhere."""
        target_context.refresh()
        name = self._file(sig, target_context.codegen())
        for folder in self._folders:
            try:
                return _rebuild(target_context, *pickle.loads((folder / name).read_bytes()))  # noqa: S301 - as Numba's
            except FileNotFoundError:
                continue
            except Exception as error:
                LOG.warning("machine code in %s cannot be read, and is compiled anew: %r", folder / name, error)
        return None

    def save_overload(self, sig: object, data: Any) -> None:
        """Keep what was compiled for some types of arguments, in the first place that can be written to."""
        name, code = self._file(sig, data.codegen), _dumps(_reduce(data))
        any(
            _written(folder / name, code) for folder in self._folders
        )  # if nowhere, every process compiles for itself

    def _file(self, sig: object, codegen: Any) -> str:
        told = hashlib.sha256(repr((sig, codegen.magic_tuple())).encode()).hexdigest()[:16]
        return f"{self._name}-{told}.nbc"


def _written(path: Path, code: bytes) -> bool:
    """Write a file whole, as another process may at the same time; tell whether that could be done."""
    part = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            _forget(path.parent)
        part.write_bytes(code)
        part.replace(path)
    except OSError:
        return False
    return True


def _forget(newest: Path) -> None:
    """Remove the oldest other versions from a place."""
    others = [folder for folder in newest.parent.glob("streamfl-*") if folder != newest]
    for folder in sorted(others, key=lambda folder: folder.stat().st_mtime, reverse=True)[VERSIONS - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)
