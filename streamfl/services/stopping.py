"""Ending a process cleanly when it is told to."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Stop:
    """Whether the process was told to end."""

    requested: bool = False


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Take SIGTERM and the first Ctrl-C as a request to end; a second Ctrl-C ends at once."""
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
