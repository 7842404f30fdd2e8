"""A client's work in a round: score every live model on the records, then take the local steps."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.learning.algorithms.base import Algorithm, LocalProblem, local_model, local_steps
from streamfl.learning.fixed_point import shortened
from streamfl.learning.grid import gradient_steps, in_short, on_grid, short
from streamfl.learning.history import History
from streamfl.learning.model import Model, score_bound
from streamfl.learning.online_models import OnlineModels
from streamfl.protocol.messages import LabelSums, Slot, SlotLosses
from streamfl.protocol.moments import without_outliers
from streamfl.protocol.records import Batch
from streamfl.protocol.registry import Registry, TargetUnit, widened
from streamfl.sampling import generator


@dataclass(frozen=True, slots=True)
class Learner:
    """How a federation learns; the same at every client and at the coordinator."""

    model: Model  # the loss
    algorithm: Algorithm  # the base algorithm
    l2: float = 0.0  # weight of the squared penalty in training
    # Records in a local step. None: one step on the whole round.
    local_batch: int | None = None
    gamma: float = 1.0  # the part of a round's records used for training, in (0, 1]
    seed: int = 0  # the seed of all randomness
    # The online models, if any. They then answer predictions.
    online: OnlineModels[Any, Any] | None = None
    is_alone: bool = False  # whether there is one client, for good

    def in_one_process(self) -> "Learner":
        """Return the same learner for clients that are driven by one thread: see `OnlineModels.in_one_process`."""
        return self if self.online is None else replace(self, online=self.online.in_one_process())

    def alone(self) -> "Learner":
        """Return the same learner for a client that is alone, for good: see `OnlineModels.alone`."""
        return replace(self, online=None if self.online is None else self.online.alone(), is_alone=True)

    def agreed_only(self) -> "Learner":
        """Return the same learner without models of a client's own: see `OnlineModels.agreed_only`."""
        return self if self.online is None else replace(self, online=self.online.agreed_only())

    @property
    def one_full_step(self) -> bool:
        """Whether a round is a single step on all its records."""
        return self.local_batch is None and self.gamma == 1.0

    def work(self, records: int) -> float:
        """Return the work of a client with so many records in a round: see `Algorithm.work`."""
        return self.algorithm.work(local_steps(records, self.local_batch, self.gamma))


@dataclass(frozen=True, slots=True, eq=False)
class RoundRecords:
    """The records of one client's round in registry coordinates.

    `labels` are the registered ones, then those that are new at this client; `y` has indices into them. `norms` are
    the squared norms of the rows of `Z`; they may be left empty.

    >>> from streamfl.protocol.records import Span
    >>> registry = Registry(1, ("x",), ("a",), np.array([2.0]), np.array([4.0]))
    >>> X, y = np.array([[6.0], [2.0]]), np.array([0.0, 1.0])
    >>> batch = Batch(Span("p", 0, 2), np.arange(2), ("x",), X, y, ("b", "a"))
    >>> records = RoundRecords.of([batch], registry)
    >>> records.labels, records.y, records.Z
    (('a', 'b'), array([1., 0.]), array([[1., 1.],
           [0., 1.]]))
    """

    registry: Registry
    labels: tuple[str, ...]
    Z: FloatArray
    y: FloatArray
    norms: FloatArray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, batches: Sequence[Batch], registry: Registry) -> "RoundRecords":
        """Return the records of some batches under a registry; if it has no unit of targets, theirs is used."""
        labels = registry.labels
        known = set(labels)
        if not all(known.issuperset(batch.labels) for batch in batches):
            labels = (*labels, *(label for label in labels_in(batches) if label not in labels))
        if not labels and not registry.target.is_known:
            registry = replace(registry, target=TargetUnit.of(np.concatenate([np.zeros(0), *(b.y for b in batches)])))
        Z, norms = registry.measured(batches)
        return cls(registry, labels, Z, registry.targets(batches, labels), norms)

    def within(self, radius: float) -> "RoundRecords":
        """Return the records with none longer than a radius, the constant 1 included: longer ones are shortened.

        >>> registry = Registry(1, ("x",), ("a",), np.zeros(1), np.ones(1))
        >>> records = RoundRecords(registry, ("a",), np.array([[3.0, 1.0], [0.0, 1.0]]), np.zeros(2))
        >>> records.within(1.0).norms.round(6)
        array([1., 1.])
        """
        norms = np.einsum("ij,ij->i", self.Z, self.Z)
        Z = self.Z * np.minimum(1.0, radius / np.sqrt(np.maximum(norms, 1e-300)))[:, None]
        return replace(self, Z=Z, norms=np.minimum(norms, radius**2))

    @property
    def learnt(self) -> FloatArray:
        """The targets for training: labels as they are, targets with outliers of the round drawn in.

        >>> y = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1e9])
        >>> RoundRecords(Registry(1, (), (), np.zeros(0), np.ones(0)), (), np.ones((8, 1)), y).learnt.max()
        np.float64(33.0)
        """
        return self.y if self.labels else without_outliers(self.y[:, None])[:, 0]


@dataclass(slots=True, eq=False)
class LocalResult:
    """The result of a local round; predictions are label indices, or targets in the registry's unit."""

    # By slot, the sums of losses, and what the client sends of its step.
    losses: dict[str, SlotLosses] = field(default_factory=dict)
    differences: dict[str, FloatArray] = field(default_factory=dict)
    # Sums by label of scores: of the tested model's on the round's records, of the serving one's on held-out ones.
    new: tuple[LabelSums, ...] = ()
    old: tuple[LabelSums, ...] = ()
    # By slot, S of shape (K, K): S[a, b] is the sum of max(log p_b, -2 ln K) over the records of label a.
    relabelling: dict[str, FloatArray] = field(default_factory=dict)
    trained: int = 0  # records trained on
    # Predictions of the serving model before the round's steps, and just before each record is learnt, shape (n,).
    at_start: FloatArray = field(default_factory=lambda: np.zeros(0))
    served: FloatArray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class LocalRound:
    """One client's round.

    Examples
    --------
    >>> from streamfl.learning.algorithms import FedAvg
    >>> from streamfl.models import Softmax
    >>> registry = Registry(1, (), ("a", "b"), np.zeros(0), np.ones(0))
    >>> records = RoundRecords(registry, ("a", "b"), np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))
    >>> slots = [Slot(name="m", version=1, eta=2.0)]
    >>> weights, learner = {"m": np.zeros((1, 2))}, Learner(Softmax(), FedAvg())
    >>> round_ = LocalRound(learner, records, slots, weights, {"m"}, "m", 2, ("c0", 1))
    >>> result = round_.run(History())
    >>> result.losses["m"].loss, result.differences["m"]
    (2.0, array([[ 0.5, -0.5]]))
    """

    learner: Learner  # how the federation learns
    records: RoundRecords  # the round's records
    # This client's live models: their slots, and their weights under the registry by name.
    slots: Sequence[Slot]
    weights: Mapping[str, FloatArray]
    trains: Collection[str]  # the names of those that the client trains
    serves: str | None  # the name of the slot that answers predictions; None if nothing is predicted, as in Score
    known_labels: int  # the number of labels registered when the epoch began
    key: tuple[str, int]  # client and round, the key of randomness
    tested: str | None = None  # the name of the slot whose scores are summed by label; None: none
    held: BoolArray | None = None  # which of the round's records are held out from training, shape (n,); None: none
    old: RoundRecords | None = None  # records held out in earlier rounds
    exponents: tuple[int, ...] = ()  # the grid of the round, for whitened slots

    def run(self, history: History, *, relabel: Collection[str] = ()) -> LocalResult:
        """Score every model, then train those in `trains`.

        Parameters
        ----------
        history
            The sampled old rounds on which slots may be scored as well.
        relabel
            Slots for which S is computed: how well each label fits the records of each label.
        """
        result = LocalResult()
        model, y = self.learner.model, self.records.learnt
        result.trained = len(y) if self.held is None else len(y) - int(np.count_nonzero(self.held))
        if not self.slots:
            return result
        trained = [i for i, slot in enumerate(self.slots) if slot.name in self.trains]
        outputs = self._outputs()
        judged = model.score_all(outputs, y, self.known_labels, trained)
        loss, proper = in_short(judged.scores.sum(axis=1)), in_short(judged.proper.sum(axis=1))
        square = in_short(np.einsum("ij,ij->i", judged.scores, judged.scores))
        for i, (slot, scores) in enumerate(zip(self.slots, judged.scores, strict=True)):
            result.losses[slot.name] = self._losses(slot, history, loss=loss[i], square=square[i], proper=proper[i])
            if slot.name in relabel:
                result.relabelling[slot.name] = self._relabelling(np.ascontiguousarray(outputs[i].T))
            if slot.name == self.tested:
                result.new = self._by_label(self.records, scores)
            if slot.name == self.serves:
                result.old = self._old_by_label(self.weights[slot.name])
                result.at_start = result.served = judged.prediction(i)
        if trained and result.trained:
            self._train(trained, outputs, judged.derivatives, result)
        return result

    def _outputs(self) -> FloatArray:
        """Return the outputs of every live model from one pass over the records, shape (slots, columns, n)."""
        # Z W, transposed: transposing the product of a thousand records takes three times as long as making it.
        stacked = _side_by_side([self.weights[slot.name] for slot in self.slots]).T @ self.records.Z.T
        return stacked.reshape(len(self.slots), len(stacked) // len(self.slots), stacked.shape[1])

    def _losses(self, slot: Slot, history: History, *, loss: float, square: float, proper: float) -> SlotLosses:
        """Return the sums over the round's records, and those over the sampled rounds that a slot names."""
        if not slot.history:
            return SlotLosses(loss=loss, square=square, proper=proper)
        total, shares, count = 0.0, 0.0, 0
        for kept in [history.rounds[t] for t in slot.history if t in history.rounds]:
            if kept.records:
                total += kept.share * self._mean_score(slot, kept.batches)
                shares += kept.share
                count += kept.records
        return SlotLosses(
            loss=loss,
            square=square,
            proper=proper,
            history=short(total),
            history_share=short(shares),
            history_records=count,
        )

    def _mean_score(self, slot: Slot, batches: Sequence[Batch]) -> float:
        old = RoundRecords.of(batches, self.records.registry)
        outputs = old.Z @ self.weights[slot.name]
        losses = self.learner.model.losses(outputs, old.y)
        return float(self.learner.model.scores(losses, self.known_labels).mean())

    def _old_by_label(self, W: FloatArray) -> tuple[LabelSums, ...]:
        """Return the sums by label of the scores on the records held out in earlier rounds."""
        if self.old is None or not len(self.old.y):
            return ()
        losses = self.learner.model.losses(self.old.Z @ W, self.old.y)
        return self._by_label(self.old, self.learner.model.scores(losses, self.known_labels))

    def _relabelling(self, outputs: FloatArray) -> FloatArray:
        """Return S[a, b], the sum over records of label a of max(log p_b, -2 ln K), for the registered labels."""
        logs = self.learner.model.log_likelihoods(outputs)
        labels = logs.shape[1]
        known = self.records.y < labels if labels else np.zeros(len(logs), np.bool_)
        one_hot = np.eye(labels)[self.records.y[known].astype(np.intp)]
        fits: FloatArray = one_hot.T @ np.maximum(logs[known], -score_bound(self.known_labels))
        return fits

    @staticmethod
    def _by_label(records: RoundRecords, scores: FloatArray) -> tuple[LabelSums, ...]:
        labels = records.labels or ("",)
        codes = records.y.astype(np.intp) if records.labels else np.zeros(len(scores), np.intp)
        count = np.bincount(codes, minlength=len(labels))
        loss = np.bincount(codes, scores, minlength=len(labels))
        square = np.bincount(codes, scores * scores, minlength=len(labels))
        sums = zip(labels, count.tolist(), in_short(loss), in_short(square), strict=True)
        return tuple([LabelSums(label=name, count=n, loss=a, square=b) for name, n, a, b in sums if n])

    def _train(
        self, trained: Sequence[int], outputs: FloatArray, derivatives: FloatArray, result: LocalResult
    ) -> None:
        """Step the trained models, given the derivatives of their losses, shape (trained, columns, n)."""
        if self.learner.one_full_step:
            if len(self.records.labels) > len(self.records.registry.labels):  # labels that are new in this round
                derivatives = self._derivatives_with_new_labels(trained, outputs)
            differences = self._full_steps([self.slots[i] for i in trained], derivatives, result.trained)
        else:
            differences = {self.slots[i].name: self._in_steps(self.slots[i], result) for i in trained}
        for i in trained:
            name, whitened = self.slots[i].name, self.slots[i].whitened
            result.differences[name] = shortened(differences[name], 1 if whitened else result.trained)

    def _derivatives_with_new_labels(self, trained: Sequence[int], outputs: FloatArray) -> FloatArray:
        model, y = self.learner.model, self.records.y
        return np.array([model.derivative(self._widened(outputs[i].T), y).T for i in trained])

    def _full_steps(self, slots: Sequence[Slot], derivatives: FloatArray, count: int) -> dict[str, FloatArray]:
        """Return the difference that one step on the whole round makes to every trained model; see `Slot.whitened`.

        `derivatives` are those of the losses, shape (slots, columns, n), and those of held-out records become zero;
        `count` records are trained on.
        """
        records, width = self.records, derivatives.shape[1]
        stacked = derivatives.reshape(len(slots) * width, -1)
        if self.held is not None:
            stacked[:, self.held] = 0.0
        sums = (records.Z.T @ stacked.T).reshape(-1, len(slots), width)
        rounded = self._on_grid(sums) if any(slot.whitened for slot in slots) else sums
        differences = {}
        for i, slot in enumerate(slots):
            if slot.whitened:  # the coordinator takes whitened steps and adds the penalty
                differences[slot.name] = rounded[:, i]
            else:
                start = self._widened(self.weights[slot.name])
                slope = sums[:, i] / count + self.learner.l2 * start
                end = self.learner.algorithm.step(start, slope, slot.eta)
                differences[slot.name] = self._difference(start, end)
        return differences

    def _in_steps(self, slot: Slot, result: LocalResult) -> FloatArray:
        """Return the difference that the local steps on parts of the round make to a model."""
        start = self._widened(self.weights[slot.name])
        return self._difference(start, self._local_steps(slot, start, result))

    def _difference(self, start: FloatArray, end: FloatArray) -> FloatArray:
        learner = self.learner
        difference = learner.algorithm.to_average(end) - learner.algorithm.to_average(start)
        return difference / learner.work(len(self.records.y))

    def _on_grid(self, sums: FloatArray) -> FloatArray:
        """Return sums of gradients, shape (d + 1, slots, columns), on the grid of the round.

        Gradients of a softmax add up to 0 over the labels; so do the rounded ones, which need one column less.
        Residuals of targets may be of any size, which no grid foresees: their gradients are floats of 32 bits.
        """
        link = self.learner.model.link
        if link == "identity":
            return sums.astype(np.float32).astype(np.float64)
        rounded = on_grid(sums, gradient_steps(self.exponents, len(sums))[:, None])
        if link == "softmax":
            rounded[..., -1] = 0.0 - rounded[..., :-1].sum(axis=-1)
        return rounded

    def _local_steps(self, slot: Slot, start: FloatArray, result: LocalResult) -> FloatArray:
        learner, records = self.learner, self.records
        problem = LocalProblem(
            model=learner.model,
            Z=records.Z,
            y=records.learnt,
            l2=learner.l2,
            batch=learner.local_batch,
            gamma=learner.gamma,
            rng=generator(learner.seed, "gamma", *self.key) if learner.gamma < 1.0 else None,
            held=self.held,
        )
        if slot.name != self.serves:
            return local_model(learner.algorithm, problem, start, slot.eta)
        result.served = result.at_start.copy()

        def served(rows: IntArray | slice, outputs: FloatArray) -> None:
            result.served[rows] = learner.model.predict(outputs)

        return local_model(learner.algorithm, problem, start, slot.eta, served=served)

    def _widened(self, W: FloatArray) -> FloatArray:
        """Return weights or outputs with a column of zeros for every label that is new at this client."""
        return widened(W, self.learner.model.columns(len(self.records.labels)))


def _side_by_side(parts: Sequence[FloatArray]) -> FloatArray:
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def labels_in(batches: Sequence[Batch]) -> tuple[str, ...]:
    """Return the labels that occur in the records, sorted."""
    return tuple(sorted({b.labels[c] for b in batches if b.labels for c in np.unique(b.y.astype(np.intp))}))
