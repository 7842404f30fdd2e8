"""A forged state that decodes: a coordinator that cannot go on from it takes the one before."""

from dataclasses import replace

import numpy as np
import pytest

from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.learning.profiles.paper.block import Block
from streamfl.live.coordinator import wrong_state
from streamfl.live.settings.settings import FederationSettings
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import Join
from streamfl.protocol.moments import Moments


def begun_state(profile) -> CoordinatorState:
    """Return a state in which round 1 is open."""
    join = Join(client="c0", nonce="1", moments=Moments.of(("x",), np.array([[1.0], [2.0]])), labels=("a", "b"))
    members, agreement = {"c0": Member(1)}, Agreement.of([join], scaling=True)
    return CoordinatorState(profile, members=members, agreement=agreement)


def of_profile(name: str) -> FederationSettings:
    return FederationSettings(
        federation={"horizon": 100},
        records={"topics": ["r.*"]},
        profile={"profile": name},
        learning={"features": "rounds"},
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda p: replace(p, settings=replace(p.settings, max_order=60), next_order=60),
            "other settings of profile",
        ),
        (lambda p: replace(p, settings=replace(p.settings, horizon=10**9)), "other settings of profile"),
        (lambda p: replace(p, next_order=60), "orders that a block cannot have"),
        (lambda p: replace(p, next_order=-1), "orders that a block cannot have"),
        (lambda p: replace(p, horizon=-1), "orders that a block cannot have"),
        (lambda p: replace(p, block=Block(60, 1, 1, ())), "orders that a block cannot have"),
        (lambda p: replace(p, block=Block(2, 1, 1, ())), "no round can be opened from it: ValueError"),
        (lambda p: Promotion(), "profile adaptive, and paper is configured"),
    ],
)
def test_a_forged_state_that_would_keep_the_coordinator_from_starting_is_no_state(change, why):
    settings = of_profile("paper")
    wrong = wrong_state(settings)
    profile = settings.first_state().profile
    assert wrong(begun_state(profile)) is None
    reason = wrong(begun_state(change(settings.first_state().profile)))
    assert reason is not None
    assert reason.startswith(why)


@pytest.mark.parametrize("name", ["adaptive", "experts"])
def test_a_state_of_other_constants_than_configured_is_none(name):
    settings = of_profile(name)
    profile = settings.first_state().profile
    assert wrong_state(settings)(begun_state(profile)) is None
    (constant,) = profile.constants
    forged = replace(profile, **{constant: replace(getattr(profile, constant), step=1e300)})
    assert "than are configured" in str(wrong_state(settings)(begun_state(forged)))
