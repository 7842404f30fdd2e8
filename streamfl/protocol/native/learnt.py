"""What a client's native models learnt in a round, as its update carries it."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray, RealArray
from streamfl.protocol.digits import in_bits
from streamfl.protocol.moments import NOTHING, Moments
from streamfl.protocol.native.extremes import Extremes
from streamfl.protocol.native.mixed import AgreedMixture
from streamfl.protocol.native.pairs import no_pairs, over
from streamfl.protocol.native.steps import Steps

# The most that a record loses on average, in nats: no mixture gives a label less than about a hundredth of a uniform
# probability.
# docs/choices.md, "When online models begin again".
MOST_LOST = 20.0


def round_loss(loss: float) -> float:
    """Return a sum or a mean of losses as it is sent.

    >>> round_loss(100.0 / 3.0)
    33.25
    """
    return float(in_bits(np.array(loss)))


def sends_moments(
    features: Collection[str], again: Collection[str], known: Collection[str], *, measured: bool
) -> bool:
    """Tell whether a client sends moments: in its turn, or with new features, or some that began again.

    >>> sends_moments(("x", "y"), (), ("x",), measured=False), sends_moments(("x",), (), ("x",), measured=False)
    (True, False)
    """
    return measured or bool(again) or len(features) > len(known)


@dataclass(frozen=True, eq=False)
class NativeLearnt:
    """What a client's records of one round did to the agreed state; arrays as in `NativeState`."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    # The agreed names, then the names that are new at this client. In an update only the latter: see `beyond`.
    features: tuple[str, ...]
    labels: tuple[str, ...]
    records: int
    count: FloatArray  # the number of values of each feature, shape (d,)
    norms: FloatArray  # the mean squared norms of the records, shape (2,)
    second: FloatArray  # the sum of z z^T, shape (d + 1, d + 1), of clients whose turn it is; otherwise empty
    weights: FloatArray  # the difference of the linear weights, in steps: whole numbers

    # The rows of the table that changed, rising, shape (rows,); the binary logarithm of the visits to each, rounded;
    # and the differences there, in steps, shape (rows, rates, columns): whole numbers. In an update, places stand
    # for the rows if steps are agreed on.
    cells: FloatArray
    visits: FloatArray
    table: RealArray

    # The number of records with each label, shape (columns,), and how many of these each model predicted right before
    # it learnt them, shape (models, columns).
    bearing: FloatArray
    right: FloatArray
    moments: Moments = NOTHING  # the moments of the features, of clients whose turn it is; otherwise none
    # The steps that fit what the client learnt. Its numbers are in the published steps, or in these if none are.
    steps: Steps = field(default_factory=Steps)

    # The experts without a share in the predictions: see `sleeping`. Agreed experts are judged by the agreed mixture,
    # in which no expert is the client's own.
    unused: tuple[str, ...] = ()
    # The features that moved so far that their moments began again: the agreed ones no longer hold.
    again: tuple[str, ...] = ()
    # The moments of the last values of each feature, if these were outliers in a row, but too few to begin again.
    far: Moments = NOTHING
    centre: float = 0.0  # the value from which the client measured targets: the agreed one, if there is one
    mixture: AgreedMixture = field(default_factory=AgreedMixture)  # the agreed mixture after the client's records
    coarser: int = 0  # so many times are the steps of its numbers doubled, to keep a budget of bytes
    # How often one label followed another among these records, shape (pairs, 3): see `pairs`.
    pairs: FloatArray = field(default_factory=no_pairs)
    extremes: Extremes = ()  # the least and the largest target of the round, rounded outwards; empty for labels
    # The sum, over the records, of the log-loss of the agreed mixture just before it learnt each, in nats; None of
    # targets, and from older versions.
    loss: float | None = None

    unlearnt: ClassVar[int] = 0  # they learn every good record

    def steps_of(self, published: Steps) -> Steps:
        """Return the steps of its numbers: the published ones, or its own if none are; coarser by its budget."""
        return (published if published.are_known else self.steps).coarser(self.coarser)

    def beyond(self, features: tuple[str, ...], labels: tuple[str, ...]) -> "NativeLearnt":
        """Return a copy as updates carry it: without the agreed names, and with moments that name no features.

        All processes know the agreed names; their number follows from the shapes of the arrays.
        """
        return replace(
            self,
            features=self.features[len(features) :],
            labels=self.labels[len(labels) :],
            moments=self.moments.unnamed,
            far=self.far.unnamed,
        )

    def named(self, features: tuple[str, ...], labels: tuple[str, ...]) -> "NativeLearnt":
        """Return a copy with all names, given the agreed ones: what `beyond` left out."""
        names = (*features, *self.features)
        return replace(
            self,
            features=names,
            labels=(*labels, *self.labels),
            moments=replace(self.moments, features=names if self.moments.count.size else ()),
            far=replace(self.far, features=names if self.far.count.size else ()),
        )

    def only(self, features: Collection[str], labels: Collection[str]) -> "NativeLearnt":
        """Return a copy without the rows and columns of all other names."""
        kept = [i for i, name in enumerate(self.features) if name in features]
        rows = [0, *(1 + i for i in kept)]
        columns = [i for i, name in enumerate(self.labels) if name in labels]
        targets, to = not self.labels, np.full(len(self.labels), -1)
        to[columns] = np.arange(len(columns))
        return replace(
            self,
            features=tuple(self.features[i] for i in kept),
            labels=tuple(self.labels[i] for i in columns),
            count=self.count[kept],
            moments=self.moments.among(features),
            far=self.far.among(features),
            second=self.second[np.ix_(rows, rows)] if self.second.size else self.second,
            weights=self.weights[rows] if targets else self.weights[rows][..., columns],
            table=self.table if targets else self.table[..., columns],
            bearing=self.bearing if targets else self.bearing[columns],
            right=self.right if targets else self.right[:, columns],
            again=tuple(name for name in self.again if name in features),
            pairs=over(self.pairs, to),
        )
