"""Writes a file next to the one that it replaces: a process that is killed leaves the old one, never half of one."""

import os
import stat
from pathlib import Path


def replace(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file, or all of it again; one that was there keeps who may read it. A private one only its owner may.

    Raises
    ------
    OSError
        It cannot be written.
    """
    path = path.resolve()
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    mode = 0o600 if private else mode
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Nobody else may read it before it has its mode.
        made = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666 if mode is None else 0o600)
        with os.fdopen(made, "wb") as file:
            if mode is not None:
                os.fchmod(made, mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
