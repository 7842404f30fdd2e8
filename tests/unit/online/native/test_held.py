"""Records that are too few to be sent are learnt again from the next agreed state; what is a client's own, once."""

import numpy as np
import pytest

from streamfl.online.native.at_client import NativeAtClient
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.records import Batch, Span

pytestmark = pytest.mark.compiles


def records(n: int, *, targets: bool) -> Batch:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    y = 5.0 + X[:, 0] if targets else (X[:, 0] > 0.0).astype(np.float64)
    return Batch(Span("p", 0, n), np.arange(n), ("u", "v"), X, y, () if targets else ("a", "b"))


@pytest.mark.parametrize("targets", [False, True])
def test_what_is_learnt_again_after_hold_is_as_if_it_had_been_learnt_once(targets):
    settings = NativeSettings("linear", targets=targets)
    held, once = NativeAtClient(settings), NativeAtClient(settings)
    for n in (4, 7):  # two rounds in which they are too few
        held.hold()
        held.learn([records(n, targets=targets)])
        held.forget()
    for client in (held, once):
        client.learn([records(25, targets=targets)])
    assert held.served.tolist() == once.served.tolist()
    assert held.learner.own.records == once.learner.own.records == 25
    assert held.learner.near.seen == once.learner.near.seen
    assert held.learner.mixture.shares.tolist() == once.learner.mixture.shares.tolist()


def test_what_was_released_is_not_gone_back_to():
    client = NativeAtClient(NativeSettings("linear"))
    client.hold()
    client.learn([records(4, targets=False)])
    client.release()
    client.forget()
    assert client.learner.own.records == 4
