"""What a machine may hold: every member, name, message and queue has a bound, whatever is sent."""

from streamfl.machines.client.ledger.published import MODELS
from streamfl.machines.client.machine import Client
from streamfl.machines.coordinator.gate.checks import MOST_HELD, MOST_PARTITIONS
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.round.refusals import STRANGERS
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.protocol.memory import MOST_KEPT
from streamfl.testing.violation import expect


def check_coordinator(machine: Coordinator) -> None:
    """Check all that a coordinator holds.

    Raises
    ------
    Violation
        Something is beyond its bound; the message says what.
    """
    state, unsaved, limits = machine.state, machine._unsaved, machine.settings.limits
    clients = len(state.members.keys() | unsaved.introductions.keys() | unsaved.deferred.keys())
    expect(clients <= limits.clients, f"{clients} clients, where {limits.clients} are the most")
    for what, held in (("updates", unsaved.updates), ("scores", unsaved.scores), ("accounts", unsaved.members)):
        expect(held.keys() <= state.members.keys(), f"{what} of clients that are no members")
    refusals = unsaved.refusals
    told = len(state.members) + STRANGERS
    for what, count in (("announced", len(refusals.announced)), ("unannounced", len(refusals.unannounced))):
        expect(count <= told, f"{count} {what} refusals, where {told} are the most")
    expect(refusals.at_fault.keys() | refusals.unusable.keys() <= state.members.keys(), "refusals of no member")
    names = state.agreement.registry if state.agreement is not None else None
    if names is not None:
        expect(len(names.features) <= limits.features, f"{len(names.features)} features")
        expect(len(names.labels) <= limits.labels, f"{len(names.labels)} labels")
    for name, member in state.members.items():
        _check_member(name, member, len(names.labels) if names is not None else 0)


def _check_member(name: str, member: Member, labels: int) -> None:
    most = MOST_HELD * max(1, labels)
    expect(len(member.held) <= most, f"{name} has {len(member.held)} records held out")
    expect(len(member.positions) <= MOST_PARTITIONS, f"{name} has {len(member.positions)} partitions")


def check_client(machine: Client) -> None:
    """Check what a client holds of what it has received, and of its records.

    Raises
    ------
    Violation
        Something is beyond its bound; the message says what.
    """
    published = machine._models.published
    expect(len(published.slots) <= MODELS, f"{len(published.slots)} models")
    expect(published._most <= MOST_KEPT, f"{published._most} bytes of models")
    expect(len(published.registries.versions) <= MODELS, "many registries")
