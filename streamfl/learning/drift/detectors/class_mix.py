"""A detector of changes in the mix of labels, which are not concept drift."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamfl.learning.drift.detectors.glr import GLRDetector
from streamfl.learning.drift.evidence import ClientEvidence
from streamfl.protocol.alarm import Alarm, Reading

# Only the first so many labels to appear are watched, which bounds work and memory a round.
# docs/choices.md, "Bounds and rounding".
MOST_LABELS = 100

# The run length to a false alarm that all labels together aim at, in rounds. docs/choices.md, "Other detectors".
RUN_LENGTH = 500.0


@dataclass
class ClassMix:
    """Two GLR tests for each label: for a rise and for a fall of its share of a round's records.

    Input: the number of records of each label at the clients. Guarantee: none proven, as for GLR; the run length is
    divided among the tests. Cost: O(labels x window) a round.

    Examples
    --------
    >>> from streamfl.protocol.messages import LabelSums
    >>> def part(a, b):
    ...     sums = [LabelSums(label=name, count=n, loss=0.0, square=0.0) for name, n in (("a", a), ("b", b))]
    ...     return {"c0": ClientEvidence(a + b, {}, tuple(sums))}
    >>> mix = ClassMix()
    >>> [mix.update(t, part(500, 500)) for t in range(1, 13)].count(None)
    12
    >>> alarms = [mix.update(t, part(800, 200)) for t in (13, 14)]
    >>> [(alarm.cause, alarm.labels, alarm.since) for alarm in alarms if alarm]
    [('class-mix', ('a', 'b'), 13)]
    """

    # By label, the test on its share, and the test on 1 less its share.
    rising: dict[str, GLRDetector] = field(default_factory=dict)
    falling: dict[str, GLRDetector] = field(default_factory=dict)
    reading: Reading | None = None  # the reading of the test that is nearest to its threshold

    def update(self, t: int, clients: Mapping[str, ClientEvidence]) -> Alarm | None:
        """Take round t's records by label, and return an alarm if there is one. After an alarm, begin again."""
        counts: dict[str, int] = {}
        for part in clients.values():
            for sums in part.new:
                counts[sums.label] = counts.get(sums.label, 0) + sums.count
        records = sum(counts.values())
        if not records:
            return None
        alarms = self._test(t, {label: n / records for label, n in counts.items()}, records)
        if not alarms:
            return None
        strongest = max(alarms.values(), key=lambda alarm: alarm.statistic / alarm.threshold)
        self.reset()
        return Alarm(
            "class-mix", strongest.statistic, strongest.threshold, strongest.since, labels=tuple(sorted(alarms))
        )

    def reset(self) -> None:
        """Forget every share."""
        self.rising, self.falling, self.reading = {}, {}, None

    def _test(self, t: int, shares: Mapping[str, float], records: int) -> dict[str, Alarm]:
        for label in sorted(shares.keys() - self.rising.keys())[: MOST_LABELS - len(self.rising)]:
            self.rising[label], self.falling[label] = GLRDetector(), GLRDetector()
        alarms: dict[str, Alarm] = {}
        for label in self.rising:
            share = shares.get(label, 0.0)
            for test, value in ((self.rising[label], share), (self.falling[label], 1.0 - share)):
                test.run_length = RUN_LENGTH * 2.0 * len(self.rising)
                alarm = test.take(t, value, records)
                if alarm is not None:
                    alarms[label] = alarm
        tests = [*self.rising.values(), *self.falling.values()]
        readings = [test.reading for test in tests if test.reading is not None]
        self.reading = max(readings, key=lambda r: r.statistic / r.threshold, default=None)
        return alarms
