"""Conformance of every drift detector, and what the checks find in broken ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest

from streamfl.learning.drift.detector import Detector, ScoreDetector
from streamfl.learning.drift.evidence import RoundEvidence
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.plugins.detectors import DETECTORS, named_detector
from streamfl.protocol.alarm import Alarm, Reading
from streamfl.testing import Violation, check_detector
from streamfl.testing.detectors import CHECKS
from streamfl.wire import codec

NAMES = [*DETECTORS, "river:ADWIN", "river:PageHinkley", "river:KSWIN"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_detector_passes_each_conformance_check(
    name: str, check: Callable[[Callable[[], Detector]], None]
) -> None:
    check(lambda: named_detector(name))


@dataclass
class Bar(ScoreDetector):
    """Alarms above a bar: a detector in another package."""

    bar: float = 0.5
    losses: list[float] = field(default_factory=list)
    kind: Literal["bar"] = "bar"
    reading: Reading | None = None

    def take(self, t: int, loss: float, records: int) -> Alarm | None:
        return Alarm("bar", loss, self.bar, since=t) if loss > self.bar else None

    def reset(self, *, filled: bool = False) -> None:
        self.losses = []


def test_a_detector_of_another_package_is_used_saved_and_read() -> None:
    check_detector(Bar)


def test_a_detector_that_is_imported_late_is_read_too() -> None:
    codec.encode(CoordinatorState(Promotion()))

    @dataclass
    class Late(Bar):
        kind: Literal["late"] = "late"  # type: ignore[assignment]

    check_detector(Late)


@dataclass
class Deaf(Bar):
    kind: Literal["deaf"] = "deaf"  # type: ignore[assignment]

    def take(self, t: int, loss: float, records: int) -> Alarm | None:
        return None


@dataclass
class Nervous(Bar):
    kind: Literal["nervous"] = "nervous"  # type: ignore[assignment]
    bar: float = 0.19


@dataclass
class Hoarding(Bar):
    kind: Literal["hoarding"] = "hoarding"  # type: ignore[assignment]

    def update(self, observed: RoundEvidence, groups: Mapping[str, int]) -> Alarm | None:
        self.losses += [float(observed.round)] * 100
        return super().update(observed, groups)


@dataclass
class Forgetful(Bar):
    """Counts rounds in an attribute that is not saved."""

    kind: Literal["forgetful"] = "forgetful"  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.rounds = 0

    def take(self, t: int, loss: float, records: int) -> Alarm | None:
        self.rounds += 1
        return super().take(t, loss, records) if self.rounds > 30 else None


@dataclass
class Stubborn(Forgetful):
    """Keeps its count of rounds at a reset."""

    kind: Literal["stubborn"] = "stubborn"  # type: ignore[assignment]
    seen: int = 0

    def take(self, t: int, loss: float, records: int) -> Alarm | None:
        self.seen += 1
        return Alarm("bar", loss, self.bar, since=t) if loss > self.bar and self.seen < 130 else None


@pytest.mark.parametrize(
    ("kind", "violation"),
    [
        (Deaf, "no alarm within 40 rounds"),
        (Nervous, "though nothing has changed"),
        (Hoarding, "bytes after 400 rounds"),
        (Forgetful, "saved and read again after round 119"),
        (Stubborn, "no alarm at a drift after a reset"),
    ],
)
def test_a_detector_that_breaks_a_rule_is_refused_with_the_reason(kind: type[Detector], violation: str) -> None:
    with pytest.raises(Violation, match=violation):
        check_detector(kind)
