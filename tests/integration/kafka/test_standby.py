"""A coordinator stands by, takes over when the other falls silent, and nobody loses a record or a bit."""

import signal

import pytest
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS

STANDBY = ("coordinator", "--until-end", "--standby")


def serving(*coordinators):
    """Return those that have become the coordinator, and were not taken over since."""
    return [one for one in coordinators if len(one.said("another coordinator has taken over")) < _begun(one)]


def rounds(federation):
    """Return how many rounds the ledger has, whoever has closed them."""
    return len(federation.closed())


def _begun(one):
    return len(one.said("no other coordinator is heard"))


@pytest.fixture
def pair(federate, small):
    """A federation in its third round with two coordinators; the first of them serves."""
    federation = federate(small)
    federation.start("a")
    first = federation.start("first", role=STANDBY)
    federation.until("the first takes over from nobody", lambda: bool(first.said("a new federation")))
    second = federation.start("second", role=STANDBY)
    federation.until("the second stands by", lambda: bool(second.said("standing by")))
    small.write(until=2)
    federation.until("two rounds", lambda: rounds(federation) == 2)
    return federation, first, second


def test_kills_of_whoever_serves_change_no_bit(pair, small):
    federation, first, second = pair
    first.kill()
    small.write(until=6)
    federation.until("the second has taken over", lambda: rounds(federation) == 6)
    assert serving(second) == [second]
    second.kill()
    small.write(until=10)
    third = federation.start("third", role=STANDBY)
    federation.until("the third has taken over", lambda: rounds(federation) == 10)
    assert serving(third) == [third]
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)


@pytest.mark.full
def test_an_upgrade_by_turns_stalls_no_round_and_changes_no_bit(pair, small):
    """As docs/operate.md says: a new coordinator stands by, and the old one ends."""
    federation, first, second = pair
    assert first.terminate() == 0
    small.write(until=6)
    federation.until("the second has taken over", lambda: rounds(federation) == 6)
    third = federation.start("third", role=STANDBY)
    federation.until("the third stands by", lambda: bool(third.said("standing by")))
    assert second.terminate() == 0
    small.write(until=ROUNDS)
    federation.until("the third has taken over", lambda: rounds(federation) == ROUNDS)
    assert serving(third) == [third]
    small.end()
    check_as_undisturbed(federation, small)


@pytest.mark.full
def test_a_coordinator_that_was_suspended_notices_that_another_has_taken_over_and_stands_by(pair, small):
    federation, first, second = pair
    first.popen.send_signal(signal.SIGSTOP)
    small.write(until=6)
    federation.until("the second has taken over", lambda: rounds(federation) == 6)
    first.popen.send_signal(signal.SIGCONT)
    small.write(until=8)
    stands_by = lambda: len(first.said("standing by")) == 2  # noqa: E731
    federation.until("the first stands by", stands_by)
    assert first.popen.poll() is None
    assert serving(first, second) == [second]
    second.kill()
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)


@pytest.mark.full
def test_while_nobody_falls_silent_nobody_takes_over(pair, small):
    federation, first, second = pair
    small.write(until=ROUNDS)
    federation.until("the last round", lambda: rounds(federation) == ROUNDS)
    assert (_begun(first), _begun(second)) == (1, 0)
    assert second.terminate() == 0
    small.end()
    check_as_undisturbed(federation, small)
