"""A replay in which two of ten clients lie."""

from dataclasses import dataclass

import numpy as np
import pytest
from suites.parameters import full

from streamfl.protocol.messages import FromClient, FromCoordinator, Scores, Update
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.dealing.imposed_drift import Injection, inject
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.runtime.ports import ClientLink
from streamfl_benchmarks.liars.hostile import ATTACKS, Attack

SIZE, ROUNDS, SWAP = 30, 30, 18


@dataclass
class Lying:
    """A link on which an attack changes updates and scores."""

    link: ClientLink
    attack: Attack

    def send(self, message: FromClient) -> None:
        lies = isinstance(message, Update | Scores) and (isinstance(message, Scores) or message.records > 0)
        self.link.send(self.attack(message, 0) if lies else message)

    def receive(self) -> list[FromCoordinator]:
        return list(self.link.receive())


class Attacked(Replay):
    """A replay whose first two clients lie."""

    attack: Attack | None = None

    def _client(self, name, transport):
        node = super()._client(name, transport)
        if self.attack is not None and name in {"c0", "c1"}:
            node.link = Lying(node.link, self.attack)
        return node


def replayed(attack: Attack | None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10 * ROUNDS * SIZE, 5))
    y = (X @ rng.normal(size=(5, 2)) + 0.3 * rng.normal(size=(len(X), 2))).argmax(axis=1).astype(float)
    table = Table("drawn", tuple("abcde"), X, y, ("0", "1"), np.arange(len(X)))
    logs = inject(table, deal(table, 10, "round-robin", 0), Injection("class-swap", (SWAP,)), SIZE, 0)
    replay = Attacked(table, logs, ReplaySettings(SIZE, learning=LearningSettings(features="rounds")))
    replay.attack = attack
    result = replay.run().result
    return result.accuracy.prequential, [restart.round for restart in result.restarts]


@pytest.mark.parametrize("name", ["sign-flip", full("largest-allowed"), full("losses-low"), full("colluding")])
def test_two_liars_of_ten_cost_little_and_hide_no_drift(name):
    honest, found = replayed(None)
    accuracy, restarts = replayed(ATTACKS[name])
    assert accuracy >= honest - 0.02
    assert restarts == found == [SWAP]
