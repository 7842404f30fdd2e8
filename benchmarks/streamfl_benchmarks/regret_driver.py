"""Drives a profile round by round over exact losses, without clients and messages.

Only this module of the regret benchmark calls a profile. Updates of clients are computed in the limit of many
records: a record of the stream stands for EACH records, and held-out records are a fair sample of the rounds since
the coordinator began to hold records out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.arrays import BoolArray, FloatArray
from streamfl.learning.algorithms.fedavg import onto_ball
from streamfl.learning.drift.evidence import ClientEvidence, LiveModel, ModelEvidence, RoundEvidence
from streamfl.learning.profiles.base import Answer, Profile, RoundPlan
from streamfl.learning.second_moments import SecondMoments
from streamfl.machines.client.work.held_out import ONE_IN
from streamfl.models.softmax import bounded, proper
from streamfl.protocol.messages import HoldoutRule, LabelSums
from streamfl_benchmarks.regret_streams import BOUND, RoundLoss, pooled

EACH = 20
LABELS = ("0", "1")


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Clipped scores of some models on a round.

    Parameters
    ----------
    by_label
        Score of every record if its label were 0, and if it were 1, shape (2, clients, n, models).
    chance
        The chance of each record's label 1, shape (clients, n).
    """

    by_label: FloatArray
    chance: FloatArray

    @classmethod
    def of(cls, outputs: FloatArray, chance: FloatArray, bound: float) -> "Scores":
        """Return the cross-entropies of outputs, shape (clients, n, models), clipped at a bound and divided by it."""
        return cls(bounded(_cross_entropies(outputs), bound), chance)

    @classmethod
    def proper(cls, outputs: FloatArray, chance: FloatArray) -> "Scores":
        """Return proper scores."""
        errors = np.array([outputs > 0.0, outputs <= 0.0])
        return cls(proper(errors, _cross_entropies(outputs), len(LABELS)), chance)

    def means(self) -> tuple[FloatArray, FloatArray]:
        """Return each client's mean score and mean squared score, shape (clients, models) each."""
        zero, one = self.by_label
        weight = self.chance[..., None]
        means = np.mean(zero + weight * (one - zero), axis=1)
        squares = np.mean(zero * zero + weight * (one * one - zero * zero), axis=1)
        return means, squares


def _cross_entropies(outputs: FloatArray) -> FloatArray:
    """Return the loss of every record in nats for label 0 and for label 1, shape (2, *outputs.shape)."""
    as_0 = np.logaddexp(0.0, outputs)
    return np.array([as_0, as_0 - outputs])


class Driven:
    """A profile in a stream.

    Parameters
    ----------
    profile
        The profile.
    Z
        The features, shape (clients, n, d); their second moments are the same in every round.
    radius
        Of the ball that models are kept in.
    bound
        The divisor that turns the loss in nats into a score, also a proper one, for losses that never exceed it, as a
        theorem assumes. None: scores as elsewhere.

    Attributes
    ----------
    alarms
        How many there were.
    """

    def __init__(self, profile: Profile, Z: FloatArray, *, radius: float, bound: float | None = None) -> None:
        flat = pooled(Z)
        norms = np.sum(flat * flat, axis=1)
        self.alarms = 0
        self._profile, self._radius, self._bound = profile, radius, bound
        self._names = tuple(f"c{i}" for i in range(len(Z)))
        self._scratch = np.zeros((Z.shape[2], 1))
        self._squared_norm, self._largest_norm = float(norms.mean()), float(np.sqrt(norms.max()))
        self._moments = SecondMoments(flat.T @ flat, float(len(flat)))
        self._chances = [np.zeros(Z.shape[:2])]
        self._opening = profile.open(1, self._scratch, self._squared_norm)

    @property
    def _t(self) -> int:
        return len(self._chances)

    def play(self) -> FloatArray:
        """Return the model that serves each client, shape (clients, d)."""
        models = {live.name: live.W[:, 0] for live in self._opening.live}
        return np.stack([models[self._opening.served_by(client)] for client in self._names])

    def learn(self, loss: RoundLoss) -> None:
        """Score every live model, step the trained ones, close the round, settle an alarm, and open the next."""
        played, clients = self._measured(self._opening.live, loss, self._opening)
        size = EACH * loss.chance.size
        observed = RoundEvidence(
            self._t,
            size,
            played,
            self._largest_norm,
            loss_bound=self._bound or BOUND,
            known_labels=LABELS,
            clients=clients,
            live=self._opening.live,
            serves=self._opening.serves,
        )
        alarm = self._profile.close(observed)
        if alarm is None:
            self._profile.advance(self._t)
        else:
            self.alarms += 1
            deliberation = self._profile.deliberate(alarm, observed, self._scratch)
            while (asked := deliberation.ask()) is not None:
                deliberation.answer(self._answer(asked.models, asked.relabel, loss))
            if self._profile.conclude(deliberation) is None:
                self._profile.advance(self._t)
        self._chances.append(self._chances[-1] + loss.chance)
        self._opening = self._profile.open(self._t, self._scratch, self._squared_norm)

    def _answer(self, models: Sequence[LiveModel], relabel: Sequence[str], loss: RoundLoss) -> Answer:
        played, clients = self._measured(models, loss)
        # The single column of a logistic model is not that of a label, so it cannot be relabelled.
        nothing = {client: {name: np.zeros((0, 0)) for name in relabel} for client in self._names}
        return Answer(played, clients, nothing if relabel else {})

    def _measured(
        self, live: Sequence[LiveModel], loss: RoundLoss, opening: RoundPlan | None = None
    ) -> tuple[dict[str, ModelEvidence], dict[str, ClientEvidence]]:
        outputs = loss.Z @ np.hstack([model.W for model in live])
        scores = Scores.of(outputs, loss.chance, self._bound or BOUND)
        means, squares = scores.means()
        competed = means if self._bound else Scores.proper(outputs, loss.chance).means()[0]
        scored = self._scored_by(live)
        share = scored / np.maximum(scored.sum(axis=0), 1)
        total, square, fair = ((share * each).sum(axis=0) for each in (means, squares, competed))
        stepped = self._stepped(live, loss, outputs, opening)
        played = {
            model.name: ModelEvidence(float(total[i]), float(fair[i]), stepped[i], float(square[i] - total[i] ** 2))
            for i, model in enumerate(live)
            if scored[:, i].any()
        }
        return played, self._parts(live, scores, means, scored, opening)

    def _scored_by(self, live: Sequence[LiveModel]) -> BoolArray:
        return np.array([[m.clients is None or name in m.clients for m in live] for name in self._names])

    def _stepped(
        self, live: Sequence[LiveModel], loss: RoundLoss, outputs: FloatArray, opening: RoundPlan | None
    ) -> list[FloatArray]:
        """Return every model after its step on the mean gradient of the clients that train it."""
        apart = {client for group in opening.apart for client in group.clients} if opening else set()
        trains = self._scored_by(live) & np.array(
            [[m.trained and (m.clients is not None or name not in apart) for m in live] for name in self._names]
        )
        share = trains / np.maximum(trains.sum(axis=0), 1)
        slopes = np.einsum("cdm,cm->dm", loss.pulled(1.0 / (1.0 + np.exp(-outputs))), share)
        whitened = self._moments.whitened(slopes) if any(model.whitened for model in live) else slopes
        found = []
        for i, model in enumerate(live):
            slope = (whitened if model.whitened else slopes)[:, i : i + 1]
            found.append(onto_ball(model.W - model.eta * slope, self._radius) if trains[:, i].any() else model.W)
        return found

    def _parts(
        self,
        live: Sequence[LiveModel],
        scores: Scores,
        means: FloatArray,
        scored: BoolArray,
        opening: RoundPlan | None,
    ) -> dict[str, ClientEvidence]:
        size = EACH * scores.chance.shape[1]
        nothing: list[tuple[LabelSums, ...]] = [()] * len(self._names)
        new = old = nothing
        if opening is not None and opening.held is not None:
            at = {model.name: i for i, model in enumerate(live)}
            serving = [at[opening.served_by(name)] for name in self._names]
            by_label = scores.by_label[:, range(len(serving)), :, serving]
            held = self._held_out(opening.held)
            new = _sums(by_label, scores.chance, EACH * _label_weights(scores.chance))
            old = _sums(by_label, held.chance, held.counts())
        parts = {}
        for c, name in enumerate(self._names):
            losses = {m.name: size * float(means[c, i]) for i, m in enumerate(live) if scored[c, i]}
            parts[name] = ClientEvidence(size, losses, new[c], old[c])
        return parts

    def _held_out(self, held: HoldoutRule) -> "HeldOut":
        since = min(max(1, held.since), self._t)
        rounds = self._t - since
        mean = (self._chances[-1] - self._chances[since - 1]) / max(1, rounds)
        return HeldOut(mean, rounds, held.per_label)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """The held-out records of clients: the mean chance of label 1 over their rounds, shape (clients, n)."""

    chance: FloatArray
    rounds: int
    per_label: int

    def counts(self) -> FloatArray:
        """Return the number of held-out records by client and label, shape (clients, 2).

        >>> HeldOut(np.full((1, 32), 0.25), rounds=1, per_label=40).counts()
        array([[40., 16.]])
        """
        candidates = EACH / ONE_IN * self.rounds * _label_weights(self.chance)
        counts: FloatArray = np.minimum(np.floor(candidates), self.per_label)
        return counts


def _label_weights(chance: FloatArray) -> FloatArray:
    """Return the expected number of each client's records of label 0 and of label 1, shape (clients, 2)."""
    ones = chance.sum(axis=1)
    return np.stack([chance.shape[1] - ones, ones], axis=1)


def _sums(by_label: FloatArray, chance: FloatArray, counts: FloatArray) -> list[tuple[LabelSums, ...]]:
    """Return each client's sums over `counts` records of each label, weighed by the chance of the label.

    Shapes: (clients, 2, n), (clients, n), (clients, 2).
    """
    weights = np.stack([1.0 - chance, chance], axis=1)
    weights /= np.maximum(weights.sum(axis=2, keepdims=True), 1e-300)
    n = np.rint(counts)
    sums = np.stack([n * (weights * by_label).sum(axis=2), n * (weights * by_label**2).sum(axis=2)], axis=2).tolist()
    return [
        tuple(
            LabelSums(label=name, count=int(count), loss=loss, square=square)
            for name, count, (loss, square) in zip(LABELS, row, sums_of_client, strict=True)
            if count
        )
        for row, sums_of_client in zip(n.tolist(), sums, strict=True)
    ]
