"""What any transport must do, held against every one there is: add yours to TRANSPORTS."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from streamfl import codec
from streamfl import messages as wire
from streamfl.core.coordinator import Standing
from streamfl.core.ledger import Member
from streamfl.core.messages import (
    FromClient,
    FromCoordinator,
    Join,
    Leave,
    Left,
    LocalDrift,
    ModelPublished,
    RegistryPublished,
)
from streamfl.core.moments import Moments
from streamfl.core.promotion import Promotion
from streamfl.core.registry import Registry
from streamfl.ports import ClientLink, CoordinatorLink
from streamfl.transport.memory import MemoryTransport


@dataclass(frozen=True)
class Kit:
    """How to get links of a transport that saves what is committed; `patience` is how long a message may take."""

    client: Callable[[str], ClientLink]
    coordinator: Callable[[], CoordinatorLink]
    patience: float = 0.0


def memory() -> Kit:
    transport = MemoryTransport(durable=True)
    return Kit(transport.client, transport.coordinator)


TRANSPORTS: dict[str, Callable[[], Kit]] = {"memory": memory}


@pytest.fixture(params=TRANSPORTS)
def kit(request: pytest.FixtureRequest) -> Kit:
    return TRANSPORTS[request.param]()


def received(kit: Kit, link: ClientLink | CoordinatorLink, wanted: int) -> list[Any]:
    """Return what arrives: at least as much as wanted, and whatever comes with it."""
    until = monotonic() + kit.patience
    found: list[Any] = list(link.receive())
    while len(found) < wanted and monotonic() < until:
        sleep(0.01)
        found += link.receive()
    return found


def as_bytes(told: Sequence[FromClient | FromCoordinator]) -> list[bytes]:
    return [wire.encode(message) for message in told]


def news(i: int) -> LocalDrift:
    return LocalDrift(round=i, epoch=1, clients=(), labels=(), since=i, state="latched")


def leave(client: str, i: int) -> Leave:
    return Leave(client=client, incarnation=str(i))


def standing(entry: int) -> Standing:
    """Return a standing with arrays and a ledger in it."""
    master = Promotion()
    master.open(entry, np.full((2, 2), 0.1 * entry), 2.0)
    members = {"c0": Member("7", positions={"p": 12}, accepted=11, rejected=1)}
    return Standing(master, entry=entry, round=entry, members=members)


def test_a_client_s_messages_arrive_in_order(kit):
    coordinator, client = kit.coordinator(), kit.client("c0")
    for i in range(50):
        client.send(leave("c0", i))
    assert received(kit, coordinator, 50) == [leave("c0", i) for i in range(50)]
    assert received(kit, coordinator, 0) == []


def test_each_link_keeps_its_own_order(kit):
    coordinator, links = kit.coordinator(), {name: kit.client(name) for name in ("c0", "c1", "c2")}
    for i in range(20):
        for name, link in links.items():
            link.send(leave(name, i))
    arrived = received(kit, coordinator, 60)
    for name in links:
        assert [message for message in arrived if message.client == name] == [leave(name, i) for i in range(20)]


def test_what_is_published_reaches_every_client_in_order(kit):
    coordinator, links = kit.coordinator(), [kit.client(f"c{i}") for i in range(3)]
    coordinator.publish([news(0), news(1)])
    coordinator.publish([news(2)])
    for link in links:
        assert received(kit, link, 3) == [news(0), news(1), news(2)]
        assert received(kit, link, 0) == []


def test_what_is_committed_reaches_every_client_in_the_same_order_as_what_is_published(kit):
    coordinator, links = kit.coordinator(), [kit.client(f"c{i}") for i in range(2)]
    coordinator.publish([news(0)])
    coordinator.commit([news(1), news(2)], standing(1))
    coordinator.publish([news(3)])
    for link in links:
        assert received(kit, link, 4) == [news(i) for i in range(4)]


def test_the_coordinator_does_not_hear_itself_nor_clients_one_another(kit):
    coordinator, links = kit.coordinator(), [kit.client(f"c{i}") for i in range(2)]
    coordinator.publish([news(0)])
    links[0].send(leave("c0", 0))
    assert received(kit, coordinator, 1) == [leave("c0", 0)]
    assert [received(kit, link, 1) for link in links] == [[news(0)], [news(0)]]


def test_a_link_made_later_hears_what_comes_later(kit):
    coordinator, early = kit.coordinator(), kit.client("c0")
    coordinator.publish([news(0)])
    late = kit.client("c1")
    coordinator.publish([news(1)])
    assert received(kit, early, 2) == [news(0), news(1)]
    assert received(kit, late, 1) == [news(1)]


def test_a_client_that_starts_again_hears_what_comes_later(kit):
    coordinator, first = kit.coordinator(), kit.client("c0")
    coordinator.publish([news(0)])
    assert received(kit, first, 1) == [news(0)]
    coordinator.publish([news(1)])
    second = kit.client("c0")
    coordinator.publish([news(2)])
    assert received(kit, second, 1) == [news(2)]


def test_arrays_and_any_script_arrive_as_they_were(kit):
    coordinator, client = kit.coordinator(), kit.client("東京 ß")
    weights = np.array([[np.nan, np.inf, -0.0], [1e-300, -np.inf, 1.0]])
    registry = Registry(2, ("größe", ""), ("😀",), np.array([0.1, 0.2]), np.ones(2))
    published = [
        RegistryPublished(registry=registry),
        ModelPublished(slot="rung-0", version=1, registry=2, weights=weights),
    ]
    coordinator.publish(published)
    assert as_bytes(received(kit, client, 2)) == as_bytes(published)
    moments = Moments(("größe",), np.array([3.0]), np.array([np.nan]), np.array([0.0]))
    join = Join(client="東京 ß", incarnation="1", moments=moments, labels=("😀",))
    client.send(join)
    assert as_bytes(received(kit, coordinator, 1)) == as_bytes([join])


def test_nothing_is_restored_before_the_first_commit(kit):
    coordinator = kit.coordinator()
    coordinator.publish([news(0)])
    assert coordinator.restore() is None


def test_what_is_restored_is_the_standing_of_the_last_commit(kit):
    coordinator = kit.coordinator()
    for entry in (1, 2, 3):
        coordinator.commit([news(entry)], standing(entry))
    coordinator.publish([news(9)])
    for link in (coordinator, kit.coordinator()):
        restored = link.restore()
        assert restored is not None
        assert codec.encode(restored) == codec.encode(standing(3))


def test_what_was_committed_is_not_changed_afterwards(kit):
    coordinator = kit.coordinator()
    committed = standing(4)
    coordinator.commit([], committed)
    committed.entry = 5
    committed.members["c0"].positions["p"] = 99
    restored = coordinator.restore()
    assert restored is not None
    assert codec.encode(restored) == codec.encode(standing(4))


def test_a_transport_in_memory_saves_nothing_unless_asked_to():
    coordinator = MemoryTransport().coordinator()
    coordinator.commit([news(0)], standing(1))
    assert coordinator.restore() is None


def test_an_answer_reaches_the_client_that_it_is_for(kit):
    coordinator, asker = kit.coordinator(), kit.client("c0")
    coordinator.publish([Left(client="c0", incarnation="1")])
    assert received(kit, asker, 1) == [Left(client="c0", incarnation="1")]
