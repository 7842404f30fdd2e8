"""What a broken or hostile client can send, and what a federation must survive."""

from dataclasses import replace

import numpy as np
import pytest
from unit.machines.script import (
    SLOT,
    answer,
    batch,
    begun,
    client,
    closed,
    coordinator,
    first_update,
    join,
    refusals,
    sent,
    tell,
    told,
)

from streamfl import messages
from streamfl.core.errors import PeerError
from streamfl.core.events import SourceEnded
from streamfl.core.messages import Joined, Leave, RoundOpened, Score, Slot, SlotLosses
from streamfl.core.moments import Moments
from streamfl.replay import Replay, ReplaySettings
from streamfl.streams.dealing import deal
from streamfl.streams.table import Table

RUNGS = [f"rung-{k}" for k in (0, 2, 4, 6, 8)]


def M(count=1.0, mean=0.0, m2=1.0):
    return Moments(("x",), np.atleast_1d(count), np.atleast_1d(mean), np.atleast_1d(m2))


BAD = {
    "norm NaN": {"squared_norm": float("nan")},
    "norm negative": {"squared_norm": -1e9},
    "largest NaN": {"largest_norm": float("nan")},
    "more records than positions": {"records": 10**9, "trained": 10**9},
    "records without positions": {"spans": ()},
    "a known label as new": {"new_labels": ("a",), "differences": {n: np.ones((2, 3)) for n in RUNGS}},
    "a new label twice": {"new_labels": ("z", "z"), "differences": {n: np.ones((2, 4)) for n in RUNGS}},
    "a known feature as new": {"new_features": ("x",)},
    "a score below 0": {"losses": {n: SlotLosses(loss=-1e9, square=0.0) for n in RUNGS}},
    "a mean score above 1": {"losses": {n: SlotLosses(loss=1e9, square=0.0) for n in RUNGS}},
    "trained, but no difference": {"differences": {}},
    "moments NaN": {"moments": M(mean=np.nan)},
    "moments of other shapes": {"moments": M(count=[1.0, 1.0])},
    "moments of negative count": {"moments": M(count=-4.0)},
}


@pytest.mark.parametrize("spoilt", BAD.values(), ids=BAD)
def test_refused(spoilt):
    machine = coordinator(2, scaling=True)
    opened = begun(machine, "c0", "c1")
    good = {n: replace(answer(opened, n), moments=M()) for n in ("c0", "c1")}
    assert len(refusals(tell(machine, replace(good["c1"], **spoilt), good["c0"]))) == 1


@pytest.mark.parametrize("moments", [M(mean=np.nan), M(count=[1.0, 1.0])], ids=["NaN", "shapes"])
def test_join_refused(moments):
    assert len(refusals(tell(coordinator(1, scaling=True), join("c0", moments=moments)))) == 1


def test_leave_comes_at_once():
    machine = client()
    update = first_update(machine, batch("abab"))
    tell(machine, SourceEnded())
    assert sent(tell(machine, closed(1, update)), Leave)


def test_no_slot_is_mine():
    assert first_update(client(), batch("abab"), slots=(replace(SLOT, clients=("c9",)),)).trained == 0


def test_no_candidate_is_mine():
    machine = client()
    first_update(machine, batch("abab"))
    other = Slot(name="s", version=1, eta=1.0, clients=("c9",))
    tell(machine, Score(entry=1, round=1, epoch=1, registry=1, slots=(other,)))


def test_the_incumbent_is_not_mine():
    first_update(client(), batch("abab"), slots=(replace(SLOT, clients=("c9",)), replace(SLOT, name="n")))


def test_a_name_that_is_a_reference():
    message = Joined(client="c", incarnation="1", entry=1, positions={"$array": 5}, read=0)
    assert messages.decode(messages.encode(message)) == message


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"joined","client":"c","incarnation":"1","entry":1,"positions":{"$array":{}},"read":0}',
        b'{"a":' * 100_000,
    ],
    ids=["unhashable", "deep"],
)
def test_peer_error(data):
    with pytest.raises(PeerError):
        messages.decode(data)


def test_a_lone_surrogate_kills_the_coordinator():
    data = messages.encode(join("c0", labels=("a", "\ud800")))
    try:
        message = messages.decode(data)
    except PeerError:
        return
    machine = coordinator(1)
    (opened,) = told(tell(machine, message), RoundOpened)
    tell(machine, answer(opened, "c0"))


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_a_late_feature_is_scaled(scale):
    rng = np.random.default_rng(0)
    n = 4000
    y = rng.integers(0, 2, n)
    X = np.column_stack([rng.normal(size=n) + 3 * y, scale * (rng.normal(size=n) + 10)])
    X[:1200, 1] = np.nan
    table = Table("t", ("a", "late"), X, y.astype(float), ("0", "1"), np.arange(n))
    run = Replay(table, deal(table, 4, "round-robin", 0), ReplaySettings(round_size=20)).run()
    assert np.mean([line.accuracy for line in run.rounds[-10:]]) > 0.9
