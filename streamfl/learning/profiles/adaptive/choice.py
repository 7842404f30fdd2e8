"""The choice of the next incumbent after an alarm: candidates are scored, some are relabelled, the best is taken."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.learning.drift.evidence import ClientEvidence, LiveModel, ModelEvidence, RoundEvidence
from streamfl.learning.profiles.adaptive.relabelling import best_permutation, relabelled, relabelled_losses
from streamfl.learning.profiles.base import Answer, Ask
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.digits import significant

# A relabelled model must beat the others by this many standard errors over clients, because its labels were fitted to
# the records on which it is compared.
# docs/choices.md, "A restart".
SURE = 2.0

# What a model from outside of the epoch must gain over the best of the epoch to show that more than the inputs has
# moved, on the records of the labels that the alarm names: as in the change test, a smaller rise does not matter.
# docs/choices.md, "When only the inputs move".
MARGIN = 0.01

# The cause of an alarm about the loss of online models.
ANSWERS = "answers"

# The rounding error that a mean score may have. docs/choices.md, "Bounds and rounding".
ROUNDING = 1e-9


@dataclass
class Choice:
    """A deliberation that chooses the candidate with the least score on the alarm round's records.

    The proper score would be misleading here. Drift seldom begins exactly between two rounds, and a confident model
    of the new concept is wrong on every old record in the alarm's round.

    Examples
    --------
    >>> import numpy as np
    >>> from streamfl.learning.drift.evidence import ClientEvidence
    >>> W, S = np.array([[1.0, 2.0]]), np.array([[-32.0, -8.0], [-8.0, -32.0]])
    >>> evidence, parts = {"step 16": ModelEvidence(0.8, 0.6, W)}, {"c": ClientEvidence(40, {"step 16": 32.0})}
    >>> observed, alarm = RoundEvidence(7, 40, evidence, 1.0, 2.0, clients=parts), Alarm("excess", 12.0, 9.2, 7)
    >>> choice = Choice(alarm, observed, ("step 16",), {"scratch": 0 * W}, {"incumbent": W}, 1.0)
    >>> [model.name for model in choice.ask().models], choice.ask().relabel
    (['scratch', 'incumbent'], ('incumbent',))
    >>> part = {"c": ClientEvidence(40, {"scratch": 20.0, "incumbent": 32.0})}
    >>> choice.answer(Answer({"scratch": ModelEvidence(0.5, 0.2, W)}, part, {"c": {"incumbent": S}}))
    >>> [(model.name, model.W) for model in choice.ask().models]
    [('relabelled', array([[2., 1.]]))]
    >>> part = {"c": ClientEvidence(40, {"relabelled": 8.0})}
    >>> choice.answer(Answer({"relabelled": ModelEvidence(0.2, 0.1, W)}, part))
    >>> choice.ask(), choice.best()
    (None, 'relabelled')
    >>> choice.scores()
    {'step 16': 0.8, 'scratch': 0.5, 'relabelled': 0.2}
    """

    # The alarm, and the round that raised it.
    alarm: Alarm
    observed: RoundEvidence
    live: tuple[str, ...]  # names of the live models, which the round has scored
    candidates: Mapping[str, FloatArray]  # models still to be scored, by name
    relabel: Mapping[str, FloatArray]  # models whose relabelled versions are candidates too, by name
    # The step that candidates take on the round's records.
    eta: float
    whitened: bool = True
    clients: tuple[str, ...] | None = None  # the clients concerned; None means all
    is_suspected: bool = False  # whether online models have come to predict worse: untrained ones may be better
    earlier: tuple[str, ...] = ()  # names of candidates that served earlier in this epoch, on other inputs
    # By candidate scored so far, the model after its step.
    stepped: dict[str, FloatArray] = field(default_factory=dict)
    losses: dict[str, dict[str, float]] = field(default_factory=dict)  # by candidate and client, the sum of scores
    stage: int = 0
    fitting: LiveModel | None = None
    permutation: tuple[int, ...] = ()  # the permutation of labels that gives the relabelled candidate

    # By client, the mean log-loss of untrained online models on the round's records, in nats.
    untrained_losses: dict[str, float] = field(default_factory=dict)

    # A permutation that surely improves the model from before the alarm, whatever is chosen. Online
    # models take it over: they know the same concept, and have no older state to recall.
    renames: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Take over the round's results for the live models."""
        for name in self.live:
            if name in self.observed.models:
                self.stepped[name] = self.observed.models[name].stepped
                self.losses[name] = {c: self.observed.clients[c].losses[name] for c in self._scorers(name)}

    def ask(self) -> Ask | None:
        """Ask for the candidates, then for a relabelled model if one may win, then for the chosen one's step."""
        while self.stage < len(self._questions):
            asked = self._questions[self.stage]()
            if asked is not None:
                return asked
            self.stage += 1
        return None

    def answer(self, answer: Answer) -> None:
        """Take the clients' scores; the questions end if there are none of the models that were asked about."""
        answer, question = self._of_the_round(answer), self._questions[self.stage : self.stage + 1]
        for name, evidence in answer.models.items():
            if name in self.stepped:  # a live model: the round scored it, and now it has taken its step
                self.stepped[name] = evidence.stepped
            elif name not in self.relabel:
                self._add(name, evidence, answer.clients)
        self.untrained_losses |= answer.untrained_losses
        if self._candidates in question:
            self.fitting = self._best_relabelled(answer)
        ends = self.is_unfounded if self._whether_founded in question else not answer.models
        self.stage = len(self._questions) if ends else self.stage + 1

    def best(self) -> str:
        """Return the candidate with the least loss over the clients that scored all of them; the first of equals.

        If an operator wants one that was scored, it is that.
        """
        if self.alarm.wanted in self.stepped:
            return self.alarm.wanted
        return self._least(self.stepped)

    def _least(self, names: Collection[str]) -> str:
        common = self._common()
        return min(names, key=lambda name: math.fsum(self.losses[name][c] for c in common))

    def scores(self) -> dict[str, float]:
        """Return by candidate the mean score over the records by which `best` compares; empty if there are none."""
        common = self._common()
        records = sum(map(self._records, common))
        means = {name: math.fsum(sums[c] for c in common) / records for name, sums in self.losses.items() if records}
        return {name: significant(mean) for name, mean in means.items()}

    def better_at(self, than: str) -> tuple[int, int]:
        """Return at how many clients the best candidate scores better than another one, and how many scored both."""
        best, other = self.losses[self.best()], self.losses.get(than, {})
        return sum(best[c] < other[c] for c in best if c in other), len(best.keys() & other.keys())

    def _common(self) -> set[str]:
        """Return the clients that scored every candidate."""
        return set.intersection(*(set(sums) for sums in self.losses.values()))

    @property
    def begins_again(self) -> bool:
        """Tell whether untrained online models predict the round better: at most clients, with most of its records.

        Whoever does not say is against it. So no minority can bring it about; more than half of those that count,
        with more than half of their records, can whatever the others say.
        """
        counted = self.observed.online_losses
        better = [c for c, loss in counted.items() if self.untrained_losses.get(c, math.inf) < loss]
        records = sum(map(self._records, counted))
        return 2 * len(better) > len(counted) and 2 * sum(map(self._records, better)) > records

    @property
    def is_unfounded(self) -> bool:
        """Tell whether only online models are suspected, and untrained ones are no better."""
        return self.alarm.cause == ANSWERS and not self.alarm.wanted and not self.begins_again

    @property
    def is_explained_by_inputs(self) -> bool:
        """Tell whether the inputs explain the alarm: they differ, and no other model gains over those of this epoch.

        Live models learn the new records anyway, and those kept in this epoch know the same concept on other inputs:
        a season that comes back. Abrupt drift of y given x is surely answered by another: scratch, the model of an
        earlier epoch, or a relabelled one. A new label, or an operator, needs no answer.
        """
        differ = self.observed.moved or self.observed.spread
        if self.alarm.wanted or self.alarm.cause in {"new-label", "operator"} or not differ:
            return False
        best, scores = self.best(), self.scores()
        known = self._least([name for name in (*self.live, *self.earlier) if name in self.stepped])
        gains = bool(scores) and scores[known] - scores[best] >= MARGIN * self._share_of_labels()
        return not (gains and self.surely_better(self.losses[best], known))

    def _share_of_labels(self) -> float:
        """Return the share of records with the labels that the alarm names; 1 if it names none."""
        each = [one for client in self.observed.clients.values() for one in client.new]
        own = sum(one.count for one in each if one.label in self.alarm.labels)
        return own / sum(one.count for one in each) if own else 1.0

    def surely_better(self, sums: Mapping[str, float], than: str, *, by: float = SURE) -> bool:
        """Return whether losses by client are lower than a candidate's, by `by` standard errors over clients.

        With a single client, an upper bound on the error over its records is used: a record's loss is at most 1 under
        either model, so the mean squared gain is at most the sum of both mean losses.
        """
        return self._surely_lower(sums, self.losses[than], by)

    def _surely_lower(self, sums: Mapping[str, float], than: Mapping[str, float], by: float = SURE) -> bool:
        common = [c for c in sums if c in than and self._records(c)]
        weights = [self._records(c) for c in common]
        gains = [(than[c] - sums[c]) / n for c, n in zip(common, weights, strict=True)]
        total = sum(weights)
        if not total:
            return False
        mean = sum(n * g for n, g in zip(weights, gains, strict=True)) / total
        error = math.sqrt(sum((n * (g - mean)) ** 2 for n, g in zip(weights, gains, strict=True))) / total
        if len(common) == 1:
            lost = (than[common[0]] + sums[common[0]]) / total  # negative only if a client lies
            error = math.sqrt(min(1.0, max(0.0, lost)) / total)
        return mean > max(by * error, ROUNDING)

    @property
    def _questions(self) -> tuple[Callable[[], Ask | None], ...]:
        first = (self._whether_founded,) if self.alarm.cause == ANSWERS and self._wants_untrained_loss else ()
        return *first, self._candidates, self._relabelled, self._step

    def _whether_founded(self) -> Ask:
        """Ask whether untrained online models are better, which costs few bytes, before anything else."""
        return Ask((), wants_untrained_loss=True)

    def _candidates(self) -> Ask | None:
        models = [self._live_model(name, W) for name, W in self.candidates.items()]
        fitted = [replace(self._live_model(name, W), trained=False) for name, W in self.relabel.items()]
        if not models and not fitted:
            return None
        return Ask((*models, *fitted), tuple(self.relabel), self._wants_untrained_loss and not self.untrained_losses)

    @property
    def _wants_untrained_loss(self) -> bool:
        """Tell whether clients are asked how much untrained online models lose."""
        ordered = self.alarm.wanted or self.alarm.cause in {"new-label", "operator"}
        return self.is_suspected and not (self.alarm.local or ordered)

    def _relabelled(self) -> Ask | None:
        return None if self.fitting is None else Ask((self.fitting,))

    def _step(self) -> Ask | None:
        """Ask for the chosen model's step, if it is live and took none (an average), or another than candidates take.

        Otherwise the epoch would begin without the alarm's round, which may hold the only records of a new label.
        """
        chosen = self.best()
        evidence = next((model for model in self.observed.live if model.name == chosen), None)
        if evidence is None or self.clients is not None or (evidence.trained and evidence.eta == self.eta):
            return None
        return Ask((self._live_model(chosen, evidence.W),))

    def _live_model(self, name: str, W: FloatArray) -> LiveModel:
        return LiveModel(name, W, self.eta, clients=self.clients, whitened=self.whitened)

    def _of_the_round(self, answer: Answer) -> Answer:
        """Return an answer as sums over as many records as the round has.

        Clients of which only sums of all are known may be fewer here than in the round.
        """
        parts = {c: self._records(c) / part.records for c, part in answer.clients.items() if part.records}
        if all(part == 1.0 for part in parts.values()):
            return answer
        clients = {
            c: replace(answer.clients[c], losses={name: part * x for name, x in answer.clients[c].losses.items()})
            for c, part in parts.items()
        }
        fits = {
            c: {name: parts[c] * S for name, S in by.items()} for c, by in answer.relabelling.items() if c in parts
        }
        return replace(answer, clients=clients, relabelling=fits)

    def _add(self, name: str, evidence: ModelEvidence, parts: Mapping[str, ClientEvidence]) -> None:
        sums = {c: part.losses[name] for c, part in parts.items() if name in part.losses}
        if sums:
            self.stepped[name], self.losses[name] = evidence.stepped, sums

    def _best_relabelled(self, answer: Answer) -> LiveModel | None:
        """Return the best relabelled model, if it surely beats every other candidate.

        In local drift it need not: there it is only a trial, judged on later rounds.
        """
        options: list[tuple[float, str, IntArray, dict[str, float]]] = []
        for name in self.relabel:
            fits = {c: S[name] for c, S in answer.relabelling.items() if name in S and self._is_about(c)}
            if not fits or not all(S.size for S in fits.values()):
                continue
            permutation = best_permutation(np.sum(list(fits.values()), axis=0))
            bound = self.observed.loss_bound
            as_it_is = relabelled_losses(fits, np.arange(len(permutation)), bound)
            renamed = relabelled_losses(fits, permutation, bound)
            # S leaves out records whose labels no model knows: they lose the same under either permutation.
            sums = {c: answer.clients[c].losses[name] + (renamed[c] - as_it_is[c]) for c in fits}
            options.append((math.fsum(sums.values()), name, permutation, sums))
        if not options:
            return None
        _, name, permutation, sums = min(options, key=lambda option: option[0])
        if self._surely_lower(sums, {c: answer.clients[c].losses[name] for c in sums}):
            self.renames = tuple(permutation.tolist())
        if self.clients is None and not self.surely_better(sums, self.best()):
            return None
        self.permutation = tuple(permutation.tolist())
        return self._live_model("relabelled", relabelled(self.relabel[name], permutation))

    def _scorers(self, name: str) -> Collection[str]:
        return [c for c, part in self.observed.clients.items() if name in part.losses and self._is_about(c)]

    def _is_about(self, client: str) -> bool:
        return self.clients is None or client in self.clients

    def _records(self, client: str) -> int:
        return self.observed.clients[client].records
