"""Clients with records at different rates: rounds close by time, and the model has the bytes of a replay's."""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pytest
from kafka_stream import check_as_undisturbed
from small_stream import FEATURES, LABELS, SmallStream

from streamfl.protocol.messages import RoundClosed
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.result import Result
from streamfl.run.model_file import ServedModel
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.saved.own_files import own_file
from streamfl.run.settings import LearningSettings

pytestmark = pytest.mark.full

MINUTE = 60.0


@dataclass
class UnequalStream(SmallStream):
    """A record comes each second, seven of ten from one client and one of ten from another.

    Parameters
    ----------
    accepted
        How many records of each client the replay has accepted; the last ones of a client may be too few to be sent.
    """

    accepted: Counter[str] = field(default_factory=Counter)

    @cached_property
    def logs(self):
        owner = np.random.default_rng(8).choice(len(self.names), len(self.table), p=[0.7, 0.2, 0.1])
        rows = {name: np.flatnonzero(owner == i) for i, name in enumerate(self.names)}
        return {name: Log(mine, self.table.y[mine]) for name, mine in rows.items()}

    @cached_property
    def times(self):
        return 1_700_000_040.0 + np.arange(len(self.table))

    @cached_property
    def expected(self) -> Result:
        settings = ReplaySettings(interval=MINUTE, profile=self.profile, learning=self.learning)
        replay = Replay(replace(self.table, times=self.times), self.logs, settings)

        def observe(event):
            if isinstance(event, RoundClosed):
                self.accepted.update({part.client: part.records for part in event.accepted})

        replay.observe = observe
        return replay.run().result

    @property
    def each(self):
        return {name: n for name in self.names if (n := self.accepted[name])}

    def write_all(self) -> None:
        """Write all records in the order of time, and the end."""
        owner = {int(row): name for name, log in self.logs.items() for row in log.rows}
        for row in range(len(self.table)):
            record = {"measured": self.times[row], "label": LABELS[int(self.table.y[row])]}
            record |= dict(zip(FEATURES, self.table.X[row].tolist(), strict=True))
            self.send(owner[row], json.dumps(record).encode())
        self.end()


@pytest.mark.parametrize("features", ["rounds", pytest.param("auto", marks=pytest.mark.compiles)])
def test_a_federation_of_clients_with_unequal_rates_has_the_model_of_a_replay(features, broker, federate):
    stream = UnequalStream(broker.bootstrap, learning=LearningSettings(features=features))
    assert stream.expected.ahead == 0
    stream.make_topics()
    clock = ('rounds.clock="event_time"', "rounds.interval=60", 'records.fields.time="measured"')
    federation = federate(stream, f'learning.features="{features}"', *clock)
    own = [] if features == "rounds" else ["--own-models-out", str(federation.folder)]
    host = federation.start("a", *own)
    federation.until("the host has clients", lambda: host.serves() == set(stream.names))
    federation.start("coordinator")
    stream.write_all()
    check_as_undisturbed(federation, stream)
    assert sum(stream.each.values()) == stream.expected.accepted > 0.95 * len(stream.table)
    for name in stream.names if own else ():
        assert list(ServedModel.load(own_file(federation.folder, name)).own_parts) == [name]
