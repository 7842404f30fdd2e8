"""What a caller wants of a file: which column is what, and what to do with a bad record."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from streamfl.core.errors import UsageError
from streamfl.streams.cells import listed

Task = Literal["auto", "classification", "regression"]
OnBadRecord = Literal["reject", "stop"]

LABEL_NAMES = ("label", "y", "target", "class")


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `read`, which describes them, as one value for the readers of all formats."""

    source: str
    label: str | None = None
    drop: tuple[str, ...] = ()
    time: str | None = None
    task: Task = "auto"
    on_bad_record: OnBadRecord = "reject"
    keep: str | None = None
    separator: str = ","

    def refusal(self, what: str, remedy: str) -> UsageError:
        """Return the one-line error that names the file, what is wrong with it and the remedy.

        >>> print(Request("a.csv").refusal("line 3 is not UTF-8", "save the file as UTF-8"))
        a.csv: line 3 is not UTF-8; save the file as UTF-8
        """
        return UsageError(" ".join(f"{self.source}: {what}; {remedy}".splitlines()))

    @property
    def aside(self) -> frozenset[str]:
        """The columns that are neither a feature nor the label: dropped ones and the time."""
        return frozenset(self.drop) | ({self.time} if self.time is not None else set())


def label_column(request: Request, columns: Sequence[str], *, last: bool) -> str:
    """Return the name of the label column, after checking every column that the request names.

    Parameters
    ----------
    request
        What the caller asked for.
    columns
        The columns there are.
    last
        Whether the last column is the label when no column bears one of the usual names.

    Raises
    ------
    UsageError
        If a named column is not there, a name occurs twice, or no column can be the label.

    >>> label_column(Request("a.csv"), ["Class", "width"], last=True)
    'Class'
    >>> label_column(Request("a.csv", drop=("id",)), ["width", "kind", "id"], last=True)
    'kind'
    """
    check_names(request, columns)
    if request.label is not None:
        return request.label
    eligible = [name for name in columns if name not in request.aside]
    for usual in LABEL_NAMES:
        for name in eligible:
            if name.lower() == usual:
                return name
    if last and eligible:
        return eligible[-1]
    raise request.refusal(f"no label column among {listed(columns)}", "name it with --label")


def check_names(request: Request, columns: Sequence[str]) -> None:
    """Raise a UsageError if the request names a column that is not there, or two have the same name."""
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise request.refusal(f"more than one column is named {listed(twice)}", "give each its own name")
    asked = [("--label", request.label), ("--time", request.time), ("--split", request.keep)]
    for flag, name in asked + [("--drop", name) for name in request.drop]:
        if name is not None and name not in columns:
            raise request.refusal(f"no column {name!r}; the columns are {listed(columns)}", f"correct {flag}")
    if request.label in request.aside:
        raise request.refusal(f"the label column {request.label!r} is left out", "take it out of --drop and --time")
