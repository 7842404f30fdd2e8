"""What one event decides becomes one transaction."""

from dataclasses import replace

from streamfl.machines.coordinator.round.unsaved import Unsaved
from streamfl.protocol.decisions import Commit, CoordinatorDecision, Finished, Publish, Refused


def in_one_transaction(decisions: list[CoordinatorDecision], unsaved: Unsaved) -> list[CoordinatorDecision]:
    """Return decisions as one transaction, which also announces earlier refusals; note what it saves."""
    if not decisions:  # most updates: others are still waited for
        return decisions
    joined = _join(decisions)
    if unsaved.refusals.unannounced:
        joined = [_with_refusals(decision, unsaved) for decision in joined]
    return note_saved(joined, unsaved)


def note_saved(decisions: list[CoordinatorDecision], unsaved: Unsaved) -> list[CoordinatorDecision]:
    """Note that the state is saved, if a Commit is among the decisions."""
    if any(isinstance(decision, Commit) for decision in decisions):
        unsaved.members, unsaved.saved = {}, unsaved.refused
    return decisions


def _with_refusals(decision: CoordinatorDecision, unsaved: Unsaved) -> CoordinatorDecision:
    if not isinstance(decision, Commit | Publish):
        return decision
    return replace(decision, messages=(*unsaved.refusals.take(), *decision.messages))


def _join(decisions: list[CoordinatorDecision]) -> list[CoordinatorDecision]:
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
