"""A pool of processes for long benchmarks, which end with their parent."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread


def pool(processes: int) -> ProcessPoolExecutor:
    """Return an executor of so many processes.

    They are not forked, since progress is drawn by a thread and BLAS may have started others. An interrupted process
    ends silently; its parent reports the interruption. A process also ends if its parent was killed.
    """
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_begin)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
