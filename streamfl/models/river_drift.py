"""Any drift detector of River, by name, on the pooled loss of each round."""

import inspect
from typing import Any

from river import base, drift

from streamfl.core.detectors.foreign import LIBRARIES, Foreign, Watcher
from streamfl.core.errors import UsageError

# River's defaults are for a number a record; a round is one number. ADWIN is asked in every round, not every 32nd;
# a sum of 50, which Page-Hinkley waits for, would take hundreds of rounds of losses in [0, 1].
FOR_ROUNDS: dict[str, dict[str, object]] = {
    "ADWIN": {"clock": 1},
    "PageHinkley": {"threshold": 1.0},
}

# What takes no stream of losses, and why not. The other detectors for hits and misses have sums and bounds that hold
# for any number in [0, 1].
REFUSED = {
    "binary.EDDM": "it measures the records between two errors, and the loss of a round is neither a hit nor a miss",
    "binary.FHDDM": "it tells when a mean falls, as that of correct predictions does, and never when a loss rises",
    "DriftRetrainingClassifier": "it is a classifier, which has a detector",
}


def river_detector(name: str) -> Foreign:
    """Return a detector of `river.drift`, such as ADWIN, KSWIN or binary.HDDMA, with what suits rounds.

    Raises
    ------
    UsageError
        River has no such detector, or it takes no stream of losses.

    References
    ----------
    Montiel et al., "River: machine learning for streaming data in Python", 2021, and for each detector its own.

    Examples
    --------
    >>> detector = river_detector("ADWIN")
    >>> alarms = [detector.update(t, 0.2 if t <= 100 else 0.6, records=1000) for t in range(1, 151)]
    >>> next(alarm for alarm in alarms if alarm).since
    101
    """
    return Foreign("river", name)


def river_detectors() -> dict[str, type[Any]]:
    """Return the detectors of `river.drift` that take a stream of losses, by name.

    >>> " ".join(sorted(river_detectors()))
    'ADWIN DummyDriftDetector KSWIN NoDrift PageHinkley binary.DDM binary.HDDMA binary.HDDMW'
    """
    # Some names in drift.__all__ do not exist.
    found = vars(drift) | {f"binary.{key}": kind for key, kind in vars(drift.binary).items()}
    kinds = (base.DriftDetector, base.BinaryDriftDetector)
    return {
        key: kind
        for key, kind in found.items()
        if inspect.isclass(kind) and issubclass(kind, kinds) and key not in REFUSED
    }


def _built(name: str) -> Watcher:
    if name in REFUSED:
        raise UsageError(f"River's {name} cannot watch the loss of rounds: {REFUSED[name]}")
    known = river_detectors()
    if name not in known:
        raise UsageError(f"River has no drift detector {name!r}: take one of {', '.join(sorted(known))}")
    detector: Watcher = known[name](**_parameters(name, known[name]))
    return detector


def _parameters(name: str, kind: type[Any]) -> dict[str, object]:
    """Return what suits rounds, and a seed where there is one, so that the same losses say the same."""
    seeds: dict[str, object] = {"seed": 0} if "seed" in inspect.signature(kind).parameters else {}
    return FOR_ROUNDS.get(name, {}) | seeds


LIBRARIES["river"] = _built
