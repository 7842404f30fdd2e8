"""Filters noise from kafka-python's log: slow tasks, closed connections that are used, groups that move."""

import logging
from typing import Any

from kafka.net.transport import KafkaTCPTransport

# The errors of waiting for a socket that was closed, or closed and deleted.
CLOSED = ("Invalid file descriptor: -1", "Invalid file object: None")


# What it says when another broker coordinates a group from now on, which it finds by itself.
MOVED = "Marking the coordinator dead"


def is_relevant(record: logging.LogRecord) -> bool:
    """Tell whether a log record says more than that a connection was used after it was closed, or that a group moved.

    kafka-python 3.0.12 logs the first with a traceback. Neither has a consequence: all requests on the connection
    failed when it was closed, and a broker that stays away makes a process wait, which is logged.
    """
    if str(record.msg).startswith(MOVED):
        return False
    if not record.exc_info:
        return True
    if record.name == "kafka.net.selector":
        error = record.exc_info[1]
        return not (isinstance(error, ValueError) and str(error) in CLOSED)
    return not _is_closed(record.args)


def _is_closed(args: Any) -> bool:
    """Tell whether a log record is about a connection that was closed before; one that breaks is still open."""
    return isinstance(args, tuple) and isinstance(args[0], KafkaTCPTransport) and args[0]._closed


def leave_out_noise() -> None:
    """Filter noise from kafka-python's log."""
    # It warns of every task that takes a tenth of a second; a busy machine has many, without a consequence.
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)
    for name in ("kafka.net.selector", "kafka.net.transport", "kafka.coordinator"):
        logging.getLogger(name).addFilter(is_relevant)  # adding the same filter again has no effect
