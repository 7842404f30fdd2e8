"""The coordinator machine: opens rounds, adds updates up, lets the profile decide, closes rounds in the ledger.

Theory of operation. Everything that must survive is in `Standing`, and what it says changes only together with a
Commit: a ledger entry, or a change of membership. What a round has collected so far is not saved: after a kill the
round is opened again from the last Commit, clients send again what they sent, and the step is repeated. After an
alarm with candidates that nobody has scored yet, the round waits in a second phase for Scores; membership changes
wait too, so that no Commit falls between the profile's alarm and its restart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from streamfl.core.admission import refusal, wrong_introduction, wrong_scores
from streamfl.core.aggregate import Aggregation, served_in_all
from streamfl.core.agreement import Agreement, middle_unit
from streamfl.core.alarm import Reading
from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.decisions import Commit, CoordinatorDecision, Finished, Publish, Refused
from streamfl.core.errors import BrokenInvariantError, PeerError
from streamfl.core.events import CoordinatorEvent, Tick, Unusable
from streamfl.core.fingerprint import fingerprint
from streamfl.core.guest.admission import wrong_guest
from streamfl.core.guest.agreed import GuestLearnt, GuestState
from streamfl.core.ledger import Member
from streamfl.core.local_round import Learner
from streamfl.core.master import Deliberation, LiveModel, Local, Observed, Restart
from streamfl.core.messages import (
    Accepted,
    FromCoordinator,
    Join,
    Leave,
    Left,
    ModelPublished,
    RoundClosed,
    RoundOpened,
    Score,
    Scores,
    Update,
)
from streamfl.core.news import News, news
from streamfl.core.online.admission import wrong_learning
from streamfl.core.online.agreed_round import after_round
from streamfl.core.online.models import OnlineModels
from streamfl.core.open_round import Between, OpenRound, between, published, slot
from streamfl.core.registry import Registry, TargetUnit, re_expression
from streamfl.core.standing import Standing


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """How the coordinator works.

    Parameters
    ----------
    learner
        How to learn; the same in the whole federation.
    expect
        Clients that must have joined before round 1 opens.
    quorum
        Updates that close a round; None waits for every member.
    deadline
        Seconds after the opening (or after clients close their buffers) at which a round closes with what there
        is; None waits for the quorum.
    expire_after
        Rounds closed without it after which a member is no longer waited for, until it is heard of again; None waits
        for ever. It matters only where a deadline or a quorum closes rounds without all.
    interval
        Seconds a round lasts with the `interval` clock; None is the `records` clock.
    task
        `classification` or `regression`.
    scaling
        Whether features are standardised.
    warm_up
        Rounds after which the scaler freezes, and for which it follows features that have moved after a restart; None
        never freezes.
    """

    learner: Learner
    expect: int
    quorum: int | None = None
    deadline: float | None = None
    expire_after: int | None = None
    interval: float | None = None
    task: Literal["classification", "regression"] = "classification"
    scaling: bool = True
    warm_up: int | None = 8


@dataclass(frozen=True)
class Undecided:
    """A round whose alarm waits for candidates to be scored."""

    deliberation: Deliberation
    observed: Observed
    aggregation: Aggregation
    asked: Score
    models: tuple[ModelPublished, ...]
    live: tuple[LiveModel, ...]
    since: float

    def is_answered_by(self, scores: Scores) -> bool:
        """Tell whether scores are of the newest question."""
        return (scores.entry, scores.stage) == (self.asked.entry, self.asked.stage)


@dataclass
class Coordinator:
    """The coordinator of a federation.

    Parameters
    ----------
    settings
        How it works.
    standing
        Where it stands: a new one, or the one of the last Commit.

    Examples
    --------
    >>> from streamfl.core.algorithms import FedAvg
    >>> from streamfl.core.moments import Moments
    >>> from streamfl.core.promotion import Promotion
    >>> from streamfl.models import Softmax
    >>> settings = CoordinatorSettings(Learner(Softmax(), FedAvg()), expect=1)
    >>> coordinator = Coordinator(settings, Standing(Promotion()))
    >>> moments = Moments.of(("x",), np.array([[1.0], [2.0], [6.0]]))
    >>> join = Join(client="c0", incarnation="1", moments=moments, labels=("a",), records=3)
    >>> (begun,) = coordinator.handle(join, now=0.0)
    >>> [type(message).__name__ for message in begun.messages][:3], begun.messages[-1].round
    (['Joined', 'RegistryPublished', 'ModelPublished'], 1)
    """

    settings: CoordinatorSettings
    standing: Standing
    _open: OpenRound | None = None
    _updates: list[Update] = field(default_factory=list)
    _undecided: Undecided | None = None
    _scores: dict[str, Scores] = field(default_factory=dict)
    _introductions: dict[str, Join] = field(default_factory=dict)
    _deferred: dict[str, Join | Leave] = field(default_factory=dict)
    _refused: int = 0
    _readings: dict[str, Reading] = field(default_factory=dict)

    def start(self, now: float) -> list[CoordinatorDecision]:
        """Begin, or after a kill open the round of the last Commit again."""
        if self.standing.agreement is None:
            return []
        self._keep_guest()
        self._open_round(now)
        told = self._round_messages()
        resumed = tuple(replace(m, resumed=True) if isinstance(m, RoundOpened) else m for m in told)
        return [Publish(resumed), *self._finished()]

    @property
    def wakes_at(self) -> float | None:
        """Return when it wants a Tick: the deadline of what it waits for."""
        if self._open is None:
            return None
        if self._undecided is not None:
            return None if self.settings.deadline is None else self._undecided.since + self.settings.deadline
        closes = self._open.told.closes
        if self.settings.deadline is None:
            return None
        return (self._open.since if closes is None else closes) + self.settings.deadline

    def handle(self, event: CoordinatorEvent, now: float) -> list[CoordinatorDecision]:
        """Take one event and return what is to be done, in order.

        Parameters
        ----------
        event
            A client's message, or the time.
        now
            The time, in seconds.

        Returns
        -------
        At most one Commit or Publish, first, with all that is to be told: an event is one transaction.
        """
        return _in_one_transaction(self._take(event, now))

    def _take(self, event: CoordinatorEvent, now: float) -> list[CoordinatorDecision]:
        match event:
            case Join():
                return self._join(event, now)
            case Leave():
                return self._leave(event, now)
            case Update():
                return self._update(event, now)
            case Scores():
                return self._take_scores(event, now)
            case Unusable(client, reason):
                return self._refuse(client, reason)
            case Tick():
                return self._due(now)

    # --- membership --------------------------------------------------------------------------------------------

    def _join(self, join: Join, now: float) -> list[CoordinatorDecision]:
        wrong = wrong_introduction(join)
        if wrong is not None:
            return self._refuse(join.client, wrong)
        if self.standing.agreement is None:
            self._introductions[join.client] = join
            return self._begin(now) if len(self._introductions) >= self.settings.expect else []
        member = self.standing.members.get(join.client)
        if member is not None and join.incarnation < member.incarnation:
            return self._refuse(join.client, "an older incarnation")
        if member is not None and member.left and join.incarnation == member.incarnation:
            # It left, and did not hear the answer.
            return [Publish((Left(client=join.client, incarnation=join.incarnation),))]
        if member is not None and not member.left:
            # Not committed, so that it is answered while candidates are scored too. If a kill takes it back, a late
            # Join of an older incarnation may be answered, which nobody hears.
            member.incarnation, member.missed = join.incarnation, 0
            return [Publish((self.standing.joined(join.client), *self._round_messages()))]
        if self._undecided is not None:
            self._deferred[join.client] = join
            return []
        member = self.standing.members.setdefault(join.client, Member(join.incarnation))
        member.left, member.missed, member.incarnation = False, 0, join.incarnation
        return [Commit((self.standing.joined(join.client), *self._round_messages()))]

    def _leave(self, leave: Leave, now: float) -> list[CoordinatorDecision]:
        self._introductions.pop(leave.client, None)
        member = self.standing.members.get(leave.client)
        left = Left(client=leave.client, incarnation=leave.incarnation)
        if member is None or member.left:
            return [Publish((left,))]
        if leave.incarnation < member.incarnation:
            return self._refuse(leave.client, "an older incarnation")
        if self._undecided is not None:
            self._deferred[leave.client] = leave  # the last one that a client sends counts
            return []
        # Its Join may have been forgotten with a kill; a late copy of it must not bring it back.
        member.left, member.incarnation = True, leave.incarnation
        return [Commit((left,)), *self._finished(), *self._close_if_complete(now)]

    def _finished(self) -> list[CoordinatorDecision]:
        return [] if self.standing.active() else [Finished()]

    def _begin(self, now: float) -> list[CoordinatorDecision]:
        """Open round 1: the first records of all clients tell features, labels and scale."""
        joins = [self._introductions[name] for name in sorted(self._introductions)]
        standing = self.standing
        standing.agreement = Agreement.of(joins, scaling=self.settings.scaling)
        standing.members = {join.client: Member(join.incarnation) for join in joins}
        standing.known_labels = len(standing.registry.labels)
        online = self.settings.learner.online
        standing.online = None if online is None else OnlineModels.none(online)
        standing.guest = self._fresh_guest()
        self._introductions = {}
        self._open_round(now)
        answers = tuple(self.standing.joined(join.client) for join in joins)
        return [Commit((*answers, *self._round_messages()))]

    # --- opening a round ---------------------------------------------------------------------------------------

    def _open_round(self, now: float) -> None:
        """Ask the profile for the round's live models; the same answer however often it is asked."""
        standing = self.standing
        opening = standing.master.open(standing.round, self._scratch(), standing.agreed.squared_norm)
        for name, member in standing.members.items():
            member.retain(opening.sampled, held_since=opening.held.since_at(name) if opening.held else None)
        self._updates = []
        self._refused = 0
        self._readings = {}
        self._open = OpenRound.of(
            standing,
            opening,
            now=now,
            interval=self.settings.interval,
            moments=self._is_warming_up() or bool(standing.registry.unscaled),
        )

    def _round_messages(self) -> tuple[FromCoordinator, ...]:
        """Return everything a client needs that knows nothing of the open round."""
        if self._open is None:
            return ()
        undecided = self._undecided
        scoring: tuple[FromCoordinator, ...] = () if undecided is None else (*undecided.models, undecided.asked)
        return (*self._open.whole(self.standing), *scoring)

    def _scratch(self) -> FloatArray:
        columns = self.settings.learner.model.columns(len(self.standing.registry.labels))
        return np.zeros((self.standing.registry.rows, columns))

    def _is_warming_up(self) -> bool:
        warm_up, rounds = self.settings.warm_up, self.standing.round - self.standing.rescaled
        if not self.settings.scaling:
            return False
        return warm_up is None or rounds <= warm_up or (self.standing.agreed.knows_little and warm_up > 0)

    # --- collecting updates ------------------------------------------------------------------------------------

    def _update(self, update: Update, now: float) -> list[CoordinatorDecision]:
        if self._open is None or self._undecided is not None:
            return self._refuse(update.client, "no round is open")
        reason = refusal(
            update,
            member=self.standing.members.get(update.client),
            opened=self._open.told,
            already=self._updates,
            registry=self.standing.registry,
            columns=self._columns(update),
            members=len(self.standing.members),
        ) or (self._wrong_learning(update) or self._wrong_guest(update))
        if reason is not None:
            return self._refuse(update.client, reason)
        self._updates.append(update)
        return self._close_if_complete(now)

    def _wrong_learning(self, update: Update) -> str | None:
        agreed, learnt = self.standing.online, update.online
        if agreed is None or learnt is None:
            return None if agreed is None and learnt is None else "models between rounds that not all have"
        labels, members = (*self.standing.registry.labels, *update.new_labels), len(self.standing.members)
        return wrong_learning(learnt, agreed, records=update.records, members=members, labels=labels)

    def _wrong_guest(self, update: Update) -> str | None:
        agreed, learnt, guest = self.standing.guest, update.guest, self.settings.learner.guest
        if agreed is None or learnt is None or guest is None:
            return None if agreed is None and learnt is None else "a guest that not all have"
        return wrong_guest(learnt, agreed, guest, records=update.records)

    def _refuse(self, client: str, reason: str) -> list[CoordinatorDecision]:
        self._refused += 1
        return [Refused(client, reason)]

    def _columns(self, update: Update) -> int:
        return self.settings.learner.model.columns(len(self.standing.registry.labels) + len(update.new_labels))

    def _close_if_complete(self, now: float) -> list[CoordinatorDecision]:
        quorum = self.settings.quorum
        complete = not self.waited_for or (quorum is not None and len(self._updates) >= quorum)
        return self._close(now) if complete and self._updates and self._undecided is None else []

    @property
    def introduced(self) -> int:
        """Count the clients that wait for the federation to begin."""
        return len(self._introductions)

    @property
    def present(self) -> set[str]:
        """Return the members that have neither left nor expired."""
        limit = self.settings.expire_after
        missed = {name: member.missed for name, member in self.standing.members.items()}
        return {name for name in self.standing.active() if limit is None or missed[name] < limit}

    @property
    def is_choosing(self) -> bool:
        """Tell whether the open round has had its updates, and an alarm waits for scores."""
        return self._undecided is not None

    @property
    def waited_for(self) -> set[str]:
        """Return whose updates the open round lacks of those present, or, after an alarm, whose scores."""
        updated = {update.client for update in self._updates}
        return updated - self._scores.keys() if self.is_choosing else self.present - updated

    def _due(self, now: float) -> list[CoordinatorDecision]:
        """Close at the deadline with what there is; with nothing the round goes on."""
        if self.wakes_at is None or now < self.wakes_at or self._open is None:
            return []
        if self._undecided is not None:
            return self._settle(now)
        if self._updates:
            return self._close(now)
        self._open = replace(self._open, since=now)
        return []

    # --- closing a round ---------------------------------------------------------------------------------------

    def _close(self, now: float) -> list[CoordinatorDecision]:
        """Add the updates up and let the profile look at them."""
        self._updates.sort(key=lambda update: update.client)
        if not any(update.records for update in self._updates):
            return self._conclude(None, (), now)
        standing, opened = self.standing, self._opened
        aggregation = Aggregation.of(self.settings.learner, standing.agreed, self._updates, opened.apart)
        known = standing.registry.labels[: standing.known_labels]
        observed = aggregation.observed(self._updates, opened.opening.live, t=standing.round, known_labels=known)
        alarm = standing.master.close(observed)
        self._readings = dict(standing.master.readings())
        if alarm is None:
            return self._conclude(observed, standing.master.advance(standing.round), now)
        deliberation = standing.master.deliberate(alarm, observed, self._scratch())
        return self._deliberate(deliberation, observed, aggregation, 1, now)

    def _deliberate(
        self, deliberation: Deliberation, observed: Observed, aggregation: Aggregation, stage: int, now: float
    ) -> list[CoordinatorDecision]:
        """Have scored what must be scored next; when that is nothing, conclude."""
        standing, ask = self.standing, deliberation.ask()
        if ask is None:
            return self._decide(deliberation, observed, now)
        asked = Score(
            entry=standing.entry,
            round=standing.round,
            epoch=standing.master.epoch,
            registry=standing.registry.version,
            slots=tuple(slot(model, standing) for model in ask.models),
            stage=stage,
            relabel=ask.relabel,
        )
        models = published(ask.models, standing)
        self._undecided = Undecided(deliberation, observed, aggregation, asked, models, ask.models, now)
        self._scores = {}
        return [Publish((*models, asked))]

    def _take_scores(self, scores: Scores, now: float) -> list[CoordinatorDecision]:
        undecided = self._undecided
        update = next((u for u in self._updates if u.client == scores.client), None)
        if undecided is None or update is None or not undecided.is_answered_by(scores):
            return self._refuse(scores.client, "no scores are asked for")
        wrong = wrong_scores(
            scores,
            update,
            asked=undecided.asked,
            opened=self._opened.told,
            rows=self.standing.registry.rows,
            columns=self._columns(update),
            fitted=self.settings.learner.model.log_likelihoods(undecided.live[0].W[:1]).shape[1],
            members=len(self.standing.members),
        )
        if wrong is not None:
            return self._refuse(scores.client, wrong)
        self._scores[scores.client] = scores
        return self._settle(now) if len(self._scores) == len(self._updates) else []

    def _settle(self, now: float) -> list[CoordinatorDecision]:
        """Hand over what was scored; those silent by now are left out."""
        undecided = self._undecided
        if undecided is None:
            raise BrokenInvariantError("a round is to be settled that had no alarm")
        heard = [(u, self._scores[u.client]) for u in self._updates if u.client in self._scores]
        undecided.deliberation.answer(undecided.aggregation.answer(heard, undecided.live))
        stage = undecided.asked.stage + 1
        return self._deliberate(undecided.deliberation, undecided.observed, undecided.aggregation, stage, now)

    def _decide(self, deliberation: Deliberation, observed: Observed, now: float) -> list[CoordinatorDecision]:
        """Let the profile draw its conclusion, and close the round."""
        self._undecided = None
        return self._conclude(observed, (self.standing.master.conclude(deliberation),), now)

    def _conclude(
        self, observed: Observed | None, decided: Sequence[Restart | Local], now: float
    ) -> list[CoordinatorDecision]:
        """Enter the round into the ledger and open the next, in one transaction; `observed` is None of no records."""
        standing, opened = self.standing, self._opened
        closed = self._entry(opened.told, observed)
        for name in standing.active() - {update.client for update in self._updates}:
            standing.members[name].missed += 1
        told: tuple[News, ...] = ()
        learnt: tuple[Between, ...] = ()  # told once: of a round that is opened again clients have them
        if observed is not None:
            told = news(closed, standing.master.noticed, decided)
            restart = next((said for said in decided if isinstance(said, Restart)), None)
            self._change_registry(restarted=restart is not None)
            cells = self._learn_between(opened.apart, restart)
            standing.round += 1
            learnt = between(standing, cells)
        standing.entry += 1
        self._open_round(now)
        closed = replace(closed, model=self.digest(), promotions=standing.master.promotions)
        following = self._opened.following(standing, since=opened.told.registry, learnt=learnt)
        return [Commit((closed, *told, *following)), *self._catch_up(now)]

    def _learn_between(self, apart: frozenset[str], restart: Restart | None) -> IntArray | None:
        """Take over what clients learnt between rounds; return the rows of the table that changed, None for all."""
        standing, settings = self.standing, self.settings.learner.online
        standing.guest = self._guest_after(apart, restart)
        if standing.online is None or settings is None:
            return None
        standing.online, cells = after_round(
            standing.online,
            {update.client: update.online for update in self._updates if update.online is not None},
            standing.registry.labels,
            settings,
            apart=apart,
            renamed=None if restart is None else restart.permutation,
        )
        return cells

    def _guest_after(self, apart: frozenset[str], restart: Restart | None) -> GuestState | None:
        """Return what the guests of those not apart have learnt; a fresh one where an epoch begins anew."""
        before = self.standing.guest
        if before is None or (restart is not None and restart.chosen != "incumbent"):
            return self._fresh_guest()
        learnt = [said for client, said in self._guests() if client not in apart]
        return before.after(learnt, self.standing.registry.labels)

    def _guests(self) -> list[tuple[str, GuestLearnt]]:
        return [(update.client, update.guest) for update in self._updates if update.guest is not None]

    def _keep_guest(self) -> None:
        """Let go of the state of another model than is federated now; a fresh one begins with the next round."""
        guest, kept = self.settings.learner.guest, self.standing.guest
        if kept is not None and (guest is None or guest.refusal(kept.state) is not None):
            self.standing.guest = None

    def _fresh_guest(self) -> GuestState | None:
        guest = self.settings.learner.guest
        return None if guest is None else GuestState(guest.initial(), self.standing.registry.labels)

    @property
    def _opened(self) -> OpenRound:
        if self._open is None:
            raise BrokenInvariantError("there is something to do in the open round, but none is open")
        return self._open

    def _entry(self, opened: RoundOpened, observed: Observed | None) -> RoundClosed:
        """Return the ledger entry of the open round, still without what the next one will be."""
        updates = self._updates
        records = sum(update.records for update in updates)
        return RoundClosed(
            entry=opened.entry,
            round=opened.round,
            epoch=opened.epoch,
            block=opened.block,
            accepted=tuple(self._accept(update, records) for update in updates),
            records=records,
            trained=sum(update.trained for update in updates),
            rejected=sum(update.rejected for update in updates),
            losses={} if observed is None else {name: played.loss for name, played in observed.played.items()},
            serves=opened.serves,
            readings=self._readings,
            served=served_in_all(updates),
            model="",
            registry=opened.registry,
            refused=self._refused,
            unlearnt=sum(said.unlearnt for _, said in self._guests()),
        )

    def _accept(self, update: Update, records: int) -> Accepted:
        share = update.records / records if records else 0.0
        return self.standing.members[update.client].accept(update, share)

    def _catch_up(self, now: float) -> list[CoordinatorDecision]:
        """Handle the membership changes that waited."""
        waiting, self._deferred = self._deferred, {}
        return [decision for client in sorted(waiting) for decision in self._take(waiting[client], now)]

    def digest(self) -> str:
        """Return the fingerprint of the model that serves."""
        return fingerprint(*self.serving(), chain=self.standing.chain)

    def serving(self) -> tuple[Registry, FloatArray]:
        """Return the registry and the weights of the model that serves.

        Raises
        ------
        PeerError
            No round has been opened.
        """
        registry = self.standing.registry
        if self._open is None:
            raise PeerError("no round has been opened")
        opening = self._open.opening
        return registry, next(live.W for live in opening.live if live.name == opening.serves)

    # --- the registry ------------------------------------------------------------------------------------------

    def _change_registry(self, *, restarted: bool) -> None:
        """Let the agreement follow the round's records, and re-express every kept model."""
        standing, before = self.standing, self.standing.agreed
        frozen = not self._is_warming_up()
        unit = self._unit_after(restarted=restarted)
        after = before.after(self._updates, t=standing.round, frozen=frozen, unit=unit)
        if after.registry is not before.registry:
            columns = self.settings.learner.model.columns(len(after.registry.labels))
            standing.master.transform(re_expression(before.registry, after.registry, columns))
        standing.agreement = after
        if restarted:
            standing.known_labels, standing.restarted = len(after.registry.labels), standing.round
        if restarted and (frozen or after.settled):  # before it has frozen for the first time it goes on as it was
            standing.agreement, standing.rescaled = after.restarted(), standing.round

    def _unit_after(self, *, restarted: bool) -> TargetUnit | None:
        """Return the unit of targets from now on; None if it stays."""
        if self.settings.task != "regression":
            return None
        unit = middle_unit(self._updates)
        return unit if restarted or self.standing.registry.target.gives_way_to(unit) else None


def _in_one_transaction(decisions: list[CoordinatorDecision]) -> list[CoordinatorDecision]:
    """Return the decisions with everything that is told joined into the first.

    The standing is saved as it is when a Commit is carried out, after all of the event; were it two transactions, a
    kill between them would lose messages that the standing says were told.
    """
    telling = [decision for decision in decisions if isinstance(decision, Commit | Publish)]
    if len(telling) < 2:
        return decisions
    told = tuple(message for decision in telling for message in decision.messages)
    saved = any(isinstance(decision, Commit) for decision in telling)
    others = [decision for decision in decisions if not isinstance(decision, Commit | Publish)]
    return [Commit(told) if saved else Publish(told), *others]
