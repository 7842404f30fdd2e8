"""Masked sums on a broker: whoever is killed, the model is that of the same sums in the clear."""

from dataclasses import replace

import pytest
from kafka_stream import check_as_undisturbed
from small_stream import NAMES, ROUNDS

from streamfl.protocol.messages import Join, Roster, RoundOpened, Unmask, Update
from streamfl.run.settings import PrivacySettings


@pytest.fixture
def hidden(small):
    """The small stream, compared with a replay whose sums are in the clear."""
    return replace(small, privacy=PrivacySettings(secure_aggregation="pooled"))


def test_hosts_and_coordinator_are_killed_and_the_model_has_the_same_bytes(federate, hidden):
    federation = federate(hidden, 'privacy.secure_aggregation="masked"', "kafka.session_timeout_ms=3000")
    a, b = federation.start("a"), federation.start("b")
    both = lambda: a.serves() and b.serves() and a.serves() | b.serves() == set(NAMES)  # noqa: E731
    federation.until("both hosts have clients", both)
    coordinator = federation.start("coordinator")
    hidden.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() == 4)
    hidden.write(until=5, names=[min(a.serves()), min(b.serves())])
    b.kill()
    federation.until("the other has all clients", lambda: a.serves() == set(NAMES), patience=20.0)
    hidden.write(until=9)
    federation.until("nine rounds", lambda: federation.rounds() == 9)
    coordinator.kill()
    federation.start("coordinator")
    hidden.write(until=ROUNDS)
    hidden.end()
    check_as_undisturbed(federation, hidden)
    check_nobody_is_told(federation)


def check_nobody_is_told(federation):
    """Check that no message holds a number about the records of one client."""
    heard = federation.heard()
    assert sum(isinstance(message, Update) for message in heard) > len(NAMES) * ROUNDS
    for message in heard:
        if isinstance(message, Join):
            assert not message.moments.count.any()
            assert not message.moments.mean.any()
        if isinstance(message, Update) and message.records:
            assert message.sums
            assert (
                message.numbers.losses,
                message.numbers.differences,
                message.numbers.new,
                message.numbers.times,
            ) == ({}, {}, (), None)
    told = [message for message in federation.told() if isinstance(message, RoundOpened | Roster | Unmask)]
    assert all(opened.totals.pooled and opened.totals.roster for opened in told if isinstance(opened, RoundOpened))
    assert all(len(asked.attempts) == len(NAMES) for asked in told if isinstance(asked, Unmask))
    assert len({roster.version for roster in told if isinstance(roster, Roster)}) > 1
