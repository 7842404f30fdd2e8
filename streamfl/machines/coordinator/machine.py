"""The coordinator machine: it handles one event after another, and returns decisions.

Theory of operation. Everything that must survive a kill is in `CoordinatorState`. It changes only together with a
Commit: a ledger entry, or a change of membership. What a round has collected so far is in `Unsaved`: after a kill the
coordinator opens the round again from the last Commit, clients send their messages again, and the step is repeated.
If an alarm has candidates without scores, the round waits in a second phase for Scores. Membership changes wait too,
so that no Commit falls between the profile's alarm and its restart. Joins that arrive together are answered together:
each Commit saves all models, and what clients need for the open round is the same for all.

A message goes one way. `admission` lets it in, before anything changes, and `Unsaved` keeps it. `progress` finds the
round ready, and `close.rounds` closes it. What was decided goes out as one `transaction`. No message can end the
process or damage the state: if handling one raises, `recovery` returns to the last Commit and continues without it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from streamfl.arrays import FloatArray
from streamfl.bounds import REFUSALS_IN_A_ROW, bounded
from streamfl.errors import BrokenInvariantError
from streamfl.machines.coordinator.close.rounds import abort
from streamfl.machines.coordinator.commands import carry_out, wrong_command
from streamfl.machines.coordinator.gate.admission import BARRED, Admission, Denial, Grants
from streamfl.machines.coordinator.gate.partitions import LogEnds, LogIds, PartitionLogs
from streamfl.machines.coordinator.gate.senders import sender_of
from streamfl.machines.coordinator.opening import messages, open_round
from streamfl.machines.coordinator.phase import Phase
from streamfl.machines.coordinator.progress import close_if_due, close_if_ready, closes_at, is_present, waited_for
from streamfl.machines.coordinator.recovery import Recovery, reason_unhandled
from streamfl.machines.coordinator.round.refusals import UNUSABLE
from streamfl.machines.coordinator.round.unsaved import Unsaved
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.machines.coordinator.standing import Standing
from streamfl.machines.coordinator.transaction import in_one_transaction, note_saved
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
    Scores,
    Update,
)
from streamfl.protocol.messages.decision_rule import LIKELIEST, DecisionRule
from streamfl.protocol.moments import NOTHING
from streamfl.protocol.registry import Registry

# Seconds between two separate announcements of refusals: each saves the whole state.
PAUSE = 1.0

# Seconds in which a start that was told the present incarnation is expected to ask again: until then nothing ends.
ASKS_AGAIN = 10.0

# The most clients that are warned of a signer that may not speak for them; others are only counted.
MOST_WARNED = 1000


class Coordinator:
    """The coordinator of a federation.

    Parameters
    ----------
    state
        A new state, or the one of the last Commit.
    recover
        Returns the state of the last Commit, or a new one, from which to continue after a message that could not be
        handled. Without it, what the message raises is raised.

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
        self._standing = Standing(settings, state, Unsaved(refused=state.refused, saved=state.refused))
        self._recovery = Recovery(self._standing, recover)
        self._admission = Admission(settings, self._standing.kind, PartitionLogs(log_ends, log_ids), grants)
        self._announced: float | None = None
        self._asked: dict[tuple[str, str], Join | Leave] = {}  # by start, its last question since the last `answer`
        self._singly = False  # one of them could not be answered, so each is answered for itself
        self._expected: dict[str, float] = {}  # members of which a start is to ask again, and until when
        self._warned: dict[str, str] = {}  # why a signer may not speak for them, by client

    @property
    def settings(self) -> CoordinatorSettings:
        """Return how it works."""
        return self._standing.settings

    @property
    def state(self) -> CoordinatorState:
        """Return the state that every Commit saves."""
        return self._standing.state

    @property
    def _unsaved(self) -> Unsaved:
        return self._standing.unsaved

    @property
    def phase(self) -> Phase:
        """Return the phase, derived from the state."""
        return self._standing.phase

    @property
    def is_scoring(self) -> bool:
        """Tell whether an alarm of the open round waits for scores, or for what has to be asked about these."""
        return self._standing.is_scoring

    def start(self, now: float) -> list[CoordinatorDecision]:
        """Begin, or after a kill open the round of the last Commit again, under a number that is saved.

        Raises
        ------
        PeerError
            The state's models do not fit its registry: the saved state is damaged.
        """
        if self.phase is Phase.GATHERING:
            return []
        self._standing.drop_other_online_state()
        resumes = self._standing.kind.resumes
        self.state.resumed += resumes
        open_round(self._standing, now)
        begun = [Commit(messages(self._standing, now))] if resumes else abort(self._standing, now)
        return note_saved([*begun, *self._finish()], self._unsaved)

    def digest(self) -> str:
        """Return the fingerprint of the model that serves."""
        return self._standing.open_round.digest(self.state)

    def serving(self) -> tuple[Registry, FloatArray]:
        """Return the registry and the weights of the model that serves.

        Raises
        ------
        PeerError
            No round has been opened.
        """
        return self.state.registry, self._standing.open_round.serving

    @property
    def decision(self) -> DecisionRule:
        """Return which label answers in the open round; the likeliest if none is open."""
        return LIKELIEST if self._unsaved.open is None else self._unsaved.open.message.decision

    def branches(self) -> dict[str, FloatArray]:
        """Return the weights of the model of the branch of each client that has one, by client."""
        return {} if self._unsaved.open is None else self._unsaved.open.branches

    def branch_of(self) -> dict[str, str]:
        """Return the name of the branch of each client that has one, by client."""
        return {} if self._unsaved.open is None else self._unsaved.open.branch_of

    @property
    def waiting_names(self) -> Mapping[str, int]:
        """Return, by client, how many of its names had to wait in the last round: see `names.affordable`."""
        return self._unsaved.waiting

    # --- time ------------------------------------------------------------------------------------------------------

    @property
    def wakes_at(self) -> float | None:
        """Return when the coordinator wants a Tick: at its deadline, or when refusals may be announced again."""
        moments = [at for at in (closes_at(self._standing), self._announces_at) if at is not None]
        return min(moments, default=None)

    @property
    def _announces_at(self) -> float | None:
        """Return when refusals may be announced separately; None if there are none."""
        unsaved = self._unsaved
        if not unsaved.refusals.unannounced and (self.is_scoring or unsaved.refused == unsaved.saved):
            return None
        return -math.inf if self._announced is None else self._announced + PAUSE

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: CoordinatorEvent, now: float) -> list[CoordinatorDecision]:
        """Handle one event and return the decisions, in order.

        Returns
        -------
        Refusals, then at most one Commit or Publish with all messages: an event is one transaction.
        """
        if self._recovery.last_saved is None:
            return in_one_transaction(self._take(event, now), self._unsaved)
        before = self._standing.unsaved.copy()
        try:
            return in_one_transaction(self._take(event, now), self._unsaved)
        except BrokenInvariantError:
            raise
        except Exception as error:  # anything that a message makes raise: the message is refused
            if before.changes_wait and not self._unsaved.changes_wait:  # one of these is the cause; clients ask again
                self._recovery.restore(before.without_changes())
                return self.handle(event, now)
            if isinstance(event, Tick):
                raise
            self._recovery.restore(before)
            if isinstance(event, Join | Leave | Signed) and isinstance(asked := _message(event), Join | Leave):
                self._asked.pop((asked.client, asked.nonce), None)
            sender = None if isinstance(event, Unusable | Ordered) else sender_of(_message(event), self.state.members)
            return self._refuse_unhandled(event.client, sender, error, now)

    def _take(self, event: CoordinatorEvent, now: float) -> list[CoordinatorDecision]:
        """Take one event, and what follows from it."""
        return self._follow(self._step(event, now), now)

    def _follow(self, decisions: list[CoordinatorDecision], now: float) -> list[CoordinatorDecision]:
        """After a step close what is ready, and make the changes that waited for an alarm if it is settled.

        Returns
        -------
        The decisions of the step, and those that follow.
        """
        decisions = decisions + close_if_ready(self._recovery, now)
        while self._unsaved.changes_wait and not self.is_scoring:
            for change in self._unsaved.take_changes():
                decisions += [*self._change_membership(change, now), *close_if_ready(self._recovery, now)]
        return decisions

    def _step(self, event: CoordinatorEvent, now: float) -> list[CoordinatorDecision]:
        """Take an event: a client's message, if it passes the gate."""
        match event:
            case Tick():
                return close_if_due(self._recovery, now)
            case Ordered():
                return self._obey(event, now)
        admitted = self._admission.admit(event, self.state, self._unsaved)
        match admitted:
            case Denial():
                return self._deny(admitted, event)
            case Join() | Leave():
                return self._take_question(admitted, event.signer if isinstance(event, Signed) else None, now)
            case Update():
                if self.state.members[admitted.client].missed:  # it was too slow for the last round as well
                    self._unsaved.deadline = self._unsaved.deadline.with_late(admitted.client)
                self._unsaved.collect(admitted, self._admission.logs.ids_of(admitted), now)
            case Scores():
                self._unsaved.collect_scores(admitted)
            case answer:
                self._unsaved.collect_answer(answer)
        return []

    def _change_membership(self, change: Join | Leave | Ordered, now: float) -> list[CoordinatorDecision]:
        """Make a change that has waited, and has passed the gate."""
        match change:
            case Join():
                return self._take_question(change, None, now)
            case Leave():
                return self._leave(change, now)
            case Ordered():
                return self._obey(change, now)

    def _obey(self, ordered: Ordered, now: float) -> list[CoordinatorDecision]:
        """Carry out a command; while candidates are scored it waits, as all changes of membership do."""
        wrong = wrong_command(ordered.command, self.state, self.settings.limits)
        if wrong is not None or self._unsaved.ordered is not None:
            return [self._fault("", None, wrong or "another command waits to be carried out")]
        if self.is_scoring:
            self._unsaved.ordered = ordered
            return []
        client = ordered.client
        account = carry_out(ordered, self.state)
        told: list[FromCoordinator] = [] if self.state.changed is None else [self.state.changed]
        if client in self.state.barred:
            self._unsaved.withdraw(client)
        if ordered.command.action == "resume" and self._unsaved.open is not None:
            self._unsaved.restart_deadline(now)
        if account is not None:
            self._change(client, account)
        if account is None or ordered.command.action == "reset":  # the client is to come back
            return [Commit(tuple(told))]
        told.append(self._eviction(account, client))
        return [Commit(tuple(told)), *self._finish()]

    @property
    def has_questions(self) -> bool:
        """Tell whether Joins or Leaves wait for `answer`."""
        return bool(self._asked)

    def answer(self, now: float) -> list[CoordinatorDecision]:
        """Answer the Joins and Leaves that have come, in one transaction; called until none waits.

        If that raises, they are answered one by one, so that only those are refused that cannot be answered.
        """
        asked = [*self._asked.values()][: 1 if self._singly else None]
        for question in asked:
            del self._asked[question.client, question.nonce]
        self._singly = self._singly and bool(self._asked)
        before = self._standing.unsaved.copy()
        try:
            return in_one_transaction(self._answers(asked, now), self._unsaved)
        except BrokenInvariantError:
            raise
        except Exception as error:  # as in `handle`
            if self._recovery.last_saved is None:
                raise
            self._recovery.restore(before)
            if len(asked) > 1:
                self._asked = {(question.client, question.nonce): question for question in asked} | self._asked
                self._singly = True
                return []
            (question,) = asked
            sender = sender_of(question, self.state.members)
            return self._refuse_unhandled(question.client, sender, error, now)

    def _answers(self, asked: Sequence[Join | Leave], now: float) -> list[CoordinatorDecision]:
        """Return the answers to some questions; after them comes what clients that join need for the open round."""
        decisions = [one for question in asked for one in self._follow(self._answer(question, now), now)]
        told = (message for one in decisions if isinstance(one, Commit | Publish) for message in one.messages)
        return (
            [*decisions, Publish(messages(self._standing, now))]
            if any(isinstance(one, Joined) for one in told)
            else decisions
        )

    def _answer(self, question: Join | Leave, now: float) -> list[CoordinatorDecision]:
        """Answer a Leave; or a Join, if there is still room for its client."""
        if isinstance(question, Leave):
            return self._leave(question, now)
        wrong = self._admission.wrong_join(question, self.state, self._unsaved)
        if wrong is not None:
            return [self._fault(question.client, sender_of(question, self.state.members), wrong)]
        return self._join(question, now)

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
        return [Publish(refusals)] if self.is_scoring else note_saved([Commit(refusals)], self._unsaved)

    # --- membership ------------------------------------------------------------------------------------------------

    def _take_question(self, question: Join | Leave, signer: str | None, now: float) -> list[CoordinatorDecision]:
        """Take a Join, which belongs to its signer, or a Leave; answer it at once if the federation has not begun.

        Afterwards it is kept until all have been read that have arrived with it, as a host sends those of all its
        clients together; the last one of each start counts.
        """
        client, nonce = question.client, question.nonce
        member = self.state.members.get(client)
        is_fenced = member is not None and member.fences(nonce, question.after)
        if isinstance(question, Join) and signer is not None and not is_fenced:
            self.state.keys[client] = signer
        if self.phase is Phase.GATHERING:
            return self._answer(question, now)
        self._asked.pop((client, nonce), None)  # it comes after what this start asked before
        self._asked[client, nonce] = question
        return []

    def _join(self, join: Join, now: float) -> list[CoordinatorDecision]:
        if self.phase is Phase.GATHERING:
            self._unsaved.introduce(join)
            return self._recovery.begin(now) if self.waiting_clients >= self.settings.min_clients else []
        member = self.state.members.get(join.client)
        if member is None:
            return self._take_up(join, Member(awaited=False), now)
        if member.fences(join.nonce, join.after):
            return self._fence(join, member, now)
        if member.nonce != join.nonce:
            return self._take_up(join, member, now)
        if member.left:  # it left or was evicted, and has not received the message
            return [Publish((self._eviction(member, join.client) if member.evicted else _goodbye(join),))]
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
        answer = self._enter(join, member)
        taken: list[CoordinatorDecision] = [Publish(answer) if self.is_scoring else Commit(answer)]
        return taken

    def _fence(self, message: Join | Leave, member: Member, now: float) -> list[CoordinatorDecision]:
        """Tell a start the present incarnation, which it has to name to take the place of the start that holds it."""
        self._expected[message.client] = now + ASKS_AGAIN
        present = member.incarnation
        told = Fenced(client=message.client, nonce=message.nonce, after=message.after, incarnation=present)
        return [Publish((told,))]

    def _enter(self, join: Join, member: Member) -> tuple[FromCoordinator, ...]:
        """Enter a joining client into the ledger, and return the answer."""
        account = member.after_join(join.nonce, join.key, is_waited_for=self.settings.deadline is not None)
        self._change(join.client, account)
        return (self.state.answer(join, account),)

    def _change(self, client: str, member: Member) -> None:
        """Change a member's account, and keep a copy until it is saved."""
        self._expected.pop(client, None)
        self._unsaved.members[client] = member.copy()
        self.state.members[client] = member

    def _eviction(self, member: Member, client: str) -> Refusal:
        reason = f"evicted: refused for {REFUSALS_IN_A_ROW} entries in a row; start it again when it is repaired"
        reason = BARRED if client in self.state.barred else reason
        entry, incarnation = self.state.entry, member.incarnation
        return Refusal(client=client, incarnation=incarnation, entry=entry, reason=reason, evicted=True)

    def _leave(self, leave: Leave, now: float) -> list[CoordinatorDecision]:
        self._unsaved.withdraw(leave.client)
        member = self.state.members.get(leave.client)
        if member is None:
            return [Publish((_goodbye(leave),))]
        if member.fences(leave.nonce, leave.after):
            return self._fence(leave, member, now)
        if member.left:
            return [Publish((_goodbye(leave),))]
        if self.is_scoring:
            self._unsaved.deferred[leave.client] = leave  # the last one that a client sends counts
            return []
        # Its Join may still be on its way; the next incarnation is issued to it, so that this does not bring it back.
        self._change(leave.client, member.after_leave(leave.nonce))
        return [Commit((_goodbye(leave),)), *self._finish()]

    @property
    def stays_until(self) -> float:
        """Return until when the coordinator does not end: a start that was told the present incarnation may join."""
        return math.inf if self.state.active() else max(self._expected.values(), default=-math.inf)

    def _finish(self) -> list[CoordinatorDecision]:
        stays = any(not member.left for member in reversed(self.state.members.values()))
        return [] if stays else [Finished()]

    @property
    def waiting_clients(self) -> int:
        """Count the clients that wait for the federation to begin."""
        return len(self._unsaved.introductions)

    @property
    def present(self) -> set[str]:
        """Return the members that have neither left nor expired."""
        return {name for name, member in self.state.members.items() if is_present(self._standing, member)}

    @property
    def waits_from(self) -> float:
        """Return from when on the open round waits for updates, in seconds; -inf if none is open."""
        return -math.inf if self._unsaved.open is None else self._unsaved.open.waited_from

    @property
    def waited_for(self) -> set[str]:
        """Return the clients that the open round waits for: see `progress.waited_for`."""
        return set(waited_for(self._standing))

    # --- refusals --------------------------------------------------------------------------------------------------

    def _deny(self, denial: Denial, event: FromClient | Signed | Unusable) -> list[CoordinatorDecision]:
        client, reason = denial.client, denial.reason
        match denial.how:
            case "signer":
                return self._not_granted(client, reason)
            case "unusable":
                return [self._unusable(client, reason)]
            case "fault":
                return [self._fault(client, denial.incarnation, reason)]
            case "late":
                self._note_late(event)
                self._unsaved.refusals.count += 1
                self._unsaved.refusals.late += 1
                return [Refused(bounded(client), reason)]

    def _note_late(self, event: FromClient | Signed | Unusable) -> None:
        """Note an update that was too late; wait for a newcomer from its first one on: else all could be too late."""
        member, update = self.state.members.get(event.client), event.message if isinstance(event, Signed) else event
        if member is None or not isinstance(update, Update):
            return
        if not self._admission.shows_work(update, member, self.state):
            return  # an old one, perhaps sent again by anybody
        if not member.left and event.client not in self._unsaved.updates:
            self._unsaved.deadline = self._unsaved.deadline.with_late(event.client)
        if not member.awaited:
            self._change(event.client, replace(member.copy(), awaited=True))

    def _unusable(self, client: str, reason: str) -> Refused:
        """Refuse bytes that are no message; several in one entry count against the member whose key they have."""
        member = self.state.members.get(client)
        if member is None or member.left:
            return self._fault(client, None, reason)
        counts = self._unsaved.refusals.unusable
        counts[client] = counts.get(client, 0) + 1
        return self._fault(client, member.incarnation if counts[client] >= UNUSABLE else None, reason)

    def _not_granted(self, client: str, reason: str) -> list[CoordinatorDecision]:
        """Refuse a message of a signer that may not speak for the client: that is no fault of the client's."""
        self._unsaved.refused += 1
        self.state.refused = self._unsaved.refused
        self._unsaved.refusals.count += 1
        if client not in self._warned and len(self._warned) < MOST_WARNED:
            told = self._warned[client] = bounded(reason + self._admission.suggestion(client, self.state))
            refusal = Refusal(client=client, incarnation=0, entry=self.state.entry, reason=told)
            self._unsaved.refusals.warn(refusal, self.state.members)
        told = self._warned.get(client, "")
        return [Refused(bounded(client), told if told.startswith(reason) else bounded(reason), is_fault=True)]

    def _fault(self, client: str, incarnation: int | None, reason: str) -> Refused:
        """Refuse a message for its content; the round does not wait for the member that sent it."""
        return self._unsaved.blame(self.state, client, incarnation, reason)

    def _refuse_unhandled(
        self, client: str, incarnation: int | None, error: Exception, now: float
    ) -> list[CoordinatorDecision]:
        """Refuse a message that made something raise, and continue without it."""
        refused = self._fault(client, incarnation, reason_unhandled(error))
        return in_one_transaction(self._follow([refused], now), self._unsaved)


def _message(event: FromClient | Signed) -> FromClient:
    return event.message if isinstance(event, Signed) else event


def _goodbye(message: Join | Leave) -> Left:
    return Left(client=message.client, nonce=message.nonce)
