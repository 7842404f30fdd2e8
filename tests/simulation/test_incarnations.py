"""Several starts of one client at once, replayed Joins and Leaves, and hosts whose clocks disagree."""

from dataclasses import dataclass, field, fields

import pytest
from worlds.faulty import Killed
from worlds.simulation import AuditedClient, Simulation

from simulation.federation import federation
from simulation.test_simulation import faults_of, undisturbed
from streamfl.machines.client.state import ClientState
from streamfl.protocol.messages import FromClient, FromCoordinator, Join, Joined, Leave
from streamfl.runtime.nodes import ClientNode
from streamfl.wire import messages

# How often at a client's turn another host takes it over while its host goes on, and an old message comes again.
TAKEOVER, REPLAY = 0.002, 0.01

# An old Join that comes again has the open round published again, which takes some hundred turns: one in a hundred
# turns feeds on itself, and the world's time nearly stands still. So many come in all.
MOST_REPLAYS = 500

# Hosts' clocks differ by up to so many seconds, either way.
SKEW = 7200.0


@dataclass
class SkewedClient(AuditedClient):
    """A client on a host whose clock is wrong by `skew` seconds."""

    skew: float = 0.0

    def handle(self, event, now):
        return super().handle(event, now + self.skew)

    @property
    def wakes_at(self):
        at = ClientState.wakes_at.fget(self)
        return None if at is None else at - self.skew


@dataclass
class Disputed(Simulation):
    """A simulation in which clients are taken over while their former hosts go on, and old messages come again."""

    former: list[tuple[str, ClientNode]] = field(default_factory=list)
    said: list[tuple[str, bytes]] = field(default_factory=list)
    issued: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    takeovers: int = 0
    superseded: int = 0
    replays: int = 0

    def _turn(self, name: str) -> bool:
        self._replay()
        node = self._nodes.get(name)
        if isinstance(node, ClientNode):
            self._of_former(name)
            if node.finished and node.machine.superseded:  # a host starts it again
                self.superseded += 1
                self._start(name)
                return True
            if self._happens(TAKEOVER) and not node.finished and self.takeovers < 10:
                self.takeovers += 1
                self.former.append((name, node))
                self._start(name)
                return True
        return super()._turn(name)

    def _of_former(self, name: str) -> None:
        """Give the former hosts of a client a turn, which do not know yet that it was taken over."""
        for owner, node in [one for one in self.former if one[0] == name]:
            try:
                node.step(self._clock.now())
            except Killed:
                node.finished = True
            if node.finished:
                self.superseded += node.machine.superseded
                self.former.remove((owner, node))

    def _happens(self, probability: float) -> bool:
        return self._clock.now() < self.calm_after and bool(self._rng.random() < probability)

    def _replay(self) -> None:
        if self.said and self.replays < MOST_REPLAYS and self._happens(REPLAY):
            self.replays += 1
            self._network.to_coordinator.put(self.said[int(self._rng.integers(len(self.said)))], 0.0)

    def _client_node(self, name: str) -> ClientNode:
        made = super()._client_node(name)
        old = {part.name: getattr(made.machine, part.name) for part in fields(AuditedClient) if part.init}
        machine = SkewedClient(**old, skew=float(self._rng.uniform(-SKEW, SKEW)))
        link = self._network.client(f"{name} {self._starts}")  # both hosts read all that is published
        return ClientNode(machine, made.source, link)

    def _watch(self, node: str, message: FromClient | FromCoordinator) -> None:
        super()._watch(node, message)
        if isinstance(message, Join | Leave):
            self.said.append((message.client, messages.encode(message)))
        if isinstance(message, Joined) and not self._nodes["coordinator"].machine.is_scoring:
            self.issued.setdefault((message.client, message.incarnation), set()).add(message.nonce)


def disputed(seed: int) -> Disputed:
    plain = federation("adaptive", seed=seed, faults=faults_of(seed))
    given = {part.name: getattr(plain, part.name) for part in fields(Simulation) if part.init and part.name[0] != "_"}
    return Disputed(**(given | {"calm_after": 60.0}))


@pytest.mark.worlds(fixed=[5], drawn=0, full=[6, 7])
def test_whoever_holds_a_client_the_model_is_the_undisturbed_one(seed):
    simulation = disputed(seed)
    coordinator = simulation.run()
    assert (coordinator.digest(), tuple(r.round for r in simulation.audit.restarts)) == undisturbed("adaptive")
    assert all(len(nonces) == 1 for nonces in simulation.issued.values())
    assert simulation.superseded > 0
