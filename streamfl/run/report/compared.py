"""Whether federating helps, in words and as a table."""

from collections.abc import Iterator, Mapping
from typing import Any

from streamfl.run.evaluation.compared import ENOUGH, WAYS, Compared, WaysFigures, Worth
from streamfl.run.report.words import count, counted, listed, measured

# The clients with most records that a table shows.
MOST_LINES = 50

WORTH: Mapping[Worth, str] = {
    "yes": "is worth it",
    "level": "makes little difference",
    "unsure": "may or may not help",
    "no": "is not worth it",
}

NOTE = (
    "Every way predicts the same records in the same order, each record before it learns it. Alone: the same learner "
    "at each client, with its own records only. One place: one such learner with the records of all clients. Static: "
    "that learner, stopped after the first tenth of the records. {common} "
    "so far. NoChange: the client's last one."
)


def verdict(comparison: Compared) -> str:
    r"""Return in plain words whether federating is worth it.

    >>> from streamfl.run.evaluation.compared import ClientWays
    >>> rest = {"central": 0.93, "static": 0.8, "majority": 0.5, "no_change": 0.6}
    >>> north = ClientWays(client="north", records=900, federated=0.93, alone=0.89, **rest)
    >>> south = ClientWays(client="south", records=300, federated=0.86, alone=0.89, **rest)
    >>> total = WaysFigures(records=1200, federated=0.912, alone=0.89, **rest)
    >>> told = verdict(Compared(measure="accuracy", total=total, clients=(north, south), chance=0.01))
    >>> print(*told.split(". "), sep="\n")
    Federating is worth it here: accuracy 0.912, next to 0.890 alone; 1 of 2 clients would be better off alone: south
    With all records in one place the accuracy would be 0.930.
    """
    return " ".join(_sentences(comparison))


def _sentences(comparison: Compared) -> Iterator[str]:
    total, of_errors = comparison.total, comparison.measure == "mae"
    what = "mean absolute error" if of_errors else "accuracy"

    def told(way: str) -> str:
        return measured(getattr(total, way), of_errors=of_errors)

    compared = f"{what} {told('federated')}, next to {told('alone')} alone"
    yield f"Federating {WORTH[comparison.worth]} here: {compared}; {_better_alone(comparison)}."
    if comparison.beats("central", "federated"):
        yield f"With all records in one place the {what} would be {told('central')}."
    simple = {
        "static": "A model that stops learning after the first tenth of the records",
        "majority": f"To predict each client's {_common(comparison)}",
        "no_change": f"To repeat each client's last {'target' if of_errors else 'label'}",
    }
    for way, rule in simple.items():
        if comparison.beats(way, "federated"):
            yield f"{rule} is better: {told(way)}."


def _better_alone(comparison: Compared) -> str:
    judged, names = len(comparison.clients) - comparison.too_few, comparison.better_alone
    if not judged:
        return f"no client has {ENOUGH} records, so it is too early to tell which would be better off alone"
    which = counted(judged, "client") + (f" with {ENOUGH} records or more" if comparison.too_few else "")
    better = f"{count(len(names)) if names else 'none'} of {which} would be better off alone"
    named = f": {listed(names)}" if names else ""
    has = "has" if comparison.too_few == 1 else "have"
    return f"{better}{named}" + (
        f" ({count(comparison.too_few)} {has} too few to tell)" if comparison.too_few else ""
    )


def _common(comparison: Compared) -> str:
    return "mean target" if comparison.measure == "mae" else "most frequent label"


def heads(comparison: Compared) -> list[str]:
    """Return the names of the columns."""
    common = "mean" if comparison.measure == "mae" else "majority"
    return ["client", "records", "federated", "alone", "one place", "static", common, "NoChange"]


def lines(comparison: Compared) -> Iterator[tuple[str, WaysFigures]]:
    """Yield the row of all records, and those of the clients with most records."""
    yield "all", comparison.total
    for line in comparison.clients[:MOST_LINES]:
        yield line.client, line


def table(comparison: Compared) -> dict[str, Any]:
    """Return the table of the report, as `streamfl.run.report.tables` has them."""
    first, *others = heads(comparison)
    of_errors = comparison.measure == "mae"
    common = "Mean: of the client's targets" if of_errors else "Majority: the client's most frequent label"
    more = len(comparison.clients) - MOST_LINES
    rest = f" {counted(more, 'client')} with fewer records are only in the result." if more > 0 else ""
    return {
        "title": "Does federating help?",
        "heads": [first, *(f"#{name}" for name in others)],
        "rows": [_row(comparison, name, line) for name, line in lines(comparison)],
        "note": f"{verdict(comparison)} {NOTE.format(common=common)}{rest}",
        "is_wide": True,
    }


def _row(comparison: Compared, name: str, line: WaysFigures) -> list[Any]:
    of_errors = comparison.measure == "mae"
    federated, *others = (measured(getattr(line, way), of_errors=of_errors) for way in WAYS)
    return [name, count(line.records), {"text": federated, "kind": _kind(line, of_errors=of_errors)}, *others]


def _kind(line: WaysFigures, *, of_errors: bool) -> str:
    """Return how the federation's figure is marked: next to the client alone."""
    if line.federated is None or line.alone is None or line.federated == line.alone:
        return ""
    return "better" if (line.federated < line.alone) == of_errors else "worse"


def texts(comparison: Compared) -> Iterator[str]:
    """Yield the lines of a terminal: the table, and the verdict."""
    of_errors = comparison.measure == "mae"
    rows = [heads(comparison)]
    for name, line in lines(comparison):
        rows.append([name, count(line.records), *(measured(getattr(line, way), of_errors=of_errors) for way in WAYS)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *cells])
    yield verdict(comparison)
