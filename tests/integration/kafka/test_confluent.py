"""A host that reads through librdkafka, next to one that reads through kafka-python."""

from dataclasses import replace

from kafka_stream import check_as_undisturbed
from small_stream import NAMES, ROUNDS

SOON = "kafka.session_timeout_ms=3000"


def test_hosts_of_both_connectors_share_the_clients_and_take_over_from_one_another(federate, small):
    federation = federate(small, SOON)
    other = replace(federation, connector="confluent", folder=federation.folder / "other")
    assert other.running is federation.running
    a, b = federation.start("a"), other.start("b")
    both = lambda: a.serves() and b.serves() and a.serves() | b.serves() == set(NAMES)  # noqa: E731
    federation.until("both hosts have clients", both)
    federation.start("coordinator")
    small.write(until=5)
    federation.until("five rounds", lambda: federation.rounds() == 5)
    b.kill()
    small.write(until=8)
    federation.until("eight rounds", lambda: federation.rounds() == 8)
    b = other.start("b")
    federation.until("it has clients again", lambda: bool(b.serves()))
    a.kill()
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)
    assert [process.popen.returncode for process in federation.running] == [-9, -9, 0, 0]
