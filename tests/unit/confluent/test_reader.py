"""What reads records through librdkafka, on the brokers that librdkafka mocks: they need no Java."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from confluent_kafka import KafkaError, Producer
from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from streamfl_connectors.confluent.connection import ConfluentConnection
from streamfl_connectors.confluent.errors import as_kafka_python_error
from streamfl_connectors.confluent.reader import LOG, LibrdkafkaReader
from streamfl_connectors.confluent.settings import ConfluentSettings
from streamfl_connectors.kafka.connection import MAX_FETCHED_OF_PARTITION


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Producer, str]]:
    silent = logging.getLogger("mock")
    silent.setLevel(logging.CRITICAL)
    config = {"bootstrap.servers": "mocked", "test.mock.num.brokers": 1, "linger.ms": 0}
    producer = Producer(config, logger=silent)
    metadata = producer.list_topics(timeout=10)
    (broker,) = metadata.brokers.values()
    yield producer, f"{broker.host}:{broker.port}"


@pytest.fixture
def write(cluster) -> Callable[..., None]:
    producer, _ = cluster

    def write(partition: TopicPartition, *values: bytes | None, **more: object) -> None:
        for value in values:
            producer.produce(partition.topic, value, partition=partition.partition, **more)
        assert producer.flush(10) == 0

    return write


@pytest.fixture
def reader(cluster) -> Iterator[LibrdkafkaReader]:
    settings = ConfluentSettings(bootstrap_servers=cluster[1])
    made = ConfluentConnection(settings).record_reader("f.clients")
    yield made
    made.close()


def fresh(number: int = 2) -> list[TopicPartition]:
    """Return partitions of a topic that is empty yet."""
    topic = f"t{time.monotonic_ns()}"
    return [TopicPartition(topic, n) for n in range(number)]


def polled(reader, partition, n, within=20.0):
    """Return the next n messages of a partition."""
    found, until = [], time.monotonic() + within
    while len(found) < n:
        assert time.monotonic() < until, f"only {found}"
        found += reader.poll(timeout_ms=100).get(partition, ())
    return found


def at(reader, partition, position):
    until = time.monotonic() + 20
    while reader.position(partition) != position:
        assert time.monotonic() < until
        reader.poll(timeout_ms=50)


def test_messages_are_read_from_where_they_are_sought_in_their_order(reader, write):
    first, second = fresh()
    write(first, b"0", b"1", b"2", key=b"k", headers=[("h", b"x")], timestamp=1_700_000_000_000)
    write(second, b"a", None)
    reader.assign([first, second])
    assert reader.assignment() == {first, second}
    assert reader.poll(timeout_ms=100) == {}, "nothing before a place is sought"
    reader.seek(first, 1)
    found = polled(reader, first, 2)
    assert [(one.topic, one.partition, one.offset, one.key, one.value) for one in found] == [
        (first.topic, 0, 1, b"k", b"1"),
        (first.topic, 0, 2, b"k", b"2"),
    ]
    assert (found[0].headers, found[0].timestamp) == ([("h", b"x")], 1_700_000_000_000)
    reader.seek(second, 0)
    one, mark = polled(reader, second, 2)
    assert (one.value, one.headers, mark.value) == (b"a", (), None)
    assert (reader.position(first), reader.position(second)) == (3, 2)
    assert (reader.highwater(first), reader.highwater(second)) == (3, 2)


def test_what_is_sought_again_is_read_again_and_nothing_else(reader, write):
    (partition,) = fresh(1)
    write(partition, *(b"%d" % i for i in range(50)))
    reader.assign([partition])
    for place in (0, 40, 10, 10, 49, 0):
        reader.seek(partition, place)
        assert reader.position(partition) == place
        found = polled(reader, partition, 50 - place)
        assert [one.offset for one in found] == list(range(place, 50))


def test_a_paused_partition_brings_nothing_and_loses_nothing(reader, write):
    first, second = fresh()
    values = [bytes([i]) * 8000 for i in range(200)]  # thrice what waits before librdkafka is paused
    assert sum(map(len, values)) > 3 * MAX_FETCHED_OF_PARTITION
    write(first, *values[:5])
    write(second, b"a")
    reader.assign([first, second])
    reader.seek(first, 0)
    reader.seek(second, 0)
    assert len(polled(reader, first, 5)) == 5
    reader.pause(first)
    assert reader.paused() == {first}
    for n in range(5):
        write(first, *values[5 + 39 * n : 44 + 39 * n])
        write(second, b"b")
        until = time.monotonic() + 20
        while reader.position(second) < n + 2:
            assert time.monotonic() < until
            assert first not in reader.poll(timeout_ms=100)
    time.sleep(0.3)
    assert first not in reader.poll(timeout_ms=0)
    assert reader.position(first) == 5
    reader.resume(first)
    found = polled(reader, first, 195)
    assert [one.offset for one in found] == list(range(5, 200))
    assert [one.value for one in found] == values[5:]


def test_a_place_sought_while_paused_counts_after_it(reader, write):
    (partition,) = fresh(1)
    write(partition, b"0", b"1", b"2")
    reader.assign([partition])
    reader.seek(partition, 0)
    assert len(polled(reader, partition, 3)) == 3
    reader.pause(partition)
    reader.seek(partition, 2)
    assert reader.poll(timeout_ms=200) == {}
    reader.resume(partition)
    assert [one.offset for one in polled(reader, partition, 1)] == [2]


def test_a_position_beyond_the_log_is_an_error_that_names_it_and_reading_goes_on(reader, write):
    (partition,) = fresh(1)
    write(partition, b"0", b"1")
    reader.assign([partition])
    reader.seek(partition, 1000)
    with pytest.raises(kafka_errors.OffsetOutOfRangeError) as raised:
        polled(reader, partition, 1)
    assert raised.value.args[0] == {partition: 1000}
    reader.seek(partition, 1)
    assert [one.value for one in polled(reader, partition, 1)] == [b"1"]


def test_every_position_beyond_its_log_is_an_error_until_another_is_sought(reader, write):
    first, second = fresh()
    wrong = {first: 1000, second: 2000}
    reader.assign([*wrong])
    for partition, place in wrong.items():
        write(partition, b"0", b"1")
        reader.seek(partition, place)
    reader._go_to_sought()
    time.sleep(1.0)  # librdkafka reports both before the first poll
    times, until = Counter(), time.monotonic() + 20
    while min(times[first], times[second]) < 2:
        assert time.monotonic() < until, times
        try:
            assert reader.poll(timeout_ms=100) == {}
        except kafka_errors.OffsetOutOfRangeError as error:
            assert error.args[0].items() <= wrong.items()
            times.update(error.args[0].keys())
    for partition in wrong:
        reader.seek(partition, 1)
    at(reader, first, 2)
    at(reader, second, 2)


def test_assigning_more_and_fewer_partitions_leaves_the_others_where_they_are(reader, write):
    first, second = fresh()
    write(first, b"0", b"1")
    reader.assign([first])
    reader.seek(first, 0)
    assert len(polled(reader, first, 2)) == 2
    write(second, b"a")
    reader.assign([first, second])
    reader.seek(second, 0)
    assert [one.value for one in polled(reader, second, 1)] == [b"a"]
    write(first, b"2")
    assert [one.value for one in polled(reader, first, 1)] == [b"2"]
    reader.assign([second])
    assert reader.assignment() == {second}
    write(first, b"3")
    write(second, b"b")
    assert [one.value for one in polled(reader, second, 1)] == [b"b"]


def test_ends_and_committed_offsets_are_asked_for(reader, write):
    first, second = fresh()
    write(first, b"0", b"1", b"2")
    write(second, b"a")
    assert reader.beginning_offsets([first, second]) == {first: 0, second: 0}
    assert reader.end_offsets([first, second]) == {first: 3, second: 1}
    assert reader.end_offsets([]) == {}
    assert reader.committed(first) is None
    reader.assign([first])
    reader.seek(first, 0)
    reader.commit({first: OffsetAndMetadata(2, "", -1)}, timeout_ms=2000)
    until = time.monotonic() + 20
    while reader.committed(first) is None:
        reader.poll(timeout_ms=50)
        assert time.monotonic() < until
    assert reader.committed(first) == 2


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TRANSPORT, kafka_errors.KafkaConnectionError),
        (KafkaError._TIMED_OUT, kafka_errors.KafkaConnectionError),
        (KafkaError._AUTHENTICATION, kafka_errors.SaslAuthenticationFailedError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, kafka_errors.TopicAuthorizationFailedError),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, kafka_errors.GroupAuthorizationFailedError),
        (KafkaError.FENCED_INSTANCE_ID, kafka_errors.FencedInstanceIdError),
        (KafkaError._UNKNOWN_PARTITION, kafka_errors.UnknownTopicOrPartitionError),
        (KafkaError._INVALID_ARG, kafka_errors.KafkaError),
    ],
)
def test_errors_are_named_as_those_of_the_other_connector(code, kind):
    assert type(as_kafka_python_error(KafkaError(code))) is kind


def test_a_member_whose_name_was_taken_is_fenced():
    said = "Fatal consumer error: Broker: Static consumer fenced by other consumer with same group.instance.id"
    assert type(as_kafka_python_error(KafkaError(KafkaError._FATAL, said))) is kafka_errors.FencedInstanceIdError


def test_a_log_in_that_is_refused_is_an_error_until_something_arrives(reader, write):
    (partition,) = fresh(1)
    write(partition, b"0")
    reader.assign([partition])
    reader._note(KafkaError(KafkaError._TRANSPORT))
    assert reader.poll(timeout_ms=0) == {}
    reader._note(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    with pytest.raises(kafka_errors.SaslAuthenticationFailedError, match="wrong password"):
        reader.poll(timeout_ms=0)
    reader._note(KafkaError(KafkaError._SSL, "certificate verify failed"))
    with pytest.raises(kafka_errors.KafkaConnectionError, match="certificate verify failed"):
        reader.poll(timeout_ms=0)
    reader.seek(partition, 0)
    until = time.monotonic() + 20
    while reader.position(partition) != 1:
        assert time.monotonic() < until
        with suppress(kafka_errors.KafkaConnectionError):
            reader.poll(timeout_ms=50)
    assert reader.poll(timeout_ms=0) == {}


def test_lines_of_librdkafka_are_for_debugging(caplog):
    with caplog.at_level(logging.INFO):
        LOG.error("FAIL: Connect to 127.0.0.1:1 failed")
    assert caplog.records == []
    with caplog.at_level(logging.DEBUG):
        LOG.error("FAIL: Connect to 127.0.0.1:1 failed")
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
