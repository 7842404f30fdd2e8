"""Native models as a finished model: the agreed state, without what only learning needs."""

import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.errors import PeerError
from streamfl.online.native.private.part import OwnPart
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.pairs import no_pairs
from streamfl.protocol.native.settings import NativeSettings

if TYPE_CHECKING:
    from streamfl.online.native.learner import NativeLearner


@dataclass(frozen=True, eq=False)
class ServedNative:
    """The agreed native models and their mixture, which predict and learn nothing more.

    Nothing that belongs to a client is in it: neither its last records nor its own mixture. It may be asked with the
    `OwnPart` of a client, which has them.

    Examples
    --------
    >>> from streamfl.online.native.learner import NativeLearner
    >>> from streamfl.online.native.merging.merging import after
    >>> settings = NativeSettings("linear")
    >>> learner = NativeLearner(settings)
    >>> X, y = np.array([[0.0], [1.0]] * 20), np.array([0, 1] * 20)
    >>> _ = learner.learn(("x",), X, y, ("a", "b"))
    >>> agreed, _ = after(NativeState.none(settings), [learner.learnt()], ("a", "b"))
    >>> served = ServedNative.of(settings, agreed)
    >>> served.predictions(("x",), np.array([[0.0], [1.0]]), np.full((2, 2), 0.5)).round(2)
    array([[0.98, 0.02],
           [0.02, 0.98]])
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    settings: NativeSettings  # which models there are; without those of a client alone
    # The agreed state, with the rows `cells` of the table, and without second moments and early values. It
    # has the pairs of labels only if it is for clients' own parts, which alone predict from the last label.
    agreed: NativeState
    cells: FloatArray  # the rows of the table that are not 0, shape (rows,)

    @classmethod
    def of(cls, settings: NativeSettings, agreed: NativeState, *, own: bool = False) -> "ServedNative":
        """Return the models of an agreed state, perhaps for clients' own parts; the state is not changed."""
        cells = np.flatnonzero(agreed.table.any(axis=(1, 2)))
        slim = replace(agreed.published, table=agreed.table[cells], second=np.zeros((0, 0)))
        slim = slim if own else replace(slim, pairs=no_pairs())
        return cls(settings.agreed_only, slim, cells.astype(np.float64))

    def wrong(self) -> str | None:
        """Return why a file cannot hold these models, or None."""
        cells, rows = self.cells, self.settings.table_rows
        if cells.ndim != 1 or len(set(cells.tolist())) != len(cells):
            return "rows of online models that are not valid"
        if self.settings.neighbours or self.settings.last_answer:
            return "a client's own models, which a model file never holds"
        if not ((cells >= 0) & (cells < rows) & (cells == np.floor(cells))).all():
            return "rows that the table of online models does not have"
        sound = self._with_second.is_sound(self.settings, len(cells))
        numbers = self.agreed.weights, self.agreed.table, self.agreed.norms
        finite = all(np.isfinite(array).all() for array in numbers)
        return None if sound and finite else "the online models do not fit their names"

    def wrong_part(self, part: OwnPart) -> str | None:
        """Return why no client with these models can have known this alone, or None."""
        try:
            self._knowing(part, "")
        except PeerError as error:
            return str(error)
        return None

    @property
    def _with_second(self) -> NativeState:
        size = (1 + len(self.agreed.features)) * self.settings.has_linear
        return replace(self.agreed, second=np.zeros((size, size)))

    def predictions(
        self,
        features: tuple[str, ...],
        X: FloatArray,
        rounds: FloatArray,
        branch: str = "",
        own: OwnPart | None = None,
    ) -> FloatArray:
        """Return probabilities of `agreed.labels`, shape (n, labels), or targets, shape (n, 1).

        It may be called by several threads at once: each has arrays of its own.

        Parameters
        ----------
        features, X
            Names and values, shape (n, d); NaN is missing.
        rounds
            The predictions of the expert `rounds`, of the same shape as the result.
        branch
            The name of the branch of the records' client; empty without one.
        own
            What the records' client alone knows: then they are predicted as it does. The first record counts as the
            next one after the last that it learnt.
        """
        learner = self._mixing_as(branch, own)
        return learner.predicted(features, X, rounds if learner.mixture.mixing.awake[-1] else None)

    def shares(self, branch: str = "", own: OwnPart | None = None) -> dict[str, float]:
        """Return the approximate share of each expert in the predictions, by name; they sum to 1."""
        learner = self._mixing_as(branch, own)
        return learner.shares

    def contributions(self, features: tuple[str, ...], x: FloatArray) -> dict[str, FloatArray]:
        """Return what the constant 1 and each of `agreed.features` adds to the outputs of each linear expert.

        Parameters
        ----------
        features, x
            Names and values of one record, shape (d,).

        Returns
        -------
        For each linear expert that is awake, shape (1 + agreed features, columns); targets are in their own unit.
        """
        learner, ferns = self.learner, self.settings.ferns
        added = learner.standardised(features, x)[:, None, None] * self.agreed.weights
        added[0] += self.agreed.centre
        return {
            name: added[:, m]
            for m, name in enumerate(self.settings.names)
            if not ferns.start <= m < ferns.stop and learner.mixture.mixing.awake[m]
        }

    @property
    def learner(self) -> "NativeLearner":
        """Return this thread's models, with the agreed mixture as the one that serves."""
        made: NativeLearner | None = getattr(self._of_thread, "learner", None)
        if made is None:
            made = self._of_thread.learner = self._made(self.settings)
        return made

    def _mixing_as(self, branch: str, own: OwnPart | None) -> "NativeLearner":
        if own is not None:
            return self._knowing(own, branch)
        learner = self.learner
        learner.mix_as(branch)
        return learner

    def _knowing(self, own: OwnPart, branch: str) -> "NativeLearner":
        """Return this thread's models that continue as a client: one learner for all clients, one at a time."""
        made: tuple[NativeLearner | None, OwnPart | None] = getattr(self._of_thread, "knowing", (None, None))
        learner, known = made
        if known is own and learner is not None:
            return learner
        settings = replace(self.settings, neighbours=own.neighbours is not None, last_answer=own.last is not None)
        if learner is None or learner.settings != settings:
            learner = self._made(settings)
        self._of_thread.knowing = (learner, None)
        learner.continue_as(own, branch)
        self._of_thread.knowing = (learner, own)
        return learner

    @cached_property
    def _of_thread(self) -> threading.local:
        return threading.local()

    def _made(self, settings: NativeSettings) -> "NativeLearner":
        # Compiled loops take half a second to import, and a file without native models does without.
        from streamfl.online.native.learner import NativeLearner  # noqa: PLC0415

        table = np.zeros((self.settings.table_rows, *self.agreed.table.shape[1:]), np.float32)
        table[self.cells.astype(np.intp)] = self.agreed.table
        learner = NativeLearner(settings)
        learner.begin(replace(self._with_second, table=table))
        return learner
