"""The tables by client and by class, and the confusion matrix, as rows of text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamfl.run.evaluation.by_class import ByClass, ClassLine, OtherClasses
from streamfl.run.evaluation.by_client import ByClient, ClientLine, OtherClients
from streamfl.run.report.words import count, counted, quantity, share

# Figures of fewer records are mostly chance: such a line is never called the worst.
FEW = 30


@dataclass(frozen=True, slots=True)
class ClientRow:
    """One row of the table of clients; `better` is None if the model is as good as NoChange, or if it is unknown."""

    client: str
    records: str
    model: str
    no_change: str
    better: bool | None


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One row of the table of classes."""

    label: str
    records: str
    predicted: str
    recall: str
    precision: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the confusion matrix: its count, its share of the row, and whether the prediction was right."""

    records: str
    part: float
    is_right: bool


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """The records of one label, by what was predicted."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """The confusion matrix, without the row and the columns that are empty."""

    columns: tuple[str, ...]
    rows: tuple[MatrixRow, ...]


def client_rows(table: ByClient) -> list[ClientRow]:
    """Return the table of clients; the last row sums up those that have none of their own."""
    text = share if table.measure == "accuracy" else quantity
    rest = table.others
    lines: list[tuple[str, ClientLine | OtherClients]] = [(line.client, line) for line in table.clients]
    if rest is not None:
        lines.append((counted(rest.clients, "other client"), rest))
    rows = []
    for name, line in lines:
        gap = None if line.prequential is None or line.no_change is None else line.prequential - line.no_change
        better = None if not gap else (gap > 0) == (table.measure == "accuracy")
        rows.append(ClientRow(name, count(line.records), text(line.prequential), text(line.no_change), better))
    return rows


def class_rows(table: ByClass) -> list[ClassRow]:
    """Return the table of classes; the last row sums up those that have none of their own."""
    rest = table.others
    lines: list[tuple[str, ClassLine | OtherClasses]] = [(line.label, line) for line in table.classes]
    if rest is not None:
        lines.append((counted(rest.classes, "other label"), rest))
    return [
        ClassRow(name, count(line.records), count(line.predicted), share(line.recall), share(line.precision))
        for name, line in lines
    ]


def matrix(table: ByClass) -> Matrix:
    """Return the confusion matrix; an empty row of other labels, and empty columns of them or of none, are left out.

    >>> from streamfl.run.evaluation.by_class import Confusion
    >>> confusion = Confusion(labels=("a", "b"), matrix=((3, 1, 0, 0), (0, 0, 0, 2), (0, 0, 0, 0)))
    >>> small = matrix(ByClass(classes=(), others=None, confusion=confusion))
    >>> small.columns, [(row.label, [cell.records for cell in row.cells]) for row in small.rows]
    (('a', 'b', 'no label yet'), [('a', ['3', '1', '0']), ('b', ['0', '0', '2'])])
    """
    labels, counts = table.confusion.labels, table.confusion.matrix
    n = len(labels)
    kept = [j for j in range(n + 2) if j < n or any(row[j] for row in counts)]
    names = (*labels, "other labels", "no label yet")
    rows = [
        MatrixRow(names[i], tuple(Cell(count(row[j]), row[j] / max(1, sum(row)), i == j < n) for j in kept))
        for i, row in enumerate(counts)
        if i < n or any(row)
    ]
    return Matrix(tuple(names[j] for j in kept), tuple(rows))


def extremes(by_client: ByClient | None, by_class: ByClass | None) -> Iterator[str]:
    """Yield where the model was best and worst: by client, and by class.

    >>> north = ClientLine(client="n", records=90, prequential=0.7, no_change=0.5)
    >>> south = ClientLine(client="s", records=80, prequential=0.6, no_change=0.5)
    >>> list(extremes(ByClient(measure="accuracy", clients=(north, south)), None))
    ['By client, accuracy is between 0.600 (s) and 0.700 (n).']
    """
    if by_client is not None:
        yield from _client_extremes(by_client)
    if by_class is not None:
        yield from _class_extremes(by_class.classes, complete=by_class.others is None)


def _client_extremes(table: ByClient) -> Iterator[str]:
    known = [(line.prequential, line.client) for line in table.clients if line.records >= FEW]
    figures = sorted((figure, name) for figure, name in known if figure is not None)
    if len(figures) < 2:
        return
    (least, low), (most, high) = figures[0], figures[-1]
    name, text = ("accuracy", share) if table.measure == "accuracy" else ("the mean absolute error", quantity)
    which = "By client" if table.others is None else f"Among the {len(table.clients)} clients with the most records"
    yield f"{which}, {name} is between {text(least)} ({low}) and {text(most)} ({high})."


def _class_extremes(lines: Sequence[ClassLine], *, complete: bool) -> Iterator[str]:
    known = [(line.recall, line) for line in lines if line.records >= FEW]
    recalls = [(recall, line) for recall, line in known if recall is not None]
    if len(recalls) < 2:
        return
    recall, line = min(recalls, key=lambda each: each[0])
    which = "" if complete else f" among the {len(lines)} with the most records"
    rest = f"{share(recall)} of its {counted(line.records, 'record')} were predicted right"
    yield f"The label with the lowest recall{which} is {line.label}: {rest}."
