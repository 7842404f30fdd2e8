"""Profile `adaptive`: one model serves while others train, the best is promoted, and drift restarts all."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.errors import BrokenInvariantError
from streamfl.learning.drift.detector import Detector
from streamfl.learning.drift.detectors.class_mix import ClassMix
from streamfl.learning.drift.detectors.excess import ODDS, Excess
from streamfl.learning.drift.detectors.glr import GLRDetector
from streamfl.learning.drift.evidence import LiveModel, RoundEvidence
from streamfl.learning.profiles.adaptive.branch import LATCHED, Branch, Latch, Trial
from streamfl.learning.profiles.adaptive.candidates import Remembered, candidates
from streamfl.learning.profiles.adaptive.choice import ANSWERS, Choice
from streamfl.learning.profiles.adaptive.ladder import Ladder, LadderSettings, ladder_for
from streamfl.learning.profiles.adaptive.recall import RecallPool, Trail
from streamfl.learning.profiles.base import Decision, Deliberation, Profile, ProfileOptions, Restart, RoundPlan
from streamfl.protocol.alarm import Alarm, Reading
from streamfl.protocol.messages import BranchGroup, HoldoutRule, InputsMoved, LocalDrift
from streamfl.protocol.messages.changes import LocalState

# Records that a client holds out, over all labels. docs/choices.md, "Excess".
HELD_OUT = 200

# The largest number of branches. docs/choices.md, "Local drift".
MOST_BRANCHES = 4

# The records that models have learnt in an epoch when the scout is frozen. docs/choices.md, "Conformal".
LEARNT = 1000

# The intercept of a label in a scout that was frozen before it: its records score 1, as before they had a column.
# docs/choices.md, "Conformal".
NEVER = -64.0

SCOUT = "scout"

# The test of the loss of online models: a false alarm costs two questions to clients, so it may alarm often.
# docs/choices.md, "When online models begin again".
ANSWERS_RUN, ANSWERS_WINDOW, VARIANCE = 0.3, 25, 1.0 / 16.0

# Drift that seemed local concerns all clients once the excess of the rest reaches this many deviations.
# docs/choices.md, "Local drift".
GLOBAL = 5.0


def watch_of_answers() -> GLRDetector:
    """Return the test that finds that online models predict worse."""
    return GLRDetector(run_length=ANSWERS_RUN, window=ANSWERS_WINDOW)


@dataclass
class Promotion(Profile):
    """A ladder of step sizes for all clients, a ladder for each branch, a detector, and earlier models.

    Examples
    --------
    >>> import numpy as np
    >>> plan = Promotion().open(1, np.zeros((1, 2)), 10.0)
    >>> [live.name for live in plan.live][:4], plan.serves
    (['step 16', 'step 4', 'step 1', 'step 4 with momentum'], 'step 16')
    >>> plan.held
    HoldoutRule(per_label=100, since=1, renewed={})
    """

    takes: ClassVar[tuple[str, ...]] = ("detector",)
    constants: ClassVar[tuple[str, ...]] = ("ladder",)

    ladder: LadderSettings = field(default_factory=LadderSettings)  # the constants of every ladder
    # The drift detector. Its alarms lead to restarts.
    detector: Detector = field(default_factory=Excess)
    # The detector of changes in the mix of labels, and its alarm of the last round.
    class_mix: ClassMix = field(default_factory=ClassMix)
    noticed: Alarm | None = None
    # The detector of online models that predict worse, which the models of rounds need not feel.
    answers: GLRDetector = field(default_factory=watch_of_answers)
    # Its alarm of the last round, or of the one before if clients are asked again; None if there is none.
    suspicion: Alarm | None = None
    asked_again: bool = False
    profile: Literal["adaptive"] = "adaptive"
    # The number of the epoch, from 1. A restart begins the next.
    epoch: int = 1
    # The round since which records are held out, and later rounds for single clients.
    held_since: int = 1
    renewed: dict[str, int] = field(default_factory=dict)
    # Clients that drifted and for which no model is better than those of all. They share no baselines with others.
    released: tuple[str, ...] = ()
    main: Ladder = field(default_factory=Ladder)  # the models of all
    # Earlier models: candidates at a restart.
    trail: Trail = field(default_factory=Trail)
    pool: RecallPool = field(default_factory=RecallPool)
    # The clients apart.
    latch: Latch | None = None
    branches: list[Branch] = field(default_factory=list)
    squared_norm: float = 1.0
    # The frozen model, if the detector tests one and it is frozen; the records that the epoch's models have learnt.
    scout: FloatArray | None = None
    learnt: int = 0

    @classmethod
    def of(cls, options: ProfileOptions) -> Self:
        """Return a new profile."""
        return cls(ladder_for(options.learner, options.step), options.detector())

    @property
    def promotions(self) -> int:
        """Return how often another model took over without an alarm."""
        return self.main.promotions

    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        """Begin round t: every model is scored, and clients apart train only their own."""
        if not self.main.rungs:
            self.main = Ladder(self.ladder)
            self.main.reset(scratch, scratch)
        self.squared_norm = squared_norm
        live = list(self.main.live(squared_norm))
        if self.latch is not None:
            live += self.latch.live(self._candidates_eta, whitened=self.ladder.whitened)
        for branch in self.branches:
            live += branch.ladder.live(squared_norm, branch.clients)
        if self.scout is not None:
            live.append(LiveModel(SCOUT, self.scout, 0.0, trained=False))
        held = self._holdout_rule(scratch.shape[1])
        tested = "" if self.scout is None else SCOUT
        return RoundPlan(tuple(live), self.main.serves, held=held, apart=self._apart(), tested=tested)

    def _holdout_rule(self, labels: int) -> HoldoutRule | None:
        """Return which records clients hold out, if the detector compares with such records."""
        if not self.detector.compares:
            return None
        return HoldoutRule(
            per_label=max(1, HELD_OUT // max(1, labels)), since=self.held_since, renewed=dict(self.renewed)
        )

    def close(self, observed: RoundEvidence) -> Alarm | None:
        """Run the detectors on the round, and step every model."""
        serving = self.main.serves
        for branch in self.branches:
            branch.close(observed, serving)
        alarm = self._watch(observed)
        mixed = self.class_mix.update(observed.round, observed.clients) if observed.known_labels else None
        self.noticed = mixed if alarm is None else None  # concept drift explains a changed mix
        if self.latch is None:
            self._watch_answers(observed)
            alarm = self.suspicion if alarm is None else alarm
        self.trail.keep(observed.round, self.main.incumbent)
        scratch = np.zeros_like(observed.models[serving].stepped)
        for branch in self.branches:
            branch.step(observed, scratch)
        if self.latch is not None:
            self.latch.close(observed, serving)
        self.main.step(observed.models, scratch, observed.records)
        self.learnt += observed.records
        return alarm

    def deliberate(self, alarm: Alarm, observed: RoundEvidence, scratch: FloatArray) -> Choice:
        """Look for the best candidate: scratch, live models, earlier models, and relabelled ones."""
        before = self.trail.before(alarm.since)
        fits = {"incumbent": self.trail.kept[0][1]}
        if before is not None and before is not fits["incumbent"]:
            fits["former"] = before
        live = [model.name for model in self.main.live(1.0)]
        return Choice(
            alarm,
            observed,
            live=(self.main.serves, *(name for name in live if name != self.main.serves)),
            candidates=candidates(
                Remembered(alarm, scratch, self.main.incumbent, self.trail, self.pool, self.branches)
            ),
            relabel=fits,
            eta=self._candidates_eta,
            whitened=self.ladder.whitened,
            clients=alarm.clients if alarm.local else None,
            earlier=self.pool.of_epoch(self.epoch),
            is_suspected=self.suspicion is not None,
        )

    def conclude(self, deliberation: Deliberation) -> Decision | None:
        """Begin an epoch with the chosen model, latch the clients that drifted alone, or follow the inputs.

        Nothing is decided if only online models are suspected, and untrained ones are no better.
        """
        if not isinstance(deliberation, Choice):
            raise BrokenInvariantError("a deliberation of another profile")
        if deliberation.alarm.local:
            return self._latch_clients(deliberation)
        if deliberation.is_unfounded:
            self._ask_again_once()
            return None
        if self.latch is None and not deliberation.begins_again and deliberation.is_explained_by_inputs:
            return self._continue_epoch(deliberation)
        return self._restart(deliberation)

    def advance(self, t: int) -> tuple[LocalDrift, ...]:
        """Promote better models, and return what changes for clients apart."""
        self._promote()
        if self.detector.scouts and self.scout is None and self.learnt >= LEARNT:
            self.scout = self.main.incumbent
            self.detector.reset()
        return (*self._end_latch(t), *self._announce_latched(t), *self._end_branches(t))

    def _promote(self) -> None:
        self.main.promote()
        for branch in self.branches:
            branch.ladder.promote()

    @property
    def past_rounds(self) -> tuple[int, ...]:
        """The rounds of which the model that served is kept, the youngest first."""
        return tuple(t for t, _ in self.trail.kept)

    def readings(self) -> Mapping[str, Reading]:
        """Return the last reading of each detector."""
        readings = {self.detector.kind: self.detector.reading, "class-mix": self.class_mix.reading}
        readings[ANSWERS] = self.answers.reading
        return {name: reading for name, reading in readings.items() if reading is not None}

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express every model: those of all, of branches and of trials, and earlier ones."""
        self.main.transform(change)
        self.trail.transform(change)
        self.pool.transform(change)
        for branch in self.branches:
            branch.transform(change)
        for trial in self.latch.trials.values() if self.latch else ():
            trial.W = change(trial.W)
        if self.scout is not None:
            known = self.scout.shape[1]
            self.scout = change(self.scout)
            self.scout[-1, known:] = NEVER

    # --- the detector ------------------------------------------------------------------------------------------

    def _watch(self, observed: RoundEvidence) -> Alarm | None:
        """Return the detector's alarm, unless it concerns clients that are latched, or like all others again."""
        groups = self._groups()
        alarm = self.detector.update(observed, groups)
        for branch in self.branches:
            branch.returned |= branch.has_returned(ODDS) and self.detector.are_as_before(branch.clients)
        if alarm is None and self.latch is None and self.detector.is_stale:
            self.held_since = observed.round + 1
            self.detector.reset()
        if alarm is None or alarm.cause == "new-label":
            return alarm
        if alarm.local and self._is_return(alarm.clients):
            return None
        if self.latch is None:
            return alarm
        if not self.detector.rest_is_quiet(observed, groups, self.latch.clients, GLOBAL):
            return Alarm(alarm.cause, alarm.statistic, alarm.threshold, alarm.since, alarm.clients, alarm.labels)
        self._latch_more(observed.clients)
        return None

    def _watch_answers(self, observed: RoundEvidence) -> None:
        """Test whether the loss of online models has risen."""
        if observed.online_loss is None:
            return
        alarm = self.answers.test(observed.round, observed.online_loss, VARIANCE / max(1, observed.records))
        if self.suspicion is None and alarm is not None:
            self.suspicion = replace(alarm, cause=ANSWERS)

    def _ask_again_once(self) -> None:
        """If online models are suspected, and untrained ones were no better, ask once more about the next round."""
        if self.asked_again:
            self._forget_answers()
        self.asked_again = self.suspicion is not None

    def _forget_answers(self) -> None:
        self.answers.reset()
        self.suspicion, self.asked_again = None, False

    def _is_return(self, clients: Collection[str]) -> bool:
        """Return whether all these clients are on branches whose clients are like all others again; mark these."""
        left = [b for b in self.branches if b.has_returned(ODDS) and not set(clients).isdisjoint(b.clients)]
        if not {client for branch in left for client in branch.clients}.issuperset(clients):
            return False
        for branch in left:
            branch.returned = True
        return True

    def _groups(self) -> dict[str, int]:
        """Return groups of clients that may share baselines: a branch is one, and so is each released client."""
        alone = {client: -i for i, client in enumerate(self.released, 1)}
        return alone | {client: i for i, branch in enumerate(self.branches, 1) for client in branch.clients}

    def _latch_more(self, clients: Collection[str]) -> None:
        """Latch further clients that the detector names by now."""
        if self.latch is not None:
            self._keep_apart(tuple(sorted({*self.latch.clients, *self.detector.surely_drifted(clients)})))

    def _renew(self, clients: Collection[str], t: int) -> None:
        """Renew the holdout of some clients after round t: they have drifted, or another model serves them."""
        self.renewed.update(dict.fromkeys(clients, t + 1))
        self.released = tuple(client for client in self.released if client not in clients)
        self.detector.forget(clients)

    # --- all clients -------------------------------------------------------------------------------------------

    @property
    def _candidates_eta(self) -> float:
        return self.ladder.eta(self.ladder.shadow_order, self.squared_norm)

    def _restart(self, choice: Choice) -> Restart:
        alarm, t = choice.alarm, choice.observed.round
        chosen = choice.best()
        self.epoch += 1
        goes_on = self._remember(choice, chosen, epoch=self.epoch - 1)
        serving = self.main.serves
        self.main.reset(choice.stepped[chosen], np.zeros_like(choice.stepped[chosen]))
        self.trail, self.branches, self.latch = Trail(), [], None
        self.class_mix.reset()
        self.detector.reset(filled=alarm.cause == "new-label")
        self._forget_answers()
        self.noticed = None
        self.scout, self.learnt = None, 0
        if self.detector.scouts and chosen != "scratch":
            self.scout = choice.stepped[chosen]
        if alarm.cause != "new-label":
            self.held_since, self.renewed, self.released = t + 1, {}, ()
        renames = () if goes_on else choice.renames
        permutation = choice.permutation if chosen == "relabelled" else renames
        begins_again = choice.begins_again and not permutation  # what they know with new names is better
        names = {serving: "incumbent"}  # people read of what served under this name
        scores = {names.get(name, name): score for name, score in choice.scores().items()}
        better = choice.better_at(serving)
        return Restart(t, self.epoch, alarm, names.get(chosen, chosen), permutation, scores, better, begins_again)

    def _remember(self, choice: Choice, chosen: str, *, epoch: int) -> bool:
        """Keep the model from before the alarm for a recall; return whether a model that learnt with it is chosen."""
        former = self.trail.before(choice.alarm.since)
        if former is not None:
            self.pool.add(former, epoch=epoch, chosen=chosen)
        goes_on = chosen in choice.live and chosen != self.main.shadow_name
        self.pool.choose(chosen, epoch=self.epoch, same=goes_on)
        return goes_on

    def _continue_epoch(self, choice: Choice) -> InputsMoved:
        """Go on in this epoch from the best model, and compare with records of the new inputs from now on."""
        alarm, t, chosen = choice.alarm, choice.observed.round, choice.best()
        self._remember(choice, chosen, epoch=self.epoch)
        W = choice.stepped[chosen]
        self.main.reset(W, np.zeros_like(W))
        self.held_since = t + 1
        self.detector.reset()
        self._ask_again_once()
        return InputsMoved(
            round=t,
            epoch=self.epoch,
            statistic=alarm.statistic,
            threshold=alarm.threshold,
            since=alarm.since,
            labels=alarm.labels,
            moved=choice.observed.moved,
            spread=choice.observed.spread,
            cause=alarm.cause,
        )

    # --- clients apart -----------------------------------------------------------------------------------------

    def _apart(self) -> tuple[BranchGroup, ...]:
        latched = () if self.latch is None else (BranchGroup(clients=self.latch.clients, serves=self.main.serves),)
        return (*latched, *(branch.group() for branch in self.branches))

    def _latch_clients(self, choice: Choice) -> LocalDrift:
        alarm, t = choice.alarm, choice.observed.round
        main = {"incumbent": choice.stepped[self.main.serves], "shadow": choice.stepped[self.main.shadow_name]}
        scored = {name: W for name, W in choice.stepped.items() if name not in choice.live}
        others = [branch for branch in self.branches if set(branch.clients).isdisjoint(alarm.clients)]
        joins = {f"join-{b.name}": Trial(b.served, joins=b.name) for b in others if b.served is not None}
        trials = joins | {name: Trial(W) for name, W in {**main, **scored}.items()}
        self.latch = Latch(alarm.clients, alarm, t + LATCHED, trials)
        self._keep_apart(alarm.clients)
        self._forget_answers()
        self._promote()
        self.latch.announced = self.latch.clients
        return self._local_drift(t, self.latch, "latched")

    def _announce_latched(self, t: int) -> tuple[LocalDrift, ...]:
        """Return the announcement of clients that were latched since the last one."""
        latch = self.latch
        if latch is None or latch.announced == latch.clients:
            return ()
        latch.announced = latch.clients
        return (self._local_drift(t, latch, "latched"),)

    def _keep_apart(self, clients: tuple[str, ...]) -> None:
        """Latch these clients; they leave their branches."""
        if self.latch is not None:
            self.latch.clients = clients
        for branch in self.branches:
            branch.clients = tuple(client for client in branch.clients if client not in clients)
        self.branches = [branch for branch in self.branches if branch.clients]

    def _end_latch(self, t: int) -> tuple[LocalDrift, ...]:
        """Once trials can be judged: clients get a branch from the best trial, join one, or are released."""
        latch = self.latch
        if latch is None or latch.is_open(t):
            return ()
        self.latch = None
        self._renew(latch.clients, t)
        best = latch.best()
        joins = latch.trials[best].joins if best else None
        joined = next((branch for branch in self.branches if branch.name == joins), None)
        if joined is not None:
            joined.clients = tuple(sorted({*joined.clients, *latch.clients}))
            return (self._decided(t, latch, "branched", best or ""),)
        ended = self._make_room(t) if best is not None else ()
        if best is None or len(self.branches) >= MOST_BRANCHES:
            self.released = tuple(sorted({*self.released, *latch.clients}))
            return (self._decided(t, latch, "released"),)
        self.branches.append(self._new_branch(latch, best, t))
        return (*ended, self._decided(t, latch, "branched", best))

    def _make_room(self, t: int) -> tuple[LocalDrift, ...]:
        """If there is no room for another branch, end the one that has been silent longest, if any is silent."""
        silent = [branch for branch in self.branches if branch.is_silent(t)]
        if not silent or len(self.branches) < MOST_BRANCHES:
            return ()
        return self._end_branch(max(silent, key=lambda branch: branch.silence(t)), t)

    def _new_branch(self, latch: Latch, best: str, t: int) -> Branch:
        W = latch.trials[best].W
        branch = Branch(latch.clients, latch.evidence, Ladder(self.ladder), began=t + 1)
        branch.ladder.prefix = f"{branch.name}/"
        branch.ladder.reset(W, np.zeros_like(W))
        return branch

    def _end_branches(self, t: int) -> tuple[LocalDrift, ...]:
        over = [branch for branch in self.branches if branch.has_returned() or branch.is_over(t)]
        return tuple(announcement for branch in over for announcement in self._end_branch(branch, t))

    def _end_branch(self, branch: Branch, t: int) -> tuple[LocalDrift, ...]:
        """Let the model of all serve the clients of a branch again."""
        self.branches = [other for other in self.branches if other is not branch]
        self._renew(branch.clients, t)
        if branch.has_returned():
            return (self._local_drift(t, branch, "returned"),)
        # Their branch is no better, or they are silent. Neither shows that they are like all others.
        self.released = tuple(sorted({*self.released, *branch.clients}))
        return (self._local_drift(t, branch, "merged"),)

    def _decided(self, t: int, latch: Latch, state: LocalState, chosen: str = "") -> LocalDrift:
        """Return the announcement of what became of latched clients, with what each trial gained."""
        return replace(self._local_drift(t, latch, state), chosen=chosen, gains=latch.gained())

    def _local_drift(self, t: int, group: Latch | Branch, state: LocalState) -> LocalDrift:
        evidence = group.evidence
        return LocalDrift(
            round=t,
            epoch=self.epoch,
            clients=group.clients,
            labels=evidence.labels,
            since=evidence.since,
            state=state,
            statistic=evidence.statistic,
            threshold=evidence.threshold,
        )
