"""Federations of thousands: whatever the coordinator tells, no message of it is larger than a broker takes."""

import json
import uuid
from contextlib import closing
from itertools import islice

import pytest
from test_bad_records import everything_in

from streamfl.live.operator import watch
from streamfl.protocol.messages import (
    Accepted,
    HeldRecord,
    Joined,
    Restarted,
    RoundClosed,
    RoundOpened,
    Served,
    Slot,
)
from streamfl.protocol.records import Span
from streamfl.records.formats import FieldMap, record_format
from streamfl.runtime.log.control import MOST
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import Placement
from streamfl.wire import messages
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.hosts.client_links import ClientLinks
from streamfl_connectors.kafka.settings import KafkaSettings

CLIENTS = tuple(f"plant-{i:05d}" for i in range(6000))

CLOSED = RoundClosed(
    entry=1,
    round=1,
    epoch=1,
    block=1,
    accepted=tuple(
        Accepted(
            client=name,
            attempt=f"{i:020d}.abcdef01-1",
            spans=(Span(f"plants.{name}/0", 0, 100), Span(f"plants.{name}/1", 0, 100)),
            records=200,
            rejected=0,
        )
        for i, name in enumerate(CLIENTS)
    ),
    records=1_200_000,
    trained=1_200_000,
    rejected=0,
    losses={"step 16": 0.5},
    serves="step 16",
    readings={},
    served=Served(),
    model="d" * 64,
    registry=1,
)

OPENED = RoundOpened(
    entry=2,
    round=2,
    epoch=1,
    block=1,
    registry=1,
    slots=tuple(Slot(name=f"branch-{i}", version=1, eta=0.1, clients=CLIENTS) for i in range(4)),
    serves="branch-0",
    known_labels=2,
)

RESTARTED = Restarted(
    round=1, epoch=2, cause="swap", statistic=9.0, threshold=5.0, chosen="zero", since=1, clients=CLIENTS * 4
)

JOINED = Joined(
    client="plant-00007",
    nonce="1",
    incarnation=1,
    entry=2,
    positions={},
    read=0,
    held=tuple(HeldRecord(round=1, ordinal=i, partition="plants.7/0", position=i) for i in range(20_000)),
)

TOLD = (CLOSED, OPENED, RESTARTED, JOINED)


@pytest.mark.parametrize("message", TOLD, ids=lambda message: type(message).__name__)
def test_every_message_of_these_tests_is_too_large_for_one_message_of_the_log(message):
    assert len(messages.encode(message)) > (1024 * 1024 if message in (CLOSED, JOINED) else MOST)


@pytest.mark.full
def test_a_federation_of_six_thousand_clients_receives_every_large_message(broker):
    told, name = {"bootstrap_servers": broker.bootstrap}, f"large-{uuid.uuid4().hex[:8]}"
    connector = KafkaConnector(name, KafkaSettings.model_validate(told))
    connector.prepare()
    placement, form = Placement(("plants.*",)), record_format("json", FieldMap())
    with (
        closing(connector.coordinator(placement, form)) as coordinator,
        closing(ClientLinks(Connection(KafkaSettings.model_validate(told)), Topics(name))) as links,
    ):
        link, heard = links.link("plant-00007"), []
        coordinator.publish(TOLD)
        while len(heard) < len(TOLD):
            heard += link.receive()
        assert list(map(messages.encode, heard)) == list(map(messages.encode, TOLD))
        assert links.foreign == 0
    with closing(connector.watcher(last=None, letters=False)) as watcher:
        watched = list(islice(filter(None, watch.heard(watcher.read)), len(TOLD)))
    assert list(map(messages.encode, watched)) == list(map(messages.encode, TOLD))

    lines = everything_in(broker.bootstrap, f"{name}.control")
    assert max(len(line.value) for line in lines) <= MOST
    entries = [json.loads(line.value) for line in lines if line.value.startswith(b'{"type":"round-closed"')]
    assert [accepted["client"] for entry in entries for accepted in entry["accepted"]] == list(CLIENTS)
    assert len(entries) > 4
