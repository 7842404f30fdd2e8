"""What learns record by record in compiled loops, one record at a time, as tests compute it by hand."""

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.online.native.ferns import Ferns
from streamfl.online.native.kernels.compiled import plain
from streamfl.online.native.kernels.last_answer import LAST, learn_last_answer, mix_last_answer
from streamfl.online.native.kernels.mixing import (
    Predictions,
    learn_to_mix_labels,
    learn_to_mix_targets,
    mix_labels,
    mix_targets,
)
from streamfl.online.native.kernels.neighbours import predict_by_neighbours, remember
from streamfl.online.native.kernels.own import own_learns, own_predicts, own_sees
from streamfl.online.native.mixture import Mixture, room
from streamfl.online.native.private import last_answer, neighbours, own
from streamfl.protocol.native.settings import MEMORIES


class LabelMixture(Mixture):
    """Mixes probabilities by fixed share and by two softmaxes over the experts' log-probabilities; then these three.

    Examples
    --------
    >>> mixture = LabelMixture(2)
    >>> P = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> mixture.mixed(P).round(3)
    array([0.69, 0.31])
    >>> for _ in range(100):
    ...     mixture.learn(1)
    ...     mixed = mixture.mixed(P)
    >>> mixed.round(2), mixture.shares.round(2)
    (array([0.02, 0.98]), array([0., 1.]))
    """

    def mixed(self, P: FloatArray) -> FloatArray:
        """Return the probability of each label.

        Parameters
        ----------
        P
            The probabilities that each expert gives, shape (experts, labels).
        """
        self._predictions: Predictions = room(*P.shape)
        self._predictions.by_expert[:] = P
        mix_labels(self.mixing, self._predictions)
        return self._predictions.mixed

    def learn(self, truth: float) -> None:
        """Learn the true label's index, of the record that was mixed last."""
        learn_to_mix_labels(self.mixing, self._predictions, int(truth))


class TargetMixture(Mixture):
    """Mixes predicted targets by fixed share and by two linear combinations; then these three.

    Examples
    --------
    >>> mixture = TargetMixture(2)
    >>> mixture.mixed(np.array([1.0, 3.0]))
    2.0
    >>> for _ in range(200):
    ...     mixture.learn(3.0)
    ...     mixed = mixture.mixed(np.array([1.0, 3.0]))
    >>> round(mixed, 2)
    3.0
    """

    def mixed(self, predicted: FloatArray) -> float:
        """Return the mixed prediction of the experts' predictions, shape (experts,)."""
        self._predictions: Predictions = room(len(predicted), 1)
        self._predictions.by_expert[:, 0] = predicted
        mix_targets(self.mixing, self._predictions, -np.inf, np.inf)
        return float(self._predictions.mixed[0])

    def learn(self, truth: float) -> None:
        """Learn the true target of the record that was mixed last."""
        learn_to_mix_targets(self.mixing, self._predictions, truth)


class LastAnswer(last_answer.LastAnswer):
    """The last answer, and what usually follows it.

    Examples
    --------
    >>> last, even = LastAnswer(), np.array([0.5, 0.5])
    >>> last.over(("a", "b"))
    >>> for label in (0, 0, 0, 1, 0):
    ...     mixed = last.mixed(even, even)
    ...     last.learn(label)
    >>> last.state().counts[0, :2].round(4)
    array([1.9701, 1.    ])
    >>> last.expected(even)[0].round(3)
    array([0.561, 0.439])
    >>> last.follow(np.array([[0.0, 1.0, 99.0]]))
    >>> last.expected(even)[0].round(3)
    array([0.25, 0.75])
    """

    def mixed(self, others: FloatArray, own: FloatArray, centre: float = 0.0) -> FloatArray:
        """Return the prediction of all other experts, mixed with those from the last answer; shape (columns,).

        Parameters
        ----------
        others
            Probabilities, or a predicted target measured from `centre`, as the result is; shape (columns,).
        own
            The same of the client's own model.
        centre
            The value from which targets are measured.
        """
        mix_last_answer(self.arrays, others, own, centre, self.targets, True, -np.inf, np.inf)
        return self._predictions.mixed.copy()

    def expected(self, others: FloatArray, centre: float = 0.0) -> FloatArray:
        """Return what each expert on the last answer predicts; shape (1, labels) or (2, 1). See `mixed`."""
        LastAnswer.mixed(self, others, others, centre)
        return self._predictions.by_expert[LAST:-1].copy()

    def learn(self, truth: float, centre: float = 0.0) -> None:
        """Learn the label index or the target of the record that was mixed last."""
        learn_last_answer(self.arrays, truth, centre, self.targets)


class OwnModel(own.OwnModel):
    """A client's own model.

    Examples
    --------
    >>> own, ferns = OwnModel(), Ferns(0)
    >>> own.over(("x",), ("a", "b"))
    >>> X = np.array([[0.0], [1.0]])
    >>> for i in range(40):
    ...     own.learn(ferns, X[i % 2 : i % 2 + 1], float(i % 2))
    >>> own.says(ferns, X, np.full((2, 2), 0.5)).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    def says(self, ferns: Ferns, X: FloatArray, others: FloatArray, centre: float = 0.0) -> FloatArray:
        """Return its predictions as a mixture gets them: until it knows something, those of `others`.

        Parameters
        ----------
        ferns
            The ferns over the present features.
        X
            Values of the present features, shape (n, d).
        others
            What all other experts predict, shape (n, columns); targets are measured from `centre`, as the result.
        """
        own, X, predictions = self.arrays, plain(X), others.copy()
        for i, row in enumerate(predictions):
            own_sees(own, X, i)
            own_predicts(own, ferns.tests, others[i], centre, self.targets)
            row[:] = own.given
        return predictions

    def learn(self, ferns: Ferns, X: FloatArray, truth: float, centre: float = 0.0) -> None:
        """Learn a record, shape (1, d), and the index of its label, or its target."""
        self.pair_up()
        own, X = self.arrays, plain(X)
        own_sees(own, X, 0)
        own_predicts(own, ferns.tests, np.zeros(len(own.given)), centre, self.targets)
        own_learns(own, X, 0, truth, centre, self.targets)


class Neighbours(neighbours.Neighbours):
    """Two experts, which predict from the nearest of the last 100 and of the last 1000 records.

    Examples
    --------
    >>> near = Neighbours()
    >>> near.over(("x",), ("a", "b"))
    >>> near.learn(np.array([0.0]), 0.0)
    >>> near.learn(np.array([1.0]), 1.0)
    >>> near.probabilities(np.array([0.9])).round(3)
    array([[0.192, 0.808],
           [0.192, 0.808]])
    >>> near.over(("x",), ("b", "a"))
    >>> near.probabilities(np.array([0.9])).round(3)
    array([[0.808, 0.192],
           [0.808, 0.192]])
    """

    def learn(self, z: FloatArray, y: float) -> None:
        """Store a record in place of the oldest: its features, shape (d,), and its label index or target."""
        self.make_room_for(1)
        remember(self.memory, self.seen, np.append(1.0, z), y, not len(self._codes))
        self.seen += 1

    def probabilities(self, z: FloatArray) -> FloatArray:
        """Return the probabilities of each expert for a record, shape (experts, labels)."""
        outputs = np.zeros((len(MEMORIES), len(self._codes)))
        predict_by_neighbours(self.memory, self.seen, np.append(1.0, z), outputs, 0, targets=False)
        return outputs

    def targets(self, z: FloatArray) -> FloatArray:
        """Return the target that each expert predicts, shape (experts,); 0 before any record."""
        outputs = np.zeros((len(MEMORIES), 1))
        predict_by_neighbours(self.memory, self.seen, np.append(1.0, z), outputs, 0, targets=True)
        return outputs[:, 0]
