"""Where the model was best and worst: by client, and by class."""

from collections.abc import Iterator, Sequence

from streamfl.run.evaluation.by_class import ByClass, ClassLine
from streamfl.run.evaluation.by_client import ByClient
from streamfl.run.report.words import counted, quantity, share

# Figures of fewer records are mostly chance: such a line is never called the worst.
FEW = 30


def extremes(by_client: ByClient | None, by_class: ByClass | None) -> Iterator[str]:
    """Yield where the model was best and worst: by client, and by class.

    >>> from streamfl.run.evaluation.by_client import ClientLine
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
