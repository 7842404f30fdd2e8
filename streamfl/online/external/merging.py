"""Merges the exports of several clients, by the rule of each table. Nothing here depends on River."""

from collections.abc import Iterable, Sequence

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.errors import PeerError, UsageError
from streamfl.online.external.increments import added, pooled
from streamfl.protocol.external.keys import keys_of
from streamfl.protocol.external.tables import FIXED, Exported, ExportedTable, Rule

# Rules under which no value falls, except a mean.
ADDED: tuple[Rule, ...] = ("sum", "moments")

# The columns that moments may have: a spread is a variance, or a sum of squared deviations; some models keep none.
MOMENTS = (("count", "mean"), ("count", "mean", "variance"), ("count", "mean", "m2"))


def merged(parts: Sequence[tuple[Exported, float]], base: Exported) -> Exported:
    """Return the merged export of clients that began at the same base.

    Averaged tables become base + sum_i w_i (part_i - base) / sum_i w_i over the union of their names, with 0 for a
    missing value: the weighted mean. Added tables become base + sum_i (part_i - base): the counts and moments of all
    records, with those behind the base counted once; they need no weights. Extremes are those of all parts. The order
    of the parts affects only the last bits, and a single part is returned unchanged. New names follow those of the
    base, sorted.

    Parameters
    ----------
    parts
        The clients' exports, and the weight of each: its share or number of records. Without parts, or if all
        weights are 0, averaged tables stay at the base.
    base
        The export from which all of them began: the last merged one, or that of an untrained model.

    Returns
    -------
    Exported
        The next base, which every client imports.

    Raises
    ------
    PeerError
        A part cannot have begun at the base (see `refusal`), or parts contradict one another.
    UsageError
        A weight is negative or not finite.

    References
    ----------
    McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017, for the mean;
    Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983, for moments.

    Examples
    --------
    >>> def exported(**weights):
    ...     return Exported("Linear", {"Linear.weights": ExportedTable.column("mean", "weight", weights)})
    >>> both = merged([(exported(x=1.0), 300), (exported(x=5.0, y=2.0), 100)], exported(x=0.0))
    >>> both.tables["Linear.weights"].single()
    {'x': 2.0, 'y': 0.5}
    """
    for i, (part, weight) in enumerate(parts):
        if not 0.0 <= weight < np.inf:
            raise UsageError(f"a weight must be 0 or more, and finite; that of part {i} is {weight}")
        if (reason := refusal(part, base)) is not None:
            raise PeerError(f"part {i} of {len(parts)} cannot be merged: {reason}")
    _check_alike([part for part, _ in parts], base)
    shares = _shares([weight for _, weight in parts])
    paths = _union(base.tables, [part.tables for part, _ in parts])
    exports = [part for part, _ in parts]
    return Exported(base.model, {path: _merged(path, exports, shares, base) for path in paths})


def refusal(part: Exported, base: Exported) -> str | None:
    """Return why an export cannot come from a client that began at the base, or None if it can.

    >>> base = Exported("GaussianNB", {"GaussianNB.classes": ExportedTable.column("sum", "count", {"up": 3})})
    >>> refusal(Exported("GaussianNB", {"GaussianNB.classes": ExportedTable.column("sum", "count", {"up": 2})}), base)
    'GaussianNB.classes has counted less than the base'
    """
    if part.model != base.model:
        return f"it is of {part.model}, not of {base.model}"
    if lost := set(base.tables) - set(part.tables):
        return f"it has no {min(lost)}"
    for path, table in part.tables.items():
        if (reason := _table_refusal(table, base.tables.get(path))) is not None:
            return f"{path} {reason}"
    return None


def _table_refusal(table: ExportedTable, base: ExportedTable | None) -> str | None:
    if base is not None and not table.is_like(base):
        return "is merged by another rule than in the base, or has other columns"
    if table.rule == "moments" and table.columns not in MOMENTS:
        return f"has columns that are not moments: {', '.join(table.columns)}"
    if not np.isfinite(table.values).all():
        return "has values that are not finite"
    if table.rule in ADDED and ((table.values < 0.0) & (np.array(table.columns) != "mean")).any():
        return "has a negative count or spread"
    if base is not None and _counted_less(table, base):
        return "has counted less than the base"
    try:
        keys_of(_union(base.rows if base else (), [table.rows]))
        keys_of(_union(base.columns if base else (), [table.columns]))
    except PeerError as error:
        return f"has a name that cannot be used: {error}"
    return None


def _check_alike(parts: Sequence[Exported], base: Exported) -> None:
    """Check that a table which the base lacks has the same rule and columns in all parts."""
    known = dict(base.tables)
    for i, part in enumerate(parts):
        for path, table in part.tables.items():
            if not table.is_like(known.setdefault(path, table)):
                raise PeerError(
                    f"part {i} of {len(parts)} cannot be merged: {path} is another table than in earlier parts"
                )


def _counted_less(table: ExportedTable, base: ExportedTable) -> bool:
    """Tell whether a count is smaller than in the base."""
    if table.rule not in ADDED:
        return False
    columns = base.columns if table.rule == "sum" else base.columns[:1]
    return bool((table.aligned(base.rows, columns) < base.aligned(base.rows, columns)).any())


def _shares(weights: list[float]) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights] if total > 0.0 else []


def _union(first: Iterable[str], others: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return the first names in their order, then all new ones, sorted, so that the order of parts does not matter.

    >>> _union(("z", "b"), [("c",), ("a", "b")])
    ('z', 'b', 'a', 'c')
    """
    known = tuple(first)
    return (*known, *sorted({name for other in others for name in other} - set(known)))


def _merged(path: str, parts: Sequence[Exported], shares: Sequence[float], base: Exported) -> ExportedTable:
    first = base.tables.get(path) or _empty(next(part.tables[path] for part in parts if path in part.tables))
    tables = [part.tables.get(path, _empty(first)) for part in parts]
    rows = _union(first.rows, [table.rows for table in tables])
    columns = first.columns if first.rule in FIXED else _union(first.columns, [table.columns for table in tables])
    for texts in (rows, columns):
        keys_of(texts)  # parts may be valid alone and still write one key in two ways
    before, after = first.aligned(rows, columns), [table.aligned(rows, columns) for table in tables]
    return ExportedTable(first.rule, rows, columns, _combined(first.rule, columns, after, shares, before))


def _empty(table: ExportedTable) -> ExportedTable:
    columns = table.columns if table.rule in FIXED else ()
    return ExportedTable(table.rule, (), columns, np.zeros((0, len(columns))))


def _combined(
    rule: Rule, columns: tuple[str, ...], parts: Sequence[FloatArray], shares: Sequence[float], base: FloatArray
) -> FloatArray:
    match rule:
        case "mean":
            weighted = [share * part for share, part in zip(shares, parts, strict=True)] if shares else [base]
            return sum(weighted, np.zeros_like(base))
        case "sum":
            return added(parts, base)
        case "moments":
            return pooled(columns, parts, base)
        case "least":
            return np.asarray(np.minimum.reduce([base, *parts]))
        case "most":
            return np.asarray(np.maximum.reduce([base, *parts]))
