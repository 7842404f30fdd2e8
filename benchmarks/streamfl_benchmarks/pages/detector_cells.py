"""Cells of the table of detectors on a published benchmark, and what it published.

Cerqueira, Gomes, Heyden, Pfahringer and Bifet, "A framework for evaluating and benchmarking concept drift detection
methods", KDD 2026; counts of 50 trials with the detectors of CapyMOA 0.9.0 and their defaults, from the result files
of its repository.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streamfl_benchmarks.pages.rows import Rows

WITHIN = 2500  # records from the onset to the last alarm that counts
RECORDS = 45_312  # of Electricity


@dataclass(frozen=True)
class Trials:
    """What a detector did in some trials: alarms in time, other alarms, and trials in which one came in time.

    >>> trials = Trials(trials=2, tp=3, fp=1, found=1, records=2000)
    >>> trials.f1, trials.cell
    (0.75, '0.75; 1 of 2; 0.50')
    """

    trials: int
    tp: int
    fp: int
    found: int
    records: int  # of all trials together

    @classmethod
    def of(cls, runs: Iterable[Mapping[str, Any]]) -> "Trials":
        """Return the counts of trials.

        >>> one = {"onset": 100, "records": 9000, "alarms": [50, 100, 2600, 2601]}
        >>> Trials.of([one])
        Trials(trials=1, tp=2, fp=2, found=1, records=9000)
        """
        runs = list(runs)
        late = [[at - run["onset"] for at in run["alarms"]] for run in runs]
        right = [[by for by in each if 0 <= by <= WITHIN] for each in late]
        return cls(
            trials=len(runs),
            tp=sum(map(len, right)),
            fp=sum(map(len, late)) - sum(map(len, right)),
            found=sum(map(bool, right)),
            records=sum(run["records"] for run in runs),
        )

    @property
    def f1(self) -> float:
        """Return the harmonic mean of tp / (tp + fp) and tp / (tp + fn), fn being the trials without one in time."""
        return 2 * self.tp / (2 * self.tp + self.fp + self.trials - self.found) if self.tp else 0.0

    @property
    def cell(self) -> str:
        """Return F1, the trials in which the change was found, and false alarms per 1,000 records."""
        return f"{self.f1:.2f}; {self.found} of {self.trials}; {1000 * self.fp / self.records:.2f}"


def _published(tp: int, fp: int, found: int) -> Trials:
    return Trials(50, tp, fp, found, 50 * RECORDS)


# By change and mode, of Electricity: ADWIN, and the name of the detector with the best F1 and its counts.
PUBLISHED: Mapping[tuple[str, str], tuple[Trials, str, Trials]] = {
    ("x_exceed_skip", "abrupt"): (
        _published(5, 104, 3),
        "RDDM",
        _published(15, 112, 15),
    ),
    ("x_permutations", "abrupt"): (
        _published(93, 45, 38),
        "HDDMAverage",
        _published(43, 15, 41),
    ),
    ("y_prior_skip", "abrupt"): (
        _published(152, 121, 27),
        "ADWIN",
        _published(152, 121, 27),
    ),
    ("y_swaps", "abrupt"): (
        _published(104, 752, 36),
        "HDDMWeighted",
        _published(73, 123, 44),
    ),
    ("x_exceed_skip", "gradual"): (
        _published(1, 82, 1),
        "HDDMWeighted",
        _published(11, 85, 10),
    ),
    ("x_permutations", "gradual"): (
        _published(2, 46, 2),
        "SEED",
        _published(53, 80, 37),
    ),
    ("y_prior_skip", "gradual"): (
        _published(9, 307, 3),
        "CUSUM",
        _published(19, 92, 19),
    ),
    ("y_swaps", "gradual"): (_published(0, 760, 0), "SEED", _published(66, 232, 42)),
}


def trials(rows: Rows) -> Trials:
    """Return what a detector did in the trials of some rows."""
    return Trials.of(rows.runs)
