"""Conformance of the in-process transport, and what the checks find in broken ones; Kafka's: tests/integration."""

from collections.abc import Sequence

import numpy as np
import pytest

from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import FromClient, FromCoordinator
from streamfl.runtime.transport.memory import MemoryClientLink, MemoryCoordinatorLink, MemoryTransport
from streamfl.testing import Kit, Violation, check_transport
from streamfl.testing.transport import CHECKS


def memory() -> Kit:
    transport = MemoryTransport(durable=True)
    return Kit(transport.client, transport.coordinator)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_transport_in_memory_passes_each_conformance_check(check):
    check(memory())


def test_a_transport_in_memory_saves_nothing_unless_asked_to():
    coordinator = MemoryTransport().coordinator()
    profile = Promotion()
    profile.open(1, np.ones((2, 2)), 2.0)
    coordinator.commit([], CoordinatorState(profile))
    assert coordinator.restore() is None


class Reversing(MemoryClientLink):
    """Returns messages in the wrong order."""

    def receive(self) -> Sequence[FromCoordinator]:
        return list(reversed(super().receive()))


class Forgetting(MemoryCoordinatorLink):
    """Saves no state."""

    def commit(self, messages: Sequence[FromCoordinator], state: CoordinatorState) -> None:
        self.publish(messages)


class Repeating(MemoryCoordinatorLink):
    """Returns every message twice."""

    def receive(self) -> Sequence[FromClient]:
        return [message for message in super().receive() for _ in range(2)]


@pytest.mark.parametrize("broken", ["reversing", "forgetting", "repeating"])
def test_a_broken_transport_is_found_out(broken):
    def kit() -> Kit:
        transport = MemoryTransport(durable=True)
        if broken == "reversing":
            client = transport.client

            def reversing(name: str) -> Reversing:
                link = client(name)
                return Reversing(link.outbox, link.inbox)

            return Kit(reversing, transport.coordinator)
        kinds = {"forgetting": Forgetting, "repeating": Repeating}
        return Kit(transport.client, lambda: kinds[broken](transport))

    with pytest.raises(Violation):
        check_transport(kit)
