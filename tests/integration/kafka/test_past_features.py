"""Lags on a real broker: the model of the replay of a file, also when the host of the clients is killed."""

import pytest
from kafka_stream import check_as_undisturbed
from small_stream import ROUNDS

from streamfl.records.past_features import PastFeatures


@pytest.mark.full
def test_a_federation_learns_from_lags_as_the_replay_does_though_its_host_is_killed(federate, small):
    small.past = PastFeatures((1, 24), 10)
    federation = federate(small, "records.lags=[1,24]", "records.window=10")
    host = federation.start("a")
    federation.until("the host has its clients", lambda: len(host.serves()) == 3)
    federation.start("coordinator")
    for until in (5, 12):
        small.write(until=until)
        federation.until(f"round {until - 1}", lambda until=until: federation.rounds() >= until - 1)
        host.kill()
        host = federation.start("a")
    small.write(until=ROUNDS)
    small.end()
    check_as_undisturbed(federation, small)
