"""Conformance of every profile, and what the checks find in broken ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pytest

from streamfl.arrays import FloatArray
from streamfl.learning.drift.evidence import RoundEvidence
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.learning.profiles.base import Deliberation, Profile, Restart, RoundPlan
from streamfl.learning.profiles.experts import Experts
from streamfl.plugins.profiles import PROFILES
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.messages import LocalDrift
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl.testing import Violation, check_profile
from streamfl.testing.profiles import CHECKS, Play

LEARNER = LearningSettings(features="rounds").learner("classification", seed=0)
CHOSEN: dict[str, dict[str, Any]] = {name: {"profile": name} for name in PROFILES} | {
    "paper, warm, with tests that fire": {"profile": "paper", "rho_scale": 5e-4, "start": "warm"},
    "paper, warm, by regret": {"profile": "paper", "rho_scale": 5e-4, "start": "warm", "optimistic": "regret"},
    "adaptive with GLR": {"profile": "adaptive", "detector": "glr"},
    "adaptive with a scout": {"profile": "adaptive", "detector": "conformal"},
    "experts from scratch": {"profile": "experts", "start": "scratch", "max_order": 3},
}


def made(name: str) -> Profile:
    return ProfileSettings(**CHOSEN[name]).create(100, LEARNER)


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_profile_passes_each_conformance_check(
    name: str, check: Callable[[Callable[[], Profile]], None]
) -> None:
    check(lambda: made(name))


def test_the_rounds_that_profiles_are_checked_on_have_a_restart_and_a_branch() -> None:
    play = Play(made("adaptive"))
    play.through(60)
    decisions = [(t, decision) for t, decided in enumerate(play.decided, start=1) for decision in decided]
    assert [(t, made.chosen) for t, made in decisions if isinstance(made, Restart)] == [(25, "relabelled")]
    assert [(made.clients, made.state) for _, made in decisions if isinstance(made, LocalDrift)] == [
        (("c1",), "latched"),
        (("c1",), "branched"),
    ]
    paper = Play(made("paper, warm, with tests that fire"))
    paper.through(60)
    assert paper.profile.epoch == 2


class Nameless(Experts):
    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        opening = super().open(t, scratch, squared_norm)
        return replace(opening, live=tuple(replace(live, name="one") for live in opening.live), serves="one")


class Absent(Experts):
    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        return replace(super().open(t, scratch, squared_norm), serves="another")


class Nostalgic(Experts):
    """Asks for a round that no client keeps."""

    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        opening = super().open(t, scratch, squared_norm)
        return replace(opening, live=(replace(opening.live[0], history=(1,)), *opening.live[1:]))


class Greedy(Experts):
    """Changes arrays that were passed to it."""

    def close(self, observed: RoundEvidence) -> Alarm | None:
        for played in observed.models.values():
            played.stepped *= 0.5  # type: ignore[misc]
        return super().close(observed)


class Hasty(Experts):
    """Shrinks its models as often as a round is opened."""

    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        for instance in self.instances:
            instance.W = 0.99 * instance.W
        return super().open(t, scratch, squared_norm)


class Random(Experts):
    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        opening = super().open(t, scratch, squared_norm)
        noise = np.random.default_rng().normal()
        return replace(opening, live=tuple(replace(live, eta=live.eta * noise**2) for live in opening.live))


class Miscounting(Promotion):
    def conclude(self, deliberation: Deliberation) -> Restart | LocalDrift:
        decision = super().conclude(deliberation)
        self.epoch += 1
        return decision


@dataclass
class Restless(Promotion):
    """Asks until a client answers."""

    profile: Literal["restless"] = "restless"  # type: ignore[assignment]

    def deliberate(self, alarm: Alarm, observed: RoundEvidence, scratch: FloatArray) -> Any:
        choice = super().deliberate(alarm, observed, scratch)
        asked, ask = choice.ask(), choice.ask
        choice.ask = lambda: asked if set(choice.stepped) <= set(choice.live) else ask()  # type: ignore[method-assign]
        return choice


@dataclass
class Forgetful(Experts):
    """Counts rounds in an attribute that is not saved."""

    profile: Literal["forgetful"] = "forgetful"  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.rounds = 0

    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        opening = super().open(t, scratch, squared_norm)
        return replace(opening, block=1 + self.rounds // 2)

    def close(self, observed: RoundEvidence) -> Alarm | None:
        self.rounds += 1
        return super().close(observed)


@dataclass
class Stiff(Promotion):
    """Forgets the shadow."""

    profile: Literal["stiff"] = "stiff"  # type: ignore[assignment]

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        shadow = self.main.shadow
        super().transform(change)
        self.main.shadow = shadow


@dataclass
class Deaf(Experts):
    profile: Literal["deaf"] = "deaf"  # type: ignore[assignment]

    def close(self, observed: RoundEvidence) -> Alarm | None:
        return None


class Broken(Experts):
    def advance(self, t: int) -> tuple[LocalDrift, ...]:
        return (1 // (t - 1),)  # type: ignore[return-value]


@dataclass
class Hoarding(Promotion):
    """Its state grows with every round."""

    profile: Literal["hoarding"] = "hoarding"  # type: ignore[assignment]

    def close(self, observed: RoundEvidence) -> Alarm | None:
        self.renewed |= {f"a client of round {observed.round}, {i}": 1 for i in range(20)}
        return super().close(observed)


@pytest.mark.parametrize(
    ("kind", "violation"),
    [
        (Nameless, "two live models with one name in round 1"),
        (Absent, r"models that serve in round 1 are not live: \['another'\]"),
        (Nostalgic, "asks for rounds that no client has kept"),
        (Greedy, "it changes an array that was passed to it in round 1"),
        (Hasty, "if rounds are opened twice"),
        (Random, "another course of events in the same rounds"),
        (Miscounting, "epoch 3 after 1 in round 25"),
        (Restless, "an alarm asks for scores more than 10 times"),
        (Forgetful, "saved and read again after round"),
        (Stiff, r"has shape \(3, 2\) instead of \(3, 3\)"),
        (Deaf, "an untrained model has 0.5"),
        (Hoarding, "bytes after 400 rounds"),
        (Broken, "round 1 raises ZeroDivisionError"),
    ],
)
def test_a_profile_that_breaks_a_rule_is_refused_with_the_reason(kind: type[Any], violation: str) -> None:
    with pytest.raises(Violation, match=violation):
        check_profile(kind)
