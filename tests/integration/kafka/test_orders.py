"""The person on call holds a federation, lets it go on, and has it begin an epoch."""

import subprocess

import pytest
from kafka_federation import COMMAND, check_ledger
from small_stream import ROUNDS

from streamfl.protocol.messages import MemberChanged

pytestmark = pytest.mark.full


def ordered(federation, *words):
    """Run a command of an operator, and return what it says."""
    done = subprocess.run(
        [COMMAND, *words, "--settings", str(federation.settings)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_federation_is_held_goes_on_and_restarts(federate, small):
    federation = federate(small)
    federation.start("a")
    coordinator = federation.start("coordinator")
    small.write(until=3)
    federation.until("three rounds", lambda: federation.rounds() == 3)
    assert ordered(federation, "hold") == "hold: done, in effect from entry 5 on\n"
    small.write(until=5)
    assert ordered(federation, "restart", "--model", "scratch") == "restart: done, in effect from entry 5 on\n"
    assert federation.rounds() == 3
    assert ordered(federation, "resume") == "resume: done, in effect from entry 5 on\n"
    federation.until("two more rounds", lambda: federation.rounds() == 5)
    assert ordered(federation, "rollback", "5").startswith("rollback to the model of round 5: done")
    small.write(until=ROUNDS)
    small.end()
    federation.until("the end", lambda: all(process.popen.poll() is not None for process in federation.running))
    check_ledger(federation.closed(), small.each)
    first, second, *_ = federation.restarts()
    assert (first.cause, first.chosen, first.round) == ("operator", "scratch", 4)
    assert (second.cause, second.chosen, second.round) == ("operator", "round-5", 6)
    wanted = ["hold", "restart", "resume", "restart"]
    assert [one.action for one in federation.told() if isinstance(one, MemberChanged)] == wanted
    assert [one["action"] for one in coordinator.said("command carried out")] == wanted
