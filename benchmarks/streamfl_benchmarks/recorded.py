"""A table as it was recorded: its records in their order, dealt to the clients in turn, in rounds of equal size."""

import math

from streamfl.arrays import FloatArray, IntArray
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal


def rounds_recorded(table: Table, clients: int, round_size: int) -> int:
    """Return how many rounds a table has; the last may have fewer records.

    >>> from streamfl.records.files.covtype import covtype
    >>> rounds_recorded(covtype(), 20, 45)
    104
    """
    return math.ceil(len(table) / (clients * round_size))


def recorded_rounds(
    table: Table, *, clients: int, round_size: int, rounds: int
) -> dict[str, list[tuple[IntArray, FloatArray]]]:
    """Return the rows of the table and the labels of every client's rounds.

    Parameters
    ----------
    table
        The records.
    clients
        How many there are; each has the name that `deal` gives it.
    round_size, rounds
        Records of a client's round, and how many rounds.

    Returns
    -------
    By client and round: rows, shape (n,), and label indices, shape (n,).

    >>> from streamfl.records.files.covtype import covtype
    >>> rounds = recorded_rounds(covtype(), clients=3, round_size=2, rounds=2)
    >>> list(rounds), [rows.tolist() for rows, _ in rounds["c1"]]
    (['c0', 'c1', 'c2'], [[1, 4], [7, 10]])
    """
    places = [slice(first, first + round_size) for first in range(0, rounds * round_size, round_size)]
    logs = deal(table, clients, "round-robin", seed=0)
    return {name: [(log.rows[here], log.y[here]) for here in places] for name, log in logs.items()}
