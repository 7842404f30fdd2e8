"""`streamfl members`: who takes part; and an operator's commands, about that and about the federation."""

import time
from collections.abc import Iterator, Mapping

from rich.console import Console

from streamfl.errors import PeerError, UsageError, did_you_mean
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import Action, Command, MemberChanged
from streamfl.run.report.terminal import print_line
from streamfl.run.report.words import count
from streamfl.runtime.ports import Connector

# Seconds until a running coordinator has surely carried out a command, and between two looks.
PATIENCE, LOOK_EVERY = 30.0, 0.25


def order(
    connector: Connector, action: Action, client: str = "", patience: float = PATIENCE, *, model: str = ""
) -> MemberChanged:
    """Have the coordinator carry out a command, and return what it tells.

    Parameters
    ----------
    patience
        Seconds to wait for the coordinator.

    Raises
    ------
    UsageError
        The federation has not run yet, or no client has this name.
    PeerError
        Another command came first, or the coordinator has not answered.
    """
    state = connector.state()
    if state is None and not client:
        raise UsageError("the federation has not started yet")
    if client and action != "admit" and (state is None or client not in _known(state)):
        meant = "" if state is None else did_you_mean(client, _known(state))
        raise UsageError(f"no client is called {client!r}{meant}; see streamfl members list")
    command = Command(action=action, client=client, number=_number(state) + 1, model=model)
    connector.order(command)
    until = time.monotonic() + patience
    while time.monotonic() < until:
        changed = _changed(connector.state())
        if changed is not None and changed.number >= command.number:
            if (changed.number, changed.action, changed.client) != (command.number, action, client):
                raise PeerError("another command came first; check streamfl members list, then repeat yours")
            return changed
        time.sleep(LOOK_EVERY)
    raise PeerError(
        f"no coordinator has carried out the command within {patience:g} s: start one, and it will; if one runs, "
        "your key may not be an operator's in its list of members, which its log then says"
    )


def _changed(state: CoordinatorState | None) -> MemberChanged | None:
    return None if state is None else state.changed


def _number(state: CoordinatorState | None) -> int:
    changed = _changed(state)
    return 0 if changed is None else changed.number


def _known(state: CoordinatorState) -> set[str]:
    return {*state.members, *state.keys, *state.barred}


def show(state: CoordinatorState | None, names: Mapping[str, str], console: Console) -> None:
    """Print who takes part.

    Parameters
    ----------
    names
        Of hosts, by key.

    Examples
    --------
    >>> from streamfl.learning.profiles.experts import Experts
    >>> member = Member(2, "7f", positions={"forest.c0/0": 40}, accepted=39, rejected=1)
    >>> state = CoordinatorState(Experts(), members={"c0": member}, keys={"c0": "k1", "c1": ""}, barred=("c2",))
    >>> show(state, {"k1": "plant-7"}, Console())
    c0  member  incarnation 2  host plant-7  39 records learnt, 1 rejected  forest.c0/0 at 40
    c1  admitted
    c2  evicted by an operator
    """
    if state is None:
        print_line(console, "the federation has not started yet")
        return
    for name in sorted(_known(state)):
        print_line(console, "  ".join((name, *_line(name, state, names))))


def _line(name: str, state: CoordinatorState, names: Mapping[str, str]) -> Iterator[str]:
    member, key = state.members.get(name), state.keys.get(name)
    yield _standing(name, state, member)
    if member is not None:
        yield f"incarnation {member.incarnation}"
    if key:
        yield f"host {names.get(key, key)}"
    if member is not None:
        yield f"{count(member.accepted)} records learnt, {count(member.rejected)} rejected"
        if member.missed:
            yield f"without an update for {count(member.missed)} rounds"
        yield from (f"{partition} at {position}" for partition, position in sorted(member.positions.items()))


def _standing(name: str, state: CoordinatorState, member: Member | None) -> str:
    if name in state.barred:
        return "evicted by an operator"
    if member is None:
        return "has introduced itself" if state.keys.get(name) else "admitted"
    return "evicted" if member.evicted else "left" if member.left else "member"
