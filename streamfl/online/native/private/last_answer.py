"""The outer mixture of a client: all other experts, what follows its last answer, and its own model."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray
from streamfl.errors import PeerError
from streamfl.online.native.kernels.last_answer import (
    ERROR,
    LABEL,
    LAST,
    LAST_TARGET,
    OTHERS,
    WHEN_ANSWERED,
    Last,
    PastAnswers,
    begin_to_mix,
)
from streamfl.online.native.kernels.mixing import MIXTURES, Predictions
from streamfl.online.native.mixture import Mixture, room
from streamfl.online.native.private.last_answer_state import LastAnswerState
from streamfl.online.native.private.own import with_gone
from streamfl.protocol.native.settings import FOLLOWING, NONE

# No records were answered before: they are learnt as they are predicted.
NO_PAST_ANSWERS = PastAnswers(np.zeros((0, len(WHEN_ANSWERED))), np.zeros((0, 0, 0)))


class PastPrediction(NamedTuple):
    """What was known when a record was answered, and the answer of the outer mixture."""

    known: str | float | None  # the last label or target; None before any
    error: float  # the last error of targets
    centre: float  # from which targets are measured; NaN before any
    labels: tuple[str, ...]  # of the columns
    parts: FloatArray  # the answer, shape (3 E + 3, columns): see `PastAnswers`


@dataclass
class LastAnswer:
    """The last label or target that a client learnt, and what usually follows it.

    A label is predicted by what has followed the last one: P(b | a) = (n(a, b) + 5 q(b | a)) / (n(a) + 5), with the
    client's counts n, which decay by 0.99 with each record after a, and q from the counts T of all clients:
    q(b | a) = (T(a, b) + 1 / K) / (T(a) + 1), with K labels. There are two experts on targets: the last target, and
    the prediction of all other experts plus the part of their last error that usually stays. The outer mixture mixes
    these experts with that prediction and with the client's own model, so that all other experts and their mixture
    learn what they would learn without it.

    Of the labels that follow one, the 16 most frequent of late are kept.
    """

    targets: bool = False  # whether targets are predicted instead of labels
    mixture: Mixture = field(init=False)
    _labels: tuple[str, ...] = ()
    _label: IntArray = field(init=False)
    _following: IntArray = field(init=False)
    _counts: FloatArray = field(init=False)
    _all_following: IntArray = field(init=False)
    _all_counts: FloatArray = field(init=False)
    _target: npt.NDArray[np.void] = field(init=False)
    _predictions: Predictions = field(init=False)

    def __post_init__(self) -> None:
        """Begin without a last answer."""
        self.mixture = Mixture(2 + (ERROR if self.targets else LAST))
        begin_to_mix(self.mixture.mixing)
        self._label, self._target = np.array([NONE]), np.zeros(1, LAST_TARGET)
        self._following, self._counts = self._all_following, self._all_counts = _nothing(0)
        self.over(())

    def over(self, labels: tuple[str, ...]) -> None:
        """Set the labels to which indices refer from now on, none for targets; those that are gone come last."""
        columns, labels = 1 if self.targets else len(labels), with_gone(labels, self._labels)
        places = {name: place for place, name in enumerate(labels)}
        to = np.array([*(places[name] for name in self._labels), NONE])  # its last item stands for NONE
        own, of_all = (
            _moved(*held, to, len(labels))
            for held in ((self._following, self._counts), (self._all_following, self._all_counts))
        )
        label, predictions = to[self._label], room(self.mixture.experts, columns)
        self._labels, self._label, self._predictions = labels, label, predictions
        self._following, self._counts = own
        self._all_following, self._all_counts = of_all

    def follow(self, pairs: FloatArray) -> None:
        """Take over how often one label followed another at all clients; of each label at most 16: see `pairs`."""
        following, counts = _nothing(len(self._labels))
        if len(pairs):
            before, after = pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)
            at = np.arange(len(pairs)) - np.searchsorted(before, before)
            following[before, at], counts[before, at] = after, pairs[:, 2]
        self._all_following, self._all_counts = following, counts

    @property
    def arrays(self) -> Last:
        """Return the arrays as the compiled loops take them."""
        held = self._label, self._following, self._counts, self._all_following, self._all_counts, self._target
        awake = np.ones(self.mixture.experts, np.bool_)
        return Last(*held, self.mixture.mixing._replace(awake=awake), self._predictions)

    @property
    def shares(self) -> tuple[float, float, float]:
        """Return the shares in the predictions of all other experts, of the last answer, and of the own model."""
        shares = self.mixture.shares
        return float(shares[OTHERS]), float(shares[LAST:-1].sum()), float(shares[-1])

    def distrust_others(self, part: float) -> None:
        """Take a part, in [0, 1), of the trust in all other experts on targets away from them.

        >>> last = LastAnswer(targets=True)
        >>> last.distrust_others(0.5)
        >>> last.mixture.mixing.best.round(3).tolist(), last.mixture.mixing.stacked[0].tolist()
        ([0.167, 0.333, 0.167, 0.333], [0.25, 1.0, 0.0, 0.5])
        """
        mixing = self.mixture.mixing
        for weights in (mixing.best, *mixing.stacked):
            weights[[OTHERS, ERROR]] *= 1.0 - part
        mixing.best[:] /= mixing.best.sum()

    @property
    def known(self) -> tuple[str | float | None, float]:
        """Return the last label, or the last target; None before any. And the last error of targets, else 0."""
        if self.targets:
            target = self._target[0]
            return (float(target["target"]) if target["seen"] else None), float(target["error"])
        code = int(self._label[0])
        return (None if code == NONE else self._labels[code]), 0.0

    def past_prediction(self, centre: float) -> PastPrediction:
        """Return what is known now, and what the experts predicted for the record that was mixed last."""
        made = self._predictions
        parts = np.vstack([made.by_expert, made.bounded, made.centred, made.by_mixture])
        return PastPrediction(*self.known, centre, self._present, parts)

    @property
    def _present(self) -> tuple[str, ...]:
        """Return the labels of the columns; those that are gone have none."""
        return self._labels[: len(self._predictions.mixed)]

    def past_answers(self, past: Sequence[PastPrediction | None], truths: FloatArray) -> PastAnswers:
        """Return the answers to some records, as the compiled loops take them; `truths` are their labels or targets.

        None stands for a record of which nothing is kept. Of this, and of a label that had no column, which no expert
        could have predicted, only the last answer is learnt.
        """
        then, present = np.zeros((len(past), len(WHEN_ANSWERED))), self._present
        then[:, LABEL] = NONE
        parts = np.zeros((len(past), 3 * self.mixture.experts + MIXTURES, len(self._predictions.mixed)))
        for i, one in enumerate(past):
            if one is None:
                continue
            compares = self.targets or present[int(truths[i])] in one.labels
            label = self._labels.index(one.known) if one.known in self._labels else NONE
            target = one.known if isinstance(one.known, float) else 0.0
            then[i] = compares, label, one.known is not None, target, one.error, one.centre
            parts[i] = _over(one, present)
        return PastAnswers(then, parts)

    def state(self) -> LastAnswerState:
        """Return the state to be saved."""
        target, following = np.array(self._target[0].item()), self._following.astype(np.float64)
        mixture = replace(self.mixture.state(), known=0)  # it counts no targets, the mixture of the others does
        label, counts = int(self._label[0]), self._counts.copy()
        return LastAnswerState(self._labels, label, following, counts, target, mixture)

    @classmethod
    def of(cls, state: LastAnswerState, *, targets: bool) -> "LastAnswer":
        """Return the last answer that continues from a saved state; what all clients had is agreed on, not saved.

        A file from before there was an own model has one expert less: its mixture begins again.

        Raises
        ------
        PeerError
            No last answer can have saved it.
        """
        last = cls(targets)
        fits = state.mixture.fits(last.mixture.state())
        before = Mixture(last.mixture.experts - 1).state()
        if not (state.is_sound and (fits or state.mixture.fits(before)) and not (targets and state.labels)):
            raise PeerError("the last answer of a client does not fit its names: the file is damaged")
        last.over(state.labels)
        last._label[0], last._target[0] = state.label, tuple(state.target)
        last._following[:], last._counts[:] = state.following, state.counts
        if fits:
            last.mixture.restore(state.mixture)
        return last


def _over(past: PastPrediction, labels: tuple[str, ...]) -> FloatArray:
    """Return the predictions with a column for each present label, of 0 for those that had none."""
    if past.labels == labels:
        return past.parts
    places = {label: column for column, label in enumerate(past.labels)}
    columns = [places.get(label, -1) for label in labels]
    padded = np.column_stack([past.parts, np.zeros(len(past.parts))])
    return padded[:, columns]


def _nothing(labels: int) -> tuple[IntArray, FloatArray]:
    """Return that no label has followed any."""
    return np.full((labels, FOLLOWING), NONE), np.zeros((labels, FOLLOWING))


def _moved(following: IntArray, counts: FloatArray, to: IntArray, labels: int) -> tuple[IntArray, FloatArray]:
    """Return what followed each label, with label k called `to[k]`; the last item of `to` stands for none."""
    moved, counted = _nothing(labels)
    moved[to[:-1]], counted[to[:-1]] = to[following], counts
    return moved, counted


def no_last_answer(*, targets: bool) -> Last:
    """Return the arrays of a learner without a last answer: its mixture has no experts."""
    return LastAnswer(targets).arrays._replace(predictions=room(0, 0))
