"""What users' own tests can stand on: a clock moved by hand, a faulty transport, a simulated federation."""

from streamfl.runtime.clock import ManualClock
from streamfl.testing.audit import Audit, Violation
from streamfl.testing.faulty import Faults, FaultyTransport, Killed
from streamfl.testing.simulation import Simulation

__all__ = ["Audit", "Faults", "FaultyTransport", "Killed", "ManualClock", "Simulation", "Violation"]
