"""Recovery from a message that makes something raise: return to the last Commit, and continue without the message.

A copy of the state before every message would cost more than the round. The log has the state of the last Commit, and
all that changes between two Commits is small: `Unsaved`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from streamfl.errors import BrokenInvariantError, PeerError
from streamfl.learning.profiles.base import Deliberation
from streamfl.machines.coordinator.close import rounds
from streamfl.machines.coordinator.culprits import Culprits, without_culprits
from streamfl.machines.coordinator.gate.senders import sender_of
from streamfl.machines.coordinator.opening import begin
from streamfl.machines.coordinator.round.unsaved import PendingAlarm, Unsaved
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.standing import Standing
from streamfl.protocol.decisions import CoordinatorDecision, Refused
from streamfl.protocol.messages import Join, Scores, Update

Decisions = list[CoordinatorDecision]
Step = Callable[[Standing, float], Decisions]


@dataclass
class Recovery:
    """Continues without the messages that make something raise."""

    standing: Standing  # where the coordinator stands
    # Returns the state of the last Commit, or a new one. Without it exceptions are raised as they are.
    last_saved: Callable[[], CoordinatorState] | None

    def restore(self, kept: Unsaved) -> None:
        """Restore the state of the last Commit, and the changes since then."""
        if self.last_saved is None:
            raise BrokenInvariantError("there is no state to continue from")
        standing = self.standing
        keys = standing.state.keys
        standing.state = state = self.last_saved()
        state.keys = dict(keys)
        standing.unsaved = unsaved = kept.copy()
        state.refused = unsaved.refused
        state.members.update({client: member.copy() for client, member in unsaved.members.items()})
        if state.agreement is not None:
            standing.drop_other_online_state()
        if unsaved.pending_alarm is not None:
            deliberation = self._deliberate_again(unsaved.pending_alarm)
            unsaved.pending_alarm = replace(unsaved.pending_alarm, deliberation=deliberation)

    def _deliberate_again(self, pending_alarm: PendingAlarm) -> Deliberation:
        """Take the profile of the last Commit to the same point of its deliberation; the result is the same."""
        state, observed = self.standing.state, pending_alarm.closing.observed
        alarm = None if observed is None else state.alarm_or_order(state.profile.close(observed))
        if observed is None or alarm is None:
            raise BrokenInvariantError("a round that had an alarm has none")
        deliberation = state.profile.deliberate(alarm, observed, self.standing.untrained)
        for answer in pending_alarm.answers:
            deliberation.ask()
            deliberation.answer(answer)
        deliberation.ask()
        return deliberation

    def begin(self, now: float) -> Decisions:
        """Open round 1 with the clients that wait. Joins that make it raise are refused, and more are waited for."""
        kept = self.standing.unsaved.copy()
        joins = [kept.introductions[name] for name in sorted(kept.introductions)]
        try:
            return begin(self.standing, joins, now)
        except BrokenInvariantError:
            raise
        except Exception:  # anything that the numbers in a Join make raise
            if self.last_saved is None:
                raise

        def attempt(joins: list[Join], culprits: Culprits[Join], *, wait: bool = False) -> Decisions:
            there = {join.client: join for join in joins}
            left = replace(kept, introductions=there, introduced=sum(join.memory for join in joins))
            refused = self._without(left, culprits)
            return refused if wait or not joins else [*refused, *begin(self.standing, joins, now)]

        begun, culprits = without_culprits(joins, attempt)
        wrong = {join.client for join, _ in culprits}
        left = [join for join in joins if join.client not in wrong]
        return begun if len(left) >= self.standing.settings.min_clients else attempt(left, culprits, wait=True)

    def close(self, now: float) -> Decisions:
        """Close the open round, or settle its alarm; if that raises, without the messages that cause it."""
        scoring = self.standing.is_scoring
        step = rounds.settle if scoring else rounds.close
        if self.last_saved is None:
            return step(self.standing, now)
        kept = self.standing.unsaved.copy()
        try:
            return self._finite(step, now)
        except BrokenInvariantError:
            raise
        except Exception as error:
            if not self.standing.kind.finds_culprits:
                return self._abort_instead(kept, error, now)
        if not scoring:
            return self._close_without_culprits(kept, rounds.close, now)
        try:
            return self._settle_without_culprits(kept, now)
        except BrokenInvariantError:
            raise
        except Exception:
            return self._close_without_culprits(
                replace(kept, pending_alarm=None, scores={}), rounds.close_without_scores, now
            )

    def abort(self, now: float) -> Decisions:
        """Close the entry without learning anything, as if it had raised no alarm."""
        kept = self.standing.unsaved.copy()
        if kept.pending_alarm is not None and self.last_saved is not None:
            self.restore(replace(kept, enquiry=None, pending_alarm=None, scores={}))
        return rounds.abort(self.standing, now)

    def _abort_instead(self, kept: Unsaved, error: Exception, now: float) -> Decisions:
        """Close the entry without learning anything: no message tells whose numbers are the cause."""
        self.restore(replace(kept, enquiry=None, pending_alarm=None, scores={}))
        return [Refused("", reason_unhandled(error)), *self._finite(rounds.abort, now)]

    def _finite(self, step: Step, now: float) -> Decisions:
        """Take a step; if what clients continue from is not finite, the message that causes it is found and refused.

        Raises
        ------
        PeerError
            Names what is not finite.
        """
        decisions = step(self.standing, now)
        wrong = self.standing.open_round.not_finite(self.standing.state)
        if wrong is not None:
            raise PeerError(f"{wrong} that is not finite")
        return decisions

    def _close_without_culprits(self, kept: Unsaved, close: Step, now: float) -> Decisions:
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

    def _settle_without_culprits(self, kept: Unsaved, now: float) -> Decisions:
        """Settle the alarm without the scores that make it raise."""

        def attempt(scores: list[Scores], culprits: Culprits[Scores]) -> Decisions:
            there = {part.client: part for part in scores}
            return [*self._without(replace(kept, scores=there), culprits), *self._finite(rounds.settle, now)]

        return without_culprits([kept.scores[client] for client in sorted(kept.scores)], attempt)[0]

    def _without(self, kept: Unsaved, culprits: Culprits[Join] | Culprits[Update] | Culprits[Scores]) -> Decisions:
        """Restore the state, and refuse the messages that were found to make something raise."""
        self.restore(kept)
        state, unsaved = self.standing.state, self.standing.unsaved
        return [
            unsaved.blame(state, part.client, sender_of(part, state.members), reason_unhandled(error))
            for part, error in culprits
        ]


def reason_unhandled(error: Exception) -> str:
    """Return the reason to refuse a message that made something raise."""
    return f"could not be handled: {type(error).__name__}: {error}"
