"""How a host reads records: what it counts, and what it does not take for records."""

import json
import time
import uuid
from contextlib import closing
from itertools import islice

import numpy as np
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka_federation import CONNECTORS
from structlog.testing import capture_logs
from test_bad_records import everything_in

from streamfl.errors import UsageError
from streamfl.live.settings.installed import connector_named
from streamfl.records.doubts.doubting import DoubtingOnce, Looks
from streamfl.records.files.readers import read
from streamfl.records.formats import FieldMap, Packed, record_format
from streamfl.runtime.ports import ClientProgress, Placement
from streamfl_connectors.kafka.writer import END_OF_STREAM

FORM = record_format("json", FieldMap(client="site", time="at"))
NOW = 1_700_000_000


@pytest.fixture
def name():
    return f"reading-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=CONNECTORS)
def connector(request, broker, name):
    kind = connector_named(request.param)
    connector = kind(name, kind.Settings.model_validate({"bootstrap_servers": broker.bootstrap}))
    connector.prepare()
    return connector


def make(broker, topic):
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)


def write(broker, topic, *values, end=False, **own):
    with KafkaProducer(bootstrap_servers=broker.bootstrap, **own) as producer:
        sent = [producer.send(topic, value, partition=0) for value in values]
        if end:
            sent.append(producer.send(topic, None, key=b"end", partition=0, headers=[(END_OF_STREAM, b"")]))
        for one in sent:
            one.get(timeout=10)


def record(i, site="a", at=NOW, label="x"):
    return json.dumps({"label": label, "v": i, "site": site, "at": at}).encode()


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "not within 30 s"


def taken(host, client, n):
    """Return the values of the next n records of a client, good and bad ones counted."""
    return [int(value) for batch in batches_of(host, client, n) for value in batch.X[:, 0]]


def batches_of(host, client, n):
    """Return the batches with the next n records of a client, good and bad ones counted."""
    batches = []

    def enough():
        source = host.poll_clients().get(client)
        batches.extend(source.poll(n - sum(batch.read for batch in batches)) if source else ())
        return sum(batch.read for batch in batches) == n

    until(enough)
    return batches


def test_what_is_read_again_is_neither_counted_nor_buried_again(broker, connector, name):
    topic = f"{name}-records"
    make(broker, topic)
    late, bad, nobodys = record(1, at=NOW - 61), record(2, label=[1]), json.dumps({"label": "x", "v": 1}).encode()
    write(broker, topic, record(0), late, bad, nobodys, record(4, site="b"), record(5), end=True)
    host = connector.host("h", Placement((topic,), "field"), FORM)
    try:
        assert taken(host, "a", 4) == [0, 1, 5]
        assert taken(host, "b", 1) == [4]
        until(lambda: host.poll_clients()["b"].ended)
        host.poll_clients()["a"].seek({f"{name}.client-records/0": 0})
        assert taken(host, "a", 4) == [0, 1, 5]
        assert host.poll_clients()["b"].ended
        assert (host.counts.late, host.counts.unrouted, host.counts.dead_letters) == (1, 1, 2)
    finally:
        host.close()
    letters = [dict(letter.headers) for letter in everything_in(broker.bootstrap, f"{name}.dead-letter")]
    assert sorted((one["topic"].decode(), one["offset"]) for one in letters) == [(topic, b"2"), (topic, b"3")]


def test_a_host_that_starts_again_buries_nothing_again_although_its_records_are_not_settled(broker, connector, name):
    topic, place = f"{name}-records", Placement((f"{name}-records",), "field")
    make(broker, topic)
    write(broker, topic, record(0), record(2, label=[1]), record(3))
    host = connector.host("h", place, FORM)
    try:
        assert taken(host, "a", 3) == [0, 3]
        host.settle({"a": ClientProgress({f"{name}.client-records/0": 0}, 3)})
    finally:
        host.close()
    write(broker, topic, record(4, label=[1]), record(5))
    host = connector.host("h", place, FORM)
    try:
        assert taken(host, "a", 5) == [0, 3, 5]
        assert host.counts.dead_letters == 1
    finally:
        host.close()
    letters = TopicPartition(f"{name}.dead-letter", 0)
    with KafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        assert consumer.end_offsets([letters])[letters] == 2


# One or more of each kind that a plant writes: missing cells, numbers, labels, times, what changes later.
PLAIN = {"site": "a", "at": NOW, "v": 1.5, "code": 3, "y": 1}
MESSY = [
    *({**PLAIN, "y": word} for word in ("NA", "?", None, "", "--", "No Data")),
    *({**PLAIN, "v": word} for word in ("NA", "?", None, "", "--", "No Data", "#DIV/0!", "-nan(ind)")),
    *({**PLAIN, "y": label} for label in (1.0, "1", "1.00", 2, "2", "2.0")),
    *({**PLAIN, "v": number} for number in ("17,25", "1.234,5", "\u22123,5", "1D3", "-4", " 7 ")),
    *({**PLAIN, "code": text} for text in ("E2", "12 mV", [1, 2], {"raw": 3}, True)),
    *(
        {**PLAIN, "at": at}
        for at in (NOW * 10**6, NOW * 10**9, str(NOW), 20260321, "20260321134506", "03.21.2026 1:00 PM")
    ),
    *({**PLAIN, "at": at} for at in ("01-Mar-2026 00:00:00", "2026-W12-6", "yesterday", None, "31.03.2026 24:00")),
    {**PLAIN, "firmware": "2.1.0", "tags": ["x"], "ok": "true"},
    {**PLAIN, "later": 7},
]


def test_messy_messages_are_read_as_the_same_lines_of_a_file(broker, connector, name, tmp_path):
    lines = [json.dumps(one).encode() for one in [PLAIN] * 40 + MESSY]
    (tmp_path / "f.jsonl").write_bytes(b"\n".join(lines))
    table = read(str(tmp_path / "f.jsonl"), label="y", time="at", drop=["site"], decimal=",", task="classification")
    topic = f"{name}-records"
    make(broker, topic)
    write(broker, topic, "\ufeff".encode() + lines[0], *lines[1:], end=True)
    fields = FieldMap(client="site", time="at", label="y", decimal=",")
    host = connector.host("h", Placement((topic,), "field"), record_format("json", fields))
    try:
        batches = batches_of(host, "a", len(lines))
    finally:
        host.close()
    assert sum(batch.read - len(batch.y) for batch in batches) == len(table.rejected) == 6
    assert {label for batch in batches for label in batch.labels} == set(table.labels) == {"1", "2"}
    for feature in ("v", "code"):
        found = [value for batch in batches for value in batch.X[:, batch.features.index(feature)].tolist()]
        np.testing.assert_array_equal(found, table.X[:, table.features.index(feature)], feature)
    times = [time for batch in batches for time in batch.times.tolist()]
    np.testing.assert_array_equal(times, table.times)
    named = [batch.labels[int(code)] for batch in batches for code in batch.y]
    assert named == [table.labels[int(code)] for code in table.y]


def doubted(connector, broker, name, records, **fields):
    """Return what a host warns of in records, and the batches that it reads."""
    topic, known = f"{name}-records", FieldMap(client="site", label="y", **fields)
    make(broker, topic)
    write(broker, topic, *(json.dumps({"site": "a", **one}).encode() for one in records), end=True)
    form = DoubtingOnce(record_format("json", known), Looks(known))
    host = connector.host("h", Placement((topic,), "field"), form)
    try:
        with capture_logs() as log:
            batches = batches_of(host, "a", len(records))
    finally:
        host.close()
    return [one["event"] for one in log if one["log_level"] == "warning"], batches


def test_a_counter_in_messages_is_named_with_its_remedy_and_read_as_it_is(broker, connector, name):
    records = [{"No": i, "v": i % 7, "y": "pq"[i % 2]} for i in range(1100)]
    warned, batches = doubted(connector, broker, name, records)
    assert warned == [
        "No: has whole numbers that rise, or fall, from record to record, as a counter does; leave it "
        "out with drop in [records.fields]; if it matters how fast, add a column with the difference from the record "
        "before"
    ]
    read = [value for batch in batches for value in batch.X[:, batch.features.index("No")].tolist()]
    assert read == [*range(1100)]


TARGETS = [{"v": i % 7, "y": -200 if i % 5 == 0 else 3.5 + i % 11} for i in range(1100)]


def test_a_target_that_is_a_code_is_named_and_counts(broker, connector, name):
    warned, batches = doubted(connector, broker, name, TARGETS, task="regression")
    assert warned == [
        "the target is -200 in 20.0% of the records, far outside the others; if it is not a measurement, add it to "
        "missing_values in [records]"
    ]
    assert sum(map(len, batches)) == 1100


def test_the_remedy_leaves_the_records_of_that_target_out(broker, connector, name):
    settings = {"task": "regression", "missing_values": ("-200",)}
    warned, batches = doubted(connector, broker, name, TARGETS, **settings)
    assert warned == []
    assert (sum(map(len, batches)), sum(batch.bad for batch in batches)) == (880, 220)


def test_records_in_every_codec_are_read_to_their_end_mark(broker, connector, name):
    topic = f"{name}-records"
    make(broker, topic)
    values = iter([record(i) for i in range(400)])
    for kind in ("gzip", "snappy", "lz4", "zstd"):
        write(broker, topic, *islice(values, 100), end=kind == "zstd", compression_type=kind, linger_ms=50)
    host = connector.host("h", Placement((topic,), "field"), FORM)
    try:
        assert taken(host, "a", 400) == list(range(400))
        until(lambda: host.poll_clients()["a"].ended)
    finally:
        host.close()


def test_the_federations_own_topics_hold_no_records(broker, connector, name):
    make(broker, f"{name}.c0")
    write(broker, f"{name}.c0", record(7))
    write(broker, f"{name}.dead-letter", b"an old letter")
    host = connector.host("h", Placement((f"{name}.*",)), record_format("json", FieldMap(drop=("site", "at"))))
    try:
        assert taken(host, "c0", 1) == [7]
        assert set(host.poll_clients()) == {"c0"}
        assert host.counts.dead_letters == 0
    finally:
        host.close()


def test_a_position_beyond_the_log_fails_its_client_and_no_other(broker, connector, name):
    topic = f"{name}-records"
    make(broker, topic)
    write(broker, topic, *(record(i, site="ab"[i % 2]) for i in range(6)))
    host = connector.host("h", Placement((topic,), "field"), FORM)
    try:
        assert taken(host, "a", 3) == [0, 2, 4]
        host.poll_clients()["a"].seek({f"{name}.client-records/0": 10**12})
        until(lambda: host.poll_clients()["a"].failed)
        place = f"{name}.client-records/0"
        told = f"{place}: the ledger continues at offset {10**12}, but the log holds 0 to 7; the topic is not the one"
        with pytest.raises(UsageError, match=told):
            host.poll_clients()["a"].poll(9)
        write(broker, topic, record(6), record(7, site="b"))
        assert taken(host, "b", 4) == [1, 3, 5, 7]
        assert host.poll_clients()["a"].poll(9) == []
    finally:
        host.close()


@pytest.mark.parametrize("by", ["topic", "field"])
def test_a_position_that_was_deleted_fails_its_client(by, broker, connector, name):
    topic = f"{name}-records"
    make(broker, topic)
    write(broker, topic, *(record(i) for i in range(6)))
    form = record_format("json", FieldMap(time="at", client="site"))
    client = "a" if by == "field" else topic
    host = connector.host("h", Placement((topic,), by), FORM if by == "field" else form)
    read, end = (f"{name}.client-records", 7) if by == "field" else (topic, 6)  # the mark of a transaction takes one
    try:
        assert taken(host, client, 6) == [0, 1, 2, 3, 4, 5]
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            admin.delete_records({TopicPartition(read, 0): 4})
        source = host.poll_clients()[client]
        source.seek({f"{read}/0": 2})
        until(lambda: host.poll_clients() and source.failed)
        what = f"continues at offset 2, but the log holds 4 to {end}: records were deleted"
        with pytest.raises(UsageError, match=what):
            source.poll(9)
        assert source.poll(9) == []
    finally:
        host.close()


class TestEnds:
    def test_the_ends_of_partitions_are_those_of_the_committed_records_of_the_placement(
        self, broker, connector, name
    ):
        topics = [f"{name}.a", f"{name}.b"]
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            one, two = ({"num_partitions": n, "replication_factor": 1} for n in (1, 2))
            admin.create_topics({topics[0]: one, topics[1]: two, f"other-{name}": one}, wait_for_metadata=True)
        write(broker, topics[0], record(0), record(1), record(2))
        write(broker, f"other-{name}", record(0))
        with KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=name) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topics[0], record(3), partition=0).get(timeout=10)
            with closing(connector.coordinator(Placement((f"{name}.*",)), FORM)) as link:
                assert link.ends([f"{topics[0]}/0"]) == {f"{topics[0]}/0": 3}
                producer.commit_transaction()
                until(lambda: link.ends([f"{topics[0]}/0"]) == {f"{topics[0]}/0": 5})  # the mark of the end takes one
                strange = ["", "/", "/0", topics[0], f"{topics[0]}/", f"{topics[0]}/00", f"{topics[0]}/-1"]
                strange += [
                    f"{topics[0]}/1",
                    f"{name}.c/0",
                    f"other-{name}/0",
                    f"{name}.updates/0",
                    "x" * 5000 + "/0",
                ]
                strange += [f"{name}.\u00e9/0", f"{name}. /0", f"{topics[0]}/{'9' * 30}", f"{topics[0]}/9999999"]
                assert link.ends(strange) == dict.fromkeys(strange, 0)
                every = [*strange, f"{topics[0]}/0", f"{topics[1]}/0", f"{topics[1]}/1"]
                known = {f"{topics[0]}/0": 5, f"{topics[1]}/0": 0, f"{topics[1]}/1": 0}
                assert link.ends(every) == dict.fromkeys(strange, 0) | known
                assert link.ends([]) == {}

    def test_the_ends_of_partitions_are_positions_of_the_format(self, broker, connector, name):
        make(broker, f"{name}.a")
        write(broker, f"{name}.a", b"x", b"y")
        packed = Packed("classification")
        with closing(connector.coordinator(Placement((f"{name}.*",)), packed)) as link:
            assert link.ends([f"{name}.a/0"]) == {f"{name}.a/0": 2 * packed.stride}
