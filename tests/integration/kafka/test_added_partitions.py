"""Partitions that are added while hosts and a coordinator run: nobody ends, and what can be read is read."""

import json
import time
import uuid
from contextlib import closing

from kafka import KafkaAdminClient, KafkaProducer

from streamfl.protocol.messages import Leave
from streamfl.records.formats import FieldMap, JsonRecords, record_format
from streamfl.records.formats.field_map import LabelMap
from streamfl.runtime.ports import LabelTopics, Placement
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.coordinator import incoming
from streamfl_connectors.kafka.hosts import records
from streamfl_connectors.kafka.hosts.client_links import ClientLinks
from streamfl_connectors.kafka.settings import KafkaSettings


def settings(broker):
    """Settings with which a client hears of new partitions in half a second."""
    told = {"bootstrap_servers": broker.bootstrap, "patience": 10, "metadata_max_age_ms": 500}
    return KafkaSettings.model_validate(told)


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "not within 30 s"
        time.sleep(0.02)


def test_a_host_takes_a_new_partition_when_its_labels_have_one_too(broker, monkeypatch):
    monkeypatch.setattr(records, "LOOK_AGAIN", 0.5)
    name = f"added-{uuid.uuid4().hex[:8]}"
    of_records, of_labels = f"{name}.r", f"{name}.l"
    form = record_format("json", FieldMap(task="unlabelled", key="id"))
    delayed_labels = LabelTopics(Placement((of_labels,), "partition"), JsonRecords(LabelMap(key="id")), 10)
    connector = KafkaConnector(name, settings(broker))
    connector.prepare()
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        made = {"num_partitions": 1, "replication_factor": 1}
        admin.create_topics({of_records: made, of_labels: made}, wait_for_metadata=True)
        host = connector.host("h", Placement((of_records,), "partition"), form, delayed_labels)
        with closing(host):
            until(lambda: host.poll_clients().keys() == {f"{of_records}/0"})
            admin.create_partitions({of_records: 2})
            until(lambda: host.poll_clients() and host._records._left_out)
            assert host.poll_clients().keys() == {f"{of_records}/0"}
            admin.create_partitions({of_labels: 2})
            until(lambda: host.poll_clients().keys() == {f"{of_records}/0", f"{of_records}/1"})
            with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
                for topic, value in ((of_records, {"id": 1, "x": 2}), (of_labels, {"id": 1, "label": "fir"})):
                    producer.send(topic, json.dumps(value).encode(), partition=1)
            source = host.poll_clients()[f"{of_records}/1"]
            until(lambda: host.poll_clients() and source.poll_halves(9, 9))


def test_a_coordinator_reads_partitions_that_are_added_to_the_topic_of_updates(broker, monkeypatch):
    monkeypatch.setattr(incoming, "LOOK_AGAIN", 0.5)
    name = f"added-{uuid.uuid4().hex[:8]}"
    connector = KafkaConnector(name, settings(broker))
    connector.prepare()
    form = record_format("json", FieldMap())
    clients = [f"c{i}" for i in range(20)]
    with closing(connector.coordinator(Placement(("r",)), form)) as link:
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_partitions({f"{name}.updates": 4})
        links = ClientLinks(Connection(settings(broker)), connector._topics)
        with closing(links):
            until(lambda: len(links._producer._producer.partitions_for(f"{name}.updates")) == 4)
            for client in clients:
                links.send(Leave(client=client, nonce="1"))
            heard = set()

            def all_heard():
                link.listen(0.1)
                heard.update(message.client for message in link.receive())
                return heard == set(clients)

            until(all_heard)
