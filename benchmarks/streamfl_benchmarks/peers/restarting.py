"""Any peer, begun afresh when a detector of the pooled loss alarms, or at rounds that are known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from river.drift import ADWIN

from streamfl.core.arrays import FloatArray
from streamfl.core.drift.detectors.glr import GLRDetector
from streamfl_benchmarks.peers.base import ClientRecords, Peer, records, score


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a rule sees of a round.

    Parameters
    ----------
    loss
        The pooled loss of the model that was played, in [0, 1].
    records
        How many records that is the mean of.
    by_client
        The same loss of each client that has records.
    """

    loss: float
    records: int
    by_client: FloatArray


class Rule(Protocol):
    """Says after which rounds to begin afresh."""

    def cause(self, t: int, seen: Seen) -> str | None:
        """Take the losses of round t, and return why to restart, or None; a rule that fires forgets its past."""
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

    A fall of the loss is learning. ADWIN's bound counts values and takes [0, 1] as the range of each, so a mean of
    2000 records weighs as much as one record: on one pooled loss a round it needs tens of rounds for a rise of 0.3.
    One value a client is quicker by about the number of clients.

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
        # River looks every 32 values unless told otherwise; here a value is the mean of many records.
        self.detector = ADWIN(delta=self.delta, clock=1)  # type: ignore[no-untyped-call] # nor have its constructors


@dataclass(frozen=True, slots=True)
class AtRounds:
    """Restart at the true rounds of the drifts, which nobody knows: an oracle.

    >>> [AtRounds((31, 129)).cause(t, Seen(0.5, 1, np.array([0.5]))) for t in (30, 31)]
    [None, 'oracle']
    """

    rounds: tuple[int, ...]

    def cause(self, t: int, seen: Seen) -> str | None:
        """Return `oracle` in the first round of a new concept."""
        return "oracle" if t in self.rounds else None


@dataclass
class Restarting:
    """A peer that is begun afresh whenever the rule says so, and then learns the round that told.

    Parameters
    ----------
    make
        Makes the peer in its first state.
    rule
        When to restart.
    peer
        The one that learns now.
    """

    make: Callable[[], Peer]
    rule: Rule
    peer: Peer = field(init=False)

    def __post_init__(self) -> None:
        """Make the first peer."""
        self.peer = self.make()

    @property
    def W(self) -> FloatArray:  # noqa: N802 - a matrix, as in the papers
        """Return the model of the peer that learns now."""
        return self.peer.W

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t, with a new peer if the rule says so."""
        if not records(clients):
            return None
        by_client = [score(self.W, client) for client in clients if len(client.y)]
        cause = self.rule.cause(t, Seen(loss, records(clients), np.array(by_client)))
        if cause is not None:
            self.peer = self.make()
        self.peer.learn(t, clients, loss)
        return cause
