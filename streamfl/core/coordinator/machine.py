"""The coordinator machine: opens rounds, adds updates up, lets the profile decide, closes rounds in the ledger.

Theory of operation. Everything that must survive is in `Standing`, and what it says changes only together with a
Commit: a ledger entry, or a change of membership. What a round has collected so far is not saved: after a kill the
round is opened again from the last Commit, clients send again what they sent, and the step is repeated. After an
alarm with candidates that nobody has scored yet, the round waits in a second phase for Scores; membership changes
wait too, so that no Commit falls between the profile's alarm and its restart.

Whatever a message says, it cannot end the process or spoil the standing. Checks come before the first change. If
anything raises all the same, the standing of the last Commit is taken again, with the changes of membership since,
and what the round has collected stays; the message is refused, or, if it is the round that cannot be closed, those
updates that cause it are.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.bounds import NAMED, REFUSALS_IN_A_ROW, Limits, bounded
from streamfl.core.coordinator.admission import (
    refusal,
    wrong_identity,
    wrong_introduction,
    wrong_partitions,
    wrong_scores,
)
from streamfl.core.coordinator.aggregate import Aggregation, served_in_all
from streamfl.core.coordinator.agreement import Agreement, middle_unit
from streamfl.core.coordinator.culprits import Culprits, without_culprits
from streamfl.core.coordinator.ledger import Member
from streamfl.core.coordinator.names import Grant
from streamfl.core.coordinator.news import News, news
from streamfl.core.coordinator.open_round import OpenRound, published, slot
from streamfl.core.coordinator.refusals import UNUSABLE, Refusals, incarnation_of
from streamfl.core.coordinator.state import Standing
from streamfl.core.drift.evidence import LiveModel, Observed
from streamfl.core.errors import BrokenInvariantError, PeerError
from streamfl.core.learning.between_rounds import Covered, Renewal
from streamfl.core.learning.local_round import Learner
from streamfl.core.profiles.base import Answer, Deliberation, Restart
from streamfl.core.protocol.alarm import Reading
from streamfl.core.protocol.decisions import Commit, CoordinatorDecision, Finished, Publish, Refused
from streamfl.core.protocol.events import CoordinatorEvent, Tick, Unusable
from streamfl.core.protocol.fingerprint import fingerprint
from streamfl.core.protocol.messages import (
    Accepted,
    AgreedState,
    BetweenPublished,
    FromCoordinator,
    Join,
    Leave,
    Left,
    LocalDrift,
    ModelPublished,
    Refusal,
    RoundClosed,
    RoundOpened,
    Score,
    Scores,
    Update,
)
from streamfl.core.protocol.registry import Registry, TargetUnit, re_expression

# Of partitions, by name, the position behind the last record.
LogEnds = Callable[[Collection[str]], Mapping[str, int | None]]

# Seconds between two announcements of refusals by themselves: each saves the whole standing.
PAUSE = 1.0


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
    limits
        How many names are registered.
    partitions
        Which partition of the log may be a client's, see `wrong_partitions`; with none given it may have all.
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
    limits: Limits = NAMED
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Undecided:
    """A round whose alarm waits for candidates to be scored; `answers` are those of the stages before."""

    deliberation: Deliberation
    observed: Observed
    aggregation: Aggregation
    asked: Score
    models: tuple[ModelPublished, ...]
    live: tuple[LiveModel, ...]
    since: float
    answers: tuple[Answer, ...] = ()

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
    recover
        Returns the standing of the last Commit, or a new one: where to go on from after a message that could not be
        handled. Without it what such a message raises is raised.
    log_ends
        Returns the position behind the last record of each of some partitions, None where it cannot be told; asked
        only of positions that are farther than what it has said before. Without it every position is believed.

    Examples
    --------
    >>> from streamfl.core.learning.algorithms import FedAvg
    >>> from streamfl.core.protocol.moments import Moments
    >>> from streamfl.core.profiles.adaptive.promotion import Promotion
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
    recover: Callable[[], Standing] | None = None
    log_ends: LogEnds | None = None
    _open: OpenRound | None = None
    _updates: list[Update] = field(default_factory=list)
    _counted: list[Update] = field(default_factory=list)  # the same, once the round closes, with granted names only
    _grant: Grant | None = None
    _undecided: Undecided | None = None
    _scores: dict[str, Scores] = field(default_factory=dict)
    _introductions: dict[str, Join] = field(default_factory=dict)
    _deferred: dict[str, Join | Leave] = field(default_factory=dict)
    _refusals: Refusals = field(default_factory=Refusals)
    _readings: dict[str, Reading] = field(default_factory=dict)
    _changed: dict[str, Member] = field(default_factory=dict)
    _saved: int = 0
    _announced: float | None = None
    _ends: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._saved = self.standing.refused

    def start(self, now: float) -> list[CoordinatorDecision]:
        """Begin, or after a kill open the round of the last Commit again.

        Raises
        ------
        PeerError
            The standing's models do not fit its registry: what was saved is damaged.
        """
        if self.standing.agreement is None:
            return []
        self._take_between()
        self._open_round(now)
        if any(live.W.shape != self._scratch().shape for live in self._opened.opening.live):
            raise PeerError("the standing holds models that do not fit its registry: it is damaged")
        told = self._round_messages()
        resumed = tuple(replace(m, resumed=True) if isinstance(m, RoundOpened) else m for m in told)
        return [Publish(resumed), *self._finished()]

    @property
    def wakes_at(self) -> float | None:
        """Return when it wants a Tick: the deadline of what it waits for, or when refusals may be announced again."""
        moments = [at for at in (self._closes_at, self._announces_at) if at is not None]
        return min(moments, default=None)

    @property
    def _closes_at(self) -> float | None:
        if self._open is None or self.settings.deadline is None:
            return None
        if self._undecided is not None:
            return self._undecided.since + self.settings.deadline
        closes = self._open.told.closes
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
        What is refused, then at most one Commit or Publish, with all that is to be told: an event is one transaction.
        """
        if self.recover is None or isinstance(event, Tick):
            return self._together(self._take(event, now))
        before = self._collected()
        try:
            return self._together(self._take(event, now))
        except BrokenInvariantError:
            raise
        except Exception as error:  # whatever a message makes raise: it is the message that is refused
            self._restore(before)
            incarnation = "" if isinstance(event, Unusable) else incarnation_of(event)
            return self._together(self._fault(event.client, incarnation, _unhandled(error), now))

    def announce(self, now: float) -> list[CoordinatorDecision]:
        """Tell what was refused since anything was told; to be called when all that has arrived was handled.

        It is a Commit, so that counts and places are saved even if no round closes for long; a Publish while
        candidates are scored. Not more than one a second.
        """
        at = self._announces_at
        if at is None or now < at:
            return []
        self._announced = now
        told = self._refusals.take()
        return [Publish(told)] if self.is_choosing else self._committed([Commit(told)])

    @property
    def _announces_at(self) -> float | None:
        """Return when refusals may be announced by themselves; None if there are none."""
        if not self._refusals.untold and (self.is_choosing or self.standing.refused == self._saved):
            return None
        return -math.inf if self._announced is None else self._announced + PAUSE

    def _together(self, decisions: list[CoordinatorDecision]) -> list[CoordinatorDecision]:
        """Return the decisions as one transaction, which announces too what was refused before."""
        joined = _in_one_transaction(decisions)
        if self._refusals.untold:
            joined = [self._with_refusals(decision) for decision in joined]
        return self._committed(joined)

    def _with_refusals(self, decision: CoordinatorDecision) -> CoordinatorDecision:
        if not isinstance(decision, Commit | Publish):
            return decision
        return replace(decision, messages=(*self._refusals.take(), *decision.messages))

    def _committed(self, decisions: list[CoordinatorDecision]) -> list[CoordinatorDecision]:
        """Note that the standing is being saved, if it is."""
        if any(isinstance(decision, Commit) for decision in decisions):
            self._changed, self._saved = {}, self.standing.refused
        return decisions

    def _take(self, event: CoordinatorEvent, now: float) -> list[CoordinatorDecision]:
        said = None if isinstance(event, Tick | Unusable) else event
        wrong = None if said is None else wrong_identity(said, self.settings.limits)
        if said is not None and wrong is not None:
            return self._fault(said.client, "", wrong, now)
        match event:
            case Join():
                return self._join(event, now)
            case Leave():
                return self._leave(event, now)
            case Update():
                return self._update(event, now)
            case Scores():
                return self._take_scores(event, now)
            case Unusable():
                return self._unusable(event, now)
            case Tick():
                return self._due(now)

    # --- membership --------------------------------------------------------------------------------------------

    def _join(self, join: Join, now: float) -> list[CoordinatorDecision]:
        wrong = wrong_introduction(join, self.settings.limits) or self._one_too_many(join.client)
        if wrong is not None:
            return self._fault(join.client, join.incarnation, wrong, now)
        if self.standing.agreement is None:
            self._introductions[join.client] = join
            return self._begin_if_complete(now)
        member = self.standing.members.get(join.client)
        if member is not None and join.incarnation < member.incarnation:
            return self._refuse(join.client, "an older incarnation")
        if member is not None and member.left and join.incarnation == member.incarnation:
            # It left, or was evicted, and did not hear it.
            return [Publish((self._evicted(join) if member.evicted else _left(join),))]
        if member is None or member.left:
            if self._undecided is not None:
                self._deferred[join.client] = join
                return []
            return [Commit(self._enter(join, member or Member(join.incarnation)))]
        # Not committed, so that it is answered while candidates are scored too. If a kill takes it back, a late
        # Join of an older incarnation may be answered, which nobody hears.
        return [Publish(self._enter(join, member))]

    def _one_too_many(self, client: str) -> str | None:
        """Return why a client is one more than are remembered, or None: whoever may write can invent names."""
        if client in self.standing.members:
            return None
        remembered = self.standing.members.keys() | self._introductions.keys() | self._deferred.keys()
        most = self.settings.limits.clients
        if client in remembered or len(remembered) < most:
            return None
        return f"one client more than the {most} that the federation takes"

    def _enter(self, join: Join, member: Member) -> tuple[FromCoordinator, ...]:
        """Enter who has joined into the ledger, and return the answer."""
        heard = member.heard(join.incarnation)
        told = (self.standing.joined(join, heard), *self._round_messages())
        self._change(join.client, heard)
        return told

    def _change(self, client: str, member: Member) -> None:
        """Change a member's account; until it is saved, another copy of it is kept."""
        self._changed[client] = member.copied()
        self.standing.members[client] = member

    def _evicted(self, join: Join) -> Refusal:
        reason = f"evicted: refused for {REFUSALS_IN_A_ROW} entries in a row; start it again when it is mended"
        entry = self.standing.entry
        return Refusal(client=join.client, incarnation=join.incarnation, entry=entry, reason=reason, evicted=True)

    def _leave(self, leave: Leave, now: float) -> list[CoordinatorDecision]:
        self._introductions.pop(leave.client, None)
        member = self.standing.members.get(leave.client)
        if member is None or member.left:
            return [Publish((_left(leave),))]
        if leave.incarnation < member.incarnation:
            return self._refuse(leave.client, "an older incarnation")
        if self._undecided is not None:
            self._deferred[leave.client] = leave  # the last one that a client sends counts
            return []
        # Its Join may have been forgotten with a kill; a late copy of it must not bring it back.
        self._change(leave.client, member.gone(leave.incarnation))
        return [Commit((_left(leave),)), *self._finished(), *self._go_on_if_complete(now)]

    def _finished(self) -> list[CoordinatorDecision]:
        return [] if self.standing.active() else [Finished()]

    def _begin_if_complete(self, now: float) -> list[CoordinatorDecision]:
        """Begin once enough clients have joined; those with whom it raises are refused."""
        if len(self._introductions) < self.settings.expect:
            return []
        kept = self._collected()
        try:
            return self._begin(now)
        except BrokenInvariantError:
            raise
        except Exception:  # whatever the numbers of an introduction make raise
            if self.recover is None:
                raise

        def begin(joins: list[Join], culprits: Culprits[Join], *, wait: bool = False) -> list[CoordinatorDecision]:
            there = {"_introductions": {join.client: join for join in joins}}
            refused = self._again(kept | there, culprits)
            return refused if wait or not joins else [*refused, *self._begin(now)]

        joins = [self._introductions[name] for name in sorted(self._introductions)]
        begun, culprits = without_culprits(joins, begin)
        wrong = {join.client for join, _ in culprits}
        left = [join for join in joins if join.client not in wrong]
        return begun if len(left) >= self.settings.expect else begin(left, culprits, wait=True)

    def _begin(self, now: float) -> list[CoordinatorDecision]:
        """Open round 1: the first records of all clients tell features, labels and scale."""
        joins = [self._introductions[name] for name in sorted(self._introductions)]
        standing = self.standing
        standing.agreement = Agreement.of(joins, scaling=self.settings.scaling, limits=self.settings.limits)
        standing.members = {join.client: Member(join.incarnation) for join in joins}
        standing.known_labels = len(standing.registry.labels)
        standing.between = self._nothing_learnt()
        self._introductions = {}
        self._open_round(now)
        answers = tuple(standing.joined(join, standing.members[join.client]) for join in joins)
        return [Commit((*answers, *self._round_messages()))]

    # --- opening a round ---------------------------------------------------------------------------------------

    def _open_round(self, now: float) -> None:
        """Ask the profile for the round's live models; the same answer however often it is asked."""
        standing = self.standing
        opening = standing.master.open(standing.round, self._scratch(), standing.agreed.squared_norm)
        for name, member in standing.members.items():
            member.retain(opening.sampled, held_since=opening.held.since_at(name) if opening.held else None)
        self._updates, self._counted, self._grant = [], [], None
        self._refusals = self._refusals.following()
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
        return (*self._open.whole(self.standing, self._between_published()), *scoring)

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
        refused = refusal(
            update,
            member=self.standing.members.get(update.client),
            opened=self._open.told,
            already=self._updates,
            registry=self.standing.registry,
            columns=self._columns(update),
            members=len(self.standing.members),
            limits=self.settings.limits,
        )
        if refused is not None and not refused.is_fault:
            return self._refuse(update.client, refused.reason)
        wrong = refused.reason if refused else self._wrong_content(update)
        if wrong is not None:
            return self._fault(update.client, incarnation_of(update), wrong, now)
        self._updates.append(update)
        self._refusals.at_fault.pop(update.client, None)
        return self._go_on_if_complete(now)

    def _wrong_places(self, update: Update) -> str | None:
        """Return why records cannot be where an update says: in another's partition, or beyond the end of the log."""
        wrong = wrong_partitions(update, self.standing.members[update.client], self.settings.partitions)
        farther = {span.partition: span.end for span in update.spans if span.end > self._ends.get(span.partition, 0)}
        if wrong is not None or self.log_ends is None or not farther:
            return wrong
        told = {name: end for name, end in self.log_ends(farther.keys()).items() if end is not None}
        self._ends |= told
        beyond = sorted(name for name, end in farther.items() if end > told.get(name, end))
        return f"positions of {beyond[0]} beyond the end of its log" if beyond else None

    def _wrong_content(self, update: Update) -> str | None:
        return (self._wrong_between(update) if update.records else None) or self._wrong_places(update)

    def _wrong_between(self, update: Update) -> str | None:
        """Return what is wrong with what was learnt between rounds, or with who is said to have answered."""
        between, standing = self.settings.learner.between, self.standing
        wrong = (
            None if update.learnt is None and standing.between is None else "models between rounds that not all have"
        )
        if between is not None:
            wrong = between.refusal(update.learnt, standing.between, self._covered(update))
        answering = set() if between is None else between.names
        return wrong if wrong or answering >= update.served.shares.keys() else "answers of models that nobody has"

    def _covered(self, update: Update) -> Covered:
        registry = self.standing.registry
        return Covered(
            records=update.records,
            features={*registry.features, *update.new_features},
            labels={*registry.labels, *update.new_labels},
            members=len(self.standing.members),
            limits=self.settings.limits,
        )

    def _columns(self, update: Update) -> int:
        return self.settings.learner.model.columns(len(self.standing.registry.labels) + len(update.new_labels))

    def _go_on_if_complete(self, now: float) -> list[CoordinatorDecision]:
        """Close the round, or settle its alarm, when there is nobody left to wait for."""
        if self._open is None:
            return []
        if self._undecided is not None:
            return [] if self.waited_for else self._guarded(self._settle, now)
        quorum = self.settings.quorum
        if self.waited_for and (quorum is None or len(self._updates) < quorum):
            return []
        return self._guarded(self._close, now) if self._updates or self._refusals.at_fault else []

    @property
    def introduced(self) -> int:
        """Count the clients that wait for the federation to begin."""
        return len(self._introductions)

    @property
    def present(self) -> set[str]:
        """Return the members that have neither left nor expired."""
        limit, members = self.settings.expire_after, self.standing.members
        return {name for name in self.standing.active() if limit is None or members[name].missed < limit}

    @property
    def is_choosing(self) -> bool:
        """Tell whether the open round has had its updates, and an alarm waits for scores."""
        return self._undecided is not None

    @property
    def waited_for(self) -> set[str]:
        """Return whose updates the open round lacks of those present, or, after an alarm, whose scores.

        Whose message was refused for what it says is not waited for.
        """
        updated = {update.client for update in self._updates}
        lacking = updated - self._scores.keys() if self.is_choosing else self.present - updated
        return lacking - self._refusals.at_fault.keys()

    def _due(self, now: float) -> list[CoordinatorDecision]:
        """Close at the deadline with what there is; with nothing the round goes on."""
        if self._closes_at is None or now < self._closes_at or self._open is None:
            return []
        if self._undecided is not None:
            return self._guarded(self._settle, now)
        if self._updates or self._refusals.at_fault:
            return self._guarded(self._close, now)
        self._open = replace(self._open, since=now)
        return []

    # --- what cannot be used -----------------------------------------------------------------------------------

    def _refuse(self, client: str, reason: str) -> list[CoordinatorDecision]:
        """Refuse a message that comes too late: that is no fault."""
        self._refusals.count += 1
        return [Refused(bounded(client), reason)]

    def _unusable(self, unusable: Unusable, now: float) -> list[CoordinatorDecision]:
        """Refuse what is no message; several in one entry are held against the member under whose key they come."""
        client, member = unusable.client, self.standing.members.get(unusable.client)
        if member is None or member.left:
            return self._fault(client, "", unusable.reason, now)
        seen = self._refusals.unusable.get(client, 0) + 1
        self._refusals.unusable[client] = seen
        return self._fault(client, member.incarnation if seen >= UNUSABLE else "", unusable.reason, now)

    def _fault(self, client: str, incarnation: str, reason: str, now: float) -> list[CoordinatorDecision]:
        """Refuse a message for what it says, and go on without the member that sent it."""
        return [self._blame(client, incarnation, reason), *self._go_on_if_complete(now)]

    def _blame(self, client: str, incarnation: str, reason: str) -> Refused:
        """Refuse a message for what it says; it is held against the member whose incarnation sent it.

        Without an incarnation it is not even announced: whoever may write may have sent it.
        """
        reason, standing, refusals = bounded(reason), self.standing, self._refusals
        standing.refused += 1
        refusals.count += 1
        refusal = Refusal(client=client, incarnation=incarnation, entry=standing.entry, reason=reason)
        member = standing.members.get(client)
        if member is not None and not member.left and incarnation == member.incarnation:
            refusals.blame(refusal)
        elif incarnation:
            refusals.warn(refusal, standing.members)
        return Refused(bounded(client), reason, is_fault=True)

    def _count_refusals(self, entry: int) -> bool:
        """Enter into the ledger who was refused for an entry; tell whether anybody was evicted for it.

        What is no message evicts nobody: whoever may write can send it under any key.
        """
        evicted = False
        for client, reason in self._refusals.at_fault.items():
            member = self.standing.members[client]
            junk = client in self._refusals.unusable
            if junk or member.left or any(update.client == client for update in self._updates):
                continue
            member.refused += 1
            if member.refused >= REFUSALS_IN_A_ROW:
                member.left = member.evicted = evicted = True
                why = bounded(f"evicted, refused for {member.refused} entries in a row: {reason}")
                self._refusals.tell(
                    Refusal(client=client, incarnation=member.incarnation, entry=entry, reason=why, evicted=True)
                )
        return evicted

    def _collected(self) -> dict[str, Any]:
        """Return all that changes without a Commit, as it is now."""
        return {
            "refused": self.standing.refused,
            "_open": self._open,
            "_updates": list(self._updates),
            "_counted": list(self._counted),
            "_grant": self._grant,
            "_undecided": self._undecided,
            "_scores": dict(self._scores),
            "_introductions": dict(self._introductions),
            "_deferred": dict(self._deferred),
            "_refusals": copy(self._refusals),
            "_readings": self._readings,
            "_changed": dict(self._changed),
            "_saved": self._saved,
        }

    def _restore(self, kept: dict[str, Any]) -> None:
        """Make everything what it was: from the last Commit, and what has changed since."""
        if self.recover is None:
            raise BrokenInvariantError("there is no standing to go on from")
        self.standing = standing = self.recover()
        for name, value in kept.items():
            if name != "refused":
                setattr(self, name, copy(value) if isinstance(value, dict | list | Refusals) else value)
        standing.refused = kept["refused"]
        standing.members.update({client: member.copied() for client, member in self._changed.items()})
        if standing.agreement is not None:
            self._take_between()
        if self._undecided is not None:
            self._undecided = replace(self._undecided, deliberation=self._deliberated_again(self._undecided))

    def _deliberated_again(self, undecided: Undecided) -> Deliberation:
        """Take the profile from the last Commit to where the alarm is deliberated: nothing depends on when."""
        observed, _ = self._observed()
        alarm = self.standing.master.close(observed)
        if alarm is None:
            raise BrokenInvariantError("a round that had an alarm has none")
        deliberation = self.standing.master.deliberate(alarm, observed, self._scratch())
        for answer in undecided.answers:
            deliberation.ask()
            deliberation.answer(answer)
        deliberation.ask()
        return deliberation

    def _again(
        self, kept: dict[str, Any], culprits: Culprits[Join] | Culprits[Update] | Culprits[Scores]
    ) -> list[CoordinatorDecision]:
        """Make everything what it was, and refuse those messages that were found to make something raise."""
        self._restore(kept)
        return [self._blame(part.client, incarnation_of(part), _unhandled(error)) for part, error in culprits]

    def _guarded(self, go_on: Callable[[float], list[CoordinatorDecision]], now: float) -> list[CoordinatorDecision]:
        """Close or settle the round; if that raises, without those messages that cause it."""
        if self.recover is None:
            return go_on(now)
        kept = self._collected()
        try:
            return go_on(now)
        except BrokenInvariantError:
            raise
        except Exception:
            kept["_deferred"] = {}  # they ask again; nor may they be what raises
        if kept["_undecided"] is None:
            return self._closed_without_culprits(kept, self._close, now)
        try:
            return self._settled_without_culprits(kept, now)
        except BrokenInvariantError:
            raise
        except Exception:
            kept |= {"_undecided": None, "_scores": {}}
            return self._closed_without_culprits(kept, self._close_unheard, now)

    def _closed_without_culprits(
        self, kept: dict[str, Any], close: Callable[[float], list[CoordinatorDecision]], now: float
    ) -> list[CoordinatorDecision]:
        def attempt(updates: list[Update], culprits: Culprits[Update]) -> list[CoordinatorDecision]:
            return [*self._again(kept | {"_updates": updates}, culprits), *close(now)]

        updates = sorted(kept["_updates"], key=lambda update: str(update.client))
        try:
            return without_culprits(updates, attempt)[0]
        except BrokenInvariantError:
            raise
        except Exception as error:
            raise BrokenInvariantError(f"a round without updates cannot be closed: {error!r}") from error

    def _settled_without_culprits(self, kept: dict[str, Any], now: float) -> list[CoordinatorDecision]:
        def attempt(scores: list[Scores], culprits: Culprits[Scores]) -> list[CoordinatorDecision]:
            heard = {said.client: said for said in scores}
            return [*self._again(kept | {"_scores": heard}, culprits), *self._settle(now)]

        scores = kept["_scores"]
        return without_culprits([scores[client] for client in sorted(scores)], attempt)[0]

    def _close_unheard(self, now: float) -> list[CoordinatorDecision]:
        """Close the round, with nobody heard after an alarm."""
        decisions = self._close(now)
        while self._undecided is not None:
            self._scores = {}
            decisions = self._settle(now)
        return decisions

    # --- closing a round ---------------------------------------------------------------------------------------

    def _close(self, now: float) -> list[CoordinatorDecision]:
        """Add the updates up and let the profile look at them."""
        self._updates.sort(key=lambda update: update.client)
        self._grant = Grant.of(self._updates, self.standing.registry, self.settings.limits)
        self._counted = [self._grant.update(update) for update in self._updates]
        if not any(update.records for update in self._updates):
            return self._conclude(None, (), now)
        standing = self.standing
        observed, aggregation = self._observed()
        alarm = standing.master.close(observed)
        self._readings = dict(standing.master.readings())
        if alarm is None:
            return self._conclude(observed, standing.master.advance(standing.round), now)
        deliberation = standing.master.deliberate(alarm, observed, self._scratch())
        return self._deliberate(deliberation, observed, aggregation, (), now)

    def _observed(self) -> tuple[Observed, Aggregation]:
        """Return what the round's updates bring, and how they are added up."""
        standing, opened = self.standing, self._opened
        aggregation = Aggregation.of(self.settings.learner, standing.agreed, self._counted, opened.apart)
        known = standing.registry.labels[: standing.known_labels]
        live, serves = opened.opening.live, opened.opening.serves
        observed = aggregation.observed(self._counted, live, t=standing.round, known_labels=known, serves=serves)
        return observed, aggregation

    def _deliberate(
        self,
        deliberation: Deliberation,
        observed: Observed,
        aggregation: Aggregation,
        answers: tuple[Answer, ...],
        now: float,
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
            stage=len(answers) + 1,
            relabel=ask.relabel,
        )
        models = published(ask.models, standing)
        self._undecided = Undecided(deliberation, observed, aggregation, asked, models, ask.models, now, answers)
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
            sample=self.standing.members[scores.client].sample,
        )
        if wrong is not None:
            return self._fault(scores.client, incarnation_of(scores), wrong, now)
        self._scores[scores.client] = scores if self._grant is None else self._grant.scores(scores, update)
        return self._go_on_if_complete(now)

    def _settle(self, now: float) -> list[CoordinatorDecision]:
        """Hand over what was scored; those silent by now are left out."""
        undecided = self._undecided
        if undecided is None:
            raise BrokenInvariantError("a round is to be settled that had no alarm")
        heard = [(u, self._scores[u.client]) for u in self._counted if u.client in self._scores]
        answer = undecided.aggregation.answer(heard, undecided.live)
        undecided.deliberation.answer(answer)
        answers = (*undecided.answers, answer)
        return self._deliberate(undecided.deliberation, undecided.observed, undecided.aggregation, answers, now)

    def _decide(self, deliberation: Deliberation, observed: Observed, now: float) -> list[CoordinatorDecision]:
        """Let the profile draw its conclusion, and close the round."""
        self._undecided = None
        return self._conclude(observed, (self.standing.master.conclude(deliberation),), now)

    def _conclude(
        self, observed: Observed | None, decided: Sequence[Restart | LocalDrift], now: float
    ) -> list[CoordinatorDecision]:
        """Enter the round into the ledger and open the next, in one transaction; `observed` is None of no records."""
        standing, opened = self.standing, self._opened
        closed = self._entry(opened.told, observed)
        for name in standing.active() - {update.client for update in self._updates}:
            standing.members[name].missed += 1
        evicted = self._count_refusals(opened.told.entry)
        told: tuple[News, ...] = ()
        learnt: tuple[BetweenPublished, ...] = ()  # told once: of a round that is opened again clients have them
        if observed is not None:
            told = news(closed, standing.master.noticed, decided)
            restart = next((said for said in decided if isinstance(said, Restart)), None)
            self._change_registry(restarted=restart is not None)
            changed = self._learn_between(opened.apart, restart)
            standing.round += 1
            learnt = self._between_published(changed)
        standing.entry += 1
        self._open_round(now)
        self._require_finite()
        closed = replace(closed, model=self.digest(), promotions=standing.master.promotions)
        following = self._opened.following(standing, since=opened.told.registry, between=learnt)
        ended = self._finished() if evicted else []
        return [Commit((closed, *told, *following)), *self._catch_up(now), *ended]

    def _learn_between(self, apart: frozenset[str], restart: Restart | None) -> IntArray | None:
        """Take over what clients learnt between rounds; return which rows of a table changed, None for all."""
        standing, between = self.standing, self.settings.learner.between
        if between is None or standing.between is None:
            standing.between = self._nothing_learnt()
            return None
        standing.between, changed = between.after(
            standing.between,
            {update.client: update.learnt for update in self._counted if update.learnt is not None},
            standing.registry.labels,
            apart=apart,
            renewal=None if restart is None else Renewal(restart.chosen == "incumbent", restart.permutation),
            limits=self.settings.limits,
        )
        return changed

    def _nothing_learnt(self) -> AgreedState | None:
        """Return what models that learn between rounds begin with, if any do."""
        between = self.settings.learner.between
        return None if between is None else between.initial(self.standing.registry.labels)

    def _take_between(self) -> None:
        """Let go of the state of other models than are federated now; these begin with the next round."""
        between, kept = self.settings.learner.between, self.standing.between
        self.standing.between = None if between is None else between.taken(kept)

    def _between_published(self, changed: IntArray | None = None) -> tuple[BetweenPublished, ...]:
        """Return what clients are told of the models that learn between rounds: all, or the rows that changed."""
        between, standing = self.settings.learner.between, self.standing
        if between is None or standing.between is None:
            return ()
        return (between.published(standing.between, standing.round, changed),)

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
            refused=self._refusals.count,
            unlearnt=sum(update.learnt.unlearnt for update in updates if update.learnt is not None),
        )

    def _accept(self, update: Update, records: int) -> Accepted:
        share = update.records / records if records else 0.0
        return self.standing.members[update.client].accept(update, share)

    def _catch_up(self, now: float) -> list[CoordinatorDecision]:
        """Handle the membership changes that waited."""
        waiting, self._deferred = self._deferred, {}
        return [decision for client in sorted(waiting) for decision in self._take(waiting[client], now)]

    def _require_finite(self) -> None:
        """Raise if what clients go on from is not finite: whose numbers made it so is then found, and refused."""
        registry, W = self.serving()
        numbers = (W, registry.scale, np.array(self.standing.agreed.squared_norm))
        if self.recover is not None and not all(np.isfinite(array).all() for array in numbers):
            raise PeerError("a model or a scale that is not finite")

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
        first = standing.round == 1  # who joined may have had too few records to tell labels
        frozen = not self._is_warming_up()
        unit = self._unit_after(restarted=restarted)
        after = before.after(self._counted, t=standing.round, frozen=frozen, unit=unit)
        if after.registry is not before.registry:
            columns = self.settings.learner.model.columns(len(after.registry.labels))
            standing.master.transform(re_expression(before.registry, after.registry, columns))
        standing.agreement = after
        if first and not standing.known_labels:
            standing.known_labels = len(after.registry.labels)
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


def _left(message: Join | Leave) -> Left:
    return Left(client=message.client, incarnation=message.incarnation)


def _unhandled(error: Exception) -> str:
    return f"could not be handled: {type(error).__name__}: {error}"


def _in_one_transaction(decisions: list[CoordinatorDecision]) -> list[CoordinatorDecision]:
    """Return the decisions with everything that is told joined into one, behind what is refused.

    The standing is saved as it is when a Commit is carried out, after all of the event; were it two transactions, a
    kill between them would lose messages that the standing says were told. What is refused is kept before the place
    where it was read is left behind.
    """
    telling = [decision for decision in decisions if isinstance(decision, Commit | Publish)]
    refused: list[CoordinatorDecision] = [decision for decision in decisions if isinstance(decision, Refused)]
    if len(telling) + len(refused) < 2:
        return decisions
    told = tuple(message for decision in telling for message in decision.messages)
    saved = any(isinstance(decision, Commit) for decision in telling)
    ended: list[CoordinatorDecision] = [decision for decision in decisions if isinstance(decision, Finished)]
    if not telling:
        return [*refused, *ended]
    return [*refused, Commit(told) if saved else Publish(told), *ended]
