"""Any peer, restarted when a detector on the pooled loss raises an alarm, or at known rounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from river.drift import ADWIN

from streamfl.arrays import FloatArray
from streamfl.learning.drift.detectors.glr import GLRDetector
from streamfl_benchmarks.peers.base import ClientRecords, Peer, records, scores


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The input of a restart rule for one round.

    Parameters
    ----------
    loss
        The pooled loss of the model that was played, in [0, 1].
    records
        The number of records of that mean.
    by_client
        The same loss of each client that has records.
    """

    loss: float
    records: int
    by_client: FloatArray


class Rule(Protocol):
    """Decides after which rounds to restart."""

    def cause(self, t: int, seen: Seen) -> str | None:
        """Take the losses of round t; return the cause of a restart, or None. A rule that fires resets itself."""
        ...


@dataclass
class OnGLR:
    """Restart on an alarm of the GLR test."""

    detector: GLRDetector = field(default_factory=GLRDetector)

    def cause(self, t: int, seen: Seen) -> str | None:
        """Return `glr` on an alarm."""
        alarm = self.detector.take(t, seen.loss, seen.records)
        if alarm is None:
            return None
        self.detector.reset()
        return alarm.cause


@dataclass
class OnADWIN:
    """Restart when ADWIN drops the older part of its window and the mean of what is left is higher.

    A falling loss is learning, not drift. ADWIN's bound counts values and assumes the range [0, 1], so a mean of 2000
    records weighs as much as one record. With one pooled loss per round it needs tens of rounds for a rise of 0.3.
    With one value per client it is faster by about the number of clients.

    Parameters
    ----------
    delta
        ADWIN's confidence; larger is quicker and less sure.
    by_client
        Watch each client's loss, one after the other, instead of the pooled one.

    References
    ----------
    Bifet and Gavaldà, "Learning from time-changing data with adaptive windowing", SDM 2007.
    """

    delta: float = 0.002
    by_client: bool = False
    detector: ADWIN = field(init=False)

    def __post_init__(self) -> None:
        """Start with an empty window."""
        self._reset()

    def cause(self, t: int, seen: Seen) -> str | None:
        """Return `adwin` on a rise of the loss."""
        values = seen.by_client if self.by_client else [seen.loss]
        rises = [self._rises(float(value)) for value in values]
        if not any(rises):
            return None
        self._reset()
        return "adwin"

    def _rises(self, value: float) -> bool:
        before = self.detector.estimation
        self.detector.update(value)  # type: ignore[no-untyped-call] # River's methods have no types
        return bool(self.detector.drift_detected and self.detector.estimation > before)

    def _reset(self) -> None:
        # By default River tests every 32 values; here a value is the mean of many records.
        self.detector = ADWIN(delta=self.delta, clock=1)  # type: ignore[no-untyped-call] # nor have its constructors


@dataclass(frozen=True, slots=True)
class AtRounds:
    """Restart at the true rounds of the drifts, which are unknown in practice: an oracle.

    >>> [AtRounds((31, 129)).cause(t, Seen(0.5, 1, np.array([0.5]))) for t in (30, 31)]
    [None, 'oracle']
    """

    rounds: tuple[int, ...]

    def cause(self, t: int, seen: Seen) -> str | None:
        """Return `oracle` in the first round of a new concept."""
        return "oracle" if t in self.rounds else None


@dataclass
class Restarting:
    """A peer that is replaced by a new one on a restart; the new one learns the round of the alarm.

    Parameters
    ----------
    make
        Makes the peer in its first state.
    rule
        When to restart.
    peer
        The current peer.
    """

    make: Callable[[], Peer]
    rule: Rule
    peer: Peer = field(init=False)

    def __post_init__(self) -> None:
        """Make the first peer."""
        self.peer = self.make()

    def outputs(self, Z: FloatArray) -> FloatArray:
        """Return the outputs of the current peer."""
        return self.peer.outputs(Z)

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t, with a new peer if the rule restarts."""
        if not records(clients):
            return None
        by_client = [float(scores(self.outputs(client.Z), client).mean()) for client in clients if len(client.y)]
        cause = self.rule.cause(t, Seen(loss, records(clients), np.array(by_client)))
        if cause is not None:
            self.peer = self.make()
        self.peer.learn(t, clients, loss)
        return cause
