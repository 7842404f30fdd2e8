"""Clients that drifted while the rest did not: models of their own, until they are no better than the one of all."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from streamfl.core.arrays import FloatArray
from streamfl.core.ladder import Ladder
from streamfl.core.master import LiveModel, Observed
from streamfl.core.messages import Apart

# Rounds that clients stay latched after the alarm's.
LATCHED = 2

# A branch must gain so much, and so many standard errors; it lives so long, and ends when its mean gain falls below.
LEAST_GAIN, SURE, YOUNGEST, KEEPS = 0.01, 2.0, 10, 0.003
DECAY, FIRST_GAIN = 0.9, 0.05


@dataclass
class Trial:
    """A candidate for a branch: it is trained by the latched clients alone while they are latched."""

    W: FloatArray
    gains: list[tuple[float, int]] = field(default_factory=list)


@dataclass
class Latch:
    """Clients that a detector named: for two more rounds nobody else trains on their records, and trials compete.

    Parameters
    ----------
    clients, labels, since
        The evidence.
    until
        The last latched round.
    trials
        By name.
    """

    clients: tuple[str, ...]
    labels: tuple[str, ...]
    since: int
    until: int
    trials: dict[str, Trial]

    def live(self, eta: float, *, whitened: bool) -> tuple[LiveModel, ...]:
        """Return the trials as live models of the latched clients."""
        return tuple(
            LiveModel(_trial(name), trial.W, eta, clients=self.clients, whitened=whitened)
            for name, trial in self.trials.items()
        )

    def close(self, observed: Observed, incumbent: str) -> None:
        """Note what each trial gained over the incumbent at each client, and take its step."""
        for name, trial in self.trials.items():
            slot = _trial(name)
            for client in self.clients:
                gain = observed.loss_at(incumbent, [client]) - observed.loss_at(slot, [client])
                if not math.isnan(gain):
                    trial.gains.append((gain, observed.clients[client].records))
            if slot in observed.played:
                trial.W = observed.played[slot].stepped

    def best(self) -> str | None:
        """Return the trial that gained most, if it surely gained; None if there is none."""
        means = {name: _mean_and_error(trial.gains) for name, trial in self.trials.items() if trial.gains}
        if not means:
            return None
        name = max(means, key=lambda n: means[n][0])
        mean, error = means[name]
        return name if mean >= LEAST_GAIN + SURE * error else None


@dataclass
class Branch:
    """A group of clients with a ladder of its own.

    Parameters
    ----------
    clients, labels, since
        Who, and what was the evidence.
    ladder
        Their models.
    began
        The first round that it serves.
    gain
        Running mean of what it gains over the incumbent of all, in units of the score.
    played
        The model that served it in the last round, as it was then.
    """

    clients: tuple[str, ...]
    labels: tuple[str, ...]
    since: int
    ladder: Ladder
    began: int
    gain: float = FIRST_GAIN
    played: FloatArray | None = None

    def close(self, observed: Observed, incumbent: str) -> None:
        """Follow its gain over the incumbent of all, and keep the model that played."""
        self.played = self.ladder.incumbent
        gain = observed.loss_at(incumbent, self.clients) - observed.loss_at(self.ladder.serves, self.clients)
        if not math.isnan(gain):  # its clients had records
            self.gain = DECAY * self.gain + (1.0 - DECAY) * gain

    def is_over(self, t: int) -> bool:
        """Tell whether it is no better than the model of all."""
        return t - self.began + 1 >= YOUNGEST and self.gain < KEEPS

    def apart(self) -> Apart:
        """Return what clients are told of it."""
        return Apart(clients=self.clients, serves=self.ladder.serves)

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express its models."""
        self.ladder.transform(change)
        self.played = None if self.played is None else change(self.played)


def _trial(name: str) -> str:
    return f"trial/{name}"


def _mean_and_error(gains: list[tuple[float, int]]) -> tuple[float, float]:
    total = sum(n for _, n in gains)
    mean = sum(n * gain for gain, n in gains) / total
    return mean, sum((n * (gain - mean)) ** 2 for gain, n in gains) ** 0.5 / total
