"""Conformance checks for drift detectors.

The checks use random rounds, the same in every call: four clients with two labels have a loss of 0.2, or of 0.8 after
a drift.
"""

from collections.abc import Callable, Iterable
from math import isfinite

import numpy as np

from streamfl.errors import PeerError
from streamfl.learning.drift.detector import Detector
from streamfl.learning.drift.evidence import ClientEvidence, ModelEvidence, RoundEvidence
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.messages import LabelSums
from streamfl.sampling import generator
from streamfl.testing.violation import Violation, expect
from streamfl.wire import codec

CLIENTS, LABELS, RECORDS, HELD = ("c0", "c1", "c2", "c3"), ("a", "b"), 100, 30

QUIET, DRIFTED = 0.2, 0.8

# Rounds without drift, rounds within which a drift must raise an alarm, and rounds before the state is measured.
STEADY, PROMPT, LONG = 120, 40, 400

# The largest size of a saved state, in bytes.
MOST_BYTES = 65_536


def check_detector(make: Callable[[], Detector]) -> None:
    """Check that a drift detector does all that a profile relies on.

    Parameters
    ----------
    make
        Makes a new detector; called for every check.

    Raises
    ------
    Violation
        A check fails; the message says how.

    Examples
    --------
    >>> from streamfl.learning.drift.detectors.glr import GLRDetector
    >>> check_detector(GLRDetector)
    """
    for check in CHECKS:
        check(make)


def is_quiet_without_drift(make: Callable[[], Detector]) -> None:
    """There is no alarm while losses vary only by chance."""
    alarms = _alarms(make(), _rounds(STEADY))
    expect(not alarms, f"an alarm in round {alarms[0][0] if alarms else 0}, though nothing has changed")


def alarms_soon_after_a_drift(make: Callable[[], Detector]) -> None:
    """A rise of losses from 0.2 to 0.8 raises an alarm, with a statistic above its threshold and a past date."""
    alarms = _alarms(make(), _rounds(STEADY + PROMPT, drift=STEADY))
    expect(bool(alarms), f"no alarm within {PROMPT} rounds of a drift")
    t, alarm = alarms[0]
    expect(t > STEADY, f"an alarm in round {t}, though the drift begins after round {STEADY}")
    expect(isfinite(alarm.statistic) and isfinite(alarm.threshold), f"evidence that is not finite: {alarm}")
    expect(alarm.statistic >= alarm.threshold, f"a statistic below its threshold: {alarm}")
    expect(1 <= alarm.since <= t, f"an alarm in round {t} of a drift since round {alarm.since}")
    expect(set(alarm.clients) <= set(CLIENTS) and set(alarm.labels) <= set(LABELS), f"unknown names: {alarm}")


def is_deterministic(make: Callable[[], Detector]) -> None:
    """Two detectors raise the same alarms in the same rounds."""
    rounds = _rounds(STEADY + PROMPT, drift=STEADY)
    expect(_alarms(make(), rounds) == _alarms(make(), rounds), "other alarms in the same rounds")


def begins_anew_at_a_reset(make: Callable[[], Detector]) -> None:
    """After a reset it is quiet again, and alarms at the next drift, dated after the reset."""
    detector, first = make(), STEADY + PROMPT
    _alarms(detector, _rounds(first, drift=STEADY))
    detector.reset()
    alarms = _alarms(detector, _rounds(STEADY + PROMPT, drift=STEADY, after=first))
    expect(bool(alarms), "no alarm at a drift after a reset")
    t, alarm = alarms[0]
    expect(t > first + STEADY, f"an alarm in round {t - first} after a reset, though nothing has changed since")
    expect(alarm.since > first, f"a drift since round {alarm.since}, before the reset after round {first}")


def goes_on_from_what_is_saved(make: Callable[[], Detector]) -> None:
    """Saved with a coordinator state and read again after any round, it continues unchanged."""
    rounds = _rounds(STEADY + PROMPT, drift=STEADY)
    for saved_after in (0, 1, STEADY - 1, STEADY + 1):
        detector = make()
        before = _alarms(detector, rounds[:saved_after])
        after = _alarms(_saved(detector), rounds[saved_after:])
        whole = _alarms(make(), rounds)
        expect(before + after == whole, f"other alarms when saved and read again after round {saved_after}")


def has_bounded_state(make: Callable[[], Detector]) -> None:
    """Its state does not grow with the rounds."""
    detector = make()
    _alarms(detector, _rounds(LONG))
    size = len(codec.encode(CoordinatorState(Promotion(detector=detector))))
    expect(size <= MOST_BYTES, f"{size} bytes after {LONG} rounds: at most {MOST_BYTES}")


CHECKS: tuple[Callable[[Callable[[], Detector]], None], ...] = (
    is_quiet_without_drift,
    alarms_soon_after_a_drift,
    is_deterministic,
    begins_anew_at_a_reset,
    goes_on_from_what_is_saved,
    has_bounded_state,
)


def _alarms(detector: Detector, rounds: Iterable[RoundEvidence]) -> list[tuple[int, Alarm]]:
    results = ((observed.round, detector.update(observed, {})) for observed in rounds)
    return [(t, alarm) for t, alarm in results if alarm is not None]


def _saved(detector: Detector) -> Detector:
    """Return a detector as read again from a saved coordinator state."""
    try:
        profile = codec.decode(CoordinatorState, codec.encode(CoordinatorState(Promotion(detector=detector)))).profile
    except PeerError as error:
        raise Violation(f"its saved state cannot be read again: {error}") from error
    if not isinstance(profile, Promotion):
        raise Violation("another profile was read than was saved")
    return profile.detector


def _rounds(count: int, drift: int | None = None, after: int = 0) -> list[RoundEvidence]:
    """Return `count` rounds after round `after`; those beyond the `drift`-th have the higher loss."""
    random = generator(0, "check_detector")
    steady = count if drift is None else drift
    return [_round(after + i, QUIET if i <= steady else DRIFTED, random) for i in range(1, count + 1)]


def _round(t: int, loss: float, random: np.random.Generator) -> RoundEvidence:
    parts = {}
    for client in CLIENTS:
        new = tuple(_sums(label, RECORDS, loss, random) for label in LABELS)
        old = tuple(_sums(label, HELD, QUIET, random) for label in LABELS)
        parts[client] = ClientEvidence(len(LABELS) * RECORDS, {"m": sum(sums.loss for sums in new)}, new, old)
    records = sum(part.records for part in parts.values())
    mean = sum(part.losses["m"] for part in parts.values()) / records
    evidence = {"m": ModelEvidence(loss=mean, proper=mean, stepped=np.zeros((1, len(LABELS))))}
    return RoundEvidence(t, records, evidence, known_labels=LABELS, clients=parts, serves="m")


def _sums(label: str, count: int, loss: float, random: np.random.Generator) -> LabelSums:
    scores = np.clip(loss + 0.1 * random.normal(size=count), 0.0, 1.0)
    return LabelSums(label=label, count=count, loss=float(scores.sum()), square=float(scores @ scores))
