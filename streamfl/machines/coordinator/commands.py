"""What an operator's command changes. Commands are numbered, so that none counts twice.

A command takes effect at once where it can only let somebody in. An eviction counts from the next entry on for what
the client has sent, and the open round no longer waits for it. A restart takes place when the open round closes.
"""

from dataclasses import replace

from streamfl.bounds import Limits, is_name
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.events import Ordered
from streamfl.protocol.messages import Command, MemberChanged

# Actions about the federation.
OF_ALL = frozenset({"hold", "resume", "restart"})


def wrong_command(command: Command, state: CoordinatorState, limits: Limits) -> str | None:
    """Return why a command has no effect, or None.

    >>> from streamfl.bounds import NAMED
    >>> from streamfl.learning.profiles.experts import Experts
    >>> state = CoordinatorState(Experts())
    >>> [wrong_command(Command(action="evict", client="c0", number=n), state, NAMED) for n in (1, 2)]
    [None, 'command 2, where 1 is the next: it was sent before, or another came first']
    """
    following = 1 if state.changed is None else state.changed.number + 1
    if command.action in OF_ALL:
        if command.client:
            return "the command is about the federation, but names a client"
        if command.action == "restart" and not (state.profile.restarts and is_name(command.model, limits.name_bytes)):
            return f"profile {state.profile.profile} has no restarts, or a model of no name was named"
    elif not command.client or not is_name(command.client, limits.name_bytes):
        return "the command names no client"
    if command.number != following:
        return f"command {command.number}, where {following} is the next: it was sent before, or another came first"
    known = state.members.keys() | state.keys.keys() | set(state.barred)
    if command.client and command.client not in known and len(known) >= limits.clients:
        return f"the limit of {limits.clients} clients is reached"
    return None


def carry_out(ordered: Ordered, state: CoordinatorState) -> Member | None:
    """Change the state as a command says; return the client's account if that changes as well."""
    command, client = ordered.command, ordered.command.client
    state.changed = MemberChanged(
        action=command.action,
        client=client,
        number=command.number,
        by=ordered.by,
        entry=state.entry + 1,
        model=command.model,
    )
    state.barred = tuple(name for name in state.barred if name != client)
    member = state.members.get(client)
    match command.action:
        case "hold" | "resume":
            state.held = command.action == "hold"
            return None
        case "restart":
            state.restart = command.model
            return None
        case "admit":
            state.keys.setdefault(client, "")
            return None
        case "evict":
            state.barred = (*state.barred, client)
            return None if member is None else replace(member.copy(), left=True, evicted=True)
        case "reset":
            state.keys[client] = ""
            # The next incarnation is issued to nobody: the start that holds the present one is told so when it asks.
            return None if member is None else member.after_leave(f"reset {command.number}")
