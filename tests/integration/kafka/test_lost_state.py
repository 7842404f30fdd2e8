"""What a coordinator does whose topics were deleted: it learns no record twice, and begins where nothing is left."""

import time
import uuid
from contextlib import closing

import pytest
from kafka import KafkaAdminClient

from streamfl.errors import UsageError
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import Leave, RoundOpened
from streamfl.records.formats import FieldMap, record_format
from streamfl.runtime.ports import Placement
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.hosts.client_links import ClientLinks
from streamfl_connectors.kafka.settings import KafkaSettings

OPENED = RoundOpened(entry=2, round=2, epoch=1, block=1, registry=1, slots=(), serves="m", known_labels=1)


def test_without_its_state_a_federation_goes_on_only_where_all_its_topics_are_gone(broker):
    name = f"lost-{uuid.uuid4().hex[:8]}"
    connector = KafkaConnector(name, KafkaSettings.model_validate({"bootstrap_servers": broker.bootstrap}))

    def coordinator():
        connector.prepare()
        return connector.coordinator(Placement(("r",)), record_format("json", FieldMap()), wrong=lambda _: None)

    def delete(topics):
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            admin.delete_topics(topics)
            until = time.monotonic() + 30
            while set(topics) & set(admin.list_topics()):
                assert time.monotonic() < until
                time.sleep(0.05)

    with closing(coordinator()) as link:
        assert link.restore() is None
        with closing(ClientLinks(connector._connection, connector._topics)) as links:
            links.send(Leave(client="c0", nonce="1"))
        until = time.monotonic() + 30
        while not list(link.receive()):
            assert time.monotonic() < until
            link.listen(0.1)
        link.commit([OPENED], CoordinatorState(Promotion(), entry=2))
    with closing(coordinator()) as link:
        assert link.restore().entry == 2
    delete([f"{name}.state"])
    with pytest.raises(UsageError, match=f"{name}.state has no state any more"):
        coordinator()
    own = sorted(connector._topics.own)
    delete([topic for topic in own if topic in _there(broker)])
    with closing(coordinator()) as link:
        assert link.restore() is None


def _there(broker):
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        return set(admin.list_topics())
