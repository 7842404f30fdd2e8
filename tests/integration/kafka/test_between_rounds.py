"""What learns between rounds, over a log: our own models and one of River, with a host killed on the way."""

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS, SmallStream

from streamfl.settings import LearningSettings

RIVER = "river:preprocessing.StandardScaler|linear_model.SoftmaxRegression(optim.SGD(0.1))"
LEARNING = {"own models": LearningSettings(features="auto"), "a model of River": LearningSettings(model=RIVER)}
SLOTS = {"own models": {"between-changes", "between"}, "a model of River": {"between"}}


def written_slots(federation):
    """Return the slots on the models topic, and those that were ever taken away."""
    consumer = KafkaConsumer(bootstrap_servers=federation.bootstrap, isolation_level="read_committed")
    partition = TopicPartition(f"{federation.name}.models", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end, written, buried = consumer.end_offsets([partition])[partition], set(), set()
    while consumer.position(partition) < end:
        for message in consumer.poll(timeout_ms=500).get(partition, []):
            slot = message.key.decode().rsplit("/", 2)[0]
            (buried if message.value is None else written).add(slot)
    consumer.close()
    return written, buried


@pytest.mark.parametrize("name", [pytest.param("own models", marks=pytest.mark.compiles), "a model of River"])
def test_what_learns_between_rounds_survives_a_kill_as_if_nothing_had_happened(name, broker, federate):
    learning = LEARNING[name]
    small = SmallStream(broker.bootstrap, learning=learning)
    small.make_topics()
    # A table of ferns has megabytes, which in parts of 1000 bytes would take a test's patience.
    told = (
        f'learning.features="{learning.features}"',
        f'learning.model="{learning.model}"',
        "kafka.part_bytes=500000",
    )
    federation = federate(small, *told)
    hosts = {host: federation.start(host) for host in ("a", "b")}
    federation.until("both hosts have clients", lambda: all(host.serves() for host in hosts.values()))
    coordinator = federation.start("coordinator")
    small.write(until=6)
    federation.until("five rounds", lambda: federation.rounds() >= 5)
    hosts["b"].kill()
    hosts["b"] = federation.start("b")
    small.write(until=ROUNDS)
    small.end()
    federation.running = [*hosts.values(), coordinator]
    check_as_undisturbed(federation, small)

    assert len(small.restarts) == 1
    written, buried = written_slots(federation)
    assert written & {"between-changes", "between"} == SLOTS[name]
    assert SLOTS[name].isdisjoint(buried)
    kinds = {type(message).__name__ for message in federation.told()}
    assert {"RoundOpened", "RoundClosed"} <= kinds
    assert not kinds & {"BetweenPublished", "ModelPublished"}
