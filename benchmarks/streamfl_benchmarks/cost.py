"""The cost of a round without a clock: calls of Python functions of this package and of NumPy functions.

Times depend on the machine and its load; these counts do not, so a test can check them.

    python -m streamfl_benchmarks.cost
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, FrameType

import numpy as np
from threadpoolctl import threadpool_limits

import streamfl
from streamfl.protocol.decisions import PostUpdate, Predicted, Refused
from streamfl.protocol.messages import FromCoordinator, RoundClosed
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl_benchmarks.speed import CLIENTS, LIVE, gaussian

# Records a client and round; the round after which counting begins: scales have settled by then; and rounds counted.
RECORDS, AFTER, COUNTED = 200, 12, 8

OURS = str(Path(streamfl.__file__).parent)


@dataclass(frozen=True)
class Cost:
    """Calls in a round of `CLIENTS` clients, means over `COUNTED` rounds.

    Parameters
    ----------
    ours
        Of Python functions of this package; a generator is called again for each of its values.
    arrays
        Of NumPy's compiled functions and methods. Operators and calls of a ufunc by its name are not seen.
    """

    ours: float
    arrays: float


class Counter:
    """A profiler hook that counts calls while `counts` is true.

    >>> counter = Counter()
    >>> sys.setprofile(counter)
    >>> counter.counts = True
    >>> _ = np.zeros(3), np.ones(3).sum()
    >>> sys.setprofile(None)
    >>> counter.ours, counter.arrays >= 3
    (0, True)
    """

    def __init__(self) -> None:
        self.counts = False
        self.ours = 0
        self.arrays = 0

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """Take an event."""
        if not self.counts:
            return
        if event == "call":
            self.ours += frame.f_code.co_filename.startswith(OURS)
        elif event == "c_call":
            self.arrays += _is_numpys(arg)


def _is_numpys(function: object) -> bool:
    owner = (
        function.__self__ if isinstance(function, BuiltinFunctionType) else getattr(function, "__objclass__", None)
    )
    if isinstance(owner, np.ndarray | np.ufunc | np.generic):
        return True
    return str(getattr(function, "__module__", None) or getattr(owner, "__module__", "")).startswith("numpy")


def cost(profile: str) -> Cost:
    """Return what a round costs under a profile."""
    table, counter = _table(), Counter()

    def observe(event: FromCoordinator | Refused | Predicted | PostUpdate) -> None:
        if isinstance(event, RoundClosed):
            counter.counts = AFTER <= event.round < AFTER + COUNTED

    named = ProfileSettings.model_validate({"profile": profile, "optimistic": "regret"})
    settings = ReplaySettings(
        round_size=RECORDS,
        learning=LearningSettings(features="rounds"),
        profile=named,
        measure=False,
        count_bytes=False,
    )
    replay = Replay(table, deal(table, CLIENTS, "round-robin", 0), settings, observe)
    before = sys.getprofile()
    with threadpool_limits(1):
        sys.setprofile(counter)
        try:
            replay.run()
        finally:
            sys.setprofile(before)
    return Cost(counter.ours / COUNTED, counter.arrays / COUNTED)


def _table() -> Table:
    """Return records for all rounds and two more: when a round closes, the next has not opened yet."""
    return gaussian(AFTER + COUNTED + 2, RECORDS)


if __name__ == "__main__":
    for name in LIVE:
        sys.stdout.write(f"{name}: {cost(name)}\n")
