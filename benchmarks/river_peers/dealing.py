"""Deals records to clients in turn, and trains isolated clients."""

from collections.abc import Sequence
from typing import Any

CLIENT = "client"  # the feature that names a record's client


def client_of(record: int, clients: int) -> str:
    """Return the client of a record by its number from 0 on."""
    return f"c{record % clients}"


class Isolated:
    """Learners that get records in turn and exchange nothing.

    Each record is predicted by the learner that is about to learn it, so what counts is the same as for clients that
    merge.

    Parameters
    ----------
    alone
        One learner a client.
    """

    def __init__(self, alone: Sequence[Any]) -> None:
        self.alone = alone
        self.learnt = 0

    def predict_one(self, x: dict[str, float]) -> Any:
        return self.alone[self.learnt % len(self.alone)].predict_one(x)

    def learn_one(self, x: dict[str, float], y: int) -> None:
        self.alone[self.learnt % len(self.alone)].learn_one(x, y)
        self.learnt += 1
