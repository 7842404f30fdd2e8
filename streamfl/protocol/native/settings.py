"""The native models that learn record by record: linear models and ferns, at several step sizes."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from streamfl.arrays import BoolArray, FloatArray

Features = Literal["auto", "linear", "ferns"]

# Rates of normalised steps, and of whitened ones.
LINEAR, FERN, WHITENED = (10.0,), (0.3, 10.0), (0.01, 0.1)

# The number of ferns of each depth; and for each depth the tests and cells of a fern. If there are more combinations
# of answers than cells, they are hashed.
FERNS = 100
DEPTHS = ((8, 256), (24, 1024))

# Rows of the table of all ferns, and the rows that one record touches: one a fern.
ROWS = FERNS * sum(cells for _, cells in DEPTHS)
TOUCHED = FERNS * len(DEPTHS)

# The kinds of ferns: every depth with every rate.
KINDS = len(DEPTHS) * len(FERN)

# The ferns of a client's own model of targets: the first ones of the first depth.
OWN_FERNS = 100

# The rates at which its cells learn targets. docs/choices.md, "Rates of a client's own model".
OWN_RATES = (1.0, 0.1, 0.03)

# The most pairs of features of a client's own model. docs/choices.md, "Pairs of features".
OWN_PAIRS = 100

# The last records among which each of the neighbour experts searches.
MEMORIES = (100, 1000)

# The names under which a client reports the shares of the experts on its last label or target, and of its own model.
LAST_ANSWER, OWN = "last-answer", "own"

# Standardised values are clipped to this many deviations.
FARTHEST = 5.0

# Rates of the steps by which the weights of stacked experts are learnt.
STACKING = (0.03, 0.3)

# Targets are predicted within the range of those known so far, and this part of it more.
# docs/choices.md, "The outer mixture".
MARGIN = 0.1

# The window of running means, in records.
WINDOW = 10_000

# The labels that are remembered as following a label. docs/choices.md, "The last answer".
FOLLOWING = 16

# In place of a label that is not there.
NONE = -1


@dataclass(frozen=True)
class NativeSettings:
    """Which native online models learn: the same in the whole federation.

    Examples
    --------
    >>> NativeSettings("linear").names
    ('linear-10', 'whitened-0.01', 'whitened-0.1')
    >>> NativeSettings("ferns").names
    ('fern-8-0.3', 'fern-8-10', 'fern-24-0.3', 'fern-24-10')
    """

    # `linear`: steps on the standardised features, some of them whitened. `ferns`: random binary features, each model
    # with a linear part. `auto`: both.
    features: Features = "auto"
    neighbours: bool = True  # whether each client also has experts on its own nearest records, which are not sent

    # Whether each client also has experts on its own last label or target, and a model of its own, which are not
    # sent.
    last_answer: bool = True
    targets: bool = False  # whether targets are predicted instead of labels
    seed: int = 0  # the seed of the ferns

    @property
    def agreed_only(self) -> "NativeSettings":
        """Return the same without the experts that are a client's own."""
        return replace(self, neighbours=False, last_answer=False)

    @property
    def has_linear(self) -> bool:
        """Tell whether there are linear models."""
        return self.features != "ferns"

    @property
    def has_ferns(self) -> bool:
        """Tell whether there are ferns."""
        return self.features != "linear"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of the models, in the order of the arrays' axes."""
        linear = tuple(f"linear-{rate:g}" for rate in LINEAR) if self.has_linear else ()
        ferns = tuple(f"fern-{depth}-{rate:g}" for depth, _ in DEPTHS for rate in FERN) if self.has_ferns else ()
        whitened = tuple(f"whitened-{rate:g}" for rate in WHITENED) if self.has_linear else ()
        return (*linear, *ferns, *whitened)

    @cached_property
    def experts(self) -> tuple[str, ...]:
        """Return the names of the experts: the models, the neighbours, and `rounds`, the model that rounds train."""
        near = tuple(f"neighbours-{memory}" for memory in MEMORIES) if self.neighbours else ()
        return (*self.names, *near, "rounds")

    @cached_property
    def agreed_experts(self) -> tuple[str, ...]:
        """Return the names of the experts that all clients share, in the order of `experts`."""
        return (*self.names, "rounds")

    @cached_property
    def shared(self) -> BoolArray:
        """Return which of the experts all clients share, shape (experts,); the others are a client's own."""
        return np.array([expert in self.agreed_experts for expert in self.experts])

    @cached_property
    def ferns(self) -> slice:
        """Return which of the models are ferns."""
        first = len(LINEAR) if self.has_linear else 0
        return slice(first, first + (len(DEPTHS) * len(FERN) if self.has_ferns else 0))

    @cached_property
    def normalised(self) -> slice:
        """Return which of the models take normalised steps; the others are whitened."""
        return slice(0, self.ferns.stop)

    @cached_property
    def rates(self) -> FloatArray:
        """Return the rate of each normalised step."""
        return np.array([*(LINEAR if self.has_linear else ()), *(FERN * len(DEPTHS) if self.has_ferns else ())])

    @cached_property
    def sees(self) -> FloatArray:
        """Return the factor of the features, and of the constant 1, in each model's input; shape (models,)."""
        sees = np.ones(len(self.names))
        sees[self.ferns] = 0.5  # so that the cells of a fern dominate
        return sees

    def in_table(self, models: BoolArray) -> BoolArray:
        """Return which entries of the table of ferns belong to some of the models, shape (rows, rates).

        >>> settings = NativeSettings("ferns")
        >>> settings.in_table(np.array([False, True, False, False])).sum(axis=0)
        array([    0, 25600])
        """
        if not self.has_ferns:
            return np.zeros((0, len(FERN)), np.bool_)
        by_depth = models[self.ferns].reshape(len(DEPTHS), len(FERN))
        return np.repeat(by_depth, [FERNS * cells for _, cells in DEPTHS], axis=0)

    @property
    def table_rows(self) -> int:
        """Return the number of rows of the table of all ferns."""
        return ROWS if self.has_ferns else 0
