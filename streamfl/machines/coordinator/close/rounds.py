"""Rounds: how one is opened, closed with its updates, and entered into the ledger.

Nothing here catches exceptions: `recovery` undoes a step that raises, and finds the update that caused it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import Any

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import REFUSALS_IN_A_ROW, bounded
from streamfl.errors import BrokenInvariantError, PeerError
from streamfl.learning.between_rounds import Renewal
from streamfl.learning.drift.evidence import Observed
from streamfl.learning.profiles.base import Answer, Deliberation, Restart
from streamfl.machines.coordinator.close.bounded import bounded as bounded_updates
from streamfl.machines.coordinator.close.bounded import bounded_scores
from streamfl.machines.coordinator.collect.aggregate import Aggregation, as_differences, odd_in, served_in_all
from streamfl.machines.coordinator.collect.open_round import OpenRound, next_measured, published, slot
from streamfl.machines.coordinator.collect.pool import Pool, without_everybody
from streamfl.machines.coordinator.collect.unsaved import PendingAlarm, Unmasking, Unsaved
from streamfl.machines.coordinator.saved.agreement import Agreement, middle_unit
from streamfl.machines.coordinator.saved.announcements import Announcement, announcements
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.names import Grant
from streamfl.machines.coordinator.saved.one_drift import in_one_drift
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.decisions import Commit, CoordinatorDecision, Finished, Publish, Refused
from streamfl.protocol.fingerprint import fingerprint
from streamfl.protocol.messages import (
    Accepted,
    AgreedState,
    BetweenPublished,
    Disclosed,
    FromCoordinator,
    Join,
    LocalDrift,
    Refusal,
    Roster,
    RoundClosed,
    Score,
    Scores,
    Unmask,
    Unmasked,
    Update,
    ends_of,
)
from streamfl.protocol.registry import Registry, TargetUnit, re_expression

# Why a member is left out whose update is in totals that nobody knows without it.
SILENT = "it has sent updates, but no seeds of its masks, for {} totals in a row: left out until entry {}"


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

    # --- opening ---------------------------------------------------------------------------------------------------

    def begin(self, joins: Sequence[Join], now: float) -> list[CoordinatorDecision]:
        """Open round 1: the Joins of all clients determine features, labels and scale."""
        state, settings = self.state, self.settings
        state.agreement = Agreement.of(
            joins, scaling=settings.scaling, limits=settings.limits, fewest=settings.named_by
        )
        state.members = {join.client: replace(Member().held_by(join.nonce), key=join.key) for join in joins}
        state.known_labels = len(state.registry.labels)
        state.period = self._period([join.period for join in joins])
        state.between = self._nothing_learnt()
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
        state.roster = self._roster()
        if state.roster is not None and not self._repeated().keys() <= state.roster.keys.keys():
            state.repeats = 0  # a client of the total has left, or is left out
        opened = OpenRound.of(
            state,
            plan,
            now=now,
            interval=self.settings.interval,
            moments=self._is_warming_up() or bool(state.registry.unscaled),
            pooled=self.settings.sums != "by-client",
            noisy=self.settings.noise is not None,
        )
        self.unsaved.collect_for(opened)

    def _roster(self) -> Roster | None:
        """Return the clients that mask their sums from now on, if sums are masked."""
        if self.settings.sums != "masked":
            return None
        kept, keys = self.state.roster, self.keys()
        if kept is not None and kept.keys == keys:
            return kept
        return Roster(version=1 if kept is None else kept.version + 1, keys=keys)

    def keys(self) -> dict[str, str]:
        """Return the public keys of the members that mask sums, by name: all that are there and not left out.

        None is left out if too few would be left for a total.
        """
        members, entry = self.state.members, self.state.entry
        keys = {name: members[name].key for name in sorted(self.state.active()) if members[name].key}
        here = {name: key for name, key in keys.items() if members[name].rests <= entry}
        return here if len(here) >= self.settings.fewest else keys

    def messages(self, now: float) -> tuple[FromCoordinator, ...]:
        """Return all messages that a new client needs for the open round."""
        if self.unsaved.open is None:
            return ()
        pending_alarm = self.unsaved.pending_alarm
        scoring: tuple[FromCoordinator, ...] = (
            () if pending_alarm is None else (*pending_alarm.models, pending_alarm.asked)
        )
        unmasking = () if self.unsaved.unmasking is None else (self.unsaved.unmasking.asked,)
        return (*self.unsaved.open.all_messages(self.state, self._between_published(), now), *scoring, *unmasking)

    def untrained(self) -> FloatArray:
        """Return the weights of a model that has learnt nothing, shape (d + 1, columns)."""
        columns = self.settings.learner.model.columns(len(self.state.registry.labels))
        return np.zeros((self.state.registry.rows, columns))

    # --- closing ---------------------------------------------------------------------------------------------------

    def close(self, now: float) -> list[CoordinatorDecision]:
        """Aggregate the updates and pass them to the profile; where sums are masked, ask for the seeds of masks."""
        state, unsaved = self.state, self.unsaved
        if unsaved.unmasking is not None:
            return self._unmasked(unsaved.unmasking, now)
        updates = [unsaved.updates[client] for client in sorted(unsaved.updates)]
        spent = {name: state.members[name].spent for name in state.active() | unsaved.updates.keys()}
        unsaved.grant = Grant.of(
            updates,
            state.registry,
            self.settings.limits,
            spent=spent,
            t=state.round,
            fewest=self.settings.named_by,
        )
        unsaved.waiting = unsaved.grant.waiting
        granted = [unsaved.grant.update(update) for update in updates]
        senders = [update for update in granted if update.records]
        if self.settings.sums == "by-client":
            self._bound(granted)
        elif self.settings.sums == "masked" and senders:
            return self._ask_for_total(senders, now)
        elif senders:
            self._add_up(senders, ())
        return self._closed(now) if senders else self._conclude(None, (), now)

    def _closed(self, now: float) -> list[CoordinatorDecision]:
        """Pass the aggregated updates to the profile."""
        state, unsaved = self.state, self.unsaved
        observed, aggregation = self.observed()
        alarm = self.ordered(state.profile.close(observed), observed)
        unsaved.readings = dict(state.profile.readings())
        if alarm is None:
            return self._conclude(observed, state.profile.advance(state.round), now)
        deliberation = state.profile.deliberate(alarm, observed, self.untrained())
        return self._deliberate(deliberation, observed, aggregation, (), now)

    def ordered(self, alarm: Alarm | None, observed: Observed) -> Alarm | None:
        """Return the alarm; if an operator has ordered a restart, one that asks for the wanted model."""
        wanted = self.state.restart
        if wanted is None:
            return alarm
        found = alarm or Alarm("operator", 0.0, 0.0, observed.round)
        return replace(found, local=False, clients=() if found.local else found.clients, wanted=wanted)

    @property
    def _pool(self) -> Pool:
        return Pool(self.settings, self.unsaved.opened.message, self.state.registry)

    def _add_up(self, updates: Sequence[Update], answers: Sequence[Unmasked]) -> None:
        """Count the sums of clients as one update; no client's own is known, so none is bounded."""
        self.unsaved.counted = (self._pool.update(updates, answers),)
        self.unsaved.pooled = tuple(update.client for update in updates)

    def _repeated(self) -> dict[str, Disclosed]:
        """Return the records of the total that the open entry repeats, by client."""
        repeats, members = self.state.repeats, self.state.members
        told = {name: member.disclosed for name, member in members.items()} if repeats else {}
        return {name: one for name, one in told.items() if one is not None and one.entry == repeats}

    def _ask_for_total(self, senders: Sequence[Update], now: float) -> list[CoordinatorDecision]:
        """Ask for the total of updates; what is asked for is saved before it is told, so that no kill forgets it.

        An entry that repeats a total has the same clients and records, or nothing is learnt of it.
        """
        state, unsaved, repeated = self.state, self.unsaved, self._repeated()
        there = {update.client: update for update in senders}
        if repeated:
            if any(name not in there or ends_of(there[name].spans) != one.ends for name, one in repeated.items()):
                state.repeats = 0
                return self.void(now)
            others = there.keys() - repeated.keys()
            unsaved.updates = {name: one for name, one in unsaved.updates.items() if name not in others}
            there = {name: there[name] for name in repeated}
        if len(there) < self.settings.fewest:  # too few have records of this period: these go to the next one
            state.period = self._period([update.period for update in unsaved.updates.values()])
            return self.void(now)
        state.repeats = state.repeats or state.entry
        for name, update in there.items():
            state.members[name].disclosed = Disclosed.of(update, state.repeats, there)
        asked = self._unmask({name: there[name].attempt for name in sorted(there)}, 0, now)
        return [Commit((asked,))]

    def _unmask(self, attempts: Mapping[str, str], stage: int, now: float) -> Unmask:
        asked = Unmask(entry=self.state.entry, stage=stage, attempts=attempts)
        self.unsaved.unmasking = Unmasking(asked, now)
        return asked

    def _unmasked(self, unmasking: Unmasking, now: float) -> list[CoordinatorDecision]:
        """Go on with the total, or without it if a client has not answered."""
        unsaved, clients = self.unsaved, sorted(unmasking.asked.attempts)
        silent, answers = unmasking.lacking, [unmasking.answers[name] for name in sorted(unmasking.answers)]
        unsaved.unmasking = None
        if unmasking.asked.stage:
            return self._settled(() if silent else answers, now)
        if silent or unsaved.grant is None:
            self.state.repeats = 0 if unsaved.opened.message.repeats else self.state.repeats
            return self.void(now, silent)
        self._add_up([unsaved.grant.update(unsaved.updates[client]) for client in clients], answers)
        return self._closed(now)

    def void(self, now: float, silent: Collection[str] = ()) -> list[CoordinatorDecision]:
        """Close the entry without learning anything: its records stay pending, and the round is opened again.

        Parameters
        ----------
        now
            The time, in seconds.
        silent
            The clients because of which no total can be told.
        """
        unsaved = self.unsaved
        unsaved.unmasking, unsaved.pending_alarm = None, None
        unsaved.unlucky = frozenset(name for name, update in unsaved.updates.items() if update.records) - set(silent)
        unsaved.updates = {name: update for name, update in unsaved.updates.items() if not update.records}
        unsaved.counted = ()
        left_out = [one for client in sorted(silent) for one in self._count_silence(client)]
        return [*left_out, *self._conclude(None, (), now)]

    def _count_silence(self, client: str) -> list[CoordinatorDecision]:
        """Count a total that failed because of a member; if these are several in a row, say that it is left out."""
        entry, member = self.state.entry, self.state.members[client]
        if not member.keeps_silent(entry):
            return []
        reason = SILENT.format(member.silent, member.rests)
        refusal = Refusal(client=client, incarnation=member.incarnation, entry=entry, reason=reason)
        self.unsaved.refusals.announce_instead(refusal)
        return [Refused(client, reason)]

    def _bound(self, updates: Sequence[Update]) -> None:
        """Bound the influence of each update; the histories of clients become the state's when the round ends."""
        state, unsaved, secret = self.state, self.unsaved, self.settings.secret
        made = bounded_updates(
            [as_differences(update, unsaved.opened.plan.live, self.settings.learner) for update in updates],
            unsaved.opened.plan.live,
            state.agreed,
            state.influence.shown(secret),
            apart=unsaved.opened.apart,
            most=self.settings.round_size,
            between=self.settings.learner.between,
            agreed=state.between,
            seed=self.settings.learner.seed if secret is None else secret.seed,
        )
        unsaved.counted, unsaved.shares, unsaved.influence = made.updates, made.shares, made.influence

    def observed(self) -> tuple[Observed, Aggregation]:
        """Return what the round's updates show, and how they are aggregated."""
        state, opened, counted = self.state, self.unsaved.opened, self.unsaved.counted
        live, serves = opened.plan.live, opened.plan.serves
        without = {client for client, share in self.unsaved.shares.items() if share == 0.0}
        odd = odd_in([update for update in counted if update.client not in opened.apart], live) | without
        learner, aggregator = self.settings.learner, self.settings.aggregation
        aggregation = Aggregation.of(learner, state.agreed, counted, opened.apart, odd, aggregator)
        known = state.registry.labels[: state.known_labels]
        observed = aggregation.observed(counted, live, t=state.round, known_labels=known, serves=serves)
        return observed, aggregation

    def _deliberate(
        self,
        deliberation: Deliberation,
        observed: Observed,
        aggregation: Aggregation,
        answers: tuple[Answer, ...],
        now: float,
    ) -> list[CoordinatorDecision]:
        """Publish the next candidates to be scored; if there are none, let the profile conclude."""
        state, ask = self.state, deliberation.ask()
        if ask is None:
            self.unsaved.pending_alarm = None
            return self._conclude(observed, (state.profile.conclude(deliberation),), now)
        asked = Score(
            entry=state.entry,
            round=state.round,
            epoch=state.profile.epoch,
            registry=state.registry.version,
            slots=tuple(slot(model, state) for model in ask.models),
            stage=len(answers) + 1,
            relabel=ask.relabel,
        )
        models = published(ask.models, state)
        pending_alarm = PendingAlarm(deliberation, observed, aggregation, asked, models, ask.models, now, answers)
        self.unsaved.pending_alarm, self.unsaved.scores = pending_alarm, {}
        return [Publish((*models, asked))]

    def settle(self, now: float) -> list[CoordinatorDecision]:
        """Pass the scores to the profile; clients that have sent none are left out."""
        unmasking = self.unsaved.unmasking
        if unmasking is not None:
            return self._unmasked(unmasking, now)
        if self.settings.sums == "masked" and self.unsaved.pending_alarm is not None:
            scores = self.unsaved.scores
            with_sums = {client: scores[client].attempt for client in sorted(scores) if scores[client].sums}
            if with_sums.keys() == set(self.unsaved.pooled):  # others would tell of those who lack
                return [Publish((self._unmask(with_sums, self.unsaved.pending_alarm.asked.stage, now),))]
        return self._settled((), now)

    def _settled(self, answers: Sequence[Unmasked], now: float) -> list[CoordinatorDecision]:
        """Pass the scores to the profile; where they are masked, those whose clients have told the seeds."""
        pending_alarm, scores = self.unsaved.pending_alarm, self.unsaved.scores
        if pending_alarm is None:
            raise BrokenInvariantError("a round without an alarm is to be settled")
        if self.settings.sums == "by-client":
            shares, live = self.unsaved.shares, pending_alarm.live
            made = {client: as_differences(one, live, self.settings.learner) for client, one in scores.items()}
            bounds = {client: bounded_scores(one, shares.get(client, 1.0)) for client, one in made.items()}
            scored = [(u, bounds[u.client]) for u in self.unsaved.counted if u.client in scores]
        else:
            scored = self._scored_together(pending_alarm, answers)
        return self._answered(pending_alarm, scored, now)

    def _scored_together(
        self, pending_alarm: PendingAlarm, answers: Sequence[Unmasked]
    ) -> list[tuple[Update, Scores]]:
        """Return the scores of all clients together, with the update whose records they are about."""
        unsaved, told = self.unsaved, {answer.client for answer in answers}
        masked = self.settings.sums == "masked"
        there = [unsaved.scores[name] for name in unsaved.pooled if name in unsaved.scores]
        summed = [one for one in there if one.sums and (not masked or one.client in told)]
        if not summed:
            return []
        more = len(unsaved.counted[0].new_labels)
        scores = self._pool.scores(summed, unsaved.updates, pending_alarm.asked, answers, more=more)
        of = [unsaved.updates[one.client] for one in summed]
        records, trained = sum(update.records for update in of), sum(update.trained for update in of)
        return [(replace(unsaved.counted[0], records=records, trained=trained), scores)]

    def _answered(
        self, pending_alarm: PendingAlarm, scored: Sequence[tuple[Update, Scores]], now: float
    ) -> list[CoordinatorDecision]:
        """Pass the scores to the profile."""
        answer = pending_alarm.aggregation.answer(scored, pending_alarm.live)
        pending_alarm.deliberation.answer(answer)
        answers = (*pending_alarm.answers, answer)
        return self._deliberate(
            pending_alarm.deliberation, pending_alarm.observed, pending_alarm.aggregation, answers, now
        )

    def close_without_scores(self, now: float) -> list[CoordinatorDecision]:
        """Close the round, without any scores after an alarm."""
        decisions = self.close(now)
        while self.unsaved.pending_alarm is not None:
            self.unsaved.scores = {}
            decisions = self.settle(now)
        return decisions

    def _conclude(
        self, observed: Observed | None, decided: Sequence[Restart | LocalDrift], now: float
    ) -> list[CoordinatorDecision]:
        """Enter the round into the ledger and open the next, in one transaction; `observed` is None without records.

        The order matters. The entry names the registry under which the clients worked, so it is made before the
        registry changes. What was learnt between rounds is merged under the new labels. The digest is of the model
        that serves next.
        """
        state, opened = self.state, self.unsaved.opened
        closed = self._entry(opened, observed)
        for name in state.active() - self.unsaved.updates.keys() - (self.unsaved.unlucky or set()):
            state.members[name].missed += 1
        evicted = self._count_refusals(opened.message.entry)
        announced: tuple[Announcement, ...] = ()
        change: Any = None
        if observed is not None:
            named = decided if self.settings.sums == "by-client" else tuple(map(without_everybody, decided))
            made = announcements(closed, state.profile.noticed, named, state.members)
            state.drifts, announced = in_one_drift(state.drifts, made, state.members)
            restart = next((decision for decision in decided if isinstance(decision, Restart)), None)
            state.restart = None if restart is not None else state.restart
            if self.unsaved.influence is not None:
                state.influence = self.unsaved.influence.hidden(self.settings.secret)
            self._change_registry(restarted=restart is not None)
            for name, cost in ({} if self.unsaved.grant is None else self.unsaved.grant.cost).items():
                state.members[name].spent += cost
            change = self._learn_between(opened.apart, restart)
            state.round += 1
            state.repeats = 0
            state.measured = next_measured(state)
        if self.unsaved.unlucky is None:
            state.period = self._period([update.period for update in self.unsaved.updates.values()])
        state.entry += 1
        self.open(now)
        following = self.unsaved.opened
        # Published once: when a round is opened again, clients have it.
        learnt = () if observed is None else self._between_published(None if following.is_whole else change)
        closed = replace(closed, model=self.digest(), promotions=state.profile.promotions)
        published = following.new_messages(state, before=opened, between=learnt)
        ended = [Finished()] if evicted and not state.active() else []
        return [Commit((closed, *announced, *published)), *ended]

    def _period(self, following: Iterable[int | None]) -> int | None:
        """Return the next period, if rounds are by event time: that of the middle client, and at least the next one.

        So neither a gap nor a client far ahead or behind holds the others up: what comes too late for its period goes
        to the round that is open.
        """
        if not self.settings.by_event_time:
            return None
        before = self.state.period
        known = [period for period in following if period is not None]
        least = min(known, default=0) if before is None else before + 1
        return max(least, median_low(known)) if known else least

    def _entry(self, opened: OpenRound, observed: Observed | None) -> RoundClosed:
        """Return the ledger entry of the open round, without the fields that depend on the next one."""
        updates = [self.unsaved.updates[client] for client in sorted(self.unsaved.updates)]
        message, records = opened.message, sum(update.records for update in updates)
        return RoundClosed(
            entry=message.entry,
            round=message.round,
            epoch=message.epoch,
            block=message.block,
            accepted=tuple(self._accept(update, records) for update in updates),
            records=records,
            trained=sum(update.trained for update in updates),
            rejected=sum(update.rejected for update in updates),
            losses={} if observed is None else {name: played.loss for name, played in observed.played.items()},
            serves=message.serves,
            readings=self.unsaved.readings,
            served=served_in_all(self.unsaved.counted if self.unsaved.pooled else updates),
            model="",
            registry=message.registry,
            refused=self.unsaved.refusals.count,
            unlearnt=sum(update.learnt.unlearnt for update in updates if update.learnt is not None),
        )

    def _accept(self, update: Update, records: int) -> Accepted:
        share, logs = update.records / records if records else 0.0, self.unsaved.logs
        self.state.logs = {name: logs[name] for name in update.reached if name in logs} | self.state.logs
        return self.state.members[update.client].accept(update, share)

    def _count_refusals(self, entry: int) -> bool:
        """Count the refused members of an entry in the ledger; return whether any was evicted.

        Bytes that are no message evict no client: any writer can send them under any key.
        """
        refusals, evicted = self.unsaved.refusals, False
        for client, reason in refusals.at_fault.items():
            member = self.state.members[client]
            if client in refusals.unusable or member.left or client in self.unsaved.updates:
                continue
            member.refused += 1
            if member.refused >= REFUSALS_IN_A_ROW:
                member.left = member.evicted = evicted = True
                why = bounded(f"evicted, refused for {member.refused} entries in a row: {reason}")
                refusals.announce_instead(
                    Refusal(client=client, incarnation=member.incarnation, entry=entry, reason=why, evicted=True)
                )
        return evicted

    # --- between rounds --------------------------------------------------------------------------------------------

    def _learn_between(self, apart: frozenset[str], restart: Restart | None) -> Any:
        """Merge what clients learnt between rounds; return the change of the agreed state, None for all of it."""
        state, between = self.state, self.settings.learner.between
        if between is None or state.between is None:
            state.between = self._nothing_learnt()
            return None
        state.between, change = between.after(
            state.between,
            {update.client: update.learnt for update in self.unsaved.counted if update.learnt is not None},
            state.registry.labels,
            apart=apart,
            renewal=None if restart is None else Renewal(restart.chosen == "incumbent", restart.permutation),
            limits=self.settings.limits,
        )
        return change

    def _nothing_learnt(self) -> AgreedState | None:
        """Return the first agreed state of the models that learn between rounds; None if there are none."""
        between = self.settings.learner.between
        return None if between is None else between.initial(self.state.registry.labels)

    def keep_between(self) -> None:
        """Drop a saved state of models other than the present ones, which then begin with the next round."""
        between, kept = self.settings.learner.between, self.state.between
        self.state.between = None if between is None else between.taken(kept)

    def _between_published(self, change: Any = None) -> tuple[BetweenPublished, ...]:
        """Return the message with the agreed state: all of it, or its change."""
        between, state = self.settings.learner.between, self.state
        if between is None or state.between is None:
            return ()
        return (between.published(state.between, state.round, change),)

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

    # --- the registry ----------------------------------------------------------------------------------------------

    def _change_registry(self, *, restarted: bool) -> None:
        """Update the agreement with the round's records, and re-express every kept model."""
        state, before, counted = self.state, self.state.agreed, self.unsaved.counted
        first = state.round == 1  # a client may have joined with too few records to name labels
        frozen = not self._is_warming_up()
        unit = self._unit_after(restarted=restarted)
        clients = len(self.unsaved.pooled) or None
        after = before.after(counted, t=state.round, frozen=frozen, unit=unit, clients=clients)
        if after.registry is not before.registry:
            columns = self.settings.learner.model.columns(len(after.registry.labels))
            state.profile.transform(re_expression(before.registry, after.registry, columns))
        state.agreement = after
        if first and not state.known_labels:
            state.known_labels = len(after.registry.labels)
        if restarted:
            state.known_labels, state.restarted = len(after.registry.labels), state.round
        if restarted and (frozen or after.settled):  # a scaler that never froze needs no new start
            state.agreement, state.rescaled = after.restarted(), state.round

    def _unit_after(self, *, restarted: bool) -> TargetUnit | None:
        """Return the new unit of targets; None if it does not change."""
        if self.settings.task != "regression":
            return None
        unit = middle_unit(self.unsaved.counted)
        return unit if restarted or self.state.registry.target.gives_way_to(unit) else None

    def _is_warming_up(self) -> bool:
        warm_up, rounds = self.settings.warm_up, self.state.round - self.state.rescaled
        if not self.settings.scaling:
            return False
        return warm_up is None or rounds <= warm_up or (self.state.agreed.knows_little and warm_up > 0)
