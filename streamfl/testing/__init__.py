"""Tools for users' own tests: a manual clock, a faulty transport, a simulated federation, and conformance checks."""

from streamfl.runtime.clock import ManualClock
from streamfl.testing.algorithms import check_algorithm
from streamfl.testing.detectors import check_detector
from streamfl.testing.profiles import check_profile
from streamfl.testing.transport import Kit, check_transport
from streamfl.testing.violation import Violation
from streamfl.testing.worlds.audit import Audit
from streamfl.testing.worlds.faulty import Faults, FaultyTransport, Killed
from streamfl.testing.worlds.simulation import Simulation

__all__ = [
    "Audit",
    "Faults",
    "FaultyTransport",
    "Killed",
    "Kit",
    "ManualClock",
    "Simulation",
    "Violation",
    "check_algorithm",
    "check_detector",
    "check_profile",
    "check_transport",
]
