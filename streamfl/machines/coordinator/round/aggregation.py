"""Aggregation of a round's updates into what the profile observes: exact sums, the same in any order."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.algorithms.base import combine
from streamfl.learning.drift.evidence import ClientEvidence, LiveModel, ModelEvidence, RoundEvidence
from streamfl.learning.fixed_point import exact_sum, weighted_mean
from streamfl.learning.influence import outliers
from streamfl.learning.local_round import Learner
from streamfl.learning.model import score_bound
from streamfl.learning.profiles.base import Answer
from streamfl.machines.coordinator.aggregators import AGGREGATORS, Aggregator
from streamfl.machines.coordinator.saved.agreement import Agreement, labels_seen_first
from streamfl.protocol.digits import significant
from streamfl.protocol.messages import Numbers, Scores, SlotLosses, Update
from streamfl.protocol.registry import placed_columns

# A round says how well online models answer if clients have answered so many of its records with them: of fewer,
# chance decides. docs/choices.md, "When online models begin again".
FEWEST_COMPARED = 50


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """One client's losses and steps of a round's models, from an Update or from Scores."""

    client: str
    records: int
    trained: int
    labels: tuple[str, ...]
    losses: Mapping[str, SlotLosses]
    differences: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class RoundAggregation:
    """How contributions are combined.

    Examples
    --------
    >>> from streamfl.learning.algorithms import FedAvg
    >>> from streamfl.models import Softmax
    >>> from streamfl.protocol.registry import Registry
    >>> registry = Registry(1, ("x",), ("a",), np.zeros(1), np.ones(1))
    >>> two = RoundAggregation(Learner(Softmax(), FedAvg()), Agreement(registry, 1.0), ("a", "b"))
    >>> lost = {"m": SlotLosses(loss=0.4, square=0.16, proper=0.2)}
    >>> one_saw_b = Contribution("c0", 1, 1, ("a", "b"), lost, {"m": np.full((2, 2), 4.0)})
    >>> lost = {"m": SlotLosses(loss=0.6, square=0.12, proper=0.2)}
    >>> others = Contribution("c1", 3, 3, ("a",), lost, {"m": np.full((2, 1), 8.0)})
    >>> found = two.evidence(LiveModel("m", np.zeros((2, 1)), eta=0.1), [one_saw_b, others])
    >>> found.loss, found.proper, found.stepped
    (0.25, 0.1, array([[7., 1.],
           [7., 1.]]))
    """

    learner: Learner  # how the federation learns
    agreement: Agreement  # the agreement under which the clients worked; its second moments whiten steps
    labels: tuple[str, ...]  # the registered labels, then all new labels of the round: the columns of the result
    apart: frozenset[str] = frozenset()  # the clients whose contributions to the common models are left out
    # The clients whose losses of the common models are left out, because they stand out.
    outliers: frozenset[str] = frozenset()
    aggregator: Aggregator = "mean"  # how the differences of models that rounds train are combined

    @classmethod
    def of(
        cls,
        learner: Learner,
        agreement: Agreement,
        updates: Sequence[Update],
        apart: frozenset[str] = frozenset(),
        outliers: frozenset[str] = frozenset(),
        aggregator: Aggregator = "mean",
    ) -> "RoundAggregation":
        """Return the aggregation over the union of the clients' labels."""
        labels = (*agreement.registry.labels, *labels_seen_first(updates))
        return cls(learner, agreement.during(updates), labels, apart, outliers, aggregator)

    def observed(
        self,
        updates: Sequence[Update],
        live: tuple[LiveModel, ...],
        *,
        t: int,
        known_labels: tuple[str, ...],
        serves: str,
    ) -> RoundEvidence:
        """Return what round t has shown.

        Parameters
        ----------
        known_labels
            The labels that were registered when the epoch began.
        """
        compared = self._online_losses(updates)
        return RoundEvidence(
            round=t,
            records=sum(update.records for update in updates),
            models=self._models(live, [self._contribution(update, update.numbers) for update in updates]),
            largest_norm=max(update.numbers.largest_norm for update in updates),
            loss_bound=score_bound(len(known_labels)),
            known_labels=known_labels,
            clients={
                u.client: ClientEvidence(u.records, _sums(u.numbers), u.numbers.new, u.numbers.old)
                for u in updates
                if u.records
            },
            live=live,
            serves=serves,
            online_loss=_online_loss(compared, score_bound(len(known_labels))),
            online_losses={client: mean for client, (_, mean) in compared.items()},
        )

    def _online_losses(self, updates: Sequence[Update]) -> dict[str, tuple[int, float]]:
        """Return the records and the mean log-loss of online models at each client; none if the records are few."""
        means = {u.client: (u.records, mean) for u in updates if (mean := self._mean_online_loss(u)) is not None}
        return means if sum(records for records, _ in means.values()) >= FEWEST_COMPARED else {}

    def _mean_online_loss(self, update: Update) -> float | None:
        """Return the mean log-loss of the agreed online models at a client, in nats.

        None if it is not known, or not compared with that of others: at clients apart, and at outliers.
        """
        learnt = update.numbers.learnt
        if not update.records or update.client in self.apart | self.outliers or learnt is None or learnt.loss is None:
            return None
        return float(learnt.loss) / update.records

    def answer(self, scored: Sequence[tuple[Update, Scores]], live: tuple[LiveModel, ...]) -> Answer:
        """Return the scores of candidates, each client's on the records of its update."""
        scored = [(update, scores) for update, scores in scored if update.records]
        contributions = [self._contribution(update, scores) for update, scores in scored]
        here = replace(self, outliers=self._outliers_among(contributions, live))
        judges = [(update, scores) for update, scores in scored if update.client not in here.outliers] or scored
        return Answer(
            here._models(live, contributions),
            {update.client: ClientEvidence(update.records, _sums(scores)) for update, scores in judges},
            {scores.client: scores.relabelling for _, scores in judges},
            {scores.client: scores.untrained_loss for _, scores in scored if scores.untrained_loss is not None},
        )

    def _outliers_among(self, contributions: Sequence[Contribution], live: Sequence[LiveModel]) -> frozenset[str]:
        """Return the clients whose scores of candidates for all clients are left out; of a few clients none is."""
        if any(model.clients is not None for model in live):
            return frozenset()
        common = [c for c in contributions if c.client not in self.apart]
        return self.outliers | outliers_in(((c.client, c.records, c.losses) for c in common), live)

    def evidence(self, model: LiveModel, contributions: Sequence[Contribution]) -> ModelEvidence | None:
        """Return the measurements of a model, and the model after its step; None if no client scored it."""
        there = [c for c in contributions if model.name in c.losses and c.records]
        # Clients with a branch count for common models only if no other client scored them; they never train them.
        scored = [c for c in there if self._is_for(model, c)] or there
        records = sum([c.records for c in scored])
        if not records:
            return None
        judges = [c for c in scored if model.clients is not None or c.client not in self.outliers] or scored
        records, losses = sum([c.records for c in judges]), [c.losses[model.name] for c in judges]
        mean = math.fsum([x.loss for x in losses]) / records
        share = math.fsum([x.history_share for x in losses])
        return ModelEvidence(
            loss=mean,
            proper=math.fsum([x.proper for x in losses]) / records,
            stepped=self._stepped(model, scored),
            variance=max(0.0, math.fsum([x.square for x in losses]) / records - mean**2),
            history_loss=math.fsum([x.history for x in losses]) / share if share > 0.0 else None,
            history_records=sum([x.history_records for x in losses]),
        )

    def _models(self, live: tuple[LiveModel, ...], contributions: Sequence[Contribution]) -> dict[str, ModelEvidence]:
        found = {model.name: self.evidence(model, contributions) for model in live}
        return {name: evidence for name, evidence in found.items() if evidence is not None}

    def _contribution(self, update: Update, told: Numbers | Scores) -> Contribution:
        """Return a client's contribution, from its update or from its scores for the same records."""
        labels = (*self.agreement.registry.labels, *update.new_labels)
        return Contribution(update.client, update.records, update.trained, labels, told.losses, told.differences)

    def _is_for(self, model: LiveModel, contribution: Contribution) -> bool:
        return model.clients is not None or contribution.client not in self.apart

    def _stepped(self, model: LiveModel, scored: Sequence[Contribution]) -> FloatArray:
        """Return the model after its step, with a column for every label of the round."""
        start = placed_columns(model.W, np.arange(model.W.shape[1]), self._columns)
        trained = [c for c in scored if c.trained and model.name in c.differences]
        if not trained:
            return start
        if model.whitened:
            slope = self._slope(trained, model.name)
            kept = 1.0 - model.eta * self.learner.l2  # the penalty is measured in whitened features as well
            return self.learner.algorithm.from_average(kept * start + self.agreement.whitened(-model.eta * slope))
        works = [c.trained * self.learner.work(c.records) for c in trained]
        mean_work = math.fsum(works) / sum([c.trained for c in trained])
        return combine(self.learner.algorithm, start, mean_work * self._mean(trained, model.name))

    def _slope(self, trained: Sequence[Contribution], name: str) -> FloatArray:
        """Return the combined gradient a record, of sums over records."""
        sums, records = [self._widened(c, name) for c in trained], [c.trained for c in trained]
        if self.aggregator == "mean":
            return exact_sum(sums) / sum(records)
        X, weights = np.array([x / n for x, n in zip(sums, records, strict=True)]), np.array(records, np.float64)
        return AGGREGATORS[self.aggregator](X, np.array([self.agreement.half_whitened(x) for x in X]), weights)

    def _mean(self, trained: Sequence[Contribution], name: str) -> FloatArray:
        """Return the combined difference, weighted by records."""
        if self.aggregator == "mean":
            return weighted_mean([(c.trained, self._widened(c, name)) for c in trained])
        X = np.array([self._widened(c, name) for c in trained])
        return AGGREGATORS[self.aggregator](X, X, np.array([float(c.trained) for c in trained]))

    def _widened(self, contribution: Contribution, name: str) -> FloatArray:
        """Return a client's difference with its columns where the federation has them."""
        difference = contribution.differences[name]
        if difference.shape[1] == self._columns:
            return difference
        at = {label: i for i, label in enumerate(self.labels)}
        columns = np.array([at[label] for label in contribution.labels], dtype=np.int64)
        return placed_columns(difference, columns, self._columns)

    @property
    def _columns(self) -> int:
        return self.learner.model.columns(len(self.labels))


def outliers_in(
    losses: Iterable[tuple[str, int, Mapping[str, SlotLosses]]], live: Sequence[LiveModel]
) -> frozenset[str]:
    """Return the clients whose losses of the models of all clients stand out.

    `losses` are each client's name, records and losses by model.
    """
    names = [model.name for model in live if model.clients is None]
    there = [(client, n, each) for client, n, each in losses if n and each.keys() >= set(names)]
    means = {client: np.array([_means(each[name], n) for name in names]).ravel() for client, n, each in there}
    return outliers(means) if names else frozenset()


def _online_loss(means: Mapping[str, tuple[int, float]], bound: float) -> float | None:
    """Return the mean log-loss of what online models answered, in units of `bound`, at most 1 a client."""
    records = sum(n for n, _ in means.values())
    lost = math.fsum(n * min(1.0, mean / bound) for n, mean in means.values())
    return significant(lost / records) if records else None


def _means(losses: SlotLosses, records: int) -> tuple[float, float]:
    return losses.loss / records, losses.proper / records


def _sums(told: Numbers | Scores) -> dict[str, float]:
    return {name: losses.loss for name, losses in told.losses.items()}
