"""The end of a federation: every host knows it, one that begins later too, until a coordinator begins again."""

import uuid
from contextlib import closing

import pytest
from kafka_federation import check_ledger
from small_stream import NAMES, ROUNDS, make

from streamfl.protocol.messages import Ended, RoundOpened
from streamfl.records.formats import FieldMap, record_format
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import Placement
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.hosts.client_links import ClientLinks
from streamfl_connectors.kafka.settings import KafkaSettings

pytestmark = pytest.mark.full

# More than a host waits after the end for another coordinator.
PATIENCE = 60.0

OPENED = RoundOpened(
    entry=3, round=3, epoch=1, block=0, registry=1, slots=(), serves="step 0", known_labels=2, resumed=1
)


@pytest.fixture
def ended(federate, small):
    """A federation whose processes have ended, with half of the records."""
    federation = federate(small)
    federation.start("a")
    federation.start("coordinator")
    small.write(until=ROUNDS // 2)
    small.end()
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))
    return federation


def test_the_log_keeps_the_end_of_a_federation_until_a_coordinator_begins_again(broker):
    settings, name = KafkaSettings(bootstrap_servers=broker.bootstrap), f"t{uuid.uuid4().hex[:10]}"
    connector = KafkaConnector(name, settings)
    connector.prepare()
    connection, topics = Connection(settings), Topics(name)

    def first():
        with closing(ClientLinks(connection, topics)) as links:
            return links.receive()

    with closing(connector.coordinator(Placement(("r.*",)), record_format("json", FieldMap()))) as link:
        assert first() == []
        link.publish((Ended(entry=3),))
        assert first() == [Ended(entry=3)] == first()
        link.publish((OPENED,))
        assert first() == []


def test_a_host_that_begins_after_the_end_of_the_federation_ends_too(ended, small):
    late = ended.start("late")
    idle = ended.start("idle")
    ended.until("their end", lambda: None not in (late.popen.poll(), idle.popen.poll()), PATIENCE)
    assert (late.popen.returncode, idle.popen.returncode) == (0, 0)


def test_a_host_that_takes_a_new_client_just_before_the_end_of_the_federation_ends_too(federate, small):
    federation = federate(small)
    federation.start("a")
    federation.start("coordinator")
    small.write(until=ROUNDS)
    federation.until("all rounds", lambda: federation.rounds() == ROUNDS)
    make(small.bootstrap, {f"{small.prefix}.new": 1})
    host = federation.running[0]
    federation.until("the new client", lambda: "new" in host.serves())
    small.end()
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))
    assert [process.popen.returncode for process in federation.running] == [0, 0]
    check_ledger(federation.closed(), small.each)


@pytest.mark.parametrize("first", ["host", "coordinator"])
def test_more_records_are_learnt_when_a_coordinator_begins_again(first, ended, small):
    ended.running.clear()
    small.write(until=ROUNDS)
    small.end()
    if first == "coordinator":
        another = ended.start("another", role=("coordinator",))
        ended.until("it runs", lambda: bool(another.said("resumed")))
    host = ended.start("again")
    if first == "host":
        ended.until("it is told of the end", lambda: bool(host.said("the coordinator has ended")))
        ended.start("another", role=("coordinator",))
    ended.until("the host's end", lambda: host.popen.poll() == 0, PATIENCE)
    assert host.said("ended")[-1]["pending"] == 0
    accepted = [one for entry in ended.closed() for one in entry.accepted]
    assert {name: sum(one.records for one in accepted if one.client == name) for name in NAMES} == small.each
