"""How a host reads records: what it counts, and what it does not take for records."""

import json
import time
import uuid

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from streamfl.formats import FieldMap, record_format
from streamfl.ports import Placement
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.writer import END_OF_STREAM

FORM = record_format("json", FieldMap(client="site", time="at"))
NOW = 1_700_000_000


@pytest.fixture
def name():
    return f"reading-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def connector(broker, name):
    connector = KafkaConnector(name, {"bootstrap_servers": broker.bootstrap})
    connector.prepare()
    return connector


def make(broker, topic):
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)


def write(broker, topic, *values, end=False):
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        sent = [producer.send(topic, value, partition=0) for value in values]
        if end:
            sent.append(producer.send(topic, None, key=b"end", partition=0, headers=[(END_OF_STREAM, b"")]))
        for one in sent:
            one.get(timeout=10)


def record(i, site="a", at=NOW):
    return json.dumps({"label": "x", "v": i, "site": site, "at": at}).encode()


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "not within 30 s"


def taken(host, client, n):
    """Return the values of the next n records of a client, good and bad ones counted."""
    batches = []

    def enough():
        source = host.hosted().get(client)
        batches.extend(source.poll(n - sum(batch.read for batch in batches)) if source else ())
        return sum(batch.read for batch in batches) == n

    until(enough)
    return [int(value) for batch in batches for value in batch.X[:, 0]]


def test_what_is_read_again_is_neither_counted_nor_buried_again(broker, connector, name):
    topic = f"{name}-records"
    make(broker, topic)
    late, bad, nobodys = record(1, at=NOW - 61), record("wide"), json.dumps({"label": "x", "v": 1}).encode()
    write(broker, topic, record(0), late, bad, nobodys, record(4, site="b"), record(5), end=True)
    host = connector.host("h", Placement((topic,), "key"), FORM)
    try:
        assert taken(host, "a", 4) == [0, 1, 5]
        assert taken(host, "b", 1) == [4]
        until(lambda: host.hosted()["b"].ended)
        host.hosted()["a"].seek({f"{topic}/0": 0})
        assert taken(host, "a", 4) == [0, 1, 5]
        assert host.hosted()["b"].ended
        assert (host.counts.late, host.counts.unrouted, host.counts.dead_letters) == (1, 1, 2)
    finally:
        host.close()
    partition = TopicPartition(f"{name}.dead-letter", 0)
    with KafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        assert consumer.end_offsets([partition])[partition] == 2


def test_the_federations_own_topics_hold_no_records(broker, connector, name):
    make(broker, f"{name}.c0")
    write(broker, f"{name}.c0", record(7))
    write(broker, f"{name}.dead-letter", b"an old letter")
    host = connector.host("h", Placement((f"{name}.*",)), record_format("json", FieldMap(drop=("site", "at"))))
    try:
        assert taken(host, "c0", 1) == [7]
        assert set(host.hosted()) == {"c0"}
        assert host.counts.dead_letters == 0
    finally:
        host.close()
