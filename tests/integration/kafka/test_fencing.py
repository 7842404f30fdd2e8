"""Two coordinators of one federation: the later one goes on, the earlier one ends and harms nothing."""

import signal

import pytest
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS
from suites.parameters import full

TAKEN_OVER = "another coordinator of this federation has taken over; this process ends"


@pytest.mark.parametrize("stopped", [False, full(True)], ids=["while the first runs", "while the first is stopped"])
def test_a_second_coordinator_continues_the_federation_and_fences_the_first(stopped, federate, small):
    federation = federate(small)
    federation.start("a")
    first = federation.start("coordinator")
    small.write(until=5)
    federation.until("five rounds", lambda: federation.rounds() == 5)
    assert federation.round_is_open() == 6

    if stopped:
        first.popen.send_signal(signal.SIGSTOP)
    second = federation.start("second", role=("coordinator", "--until-end"))
    federation.until("the second goes on", lambda: bool(second.said("resumed")))
    small.write(until=ROUNDS - 3)
    if stopped:
        federation.until("rounds without the first", lambda: len(second.said("round")) == ROUNDS - 8)
        first.popen.send_signal(signal.SIGCONT)

    federation.until("the first ends", lambda: first.popen.poll() is not None, patience=20.0)
    assert first.popen.returncode == 1
    assert first.error() == TAKEN_OVER
    assert second.popen.poll() is None
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)
    assert second.said("ended")
