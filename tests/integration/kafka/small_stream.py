"""A small stream that a test writes as it goes: a few clients, two kinds of records, and one swap of the kinds."""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from kafka import KafkaAdminClient, KafkaProducer
from kafka_stream import told

from streamfl.records.past_features import PastFeatures
from streamfl.records.past_of_tables import with_past
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.result import Result
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, PrivacySettings, ProfileSettings
from streamfl_connectors.kafka.writer import END_OF_STREAM

NAMES = ("c0", "c1", "c2")
SIZE = 20
ROUNDS = 16
SWAP = 8  # the first round of the other kind
FEATURES = ("height", "slope", "shade")
LABELS = ("fir", "oak")

Encode = Callable[[str, Sequence[float], str], bytes]
Place = tuple[str, int]


def as_json(client: str, x: Sequence[float], label: str) -> bytes:
    """Return a record as one flat object."""
    return json.dumps({"label": label, **dict(zip(FEATURES, x, strict=True))}).encode()


@dataclass
class SmallStream:
    """Records of a few clients, and the topics they are written to.

    Parameters
    ----------
    bootstrap
        Of the broker.
    names
        Of the clients.
    rounds
        Rounds of `SIZE` records that each of them has.
    encode
        How a record becomes a message.
    profile, learning, privacy, past
        Of the replay that it is compared with.
    """

    bootstrap: str
    names: Sequence[str] = NAMES
    rounds: int = ROUNDS
    encode: Encode = as_json
    profile: ProfileSettings = field(default_factory=ProfileSettings)
    learning: LearningSettings = LearningSettings(features="rounds")
    privacy: PrivacySettings = PrivacySettings()
    past: PastFeatures | None = None
    prefix: str = field(default_factory=lambda: f"small-{uuid.uuid4().hex[:8]}")
    places: dict[str, Place] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    waiting: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for i, name in enumerate(self.names):
            self.places.setdefault(name, (f"{self.prefix}.c{i}", 0))
        self.written = dict.fromkeys(self.names, 0)

    @property
    def topics(self) -> str:
        """Return the name of all topics of it."""
        return f"{self.prefix}.*"

    @cached_property
    def table(self) -> Table:
        """Return the records: whole numbers, so that float32 holds them."""
        rng, n = np.random.default_rng(7), SIZE * self.rounds * len(self.names)
        X = rng.integers(0, 100, (n, len(FEATURES))).astype(float)
        kind = ((X[:, 0] > 50) ^ (rng.random(n) < 0.05)).astype(float)
        after = np.arange(n) // len(self.names) >= SIZE * (SWAP - 1)
        return Table("small", FEATURES, X, np.where(after, 1.0 - kind, kind), LABELS, np.arange(n))

    @cached_property
    def logs(self) -> Mapping[str, Log]:
        """Return the records of each client, dealt in turn."""
        rows = {name: np.arange(i, len(self.table), len(self.names)) for i, name in enumerate(self.names)}
        return {name: Log(mine, self.table.y[mine]) for name, mine in rows.items()}

    @cached_property
    def expected(self) -> Result:
        """Return what the replay of the same records gives."""
        settings = ReplaySettings(round_size=SIZE, profile=self.profile, learning=self.learning, privacy=self.privacy)
        table = self.table
        if self.past is not None:
            owners = np.array(self.names)[np.arange(len(table)) % len(self.names)]
            table = with_past(replace(table, columns={"client": owners}), self.past, "client")
        return Replay(table, self.logs, settings).run().result

    @property
    def restarts(self) -> list[tuple[int, int, str, float, str]]:
        """Return the restarts that must come."""
        return [told(restart) for restart in self.expected.restarts]

    @property
    def each(self) -> dict[str, int]:
        """Return the records of every client."""
        return dict.fromkeys(self.names, SIZE * self.rounds)

    def make_topics(self, **partitions: int) -> None:
        """Make the topics that the records go to; `make_topics(shared=3)` makes PREFIX.shared instead."""
        wanted = {f"{self.prefix}.{name}": n for name, n in partitions.items()}
        make(self.bootstrap, wanted or {topic: 1 for topic, _ in self.places.values()})

    def write(self, until: int, names: Iterable[str] | None = None) -> None:
        """Write what some clients have not got yet of the rounds up to `until`, in turns."""
        chosen = list(self.names if names is None else names)
        for k in range(SIZE * until):
            for name in chosen:
                if k >= self.written[name]:
                    self.send(name, self.message(name, k))
                    self.written[name] = k + 1
        self.flush()

    def message(self, name: str, k: int) -> bytes:
        """Return the message of a client's k-th record."""
        log = self.logs[name]
        return self.encode(name, self.table.X[log.rows[k]].tolist(), LABELS[int(log.y[k])])

    def send(self, name: str, value: bytes | None, headers: Sequence[tuple[str, bytes]] = ()) -> None:
        """Take any message for where a client's records are; `flush` writes it."""
        topic, partition = self.places[name]
        told = {"topic": topic, "partition": partition, "key": name.encode(), "headers": list(headers)}
        self.waiting.append({**told, "value": value})

    def flush(self) -> None:
        """Write what was sent, by a producer of its own: so none is there while the broker is away."""
        with KafkaProducer(bootstrap_servers=self.bootstrap) as producer:
            sent = [producer.send(**message) for message in self.waiting]
            producer.flush()
        assert all(one.succeeded() for one in sent)
        self.waiting.clear()

    def end(self, names: Iterable[str] | None = None) -> None:
        """Tell the readers that nothing more will come."""
        chosen = self.names if names is None else names
        one_at = {self.places[name]: name for name in chosen}
        for name in one_at.values():
            self.send(name, None, [(END_OF_STREAM, b"")])
        self.flush()


def make(bootstrap: str, topics: Mapping[str, int]) -> None:
    """Make topics with so many partitions."""
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        wanted = {name: {"num_partitions": n, "replication_factor": 1} for name, n in topics.items()}
        admin.create_topics(wanted, wait_for_metadata=True)
