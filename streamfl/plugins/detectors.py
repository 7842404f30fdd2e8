"""The drift detectors of profiles, by name: those of this package, and those that other packages register."""

from streamfl.learning.drift.detector import Detector
from streamfl.learning.drift.detectors.conformal import Conformal
from streamfl.learning.drift.detectors.e_detector import EProcessDetector
from streamfl.learning.drift.detectors.excess import Excess
from streamfl.learning.drift.detectors.glr import GLRDetector
from streamfl.models import RIVER
from streamfl.protocol.registered import Registered

# Each is a class that derives from `Detector` and is made without arguments.
DETECTORS = Registered[type[Detector]](
    "detector",
    Detector,
    "streamfl.detectors",
    {"excess": Excess, "conformal": Conformal, "glr": GLRDetector, "e-detector": EProcessDetector},
    others=(f"{RIVER}NAME",),
)


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
    return DETECTORS.find(name)()
