"""A request to read a file: the roles of its columns, and what to do with bad records."""

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from streamfl.errors import UsageError
from streamfl.records.values.cells import CellRules, listed
from streamfl.records.values.missing import Missing, kept
from streamfl.records.values.numerals import Decimal
from streamfl.records.values.times import PLAIN, Notation

Task = Literal["auto", "classification", "regression"]
OnBadRecord = Literal["reject", "stop"]

LABEL_NAMES = ("label", "y", "target", "class")


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `read`, which describes them, as one value for the readers of all formats.

    With `labelled` False no column is the label. `time` may name two columns, separated by a comma. `declared` has by
    column the values that the file itself lists: they are values, even if one is called none. `wanted`
    names columns that are read although they are no features, such as times. `watch` hears how many records have been
    read.
    """

    source: str
    label: str | None = None
    drop: tuple[str, ...] = ()
    time: str | None = None
    task: Task = "auto"
    on_bad_record: OnBadRecord = "reject"
    keep: str | None = None
    separator: str = ","
    labelled: bool = True
    missing_values: tuple[str, ...] = ()
    decimal: Decimal | None = None

    notation: Notation = PLAIN
    encoding: str | None = None
    time_features: tuple[str, ...] = ()
    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    wanted: frozenset[str] = frozenset()
    watch: Callable[[int], None] | None = None

    @property
    def reading(self) -> CellRules:
        """How the cells are read."""
        return CellRules(Missing.of(self.missing_values), self.decimal)

    def reading_of(self, column: str) -> CellRules:
        """How the cells of a column are read."""
        return self.reading.keeping(self.declared.get(column, ()))

    @property
    def values_kept(self) -> frozenset[float]:
        """The numbers that are values, however much they look like a code for a missing one."""
        return kept(self.missing_values)

    @property
    def usual_decimal(self) -> Decimal:
        """The decimal mark where no number shows it: who writes it as a comma separates columns by a semicolon."""
        return "," if self.separator == ";" else "."

    def refusal(self, what: str, remedy: str) -> UsageError:
        """Return a one-line error with the file, the problem and the remedy.

        >>> print(Request("a.csv").refusal("line 3 is not UTF-8", "save the file as UTF-8"))
        a.csv: line 3 is not UTF-8; save the file as UTF-8
        """
        return UsageError(" ".join(f"{self.source}: {what}; {remedy}".splitlines()))

    @property
    def times(self) -> tuple[str, ...]:
        """The columns that hold the times: none, one, or one of days and one of times of day."""
        return () if self.time is None else tuple(name.strip() for name in self.time.split(","))

    @property
    def excluded(self) -> frozenset[str]:
        """The columns that are neither features nor the label: dropped columns and those of times."""
        return frozenset((*self.drop, *self.times))


def label_column(
    request: Request, columns: Sequence[str], *, last: bool, without: Container[str] = frozenset()
) -> str:
    """Return the name of the label column, after checking every column that the request names.

    It is "" if the request is for records without labels.

    Parameters
    ----------
    last
        Whether the last column is the label if no column has one of the usual names.
    without
        Columns that are not the label unless it is named.

    Raises
    ------
    UsageError
        If a named column does not exist, a name occurs twice, or no column can be the label.

    >>> label_column(Request("a.csv"), ["Class", "width"], last=True)
    'Class'
    >>> label_column(Request("a.csv", drop=("id",)), ["width", "kind", "id"], last=True)
    'kind'
    """
    check_names(request, columns)
    if not request.labelled:
        return ""
    if request.label is not None:
        return request.label
    eligible = [name for name in columns if name not in request.excluded and name not in without]
    for usual in LABEL_NAMES:
        for name in eligible:
            if name.lower() == usual:
                return name
    if last and eligible:
        return eligible[-1]
    raise request.refusal(f"no label column among {listed(columns)}", "name it with --label")


def check_names(request: Request, columns: Sequence[str]) -> None:
    """Raise a UsageError if the request names a column that does not exist, or two columns have the same name."""
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise request.refusal(f"more than one column is named {listed(twice)}", "give each its own name")
    asked = [("--label", request.label), ("--split", request.keep)]
    asked += [("--drop", name) for name in request.drop] + [("--time", name) for name in request.times]
    if len(request.times) > 2:
        what = f"--time names {len(request.times)} columns"
        raise request.refusal(what, "name one, or two: that of the day and that of the time of day")
    for flag, name in asked:
        if name is not None and name not in columns:
            raise request.refusal(f"no column {name!r}; the columns are {listed(columns)}", f"correct {flag}")
    if request.label in request.excluded:
        raise request.refusal(f"the label column {request.label!r} is left out", "remove it from --drop and --time")
