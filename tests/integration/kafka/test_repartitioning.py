"""Records and labels in topics as they are: keyed by machine and by part, with other numbers of partitions."""

import json
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field

import pytest
from halved_stream import HalvedStream, read
from kafka import KafkaAdminClient, KafkaProducer
from kafka_federation import CONNECTORS
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS, SIZE, make

from streamfl.records.formats import FieldMap, JsonRecords
from streamfl.records.formats.field_map import LabelMap
from streamfl.runtime.log.repartitioning import order
from streamfl.runtime.ports import LabelTopics, Placement
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.hosts import repartitioner
from streamfl_connectors.kafka.settings import KafkaSettings

NAMES = tuple(f"m{i:02d}" for i in range(4))
OF_RECORDS, OF_LABELS = 3, 2
FORM = JsonRecords(FieldMap(task="unlabelled", key="id"))


@dataclass
class Plant(HalvedStream):
    """Machines that share two topics; what finds a label's record is its id alone."""

    names: tuple[str, ...] = field(default=NAMES)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.places = {name: (self.topics, i % OF_RECORDS) for i, name in enumerate(self.names)}

    @property
    def topics(self) -> str:
        return f"{self.prefix}.readings"

    def settings(self, window: int = 2000) -> tuple[str, ...]:
        return ('records.clients="message-key"', f'labels.topic="{self.prefix}.results"', f"labels.window={window}")

    def make_topics(self, **partitions: int) -> None:
        make(self.bootstrap, {self.topics: OF_RECORDS, f"{self.prefix}.results": OF_LABELS})

    def tell_anything(self, name, value, headers=()):
        place = {"topic": f"{self.prefix}.results", "partition": self.names.index(name) // OF_LABELS % OF_LABELS}
        self.waiting.append({**place, "key": b"a part", "value": value, "headers": list(headers)})


@pytest.fixture
def plant(broker):
    stream = Plant(broker.bootstrap)
    stream.make_topics()
    return stream


def started(federation, plant, *hosts, **dies_at):
    """Start hosts, and the coordinator when all machines are known by their records."""
    plant.write(2)
    running = [federation.start(name, dies_at=dies_at.get(name, "")) for name in hosts]
    federation.until(
        "all machines", lambda: set().union(*(one.serves() for one in running)) == set(plant.names) or died(running)
    )
    federation.start("coordinator")
    return running


def died(running):
    return any(one.popen.poll() is not None for one in running)


def repartitioned(federation, kind):
    """Return where each message was read, with the machine for which it was written."""
    found = [(dict(message.headers), message) for message in read(federation, f"client-{kind}")]
    return [(headers["from"].decode(), message) for headers, message in found if "from" in headers]


@pytest.mark.full
@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("point", ["repartitioning_read:4", "repartitioning_uncommitted:4"])
def test_a_host_killed_between_reading_and_writing_loses_and_doubles_nothing(point, connector, federate, plant):
    federation = federate(plant, *plant.settings(), connector=connector)
    (host,) = started(federation, plant, "a", a=point)
    for until in (*range(4, ROUNDS, 3), ROUNDS):
        plant.write(until)
        if died([host]) and host in federation.running:
            assert host.was_killed_at(point)
            federation.running.remove(host)
            federation.start("a")
        federation.until("the rounds with labels", lambda: federation.rounds() >= plant.complete or died([host]))
    assert host not in federation.running
    plant.end()
    check_as_undisturbed(federation, plant)
    for kind in ("records", "labels"):
        found = repartitioned(federation, kind)
        assert len(found) == SIZE * ROUNDS * len(NAMES)
        assert max(Counter(place for place, _ in found).values()) == 1
        assert {len({one.partition for _, one in found if one.key == name.encode()}) for name in NAMES} == {1}


@pytest.mark.full
def test_another_host_repartitions_when_the_one_that_did_is_gone(federate, plant):
    federation = federate(plant, *plant.settings())
    a, b = started(federation, plant, "a", "b")
    federation.until("one repartitions", lambda: a.said("repartitioning") or b.said("repartitioning"))
    leader, other = (a, b) if a.said("repartitioning") else (b, a)
    leader.kill()
    federation.running.remove(leader)
    federation.until("the other one repartitions", lambda: other.said("repartitioning"))
    for until in (*range(4, ROUNDS, 3), ROUNDS):
        plant.write(until)
        federation.until("the rounds with labels", lambda: federation.rounds() >= plant.complete)
    plant.end()
    check_as_undisturbed(federation, plant)


@pytest.mark.full
def test_partitions_and_machines_are_added_without_a_setting(broker, plant, monkeypatch):
    monkeypatch.setattr(repartitioner, "LOOK_AGAIN", 0.5)
    with closing(host_of(plant)) as host:
        plant.write(1, names=NAMES[:2])
        until(lambda: host.poll_clients().keys() == set(NAMES[:2]))
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_partitions({plant.topics: OF_RECORDS + 1, f"{plant.prefix}.results": OF_LABELS + 1})
        plant.places = dict.fromkeys(NAMES, (plant.topics, OF_RECORDS))
        plant.write(2)
        plant.write_labels(0)
        until(lambda: host.poll_clients().keys() == set(NAMES))
        source = host.poll_clients()[NAMES[0]]
        ids = []
        until(lambda: host.poll_clients() and (ids.extend(keys(source.poll_halves(99, 99))) or len(ids) == 4 * SIZE))
        every = [f"{NAMES[0]}-{k}" for k in range(2 * SIZE)]
        assert Counter(ids) == Counter([*every, *every])  # its records, and their labels


@pytest.mark.full
def test_messages_of_megabytes_are_repartitioned_and_those_that_are_too_large_hold_up_nothing(broker, plant):
    values = [
        json.dumps({"id": f"P{size}", "x": 1.0, "note": "x" * size}).encode() for size in (9_000_000, 3_000_000)
    ]
    values.append(b'{"id": "P0", "x": 1.0}')
    writes = {"bootstrap_servers": broker.bootstrap, "compression_type": "gzip", "max_request_size": 10_000_000}
    with closing(host_of(plant)) as host, closing(KafkaProducer(**writes)) as producer:
        for value in values:
            producer.send(plant.topics, value, key=b"m00", partition=0).get(timeout=10)
        ids = []
        until(lambda: "m00" in host.poll_clients())
        source = host.poll_clients()["m00"]
        until(lambda: host.poll_clients() and (ids.extend(keys(source.poll_halves(9, 9))) or "P0" in ids))
        assert (ids, host.counts.unrouted) == (["P3000000", "P0"], 1)


@pytest.mark.full
def test_a_label_waits_for_records_of_an_open_transaction_and_no_longer(broker, plant, monkeypatch):
    monkeypatch.setattr(order, "GRACE", 500)
    monkeypatch.setattr(repartitioner, "ASK_AGAIN", 0.5)
    writes = {"bootstrap_servers": broker.bootstrap, "transactional_id": plant.prefix}
    with closing(host_of(plant)) as host, closing(KafkaProducer(**writes)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(plant.topics, b'{"id": "P1", "x": 1.0}', key=b"m00", partition=0).get(timeout=10)
        with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as other:
            for part in ("P1", "P2"):
                label = json.dumps({"id": part, "label": "ok"}).encode()
                other.send(f"{plant.prefix}.results", label, key=part.encode(), partition=0).get(timeout=10)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            host.poll_clients()
            time.sleep(0.02)
        assert host.counts.unrouted == 0
        producer.commit_transaction()
        until(lambda: "m00" in host.poll_clients() and host.counts.unrouted)
        source = host.poll_clients()["m00"]
        ids = []
        until(lambda: host.poll_clients() and (ids.extend(keys(source.poll_halves(9, 9))) or len(ids) == 2))
        assert (ids, host.counts.unrouted) == (["P1", "P1"], 1)


def host_of(plant):
    told = {"bootstrap_servers": plant.bootstrap, "patience": 10, "metadata_max_age_ms": 500}
    connector = KafkaConnector(plant.prefix, KafkaSettings.model_validate(told))
    connector.prepare()
    labels = LabelTopics(
        Placement((f"{plant.prefix}.results",), "message-key"), JsonRecords(LabelMap(key="id")), 1000
    )
    return connector.host("h", Placement((plant.topics,), "message-key"), FORM, labels)


def keys(batches):
    return [key for batch in batches for key in batch.half.keys]


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "not within 30 s"
        time.sleep(0.02)
