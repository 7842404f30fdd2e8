"""The agreed state of an external model, and what a client learnt from it in a round."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS
from streamfl.protocol.external.tables import Exported


@dataclass(frozen=True, eq=False)
class ExternalLearnt:
    """The state of a client's external model after one round."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    # The state, which includes the agreed state from which it began. None if it cannot be sent: no record was learnt,
    # or its numbers are not finite.
    state: Exported | None
    records: int  # the number of records in the round
    unlearnt: int  # the records among them that the model could not learn

    loss: ClassVar[None] = None  # these models are not compared with new ones: see `NativeLearnt`

    def only(self, features: Collection[str], labels: Collection[str]) -> "ExternalLearnt":
        """Return it unchanged: the number of names in its tables has a bound of its own."""
        return self


@dataclass(frozen=True, eq=False)
class ExternalState:
    """The agreed state, from which every client begins a round."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    state: Exported  # the merged export
    labels: tuple[str, ...] = ()  # all labels, in the order of the registry: a binary model maps the first to False
    seen: int = 0  # the number of records learnt since the model was untrained

    features: ClassVar[tuple[str, ...]] = ()  # its tables have names of their own
    asleep: ClassVar[tuple[str, ...]] = ()

    @property
    def chain(self) -> str:
        """Return a digest of the whole state.

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
