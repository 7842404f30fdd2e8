"""The coordinator machine: it handles one event after another, and returns decisions.

Theory of operation. Everything that must survive a kill is in `CoordinatorState`. It changes only together with a
Commit: a ledger entry, or a change of membership. What a round has collected so far is in `Unsaved`: after a kill the
coordinator opens the round again from the last Commit, clients send their messages again, and the step is repeated.
If an alarm has candidates without scores, the round waits in a second phase for Scores. Membership changes wait too,
so that no Commit falls between the profile's alarm and its restart. Joins that arrive together are answered together:
each Commit saves all models, and what clients need for the open round is the same for all.

No message can end the process or damage the state. `admission` checks a message before anything changes. If handling
one raises all the same, `recovery` returns to the last Commit and continues without it.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from streamfl.arrays import FloatArray
from streamfl.bounds import REFUSALS_IN_A_ROW, bounded
from streamfl.errors import BrokenInvariantError
from streamfl.machines.coordinator.close.rounds import Rounds
from streamfl.machines.coordinator.commands import carry_out, wrong_command
from streamfl.machines.coordinator.gate.admission import BARRED, Admission, Grants, LogEnds, LogIds
from streamfl.machines.coordinator.gate.checks import wrong_identity
from streamfl.machines.coordinator.gate.senders import sender_of
from streamfl.machines.coordinator.phase import Phase
from streamfl.machines.coordinator.recovery import Recovery, unhandled
from streamfl.machines.coordinator.round.refusals import UNUSABLE
from streamfl.machines.coordinator.round.unsaved import Unsaved
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.decisions import Commit, CoordinatorDecision, Finished, Publish, Refused
from streamfl.protocol.events import CoordinatorEvent, Ordered, Signed, Tick, Unusable
from streamfl.protocol.messages import (
    Fenced,
    FromClient,
    FromCoordinator,
    Join,
    Joined,
    Leave,
    Left,
    Refusal,
    RoundOpened,
    Scores,
    Unmasked,
    Update,
)
from streamfl.protocol.moments import NOTHING
from streamfl.protocol.registry import Registry

# Seconds between two separate announcements of refusals: each saves the whole state.
PAUSE = 1.0

# Seconds in which a start that was told the present incarnation is expected to ask again: until then nothing ends.
ASKS_AGAIN = 10.0

# The most clients that are told that nobody may speak for them who does; others are only counted.
MOST_TOLD = 1000


class Coordinator:
    """The coordinator of a federation.

    Parameters
    ----------
    settings
        How it works.
    state
        A new state, or the one of the last Commit.
    recover
        Returns the state of the last Commit, or a new one, from which to continue after a message that could not be
        handled. Without it, what the message raises is raised.
    log_ends, grants, log_ids
        See `Admission`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamfl.learning.algorithms import FedAvg
    >>> from streamfl.learning.local_round import Learner
    >>> from streamfl.protocol.moments import Moments
    >>> from streamfl.learning.profiles.adaptive.promotion import Promotion
    >>> from streamfl.models import Softmax
    >>> settings = CoordinatorSettings(Learner(Softmax(), FedAvg()), min_clients=1)
    >>> coordinator = Coordinator(settings, CoordinatorState(Promotion()))
    >>> moments = Moments.of(("x",), np.array([[1.0], [2.0], [6.0]]))
    >>> join = Join(client="c0", nonce="7f", moments=moments, labels=("a",), records=3)
    >>> (begun,) = coordinator.handle(join, now=0.0)
    >>> [type(message).__name__ for message in begun.messages][:3], begun.messages[-1].round, coordinator.phase.name
    (['Joined', 'RegistryPublished', 'ModelPublished'], 1, 'COLLECTING')
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        state: CoordinatorState,
        recover: Callable[[], CoordinatorState] | None = None,
        log_ends: LogEnds | None = None,
        grants: Grants | None = None,
        log_ids: LogIds | None = None,
    ) -> None:
        self.settings = settings
        self._rounds = Rounds(settings, state, Unsaved(refused=state.refused, saved=state.refused))
        self._recovery = Recovery(self._rounds, recover, self._catch_up)
        self._admission = Admission(settings, self._rounds.kind, log_ends, grants, log_ids)
        self._announced: float | None = None
        self._asked: dict[tuple[str, str], Join] = {}  # starts that have asked since the last `answer`
        self._singly = False  # one of them could not be answered, so each is answered for itself
        self._expected: dict[str, float] = {}  # members of which a start is to ask again, and until when
        self._told: dict[str, str] = {}  # why a signer may not speak for them, by the clients that were told once

    @property
    def state(self) -> CoordinatorState:
        """Return the state that every Commit saves."""
        return self._rounds.state

    @property
    def _unsaved(self) -> Unsaved:
        return self._rounds.unsaved

    @property
    def phase(self) -> Phase:
        """Return the phase, derived from the state."""
        if self._unsaved.open is None:
            return Phase.GATHERING if self.state.agreement is None else Phase.STOPPED
        if self._unsaved.enquiry is not None:
            return Phase.UNMASKING
        return Phase.COLLECTING if self._unsaved.pending_alarm is None else Phase.SCORING

    @property
    def is_scoring(self) -> bool:
        """Tell whether an alarm of the open round waits for scores, or for the seeds of masks over these."""
        return self._unsaved.pending_alarm is not None

    def start(self, now: float) -> list[CoordinatorDecision]:
        """Begin, or after a kill open the round of the last Commit again.

        Raises
        ------
        PeerError
            The state's models do not fit its registry: the saved state is damaged.
        """
        if self.phase is Phase.GATHERING:
            return []
        self._rounds.keep_between()
        self._rounds.open(now)
        messages = self._rounds.messages(now)
        if not self._rounds.kind.resumes:
            return self._committed([*self._rounds.abort(now), *self._finished()])
        resumed = tuple(replace(m, resumed=True) if isinstance(m, RoundOpened) else m for m in messages)
        return [Publish(resumed), *self._finished()]

    def digest(self) -> str:
        """Return the fingerprint of the model that serves."""
        return self._rounds.digest()

    def serving(self) -> tuple[Registry, FloatArray]:
        """Return the registry and the weights of the model that serves.

        Raises
        ------
        PeerError
            No round has been opened.
        """
        return self._rounds.serving()

    def branches(self) -> dict[str, FloatArray]:
        """Return the weights of the model that serves each client that has drifted alone, by client."""
        return self._rounds.branches()

    @property
    def waiting_names(self) -> Mapping[str, int]:
        """Return, by client, how many of its names had to wait in the last round: see `names.afforded`."""
        return self._unsaved.waiting

    # --- time ------------------------------------------------------------------------------------------------------

    @property
    def wakes_at(self) -> float | None:
        """Return when the coordinator wants a Tick: at its deadline, or when refusals may be announced again."""
        moments = [at for at in (self._closes_at, self._announces_at) if at is not None]
        return min(moments, default=None)

    @property
    def _closes_at(self) -> float | None:
        opened, pending_alarm = self._unsaved.open, self._unsaved.pending_alarm
        if opened is None or self.settings.deadline is None or self._is_held:
            return None
        if self._unsaved.enquiry is not None:
            return self._unsaved.enquiry.since + self.settings.deadline
        if pending_alarm is not None:
            return pending_alarm.since + self.settings.deadline
        return opened.waited_from + self.settings.deadline

    @property
    def _announces_at(self) -> float | None:
        """Return when refusals may be announced separately; None if there are none."""
        unsaved = self._unsaved
        if not unsaved.refusals.unannounced and (self.is_scoring or unsaved.refused == unsaved.saved):
            return None
        return -math.inf if self._announced is None else self._announced + PAUSE

    def _close_if_due(self, now: float) -> list[CoordinatorDecision]:
        """At the deadline close the round with what it has; without anything it stays open."""
        if self._closes_at is None or now < self._closes_at:
            return []
        if self.is_scoring or self.phase is Phase.UNMASKING or self._has_something():
            return self._recovery.close(now)
        self._unsaved.open = replace(self._unsaved.opened, since=now)
        return []

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: CoordinatorEvent, now: float) -> list[CoordinatorDecision]:
        """Handle one event and return the decisions, in order.

        Parameters
        ----------
        event
            A client's message, or the time.
        now
            The time, in seconds.

        Returns
        -------
        Refusals, then at most one Commit or Publish with all messages: an event is one transaction.
        """
        if self._recovery.last_saved is None or isinstance(event, Tick):
            return self._as_transaction(self._take(event, now))
        before = self._rounds.unsaved.copied()
        try:
            return self._as_transaction(self._take(event, now))
        except BrokenInvariantError:
            raise
        except Exception as error:  # anything that a message makes raise: the message is refused
            self._recovery.restore(before)
            if isinstance(event, Join | Signed) and isinstance(join := _message(event), Join):
                self._asked.pop((join.client, join.nonce), None)
            sender = None if isinstance(event, Unusable | Ordered) else sender_of(_message(event), self.state.members)
            return self._as_transaction(self._fault(event.client, sender, unhandled(error), now))

    def _take(self, event: CoordinatorEvent, now: float) -> list[CoordinatorDecision]:
        """Take one event; nothing is done for a signer that may not speak for the client."""
        if isinstance(event, Tick):
            return self._close_if_due(now)
        if isinstance(event, Ordered):
            return self._ordered(event, now)
        wrong = None if isinstance(event, Unusable) else wrong_identity(_message(event), self.settings.limits)
        if wrong is not None:
            return self._fault(event.client, None, wrong, now)
        signer = event.signer if isinstance(event, Signed | Unusable) else ""
        refused = self._admission.not_granted(event.client, signer, self.state)
        if refused is not None:
            return self._not_granted(event.client, event.reason if isinstance(event, Unusable) else refused)
        return self._handled(event, now)

    def _handled(self, event: FromClient | Signed | Unusable, now: float) -> list[CoordinatorDecision]:
        match event:
            case Signed(message, signer):
                return self._signed(message, signer, now)
            case Join() if self.phase is not Phase.GATHERING:
                return self._ask(event, now)
            case Join():
                return self._join(event, now)
            case Leave():
                return self._leave(event, now)
            case Update():
                return self._update(event, now)
            case Scores():
                return self._scores(event, now)
            case Unmasked():
                return self._seeds(event, now)
            case Unusable():
                return self._unusable(event, now)

    def _signed(self, message: FromClient, signer: str, now: float) -> list[CoordinatorDecision]:
        """Handle a message; a client that joins belongs to its signer, also while the federation has not begun."""
        if isinstance(message, Join) and self._admission.wrong_join(message, self.state, self._unsaved) is None:
            member = self.state.members.get(message.client)
            if member is None or not member.fences(message.nonce, message.after):
                self.state.keys[message.client] = signer
        return self._handled(message, now)

    def _ordered(self, ordered: Ordered, now: float) -> list[CoordinatorDecision]:
        """Carry out a command; while candidates are scored it waits, as all changes of membership do."""
        wrong = wrong_command(ordered.command, self.state, self.settings.limits)
        if wrong is not None or self._unsaved.ordered is not None:
            return self._fault("", None, wrong or "another command waits to be carried out", now)
        if self.is_scoring:
            self._unsaved.ordered = ordered
            return []
        client = ordered.client
        account = carry_out(ordered, self.state)
        told: list[FromCoordinator] = [] if self.state.changed is None else [self.state.changed]
        if client in self.state.barred:
            self._unsaved.introductions.pop(client, None)
        if ordered.command.action == "resume" and self._unsaved.open is not None:
            self._unsaved.open = replace(self._unsaved.open, since=now)  # deadlines begin anew
            return [Commit(tuple(told)), *self._go_on_if_complete(now)]
        if account is None:
            return [Commit(tuple(told))]
        self._change(client, account)
        if ordered.command.action == "reset":  # the client is to come back
            return [Commit(tuple(told)), *self._go_on_if_complete(now)]
        told.append(self._evicted(account, client))
        return [Commit(tuple(told)), *self._finished(), *self._go_on_if_complete(now)]

    @property
    def has_asked(self) -> bool:
        """Tell whether Joins wait for `answer`."""
        return bool(self._asked)

    def answer(self, now: float) -> list[CoordinatorDecision]:
        """Answer the Joins that have come, in one transaction; called until none waits, after all that has arrived.

        If that raises, they are answered one by one, so that only those are refused that cannot be answered.
        """
        asked = [*self._asked.values()][: 1 if self._singly else None]
        for join in asked:
            del self._asked[join.client, join.nonce]
        self._singly = self._singly and bool(self._asked)
        before = self._rounds.unsaved.copied()
        try:
            return self._as_transaction(self._answers(asked, now))
        except BrokenInvariantError:
            raise
        except Exception as error:  # as in `handle`
            if self._recovery.last_saved is None:
                raise
            self._recovery.restore(before)
            if len(asked) > 1:
                self._asked = {(join.client, join.nonce): join for join in asked} | self._asked
                self._singly = True
                return []
            (join,) = asked
            sender = sender_of(join, self.state.members)
            return self._as_transaction(self._fault(join.client, sender, unhandled(error), now))

    def _answers(self, asked: Sequence[Join], now: float) -> list[CoordinatorDecision]:
        """Return the answers to some Joins; after them comes what the clients need for the open round."""
        decisions = [decision for join in asked for decision in self._join(join, now)]
        told = (message for one in decisions if isinstance(one, Commit | Publish) for message in one.messages)
        return (
            [*decisions, Publish(self._rounds.messages(now))]
            if any(isinstance(one, Joined) for one in told)
            else decisions
        )

    def announce(self, now: float) -> list[CoordinatorDecision]:
        """Announce new refusals; called after all messages that have arrived were handled.

        This is a Commit, so that counts and positions are saved even if no round closes for a long time; while
        candidates are scored it is a Publish. At most one a second.
        """
        at = self._announces_at
        if at is None or now < at:
            return []
        self._announced = now
        refusals = self._unsaved.refusals.take()
        return [Publish(refusals)] if self.is_scoring else self._committed([Commit(refusals)])

    def _as_transaction(self, decisions: list[CoordinatorDecision]) -> list[CoordinatorDecision]:
        """Return the decisions as one transaction, which also announces earlier refusals."""
        joined = _in_one_transaction(decisions)
        if self._unsaved.refusals.unannounced:
            joined = [self._with_refusals(decision) for decision in joined]
        return self._committed(joined)

    def _with_refusals(self, decision: CoordinatorDecision) -> CoordinatorDecision:
        if not isinstance(decision, Commit | Publish):
            return decision
        return replace(decision, messages=(*self._unsaved.refusals.take(), *decision.messages))

    def _committed(self, decisions: list[CoordinatorDecision]) -> list[CoordinatorDecision]:
        """Note that the state is saved, if a Commit is among the decisions."""
        if any(isinstance(decision, Commit) for decision in decisions):
            self._unsaved.members, self._unsaved.saved = {}, self._unsaved.refused
        return decisions

    # --- membership ------------------------------------------------------------------------------------------------

    def _ask(self, join: Join, now: float) -> list[CoordinatorDecision]:
        """Keep a Join until all have been read that have arrived with it; the last one of each start counts."""
        wrong = self._admission.wrong_join(join, self.state, self._unsaved)
        if wrong is not None:
            return self._fault(join.client, sender_of(join, self.state.members), wrong, now)
        self._asked[join.client, join.nonce] = join
        return []

    def _join(self, join: Join, now: float) -> list[CoordinatorDecision]:
        wrong = self._admission.wrong_join(join, self.state, self._unsaved)
        if wrong is not None:
            return self._fault(join.client, sender_of(join, self.state.members), wrong, now)
        if self.phase is Phase.GATHERING:
            self._unsaved.introductions[join.client] = join
            return self._recovery.begin(now) if self.introduced >= self.settings.min_clients else []
        member = self.state.members.get(join.client)
        if member is None:
            return self._take_up(join, Member(awaited=False), now)
        if member.fences(join.nonce, join.after):
            return self._fenced(join, member, now)
        if member.nonce != join.nonce:
            return self._take_up(join, member, now)
        if member.left:  # it left or was evicted, and has not received the message
            return [Publish((self._evicted(member, join.client) if member.evicted else _left(join),))]
        return [Publish(self._enter(join, member))]  # it has asked before

    def _take_up(self, join: Join, member: Member, now: float) -> list[CoordinatorDecision]:
        """Issue the next incarnation to a start. It is saved before it is told, so that no two starts have the same.

        While candidates are scored nothing can be saved, but a client that is waited for has to be answered: its
        earlier start may be dead. Should a kill undo this, its next Join repeats it, and if another start was faster,
        the Joined of that one makes it ask.
        """
        if self.is_scoring and join.client not in self._unsaved.updates:
            self._unsaved.deferred[join.client] = replace(join, moments=NOTHING, labels=())  # nobody asks for them
            return []
        messages = self._enter(join, member)
        taken: list[CoordinatorDecision] = [Publish(messages) if self.is_scoring else Commit(messages)]
        return [*taken, *self._go_on_if_complete(now)]

    def _fenced(self, message: Join | Leave, member: Member, now: float) -> list[CoordinatorDecision]:
        """Tell a start the present incarnation, which it has to name to take the place of the start that holds it."""
        self._expected[message.client] = now + ASKS_AGAIN
        present = member.incarnation
        told = Fenced(client=message.client, nonce=message.nonce, after=message.after, incarnation=present)
        return [Publish((told,))]

    def _enter(self, join: Join, member: Member) -> tuple[FromCoordinator, ...]:
        """Enter a joining client into the ledger, and return the answer."""
        account = member.joined(join.nonce, join.key)
        self._change(join.client, account)
        return (self.state.joined(join, account),)

    def _change(self, client: str, member: Member) -> None:
        """Change a member's account, and keep a copy until it is saved."""
        self._expected.pop(client, None)
        self._unsaved.members[client] = member.copied()
        self.state.members[client] = member

    def _evicted(self, member: Member, client: str) -> Refusal:
        reason = f"evicted: refused for {REFUSALS_IN_A_ROW} entries in a row; start it again when it is repaired"
        reason = BARRED if client in self.state.barred else reason
        entry, incarnation = self.state.entry, member.incarnation
        return Refusal(client=client, incarnation=incarnation, entry=entry, reason=reason, evicted=True)

    def _leave(self, leave: Leave, now: float) -> list[CoordinatorDecision]:
        self._unsaved.introductions.pop(leave.client, None)
        member = self.state.members.get(leave.client)
        if member is None:
            return [Publish((_left(leave),))]
        if member.fences(leave.nonce, leave.after):
            return self._fenced(leave, member, now)
        if member.left:
            return [Publish((_left(leave),))]
        if self.is_scoring:
            self._unsaved.deferred[leave.client] = leave  # the last one that a client sends counts
            return []
        # Its Join may still be on its way; the next incarnation is issued to it, so that this does not bring it back.
        self._change(leave.client, member.gone(leave.nonce))
        return [Commit((_left(leave),)), *self._finished(), *self._go_on_if_complete(now)]

    @property
    def stays_until(self) -> float:
        """Return until when the coordinator does not end: a start that was told the present incarnation may join."""
        return math.inf if self.state.active() else max(self._expected.values(), default=-math.inf)

    def _finished(self) -> list[CoordinatorDecision]:
        stays = any(not member.left for member in reversed(self.state.members.values()))
        return [] if stays else [Finished()]

    @property
    def introduced(self) -> int:
        """Count the clients that wait for the federation to begin."""
        return len(self._unsaved.introductions)

    @property
    def present(self) -> set[str]:
        """Return the members that have neither left nor expired."""
        return {name for name, member in self.state.members.items() if self._is_present(member)}

    def _is_present(self, member: Member) -> bool:
        limit = self.settings.expire_after
        return not member.left and (limit is None or member.missed < limit)

    # --- a round ---------------------------------------------------------------------------------------------------

    def _update(self, update: Update, now: float) -> list[CoordinatorDecision]:
        admitted = self._admission.update(update, self.state, self._unsaved)
        if isinstance(admitted, Refused):
            self._await_if_late(update, admitted)
            return self._refused(admitted, sender_of(update, self.state.members), now)
        self._unsaved.updates[update.client] = admitted
        self._unsaved.logs |= self._admission.logs_of(update)
        self._unsaved.refusals.at_fault.pop(update.client, None)
        return self._go_on_if_complete(now)

    def _await_if_late(self, update: Update, refused: Refused) -> None:
        """Wait for a newcomer from its first update on, even if that was too late: else it could be late for ever."""
        member = self.state.members.get(update.client)
        if member is None or member.awaited or refused.is_fault:
            return
        if self._admission.shows_work(update, member, self.state):
            self._change(update.client, replace(member.copied(), awaited=True))

    def _scores(self, scores: Scores, now: float) -> list[CoordinatorDecision]:
        refused = self._admission.scores(scores, self.state, self._unsaved)
        if refused is not None:
            return self._refused(refused, sender_of(scores, self.state.members), now)
        alarm, update = self._unsaved.pending_alarm, self._unsaved.updates[scores.client]
        if alarm is not None:
            self._unsaved.scores[scores.client] = alarm.closing.grant.scores(scores, update)
        return self._go_on_if_complete(now)

    def _seeds(self, answer: Unmasked, now: float) -> list[CoordinatorDecision]:
        refused = self._admission.seeds(answer, self.state, self._unsaved)
        if refused is not None:
            return self._refused(refused, sender_of(answer, self.state.members), now)
        if self._unsaved.enquiry is not None:
            self._unsaved.enquiry.answers[answer.client] = answer
        return self._go_on_if_complete(now)

    @property
    def waited_for(self) -> set[str]:
        """Return the present clients that have sent no update for the open round, or after an alarm no scores.

        A client that joins later is waited for from its first update on, accepted or too late.
        The coordinator does not wait for a client whose message was refused for its content.
        """
        return set(self._lacking())

    def _lacking(self) -> Iterator[str]:
        """Yield the clients that are waited for, the last members first: mostly one of these is still missing."""
        unsaved, members = self._unsaved, self.state.members
        if unsaved.enquiry is not None:
            yield from (name for name in unsaved.enquiry.lacking if self._may_answer(name))
            return
        have = unsaved.scores if self.is_scoring else unsaved.updates
        asked = unsaved.updates if self.is_scoring else members
        for name in reversed(asked):
            if name in have or name in unsaved.refusals.at_fault:
                continue
            present = self.is_scoring or (members[name].awaited and self._is_present(members[name]))
            if present and self._rounds.kind.not_listed(name, self.state) is None:
                yield name

    def _has_newcomers(self, now: float) -> bool:
        """Tell whether clients that the round waits for can send an update for the next entry only.

        It waits for them as for all others: until the deadline, however often they start.
        """
        if self._deadline_of_round(now):
            return False
        members = self.state.members
        awaited = (name for name, member in members.items() if member.awaited and self._is_present(member))
        return self._rounds.kind.has_newcomers(awaited, self.state)

    def _has_lost(self, now: float) -> bool:
        """Tell whether a start is gone without which no total of the closing round can be told."""
        if self._deadline_of_round(now):
            return False
        alarm, enquiry = self._unsaved.pending_alarm, self._unsaved.enquiry
        pooled = () if alarm is None else alarm.closing.counted.pooled
        counted = pooled if enquiry is None else tuple(enquiry.asked.attempts)
        return any(self._rounds.kind.is_lost(name, self.state) for name in counted)

    def _deadline_of_round(self, now: float) -> bool:
        deadline = self.settings.deadline
        return deadline is not None and now >= self._unsaved.begun[1] + deadline

    def _may_answer(self, name: str) -> bool:
        """Tell whether the start of a client whose masks are asked for is still there."""
        member = self.state.members[name]
        is_there = not member.left and self._rounds.kind.not_listed(name, self.state) is None
        return is_there and name not in self._unsaved.refusals.at_fault

    @property
    def _is_held(self) -> bool:
        """Tell whether an operator holds the open entry; one whose alarm is deliberated is finished first."""
        return self.state.held and self.phase is Phase.COLLECTING

    def _has_something(self) -> bool:
        """Tell whether the round can be closed: it has enough updates, or some were refused."""
        unsaved = self._unsaved
        return bool(unsaved.refusals.at_fault) or self._rounds.kind.is_enough(unsaved.updates, self.state)

    def _go_on_if_complete(self, now: float) -> list[CoordinatorDecision]:
        """Close the round or settle its alarm, unless a client is still waited for."""
        if self._unsaved.open is None or self._is_held:
            return []
        quorum, lacking = self.settings.quorum, any(True for _ in self._lacking())
        if lacking and (self.is_scoring or self.phase is Phase.UNMASKING):
            return []
        if self._has_lost(now):
            return self._recovery.abort(now)
        if self.is_scoring or self.phase is Phase.UNMASKING:
            return self._recovery.close(now)
        if lacking and (quorum is None or len(self._unsaved.updates) < quorum):
            return []
        if self._has_newcomers(now) and (quorum is None or len(self._unsaved.updates) < quorum):
            return self._recovery.abort(now)
        return self._recovery.close(now) if self._has_something() else []

    def _catch_up(self, now: float) -> list[CoordinatorDecision]:
        """Handle the changes of membership that waited for the alarm."""
        waiting, self._unsaved.deferred = self._unsaved.deferred, {}
        ordered, self._unsaved.ordered = self._unsaved.ordered, None
        events = [*(waiting[client] for client in sorted(waiting)), *([] if ordered is None else [ordered])]
        return [decision for event in events for decision in self._take(event, now)]

    # --- refusals --------------------------------------------------------------------------------------------------

    def _refused(self, refused: Refused, incarnation: int | None, now: float) -> list[CoordinatorDecision]:
        if refused.is_fault:
            return self._fault(refused.client, incarnation, refused.reason, now)
        return self._refuse(refused.client, refused.reason)

    def _refuse(self, client: str, reason: str) -> list[CoordinatorDecision]:
        """Refuse a message that comes too late; the client is not at fault."""
        self._unsaved.refusals.count += 1
        return [Refused(bounded(client), reason)]

    def _unusable(self, unusable: Unusable, now: float) -> list[CoordinatorDecision]:
        """Refuse bytes that are no message; several in one entry count against the member whose key they have."""
        client, member = unusable.client, self.state.members.get(unusable.client)
        if member is None or member.left:
            return self._fault(client, None, unusable.reason, now)
        counts = self._unsaved.refusals.unusable
        counts[client] = counts.get(client, 0) + 1
        return self._fault(client, member.incarnation if counts[client] >= UNUSABLE else None, unusable.reason, now)

    def _not_granted(self, client: str, reason: str) -> list[CoordinatorDecision]:
        """Refuse a message of a signer that may not speak for the client: that is no fault of the client's."""
        self._unsaved.refused += 1
        self.state.refused = self._unsaved.refused
        self._unsaved.refusals.count += 1
        if client not in self._told and len(self._told) < MOST_TOLD:
            told = self._told[client] = bounded(reason + self._admission.meant(client, self.state))
            refusal = Refusal(client=client, incarnation=0, entry=self.state.entry, reason=told)
            self._unsaved.refusals.warn(refusal, self.state.members)
        told = self._told.get(client, "")
        return [Refused(bounded(client), told if told.startswith(reason) else bounded(reason), is_fault=True)]

    def _fault(self, client: str, incarnation: int | None, reason: str, now: float) -> list[CoordinatorDecision]:
        """Refuse a message for its content, and continue without the member that sent it."""
        return [self._unsaved.blame(self.state, client, incarnation, reason), *self._go_on_if_complete(now)]


def _message(event: FromClient | Signed) -> FromClient:
    return event.message if isinstance(event, Signed) else event


def _left(message: Join | Leave) -> Left:
    return Left(client=message.client, nonce=message.nonce)


def _in_one_transaction(decisions: list[CoordinatorDecision]) -> list[CoordinatorDecision]:
    """Return the decisions with all messages joined into one transaction, after the refusals.

    A Commit saves the state after the whole event. With two transactions, a kill between them would lose messages
    that the state counts as published. A refused message is kept before the input moves past it.
    """
    publishing = [decision for decision in decisions if isinstance(decision, Commit | Publish)]
    refused: list[CoordinatorDecision] = [decision for decision in decisions if isinstance(decision, Refused)]
    if len(publishing) + len(refused) < 2:
        return decisions
    messages = tuple(message for decision in publishing for message in decision.messages)
    saved = any(isinstance(decision, Commit) for decision in publishing)
    ended: list[CoordinatorDecision] = [decision for decision in decisions if isinstance(decision, Finished)]
    if not publishing:
        return [*refused, *ended]
    return [*refused, Commit(messages) if saved else Publish(messages), *ended]
