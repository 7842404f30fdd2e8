"""What kafka-python logs that is no news: slow tasks, and a connection that is used after it was closed."""

import logging
from typing import Any

from kafka.net.transport import KafkaTCPTransport

# What waiting for a socket raises once it is closed, or closed and forgotten.
CLOSED = ("Invalid file descriptor: -1", "Invalid file object: None")


def is_news(record: logging.LogRecord) -> bool:
    """Tell whether a record is more than that a connection was used after it had been closed.

    kafka-python 3.0.12 tells that with a traceback. Nothing follows: whatever was under way on the connection failed
    when it was closed.
    """
    if not record.exc_info:
        return True
    if record.name == "kafka.net.selector":
        error = record.exc_info[1]
        return not (isinstance(error, ValueError) and str(error) in CLOSED)
    return not _is_closed(record.args)


def _is_closed(args: Any) -> bool:
    """Tell whether a record is about a connection that had been closed before; one that breaks is still open then."""
    return isinstance(args, tuple) and isinstance(args[0], KafkaTCPTransport) and args[0]._closed


def leave_out_noise() -> None:
    """Let kafka-python's log leave out what is no news."""
    # It warns of every task of a tenth of a second, which a busy machine has many of, and nothing follows from.
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)
    for name in ("kafka.net.selector", "kafka.net.transport"):
        logging.getLogger(name).addFilter(is_news)  # the same one again is not added
