"""The growth of measured regrets with T, and whether they exceed a bound."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from streamfl_benchmarks.regret import Measured
from streamfl_benchmarks.regret_players import METHODS, MethodName
from streamfl_benchmarks.regret_streams import StreamName

CONFIDENCE = 0.95

# The bounds as functions of T, L and Delta, without constants and logarithms.
BOUNDS: dict[str, Callable[[float, float, float], float]] = {
    "√(LT)": lambda T, L, Delta: math.sqrt(L * T),
    "Δ^(1/3) T^(2/3) + √T": lambda T, L, Delta: Delta ** (1 / 3) * T ** (2 / 3) + math.sqrt(T),
}


@dataclass(frozen=True, slots=True)
class Slope:
    """The slope of log R on log T: its mean over seeds, and half the width of its 95% interval (NaN for one seed)."""

    mean: float
    half: float

    @classmethod
    def over(cls, slopes: Sequence[float]) -> "Slope":
        """Return the mean and its interval by Student's t, from one slope a seed.

        >>> Slope.over([0.4, 0.5, 0.6])
        Slope(mean=0.5, half=0.248...)
        """
        n = len(slopes)
        if n < 2:
            return cls(float(slopes[0]), float("nan"))
        error = float(np.std(slopes, ddof=1)) / math.sqrt(n)
        return cls(float(np.mean(slopes)), float(student.ppf(0.5 + CONFIDENCE / 2, n - 1)) * error)


@dataclass(frozen=True, slots=True)
class AgainstBound:
    """A method compared with a bound, whose constant makes both equal at the smallest T.

    Parameters
    ----------
    bound
        Its name in BOUNDS.
    values
        The bound with that constant, at every T.
    worst
        The largest ratio of regret to bound at a greater T, and that T; above 1 the bound is violated.
    """

    bound: str
    values: tuple[float, ...]
    worst: float
    at: int

    @property
    def broken(self) -> bool:
        """Return whether the regret exceeds the bound anywhere."""
        return self.worst > 1.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A method in the streams of one kind.

    Parameters
    ----------
    stream, method
        Which.
    horizons, regrets
        T, rising, and the mean over seeds of the regret there.
    changes, variations
        L and the mean Delta at every T.
    paths, gradients
        The mean C_T and D_T at every T; none if a result of before has none.
    alarms
        The mean number of alarms at every T.
    slope
        Of log R on log T.
    held
        The comparison with every bound.
    """

    stream: StreamName
    method: MethodName
    horizons: tuple[int, ...]
    regrets: tuple[float, ...]
    changes: tuple[int, ...]
    variations: tuple[float, ...]
    paths: tuple[float, ...]
    gradients: tuple[float, ...]
    alarms: tuple[float, ...]
    slope: Slope
    held: tuple[AgainstBound, ...]


def fitted(horizons: Sequence[float], regrets: Sequence[float]) -> float:
    """Return the slope of log R on log T by least squares.

    >>> round(fitted([4, 16, 64], [3 * 4**0.7, 3 * 16**0.7, 3 * 64**0.7]), 12)
    0.7
    """
    return float(np.polyfit(np.log(horizons), np.log(regrets), 1)[0])


def curves(measured: Iterable[Measured]) -> list[Curve]:
    """Return one curve for each stream and method, from at least two horizons with the same seeds each."""
    groups: dict[tuple[StreamName, MethodName], list[Measured]] = {}
    for found in measured:
        groups.setdefault((found.case.stream, found.case.method), []).append(found)
    return [_curve(groups[key]) for key in sorted(groups, key=lambda key: (key[0], METHODS.index(key[1])))]


def _curve(group: Sequence[Measured]) -> Curve:
    horizons = sorted({found.case.rounds for found in group})
    by_horizon = [[found for found in group if found.case.rounds == T] for T in horizons]
    by_seed: dict[int, dict[int, float]] = {}
    for found in group:
        by_seed.setdefault(found.case.seed, {})[found.case.rounds] = found.regret
    regrets = [_mean(found.regret for found in row) for row in by_horizon]
    changes = [row[0].changes for row in by_horizon]
    variations = [_mean(found.variation for found in row) for row in by_horizon]
    return Curve(
        stream=group[0].case.stream,
        method=group[0].case.method,
        horizons=tuple(horizons),
        regrets=tuple(regrets),
        changes=tuple(changes),
        variations=tuple(variations),
        paths=_means([[found.path for found in row] for row in by_horizon]),
        gradients=_means([[found.gradients for found in row] for row in by_horizon]),
        alarms=tuple(_mean(found.alarms for found in row) for row in by_horizon),
        slope=Slope.over([fitted(horizons, [row[T] for T in horizons]) for row in by_seed.values()]),
        held=tuple(held(name, horizons, regrets, changes, variations) for name in BOUNDS),
    )


def held(
    name: str,
    horizons: Sequence[int],
    regrets: Sequence[float],
    changes: Sequence[int],
    variations: Sequence[float],
) -> AgainstBound:
    """Return how regrets stand to a bound, the constant fitted at the first horizon.

    >>> held("√(LT)", [4, 16], [2.0, 5.0], [1, 1], [0.0, 0.0])
    AgainstBound(bound='√(LT)', values=(2.0, 4.0), worst=1.25, at=16)
    """
    plain = [BOUNDS[name](*at) for at in zip(horizons, changes, variations, strict=True)]
    values = tuple(regrets[0] / plain[0] * value for value in plain)
    ratios = [R / value for R, value in zip(regrets[1:], values[1:], strict=True)]
    worst = max(range(len(ratios)), key=ratios.__getitem__)
    return AgainstBound(name, values, ratios[worst], horizons[1 + worst])


def _means(rows: Iterable[Sequence[float | None]]) -> tuple[float, ...]:
    """Return the mean of each row, or nothing if a value is not known."""
    rows = list(rows)
    known = [[value for value in row if value is not None] for row in rows]
    return tuple(map(_mean, known)) if [*map(len, known)] == [*map(len, rows)] else ()


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
