"""Models of a round as differences: what the coordinator publishes, and a client that lacks, loses or is lied to."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from unit.machines.script import (
    LEARNER,
    PROFILES,
    SLOT,
    Federation,
    batch,
    client,
    closed,
    federation,
    feed,
    first_update,
    joined,
    opening,
    reborn,
    sent,
    weights_in,
)

from streamfl.errors import PeerError
from streamfl.machines.client.ledger.published import Published
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.round.open_round import grid_of
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.changes import changed, followed
from streamfl.protocol.decisions import Dropped
from streamfl.protocol.events import Tick
from streamfl.protocol.messages import (
    BEFORE,
    NOTHING,
    Join,
    ModelPublished,
    ModelsChanged,
    RoundClosed,
    RoundOpened,
    Update,
)
from streamfl.wire import messages


def dropped(decisions: list[Any]) -> list[str]:
    """Return why messages were dropped."""
    return [str(decision.error) for decision in decisions if isinstance(decision, Dropped)]


GRID = np.array([-2.0, -1.0])
ZERO, ONE = np.zeros((2, 2)), np.array([[0.25, -0.25], [0.5, -0.5]])


def change(version: int, before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> ModelsChanged:
    """Return the changes as they arrive: read from bytes."""
    message = changed(version, before, after, GRID)
    assert message is not None
    arrived = messages.decode(messages.encode(message))
    assert isinstance(arrived, ModelsChanged)
    return arrived


class TestChanged:
    def test_each_model_is_published_as_a_change_of_the_nearest_one(self):
        before = {"a": ONE, "b": 9.0 * ONE}
        after = {"a": 2.0 * ONE, "b": 2.0 * ONE, "new": 3.0 * ONE, "zero": ZERO}
        message = change(4, before, after)
        assert message.bases == (BEFORE, 0, 0, NOTHING)
        assert message.numbers.tolist() == [[1, -1], [1, -1], [0, 0], [0, 0], [1, -1], [1, -1], [0, 0], [0, 0]]
        models = followed(message, before)
        assert models is not None
        assert {name: W.tolist() for name, W in models.items()} == {name: W.tolist() for name, W in after.items()}

    def test_a_model_is_published_as_no_change_of_models_of_another_shape(self):
        message = change(4, {"a": np.ones((2, 1))}, {"a": ONE})
        assert message.bases == (NOTHING,)

    @pytest.mark.parametrize("W", [ONE / 3.0, ONE * 2.0**40, ONE * np.inf, ONE * np.nan], ids=str)
    def test_a_model_off_the_grid_or_too_far_is_not_published_as_a_change(self, W):
        assert changed(4, {"a": ZERO}, {"a": W}, GRID) is None

    def test_clients_of_one_process_share_what_they_follow_from_the_same_models(self):
        before = {"a": ONE}
        message = change(4, before, {"a": 2.0 * ONE})
        assert followed(message, before)["a"] is followed(message, dict(before))["a"]
        assert followed(message, {"a": ONE.copy()})["a"] is not followed(message, before)["a"]


class TestFollowed:
    def test_a_change_without_the_version_before_gives_no_model(self):
        assert followed(change(4, {"a": ONE}, {"a": 2.0 * ONE}), {"b": ONE}) is None

    def test_a_change_of_a_forged_version_gives_no_model(self):
        message = change(4, {"a": ONE}, {"a": 2.0 * ONE})
        with pytest.raises(PeerError, match="digest"):
            followed(message, {"a": 3.0 * ONE})

    def test_changes_may_come_before_what_they_change(self):
        here = Published()
        later = change(3, {"a": 2.0 * ONE}, {"a": 3.0 * ONE})
        sooner = change(2, {"a": ONE}, {"a": 2.0 * ONE})
        for message in (later, sooner, ModelPublished(slot="a", version=1, registry=1, weights=ONE)):
            assert here.add(message) == []
        assert {v: W.tolist() for v, W in here.slots["a"].versions.items()} == {
            v: (v * ONE).tolist() for v in (1, 2, 3)
        }
        assert not here.changes.versions

    def test_forged_changes_are_dropped_and_reported_and_the_others_kept(self):
        here = Published()
        here.add(ModelPublished(slot="a", version=1, registry=1, weights=ONE))
        forged = replace(change(2, {"a": ONE}, {"a": 2.0 * ONE}), numbers=np.full((2, 2), 7.0))
        assert [str(error) for error in here.add(forged)] == ["the models do not match their digest"]
        assert here.add(change(2, {"a": ONE}, {"a": 2.0 * ONE})) == []
        assert here.slots["a"].versions[2].tolist() == (2.0 * ONE).tolist()

    def test_changes_that_wait_for_versions_that_never_come_are_bounded(self):
        here = Published()
        for version in range(5, 500, 5):
            here.add(change(version, {"a": ONE}, {"a": 2.0 * ONE}))
        assert len(here.changes.versions) == 3
        here.forget_before([replace(SLOT, version=10**6)])
        assert not here.changes.versions


# --- a client --------------------------------------------------------------------------------------------------


def second(start: np.ndarray, after: np.ndarray, **forged: Any) -> tuple[Any, ...]:
    """Return what opens round 2: changes of the model of round 1, and RoundOpened."""
    message = changed(2, {"m": start}, {"m": after}, GRID[:1].repeat(2))
    assert message is not None
    return (replace(message, **forged), opening(2)[-1])


def after_one_round() -> tuple[Any, Update]:
    machine = client()
    update = first_update(machine, batch("abab" + "abab"), weights={"m": ONE})
    feed(machine, closed(1, update))
    return machine, update


def test_a_client_works_with_the_changed_models():
    machine, _ = after_one_round()
    (update,) = sent(feed(machine, *second(ONE, 2.0 * ONE)), Update)
    machine, _ = after_one_round()
    (expected,) = sent(feed(machine, *opening(2, weights={"m": 2.0 * ONE})), Update)
    assert update.numbers.differences["m"].tolist() == expected.numbers.differences["m"].tolist()
    assert update.numbers.losses == expected.numbers.losses


LIES = {
    "other numbers": {"numbers": np.ones((2, 2))},
    "another digest": {"digest": "0" * 16},
    "huge numbers": {"numbers": np.full((2, 2), 1e300)},
    "numbers that are none": {"numbers": np.full((2, 2), np.nan)},
    "numbers of another shape": {"numbers": np.zeros((3, 2))},
    "a row of numbers": {"numbers": np.zeros(4)},
    "huge steps": {"exponents": np.full(2, 1e9)},
    "steps that are no powers of two": {"exponents": np.full(2, 0.5)},
    "a matrix of steps": {"exponents": np.zeros((1, 2))},
    "a base after it": {"bases": (0,)},
    "a base that is none": {"bases": (-3,)},
    "no bases": {"bases": ()},
    "a slot twice": {"slots": ("m", "m"), "bases": (-1, -1), "numbers": np.zeros((4, 2))},
    "no slots": {"slots": (), "bases": (), "numbers": np.zeros((0, 2))},
}


@pytest.mark.parametrize("name", LIES)
def test_a_forged_change_is_dropped_and_the_client_asks_and_gets_all_whole(name):
    machine, _ = after_one_round()
    decisions = feed(machine, *second(ONE, 2.0 * ONE, **LIES[name]))
    assert sent(decisions, Update) == []
    assert len(dropped(decisions)) == machine.dropped == 1
    (asked,) = sent(feed(machine, Tick(), now=machine.wakes_at), Join)
    answered = feed(machine, joined(entry=2, positions={"c0": 4}, read=4, question=asked.question), now=6.0)
    assert sent(answered + feed(machine, *opening(2), now=6.0), Update)


def test_a_change_of_a_version_that_never_was_waits_without_harm():
    machine, _ = after_one_round()
    changes, opened = second(ONE, 2.0 * ONE)
    assert feed(machine, replace(changes, version=10**9), replace(changes, slots=("unknown",), version=7)) == []
    assert sent(feed(machine, changes, opened), Update)


def test_a_forged_model_does_not_stick():
    """The change of a forged model leads to no model of its digest, so the client asks for the true one."""
    machine, _ = after_one_round()
    feed(machine, ModelPublished(slot="m", version=1, registry=1, weights=5.0 * ONE))
    decisions = feed(machine, *second(ONE, 2.0 * ONE))
    assert dropped(decisions) == ["the models do not match their digest"]
    assert sent(decisions, Update) == []
    assert sent(feed(machine, Tick(), now=machine.wakes_at), Join)


# --- a federation ----------------------------------------------------------------------------------------------


def test_models_of_rounds_are_published_as_changes_and_whole_to_those_who_join():
    run = federation("adaptive").run()
    kinds = Counter((type(m), m.version) for m in run.log if isinstance(m, ModelPublished | ModelsChanged))
    rounds = [opened.round for opened in run.of(RoundOpened)]
    assert max(rounds) > 10
    assert {version for kind, version in kinds if kind is ModelsChanged} == set(rounds) - {1}
    assert kinds[ModelPublished, 1] == 9
    assert weights_in(run.log).keys() >= {(slot.name, o.round) for o in run.of(RoundOpened) for slot in o.slots}


def test_the_serving_model_is_the_one_that_clients_have():
    run = federation("adaptive").run()
    opened, published = run.of(RoundOpened)[-1], weights_in(run.log)
    _, W = run.coordinator.serving()
    assert W.tolist() == published[opened.serves, opened.round].tolist()
    assert run.of(RoundClosed)[-1].model == run.coordinator.digest()
    grid = grid_of(run.coordinator._unsaved.open_round.plan.live, run.coordinator.state)
    assert grid is not None
    assert (np.ldexp(W, -grid.astype(np.int64)[:, None]) % 1.0 == 0.0).all()
    exact = next(live.W for live in run.coordinator._unsaved.open_round.plan.live if live.name == opened.serves)
    assert (np.abs(W - exact) <= np.ldexp(0.5 * W.shape[1], grid.astype(np.int64))[:, None]).all()
    assert np.abs(W - exact).max() > 0.0


def test_a_coordinator_that_is_restored_at_every_commit_publishes_the_same():
    undisturbed, restored = federation("adaptive").run(), federation("adaptive", restart=reborn).run()
    assert restored.coordinator is not undisturbed.coordinator
    assert restored.coordinator.digest() == undisturbed.coordinator.digest()


class Deaf(Federation):
    """A federation in which c1 misses the changes of round 4."""

    def _client(self, name: str, event: Any) -> None:
        if name == "c1" and isinstance(event, ModelsChanged) and event.version == 4:
            return
        super()._client(name, event)


def test_a_client_that_misses_a_change_asks_and_goes_on_with_the_same_models():
    undisturbed = federation("adaptive").run()
    machine = Coordinator(
        CoordinatorSettings(learner=LEARNER, min_clients=len(undisturbed.records)), PROFILES["adaptive"]()
    )
    run = Deaf(machine, undisturbed.records, undisturbed.settings).run()
    assert len([join for join in run.of(Join) if join.client == "c1"]) > 1
    assert {m.version for m in run.of(ModelPublished)} >= {1, 4}
    assert run.coordinator.digest() == undisturbed.coordinator.digest()
