"""Filters noise from kafka-python's log: slow tasks, closed connections that are used, groups that move."""

import logging
from typing import Any

from kafka.errors import Cancelled
from kafka.net.transport import KafkaTCPTransport

# What divides partitions among the members of a group.
ASSIGNOR = "kafka.coordinator.assignors.sticky.sticky_assignor"

# The errors of waiting for a socket that was closed, or closed and deleted.
CLOSED = ("Invalid file descriptor: -1", "Invalid file object: None")


# What it says when another broker coordinates a group from now on, which it finds by itself; and of a topic that has
# just been made, whose partitions it divides as soon as it knows them.
PASSING = ("Marking the coordinator dead", "No partition metadata for topic")


def is_relevant(record: logging.LogRecord) -> bool:
    """Tell whether a log record says more than that a closed connection was used, a group moved, or a topic is new.

    kafka-python 3.0.12 logs the first with a traceback. None has a consequence: all requests on the connection failed
    when it was closed, and a broker or a topic that stays away makes a process wait, which is logged.
    """
    if str(record.msg).startswith(PASSING) or _is_of_closing(record.args):
        return False
    if not record.exc_info:
        return True
    if record.name == "kafka.net.selector":
        error = record.exc_info[1]
        return not (isinstance(error, ValueError) and str(error) in CLOSED)
    return not _is_closed(record.args)


def _is_of_closing(args: Any) -> bool:
    """Tell whether a log record is about a request that was cancelled, because the process closes its connections."""
    return isinstance(args, tuple) and any(isinstance(one, Cancelled) for one in args)


def _is_closed(args: Any) -> bool:
    """Tell whether a log record is about a connection that was closed before; one that breaks is still open."""
    return isinstance(args, tuple) and isinstance(args[0], KafkaTCPTransport) and args[0]._closed


def leave_out_noise() -> None:
    """Filter noise from kafka-python's log."""
    # It warns of every task that takes a tenth of a second; a busy machine has many, without a consequence.
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)
    for name in ("kafka.cluster", "kafka.net.selector", "kafka.net.transport", "kafka.coordinator", ASSIGNOR):
        logging.getLogger(name).addFilter(is_relevant)  # adding the same filter again has no effect
