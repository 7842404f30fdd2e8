"""Topics that are not all as needed: a clear error or a bounded wait, and nothing is skipped silently."""

import time
import uuid
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS, SIZE, make

pytestmark = pytest.mark.full


def ends_with(federation, process, text):
    federation.until("its end", lambda: process.popen.poll() is not None, patience=30.0)
    assert process.popen.returncode == 2
    assert text in process.error()


def test_a_record_topic_with_too_many_partitions_ends_the_host_with_an_error(federate, small):
    topic = f"wide-{uuid.uuid4().hex[:8]}"
    make(small.bootstrap, {topic: 3})
    federation = federate(small, f'records.topics=["{topic}"]')
    ends_with(federation, federation.start("a"), f"topic {topic} has 3 partitions, and one client by topic reads one")


def test_a_record_topic_found_by_a_star_with_too_many_partitions_is_left_out_and_ends_nobody(federate, small):
    make(small.bootstrap, {f"{small.prefix}.wide": 3})
    federation = federate(small)
    host = federation.start("a")
    federation.until("its clients", lambda: len(host.said("client taken")) == 3)
    (line,) = host.said("topic left out")
    assert line["reason"] == f"topic {small.prefix}.wide has 3 partitions, and one client by topic reads one"


def test_partitions_that_were_added_to_the_federations_own_topics_are_not_used(federate, small):
    federation = federate(small)
    make(small.bootstrap, {f"{federation.name}.{name}": 3 for name in ("control", "commands")})
    federation.start("a")
    federation.start("coordinator")
    small.write(until=3)
    federation.until("three rounds", lambda: federation.rounds() == 3)


def test_a_missing_record_topic_is_waited_for_and_then_an_error(federate, small):
    topic = f"missing-{uuid.uuid4().hex[:8]}"
    federation = federate(small, f'records.topics=["{topic}"]', "kafka.patience=1.0")
    host = federation.start("a")
    ends_with(federation, host, f"the topics of the records: gave up after 1 s: no topic {topic}")
    assert host.said("waiting")


def test_a_record_topic_that_appears_in_time_is_read_like_any_other(federate, small):
    names = [f"{small.prefix}.late{i}" for i in range(3)]
    small.names = tuple(names)
    small.places = {name: (name, 0) for name in names}
    small.written = dict.fromkeys(names, 0)
    federation = federate(small, f"records.topics={names!r}".replace("'", '"'))
    host = federation.start("a")
    federation.start("coordinator")
    federation.until("it waits", lambda: bool(host.said("waiting")))
    make(small.bootstrap, dict.fromkeys(names, 1))
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)


def test_a_clock_that_is_hours_ahead_gets_nothing_refused_that_processes_write(federate, small):
    federation = federate(small)
    federation.start("a")
    federation.start("coordinator")
    small.write(until=2)
    federation.until("a round", lambda: federation.rounds() >= 1)
    with closing(KafkaProducer(bootstrap_servers=small.bootstrap)) as producer:
        for topic in ("updates", "control", "models", "state", "heartbeats", "commands", "dead-letter"):
            sent = producer.send(
                f"{federation.name}.{topic}", b"", b"k", timestamp_ms=int(1000 * time.time()) + 3 * 3_600_000
            )
            assert sent.get(timeout=30).timestamp < 1000 * (time.time() + 3_600)


def interrupted(federate, small, *extra):
    """A federation whose host is away after five rounds."""
    federation = federate(small, "kafka.session_timeout_ms=1000", *extra)
    host = federation.start("a")
    federation.start("coordinator")
    small.write(until=5)
    federation.until("five rounds", lambda: federation.rounds() == 5)
    host.kill()
    federation.running.remove(host)
    return federation


def delete_records(small, name, before):
    with KafkaAdminClient(bootstrap_servers=small.bootstrap) as admin:
        admin.delete_records({TopicPartition(*small.places[name]): before})


LOST = 30


def check_only_c1_failed(federation, host):
    """Check that one client failed, and the others were served to their ends."""
    (line,) = host.said("ended")
    assert (line["failed"], line["failed_clients"]) == (1, ["c1"])
    federation.until("the coordinator's end", lambda: federation.running[0].popen.poll() == 0)
    accepted = {}
    for entry in federation.closed():
        for one in entry.accepted:
            accepted[one.client] = accepted.get(one.client, 0) + one.records
    assert accepted == {"c0": SIZE * ROUNDS, "c1": 5 * SIZE, "c2": SIZE * ROUNDS}


@pytest.mark.parametrize("lost", ["stop", "skip"])
def test_records_deleted_before_they_were_accepted_stop_their_client_or_are_skipped_as_set(lost, federate, small):
    federation = interrupted(federate, small, f"records.lost={lost}")
    small.write(until=ROUNDS)
    small.end()
    delete_records(small, "c1", 5 * SIZE + LOST)
    host = federation.start("again", role=("client", "--host", "a", "--until-end"))
    topic = small.places["c1"][0]
    if lost == "stop":
        told = f"{topic}/0: the ledger continues at offset {5 * SIZE}, but the log holds {5 * SIZE + LOST} to"
        ends_with(federation, host, told)
        assert "records were deleted before they were accepted" in host.error()
        check_only_c1_failed(federation, host)
        return
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))
    (line,) = host.said("records lost")
    assert (line["first"], line["last"]) == (5 * SIZE, 5 * SIZE + LOST - 1)
    mine = [a for entry in federation.closed() for a in entry.accepted if a.client == "c1"]
    assert sum(a.records for a in mine) == SIZE * ROUNDS - LOST
    (after,) = [a for a in mine if a.spans and a.spans[0].start == 5 * SIZE]
    assert after.spans[0].end - after.spans[0].start == SIZE + LOST
    assert after.records == SIZE


def test_a_record_topic_that_was_deleted_and_made_again_fails_its_client_only(federate, small):
    federation = interrupted(federate, small)
    topic = small.places["c1"][0]
    with KafkaAdminClient(bootstrap_servers=small.bootstrap) as admin:
        admin.delete_topics([topic])
        federation.until("it is gone", lambda: topic not in admin.list_topics())
    make(small.bootstrap, {topic: 1})
    small.written["c1"] = 0
    small.write(until=1, names=["c1"])
    small.write(until=ROUNDS, names=["c0", "c2"])
    small.end(["c0", "c2"])
    host = federation.start("again", role=("client", "--host", "a", "--until-end"))
    reason = f"{topic}/0: the ledger continues at offset {5 * SIZE}, but the log holds 0 to {SIZE}"
    ends_with(federation, host, f"{reason}; the topic is not the one")
    check_only_c1_failed(federation, host)
