"""Tools for users' own tests: a manual clock, and conformance checks of what other packages add."""

from streamfl.runtime.clock import ManualClock
from streamfl.testing.algorithms import check_algorithm
from streamfl.testing.detectors import check_detector
from streamfl.testing.profiles import check_profile
from streamfl.testing.transport import Kit, check_transport
from streamfl.testing.violation import Violation

__all__ = [
    "Kit",
    "ManualClock",
    "Violation",
    "check_algorithm",
    "check_detector",
    "check_profile",
    "check_transport",
]
