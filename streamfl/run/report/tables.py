"""The tables of the report, as texts that the page puts in their places."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from streamfl.run.evaluation.by_class import ByClass, ClassLine, OtherClasses
from streamfl.run.evaluation.by_client import ByClient, ClientLine, OtherClients
from streamfl.run.evaluation.result import Figures, Result
from streamfl.run.report import compared
from streamfl.run.report.story import ledger
from streamfl.run.report.words import MISSING, count, counted, measured, quantity, serves, share

# A table has `title`, `heads` (of columns of numbers with a # before) and `rows` of cells, and may have a `note`. One
# that `is_wide` has a line of its own. A cell is a text; or `text` with `kind`, how it is marked, `part`, in [0, 1],
# how dark it is, and `full`, a second look.
Table = dict[str, Any]

_FEW = 6  # columns of a matrix that stands next to another table

_MOMENTS = (
    ("prequential", "each record predicted just before it is learnt, by the model that predicts then"),
    ("round_start", "by the round model, as it was at the start of the round"),
    ("post_update", "by the model after the round, which has already learnt the record: too optimistic"),
)
_LATE = (
    ("prequential", "the prediction that was given before the label came"),
    ("round_start", "by the round model, as it was at the start of the round in which the label came"),
    _MOMENTS[2],
)


def tables(result: Result) -> list[Table]:
    """Return the tables of a run that has them."""
    made = [
        _table("Measures", ("measure", "#model", "#NoChange", "#difference", "predictions"), _measures(result))
        | {"is_wide": True},
        compared.table(result.comparison) if result.comparison else None,
        _clients(result.by_client) if result.by_client else None,
        *(_classes(result.by_class) if result.by_class else ()),
        _table(
            "Missing values",
            ("column", "#missing values", "#share of the records"),
            [[name, count(n), f"{n / result.records:.1%}"] for name, n in (result.missing or {}).items()],
            "A missing value costs no record.",
        ),
        _table("Records", ("", "#records", ""), _records(result), ledger(result)),
        _table("The run", ("", "", ""), _facts(result)),
    ]
    return [table for table in made if table and table["rows"]]


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> Table:
    return {"title": title, "heads": list(heads), "rows": [list(row) for row in rows], "note": note}


def _measures(result: Result) -> list[list[Any]]:
    """Return all accuracies or errors of a run, each with NoChange next to it."""
    moments = _LATE if result.label_delay else _MOMENTS
    named = (("accuracy", result.accuracy, share), ("MAE", result.mae, quantity), ("RMSE", result.rmse, quantity))
    return [row for name, figures, text in named if figures for row in _measure(name, figures, moments, text)]


def _measure(
    name: str, figures: Figures, moments: Sequence[tuple[str, str]], text: Callable[[float | None], str]
) -> Iterator[list[Any]]:
    for moment, meaning in moments:
        ours, naive = getattr(figures, moment), figures.no_change
        gap = None if ours is None or naive is None else ours - naive
        sign = "+" if gap is not None and gap > 0 else ""
        kind = "" if not gap else "better" if (gap > 0) == (name == "accuracy") else "worse"
        yield [f"{name}, {moment}", text(ours), text(naive), {"text": sign + text(gap), "kind": kind}, meaning]


def _clients(table: ByClient) -> Table:
    """Return the table of clients; the last row sums up those that have none of their own."""
    rest, of_errors = table.others, table.measure != "accuracy"
    lines: list[tuple[str, ClientLine | OtherClients]] = [(line.client, line) for line in table.clients]
    if rest is not None:
        lines.append((counted(rest.clients, "other client"), rest))
    rows = []
    for name, line in lines:
        gap = None if line.prequential is None or line.no_change is None else line.prequential - line.no_change
        kind = "" if not gap else "worse" if (gap > 0) == of_errors else "better"
        model, naive = (measured(value, of_errors=of_errors) for value in (line.prequential, line.no_change))
        rows.append([name, count(line.records), {"text": model, "kind": kind}, naive])
    what = "mean absolute error" if of_errors else "accuracy"
    heads = ("client", "#records", f"#{what}", "#NoChange")
    return _table("Clients", heads, rows, "Each record is predicted before it is learnt.")


def _classes(table: ByClass) -> Iterator[Table]:
    """Yield the table of labels, in which the last row sums up those that have none, and the confusion matrix."""
    rest = table.others
    lines: list[tuple[str, ClassLine | OtherClasses]] = [(line.label, line) for line in table.classes]
    if rest is not None:
        lines.append((counted(rest.classes, "other label"), rest))
    of_all = sum(line.records for _, line in lines)
    yield _table(
        "Labels",
        ("label", "#records", "#recall", "#predicted", "#precision", "#kappa"),
        [
            [
                name,
                count(line.records),
                share(line.recall),
                count(line.predicted),
                share(line.precision),
                share(kappa(line, of_all)),
            ]
            for name, line in lines
        ],
        "Recall: the share of the label's records that were predicted right. Precision: the share of the records "
        "predicted as this label that have it. Kappa: this label against all others; 0 is chance, 1 is perfect.",
    )
    yield _confusion(table)


def kappa(line: ClassLine | OtherClasses, of_all: int) -> float | None:
    """Return Cohen's kappa of one label against all others; None where chance is always right.

    >>> rare = ClassLine(label="a", records=10, predicted=10, recall=0.5, precision=0.5)
    >>> round(kappa(rare, 100), 3)
    0.444
    """
    has, told = line.records, line.predicted
    right = (line.recall or 0.0) * has
    agreed = (of_all - has - told + 2.0 * right) / max(1, of_all)
    chance = (has * told + (of_all - has) * (of_all - told)) / max(1, of_all) ** 2
    return None if chance >= 1.0 else (agreed - chance) / (1.0 - chance)


def _confusion(table: ByClass) -> Table:
    """Return the confusion matrix; an empty row of other labels, and empty columns of them or of none, are left out.

    >>> from streamfl.run.evaluation.by_class import Confusion
    >>> confusion = Confusion(labels=("a", "b"), matrix=((3, 1, 0, 0), (0, 0, 0, 2), (0, 0, 0, 0)))
    >>> small = _confusion(ByClass(classes=(), others=None, confusion=confusion))
    >>> small["heads"][1:], [[row[0], *(cell["text"] for cell in row[1:])] for row in small["rows"]]
    (['#a', '#b', '#no label yet'], [['a', '3', '1', '0'], ['b', '0', '0', '2']])
    """
    labels, counts = table.confusion.labels, table.confusion.matrix
    n = len(labels)
    kept = [j for j in range(n + 2) if j < n or any(row[j] for row in counts)]
    names = (*labels, "other labels", "no label yet")
    rows = [
        [names[i], *(_cell(row[j], sum(row), "right" if i == j < n else "wrong") for j in kept)]
        for i, row in enumerate(counts)
        if i < n or any(row)
    ]
    note = "Each row is a true label, each column a predicted one. Darker cells have a larger share of their row."
    heads = ("label", *(f"#{names[j]}" for j in kept))
    return _table("What each label was predicted as", heads, rows, note) | {"is_wide": len(heads) > _FEW}


def _cell(number: int, of: int, kind: str) -> dict[str, Any]:
    return {"text": count(number), "kind": kind, "part": round(number / max(1, of), 3)}


def headline(result: Result) -> list[tuple[str, str, str]]:
    """Return the few numbers that sum up the quality of a run, each with its name and what to compare it with."""
    rows: list[tuple[str, str, str]] = []
    if (figures := result.accuracy) is not None:
        rows.append(("Accuracy", share(figures.prequential), f"NoChange {share(figures.no_change)}"))
    if (figures := result.mae) is not None:
        rows.append(("Mean absolute error", quantity(figures.prequential), f"NoChange {quantity(figures.no_change)}"))
        if figures.prequential is not None and figures.no_change:
            rows.append(("Error over NoChange's", share(figures.prequential / figures.no_change), "1: no better"))
    if (figures := result.rmse) is not None:
        rows.append(("RMSE", quantity(figures.prequential), f"NoChange {quantity(figures.no_change)}"))
        rows.append(("R²", share(result.r2), "1: perfect, 0: as good as the mean"))
    if (found := result.interval) is not None:
        rows.append(("80% intervals", share(found.coverage), f"of targets within; {quantity(found.width)} wide"))
    if result.kappa is not None:
        rows.append(("Kappa, Cohen", share(result.kappa.cohen), "0: as good as the mix of labels"))
        rows.append(("Kappa, temporal", share(result.kappa.temporal), "0: as good as NoChange"))
    return [*rows, ("Loss", share(result.loss.prequential), "0 best, 1 worst")]


def _records(result: Result) -> list[tuple[str, str, str]]:
    return [
        ("read", count(result.records), "from the source"),
        ("accepted", count(result.accepted), "counted in a closed round"),
        ("rejected", count(result.rejected), "could not be used"),
        ("pending", count(result.pending), "read, but in no closed round yet"),
        *(
            (("answered", count(result.answered), "of these: predicted, and in all figures"),)
            if result.answered
            else ()
        ),
        *(
            (("ahead", count(result.ahead), "later records that a model had learnt when it predicted, at most"),)
            if result.ahead is not None
            else ()
        ),
        (
            "held out",
            count(result.held_out),
            "accepted, but not learnt: the drift test compares new records with them",
        ),
        *(
            (
                ("predicted before any model", count(result.unanswered or 0), "counted as wrong, or as 0"),
                ("waiting", count(result.waiting or 0), "predicted, but not learnt by the end"),
                ("expired", count(result.expired or 0), "their label did not come in time"),
            )
            if result.label_delay
            else ()
        ),
    ]


def _facts(result: Result) -> list[tuple[str, Any, str]]:
    """Return what is needed to repeat the run or to identify its model."""
    rows: list[tuple[str, Any, str]] = [
        ("source", result.source, ""),
        ("seed", str(result.seed), ""),
        ("profile", result.profile, ""),
        ("rounds", count(result.rounds), ""),
        ("clients", count(result.clients), ""),
        ("promotions", count(result.promotions), "another live model took over without an alarm"),
    ]
    if result.label_delay:
        rows.append(("label delay", counted(result.label_delay, "record"), "of the same client"))
    if result.serving:
        names = ", ".join(f"{name} {part:.1%}" for name, part in result.serving.items())
        rows.append(("predictions", {"text": serves(result.serving), "full": names}, "by share"))
    if result.bytes:
        raw = f"the record itself has {result.bytes.raw:.0f} as float32"
        read = f"{result.bytes.read_by_each(result.clients):.1f} per record of its own"
        rows.append(("bytes sent", f"{result.bytes.up:.1f} per record", raw))
        rows.append(("bytes that a client reads", read, f"{result.bytes.down:.1f} published, once for all clients"))
    speed = f"{count(result.records_per_second)} records/s"
    rows.append(("time", f"{result.seconds:,.1f} s", speed))
    rows.append(("streamfl", result.streamfl, ""))
    rows.append(("model", {"text": result.model_sha256 or MISSING, "kind": "digest"}, "SHA-256"))
    return rows
