"""Conformance checks for transports.

Each check is a function of a `Kit`, which makes links of one new transport; `check_transport` runs them all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic, sleep

import numpy as np

from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.events import Ordered, Signed, Unusable
from streamfl.protocol.messages import (
    FromClient,
    FromCoordinator,
    Join,
    Leave,
    Left,
    LocalDrift,
    ModelPublished,
    RegistryPublished,
)
from streamfl.protocol.moments import Moments, moments_of
from streamfl.protocol.registry import Registry
from streamfl.runtime.ports import ClientLink, CoordinatorLink
from streamfl.testing.violation import Violation
from streamfl.wire import messages as wire
from streamfl.wire import state_bytes


@dataclass(frozen=True)
class Kit:
    """Makes links of a transport that saves what is committed."""

    # Make a new link, as when a machine starts again.
    client: Callable[[str], ClientLink]
    coordinator: Callable[[], CoordinatorLink]
    patience: float = 0.0  # the longest time that a message may take to arrive, in seconds


def check_transport(kit: Callable[[], Kit]) -> None:
    """Check that a transport does all that the machines rely on.

    Parameters
    ----------
    kit
        Makes a kit of a new transport; called for every check.

    Raises
    ------
    Violation
        A check fails; the message says how.

    Examples
    --------
    >>> from streamfl.runtime.transport.memory import MemoryTransport
    >>> def memory():
    ...     transport = MemoryTransport(durable=True)
    ...     return Kit(transport.client, transport.coordinator)
    >>> check_transport(memory)
    """
    for check in CHECKS:
        check(kit())


def keeps_the_order_of_a_client(kit: Kit) -> None:
    """A client's messages arrive in order, once."""
    coordinator, client = kit.coordinator(), kit.client("c0")
    sent = [_leave("c0", i) for i in range(50)]
    for message in sent:
        client.send(message)
    _expect("a client's messages", _received(kit, coordinator, 50), sent)
    _expect("messages after the last", _received(kit, coordinator, 0), [])


def keeps_the_order_of_every_client(kit: Kit) -> None:
    """Each of several links keeps its own order."""
    coordinator, links = kit.coordinator(), {name: kit.client(name) for name in ("c0", "c1", "c2")}
    for i in range(20):
        for name, link in links.items():
            link.send(_leave(name, i))
    arrived = _received(kit, coordinator, 60)
    for name in links:
        own = [message for message in arrived if isinstance(message, Leave) and message.client == name]
        _expect(f"messages of {name}", own, [_leave(name, i) for i in range(20)])


def publishes_to_every_client_in_order(kit: Kit) -> None:
    """Published messages reach every client, in order, once."""
    coordinator, links = kit.coordinator(), [kit.client(f"c{i}") for i in range(3)]
    coordinator.publish([_announcement(0), _announcement(1)])
    coordinator.publish([_announcement(2)])
    for link in links:
        _expect("published messages", _received(kit, link, 3), [_announcement(0), _announcement(1), _announcement(2)])
        _expect("messages after the last", _received(kit, link, 0), [])


def keeps_commits_and_publications_in_one_order(kit: Kit) -> None:
    """Committed messages keep one order with published ones."""
    coordinator, links = kit.coordinator(), [kit.client(f"c{i}") for i in range(2)]
    coordinator.publish([_announcement(0)])
    coordinator.commit([_announcement(1), _announcement(2)], _state(1))
    coordinator.publish([_announcement(3)])
    for link in links:
        _expect("messages to a client", _received(kit, link, 4), [_announcement(i) for i in range(4)])


def keeps_the_sides_apart(kit: Kit) -> None:
    """The coordinator does not receive its own messages, nor clients those of other clients."""
    coordinator, links = kit.coordinator(), [kit.client(f"c{i}") for i in range(2)]
    coordinator.publish([_announcement(0)])
    links[0].send(_leave("c0", 0))
    _expect("messages to the coordinator", _received(kit, coordinator, 1), [_leave("c0", 0)])
    for link in links:
        _expect("messages to a client", _received(kit, link, 1), [_announcement(0)])


def publishes_to_a_later_link_from_then_on(kit: Kit) -> None:
    """A link made later, by a new client or one that starts again, receives what is published from then on."""
    coordinator, early = kit.coordinator(), kit.client("c0")
    coordinator.publish([_announcement(0)])
    _expect("messages to the first client", _received(kit, early, 1), [_announcement(0)])
    late, again = kit.client("c1"), kit.client("c0")
    coordinator.publish([_announcement(1)])
    _expect("messages to a new client", _received(kit, late, 1), [_announcement(1)])
    _expect("messages to a client that starts again", _received(kit, again, 1), [_announcement(1)])


def carries_arrays_and_any_script(kit: Kit) -> None:
    """Arrays arrive to the last bit, and names in any script."""
    coordinator, client = kit.coordinator(), kit.client("東京 ß")
    weights = np.array([[np.nan, np.inf, -0.0], [1e-300, -np.inf, 1.0]])
    registry = Registry(2, ("größe", ""), ("😀",), np.array([0.1, 0.2]), np.ones(2))
    published: list[FromCoordinator] = [
        RegistryPublished(registry=registry),
        ModelPublished(slot="step 16", version=1, registry=2, weights=weights),
    ]
    coordinator.publish(published)
    _expect("models", sorted(_as_bytes(_received(kit, client, 2))), sorted(_as_bytes(published)))
    moments = Moments(("größe",), np.array([3.0]), np.array([np.nan]), np.array([0.0]))
    join = Join(client="東京 ß", nonce="7f", moments=moments, labels=("😀",))
    client.send(join)
    _expect("an introduction", _as_bytes(_received(kit, coordinator, 1)), _as_bytes([join]))


def carries_what_is_large(kit: Kit) -> None:
    """A model that is larger than a log's largest message arrives whole."""
    coordinator, client = kit.coordinator(), kit.client("c0")
    weights = np.random.default_rng(0).normal(size=(1000, 400))
    model = ModelPublished(slot="step 16", version=1, registry=1, weights=weights)
    coordinator.commit([model, _announcement(0)], _state(1))
    arrived = _received(kit, client, 2)
    _expect("a large model", _as_bytes([m for m in arrived if isinstance(m, ModelPublished)]), _as_bytes([model]))


def answers_one_client(kit: Kit) -> None:
    """An answer reaches the client that asked."""
    coordinator, asker = kit.coordinator(), kit.client("c0")
    coordinator.publish([Left(client="c0", nonce="7f")])
    _expect("the answer", _received(kit, asker, 1), [Left(client="c0", nonce="7f")])


def restores_nothing_before_a_commit(kit: Kit) -> None:
    """Nothing is restored before the first commit."""
    coordinator = kit.coordinator()
    coordinator.publish([_announcement(0)])
    _expect("the restored state", coordinator.restore(), None)


def restores_the_last_commit(kit: Kit) -> None:
    """The state of the last commit is restored, by the link that wrote it and by a new one."""
    coordinator = kit.coordinator()
    for entry in (1, 2, 3):
        coordinator.commit([_announcement(entry)], _state(entry))
    coordinator.publish([_announcement(9)])
    _expect("the restored state", _bytes_of(coordinator.restore()), _bytes_of(_state(3)))
    _expect("the state restored by a new link", _bytes_of(kit.coordinator().restore()), _bytes_of(_state(3)))


def keeps_what_was_committed(kit: Kit) -> None:
    """A state that is changed after its commit is restored as it was committed."""
    coordinator = kit.coordinator()
    committed = _state(4)
    coordinator.commit([], committed)
    committed.entry = 5
    committed.members["c0"].positions["p"] = 99
    _expect("the restored state", _bytes_of(coordinator.restore()), _bytes_of(_state(4)))


CHECKS: tuple[Callable[[Kit], None], ...] = (
    keeps_the_order_of_a_client,
    keeps_the_order_of_every_client,
    publishes_to_every_client_in_order,
    keeps_commits_and_publications_in_one_order,
    keeps_the_sides_apart,
    publishes_to_a_later_link_from_then_on,
    carries_arrays_and_any_script,
    carries_what_is_large,
    answers_one_client,
    restores_nothing_before_a_commit,
    restores_the_last_commit,
    keeps_what_was_committed,
)


def _expect(what: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise Violation(f"{what}: {actual!r:.500}, not {expected!r:.500}")


def _received(kit: Kit, link: ClientLink | CoordinatorLink, wanted: int) -> list[FromClient | FromCoordinator]:
    """Return the messages that arrive: wait for `wanted` of them, and return any more that come with them."""
    until = monotonic() + kit.patience
    received = _messages(link)
    while len(received) < wanted and monotonic() < until:
        sleep(0.01)
        received += _messages(link)
    return received


def _messages(link: ClientLink | CoordinatorLink) -> list[FromClient | FromCoordinator]:
    arrived = (one.message if isinstance(one, Signed) else one for one in link.receive())
    return [one for one in arrived if not isinstance(one, Unusable | Ordered)]


def _as_bytes(messages: Sequence[FromClient | FromCoordinator]) -> list[bytes]:
    return [wire.encode(message) for message in messages]


def _bytes_of(state: CoordinatorState | None) -> bytes | None:
    return None if state is None else state_bytes.encode(state)


def _announcement(i: int) -> LocalDrift:
    return LocalDrift(
        round=i, epoch=1, clients=(), labels=(), since=i, state="latched", statistic=11.0, threshold=9.2
    )


def _leave(client: str, i: int) -> Leave:
    return Leave(client=client, nonce=str(i))


def _state(entry: int) -> CoordinatorState:
    """Return a plausible state, with arrays and a ledger."""
    join = Join(client="c0", nonce="7f", moments=moments_of(()))
    profile = Promotion()
    profile.open(entry, np.full((2, 2), 0.1 * entry), 2.0)
    members = {"c0": Member(7, positions={"p": 12}, accepted=11, rejected=1)}
    agreed = Agreement.of([join], scaling=True)
    return CoordinatorState(profile, entry=entry, round=entry, members=members, agreement=agreed)
