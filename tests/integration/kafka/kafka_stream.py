"""The stream of these tests: covtype on 12 clients with two swaps of classes; in the log once, replayed once."""

import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka_federation import CLIENTS, COMMAND, ROUND, SETTINGS, Federation, check_ledger

from streamfl.records.files.covtype import covtype
from streamfl.records.table import shuffled
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.dealing.imposed_drift import inject, parse
from streamfl.run.evaluation.result import DatedRestart, Result
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings

ROUNDS = 36
SWAPS = "class-swap@14,25"
RECORDS = CLIENTS * ROUND * ROUNDS


class Compared(Protocol):
    """A stream of which it is known what must come of it."""

    @property
    def expected(self) -> Result: ...

    @property
    def restarts(self) -> list[tuple[int, int, str, float, str]]: ...

    @property
    def each(self) -> dict[str, int]: ...


@dataclass(frozen=True)
class Recorded:
    """The topics that hold the stream, and what its replay says."""

    topics: str
    expected: Result

    @property
    def restarts(self) -> list[tuple[int, int, str, float, str]]:
        """Return the restarts that must come."""
        return [told(restart) for restart in self.expected.restarts]

    @property
    def each(self) -> dict[str, int]:
        """Return the records of every client."""
        return {f"c{i:02d}": ROUND * ROUNDS for i in range(CLIENTS)}


def told(restart: DatedRestart) -> tuple[int, int, str, float, str]:
    """Return what is compared of a restart."""
    return restart.round, restart.epoch, restart.cause, restart.statistic, restart.chosen


def check_as_undisturbed(federation: Federation, stream: Compared) -> None:
    """Wait for the end, and compare everything with the replay and the ledger."""
    federation.until("the end of the stream", lambda: all(p.popen.poll() is not None for p in federation.running))
    check_ledger(federation.closed(), stream.each)
    assert [told(restart) for restart in federation.restarts()] == stream.restarts
    assert federation.closed()[-1].model == stream.expected.model_sha256


def replayed() -> Result:
    """Return what the same records give in a replay."""
    table = shuffled(covtype(), 0)
    logs = inject(table, deal(table, CLIENTS, "round-robin", 0), parse(SWAPS), ROUND, 0)
    cut = {name: Log(log.rows[: ROUND * ROUNDS], log.y[: ROUND * ROUNDS]) for name, log in logs.items()}
    return (
        Replay(table, cut, ReplaySettings(round_size=ROUND, learning=LearningSettings(features="rounds")))
        .run()
        .result
    )


def produce(bootstrap: str, folder: Path, *arguments: str, topics: str | None = None) -> str:
    """Write the stream into topics of its own by `streamfl produce`, and return their pattern."""
    topics = topics or f"covtype-{uuid.uuid4().hex[:8]}.*"
    settings = folder / "produce.toml"
    told = {"name": "producer", "clients": CLIENTS, "size": ROUND, "connector": "kafka"}
    text = SETTINGS.format(**told, topics=topics, bootstrap=bootstrap)
    settings.write_text(text, encoding="utf-8")
    options = ["--clients", str(CLIENTS), "--limit", str(RECORDS), "--inject", SWAPS]
    subprocess.run(
        [COMMAND, "produce", "covtype", "--settings", str(settings), *options, *arguments],
        check=True,
        capture_output=True,
    )
    return topics


class Stages:
    """The same stream in topics of its own, written round by round: so that no round is faster than the test.

    Parameters
    ----------
    bootstrap
        The broker.
    stream
        Where the records are.
    """

    def __init__(self, bootstrap: str, stream: Recorded) -> None:
        self.topics = f"stages-{uuid.uuid4().hex[:8]}.*"
        self._written = 0
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)
        self._records = {client: self._read(bootstrap, stream.topics.replace("*", client)) for client in stream.each}
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        one = {"num_partitions": 1, "replication_factor": 1}
        admin.create_topics({self._topic(client): one for client in stream.each}, wait_for_metadata=True)
        admin.close()

    def _topic(self, client: str) -> str:
        return self.topics.replace("*", client)

    def _read(self, bootstrap: str, topic: str) -> list[Any]:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end, found = consumer.end_offsets([partition])[partition], []
        while consumer.position(partition) < end:
            found += consumer.poll(timeout_ms=500).get(partition, [])
        consumer.close()
        return found

    def write(self, rounds: int) -> None:
        """Write the records of some more rounds; after the last, that this is the end."""
        start, self._written = self._written, self._written + rounds * ROUND
        last = self._written >= ROUND * ROUNDS
        for client, records in self._records.items():
            for record in records[start : None if last else self._written]:
                self._producer.send(self._topic(client), record.value, key=record.key, headers=list(record.headers))
        self._producer.flush()

    def close(self) -> None:
        """Let go of the connection."""
        self._producer.close()
