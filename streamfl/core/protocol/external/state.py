"""What the clients agree on of an external model, and what each of them learns from there on."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamfl.core.arrays import HOLDS_ARRAYS
from streamfl.core.protocol.external.tables import Exported


@dataclass(frozen=True, eq=False)
class ExternalLearnt:
    """What a client's records of one round made of the external model.

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

    def only(self, features: Collection[str], labels: Collection[str]) -> "ExternalLearnt":
        """Return all of it: how many names its tables may have is a bound of its own."""
        return self


@dataclass(frozen=True, eq=False)
class ExternalState:
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

    features: ClassVar[tuple[str, ...]] = ()  # its tables name them as they like
    asleep: ClassVar[tuple[str, ...]] = ()

    @property
    def chain(self) -> str:
        """Return a digest of all of it.

        >>> ExternalState(Exported("m", {})).chain == ExternalState(Exported("m", {}), ("a",)).chain
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
