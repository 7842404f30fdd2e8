"""The signs by which histories judge clients come from the coordinator's key, which nothing that is saved shows."""

from dataclasses import replace

import numpy as np
import pytest
from unit.machines.script import answer, begun, broadcast, coordinator, feed

from streamfl.learning.influence import NUMBERS, Contributions, Influence, judge, sketches
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.protocol.messages import Numbers, RoundOpened, Update
from streamfl.protocol.registry import Registry
from streamfl.wire import state_bytes
from streamfl.wire.sealing import Sealing
from streamfl.wire.signing import PrivateKey
from streamfl_benchmarks.liars.knowing import LARGE, LESS, MORE, Knowing, unseen

SECRET, OTHER = (Sealing.of(PrivateKey(bytes([n]) * 32), "forest") for n in (1, 2))
NAMES = tuple(f"c{i}" for i in range(10))
PUBLIC = 7
ROUND = {
    **dict.fromkeys(("entry", "round", "epoch", "registry"), 1),
    **{"client": "c0", "attempt": "1-1", "records": 60, "trained": 60, "rejected": 0, "spans": ()},
}


def share_of_a_liar(seed: int) -> float:
    """The share of one of ten clients that pushes for 30 rounds where the history of a public seed sees nothing."""
    rng, histories, shape, shares = np.random.default_rng(0), {}, (40, 2, 4), {}
    centred = np.eye(4) - 0.25
    push = 2.0 * unseen(rng.standard_normal(shape) @ centred, PUBLIC)
    for _ in range(30):
        numbers = rng.standard_normal((10, *shape)) @ centred
        numbers[-1] = push
        shares, histories = judge(Contributions.of("steps", NAMES, np.full(10, 60.0), numbers, seed), histories)
    assert {share for name, share in shares.items() if name != NAMES[-1]} == {1.0}
    return shares[NAMES[-1]]


def test_a_push_that_public_signs_do_not_see_is_seen_by_those_of_a_secret():
    assert share_of_a_liar(PUBLIC) == 1.0  # what docs/trust.md says that the bound is worth without a secret
    assert share_of_a_liar(SECRET.seed) == 0.0


def test_a_liar_that_knows_the_metric_sends_what_public_histories_do_not_see_at_a_size_that_counts():
    names, labels = tuple(f"x{i}" for i in range(40)), ("a", "b", "c", "d")
    agreed = Agreement(Registry(1, names, labels, np.zeros(40), np.ones(40)), squared_norm=41.0)
    x = 60.0 * np.random.default_rng(0).standard_normal((2, 41, 4)) @ (np.eye(4) - 0.25)
    honest = Update(**ROUND, numbers=Numbers(differences={"m": x[0], "n": x[1]}))
    sent = Knowing(lambda: agreed, PUBLIC)(honest, 0)
    numbers = [np.stack([one.numbers.differences[name] for name in "mn"], axis=1) for one in (honest, sent)]
    sizes = [float(np.linalg.norm(each)) for each in numbers]
    assert sizes[1] == pytest.approx(LARGE * sizes[0])
    seen = [float(np.linalg.norm(sketches("steps", numbers[1][None], seed))) for seed in (PUBLIC, SECRET.seed)]
    assert seen[0] < 1e-6 * sizes[1] < 0.5 * sizes[1] < seen[1]


def test_a_liar_that_watches_pushes_less_after_an_update_that_did_not_count_whole():
    shares = iter((1.0, 0.0, 0.5, 1.0))
    liar = Knowing(lambda: None, share=lambda: next(shares))  # type: ignore[arg-type,return-value]
    honest = np.ones((3, 1, 2)) * np.array([1.0, -1.0])
    sizes = [float(np.linalg.norm(liar._pushed(honest, 0)) / np.linalg.norm(honest)) for _ in range(4)]
    assert sizes == pytest.approx([LARGE, LARGE * LESS, LARGE * LESS**2, LARGE * LESS**2 * MORE])


def test_signs_follow_from_the_key_and_the_federation_alone():
    seeds = [Sealing.of(PrivateKey(bytes([n]) * 32), name).seed for n, name in ((1, "forest"), (2, "forest"))]
    assert SECRET.seed == seeds[0] != seeds[1]
    assert Sealing.of(PrivateKey(bytes([1]) * 32), "meadow").seed != SECRET.seed


def rounds(machine: Coordinator, opened: RoundOpened, count: int) -> RoundOpened:
    """Close some rounds of five clients, of whom the last one pushes."""
    for _ in range(count):
        start = 4 * (opened.round - 1)
        sent = [answer(opened, f"c{i}", start=start) for i in range(5)]
        (opened,) = broadcast(feed(machine, *sent), RoundOpened)
    return opened


def test_the_saved_state_holds_histories_sealed_and_a_coordinator_with_the_key_goes_on_as_if_it_never_ended():
    machine = coordinator(5, secret=SECRET)
    opened = rounds(machine, begun(machine, *NAMES[:5]), 3)
    state = machine.state
    shown = state.influence.shown(SECRET).histories["steps"]
    assert (state.influence.histories, sorted(shown)) == ({}, list(NAMES[:5]))
    assert any(sketch.any() for sketch in shown.values())
    again = Coordinator(machine.settings, state_bytes.decode(state_bytes.encode(state)))
    again.start(0.0)
    for one in (machine, again):
        rounds(one, opened, 2)
    assert state_bytes.encode(again.state) == state_bytes.encode(machine.state)


def test_a_coordinator_with_another_key_or_after_a_forged_state_begins_histories_anew():
    sketch = np.linspace(-1.0, 1.0, NUMBERS)
    kept = Influence({"steps": {"c0": sketch}})
    sealed = kept.hidden(SECRET)
    assert (sealed.shown(SECRET).histories["steps"]["c0"] == sketch).all()
    forged = replace(sealed, sealed="A" + sealed.sealed[1:])
    for found in (sealed.shown(OTHER), sealed.shown(None), forged.shown(SECRET), kept.shown(SECRET)):
        assert found.histories == {}
    assert kept.hidden(None) is kept
    assert kept.hidden(SECRET).sealed == sealed.sealed  # the same bytes, whichever coordinator of this key saves them
