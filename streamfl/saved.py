"""An estimator as one safe file: safetensors with a JSON header and a format version; nothing is pickled."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from streamfl import codec
from streamfl.core.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.core.coordinator import Standing
from streamfl.core.errors import PeerError, UsageError
from streamfl.core.messages import LocalDrift, Restarted
from streamfl.core.online.mixture import MixtureState
from streamfl.core.online.neighbours import Neighbours
from streamfl.core.records import Batch, Span

FORMAT = 1


@dataclass(frozen=True, eq=False)
class SavedRecords:
    """Records of one client, with their positions: see `Batch`."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    start: int
    end: int
    positions: FloatArray
    features: tuple[str, ...]
    X: FloatArray
    y: FloatArray
    labels: tuple[str, ...]

    @classmethod
    def of(cls, batch: Batch) -> "SavedRecords":
        """Return what is saved of a batch."""
        positions = batch.positions.astype(np.float64)
        return cls(batch.span.start, batch.span.end, positions, batch.features, batch.X, batch.y, batch.labels)

    def batch(self, client: str) -> Batch:
        """Return the batch again."""
        span = Span(client, self.start, self.end)
        return Batch(span, self.positions.astype(np.int64), self.features, self.X, self.y, self.labels)


@dataclass(frozen=True, eq=False)
class SavedClient:
    """What only the client knows: the records that it holds back, those that are pending, and what it serves by.

    `read` counts the records of closed rounds.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    name: str
    read: int
    joined: bool
    held: SavedRecords
    pending: tuple[SavedRecords, ...]
    mixture: MixtureState | None
    neighbours: Neighbours | None


@dataclass(frozen=True, eq=False)
class SavedFederation:
    """An embedded federation in the middle of a round."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    rounds: int
    labels: tuple[str, ...]
    since: int
    heard: tuple[str, ...]
    incarnation: int
    restarts: tuple[Restarted, ...]
    local_drifts: tuple[LocalDrift, ...]
    shares: dict[str, float]
    standing: Standing | None
    clients: tuple[SavedClient, ...]
    unlearnt: int = 0
    restarted: int = 0


@dataclass(frozen=True, eq=False)
class SavedEstimator:
    """An estimator: its class, its parameters, the labels as they were given, and the federation inside."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    kind: str
    parameters: dict[str, Any]
    labels: tuple[bool | int | float | str, ...]
    weighed: int
    federation: SavedFederation
    format: int = FORMAT

    def save(self, path: Path) -> None:
        """Write the file.

        Raises
        ------
        UsageError
            It cannot be written.
        """
        try:
            path.write_bytes(codec.encode(self))
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: Path, kind: str) -> "SavedEstimator":
        """Read a file of one kind of estimator.

        Raises
        ------
        UsageError
            It is no such file, or of a later format.
        """
        try:
            plain, arrays = codec.unpack(path.read_bytes())
            version = plain.get("format")
            if "kind" not in plain or not isinstance(version, int):
                raise UsageError(f"{path}: not a file that an estimator was saved to")
            if version > FORMAT:
                raise UsageError(f"{path}: format {version}; this version of streamfl reads formats up to {FORMAT}")
            if plain["kind"] != kind:
                raise UsageError(f"{path}: holds a {plain['kind']}, not a {kind}")
            return codec.join(cls, plain, arrays)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        except PeerError as error:
            raise UsageError(f"{path}: not a file that an estimator was saved to: {error}") from error
