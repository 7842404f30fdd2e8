"""A table as it was recorded: its records in their order, dealt to the clients in turn, in rounds of equal size."""

import math
from collections.abc import Iterator

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.streams.dealing import deal
from streamfl.streams.table import Table


def rounds_recorded(table: Table, clients: int, round_size: int) -> int:
    """Return how many rounds a table has; the last may have fewer records.

    >>> from streamfl.streams.covtype import covtype
    >>> rounds_recorded(covtype(), 20, 45)
    104
    """
    return math.ceil(len(table) / (clients * round_size))


def recorded_rounds(
    table: Table, client: str, *, clients: int, round_size: int, rounds: int
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield the rows of the table and the labels of a client's rounds.

    Parameters
    ----------
    table
        The records.
    client, clients
        Its name, as `deal` gives it, and how many there are.
    round_size, rounds
        Records of a round of the client, and how many rounds.

    Yields
    ------
    Rows, shape (n,), and label indices, shape (n,).

    >>> from streamfl.streams.covtype import covtype
    >>> [rows.tolist() for rows, _ in recorded_rounds(covtype(), "c1", clients=3, round_size=2, rounds=2)]
    [[1, 4], [7, 10]]
    """
    log = deal(table, clients, "round-robin", seed=0)[client]
    for first in range(0, rounds * round_size, round_size):
        here = slice(first, first + round_size)
        yield log.rows[here], log.y[here]
