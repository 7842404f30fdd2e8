"""Records for online models, and all that a machine holds, to be compared to the last bit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.online.native.kernels.steps import Models
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging, on_grids
from streamfl.online.native.tables import ClientTable
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.records import Batch, Span
from streamfl.sampling import generator

LABELS = ("a", "b", "c")

# What the last prediction leaves behind until the next, as `mean` below: it is written before it is read.
SCRATCH = {"shared", "_predictions"}


@dataclass(frozen=True)
class Stream:
    """Records of two features: `X` of shape (n, 2) with missing values, `y` label indices, or targets."""

    X: FloatArray
    y: FloatArray
    features: tuple[str, ...] = ("x", "y")
    labels: tuple[str, ...] = LABELS

    def part(self, start: int, end: int) -> tuple[tuple[str, ...], FloatArray, FloatArray, tuple[str, ...]]:
        """Return the arguments of `NativeLearner.learn` for some of the records."""
        return self.features, self.X[start:end], self.y[start:end], self.labels

    def batch(self, start: int, end: int, of: str = "c0") -> Batch:
        """Return some of the records as a batch of one client."""
        span = Span(of, start, end)
        return Batch(span, np.arange(start, end), self.features, self.X[start:end], self.y[start:end], self.labels)


def drawn(n: int = 60, *, seed: int = 0, missing: float = 0.1, targets: bool = False) -> Stream:
    """Return records whose label says where they are; the label c is first seen after a third of them."""
    rng = generator(seed, "online")
    y = rng.integers(0, 3, n)
    y[: n // 3] %= 2
    X = rng.normal(size=(n, 2)) * [1.0, 20.0] + np.column_stack([2.0 * y, 500.0 - 30.0 * y])
    X[rng.random((n, 2)) < missing] = np.nan
    if targets:
        return Stream(X, 3.0 * y + rng.normal(size=n), labels=())
    return Stream(X, y.astype(np.float64))


def learnt(settings: NativeSettings, stream: Stream, start: int = 0, end: int | None = None) -> NativeLearnt:
    """Return what records do to models that have learnt nothing."""
    learner = NativeLearner(settings)
    learner.learn(*stream.part(start, len(stream.X) if end is None else end))
    return learner.learnt()


def changed(settings: NativeSettings, begin: NativeState, stream: Stream) -> NativeLearnt:
    """Return what records do to some agreed models."""
    learner = NativeLearner(settings)
    learner.begin(begin)
    learner.learn(*stream.part(0, len(stream.X)))
    return learner.learnt()


def exact(learner: NativeLearner) -> NativeLearnt:
    """Return what a learner learnt before anything is rounded: differences, sums of z z^T, and visits themselves."""
    with (
        patch.object(on_grids, "rounded", lambda x, step, draws, most: np.asarray(x, np.float64)),
        patch.object(on_grids, "rounded_second", lambda second, steps: second.copy()),
    ):
        told = learner.learnt()
    cells, before, own, visits = learner._table.changed()
    table = own.astype(np.float64) - before
    return replace(told, cells=cells.astype(np.float64), visits=visits.astype(np.float64), table=table)


def powers(exponents: tuple[int, ...], finer: int) -> np.ndarray:
    """Return steps: powers of two, halved so many times."""
    return np.ldexp(1.0, np.array(exponents) - finer)


def agreed(settings: NativeSettings, *parts: NativeLearnt, labels: tuple[str, ...] | None = None) -> NativeState:
    """Return the models after a round in which clients learnt this, from nothing on."""
    known = tuple(sorted({label for part in parts for label in part.labels})) if labels is None else labels
    return merging.after(NativeState.none(settings), parts, known)[0]


def state(value: Any, *, without: Iterable[str] = ()) -> Any:
    """Return all that a value holds, arrays as bytes, so that == compares to the last bit."""
    left_out = {*without, *SCRATCH}
    match value:
        case ClientTable():
            return state([value.values, value.changed()], without=left_out)
        case Models():
            return state(value._replace(mean=value.mean[:0])._asdict(), without=left_out)
        case np.ndarray():
            return value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes()
        case Mapping():
            return {key: state(item, without=left_out) for key, item in value.items()}
        case list() | tuple():
            return [state(item, without=left_out) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            held = [field.name for field in fields(value) if field.name not in left_out]
            return type(value).__name__, [
                (name, state(getattr(value, name, None), without=left_out)) for name in held
            ]
    return repr(value) if isinstance(value, float) else value
