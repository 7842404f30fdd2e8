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


def river_detector(name: str) -> Foreign:
    """Return a detector of `river.drift`, such as ADWIN, KSWIN or PageHinkley, with what suits rounds.

    Raises
    ------
    UsageError
        River has no such detector.

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


def _built(name: str) -> Watcher:
    kind = _known(name)
    detector: Watcher = kind(**_parameters(name, kind))
    return detector


def _known(name: str) -> type[Any]:
    """Return the detector of a name.

    >>> _known("EDDM")
    Traceback (most recent call last):
    ...
    streamfl.core.errors.UsageError: River has no drift detector 'EDDM': take one of ADWIN, ...
    """
    # Some names in drift.__all__ do not exist; those of river.drift.binary take hits and misses of single records.
    known = {
        key: kind
        for key, kind in vars(drift).items()
        if inspect.isclass(kind) and issubclass(kind, base.DriftDetector)
    }
    if name not in known:
        raise UsageError(f"River has no drift detector {name!r}: take one of {', '.join(sorted(known))}")
    return known[name]


def _parameters(name: str, kind: type[Any]) -> dict[str, object]:
    """Return what suits rounds, and a seed where there is one, so that the same losses say the same."""
    seeds: dict[str, object] = {"seed": 0} if "seed" in inspect.signature(kind).parameters else {}
    return FOR_ROUNDS.get(name, {}) | seeds


LIBRARIES["river"] = _built
