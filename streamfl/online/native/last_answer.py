"""Experts on the last answer of a client, its last label or target; these never leave the client."""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray
from streamfl.errors import PeerError
from streamfl.online.native.kernels.last_answer import (
    ERROR,
    LAST,
    LAST_TARGET,
    OTHERS,
    TRIAL,
    Last,
    learn_last_answer,
    mix_again,
    mix_last_answer,
)
from streamfl.online.native.kernels.mixing import Predictions
from streamfl.online.native.last_answer_state import LastAnswerState
from streamfl.online.native.mixture import LabelMixture, Mixture, TargetMixture, room
from streamfl.protocol.native.settings import FOLLOWING, NONE


@dataclass
class LastAnswer:
    """The last label or target that a client learnt, and what usually follows it.

    A label is predicted by what has followed the last one: P(b | a) = (n(a, b) + 1 / K) / (n(a) + 1), with K labels
    and counts n that decay by 0.99 with each record after a. There are two experts on targets: the last target, and
    the prediction of all other experts plus the part of their last error that usually stays. A mixture of their own
    mixes these experts with that prediction, so that all other experts and their mixture learn what they would learn
    without it. It serves once it is surely better: see `judge` in the kernel.

    Of the labels that follow one, the 16 most frequent of late are kept.

    Parameters
    ----------
    targets
        Whether targets are predicted instead of labels.

    Examples
    --------
    >>> last = LastAnswer()
    >>> last.over(("a", "b"))
    >>> for label in (0, 0, 0, 1, 0):
    ...     mixed = last.mixed(np.array([0.5, 0.5]))
    ...     last.learn(label)
    >>> last.state().counts[0, :2].round(4)
    array([1.9701, 1.    ])
    >>> last.expected(np.array([0.5, 0.5])).round(3)
    array([[0.622, 0.378]])
    """

    targets: bool = False
    mixture: Mixture = field(init=False)
    _labels: tuple[str, ...] = ()
    _label: IntArray = field(init=False)
    _following: IntArray = field(init=False)
    _counts: FloatArray = field(init=False)
    _target: npt.NDArray[np.void] = field(init=False)
    _trial: npt.NDArray[np.void] = field(init=False)
    _predictions: Predictions = field(init=False)

    def __post_init__(self) -> None:
        """Begin without a last answer."""
        self.mixture = TargetMixture(1 + ERROR) if self.targets else LabelMixture(1 + LAST)
        self.mixture.mixing.stacked[:] = np.arange(self.mixture.experts) == OTHERS
        self._label, self._target, self._trial = np.array([NONE]), np.zeros(1, LAST_TARGET), np.zeros(1, TRIAL)
        self._following, self._counts = np.zeros((0, FOLLOWING), np.int64), np.zeros((0, FOLLOWING))
        self.over(())

    def over(self, labels: tuple[str, ...]) -> None:
        """Set the names to which label indices refer from now on, without labels that are gone; none for targets."""
        places = {name: place for place, name in enumerate(labels)}
        to = np.array([*(places.get(name, NONE) for name in self._labels), NONE])  # its last item stands for NONE
        kept = np.flatnonzero(to[:-1] != NONE)
        following, counts = np.full((len(labels), FOLLOWING), NONE), np.zeros((len(labels), FOLLOWING))
        following[to[kept]] = to[self._following[kept]]
        counts[to[kept]] = np.where(following[to[kept]] == NONE, 0.0, self._counts[kept])
        label, predictions = to[self._label], room(self.mixture.experts, 1 if self.targets else len(labels))
        self._labels, self._label, self._following, self._counts = labels, label, following, counts
        self._predictions = predictions

    @property
    def arrays(self) -> Last:
        """Return the arrays as the compiled loops take them."""
        held = self._label, self._following, self._counts, self._target, self._trial
        return Last(*held, self.mixture.mixing, self._predictions)

    @property
    def share(self) -> float:
        """Return the share of the last answer in the predictions; 0 while the mixture does not serve."""
        return float(self.mixture.shares[LAST:].sum()) if self.serves else 0.0

    def mixed(self, others: FloatArray, centre: float = 0.0) -> FloatArray:
        """Return the prediction of all other experts, mixed with those from the last answer; shape (columns,).

        Parameters
        ----------
        others
            Probabilities, or a predicted target measured from `centre`, as the result is; shape (columns,).
        centre
            The value from which targets are measured.
        """
        mix_last_answer(self.arrays, others, centre, self.targets)
        return self._predictions.mixed.copy()

    def expected(self, others: FloatArray, centre: float = 0.0) -> FloatArray:
        """Return what each expert on the last answer predicts; shape (1, labels) or (2, 1). See `mixed`."""
        self.mixed(others, centre)
        return self._predictions.by_expert[LAST:].copy()

    @property
    def serves(self) -> bool:
        """Tell whether the mixture serves."""
        return bool(self._trial[0]["serves"])

    @property
    def known(self) -> tuple[str | float | None, float]:
        """Return the last label, or the last target; None before any. And the last error of targets, else 0."""
        if self.targets:
            target = self._target[0]
            return (float(target["target"]) if target["seen"] else None), float(target["error"])
        code = int(self._label[0])
        return (None if code == NONE else self._labels[code]), 0.0

    @property
    def said(self) -> FloatArray:
        """Return all that was said about the record that was mixed last: by expert, by mixture, and served."""
        predictions = self._predictions
        return np.vstack([predictions.by_expert, predictions.by_mixture, predictions.mixed])

    def tell(self, known: str | float | None, error: float = 0.0) -> None:
        """Set the last label or target: see `known`."""
        if self.targets:
            target = self._target[0]
            target["seen"], target["error"] = float(known is not None), error
            target["target"] = known if isinstance(known, float) else 0.0
        else:
            self._label[0] = self._labels.index(known) if known in self._labels else NONE

    def go_back(self, known: str | float | None, error: float, said: FloatArray) -> None:
        """Go back to when a record was asked, to learn its label now: to what was `known` and `said` by then."""
        self.tell(known, error)
        experts, predictions = self.mixture.experts, self._predictions
        predictions.by_expert[:] = said[:experts]
        mix_again(self.arrays, self.targets)
        predictions.by_mixture[:], predictions.mixed[:] = said[experts:-1], said[-1]

    def learn(self, truth: float, centre: float = 0.0) -> None:
        """Learn the label index or the target of the record that was mixed last."""
        learn_last_answer(self.arrays, truth, centre, self.targets)

    def state(self) -> LastAnswerState:
        """Return the state to be saved."""
        target, trial = np.array(self._target[0].item()), np.array(self._trial[0].item())
        following = self._following.astype(np.float64)
        mixture = replace(self.mixture.state(), known=0)  # it counts no targets, the mixture of the others does
        label, counts = int(self._label[0]), self._counts.copy()
        return LastAnswerState(self._labels, label, following, counts, target, trial, mixture)

    @classmethod
    def of(cls, state: LastAnswerState, *, targets: bool) -> "LastAnswer":
        """Return the last answer that continues from a saved state.

        Raises
        ------
        PeerError
            No last answer can have saved it.
        """
        last = cls(targets)
        if not (state.is_sound and state.mixture.fits(last.mixture.state()) and not (targets and state.labels)):
            raise PeerError("the last answer of a client does not fit its names: the file is damaged")
        last.over(state.labels)
        last._label[0], last._target[0], last._trial[0] = state.label, tuple(state.target), tuple(state.trial)
        last._following[:], last._counts[:] = state.following, state.counts
        last.mixture.restore(state.mixture)
        return last


def no_last_answer(*, targets: bool) -> Last:
    """Return the arrays of a learner without a last answer: its mixture has no experts."""
    return LastAnswer(targets).arrays._replace(predictions=room(0, 0))
