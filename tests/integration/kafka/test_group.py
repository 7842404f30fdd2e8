"""Hosts share the clients: one takes over from another, and no record is lost or counted twice."""

import pytest
from kafka_federation import CONNECTORS, check_ledger
from kafka_stream import check_as_undisturbed
from small_stream import NAMES, ROUNDS, make

SOON = "kafka.session_timeout_ms=3000"


@pytest.fixture(params=CONNECTORS)
def federation(request, federate, small):
    """One whose two hosts share the clients, in the middle of round 6."""
    federation = federate(small, SOON, connector=request.param)
    a, b = federation.start("a"), federation.start("b")
    both = lambda: a.serves() and b.serves() and a.serves() | b.serves() == set(NAMES)  # noqa: E731
    federation.until("both hosts have clients", both)
    federation.start("coordinator")
    small.write(until=5)
    federation.until("five rounds", lambda: federation.rounds() == 5)
    small.write(until=6, names=[min(a.serves()), min(b.serves())])
    assert federation.round_is_open() == 6
    return federation


def host(federation, name):
    return next(process for process in federation.running if process.name == name)


def test_a_host_that_is_killed_leaves_its_clients_to_the_other(federation, small):
    a, b = host(federation, "a"), host(federation, "b")
    b.kill()
    small.write(until=ROUNDS)
    small.end()
    federation.until("the other has all clients", lambda: a.serves() == set(NAMES), patience=20.0)
    check_as_undisturbed(federation, small)
    assert [process.popen.returncode for process in federation.running] == [0, -9, 0]


@pytest.mark.full
def test_a_host_that_joins_while_a_round_is_open_changes_nothing_that_is_learnt(federation, small):
    c = federation.start("c")
    federation.until("the new one has a client", lambda: bool(c.serves()))
    assert federation.round_is_open() == 6
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)
    assert sum(process.said("ended")[-1]["accepted"] > 0 for process in federation.running) == 4


@pytest.mark.full
def test_topics_that_come_later_are_shared_too(federate, small):
    federation = federate(small, SOON)
    hosts = [federation.start(name) for name in ("a", "b", "c")]
    shared = lambda names: (  # noqa: E731
        all(host.serves() for host in hosts) and sorted(name for host in hosts for name in host.serves()) == names
    )
    federation.until("every host has a client", lambda: shared(sorted(NAMES)))
    for come in (("d0", "d1", "d2"), ("e0", "e1", "e2")):
        make(small.bootstrap, {f"{small.prefix}.{name}": 1 for name in come})
        small.names = (*small.names, *come)
        federation.until("new clients are served, each once", lambda: shared(sorted(small.names)), patience=40.0)


@pytest.mark.full
def test_a_host_that_is_stopped_and_restarted_changes_nothing_that_is_learnt(federation, small):
    b, coordinator = host(federation, "b"), host(federation, "coordinator")
    gone, before = b.serves(), len(b.said("client taken"))
    assert b.terminate() == 0
    (line,) = b.said("ended")
    assert line["read"] == line["accepted"] + line["rejected"] + line["pending"] > 0

    federation.running.remove(b)
    again = federation.start("b")
    federation.until("it has clients again", lambda: len(again.said("client taken")) > before)  # its log goes on
    # Not always the same ones: after the session timeout the group deals anew. And who left asks to join only once it
    # has a round of records; the others must not end before.
    small.write(until=ROUNDS, names=gone)
    federation.until("those who left take part again", lambda: gone <= coordinator.members())
    small.write(until=ROUNDS)
    small.end()
    federation.until("the end", lambda: all(p.popen.poll() is not None for p in federation.running))
    check_ledger(federation.closed(), small.each)
    assert [process.ended() for process in federation.running] == [0, 0, 0]


@pytest.mark.full
def test_the_first_of_two_hosts_of_one_name_ends(federation, small):
    first = host(federation, "b")
    second = federation.start("second", role=("client", "--host", "b", "--until-end"))
    federation.until("the first ends", lambda: first.popen.poll() is not None)
    assert first.popen.returncode == 1
    assert first.error().startswith("another process of the same name has taken over; give each host its own")
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)
    assert second.popen.returncode == 0
