"""Rounds: how one is opened, closed with its updates, and entered into the ledger.

A round closes as a chain: granted -> counted -> observed -> decided -> concluded -> opened. Each step takes the
`Closing` of the step before. Nothing here catches exceptions: `recovery` undoes a step that raises, and finds the
update that caused it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.errors import BrokenInvariantError, PeerError
from streamfl.learning.drift.evidence import Observed
from streamfl.learning.profiles.base import Answer, Deliberation
from streamfl.machines.coordinator.close.agreed import is_warming_up
from streamfl.machines.coordinator.close.concluded import Decided, concluded
from streamfl.machines.coordinator.close.observed import observed
from streamfl.machines.coordinator.names import Grant
from streamfl.machines.coordinator.round.clocks import RoundClock, clock_of
from streamfl.machines.coordinator.round.closing import Closing, Counted
from streamfl.machines.coordinator.round.open_round import OpenRound, published, slot
from streamfl.machines.coordinator.round.unsaved import Enquiry, PendingAlarm, Unsaved
from streamfl.machines.coordinator.round_kinds.base import NoTotal, RoundKind
from streamfl.machines.coordinator.round_kinds.chosen import round_kind
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.decisions import Commit, CoordinatorDecision, Finished, Publish, Refused
from streamfl.protocol.fingerprint import fingerprint
from streamfl.protocol.messages import (
    FromCoordinator,
    Join,
    OnlinePublished,
    Score,
)
from streamfl.protocol.registry import Registry


@dataclass
class Rounds:
    """The rounds of a federation, one after another.

    Parameters
    ----------
    settings
        How the coordinator works.
    state
        The state that every Commit saves.
    unsaved
        What no Commit saves.
    """

    settings: CoordinatorSettings
    state: CoordinatorState
    unsaved: Unsaved = field(default_factory=Unsaved)
    kind: RoundKind = field(init=False)
    clock: RoundClock = field(init=False)

    def __post_init__(self) -> None:
        self.kind, self.clock = round_kind(self.settings), clock_of(self.settings)

    # --- opening ---------------------------------------------------------------------------------------------------

    def begin(self, joins: Sequence[Join], now: float) -> list[CoordinatorDecision]:
        """Open round 1: the Joins of all clients determine features, labels and scale."""
        state, settings = self.state, self.settings
        state.agreement = Agreement.of(
            joins, scaling=settings.scaling, limits=settings.limits, fewest=self.kind.named_by
        )
        state.members = {join.client: replace(Member().held_by(join.nonce), key=join.key) for join in joins}
        state.known_labels = len(state.registry.labels)
        state.period = self.clock.next_period(None, [join.period for join in joins])
        online = settings.learner.online
        state.online = None if online is None else online.initial(state.registry.labels)
        self.unsaved.introductions = {}
        self.open(now)
        answers = tuple(state.joined(join, state.members[join.client]) for join in joins)
        return [Commit((*answers, *self.messages(now)))]

    def open(self, now: float) -> None:
        """Ask the profile for the round plan; it gives the same answer however often it is asked.

        Raises
        ------
        PeerError
            The state's models do not fit its registry: the saved state is damaged.
        """
        state, untrained = self.state, self.untrained()
        plan = state.profile.open(state.round, untrained, state.agreed.squared_norm)
        if any(live.W.shape != untrained.shape for live in plan.live):
            raise PeerError("the state holds models that do not fit its registry: it is damaged")
        for name, member in state.members.items():
            member.retain(plan.sampled, held_since=plan.held.since_at(name) if plan.held else None)
        state.roster = self.kind.roster(state)
        state.repeats = self.kind.repeats(state)
        opened = OpenRound.of(
            state,
            plan,
            now=now,
            interval=self.clock.seconds,
            moments=is_warming_up(state, self.settings) or bool(state.registry.unscaled),
            pooled=self.kind.sends_sums,
            noisy=self.settings.noise is not None,
            on_grids=self.kind.on_grids,
        )
        self.unsaved.collect_for(opened)

    def messages(self, now: float) -> tuple[FromCoordinator, ...]:
        """Return all messages that a new client needs for the open round."""
        if self.unsaved.open is None:
            return ()
        pending_alarm = self.unsaved.pending_alarm
        scoring: tuple[FromCoordinator, ...] = (
            () if pending_alarm is None else (*pending_alarm.models, pending_alarm.asked)
        )
        enquiry = () if self.unsaved.enquiry is None else (self.unsaved.enquiry.asked,)
        return (*self.unsaved.open.all_messages(self.state, self._online_published(), now), *scoring, *enquiry)

    def untrained(self) -> FloatArray:
        """Return the weights of a model that has learnt nothing, shape (d + 1, columns)."""
        columns = self.settings.learner.model.columns(len(self.state.registry.labels))
        return np.zeros((self.state.registry.rows, columns))

    # --- closing ---------------------------------------------------------------------------------------------------

    def close(self, now: float) -> list[CoordinatorDecision]:
        """Close the round with the updates that have come; some kinds ask clients first, and are called again."""
        enquiry, self.unsaved.enquiry = self.unsaved.enquiry, None
        if enquiry is not None and enquiry.closing is not None:
            closing = enquiry.closing
            return self._counted(closing, self.kind.count_after(enquiry, closing, self.state), now)
        closing = self._closing()
        self.unsaved.waiting = closing.grant.waiting
        if not closing.senders:
            return self._conclude(closing, (), now)
        return self._counted(closing, self.kind.count(closing, self.state), now)

    def _counted(
        self, closing: Closing, counted: Counted | Enquiry | NoTotal, now: float
    ) -> list[CoordinatorDecision]:
        """Go on with what counts of the updates, ask clients first, or close the entry without learning."""
        match counted:
            case Counted():
                return self._decide(replace(closing, counted=counted), now)
            case Enquiry(asked=asked, closing=asked_about):
                self.unsaved.enquiry = replace(counted, since=now)
                if asked_about is not None:
                    self.unsaved.updates = dict(asked_about.updates)
                return [Commit((asked,))]
            case NoTotal():
                return self.abort(now, counted)

    def _closing(self) -> Closing:
        """Return the round as it closes: its updates, and which of their names are granted."""
        state, unsaved, settings = self.state, self.unsaved, self.settings
        updates = {client: unsaved.updates[client] for client in sorted(unsaved.updates)}
        spent = {name: state.members[name].spent for name in state.active() | updates.keys()}
        grant = Grant.of(
            list(updates.values()),
            state.registry,
            settings.limits,
            spent=spent,
            t=state.round,
            fewest=self.kind.named_by,
        )
        return Closing(unsaved.opened, updates, grant)

    def _decide(self, closing: Closing, now: float) -> list[CoordinatorDecision]:
        """Pass what the round has shown to the profile."""
        profile, seen, aggregation = self.state.profile, *observed(closing, self.state, self.settings)
        alarm = self.ordered(profile.close(seen), seen)
        closing = replace(closing, observed=seen, aggregation=aggregation, readings=dict(profile.readings()))
        if alarm is None:
            return self._conclude(closing, profile.advance(self.state.round), now)
        return self._deliberate(closing, profile.deliberate(alarm, seen, self.untrained()), (), now)

    def ordered(self, alarm: Alarm | None, observed: Observed) -> Alarm | None:
        """Return the alarm; if an operator has ordered a restart, one that asks for the wanted model."""
        wanted = self.state.restart
        if wanted is None:
            return alarm
        found = alarm or Alarm("operator", 0.0, 0.0, observed.round)
        return replace(found, local=False, clients=() if found.local else found.clients, wanted=wanted)

    def abort(self, now: float, why: NoTotal | None = None) -> list[CoordinatorDecision]:
        """Close the entry without learning anything: its records stay pending, and the round is opened again.

        Parameters
        ----------
        now
            The time, in seconds.
        why
            Why no total can be told; None: for another reason.
        """
        unsaved, updates, why = self.unsaved, self.unsaved.updates, why or NoTotal()
        unsaved.enquiry, unsaved.pending_alarm = None, None
        closing = Closing(
            unsaved.opened,
            {name: updates[name] for name in sorted(updates) if not updates[name].records},
            Grant(self.state.registry, frozenset(), frozenset()),
            excluded=frozenset(name for name, update in updates.items() if update.records) - why.silent,
        )
        if why.periods is not None:
            self.state.period = self.clock.next_period(self.state.period, why.periods)
        for refusal in why.left_out:
            unsaved.refusals.announce_instead(refusal)
        left_out = [Refused(refusal.client, refusal.reason) for refusal in why.left_out]
        return [*left_out, *self._conclude(closing, (), now)]

    # --- an alarm --------------------------------------------------------------------------------------------------

    def _deliberate(
        self, closing: Closing, deliberation: Deliberation, answers: tuple[Answer, ...], now: float
    ) -> list[CoordinatorDecision]:
        """Publish the next candidates to be scored; if there are none, let the profile conclude."""
        state, ask = self.state, deliberation.ask()
        if ask is None:
            self.unsaved.pending_alarm = None
            return self._conclude(closing, (state.profile.conclude(deliberation),), now)
        asked = Score(
            entry=state.entry,
            round=state.round,
            epoch=state.profile.epoch,
            registry=state.registry.version,
            slots=tuple(slot(model, state) for model in ask.models),
            stage=len(answers) + 1,
            relabel=ask.relabel,
        )
        models = published(ask.models, state, on_grids=self.kind.on_grids)
        self.unsaved.pending_alarm = PendingAlarm(closing, deliberation, asked, models, ask.models, now, answers)
        self.unsaved.scores = {}
        return [Publish((*models, asked))]

    def settle(self, now: float) -> list[CoordinatorDecision]:
        """Pass the scores to the profile; clients that have sent none are left out, and some kinds ask first."""
        unsaved, alarm = self.unsaved, self._pending_alarm
        aggregation = alarm.closing.aggregation
        if aggregation is None:
            raise BrokenInvariantError("an alarm in a round of which nothing was observed")
        enquiry, unsaved.enquiry = unsaved.enquiry, None
        scored = self.kind.scored(alarm, unsaved.scores, enquiry, self.state.registry)
        if isinstance(scored, Enquiry):
            unsaved.enquiry = replace(scored, since=now)
            return [Publish((scored.asked,))]
        answer = aggregation.answer(scored, alarm.live)
        alarm.deliberation.answer(answer)
        return self._deliberate(alarm.closing, alarm.deliberation, (*alarm.answers, answer), now)

    @property
    def _pending_alarm(self) -> PendingAlarm:
        if self.unsaved.pending_alarm is None:
            raise BrokenInvariantError("a round without an alarm is to be settled")
        return self.unsaved.pending_alarm

    def close_without_scores(self, now: float) -> list[CoordinatorDecision]:
        """Close the round, without any scores after an alarm."""
        decisions = self.close(now)
        while self.unsaved.pending_alarm is not None:
            self.unsaved.scores = {}
            decisions = self.settle(now)
        return decisions

    # --- the entry -------------------------------------------------------------------------------------------------

    def _conclude(self, closing: Closing, decided: Decided, now: float) -> list[CoordinatorDecision]:
        """Enter the round into the ledger and open the next, in one transaction."""
        unsaved, before = self.unsaved, closing.opened
        made = concluded(closing, self.kind.named(decided), self.state, unsaved.refusals, self.settings, unsaved.logs)
        if made.agreed is not None and made.agreed.re_expression is not None:
            made.state.profile.transform(made.agreed.re_expression)
        self.state = made.state
        if closing.excluded is None:
            periods = [update.period for update in closing.updates.values()]
            self.state.period = self.clock.next_period(self.state.period, periods)
        for refusal in made.evicted:
            unsaved.refusals.announce_instead(refusal)
        self.open(now)
        following = unsaved.opened
        # Published once: when a round is opened again, clients have it.
        change = None if following.is_whole else made.change
        learnt = () if closing.observed is None else self._online_published(change)
        entry = replace(made.entry, model=self.digest(), promotions=self.state.profile.promotions)
        messages = following.new_messages(self.state, before=before, online=learnt)
        ended = [Finished()] if made.evicted and not self.state.active() else []
        return [Commit((entry, *made.announced, *messages)), *ended]

    def keep_between(self) -> None:
        """Drop a saved state of models other than the present ones, which then begin with the next round."""
        online, kept = self.settings.learner.online, self.state.online
        self.state.online = None if online is None else online.taken(kept)

    def _online_published(self, change: Any = None) -> tuple[OnlinePublished, ...]:
        """Return the message with the agreed state: all of it, or its change."""
        online, state = self.settings.learner.online, self.state
        if online is None or state.online is None:
            return ()
        return (online.published(state.online, state.round, change),)

    # --- what serves -----------------------------------------------------------------------------------------------

    def require_finite(self) -> None:
        """Raise if what clients continue from is not finite; the update that caused it is then found and refused.

        Raises
        ------
        PeerError
            Names what is not finite.
        """
        registry, W = self.serving()
        numbers: Mapping[str, FloatArray] = {
            "a model": W,
            "a scale": registry.scale,
            "the features' norm": np.array(self.state.agreed.squared_norm),
        }
        wrong = next((name for name, array in numbers.items() if not np.isfinite(array).all()), None)
        if wrong is not None:
            raise PeerError(f"{wrong} that is not finite")

    def digest(self) -> str:
        """Return the fingerprint of the model that serves."""
        return fingerprint(*self.serving(), chain=self.state.chain)

    def serving(self) -> tuple[Registry, FloatArray]:
        """Return the registry and the weights of the model that serves.

        Raises
        ------
        PeerError
            No round has been opened.
        """
        if self.unsaved.open is None:
            raise PeerError("no round has been opened")
        return self.state.registry, self.unsaved.open.weights[self.unsaved.open.plan.serves]

    def branches(self) -> dict[str, FloatArray]:
        """Return the weights of the model that serves each client that has drifted alone, by client."""
        opened = self.unsaved.open
        if opened is None:
            return {}
        return {client: opened.weights[group.serves] for group in opened.plan.apart for client in group.clients}
