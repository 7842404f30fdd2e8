"""A broker that is away: whoever runs waits for it, whoever starts waits as long as told."""

import time
from contextlib import closing

import pytest
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS

from streamfl.errors import PeerError
from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.settings import KafkaSettings

# Longer than brokers are waited for before they are asked, and than what they take to answer.
AWAY = 15.0


@pytest.mark.full
def test_running_services_notice_that_the_broker_is_away_and_live_through_it(federate, small, own_broker):
    federation = federate(small, "kafka.session_timeout_ms=30000")
    for name in ("a", "coordinator"):
        federation.start(name)
    small.write(until=5)
    federation.until("five rounds", lambda: federation.rounds() == 5)
    small.write(until=6, names=small.names[:1])
    assert federation.round_is_open() == 6

    settings = KafkaSettings.model_validate({"bootstrap_servers": federation.bootstrap})
    with closing(KafkaConnector(federation.name, settings).watcher(last=0, letters=False)) as reader:
        while reader.read():
            pass
        own_broker.down()
        time.sleep(AWAY)
        with pytest.raises(PeerError, match="no answer from"):
            reader.read()
        assert all(process.said("the log does not answer") for process in federation.running)
        own_broker.up()
        assert [process.popen.poll() for process in federation.running] == [None, None], federation.last_words()
        answered = lambda: all(process.said("the log answers again") for process in federation.running)  # noqa: E731
        federation.until("both hear the broker again", answered)
        while not _read(reader):
            time.sleep(0.1)
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)
    assert [process.popen.returncode for process in federation.running] == [0, 0]


def _read(reader):
    """Read on; tell whether the brokers answer."""
    try:
        reader.read()
    except PeerError:
        return False
    return True


@pytest.mark.full
def test_services_that_start_before_the_broker_wait_for_it_as_long_as_set(federate, small, own_broker):
    small.write(until=ROUNDS)
    small.end()
    own_broker.down()
    federation, hasty = federate(small, "kafka.patience=90"), federate(small, "kafka.patience=0")
    processes = [federation.start(name) for name in ("a", "coordinator")]
    waits = lambda: all(process.said("waiting") for process in processes)  # noqa: E731
    federation.until("both wait, and say so", waits, patience=20.0)
    ended = [hasty.start(name) for name in ("a", "coordinator")]
    hasty.until("the hasty end", lambda: all(process.popen.poll() for process in ended), patience=20.0)
    for process in ended:
        assert process.popen.returncode == 2
        assert process.error().startswith("the federation's topics: gave up after 0 s: no answer from 127.0.0.1")

    own_broker.up()
    check_as_undisturbed(federation, small)
    assert [process.popen.returncode for process in processes] == [0, 0]


@pytest.mark.full
def test_a_producer_that_starts_before_the_broker_waits_for_it_as_long_as_set(federate, small, own_broker):
    own_broker.down()
    federation, hasty = federate(small, "kafka.patience=90"), federate(small, "kafka.patience=0")
    role = ("produce", "covtype", "--clients", "2", "--limit", "40")
    patient, impatient = federation.start("producer", role=role), hasty.start("producer", role=role)
    federation.until("it waits, and says so", lambda: bool(patient.said("waiting")), patience=30.0)
    assert impatient.ended() == 2
    assert impatient.error().startswith("the topics of the records: gave up after 0 s: no answer from 127.0.0.1")
    own_broker.up()
    assert patient.ended() == 0
    assert "wrote 40 records of 2 clients" in patient.log.read_text()
