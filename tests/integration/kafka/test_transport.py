"""Kafka, held against what any transport must do."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from kafka_federation import CONNECTORS

from streamfl.live.settings.installed import connector_named
from streamfl.records.formats import FieldMap, record_format
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import Placement
from streamfl.testing import Kit
from streamfl.testing.transport import CHECKS
from streamfl.wire.signing import OPEN, Listed, PrivateKey, Signatures, Signer, Verifier
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.coordinator.link import KafkaCoordinatorLink
from streamfl_connectors.kafka.hosts.client_links import ClientLinks

HOST, COORDINATOR = PrivateKey(bytes(32)), PrivateKey(b"c" * 32)


def signed(name: str) -> tuple[Signatures, Signatures]:
    """Return what hosts and the coordinator sign with, and whose signatures they ask for."""
    hosts = Verifier(Listed.of([HOST.public]), "client", name)
    coordinator = Verifier(Listed.of([COORDINATOR.public]), "coordinator", name)
    return (
        Signatures(Signer(HOST, "client", name), coordinator=coordinator),
        Signatures(Signer(COORDINATOR, "coordinator", name, whole=True), clients=hosts, coordinator=coordinator),
    )


@pytest.fixture(params=CONNECTORS)
def kind(request) -> type[KafkaConnector]:
    return connector_named(request.param)


@pytest.fixture(params=["open", "signed"])
def kit(request, kind, broker) -> Iterator[Kit]:
    told = kind.Settings.model_validate({"bootstrap_servers": broker.bootstrap, "part_bytes": 100_000})
    name = f"t{uuid.uuid4().hex[:10]}"
    of_hosts, of_coordinator = signed(name) if request.param == "signed" else (OPEN, OPEN)
    connection, topics = kind.connection(told, of_hosts), Topics(name)
    connector = kind(name, told, of_coordinator)
    connector.prepare()
    with ExitStack() as made:

        def client(named: str):
            links = made.enter_context(closing(ClientLinks(connection, topics)))
            return links.link(named)

        def coordinator() -> KafkaCoordinatorLink:
            return made.enter_context(
                closing(connector.coordinator(Placement(("records.*",)), record_format("json", FieldMap())))
            )

        yield Kit(client, coordinator, patience=20.0)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_transport_over_kafka_passes_each_conformance_check(check, kit):
    check(kit)
