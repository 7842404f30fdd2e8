"""The drift detectors that a profile can be given, by name: those of this package, and those that others register."""

from importlib.metadata import entry_points

from streamfl.core.drift.detector import Detector
from streamfl.core.drift.detectors.e_detector import EDetector
from streamfl.core.drift.detectors.excess import Excess
from streamfl.core.drift.detectors.glr import GLR
from streamfl.core.errors import UsageError
from streamfl.models.river_drift import RiverDetector

# What other packages register under this entry point: a name, and a class that is made without parameters.
GROUP = "streamfl.detectors"

DETECTORS: dict[str, type[Detector]] = {"excess": Excess, "glr": GLR, "e-detector": EDetector}


def detectors() -> dict[str, type[Detector]]:
    """Return all detectors by name; those of this package keep theirs.

    >>> list(detectors())[:3]
    ['excess', 'glr', 'e-detector']
    """
    return DETECTORS | {e.name: e.load() for e in entry_points(group=GROUP) if e.name not in DETECTORS}


def named_detector(name: str) -> Detector:
    """Return a new drift detector; `river:NAME` is one of `river.drift`.

    Raises
    ------
    UsageError
        There is no such detector.

    >>> named_detector("river:ADWIN").kind, named_detector("glr").kind
    ('foreign', 'glr')
    """
    if name.startswith("river:"):
        return RiverDetector(name.removeprefix("river:"))
    found = DETECTORS if name in DETECTORS else detectors()  # to look through what is installed takes time
    if name not in found:
        raise UsageError(f"no detector is called {name!r}: take one of {', '.join(found)}, or river:NAME")
    return found[name]()
