"""The change tests as drift detectors for River, on a stream of errors or of losses in [0, 1].

Each takes one number at a time: 0 for a hit and 1 for a miss, or a loss between 0 and 1. They are used like River's
own detectors, wherever River takes a detector of errors, and need nothing else of this package.
"""

import abc
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from river import base

from streamfl.errors import UsageError
from streamfl.learning.drift.detectors import e_detector, glr
from streamfl.learning.drift.detectors.learnt_bound import LearntBound
from streamfl.learning.profiles.paper.calibration import Calibration
from streamfl.learning.profiles.paper.watched_tests import WatchedTests
from streamfl.protocol.alarm import Alarm, Reading

__all__ = ["GLR", "EDetector", "MasterTests"]

# The least variance of a loss that GLR assumes. Without it, two errors after a long time without any would alarm.
LEAST_VARIANCE = 0.01

# The replays from which MasterTests calibrates thresholds: at least REPLAYS, of which at least ABOVE exceed one.
REPLAYS, ABOVE = 200, 2


class LossDetector(base.DriftAndWarningDetector):
    """The common part of this module's detectors: they take losses one by one, and test after every round of them.

    Parameters
    ----------
    round_size
        Losses in a round.
    warning_level
        The part of the threshold at which the statistic becomes a warning.
    """

    def __init__(self, round_size: int, warning_level: float) -> None:
        super().__init__()
        _check("round_size", round_size, _whole(round_size, 1), "a whole number, 1 or more")
        _check("warning_level", warning_level, 0.0 < warning_level <= 1.0, "above 0 and at most 1")
        self.warning_level = warning_level
        self._size = round_size
        self._rounds = 0

    @property
    def alarm(self) -> Alarm | None:
        """The alarm that the last loss raised, or None: `cause`, `statistic`, `threshold`, and `since`.

        `since` is the estimated number of the loss at which the change began, with all losses counted from 1.
        """
        return self._alarm

    @property
    @abc.abstractmethod
    def reading(self) -> Reading | None:
        """Statistic and threshold after the last round, with or without an alarm; None before the first test."""

    def update(self, x: int | float) -> None:
        """Update the detector with a single loss.

        Parameters
        ----------
        x
            A number in [0, 1].

        Raises
        ------
        UsageError
            It is not such a number. The detector is unchanged.
        """
        loss = _loss(x)
        if self.drift_detected:
            self._reset()
        self._losses.append(loss)
        if len(self._losses) == self._size:
            self._rounds += 1
            self._close_round(self._test(self._rounds, self._losses))

    @abc.abstractmethod
    def _test(self, t: int, losses: Sequence[float]) -> Alarm | None:
        """Test with the losses of round t."""

    def _reset(self) -> None:
        super()._reset()
        self._losses: list[float] = []
        self._alarm: Alarm | None = None

    def _close_round(self, alarm: Alarm | None) -> None:
        self._losses = []
        self._drift_detected = alarm is not None
        if alarm is not None:
            self._alarm = replace(alarm, since=(alarm.since - 1) * self._size + 1)
        near = self.reading is not None and self.reading.statistic >= self.warning_level * self.reading.threshold
        self._warning_detected = near and alarm is None


class GLR(LossDetector):
    """Generalised likelihood ratio test for a rise of the mean loss.

    Losses are averaged over rounds. In a window of the last rounds, the test looks for the split that best separates
    a lower mean before it from a higher mean after it. The threshold grows slowly with the number of splits. A fall
    is not drift. The variance is estimated within rounds and between rounds, and the larger estimate is used. So
    errors of 5% are watched more closely than errors of 50%.

    The threshold is derived for independent losses of known variance. In measurements, false alarms are far rarer
    than it aims at.

    Parameters
    ----------
    run_length
        The run length to a false alarm that the threshold aims at, in losses.
    round_size
        The number of losses that are averaged, and after which there is a test. Smaller rounds find changes sooner,
        cost more, and reach less far back.
    window
        The number of rounds kept.
    margin
        A rise of the mean loss that is too small to matter.
    warning_level
        `warning_detected` is set when the statistic reaches this part of its threshold.

    Examples
    --------
    >>> import random
    >>> from streamfl.drift import GLR

    >>> rng = random.Random(7)
    >>> glr = GLR()

    A model errs in 20% of its predictions, and from index 1000 on in 40%:

    >>> errors = rng.choices([0, 1], weights=[0.8, 0.2], k=1000) + rng.choices([0, 1], weights=[0.6, 0.4], k=1000)

    >>> for i, error in enumerate(errors):
    ...     glr.update(error)
    ...     if glr.drift_detected:
    ...         print(f"Change detected at index {i}, begun at index {glr.alarm.since - 1}")
    Change detected at index 1215, begun at index 992

    References
    ----------
    [^1]: Maillard, O.-A., 2019. Sequential change-point detection: Laplace concentration of scan statistics and
    non-asymptotic delay bounds. In Algorithmic Learning Theory (pp. 610-632).
    [^2]: Besson, L., Kaufmann, E., Maillard, O.-A. and Seznec, J., 2022. Efficient change-point detection for
    tackling piecewise-stationary bandits. Journal of Machine Learning Research, 23(77), pp. 1-40.
    """

    def __init__(
        self,
        run_length: float = 10_000,
        round_size: int = 32,
        window: int = 200,
        margin: float = 0.0,
        warning_level: float = 0.5,
    ) -> None:
        super().__init__(round_size, warning_level)
        _check("run_length", run_length, _finite(run_length, 1.0), "a finite number above 1")
        _check("round_size", round_size, _whole(round_size, 2), "a whole number, 2 or more")
        _check(
            "window",
            window,
            _whole(window, glr.GLRDetector.shortest),
            f"a whole number, {glr.GLRDetector.shortest} or more",
        )
        _check("margin", margin, margin >= 0.0, "0 or more")
        self.run_length = run_length
        self.round_size = round_size
        self.window = window
        self.margin = margin
        self._reset()

    @property
    def reading(self) -> Reading | None:
        """Statistic and threshold after the last round, with or without an alarm; None before the first test."""
        return self._core.reading

    def _reset(self) -> None:
        super()._reset()
        self._core = glr.GLRDetector(
            run_length=self.run_length / self.round_size, margin=self.margin, window=self.window
        )
        self._variances: list[float] = []

    def _test(self, t: int, losses: Sequence[float]) -> Alarm | None:
        mean = math.fsum(losses) / len(losses)
        within = math.fsum((loss - mean) ** 2 for loss in losses) / (len(losses) - 1)
        self._variances = [*self._variances, within][-self.window :]
        variance = max(LEAST_VARIANCE, math.fsum(self._variances) / len(self._variances))
        return self._core.test(t, mean, variance / len(losses))


class EDetector(LossDetector):
    """E-detector: bets that losses exceed a bound. Its run length needs no assumption on the losses.

    As long as no loss, given those before it, has a mean above the bound, the mean number of losses to a false alarm
    is at least `run_length`: for any distribution in [0, 1], dependent or not. This is exact if the bound is given.
    A learnt bound is the lowest mean seen, plus two standard errors, plus a margin; it follows a model that improves,
    and the guarantee is approximate. A fall is not drift.

    It tests after every loss, at O(1).

    Parameters
    ----------
    run_length
        The least mean run length to a false alarm, in losses.
    bound
        The largest mean loss without drift. None learns it.
    margin
        A rise of the mean loss that is too small to matter; not used if the bound is given.
    shortest
        The number of losses from which the first bound is learnt. Nothing is tested before.
    warning_level
        `warning_detected` is set when the statistic, a logarithm, reaches this part of its threshold.

    Examples
    --------
    >>> import random
    >>> from streamfl.drift import EDetector

    >>> rng = random.Random(7)
    >>> detector = EDetector()

    A model errs in 20% of its predictions, and from index 1000 on in 40%:

    >>> errors = rng.choices([0, 1], weights=[0.8, 0.2], k=1000) + rng.choices([0, 1], weights=[0.6, 0.4], k=1000)

    >>> for i, error in enumerate(errors):
    ...     detector.update(error)
    ...     if detector.drift_detected:
    ...         print(f"Change detected at index {i}, begun at index {detector.alarm.since - 1}")
    Change detected at index 1164, begun at index 1000

    References
    ----------
    [^1]: Shin, J., Ramdas, A. and Rinaldo, A., 2024. E-detectors: a nonparametric framework for sequential change
    detection. New England Journal of Statistics in Data Science, pp. 229-260.
    """

    def __init__(
        self,
        run_length: float = 10_000,
        bound: float | None = None,
        margin: float = 0.03,
        shortest: int = 100,
        warning_level: float = 0.5,
    ) -> None:
        super().__init__(1, warning_level)
        _check("run_length", run_length, _finite(run_length, 1.0), "a finite number above 1")
        _check("bound", bound, bound is None or 0.0 < bound < 1.0, "between 0 and 1")
        _check("margin", margin, margin >= 0.0, "0 or more")
        _check("shortest", shortest, _whole(shortest, 1), "a whole number, 1 or more")
        self.run_length = run_length
        self.bound = bound
        self.margin = margin
        self.shortest = shortest
        self._reset()

    @property
    def reading(self) -> Reading | None:
        """Statistic and threshold after the last loss, with or without an alarm; None before there is a bound."""
        return self._core.reading

    def _reset(self) -> None:
        super()._reset()
        self._core = e_detector.EProcessDetector(run_length=self.run_length, bound=self.bound)
        self._learnt = LearntBound(self.shortest)

    def _test(self, t: int, losses: Sequence[float]) -> Alarm | None:
        (loss,) = losses
        if self.bound is None:
            # The bound comes from earlier losses, so that a bet never depends on the loss it is about.
            known = self._learnt.value
            self._learnt.learn(loss)
            if known is None:
                return None
            self._core.bound = known + self.margin
        return self._core.take(t, loss, records=1)


class MasterTests(LossDetector):
    """Tests 1 and 2 of Master-FL, with calibrated thresholds.

    Master-FL watches copies of a learner that run on many time scales. Here there is a single model, the caller's
    own. So a copy is only a span of rounds, and the optimistic loss (Master-FL's estimate of the loss that could have
    been had) is the mean loss of the block so far. Blocks have 2^order rounds, in which spans of all scales are
    placed at random (Algorithm 1). A new block begins every half block.

    - Test 1, at the end of every span: its mean loss lies below the largest optimistic loss of the block. Losses
      fell.
    - Test 2, after every round: over the block, losses lie above the optimistic losses. Losses rose.

    The paper's thresholds lie above anything that a loss can reach. Here they are calibrated in the first block, in
    which nothing is tested, on blocks drawn from its rounds. After an alarm calibration begins again, and changes
    during it are missed. False alarms are about as frequent as `run_length` asks for.

    Parameters
    ----------
    run_length
        The run length to a false alarm for which thresholds are calibrated, in losses.
    order
        Blocks have 2^order rounds.
    round_size
        The number of losses that are averaged, and after which there is a test.
    two_sided_test
        If True, a fall is also a drift (Test 1); otherwise only a rise is (Test 2).
    seed
        Seed of spans and replays.
    warning_level
        `warning_detected` is set when the statistic of Test 2 reaches this part of its threshold.

    Examples
    --------
    >>> import random
    >>> from streamfl.drift import MasterTests

    >>> rng = random.Random(7)
    >>> tests = MasterTests()

    A model errs in 20% of its predictions, and from index 1000 on in 40%:

    >>> errors = rng.choices([0, 1], weights=[0.8, 0.2], k=1000) + rng.choices([0, 1], weights=[0.6, 0.4], k=1000)

    >>> for i, error in enumerate(errors):
    ...     tests.update(error)
    ...     if tests.drift_detected:
    ...         print(f"Change detected at index {i} by {tests.alarm.cause}")
    Change detected at index 1199 by test2

    References
    ----------
    [^1]: Ganguly, B. and Aggarwal, V. Online federated learning via non-stationary detection and adaptation amidst
    concept drift.
    [^2]: Wei, C.-Y. and Luo, H., 2021. Non-stationary reinforcement learning without prior knowledge: an optimal
    black-box approach. In Conference on Learning Theory (pp. 4300-4354).
    """

    def __init__(
        self,
        run_length: float = 10_000,
        order: int = 6,
        round_size: int = 8,
        two_sided_test: bool = True,
        seed: int = 0,
        warning_level: float = 0.5,
    ) -> None:
        super().__init__(round_size, warning_level)
        _check("order", order, _whole(order, 1) and order <= 16, "a whole number, 1 to 16")
        block = round_size << order
        long = _finite(run_length, 1.0) and run_length >= 2 * block
        _check("run_length", run_length, long, f"a finite number, at least two blocks, {2 * block}")
        self.run_length = run_length
        self.order = order
        self.round_size = round_size
        self.two_sided_test = two_sided_test
        self.seed = seed
        self._reset()

    @property
    def reading(self) -> Reading | None:
        """Test 2's statistic and threshold after the last round; None in the first block."""
        return self._core.reading

    def _reset(self) -> None:
        super()._reset()
        self._core = WatchedTests(self._calibration(), falls=self.two_sided_test, seed=self.seed)

    def _calibration(self) -> Calibration:
        """Return how thresholds are calibrated: the tests, and the overlapping blocks, share the false alarms."""
        tests = 4 if self.two_sided_test else 2
        rate = (self.round_size << self.order) / self.run_length / tests
        return Calibration(rounds=1 << self.order, replays=max(REPLAYS, math.ceil(ABOVE / rate)), rate=rate)

    def _test(self, t: int, losses: Sequence[float]) -> Alarm | None:
        return self._core.update(t, math.fsum(losses) / len(losses), len(losses))


def _loss(x: int | float) -> float:
    """Return a loss as a number, if it is one.

    >>> _loss(True), _loss(0.25)
    (1.0, 0.25)
    >>> _loss(2)
    Traceback (most recent call last):
    ...
    streamfl.errors.UsageError: a loss is 2: it must be a number in [0, 1], such as 0 for a hit and 1 for a miss
    """
    try:
        loss = float(x)
    except (TypeError, ValueError):
        loss = math.nan
    if not 0.0 <= loss <= 1.0:
        raise UsageError(f"a loss is {x!r}: it must be a number in [0, 1], such as 0 for a hit and 1 for a miss")
    return loss


def _whole(number: object, least: int) -> bool:
    """Return whether a parameter is a whole number of at least `least`; 2.5 losses would never fill a round.

    >>> _whole(2, 1), _whole(np.int64(2), 1), _whole(2.5, 1), _whole(True, 1)
    (True, True, False, False)
    """
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and int(number) >= least


def _finite(number: object, above: float) -> bool:
    """Return whether a parameter is a finite number above a bound.

    >>> _finite(2, 1.0), _finite(math.inf, 1.0), _finite("2", 1.0)
    (True, False, False)
    """
    return isinstance(number, int | float | np.integer | np.floating) and bool(above < number < math.inf)


def _check(name: str, value: float | None, holds: bool, wanted: str) -> None:
    if not holds:
        raise UsageError(f"{name} is {value!r}: it must be {wanted}")
