"""Structured logs on standard error: text for people, JSON lines for programs."""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import structlog

from streamfl.printable import printable

LOG = structlog.get_logger("streamfl.settings")

# Seconds for which another library repeats nothing, and the most of its lines that are remembered meanwhile.
PAUSE, MOST = 60.0, 1000

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str, form: Literal["auto", "json", "text"], **process: str) -> None:
    """Set up structlog, and log other libraries' warnings in the same form.

    Parameters
    ----------
    form
        `json`, `text`, or `auto`: text on a terminal.
    process
        What every line of JSON says of the process: federation, role and host. A person knows whose terminal it is.
    """
    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if as_text else structlog.processors.JSONRenderer()
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    shared.append(_printable if as_text else _in_order(process))
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(Seldom())
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    logging.basicConfig(handlers=[handler], level=max(LEVELS[level], logging.WARNING), force=True)


class Seldom(logging.Filter):
    """Lets through at most one line a minute of each kind of another library, with how many were left out.

    A kind is what one place of its code logs. While a broker is gone, every connection of kafka-python complains at
    every try.

    Parameters
    ----------
    clock
        Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[tuple[str, int], tuple[float, int]] = {}  # by place: when, and how many were left out since

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is logged; it says how many were not."""
        place, now = (record.pathname, record.lineno), self._clock()
        at, more = self._said.get(place, (-PAUSE, 0))
        if now - at < PAUSE:
            self._said[place] = at, more + 1
            return False
        if len(self._said) >= MOST:
            self._said.clear()
        self._said[place] = now, 0
        if more:
            record.msg, record.args = f"{record.getMessage()} ({more} more like this were left out)", ()
        return True


def log_renamed(remedies: Iterable[str]) -> None:
    """Log that settings were given by their old names: what `streamfl.run.renamed` warns of."""
    for remedy in remedies:
        LOG.warning("setting renamed", remedy=remedy)


def _in_order(process: Mapping[str, str]) -> structlog.typing.Processor:
    """Return what puts the time, the event and the process first: lines are read from the left."""
    first = dict.fromkeys(("timestamp", "level", "event"))

    def ordered(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**first, **process, **event}

    return ordered


def _printable(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Make every text printable, which JSON does by itself; the lines of a traceback stay."""
    shown = {key: printable(value) if isinstance(value, str) else value for key, value in event.items()}
    if "exception" in event:
        shown["exception"] = "\n".join(map(printable, event["exception"].split("\n")))
    return shown


@contextmanager
def warnings_alone() -> Iterator[None]:
    """Let warnings alone through, to standard error, where the program has not said what becomes of logs."""
    if structlog.is_configured():
        yield
        return
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
