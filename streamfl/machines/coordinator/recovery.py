"""Recovery from a message that makes something raise: return to the last Commit, and continue without the message.

A copy of the state before every message would cost more than the round. The log has the state of the last Commit, and
all that changes between two Commits is small: `Unsaved`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from streamfl.errors import BrokenInvariantError
from streamfl.learning.profiles.base import Deliberation
from streamfl.machines.coordinator.close.rounds import Rounds
from streamfl.machines.coordinator.culprits import Culprits, without_culprits
from streamfl.machines.coordinator.gate.senders import sender_of
from streamfl.machines.coordinator.round.unsaved import PendingAlarm, Unsaved
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.decisions import CoordinatorDecision, Refused
from streamfl.protocol.messages import Join, Scores, Update

Decisions = list[CoordinatorDecision]
GoOn = Callable[[float], Decisions]


@dataclass
class Recovery:
    """Continues without the messages that make something raise.

    Parameters
    ----------
    rounds
        The rounds, whose steps may raise.
    last_saved
        Returns the state of the last Commit, or a new one. Without it exceptions are raised as they are.
    catch_up
        Handles the changes of membership that waited for the alarm.
    """

    rounds: Rounds
    last_saved: Callable[[], CoordinatorState] | None
    catch_up: GoOn

    def restore(self, kept: Unsaved) -> None:
        """Restore the state of the last Commit, and the changes since then."""
        if self.last_saved is None:
            raise BrokenInvariantError("there is no state to continue from")
        keys = self.rounds.state.keys
        self.rounds.state = state = self.last_saved()
        state.keys = dict(keys)
        self.rounds.unsaved = unsaved = kept.copied()
        state.refused = unsaved.refused
        state.members.update({client: member.copied() for client, member in unsaved.members.items()})
        if state.agreement is not None:
            self.rounds.keep_between()
        if unsaved.pending_alarm is not None:
            deliberation = self._deliberated_again(unsaved.pending_alarm)
            unsaved.pending_alarm = replace(unsaved.pending_alarm, deliberation=deliberation)

    def _deliberated_again(self, pending_alarm: PendingAlarm) -> Deliberation:
        """Take the profile of the last Commit to the same point of its deliberation; the result is the same."""
        profile, observed = self.rounds.state.profile, pending_alarm.closing.observed
        alarm = None if observed is None else self.rounds.ordered(profile.close(observed), observed)
        if observed is None or alarm is None:
            raise BrokenInvariantError("a round that had an alarm has none")
        deliberation = profile.deliberate(alarm, observed, self.rounds.untrained())
        for answer in pending_alarm.answers:
            deliberation.ask()
            deliberation.answer(answer)
        deliberation.ask()
        return deliberation

    def begin(self, now: float) -> Decisions:
        """Open round 1 with the clients that wait. Joins that make it raise are refused, and more are waited for."""
        kept = self.rounds.unsaved.copied()
        joins = [kept.introductions[name] for name in sorted(kept.introductions)]
        try:
            return self.rounds.begin(joins, now)
        except BrokenInvariantError:
            raise
        except Exception:  # anything that the numbers in a Join make raise
            if self.last_saved is None:
                raise

        def begin(joins: list[Join], culprits: Culprits[Join], *, wait: bool = False) -> Decisions:
            there = {join.client: join for join in joins}
            refused = self._without(replace(kept, introductions=there), culprits)
            return refused if wait or not joins else [*refused, *self.rounds.begin(joins, now)]

        begun, culprits = without_culprits(joins, begin)
        wrong = {join.client for join, _ in culprits}
        left = [join for join in joins if join.client not in wrong]
        return begun if len(left) >= self.rounds.settings.min_clients else begin(left, culprits, wait=True)

    def close(self, now: float) -> Decisions:
        """Close the open round, or settle its alarm; if that raises, without the messages that cause it."""
        scoring = self.rounds.unsaved.pending_alarm is not None
        go_on = self.rounds.settle if scoring else self.rounds.close
        if self.last_saved is None:
            return self._caught_up(go_on, now)
        kept = self.rounds.unsaved.copied()
        try:
            return self._finite(go_on, now)
        except BrokenInvariantError:
            raise
        except Exception as error:
            kept.deferred = {}  # these clients ask again; also, they may be the cause
            if not self.rounds.kind.finds_culprits:
                return self._aborted(kept, error, now)
        if not scoring:
            return self._closed(kept, self.rounds.close, now)
        try:
            return self._settled(kept, now)
        except BrokenInvariantError:
            raise
        except Exception:
            return self._closed(replace(kept, pending_alarm=None, scores={}), self.rounds.close_without_scores, now)

    def abort(self, now: float) -> Decisions:
        """Close the entry without learning anything, as if it had raised no alarm."""
        kept = self.rounds.unsaved.copied()
        if kept.pending_alarm is not None and self.last_saved is not None:
            self.restore(replace(kept, enquiry=None, pending_alarm=None, scores={}))
        return self._caught_up(self.rounds.abort, now)

    def _aborted(self, kept: Unsaved, error: Exception, now: float) -> Decisions:
        """Close the entry without learning anything: no message tells whose numbers are the cause."""
        self.restore(replace(kept, enquiry=None, pending_alarm=None, scores={}))
        return [Refused("", unhandled(error)), *self._finite(self.rounds.abort, now)]

    def _finite(self, go_on: GoOn, now: float) -> Decisions:
        decisions = self._caught_up(go_on, now)
        self.rounds.require_finite()
        return decisions

    def _caught_up(self, go_on: GoOn, now: float) -> Decisions:
        decisions = go_on(now)
        scoring = self.rounds.unsaved.pending_alarm is not None
        return decisions if scoring else [*decisions, *self.catch_up(now)]

    def _closed(self, kept: Unsaved, close: GoOn, now: float) -> Decisions:
        """Close the round without the updates that make it raise."""

        def attempt(updates: list[Update], culprits: Culprits[Update]) -> Decisions:
            there = {update.client: update for update in updates}
            return [*self._without(replace(kept, updates=there), culprits), *self._finite(close, now)]

        try:
            return without_culprits([kept.updates[client] for client in sorted(kept.updates)], attempt)[0]
        except BrokenInvariantError:
            raise
        except Exception as error:
            raise BrokenInvariantError(f"a round without updates cannot be closed: {error!r}") from error

    def _settled(self, kept: Unsaved, now: float) -> Decisions:
        """Settle the alarm without the scores that make it raise."""

        def attempt(scores: list[Scores], culprits: Culprits[Scores]) -> Decisions:
            there = {part.client: part for part in scores}
            return [*self._without(replace(kept, scores=there), culprits), *self._finite(self.rounds.settle, now)]

        return without_culprits([kept.scores[client] for client in sorted(kept.scores)], attempt)[0]

    def _without(self, kept: Unsaved, culprits: Culprits[Join] | Culprits[Update] | Culprits[Scores]) -> Decisions:
        """Restore the state, and refuse the messages that were found to make something raise."""
        self.restore(kept)
        state, unsaved = self.rounds.state, self.rounds.unsaved
        return [
            unsaved.blame(state, part.client, sender_of(part, state.members), unhandled(error))
            for part, error in culprits
        ]


def unhandled(error: Exception) -> str:
    """Return the reason to refuse a message that made something raise."""
    return f"could not be handled: {type(error).__name__}: {error}"
