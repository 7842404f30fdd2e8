"""How a federation is laid out over its records: which client each belongs to, and when rounds close."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from streamfl.errors import UsageError
from streamfl.runtime.ports import ClientBy

# Records of a client that a round by the clock should have, and the seconds that a round may take for them.
WANTED, ENOUGH = 100, 95
LENGTHS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)


@dataclass(frozen=True, slots=True)
class LabelsLayout:
    """Where labels are that come later: their topic, the field with the id of the record, and the window."""

    topic: str
    key: str
    window: int


@dataclass(frozen=True, slots=True)
class RecordsLayout:
    """Where records are, and how rounds close."""

    topics: Sequence[str]
    clients: ClientBy  # what a client is: a topic, a partition, or a value of a field
    min_clients: int
    format: Literal["json", "packed"] = "json"  # the format of messages
    partitions: int | None = None  # the partitions of each topic, if each is a client
    # A client's records a round, and how many rounds a recorded stream has; None: rounds close by the clock.
    size: int | None = None
    rounds: int | None = None
    interval: float | None = None  # the seconds of a round by the clock; None: the default
    rate: float | None = None  # the records a second of a client, if the log tells
    labels: LabelsLayout | None = None  # where labels are that come later; None: with their records


def interval_of(rate: float | None) -> float | None:
    """Return the seconds in which a client with so many records a second has about a hundred, as a usual length.

    >>> interval_of(30.0), interval_of(0.9), interval_of(1e-6), interval_of(None)
    (5.0, 120.0, 3600.0, None)
    """
    if not rate:
        return None
    return next((length for length in LENGTHS if length * rate >= ENOUGH), LENGTHS[-1])


def clients_of(topics: Sequence[str], counts: Collection[int], client: str | None) -> ClientBy:
    """Return what a client of these topics is.

    Raises
    ------
    UsageError
        A topic named with a * has several partitions.

    >>> clients_of(["plant.*"], [1, 1], None), clients_of(["all"], [12], None), clients_of(["all"], [12], "site")
    ('topic', 'partition', 'field')
    """
    if client is not None:
        return "field"
    if max(counts) == 1:
        return "topic"
    if any("*" in name for name in topics):
        what = (
            f"topics named like {' and '.join(topics)} have up to {max(counts)} partitions, and one client reads one"
        )
        raise UsageError(f"{what}; name each topic with a --topic of its own, or the field of clients with --client")
    return "partition"
