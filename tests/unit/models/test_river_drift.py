"""Detectors of River on losses of rounds: quiet, risen, fallen, and again from their bytes."""

import re

import pytest
from river import drift
from suites.parameters import full

from streamfl.errors import UsageError
from streamfl.learning.drift.detectors import external
from streamfl.models.river_drift import REFUSED, RiverDetector, name_of, river_detectors
from streamfl.plugins.detectors import named_detector
from streamfl.protocol.alarm import Alarm
from streamfl.sampling import generator
from streamfl.wire import codec

NAMES = ("ADWIN", "PageHinkley", "KSWIN")

# All that look at what they are given.
ALL = sorted(river_detectors().keys() - {"DummyDriftDetector", "NoDrift"})


def noisy(*levels: float, rounds: int = 200) -> list[float]:
    """Return losses of some rounds at each level, with noise of at most 0.03."""
    rng = generator(0, "losses")
    return [level + float(rng.uniform(-0.03, 0.03)) for level in levels for _ in range(rounds)]


def fed(detector: RiverDetector, losses: list[float], first: int = 1) -> list[Alarm | None]:
    return [detector.take(t, loss, 2000) for t, loss in enumerate(losses, start=first)]


@pytest.mark.parametrize("name", NAMES)
def test_a_rise_is_found_and_dated(name: str) -> None:
    for first in (1, 101):
        alarms = fed(RiverDetector(name), noisy(0.2, 0.5), first=first)
        assert alarms[:200] == 200 * [None]
        found = next(alarm for alarm in alarms if alarm)
        assert alarms.index(found) < 240
        assert (found.cause, found.since) == (name, first + 200)
        assert found.statistic == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("name", ALL)
def test_every_detector_finds_a_large_rise_and_dates_it(name: str) -> None:
    alarms = fed(named_detector(f"river:{name}"), noisy(0.1, 0.9))
    assert alarms[:200] == 200 * [None]
    found = next(alarm for alarm in alarms if alarm)
    assert (found.cause, found.since) == (name, 201)
    assert found.statistic == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("name", ALL)
def test_a_river_detector_does_not_alarm_without_a_change_or_at_a_fall(name: str) -> None:
    assert fed(RiverDetector(name), noisy(0.3)) == 200 * [None]
    assert fed(RiverDetector(name), noisy(0.5, 0.2)) == 400 * [None]


@pytest.mark.parametrize("name", ["ADWIN", "KSWIN"])
def test_a_fall_is_forgotten_so_that_a_rise_after_it_is_found(name: str) -> None:
    # A smaller rise than the fall was: at the best split of all 600 losses the mean fell.
    alarms = fed(RiverDetector(name), noisy(0.8, 0.2, 0.4))
    assert alarms[:400] == 400 * [None]
    found = next(alarm for alarm in alarms if alarm)
    assert abs(found.since - 401) <= 2


@pytest.mark.parametrize("name", [*NAMES, "DummyDriftDetector"])
@pytest.mark.parametrize("rounds", [50, 230])
def test_a_river_detector_continues_identically_from_its_bytes(name: str, rounds: int) -> None:
    losses = noisy(0.6, 0.2, 0.6)
    detector = RiverDetector(name)
    fed(detector, losses[:rounds])
    again = codec.decode(RiverDetector, codec.encode(detector))
    assert again == detector
    rest = fed(detector, losses[rounds:], first=rounds + 1)
    assert fed(again, losses[rounds:], first=rounds + 1) == rest
    assert any(rest)


@pytest.mark.parametrize("name", [full(name) if name == "KSWIN" else name for name in NAMES])
def test_a_river_detector_keeps_few_losses_and_alarms_as_if_it_kept_all(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "MOST", 256)
    detector, losses = RiverDetector(name), noisy(0.3, 0.3, 0.6)
    for t, loss in enumerate(losses, start=1):
        told = RiverDetector(name, list(detector.losses)).take(t, loss, 2000)
        assert detector.take(t, loss, 2000) == told
        assert len(detector.losses) < 256
        if told:
            break
    assert told is not None


def test_a_reset_forgets_everything() -> None:
    detector = RiverDetector("ADWIN")
    fed(detector, noisy(0.2))
    detector.reset()
    assert detector == RiverDetector("ADWIN")
    assert fed(detector, noisy(0.5), first=201) == 200 * [None]


@pytest.mark.parametrize("name", ["binary.DDM", "binary.HDDMA", "binary.HDDMW"])
def test_a_river_detector_of_hits_and_misses_continues_identically_from_its_bytes(name: str) -> None:
    losses = noisy(0.1, 0.9)
    detector = RiverDetector(name)
    fed(detector, losses[:201])
    again = codec.decode(RiverDetector, codec.encode(detector))
    rest = fed(detector, losses[201:], first=202)
    assert fed(again, losses[201:], first=202) == rest
    assert any(rest)


def test_rivers_detectors_that_ignore_losses_alarm_never_or_at_their_period() -> None:
    assert fed(RiverDetector("NoDrift"), noisy(0.1, 0.9)) == 400 * [None]
    # 300 is River's own period; there must have been some rise, however small.
    alarms = fed(RiverDetector("DummyDriftDetector"), [0.2] * 150 + [0.2001] * 150)
    assert [t for t, alarm in enumerate(alarms, start=1) if alarm] == [300]


@pytest.mark.parametrize("name", ["adwin", "DDM", "binary", "PeriodicTrigger", "__doc__", ""])
def test_an_unknown_name_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(UsageError, match=r"ADWIN, .*KSWIN, .*PageHinkley, binary\.DDM"):
        RiverDetector(name)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_takes_no_stream_of_losses_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UsageError, match=REFUSED[name]):
        named_detector(f"river:{name}")


def test_rivers_detectors_that_are_refused_behave_as_the_reason_says() -> None:
    # A reason that River takes away is one more detector to have.
    for kind, risen, fallen in ((drift.binary.EDDM, False, False), (drift.binary.FHDDM, False, True)):
        for levels, alarms in (((0.1, 0.9), risen), ((0.9, 0.1), fallen)):
            detector, found = kind(), False
            for loss in noisy(*levels):
                detector.update(loss)
                found |= detector.drift_detected
            assert found == alarms


@pytest.mark.parametrize(
    "detector",
    [
        drift.ADWIN(),
        drift.ADWIN(delta=0.5, clock=3),
        drift.PageHinkley(threshold=0.5),
        drift.binary.DDM(warm_start=5),
    ],
)
def test_a_detector_is_built_again_from_its_name_with_the_same_parameters(detector) -> None:
    built = named_detector(name_of(detector))._detector
    assert type(built) is type(detector)
    defaults = type(detector)()._get_params()
    told, chosen = built._get_params(), detector._get_params()
    assert {k: told[k] for k in chosen if chosen[k] != defaults[k]} == {
        k: v for k, v in chosen.items() if v != defaults[k]
    }


def test_parameters_in_the_name_of_a_river_detector_are_used() -> None:
    losses = noisy(0.2, 0.5)
    deltas = ("1e-9", "0.9")
    first = [next(i for i, a in enumerate(fed(RiverDetector(f"ADWIN(delta={d})"), losses)) if a) for d in deltas]
    assert first[0] > first[1]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ADWIN(0.5)", "is not a detector"),
        ("ADWIN(delta=open('x'))", "is not a detector"),
        ("ADWIN(delta=", "is not a detector"),
        ("ADWIN(**{})", "is not a detector"),
        ("ADWIN(dleta=0.5)", "cannot be made with these parameters"),
        ("Adwin(delta=0.5)", "River has no drift detector 'Adwin'"),
        ("binary.EDDM(alpha=0.5)", "cannot watch the loss of rounds"),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        named_detector(f"river:{name}")


def test_another_detector_is_refused_by_its_class() -> None:
    class Mine(drift.ADWIN):
        pass

    with pytest.raises(UsageError, match="Mine is not a detector of river"):
        name_of(Mine())
