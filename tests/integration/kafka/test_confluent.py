"""A host that reads through librdkafka, next to one that reads through kafka-python; and what brokers alone show."""

import uuid
from contextlib import closing
from dataclasses import replace

import pytest
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka_stream import check_as_undisturbed
from small_stream import NAMES, ROUNDS, make

from streamfl_connectors.confluent.connection import ConfluentConnection
from streamfl_connectors.confluent.settings import ConfluentSettings

SOON = "kafka.session_timeout_ms=3000"


def test_hosts_of_both_connectors_share_the_clients_and_take_over_from_one_another(federate, small):
    federation = federate(small, SOON)
    other = replace(federation, connector="confluent", folder=federation.folder / "other")
    assert other.running is federation.running
    a, b = federation.start("a"), other.start("b")
    both = lambda: a.serves() and b.serves() and a.serves() | b.serves() == set(NAMES)  # noqa: E731
    federation.until("both hosts have clients", both)
    federation.start("coordinator")
    small.write(until=5)
    federation.until("five rounds", lambda: federation.rounds() == 5)
    b.kill()
    small.write(until=8)
    federation.until("eight rounds", lambda: federation.rounds() == 8)
    b = other.start("b")
    federation.until("it has clients again", lambda: bool(b.serves()))
    a.kill()
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)
    assert [process.popen.returncode for process in federation.running] == [-9, -9, 0, 0]


@pytest.fixture
def topic(broker):
    name = f"read-{uuid.uuid4().hex[:8]}"
    make(broker.bootstrap, {name: 1})
    return name


@pytest.fixture
def reader(broker, topic):
    """What reads the topic, from its start."""
    settings = ConfluentSettings(bootstrap_servers=broker.bootstrap)
    with closing(ConfluentConnection(settings).record_reader(f"{topic}.clients")) as reader:
        reader.assign([TopicPartition(topic, 0)])
        reader.seek(TopicPartition(topic, 0), 0)
        yield reader


def read_to(reader, topic, end):
    """Return offsets and values up to an offset, which the position reaches."""
    partition, found = TopicPartition(topic, 0), []
    for _ in range(200):
        if reader.position(partition) >= end:
            return found
        found += [(one.offset, one.value) for one in reader.poll(timeout_ms=100).get(partition, ())]
    raise AssertionError(f"only {found}, at {reader.position(partition)}")


def test_only_committed_messages_are_read_and_the_position_passes_the_markers(broker, topic, reader):
    partition, group = TopicPartition(topic, 0), f"{topic}.clients"
    with KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        for value, end in ((b"a", producer.commit_transaction), (b"b", producer.abort_transaction)):
            producer.begin_transaction()
            producer.send(topic, value, partition=0)
            producer.send_offsets_to_transaction({partition: OffsetAndMetadata(7, f"3;{value}", -1)}, group)
            producer.flush()
            end()
        assert read_to(reader, topic, 4) == [(0, b"a")]
        assert reader.end_offsets([partition]) == {partition: 4}
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).get(timeout=10)
        assert [reader.poll(timeout_ms=100) for _ in range(3)] == [{}] * 3
        assert (reader.position(partition), reader.end_offsets([partition])[partition]) == (4, 4)
        producer.commit_transaction()
    assert read_to(reader, topic, 6) == [(4, b"open")]
    assert reader.committed(partition) == 7
    assert reader.committed(partition, metadata=True).metadata == "3;b'a'"


class Name(str):
    """The name of a header that is no UTF-8."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        return b"\xff\xfe"


def test_a_batch_that_librdkafka_does_not_unpack_is_one_message_and_reading_goes_on(broker, topic, reader):
    with KafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=10**8) as producer:
        producer.send(topic, b"before", partition=0, headers=[(Name("x"), b"1")]).get(10)
        with KafkaProducer(
            bootstrap_servers=broker.bootstrap, max_request_size=10**8, compression_type="zstd"
        ) as other:
            other.send(topic, bytes(80 * 10**6), partition=0).get(30)
        producer.send(topic, b"after", partition=0).get(10)
    before, bomb, after = read_to(reader, topic, 3)
    assert (before, after) == ((0, b"before"), (2, b"after"))
    assert bomb[0] == 1
    assert bomb[1].startswith(b"a batch of 1 messages that cannot be read: ")
