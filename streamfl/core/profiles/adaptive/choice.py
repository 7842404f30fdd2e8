"""The choice of the model to go on from after an alarm: candidates are scored, some relabelled, the best taken."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.drift.evidence import ClientPart, LiveModel, Observed, Played
from streamfl.core.profiles.adaptive.relabelling import best_permutation, relabelled, relabelled_losses
from streamfl.core.profiles.base import Answer, Ask
from streamfl.core.protocol.alarm import Alarm

# A relabelled model must beat the others by so many standard errors over clients: its labels were fitted to the very
# records that it is compared on.
# docs/choices.md, "A restart".
SURE = 2.0

# What a mean score may be off by rounding. docs/choices.md, "Bounds and rounding".
ROUNDING = 1e-9


@dataclass
class Choice:
    """A deliberation: the candidate with the least score on the alarm round's records is chosen.

    Not with the least proper score: a drift seldom comes between two rounds, and a sure model of the new concept is
    wrong on every record that the alarm's round holds of the old one.

    Parameters
    ----------
    alarm, observed
        What it is about.
    live
        Names of the models that were scored already.
    candidates
        Models to be scored, by name.
    relabel
        Models of which relabelled ones are candidates too, by name.
    eta, whitened
        The step that candidates take on the round's records.
    clients
        The clients that it is about; None for all.
    found
        Candidates scored so far: the model after its step.
    losses
        By candidate and client, the sum of scores.
    permutation
        Of the labels of the relabelled candidate.
    renames
        That by which the model of before the alarm surely becomes better than it was, whatever is chosen: what learns
        between rounds knows the same concept, and has no older state to be recalled.

    Examples
    --------
    >>> import numpy as np
    >>> from streamfl.core.drift.evidence import ClientPart
    >>> W, S = np.array([[1.0, 2.0]]), np.array([[-32.0, -8.0], [-8.0, -32.0]])
    >>> played, heard = {"step 16": Played(0.8, 0.6, W)}, {"c": ClientPart(40, {"step 16": 32.0})}
    >>> observed, alarm = Observed(7, 40, played, 1.0, 2.0, clients=heard), Alarm("excess", 12.0, 9.2, 7)
    >>> choice = Choice(alarm, observed, ("step 16",), {"scratch": 0 * W}, {"incumbent": W}, 1.0)
    >>> [model.name for model in choice.ask().models], choice.ask().relabel
    (['scratch', 'incumbent'], ('incumbent',))
    >>> part = {"c": ClientPart(40, {"scratch": 20.0, "incumbent": 32.0})}
    >>> choice.answer(Answer({"scratch": Played(0.5, 0.2, W)}, part, {"c": {"incumbent": S}}))
    >>> [(model.name, model.W) for model in choice.ask().models]
    [('relabelled', array([[2., 1.]]))]
    >>> choice.answer(Answer({"relabelled": Played(0.2, 0.1, W)}, {"c": ClientPart(40, {"relabelled": 8.0})}))
    >>> choice.ask(), choice.best()
    (None, 'relabelled')
    """

    alarm: Alarm
    observed: Observed
    live: tuple[str, ...]
    candidates: Mapping[str, FloatArray]
    relabel: Mapping[str, FloatArray]
    eta: float
    whitened: bool = True
    clients: tuple[str, ...] | None = None
    found: dict[str, FloatArray] = field(default_factory=dict)
    losses: dict[str, dict[str, float]] = field(default_factory=dict)
    stage: int = 0
    fitting: LiveModel | None = None
    permutation: tuple[int, ...] = ()
    renames: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Take over what the round has told of the live models."""
        for name in self.live:
            if name in self.observed.played:
                self.found[name] = self.observed.played[name].stepped
                self.losses[name] = {c: self.observed.clients[c].losses[name] for c in self._heard(name)}

    def ask(self) -> Ask | None:
        """Return the candidates first, then a relabelled model if one may win, then the chosen one's step."""
        while self.stage < len(self._questions):
            asked = self._questions[self.stage]()
            if asked is not None:
                return asked
            self.stage += 1
        return None

    def answer(self, answer: Answer) -> None:
        """Take what was scored; where nobody answers nobody is asked again."""
        for name, played in answer.played.items():
            if name in self.found:  # a live one: it was scored before, and now has taken its step
                self.found[name] = played.stepped
            elif name not in self.relabel:
                self._take(name, played, answer.clients)
        if self.stage == 0:
            self.fitting = self._best_relabelled(answer)
        self.stage = self.stage + 1 if answer.played else len(self._questions)

    def best(self) -> str:
        """Return the candidate with the least loss over the clients who scored all of them; the first of equals."""
        everybody = set.intersection(*(set(sums) for sums in self.losses.values()))
        return min(self.found, key=lambda name: math.fsum(self.losses[name][c] for c in everybody))

    def surely_better(self, sums: Mapping[str, float], than: str, *, by: float = SURE) -> bool:
        """Tell whether losses by client are lower than a candidate's, by so many standard errors over clients.

        Of one client it is the error over its records, as large as it may be: a record loses at most 1 by either
        model, so the mean square of what it gains is at most the sum of both mean losses.
        """
        return self._surely_lower(sums, self.losses[than], by)

    def _surely_lower(self, sums: Mapping[str, float], than: Mapping[str, float], by: float = SURE) -> bool:
        both = [c for c in sums if c in than and self._records(c)]
        weights = [self._records(c) for c in both]
        gains = [(than[c] - sums[c]) / n for c, n in zip(both, weights, strict=True)]
        total = sum(weights)
        if not total:
            return False
        mean = sum(n * g for n, g in zip(weights, gains, strict=True)) / total
        error = math.sqrt(sum((n * (g - mean)) ** 2 for n, g in zip(weights, gains, strict=True))) / total
        if len(both) == 1:
            error = math.sqrt(min(1.0, (than[both[0]] + sums[both[0]]) / total) / total)
        return mean > max(by * error, ROUNDING)

    @property
    def _questions(self) -> tuple[Callable[[], Ask | None], ...]:
        return self._candidates, self._relabelled, self._step

    def _candidates(self) -> Ask | None:
        models = [self._live(name, W) for name, W in self.candidates.items()]
        fitted = [replace(self._live(name, W), trained=False) for name, W in self.relabel.items()]
        return Ask((*models, *fitted), tuple(self.relabel)) if models or fitted else None

    def _relabelled(self) -> Ask | None:
        return None if self.fitting is None else Ask((self.fitting,))

    def _step(self) -> Ask | None:
        """Return the chosen model if it is live and its step was none, as an average's, or not the candidates'.

        An epoch would else begin without what the alarm's round taught, which may be all there is of a new label.
        """
        chosen = self.best()
        played = next((model for model in self.observed.live if model.name == chosen), None)
        if played is None or self.clients is not None or (played.trained and played.eta == self.eta):
            return None
        return Ask((self._live(chosen, played.W),))

    def _live(self, name: str, W: FloatArray) -> LiveModel:
        return LiveModel(name, W, self.eta, clients=self.clients, whitened=self.whitened)

    def _take(self, name: str, played: Played, parts: Mapping[str, ClientPart]) -> None:
        sums = {c: part.losses[name] for c, part in parts.items() if name in part.losses}
        if sums:
            self.found[name], self.losses[name] = played.stepped, sums

    def _best_relabelled(self, answer: Answer) -> LiveModel | None:
        """Return the best relabelled model, if it surely beats every other candidate.

        About some clients alone there is no hurry: what is only a trial is judged on later rounds.
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
            # S is silent on records of labels that no model knows: they lose the same under either naming.
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
        return self._live("relabelled", relabelled(self.relabel[name], permutation))

    def _heard(self, name: str) -> Collection[str]:
        return [c for c, part in self.observed.clients.items() if name in part.losses and self._is_about(c)]

    def _is_about(self, client: str) -> bool:
        return self.clients is None or client in self.clients

    def _records(self, client: str) -> int:
        return self.observed.clients[client].records
