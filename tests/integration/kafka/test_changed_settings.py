"""A coordinator that starts again with other settings: it takes what may change, says so, and refuses the rest."""

import pytest
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS

pytestmark = pytest.mark.full


@pytest.fixture
def stopped(federate, small):
    """A federation of which the coordinator has been stopped after four rounds."""
    federation = federate(small)
    federation.start("a")
    coordinator = federation.start("coordinator")
    small.write(until=4)
    federation.until("four rounds", lambda: federation.rounds() == 4)
    assert coordinator.terminate() == 0
    federation.running.remove(coordinator)
    return federation


def test_what_may_not_change_is_refused_with_the_remedy_and_what_may_is_told(stopped, small):
    refused = stopped.start("coordinator", "--set", 'learning.features="linear"', "--set", "rounds.deadline=300")
    assert refused.popen.wait(60) == 2
    stopped.running.remove(refused)
    words = (stopped.folder / "coordinator.log").read_text().splitlines()[-1]
    assert (
        'learning.features was "rounds" and is now "linear": set it back, or start a new federation under another '
        "[federation] name" in words
    )

    stopped.start("coordinator", "--set", "rounds.deadline=300")
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(stopped, small)
    (told,) = stopped.running[-1].said("setting changed")
    assert (told["setting"], told["was"], told["now"]) == ("rounds.deadline", "0.0", "300.0")
    assert stopped.running[-1].said("resumed")[-1]["round"] == 5
