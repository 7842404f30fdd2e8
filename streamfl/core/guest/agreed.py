"""What the clients agree on of a guest, what each of them learns from there on, and what becomes of it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from streamfl.core.arrays import HOLDS_ARRAYS
from streamfl.core.bounds import NAMED
from streamfl.core.errors import PeerError
from streamfl.core.guest.merging import merged
from streamfl.core.guest.tables import Exported


@dataclass(frozen=True, eq=False)
class GuestLearnt:
    """What a client's records of one round made of the guest.

    Parameters
    ----------
    state
        The agreed state and what came to it; None if nothing can be told: no record was learnt, or the model has come
        to numbers that are not finite.
    records
        How many came.
    unlearnt
        Those that the model could not learn.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    state: Exported | None
    records: int
    unlearnt: int


@dataclass(frozen=True, eq=False)
class GuestState:
    """What the clients agree on: where each of them begins a round.

    Parameters
    ----------
    state
        What has been learnt.
    labels
        All labels, in the order of the registry: a model of two labels takes the first for False.
    seen
        Records learnt since it was fresh.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    state: Exported
    labels: tuple[str, ...] = ()
    seen: int = 0

    @property
    def chain(self) -> str:
        """Return a digest of all of it.

        >>> GuestState(Exported("m", {})).chain == GuestState(Exported("m", {}), ("a",)).chain
        False
        """
        digest = hashlib.sha256()
        for names in ((self.state.model, str(self.seen)), self.labels):
            digest.update("\x1f".join(names).encode() + b"\x1e")
        for path in sorted(self.state.tables):
            table = self.state.tables[path]
            for names in ((path, table.rule), table.rows, table.columns):
                digest.update("\x1f".join(names).encode() + b"\x1e")
            digest.update(np.ascontiguousarray(table.values, dtype="<f8").tobytes())
        return digest.hexdigest()

    def after(
        self, parts: Sequence[GuestLearnt], labels: tuple[str, ...], *, most: int = NAMED.guest_names
    ) -> "GuestState":
        """Return the state after a round.

        Parameters
        ----------
        parts
            What each client learnt, in the order of their names; a client weighs what it has learnt of records. One
            that contradicts those before it is left out: no honest one does. So is one with which there were too
            many names.
        labels
            All labels by now.
        most
            How many names there may be.

        Examples
        --------
        >>> from streamfl.core.guest.tables import Table
        >>> def exported(x):
        ...     return Exported("Linear", {"Linear.weights": Table.column("mean", "weight", {"x": x})})
        >>> parts = [GuestLearnt(exported(1.0), 30, 0), GuestLearnt(exported(5.0), 20, 10), GuestLearnt(None, 9, 9)]
        >>> after = GuestState(exported(0.0)).after(parts, ("a", "b"))
        >>> after.state.tables["Linear.weights"].single(), after.seen
        ({'x': 2.0}, 40)
        """
        told = [(part.state, part.records - part.unlearnt) for part in parts if part.state is not None]
        try:
            state = merged(told, self.state)
        except PeerError:
            state = None
        if state is None or state.names > most:
            told = _without_contradictions(told, self.state, most)
            state = merged(told, self.state)
        return replace(self, state=state, labels=labels, seen=self.seen + sum(records for _, records in told))


def _without_contradictions(
    told: Sequence[tuple[Exported, int]], base: Exported, most: int
) -> list[tuple[Exported, int]]:
    kept: list[tuple[Exported, int]] = []
    for part in told:
        try:
            names = merged([*kept, part], base).names
        except PeerError:
            continue
        if names <= most:
            kept.append(part)
    return kept
