"""What learns online, over a log: our own models and one of River, with a host killed on the way."""

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS, SmallStream

from streamfl.run.settings import LearningSettings

pytestmark = pytest.mark.full

# Rounds that must follow the last kill.
AFTERWARDS = 4

RIVER = "river:preprocessing.StandardScaler|linear_model.SoftmaxRegression(optim.SGD(0.1))"
LEARNING = {"own models": LearningSettings(features="auto"), "a model of River": LearningSettings(model=RIVER)}
SLOTS = {"own models": {"online-changes", "online"}, "a model of River": {"online"}}


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


def prepared(broker, federate, learning, *more):
    """Return a small stream, its topics made, and a federation that learns from it."""
    small = SmallStream(broker.bootstrap, learning=learning)
    small.make_topics()
    # The changes of a round have some thousand bytes: several parts.
    told = (
        f'learning.features="{learning.features}"',
        f'learning.model="{learning.model}"',
        "kafka.part_bytes=2000",
    )
    return small, federate(small, *told, *more)


def start(federation, dies_at):
    """Start two hosts, and the coordinator once both have clients; some are killed at a point: see killable.py."""
    hosts = {name: federation.start(name, dies_at=dies_at.get(name, "")) for name in ("a", "b")}
    federation.until("both hosts have clients", lambda: all(host.serves() for host in hosts.values()))
    return hosts | {"coordinator": federation.start("coordinator", dies_at=dies_at.get("coordinator", ""))}


def again(federation, name):
    """Start a process that was killed, and wait until it takes part: the others must not end without it."""
    process = next(process for process in federation.running if process.name == name)
    before = len(process.said("client taken"))
    federation.running.remove(process)
    process = federation.start(name)
    if name != "coordinator":
        federation.until(f"{name} has clients again", lambda: len(process.said("client taken")) > before)


@pytest.mark.parametrize("name", [pytest.param("own models", marks=pytest.mark.compiles), "a model of River"])
def test_what_learns_between_rounds_survives_a_kill_as_if_nothing_had_happened(name, broker, federate):
    small, federation = prepared(broker, federate, LEARNING[name])
    processes = start(federation, {})
    small.write(until=6)
    federation.until("five rounds", lambda: federation.rounds() >= 5)
    processes["b"].kill()
    again(federation, "b")
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)

    assert len(small.restarts) == 1
    written, buried = written_slots(federation)
    assert written & {"online-changes", "online"} == SLOTS[name]
    assert SLOTS[name].isdisjoint(buried)
    kinds = {type(message).__name__ for message in federation.told()}
    assert {"RoundOpened", "RoundClosed"} <= kinds
    assert not kinds & {"OnlinePublished", "ModelPublished"}


KILLS = {
    "a host with its update sent": {"b": "update_sent:8"},
    "a coordinator between the parts of a table": {"coordinator": "between_parts:4"},
    "a coordinator inside a transaction": {"coordinator": "inside_transaction:5"},
    "a host and a coordinator": {"b": "after_polling:4", "coordinator": "round_closed:6"},
}


@pytest.mark.compiles
@pytest.mark.parametrize("kill", KILLS)
def test_own_models_are_the_same_whatever_is_killed(kill, broker, federate):
    small, federation = prepared(broker, federate, LEARNING["own models"])
    processes = start(federation, KILLS[kill])
    small.write(until=ROUNDS - AFTERWARDS)
    for name in KILLS[kill]:
        federation.until(f"{name} is killed", lambda name=name: processes[name].popen.poll() is not None)
        assert processes[name].popen.returncode == -9, federation.last_words()
        assert 1 < federation.round_is_open() <= ROUNDS - AFTERWARDS
        again(federation, name)
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)


@pytest.mark.compiles
def test_own_models_are_the_same_where_another_host_takes_over(broker, federate):
    small, federation = prepared(broker, federate, LEARNING["own models"], "kafka.session_timeout_ms=3000")
    processes = start(federation, {})
    small.write(until=6, names=[max(processes["a"].serves()), max(processes["b"].serves())])
    small.write(until=5)
    federation.until("five rounds", lambda: federation.rounds() >= 5)
    gone = processes["b"].serves()
    processes["b"].kill()
    federation.until("the other has its clients", lambda: processes["a"].serves() >= gone, patience=30.0)
    small.write(until=8)
    federation.until("eight rounds", lambda: federation.rounds() >= 8)
    c = federation.start("c")
    federation.until("a new host has a client", lambda: bool(c.serves()), patience=30.0)
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)
    assert [process.popen.returncode for process in federation.running] == [0, -9, 0, 0]
