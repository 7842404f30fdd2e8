"""A client's own model, kept over rounds; it never leaves the client."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray
from streamfl.errors import PeerError
from streamfl.online.native.kernels.own import (
    CELLS,
    OWN_RUNNING,
    PAIR_CELLS,
    Own,
)
from streamfl.online.native.kernels.scaling import Scales
from streamfl.online.native.kernels.steps import Table
from streamfl.online.native.mixture import Mixture, room
from streamfl.online.native.private.own_state import OwnState
from streamfl.online.native.private.pairs import new_pairs, pairs_of
from streamfl.online.native.running_scaler import RunningScaler
from streamfl.protocol.moments import NOTHING
from streamfl.protocol.native.settings import OWN_FERNS, OWN_RATES
from streamfl.sampling import generator


@dataclass
class OwnModel:
    """The model that a client learns of its records alone, standardised by their own moments.

    Labels: softmax, of the labels that the client has had. Targets: the running mean of the client's targets, and
    what differs from it. The outputs are a linear model. With `cells` they are half of one and a table: for each pair
    of features, at most 100, a grid of 12 x 12 cells, and for targets ferns. Targets are then learnt at several
    rates, which a mixture weighs.

    Only features that vary at this client are paired. In a federation many do not: a column that names the client is
    one feature for each client, and tells it nothing.
    """

    targets: bool = False  # whether targets are predicted instead of labels
    cells: bool = False  # whether it has pairs of features, and for targets ferns
    seed: int = 0  # the seed of the pairs
    rates: Mixture = field(init=False)  # of what it predicts of targets at each rate
    _present: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    _features: tuple[str, ...] = ()
    _labels: tuple[str, ...] = ()
    _paired: tuple[str, ...] = ()  # the features of which there are pairs, in the order in which they came to vary
    _weights: FloatArray = field(init=False)
    _table: Table = field(init=False)
    _pairs: IntArray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    _trust: FloatArray = field(init=False)
    _known: FloatArray = field(init=False)
    _scales: Scales = field(init=False)
    _running: npt.NDArray[np.void] = field(init=False)

    def __post_init__(self) -> None:
        """Begin without names, and without records."""
        self.rates = Mixture(len(OWN_RATES) if self.targets and self.cells else 1)
        columns = self.rates.experts if self.targets else 0
        self._weights, self._known = np.zeros((1, columns)), np.zeros(columns)
        self._table, self._trust = np.zeros((self._ferns * CELLS, columns), np.float32), np.ones(self._ferns)
        self._scales, self._running = RunningScaler.of(NOTHING, ()).sums, np.zeros(1, OWN_RUNNING)

    def over(self, features: tuple[str, ...], labels: tuple[str, ...]) -> None:
        """Set the names of features and of label columns from now on; those that are gone come last."""
        if (features, labels) == self._present:
            return
        self._present = features, labels
        features, labels = with_gone(features, self._features), with_gone(labels, self._labels)
        rows = np.array([0, *(1 + at for at in _places(self._features, features))])
        columns = np.arange(self.rates.experts) if self.targets else np.array(_places(self._labels, labels), np.int64)
        # What is new has no old place: it comes from an appended one.
        self._scales = RunningScaler(self._scales).grown(1).over(rows[1:] - 1).sums
        self._weights = np.pad(self._weights, ((0, 1), (0, 1)))[np.ix_(rows, columns)]
        self._known = np.append(self._known, 0.0)[columns]
        self._table = np.pad(self._table, ((0, 0), (0, 1))).take(columns, axis=1)
        self._pairs = np.array(_places(features, self._features), np.int64)[self._pairs]
        self._features, self._labels = features, labels

    def pair_up(self) -> bool:
        """Add pairs of the features that have come to vary at this client; tell whether there are any."""
        paired, varies = set(self._paired), RunningScaler(self._scales).varies
        new = [name for name, one in zip(self._features, varies, strict=True) if one and name not in paired]
        if not self.cells or not new:
            return False
        before, self._paired = len(self._paired), (*self._paired, *new)
        now = len(self._paired)
        pairs, places = new_pairs(before, now, generator(self.seed, "pairs", now))
        self._make_room(max(len(self._pairs), int(places.max(initial=-1)) + 1))
        at = np.array(_places(self._features, self._paired), np.int64)
        self._pairs[places], self._trust[self._ferns + places] = at[pairs], 1.0
        cells = (self._ferns * CELLS + PAIR_CELLS * places)[:, None] + np.arange(PAIR_CELLS)
        self._table[cells.ravel()] = 0.0
        return True

    def _make_room(self, pairs: int) -> None:
        """Make room for so many pairs in all."""
        more = pairs - len(self._pairs)
        self._pairs = np.pad(self._pairs, ((0, more), (0, 0)))
        self._trust = np.pad(self._trust, (0, more))
        self._table = np.pad(self._table, ((0, more * PAIR_CELLS), (0, 0)))

    @property
    def _ferns(self) -> int:
        return OWN_FERNS if self.cells and self.targets else 0

    @property
    def records(self) -> int:
        """Count the records learnt."""
        return int(self._running[0]["records"])

    @property
    def arrays(self) -> Own:
        """Return the arrays as the compiled loops take them."""
        z, cells = np.zeros(len(self._weights)), np.zeros(len(self._trust), np.int64)
        z[0], columns = 1.0, 1 if self.targets else len(self._present[1])
        outputs = self.rates.experts if self.targets else columns
        return Own(
            weights=self._weights,
            table=self._table,
            pairs=self._pairs,
            trust=self._trust,
            known=self._known,
            scales=self._scales,
            z=z,
            cells=cells,
            predicted=np.zeros(outputs),
            given=np.zeros(columns),
            running=self._running,
            lengths=np.zeros(outputs),
            rates=self.rates.mixing,
            at_rates=room(self.rates.experts, 1),
        )

    def state(self) -> OwnState:
        """Return the state to be saved."""
        cells = np.flatnonzero(self._table.any(axis=1))
        return OwnState(
            features=self._features,
            labels=self._labels,
            weights=self._weights.copy(),
            cells=cells.astype(np.float64),
            table=self._table[cells].astype(np.float64),
            paired=self._paired,
            pairs=self._pairs.astype(np.float64),
            trust=self._trust.copy(),
            known=self._known.copy(),
            scales=RunningScaler(self._scales).state(),
            running=np.array(self._running[0].item()),
            rates=self.rates.state() if self.targets else None,
        )

    @classmethod
    def of(cls, state: OwnState, *, targets: bool, cells: bool, seed: int) -> "OwnModel":
        """Return the model that continues from a saved state.

        Raises
        ------
        PeerError
            No model with these settings can have saved it.
        """
        own = cls(targets, cells, seed)
        if not state.is_sound(targets=targets):
            raise PeerError("a client's own model does not fit its names: the file is damaged")
        own.over(state.features, state.labels)
        own._paired = state.paired
        own._make_room(pairs_of(len(state.paired)) if cells else 0)
        fits = own._pairs.shape == state.pairs.shape and own._trust.shape == state.trust.shape
        fits &= state.rates is None or state.rates.fits(own.rates.state())
        if not fits or state.cells.max(initial=-1) >= len(own._table):
            raise PeerError("a client's own model does not fit its names: the file is damaged")
        own._pairs, own._trust = state.pairs.astype(np.int64), state.trust.copy()
        own._weights, own._known = state.weights.copy(), state.known.copy()
        own._table[state.cells.astype(np.int64)] = state.table
        own._scales = RunningScaler.restored(state.scales).sums
        own._running[0] = tuple(state.running)
        if state.rates is not None:
            own.rates.restore(state.rates)
        return own


def with_gone(present: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    """Return the present names, then those from before that are gone, which may come back.

    >>> with_gone(("b", "c"), ("a", "b"))
    ('b', 'c', 'a')
    """
    known = set(present)
    return (*present, *(name for name in before if name not in known))


def _places(old: tuple[str, ...], new: tuple[str, ...]) -> list[int]:
    """Return the place of each new name among the old ones, and one beyond them for a name that is not there."""
    places = {name: place for place, name in enumerate(old)}
    return [places.get(name, len(old)) for name in new]


def no_own_model() -> Own:
    """Return the arrays of a learner without a model of its own."""
    return OwnModel().arrays._replace(weights=np.zeros((0, 0)))
