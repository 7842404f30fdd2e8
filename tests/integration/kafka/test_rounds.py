"""When rounds close: by the clock, by quorum and deadline, and with clients that are silent, stopped or slow."""

import signal

import pytest
from kafka_federation import check_ledger
from kafka_stream import check_as_undisturbed
from small_stream import NAMES, ROUNDS, SIZE

from streamfl_connectors.kafka.connector import KafkaConnector
from streamfl_connectors.kafka.settings import KafkaSettings

pytestmark = pytest.mark.full


def connector_of(federation):
    return KafkaConnector(federation.name, KafkaSettings.model_validate({"bootstrap_servers": federation.bootstrap}))


def test_before_the_coordinator_has_begun_no_round_is_open(broker, federate, small):
    assert connector_of(federate(small)).open_round() is None


def accepted_of(federation, client):
    return [[a for a in entry.accepted if a.client == client] for entry in federation.closed()]


def test_by_the_clock_a_silent_topic_weighs_nothing_and_holds_nobody(federate, small):
    federation = federate(small, 'rounds.clock="interval"', "rounds.interval=0.5", "rounds.deadline=5.0")
    for name in ("a", "coordinator"):
        federation.start(name)
    small.write(until=1, names=["c0", "c1"])
    federation.until("its records are in", lambda: federation.rounds() >= 1)
    coordinator = federation.running[-1]
    empty = lambda: len(coordinator.said("round without records")) >= 2  # noqa: E731
    federation.until("rounds without records", empty)
    small.write(until=4, names=["c0", "c1"])
    federation.until("a later round", lambda: federation.rounds() >= 2)
    small.end()
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))

    closed = federation.closed()
    check_ledger(closed, {"c0": 4 * SIZE, "c1": 4 * SIZE, "c2": 0})
    with_records = [entry.round for entry in closed if entry.records]
    assert with_records == list(range(1, len(with_records) + 1))
    assert coordinator.said("ended")[-1]["rounds"] == len(with_records)


@pytest.fixture
def stalled(federate, small):
    """A federation of two hosts and a quorum of clients that one of them has, in whose fifth round it is stopped."""
    rules = ("rounds.quorum=3", "rounds.deadline=1.0", "rounds.expire_after=2", "kafka.session_timeout_ms=30000")
    rules += ('telemetry.address="0"',)
    federation = federate(small, *rules)
    a, b = federation.start("a"), federation.start("b")
    both = lambda: a.serves() and b.serves() and a.serves() | b.serves() == set(NAMES)  # noqa: E731
    federation.until("both hosts have clients", both)
    federation.start("coordinator")
    small.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() == 4)
    b.popen.send_signal(signal.SIGSTOP)
    return federation


def test_rounds_go_on_without_a_host_that_is_stopped_and_take_it_back(stalled, small):
    federation, b = stalled, stalled.running[1]
    missing = sorted(b.serves())
    small.write(until=10)
    federation.until("six rounds without it", lambda: federation.rounds() == 10)
    shown = federation.running[2].measures
    missed = lambda: [shown().get(("streamfl_missed_rounds", name)) for name in missing]  # noqa: E731
    federation.until("it shows who is missed", lambda: missed() == [6.0] * len(missing))
    assert shown()["streamfl_clients", "present"] == len(NAMES) - len(missing)
    without = federation.closed()[4:]
    assert all(set(missing).isdisjoint(a.client for a in entry.accepted) for entry in without)

    b.popen.send_signal(signal.SIGCONT)
    back = lambda: all(accepted_of(federation, client)[-1] for client in missing)  # noqa: E731
    small.write(until=12)
    federation.until("it is back", back)
    small.write(until=ROUNDS)
    small.end()
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))
    check_ledger(federation.closed(), small.each)
    assert [process.popen.returncode for process in federation.running] == [0, 0, 0]


def check_page(federation, page):
    """Check that a page tells what the control topic holds: now, as of an entry, and down to its spans."""
    entries = federation.closed()
    federation.until("it is on the page", lambda: page.view()["headline"]["entry"] == entries[-1].entry)
    now, then = page.view(), page.view(entries[4].entry)
    for shown, ledger in ((now, entries), (then, entries[:5])):
        last, head = ledger[-1], shown["headline"]
        assert (head["entry"], head["rounds"], head["epoch"]) == (last.entry, len(ledger), last.epoch)
        assert head["records"] == sum(entry.records for entry in ledger)
        assert head["value"] == pytest.approx(last.served.correct / last.served.records, rel=1e-5)
        assert head["naive"] == pytest.approx(last.served.no_change / last.served.records, rel=1e-5)
        assert [point[:5] for point in shown["rounds"]] == [
            [entry.round, entry.round, entry.entry, entry.epoch, entry.records] for entry in ledger
        ]
        of = lambda name, ledger=ledger: [a for e in ledger for a in e.accepted if a.client == name]  # noqa: E731
        assert {row[0]: row[4] for row in shown["clients"]} == {
            name: sum(one.records for one in of(name)) for name in NAMES
        }
    assert now["ledger"][0][9]  # the log says when
    waits = lambda: [row[13:] for row in page.view()["clients"]]  # noqa: E731
    federation.until("nothing waits, and that is known", lambda: all(row == [0, 0] for row in waits()))


def test_metrics_and_health_say_what_happens(federate, small):
    federation = federate(small, 'telemetry.address="0"')
    a, b = federation.start("a"), federation.start("b")
    both = lambda: a.serves() and b.serves() and a.serves() | b.serves() == set(NAMES)  # noqa: E731
    federation.until("both hosts have clients", both)
    coordinator = federation.start("coordinator")
    small.write(until=4)
    federation.until("all are ready", lambda: all(one.shows("/ready")[0] == 200 for one in federation.running))
    page = federation.start("page", role=("page", "--address", "0"))
    federation.until("a page", lambda: page.view().get("about", {}).get("read") == 1.0)
    small.write(until=9)
    federation.until("nine rounds", lambda: federation.rounds() >= 9)
    check_page(federation, page)
    assert page.terminate() == 0
    federation.running.remove(page)
    shows = lambda: coordinator.measures()["streamfl_rounds_total",] >= 9  # noqa: E731
    federation.until("they are shown", shows)
    shown, entries = coordinator.measures(), federation.closed()
    assert connector_of(federation).open_round().round == entries[-1].round + 1
    assert shown["streamfl_records_total", "accepted"] == sum(entry.records for entry in entries)
    assert shown["streamfl_loss",] == pytest.approx(entries[-1].losses[entries[-1].serves])
    assert shown["streamfl_served", "accuracy"] == entries[-1].served.correct / entries[-1].served.records
    assert shown["streamfl_bytes_total", "up"] > 1000 < shown["streamfl_bytes_total", "down"]
    assert shown["process_resident_memory_bytes",] > 10e6
    done = lambda: sum(host.measures()["streamfl_ledger_records", "accepted"] for host in (a, b))  # noqa: E731
    federation.until("the hosts show it", lambda: done() == sum(entry.records for entry in entries))
    held = a.measures()
    assert {key[1] for key in held if key[0] == "streamfl_backlog_messages"} == {
        f"{small.places[name][0]}/0" for name in a.serves()
    }
    coordinator.kill()
    federation.running.remove(coordinator)
    small.write(until=ROUNDS)
    for host in (a, b):  # a buffer holds two rounds
        full = lambda host=host: host.measures()[("streamfl_pending_records", min(host.serves()))] > SIZE  # noqa: E731
        federation.until("records wait", full)
    federation.start("coordinator")
    small.end()
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))


def test_hosts_with_full_buffers_pause_reading_and_continue(federate, small):
    federation = federate(small, f"client.buffer={SIZE}", "kafka.max_partition_fetch_bytes=1000")
    small.write(until=ROUNDS)
    small.end()
    for name in ("a", "coordinator"):
        federation.start(name)
    check_as_undisturbed(federation, small)
