"""A lock between processes, by a file."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(file: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock; the system releases it when the process ends, however it ends.

    Parameters
    ----------
    file
        The file, which is made with its folder if it is missing, and not deleted.
    wait
        Whether to wait for another holder.

    Raises
    ------
    BlockingIOError
        If another holds it and `wait` is false.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
