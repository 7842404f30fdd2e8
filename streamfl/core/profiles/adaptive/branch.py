"""Clients that drifted while the rest did not: models of their own, until they are no better than the one of all."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.drift.detectors.excess import LEAST_VARIANCE, MARGIN, RUN_LENGTH
from streamfl.core.drift.detectors.few import RISES
from streamfl.core.drift.evidence import LiveModel, Observed
from streamfl.core.profiles.adaptive.ladder import Ladder
from streamfl.core.protocol.alarm import Alarm
from streamfl.core.protocol.messages import BranchGroup

# Rounds that clients stay latched after the alarm's: so many, and while it is open whether a trial gains, up to more.
# docs/choices.md, "Local drift".
LATCHED, PATIENCE = 2, 10

# A branch must gain so much, and so many standard errors; it lives so long, and ends when its mean gain falls below.
# docs/choices.md, "Local drift".
LEAST_GAIN, SURE, YOUNGEST, KEEPS = 0.01, 2.0, 10, 0.003
DECAY, FIRST_GAIN = 0.9, 0.05

# Variance of a record's gain before it is known. docs/choices.md, "Local drift".
FIRST_VARIANCE = 0.1


@dataclass
class Trial:
    """A candidate for a branch: it is trained by the latched clients alone while they are latched.

    One that `joins` a branch is that branch's model as it is: if training it gains more, they do not belong there.
    """

    W: FloatArray
    joins: str | None = None
    gains: list[tuple[float, int]] = field(default_factory=list)


@dataclass
class Latch:
    """Clients that a detector named: for a few rounds nobody else trains on their records, and trials compete.

    Parameters
    ----------
    clients
        Who.
    evidence
        The alarm that named them.
    until
        The last round in which they are latched whatever the trials gain.
    trials
        By name.
    told
        The clients that have been told of.
    """

    clients: tuple[str, ...]
    evidence: Alarm
    until: int
    trials: dict[str, Trial]
    told: tuple[str, ...] = ()

    def live(self, eta: float, *, whitened: bool) -> tuple[LiveModel, ...]:
        """Return the trials as live models of the latched clients."""
        return tuple(
            LiveModel(_trial(name), trial.W, eta, trial.joins is None, self.clients, whitened=whitened)
            for name, trial in self.trials.items()
        )

    def close(self, observed: Observed, incumbent: str) -> None:
        """Note what each trial gained over the incumbent at each client, and take its step."""
        for name, trial in self.trials.items():
            slot = _trial(name)
            trial.gains += _gains(observed, self.clients, incumbent, slot)
            if slot in observed.played:
                trial.W = observed.played[slot].stepped

    def best(self) -> str | None:
        """Return the trial that gained most, if it surely gained; None if there is none."""
        means = self._means()
        name = max(means, key=lambda n: means[n][0], default="")
        return name if name and means[name][0] >= LEAST_GAIN + SURE * means[name][1] else None

    def is_open(self, t: int) -> bool:
        """Tell whether round t is too early to decide: some trial may gain, and none surely does."""
        if t < self.until:
            return True
        may = any(mean + SURE * error >= LEAST_GAIN for mean, error in self._means().values())
        return may and self.best() is None and t < self.until + PATIENCE - LATCHED

    def _means(self) -> dict[str, tuple[float, float]]:
        return {name: _mean_and_error(trial.gains) for name, trial in self.trials.items() if trial.gains}


@dataclass
class Branch:
    """A group of clients with a ladder of its own.

    Parameters
    ----------
    clients
        Who.
    evidence
        The alarm that named them.
    ladder
        Their models.
    began
        The first round that it serves.
    gain
        Running mean of what it gains over the incumbent of all, in units of the score.
    variance
        Running variance of a record's gain.
    logs
        ln of a Shiryaev-Roberts statistic of a loss against the incumbent of all, for each size that it may have.
    returned
        Whether an alarm has told that its clients are like all others again.
    heard
        The last round in which one of its clients had records.
    played
        The model that served it in the last round, as it was then.
    """

    clients: tuple[str, ...]
    evidence: Alarm
    ladder: Ladder
    began: int
    gain: float = FIRST_GAIN
    variance: float = FIRST_VARIANCE
    logs: list[float] = field(default_factory=lambda: [-math.inf] * len(RISES))
    returned: bool = False
    heard: int = 0
    played: FloatArray | None = None

    @property
    def name(self) -> str:
        """Return its name, that of its model among candidates."""
        return f"branch-{self.began}"

    def close(self, observed: Observed, incumbent: str) -> None:
        """Follow its gain over the incumbent of all, and keep the model that played."""
        self.played = self.ladder.incumbent
        gains = _gains(observed, self.clients, incumbent, self.ladder.serves)
        if gains:  # its clients had records
            self.heard = observed.round
            self._bet(gains)
            spread = sum(n * (gain - self.gain) ** 2 for gain, n in gains) / len(gains)
            self.variance = max(DECAY * self.variance + (1.0 - DECAY) * spread, LEAST_VARIANCE)
            self.gain = DECAY * self.gain + (1.0 - DECAY) * _mean_and_error(gains)[0]

    def step(self, observed: Observed, scratch: FloatArray) -> None:
        """Step its models."""
        heard = (observed.clients[client] for client in self.clients if client in observed.clients)
        self.ladder.step(observed.played, scratch, sum(part.records for part in heard))

    def _bet(self, gains: list[tuple[float, int]]) -> None:
        """Bet that its clients lose by the branch: they are like all others again."""
        loss, variance = -_mean_and_error(gains)[0] - MARGIN, self.variance / sum(n for _, n in gains)
        self.logs = (np.logaddexp(0.0, self.logs) + (RISES * loss - RISES**2 / 2.0) / variance).tolist()

    def has_returned(self, run_length: float = RUN_LENGTH) -> bool:
        """Tell whether its clients do better by the model of all; if not, so wrongly once in so many rounds."""
        return self.returned or float(np.logaddexp.reduce(self.logs)) >= math.log(run_length * len(RISES))

    def is_over(self, t: int) -> bool:
        """Tell whether it is no better than the model of all."""
        return t - self.began + 1 >= YOUNGEST and self.gain < KEEPS

    def is_silent(self, t: int) -> bool:
        """Tell whether its clients had no records for so long that they may have gone."""
        return self.silence(t) >= YOUNGEST

    def silence(self, t: int) -> int:
        """Return for how many rounds its clients have had no records."""
        return t - max(self.heard, self.began)

    def apart(self) -> BranchGroup:
        """Return what clients are told of it."""
        return BranchGroup(clients=self.clients, serves=self.ladder.serves)

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express its models."""
        self.ladder.transform(change)
        self.played = None if self.played is None else change(self.played)


def _trial(name: str) -> str:
    return f"trial/{name}"


def _gains(observed: Observed, clients: Collection[str], over: str, name: str) -> list[tuple[float, int]]:
    """Return by client what a model gained over another a record, and how many records it had."""
    found = ((observed.loss_at(over, [c]) - observed.loss_at(name, [c]), c) for c in clients)
    return [(gain, observed.clients[c].records) for gain, c in found if not math.isnan(gain)]


def _mean_and_error(gains: list[tuple[float, int]]) -> tuple[float, float]:
    """Return the mean gain a record and its standard error, which a single client and round does not tell."""
    total, k = sum(n for _, n in gains), len(gains)
    mean = sum(n * gain for gain, n in gains) / total
    squares = sum((n * (gain - mean)) ** 2 for gain, n in gains)
    return mean, math.sqrt(squares * k / (k - 1)) / total if k > 1 else math.inf
