"""Local drift: clients that drifted alone get models of their own, until the model of all is as good for them."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.drift.detectors.excess import LEAST_VARIANCE, MARGIN, RUN_LENGTH
from streamfl.learning.drift.detectors.few_clients import RISES
from streamfl.learning.drift.evidence import LiveModel, RoundEvidence
from streamfl.learning.profiles.adaptive.ladder import Ladder
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.digits import significant
from streamfl.protocol.messages import BranchGroup

# Rounds that clients stay latched after the alarm: at least the first number, at most the second while no trial has
# surely gained and some still may.
# docs/choices.md, "Local drift".
LATCHED, PATIENCE = 2, 10

# A branch must gain LEAST_GAIN plus SURE standard errors. It lives at least YOUNGEST rounds and ends when its mean
# gain falls below KEEPS.
# docs/choices.md, "Local drift".
LEAST_GAIN, SURE, YOUNGEST, KEEPS = 0.01, 2.0, 10, 0.003
DECAY, FIRST_GAIN = 0.9, 0.05

# The variance of a record's gain before any is measured. docs/choices.md, "Local drift".
FIRST_VARIANCE = 0.1


@dataclass
class Trial:
    """A candidate for a branch, trained by the latched clients alone.

    A trial with `joins` is the model of an existing branch. It is not trained: clients that gain more from a trained
    model do not belong to that branch.
    """

    W: FloatArray
    joins: str | None = None
    gains: list[tuple[float, int]] = field(default_factory=list)


@dataclass
class Latch:
    """Clients that a detector named. For a few rounds the models of all skip their records, and trials compete."""

    clients: tuple[str, ...]
    evidence: Alarm  # the alarm that named them
    until: int  # they stay latched up to this round, whatever the trials gain
    trials: dict[str, Trial]  # the candidates, by name
    announced: tuple[str, ...] = ()  # the clients that have been announced as latched

    def live(self, eta: float, *, whitened: bool) -> tuple[LiveModel, ...]:
        """Return the trials as live models of the latched clients."""
        return tuple(
            LiveModel(_trial_slot(name), trial.W, eta, trial.joins is None, self.clients, whitened=whitened)
            for name, trial in self.trials.items()
        )

    def close(self, observed: RoundEvidence, incumbent: str) -> None:
        """Record what each trial gained over the incumbent at each client, and take its step."""
        for name, trial in self.trials.items():
            slot = _trial_slot(name)
            trial.gains += _gains(observed, self.clients, incumbent, slot)
            if slot in observed.models:
                trial.W = observed.models[slot].stepped

    def gained(self) -> dict[str, float]:
        """Return each trial's mean gain per record over the incumbent; trials that scored no record are left out."""
        return {name: significant(mean) for name, (mean, _) in self._means().items()}

    def best(self) -> str | None:
        """Return the trial that gained most, or None if its gain is not sure."""
        means = self._means()
        name = max(means, key=lambda n: means[n][0], default="")
        return name if name and means[name][0] >= LEAST_GAIN + SURE * means[name][1] else None

    def is_open(self, t: int) -> bool:
        """Return whether round t is too early to decide: no trial surely gains, and some still may."""
        if t < self.until:
            return True
        possible = any(mean + SURE * error >= LEAST_GAIN for mean, error in self._means().values())
        return possible and self.best() is None and t < self.until + PATIENCE - LATCHED

    def _means(self) -> dict[str, tuple[float, float]]:
        return {name: _mean_and_error(trial.gains) for name, trial in self.trials.items() if trial.gains}


@dataclass
class Branch:
    """A group of clients with a ladder of its own."""

    clients: tuple[str, ...]
    evidence: Alarm  # the alarm that named them
    ladder: Ladder  # their models
    began: int  # the first round that the branch serves
    gain: float = FIRST_GAIN  # running mean of its gain over the incumbent of all, in units of the score
    variance: float = FIRST_VARIANCE  # running variance of a record's gain
    # By size of rise, ln of a Shiryaev-Roberts statistic of its loss relative to the incumbent of all.
    logs: list[float] = field(default_factory=lambda: [-math.inf] * len(RISES))
    returned: bool = False  # whether an alarm showed that its clients are like all others again
    last_records: int = 0  # the last round in which one of its clients had records
    served: FloatArray | None = None  # the model that served it in the last round, before its step

    @property
    def name(self) -> str:
        """Return the branch's name, under which its model is a candidate at restarts."""
        return f"branch-{self.began}"

    def close(self, observed: RoundEvidence, incumbent: str) -> None:
        """Update the gain over the incumbent of all, and keep the model that served."""
        self.served = self.ladder.incumbent
        gains = _gains(observed, self.clients, incumbent, self.ladder.serves)
        if gains:  # its clients had records
            self.last_records = observed.round
            self._bet(gains)
            spread = sum(n * (gain - self.gain) ** 2 for gain, n in gains) / len(gains)
            self.variance = max(DECAY * self.variance + (1.0 - DECAY) * spread, LEAST_VARIANCE)
            self.gain = DECAY * self.gain + (1.0 - DECAY) * _mean_and_error(gains)[0]

    def step(self, observed: RoundEvidence, scratch: FloatArray) -> None:
        """Step the models of its ladder."""
        parts = (observed.clients[client] for client in self.clients if client in observed.clients)
        self.ladder.step(observed.models, scratch, sum(part.records for part in parts))

    def _bet(self, gains: list[tuple[float, int]]) -> None:
        """Bet that the branch is worse for its clients than the model of all: they are like all others again."""
        loss, variance = -_mean_and_error(gains)[0] - MARGIN, self.variance / sum(n for _, n in gains)
        self.logs = (np.logaddexp(0.0, self.logs) + (RISES * loss - RISES**2 / 2.0) / variance).tolist()

    def has_returned(self, run_length: float = RUN_LENGTH) -> bool:
        """Return whether the model of all is surely better for its clients; false once in `run_length` rounds."""
        return self.returned or float(np.logaddexp.reduce(self.logs)) >= math.log(run_length * len(RISES))

    def is_over(self, t: int) -> bool:
        """Return whether the branch is old enough to end and hardly gains over the model of all."""
        return t - self.began + 1 >= YOUNGEST and self.gain < KEEPS

    def is_silent(self, t: int) -> bool:
        """Return whether its clients have had no records for so long that they may have left."""
        return self.silence(t) >= YOUNGEST

    def silence(self, t: int) -> int:
        """Return for how many rounds its clients have had no records."""
        return t - max(self.last_records, self.began)

    def group(self) -> BranchGroup:
        """Return the group as the coordinator publishes it."""
        return BranchGroup(clients=self.clients, serves=self.ladder.serves, branch=self.name)

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express its models."""
        self.ladder.transform(change)
        self.served = None if self.served is None else change(self.served)


def _trial_slot(name: str) -> str:
    return f"trial/{name}"


def _gains(observed: RoundEvidence, clients: Collection[str], over: str, name: str) -> list[tuple[float, int]]:
    """Return, for each client with records, the gain a record of one model over another, and the records."""
    gains = ((observed.loss_at(over, [c]) - observed.loss_at(name, [c]), c) for c in clients)
    return [(gain, observed.clients[c].records) for gain, c in gains if not math.isnan(gain)]


def _mean_and_error(gains: list[tuple[float, int]]) -> tuple[float, float]:
    """Return the mean gain a record and its standard error, which is infinite for a single client and round."""
    total, k = sum(n for _, n in gains), len(gains)
    mean = sum(n * gain for gain, n in gains) / total
    squares = sum((n * (gain - mean)) ** 2 for gain, n in gains)
    return mean, math.sqrt(squares * k / (k - 1)) / total if k > 1 else math.inf
