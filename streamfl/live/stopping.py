"""Stopping a process cleanly on a signal."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Stop:
    """Whether the process was asked to stop."""

    requested: bool = False


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Take SIGTERM and the first Ctrl-C as a request to stop; a second Ctrl-C stops at once."""
    stop = Stop()

    def request(number: int, frame: FrameType | None) -> None:
        if stop.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.requested = True

    before = {number: signal.signal(number, request) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
