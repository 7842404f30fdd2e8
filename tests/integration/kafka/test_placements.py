"""Where records are and whose they are: by topic, by partition, by key; as JSON and packed; from the start or not."""

import json

import numpy as np
import pytest
from kafka_federation import check_ledger
from kafka_stream import check_as_undisturbed
from small_stream import FEATURES, LABELS, ROUNDS, SIZE, SmallStream

from streamfl.records.formats import Packed

KEYED = (
    'records.clients="field"',
    "records.partitions=3",
    'records.fields.client="device.id"',
    'records.fields.time="at"',
    'records.fields.label="seen.kind"',
)
NAMES = tuple(f"d{i}" for i in range(5))
BEGAN = 1_700_000_000


def nested(client, x, label, at=BEGAN):
    """Return a record with objects in it."""
    return json.dumps(
        {"device": {"id": client}, "at": at, "seen": {"kind": label, **dict(zip(FEATURES, x, strict=False))}}
    ).encode()


def packed(client, x, label):
    return Packed("classification").encode(FEATURES, np.array([x]), np.array([LABELS.index(label)]), LABELS)


@pytest.fixture
def keyed(broker):
    """Five clients in three partitions of one topic, two of them with one client each or two."""
    stream = SmallStream(broker.bootstrap, names=NAMES, encode=nested)
    shared = f"{stream.prefix}.shared"
    stream.places = {name: (shared, i % 3) for i, name in enumerate(NAMES)}
    stream.make_topics(shared=3)
    return stream


def run(federation, stream, hosts=("a",)):
    started = [federation.start(name) for name in hosts]
    # One that is late might find that all is over, and would wait for a federation that has ended.
    federation.until("every host has its partitions", lambda: all(one.said("partition taken") for one in started))
    federation.start("coordinator")
    stream.write(until=ROUNDS)
    stream.end()


@pytest.mark.full
def test_clients_may_be_the_partitions_of_a_shared_topic(federate, broker):
    stream = SmallStream(broker.bootstrap)
    shared = f"{stream.prefix}.shared"
    stream.names = tuple(f"{shared}/{i}" for i in range(3))
    stream.places = {name: (shared, i) for i, name in enumerate(stream.names)}
    stream.written = dict.fromkeys(stream.names, 0)
    stream.make_topics(shared=3)
    federation = federate(stream, 'records.clients="partition"', f'records.topics=["{shared}"]')
    run(federation, stream, hosts=("a", "b"))
    check_as_undisturbed(federation, stream)


def test_clients_may_be_the_keys_of_a_shared_topic(federate, keyed):
    federation = federate(keyed, f'records.topics=["{keyed.prefix}.shared"]', *KEYED)
    keyed.write(until=1)  # who is there is told by the records
    a, b = federation.start("a"), federation.start("b")
    federation.until(
        "both hosts have clients", lambda: len(a.serves() | b.serves()) == 5 and a.serves() and b.serves()
    )
    federation.start("coordinator")
    keyed.write(until=ROUNDS)
    keyed.end()
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))
    check_ledger(federation.closed(), keyed.each, shared=True)


@pytest.mark.full
def test_a_slow_client_of_a_shared_topic_costs_nobody_a_record(federate, keyed):
    federation = federate(keyed, f'records.topics=["{keyed.prefix}.shared"]', *KEYED, f"client.buffer={SIZE}")
    federation.start("a")
    coordinator = federation.start("coordinator")
    slow, others = NAMES[0], NAMES[1:]
    keyed.write(until=1)
    federation.until("the first round", lambda: federation.rounds() == 1)
    keyed.write(until=ROUNDS, names=others)
    for t in range(2, ROUNDS + 1):
        keyed.write(until=t, names=[slow])
        federation.until(f"round {t}", lambda t=t: federation.rounds() >= t)
        assert len(coordinator.said("round")) == t
    keyed.end()
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))
    check_ledger(federation.closed(), keyed.each, shared=True)


@pytest.mark.full
def test_a_federation_learns_packed_records_as_the_replay_does(federate, small):
    small.encode = packed
    federation = federate(small, 'records.format="packed"')
    run(federation, small)
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))
    closed = federation.closed()
    assert sum(entry.records for entry in closed) == sum(small.each.values())
    assert closed[-1].model == small.expected.model_sha256


@pytest.mark.full
def test_a_federation_that_starts_at_the_end_of_the_log_learns_only_later_records(federate, small):
    small.write(until=4)
    federation = federate(small, 'records.start="latest"')
    host = federation.start("a")
    federation.start("coordinator")
    federation.until("it has begun", lambda: len(host.serves()) == 3)
    small.write(until=ROUNDS)
    small.end()
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))
    closed = federation.closed()
    first = [span.start for a in closed[0].accepted for span in a.spans]
    assert first == [4 * SIZE] * 3
    assert sum(entry.records for entry in closed) == 3 * SIZE * (ROUNDS - 4)


@pytest.mark.full
def test_late_records_are_counted(federate, keyed):
    late = 7
    federation = federate(keyed, f'records.topics=["{keyed.prefix}.shared"]', *KEYED, "records.late_after=30.0")
    count = iter(range(10**6))
    keyed.encode = lambda client, x, label: nested(
        client, x, label, BEGAN - 31 if client == "d0" and 5 <= next(count) < 5 + late else BEGAN
    )
    run(federation, keyed)
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))
    check_ledger(federation.closed(), keyed.each, shared=True)
    assert sum(process.said("ended")[-1].get("late", 0) for process in federation.running) == late
