"""The drift detectors of profiles, by name: those of this package, and those that other packages register."""

from streamfl.learning.drift.detector import Detector
from streamfl.learning.drift.detectors.e_detector import EProcessDetector
from streamfl.learning.drift.detectors.excess import Excess
from streamfl.learning.drift.detectors.glr import GLRDetector
from streamfl.models import RIVER
from streamfl.plugins.registered import Registered

# The entry point under which other packages register a name and a class that derives from `Detector` and is made
# without arguments.
GROUP = "streamfl.detectors"

DETECTORS: dict[str, type[Detector]] = {"excess": Excess, "glr": GLRDetector, "e-detector": EProcessDetector}

_REGISTERED = Registered[Detector]("detector", Detector, GROUP, DETECTORS)


def detectors() -> dict[str, type[Detector]]:
    """Return all detectors by name. No other package can take a name of this package's.

    Raises
    ------
    UsageError
        A package that registers one is at fault.

    >>> list(detectors())[:3]
    ['excess', 'glr', 'e-detector']
    """
    return _REGISTERED.all()


def named_detector(name: str) -> Detector:
    """Return a new drift detector; `river:NAME` is one of `river.drift`.

    Raises
    ------
    UsageError
        There is no such detector, or the package that registers it is at fault.

    >>> named_detector("river:ADWIN").kind, named_detector("glr").kind
    ('river', 'glr')
    """
    if name.startswith(RIVER):
        from streamfl.models.river_drift import RiverDetector  # noqa: PLC0415

        return RiverDetector(name.removeprefix(RIVER))
    return _REGISTERED.named(name)()
