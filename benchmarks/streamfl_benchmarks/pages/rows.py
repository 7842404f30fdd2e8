"""Some runs of a file, and the figures of a cell: what templates are made of.

A field is named by its path in a run: `accuracy.prequential`. A cell of no runs is empty; runs are compared seed by
seed. `±` is one standard deviation over seeds, or, where the name says so, half of a 95% interval by Student's t.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from streamfl.errors import UsageError
from streamfl_benchmarks.comparison import Estimate, over_seeds, paired
from streamfl_benchmarks.run_file import Row


def told(estimate: Estimate, digits: int) -> str:
    """Return a figure with so many digits; a zero has no sign.

    >>> told(Estimate(0.71234, 0.00121), 4), told(Estimate(-0.0002, None), 3)
    ('0.7123 ± 0.0012', '0.000')
    """
    spread = "" if estimate.spread is None else f" ± {estimate.spread:.{digits}f}"
    return f"{_unsigned(f'{estimate.mean:.{digits}f}')}{spread}"


def _unsigned(text: str) -> str:
    return text if text.strip("-0.") else text.removeprefix("-")


@dataclass(frozen=True, slots=True)
class Rows:
    """Some runs of a file.

    Parameters
    ----------
    name
        The file, for messages.
    runs
        These runs.
    file
        All runs of the file: a value that none of them has is a slip of the pen.

    >>> rows = Rows.of("made", [{"method": "a", "seed": 1, "hit": 0.5}, {"method": "a", "seed": 2, "hit": 0.7}])
    >>> rows.where(method="a").mean_sd("hit", 2), rows.where(seed=1).mean("hit", 2), rows.seeds
    ('0.60 ± 0.14', '0.50', 2)
    """

    name: str
    runs: tuple[Row, ...]
    file: tuple[Row, ...]

    @classmethod
    def of(cls, name: str, runs: Sequence[Row]) -> "Rows":
        """Return all runs of a file."""
        return cls(name, tuple(runs), tuple(runs))

    def where(self, **wanted: Any) -> "Rows":
        """Return the runs with these values, or, given a list, with one of its values.

        Raises
        ------
        UsageError
            If no run of the whole file has one of the values.
        """
        choices = {field: value if isinstance(value, list) else [value] for field, value in wanted.items()}
        for field, values in choices.items():
            for value in values:
                if not any(value_of(run, field) == value for run in self.file):
                    raise UsageError(f"no run of {self.name} has {field} {value!r}")
        runs = (run for run in self.runs if all(value_of(run, f) in values for f, values in choices.items()))
        return Rows(self.name, tuple(runs), self.file)

    @property
    def seeds(self) -> int:
        """Return how many seeds there are."""
        return len({run["seed"] for run in self.runs})

    def values(self, field: str) -> list[Any]:
        """Return a field of every run."""
        return [value_of(run, field) for run in self.runs]

    def by_seed(self, field: str) -> dict[int, Any]:
        """Return a field of the run of each seed.

        Raises
        ------
        UsageError
            If a seed has more than one run: then these are not the runs of one row.
        """
        return {seed: value for (seed,), value in self._by(("seed",), field).items()}

    def _by(self, by: Sequence[str], field: str) -> dict[tuple[Any, ...], Any]:
        found = {tuple(value_of(run, name) for name in by): value_of(run, field) for run in self.runs}
        if len(found) < len(self.runs):
            raise UsageError(f"runs of {self.name} with the same {by[0]} in one row; tell them apart with `where`")
        return found

    def total(self, field: str) -> int:
        """Return the sum of a count over the runs; of those that have one."""
        return sum(value for value in self.values(field) if value is not None)

    def mean(self, field: str, digits: int = 4) -> str:
        """Return the mean over the seeds that have such a figure."""
        values = self._figures(field)
        return told(Estimate(fmean(values), None), digits) if values else ""

    def mean_sd(self, field: str, digits: int = 4) -> str:
        """Return the mean ± one standard deviation over seeds; of one seed only the figure."""
        values = self._figures(field)
        return told(over_seeds(values), digits) if values else ""

    def mean_interval(self, field: str, digits: int = 4) -> str:
        """Return the mean ± half of its 95% interval; of one seed only the figure."""
        values = self._figures(field)
        return told(paired(values, [0.0] * len(values)), digits) if values else ""

    def less(self, other: "Rows", field: str, digits: int = 4, by: Sequence[str] = ("seed",)) -> str:
        """Return by how much a figure is above that of others, ± half of the 95% interval paired by these fields."""
        own, theirs = self._by(by, field), other._by(by, field)
        both = sorted(own.keys() & theirs.keys())
        return told(paired([own[s] for s in both], [theirs[s] for s in both]), digits) if both else ""

    def difference(self, left: str, right: str) -> "Rows":
        """Return the same runs with one more field, `difference`: one field less another."""
        runs = tuple({**run, "difference": value_of(run, left) - value_of(run, right)} for run in self.runs)
        return Rows(self.name, runs, self.file)

    def _figures(self, field: str) -> list[float]:
        return [value for value in self.by_seed(field).values() if value is not None]


def value_of(run: Row, field: str) -> Any:
    """Return the field at a path.

    Raises
    ------
    UsageError
        If the run has no such field.

    >>> value_of({"accuracy": {"prequential": 0.7}}, "accuracy.prequential")
    0.7
    """
    found: Any = run
    for name in field.split("."):
        if not isinstance(found, Mapping) or name not in found:
            raise UsageError(f"a run has no field {field}; it has {', '.join(run)}")
        found = found[name]
    return found


def seed_counts(columns: Sequence[Rows]) -> str:
    """Return how many seeds each column of a row has: one number if that is the same in all.

    Raises
    ------
    UsageError
        If no column has a run.

    >>> one = Rows.of("made", [{"seed": 1}])
    >>> seed_counts([one, one]), seed_counts([one, Rows("made", (), ())])
    ('1', '1 / 0')
    """
    counts = [rows.seeds for rows in columns]
    if not any(counts):
        raise UsageError("a row has no runs; make them, or leave the row out")
    return str(counts[0]) if len(set(counts)) == 1 else " / ".join(map(str, counts))
