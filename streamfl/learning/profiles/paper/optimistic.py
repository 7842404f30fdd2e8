"""Algorithm 3's optimistic loss Ft: a lower estimate of the loss that the active instance's model could have had."""

import math

from streamfl.errors import UsageError


def radius(records: int, *, horizon: int, delta: float = 0.05, scale: float = 1.0) -> float:
    """Return c sqrt(ln(T / delta) / records), c = `scale` (1 in the paper).

    >>> round(radius(1000, horizon=100), 4)
    0.0872
    """
    return scale * math.sqrt(math.log(horizon / delta) / records)


def history_estimate(current: float, past: float | None, rounds: int) -> float:
    """Return the mean over an instance's active rounds tau of F(tau)(x(t)).

    Parameters
    ----------
    current
        F(t)(x(t)), the loss of this round.
    past
        The mean over its earlier active rounds, estimated from the sampled ones. None if none was sampled; then
        `current` is returned.
    rounds
        Active rounds so far, including this one.

    Examples
    --------
    >>> round(history_estimate(0.4, 0.2, 4), 2)
    0.25
    """
    return current if past is None else (current + (rounds - 1) * past) / rounds


def regret_estimate(
    mean_served: float, rounds: int, eta: float, *, distance: float, lipschitz: float, bound: float
) -> float:
    """Return the mean served loss less the regret bound of Theorem 1. This needs no old records.

    [D^2 / (2 eta t') + eta mu^2 / 2] is in units of the training loss, so it is divided by `bound` to be in units of
    the score. Valid for one full-batch local step a round.

    Parameters
    ----------
    mean_served
        Mean over the instance's active rounds of F at the model that served.
    rounds
        t', the number of these rounds.
    eta
        Step size of the instance.
    distance
        D, a bound on |x1 - x*|.
    lipschitz
        mu, a bound on the gradient's norm: sqrt(2) times the largest feature norm for a softmax.
    bound
        The training loss that scores 1: 2 ln K.

    Examples
    --------
    >>> round(regret_estimate(0.5, 100, 0.1, distance=1.0, lipschitz=1.0, bound=1.0), 2)
    0.4
    """
    if eta <= 0.0:
        raise UsageError(f"the step size is {eta}: it must be positive")
    return mean_served - (distance**2 / (2.0 * eta * rounds) + eta * lipschitz**2 / 2.0) / bound
