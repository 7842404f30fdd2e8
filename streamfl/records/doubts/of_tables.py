"""Looks over the columns of a table: codes that stand for a missing value, counters, constants, duplicates."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from streamfl.arrays import FloatArray, IntArray, Numbers
from streamfl.records.request import Request
from streamfl.records.table import Table, Texts
from streamfl.records.values.cells import listed
from streamfl.records.values.missing import NOT

FEWEST = 50  # records by which a column is judged
LOOKED_AT = 1000  # records by which most columns are found to be in order
# A code repeats in this share of the records, and at least so often. In more than half of them it is the usual value.
LEAST_SHARE, LEAST, MOST_SHARE = 0.001, 3, 0.5
# How many times the spread of the other values a code lies outside them: a number that is written like a code; a
# negative number where no other is negative; any other number, which is only reported; one that nothing measures.
FAR, BELOW_ZERO, VERY_FAR, ABSURD = 1.0, 5.0, 10.0, 1e6
# The share of messages that may come late or twice, and still a field is a counter:
# docs/choices.md, "What init takes from messages".
STRAYS = 0.05
# The ends of whole numbers of 16, 32 and 64 bits, as float64.
LIMITS = frozenset(limit for k in (15, 16, 31, 32, 63, 64) for limit in (-(2.0**k), 2.0**k - 1.0))

COUNTER = "has whole numbers that rise, or fall, from record to record, as a counter does"
TREND = "only rises, or only falls, from record to record, as the reading of a meter does, or a slow trend"
CONSTANT = "has one value in all records"
SAYS_NOTHING = "a missing value counts as the mean, so the column says nothing"
FILL = "if it matters that a cell is empty, write another value there, such as no"
EMPTY = "has no value in any record"
IDENTIFIER = "has another whole number in each record, as an identifier has"
RATE = "if it matters how fast, add a column with the difference from the record before"


class Code(NamedTuple):
    """A number that probably stands for a missing value, and in what share of the records."""

    value: float
    share: float
    is_usual: bool

    @property
    def of_records(self) -> str:
        """Return its share as text.

        >>> Code(-999.0, 0.113, True).of_records, Code(-999.0, 0.0003, True).of_records
        ('11.3% of records', '0.030% of records')
        """
        return f"{self.share:{'.1%' if self.share >= LEAST_SHARE else '.3%'}} of records"


def looked_over(request: Request, table: Table) -> Table:
    """Return a table whose codes are missing values and whose counters are left out, with a note on each doubt."""
    table = replace(table, missing_values=request.missing_values)
    if len(table) < FEWEST:
        return table
    table, notes = _without_codes(request, table), list[str]()
    numbers = _numbers(table)
    owners = None if request.keep is None else table.columns[request.keep]
    one_way = [j for j in numbers if goes_one_way(table.X[:, j], owners)]
    counters = [j for j in one_way if is_whole(table.X[:, j])]
    trends = [table.features[j] for j in one_way if j not in counters]
    if trends:
        notes.append(_note(trends, f"{TREND}; it is kept; --drop {shlex.quote(','.join(trends))} leaves it out"))
    if counters and len(counters) < len(table.features):
        notes.append(_note([table.features[j] for j in counters], f"{COUNTER}, and is left out; {RATE}"))
        stay = [j for j in range(len(table.features)) if j not in set(counters)]
        table = replace(
            table,
            features=tuple(table.features[j] for j in stay),
            X=table.X[:, stay],
            left_out=(*table.left_out, *(table.features[j] for j in counters)),
        )
        numbers = _numbers(table)
    empty = [j for j in numbers if is_empty(table.X[:, j])]
    if empty:
        notes.append(_note([table.features[j] for j in empty], EMPTY))
    constant = [j for j in numbers if is_constant(table.X[:, j])]
    one_value = {table.features[j]: table.X[:, j] for j in constant} | dict(_constant_texts(table))
    missing = {name: int(np.isnan(column).sum()) for name, column in one_value.items()}
    same = [name for name, n in missing.items() if not n]
    if same:
        notes.append(_note(same, CONSTANT))
    if seldom := {name: n for name, n in missing.items() if n}:
        notes.append(_note([*seldom], _one_or_none([*seldom.values()], len(table))))
    names = [j for j in numbers if names_records(table.X[:, j])]
    if names:
        notes.append(_note([table.features[j] for j in names], IDENTIFIER))
    notes.extend(
        f"column {listed([table.features[j]])} equals column {listed([table.features[first]])}"
        for first, j in _twins(table.X, [j for j in numbers if j not in {*constant, *empty}])
    )
    if notes:
        drop = [*(table.features[j] for j in empty), *same, *(table.features[j] for j in names)]
        remedy = f"; leave columns of no use out with --drop {shlex.quote(','.join(drop))}" if drop else ""
        return replace(table, notes=(*table.notes, f"{'; '.join(notes)}{remedy}"))
    return table


def _numbers(table: Table) -> list[int]:
    hot = {f"{column}={value}" for column, values in table.categories.items() for value in values}
    return [j for j, name in enumerate(table.features) if name not in hot]


def _constant_texts(table: Table) -> Iterator[tuple[str, Numbers]]:
    """Yield the columns of texts with one value, with their feature."""
    for column, values in table.categories.items():
        if len(values) == 1:
            feature = table.X[:, table.features.index(f"{column}={values[0]}")]
            if is_constant(feature):
                yield column, feature


def _one_or_none(missing: Sequence[int], records: int) -> str:
    """Return what is said of columns with one value that many records lack.

    >>> _one_or_none([159], 160)[:46], _one_or_none([3, 159, 8], 160)[:51]
    ('has one value, and none in 159 of 160 records:', 'has one value, and none in 3 to 159 of 160 records:')
    """
    few, many = min(missing), max(missing)
    share = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    return f"has one value, and none in {share} of {records:,} records: {SAYS_NOTHING}; {FILL}"


def _note(names: Sequence[str], what: str) -> str:
    return f"column {listed(names)} {what}" if len(names) == 1 else f"columns {listed(names)}: each {what}"


def _without_codes(request: Request, table: Table) -> Table:
    notes = []
    if not table.labels and (code := next(codes(table.y, request.values_kept), None)):
        shown = f"{code.value:.10g}"
        notes.append(
            f"the target {listed([table.label])} is {shown} in {code.share:.1%} of the records, far outside the "
            f"others, and is probably no measurement: leave these records out with --missing-values {shown}, or add "
            f"--missing-values {NOT}{shown} if it is one"
        )
    found = codes_by_column(table.X, _numbers(table), request.values_kept)
    usual = {code.value for some in found.values() for code in some if code.is_usual}
    X, missing = table.X, dict[str, tuple[float, ...]]()
    for value in dict.fromkeys(code.value for some in found.values() for code in some):
        at = {j: code for j, some in found.items() for code in some if code.value == value}
        shares = ", ".join(f"{listed([table.features[j]])} ({code.of_records})" for j, code in at.items())
        shown, of = f"{value:.10g}", "column" if len(at) == 1 else "columns"
        if value not in usual:
            notes.append(
                f"{of} {shares}: {shown} repeats far outside the other values; if it stands for a missing value, add "
                f"--missing-values {shown}"
            )
            continue
        X = X if X.dtype.kind == "f" else X.astype(np.float64)
        for j in at:
            X[X[:, j] == value, j] = np.nan
            missing[table.features[j]] = (*missing.get(table.features[j], ()), value)
        notes.append(
            f"{of} {shares}: {shown} repeats far outside the other values and counts as missing; if it is a "
            f"measurement, add --missing-values {NOT}{shown}"
        )
    return replace(table, X=X, notes=(*table.notes, *notes), codes=missing) if notes else table


def codes_by_column(X: Numbers, places: Sequence[int], kept: frozenset[float]) -> dict[int, list[Code]]:
    """Return the codes of each column; a usual one is one of all columns outside whose values it lies.

    A usual code that is rare in each column is found if it repeats in all of them together.

    >>> X = np.column_stack([np.linspace(0, 9, 5000), np.linspace(5, 6, 5000), np.linspace(7, 8, 5000)])
    >>> X[[7, 80, 900], [0, 1, 1]] = -9999.0
    >>> {j: [code.value for code in some] for j, some in codes_by_column(X, range(3), frozenset()).items()}
    {0: [-9999.0], 1: [-9999.0], 2: []}
    """
    found = {j: list[Code]() for j in places}
    suspects = [*_suspects(X, places)]
    found |= {j: list(codes(X[:, j], kept)) for j in suspects}
    for j, code in _codes_of_several(X, suspects, kept):
        if code.value not in {one.value for one in found[j]}:
            found[j].append(code)
    usual = {code.value for some in found.values() for code in some if code.is_usual}
    for j in found if usual else ():
        have = {code.value for code in found[j]}
        found[j] += list(_repeated_ends(X[:, j], usual - have))
    return found


def _codes_of_several(X: Numbers, suspects: Sequence[int], kept: frozenset[float]) -> Iterator[tuple[int, Code]]:
    """Yield ends of columns that are written like codes, lie very far outside, and repeat over the columns."""
    places: dict[float, list[tuple[int, int]]] = {}
    for j in suspects if len(X) >= FEWEST else ():
        column = X[np.isfinite(X[:, j]), j].astype(np.float64, copy=False)
        for end in {float(column.min()), float(column.max())} if len(column) else ():
            if is_code(end) and end not in kept and _is_outside(end, column[column != end], (0.0, 1.0), VERY_FAR):
                places.setdefault(end, []).append((j, int((column == end).sum())))
    for value, some in places.items():
        if sum(times for _, times in some) >= LEAST:
            yield from ((j, Code(value, times / len(X), is_usual=True)) for j, times in some)


def _suspects(X: Numbers, places: Sequence[int]) -> Iterator[int]:
    """Yield the columns whose least or greatest number may be a code, without a look at each column of its own."""
    sample = X[:: max(1, len(X) // LOOKED_AT)].astype(np.float64)
    least, greatest = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
    for j in places:
        others = sample[np.isfinite(sample[:, j]), j]
        if any(_may_be_code(end, others) for end in (float(least[j]), float(greatest[j]))):
            yield j


def _may_be_code(end: float, sample: FloatArray) -> bool:
    others = sample[sample != end]
    return _is_outside(end, others, (0.1, 0.9), _needed(end, others))


def _needed(end: float, others: FloatArray) -> float:
    """Return how many spreads a number has to lie outside the others in order to be a code."""
    if is_code(end):
        return FAR
    return BELOW_ZERO if end < 0.0 and len(others) and others.min() >= 0.0 else VERY_FAR


def codes(column: Numbers, kept: frozenset[float] = frozenset()) -> Iterator[Code]:
    """Yield the numbers of a column that repeat far outside all others: they probably stand for missing values.

    >>> values = np.append(np.linspace(-20, 40, 95), [-999.0] * 5)
    >>> list(codes(values)), list(codes(values, frozenset({-999.0})))
    ([Code(value=-999.0, share=0.05, is_usual=True)], [])
    """
    left = column[np.isfinite(column)].astype(np.float64, copy=False)
    for _ in range(4):
        if len(left) < FEWEST:
            return
        code = next(
            (code for end in (left.min(), left.max()) if (code := _code(left, float(end), len(column)))), None
        )
        if code is None:
            return
        if code.value not in kept:
            yield code
        left = left[left != code.value]


def _code(left: FloatArray, end: float, n: int) -> Code | None:
    if not _may_be_code(end, left[:: max(1, len(left) // LOOKED_AT)]):  # the common case, found by few values
        return None
    others = left[left != end]
    found = len(left) - len(others)
    if found < max(LEAST, LEAST_SHARE * n) or len(np.unique(others)) < LEAST:
        return None
    if found > MOST_SHARE * len(left) and not (is_code(end) and len(others) >= FEWEST):
        return None
    needed = _needed(end, others)
    if not _is_outside(end, others, (0.01, 0.99), needed):
        return None
    usual = needed < VERY_FAR or _is_outside(end, others, (0.01, 0.99), ABSURD)
    return Code(end, found / n, usual)


def _is_outside(end: float, others: FloatArray, within: tuple[float, float], times: float) -> bool:
    if not len(others):
        return False
    low, high = np.quantile(others, within)
    if low == high and not is_code(end):  # nearly all are equal: any other number would lie far outside
        return False
    return bool(max(low - end, end - high) > times * (high - low))


def _repeated_ends(column: Numbers, values: set[float]) -> Iterator[Code]:
    left = column[np.isfinite(column)]
    for value in values:
        times = int((left == value).sum())
        others = left[left != value]
        repeats = times >= LEAST or (times > 0 and _is_outside(value, others, (0.0, 1.0), FAR))
        if repeats and len(others) and not others.min() < value < others.max():
            yield Code(value, times / len(column), is_usual=True)


def is_code(value: float) -> bool:
    """Return whether a number is written like a code: nines, one digit four times, or an end of whole numbers.

    Nines are two or more; below zero, zeros may follow them.

    >>> [is_code(value) for value in (-999.0, 9999.0, -99.9, -9900.0, 7777.0, 65535.0)]
    [True, True, True, True, True, True]
    >>> [is_code(value) for value in (-200.0, -9.0, 990.0, 777.0, 0.0)]
    [False, False, False, False, False]
    """
    digits = f"{abs(value):.10g}".replace(".", "")
    nines = digits.rstrip("0") if value < 0.0 else digits
    same = len(set(digits)) == 1 and len(digits) >= 4
    return value in LIMITS or same or (len(nines) > 1 and set(nines) == {"9"})


def is_whole(column: Numbers) -> bool:
    """Return whether all numbers of a column are whole."""
    known = column[np.isfinite(column)]
    return bool((known == np.round(known)).all())


def goes_one_way(column: Numbers, owners: Texts | IntArray | None = None) -> bool:
    """Return whether a column of so many records only rises, or only falls; with `owners`, within those of each.

    >>> goes_one_way(np.arange(60.0)), goes_one_way(np.arange(60.0) % 50), goes_one_way(np.arange(5.0))
    (True, False, False)
    """
    if owners is None:
        return _rises(column[:LOOKED_AT]) and _rises(column)
    order = np.argsort(owners, kind="stable")
    steps = np.diff(column[order])[owners[order][1:] == owners[order][:-1]]
    return _are_one_way(steps[np.isfinite(steps)])


def mostly_goes_one_way(column: Numbers, owners: Texts | IntArray | None = None) -> bool:
    """Return the same of numbers of messages, a few of which come late or twice.

    Nearly all are then no less than all before them, and most are greater; or the other way round.

    >>> late = np.arange(200.0)
    >>> late[[50, 120]] = 20.0, 90.0
    >>> goes_one_way(late), mostly_goes_one_way(late), mostly_goes_one_way(np.arange(200.0) % 50)
    (False, True, False)
    """
    series = [column] if owners is None else [column[owners == owner] for owner in np.unique(owners)]
    series = [one[np.isfinite(one)] for one in series]
    return any(_mostly_rises([sign * one for one in series]) for sign in (1.0, -1.0))


def _mostly_rises(series: Sequence[Numbers]) -> bool:
    steps = sum(max(0, len(one) - 1) for one in series)
    highest = [(one[1:], np.maximum.accumulate(one)[:-1]) for one in series]
    above = sum(int((values > before).sum()) for values, before in highest)
    below = sum(int((values < before).sum()) for values, before in highest)
    return steps >= FEWEST - 1 and above > steps / 2 and below <= STRAYS * steps


def _rises(column: Numbers) -> bool:
    return _are_one_way(np.diff(column[np.isfinite(column)]))


def _are_one_way(steps: Numbers) -> bool:
    return len(steps) >= FEWEST - 1 and _is_monotone(steps)


def _is_monotone(steps: Numbers) -> bool:
    up, down = int((steps > 0).sum()), int((steps < 0).sum())
    return max(up, down) > len(steps) / 2 and not min(up, down)


def is_empty(column: Numbers) -> bool:
    """Return whether a column has no value."""
    return bool(np.isnan(column[:LOOKED_AT]).all() and np.isnan(column).all())


def is_constant(column: Numbers) -> bool:
    """Return whether a column has one value, except where it is missing."""
    first = column[:LOOKED_AT]
    if first.min() != first.max():  # one of them may be NaN
        known = first[~np.isnan(first)]
        if not len(known) or known.min() != known.max():
            return False
    known = column[~np.isnan(column)]
    return len(known) > 0 and bool(known.min() == known.max())


def names_records(column: Numbers) -> bool:
    """Return whether all values are whole numbers, and all differ."""
    return len(column) >= LOOKED_AT and _all_differ(column[:LOOKED_AT]) and _all_differ(column)


def _all_differ(column: Numbers) -> bool:
    return bool((column == np.round(column)).all()) and len(np.unique(column)) == len(column)


def _twins(X: Numbers, places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of equal columns."""
    first = dict[bytes, int]()
    for j in places:
        other = first.setdefault(np.ascontiguousarray(X[:LOOKED_AT, j]).tobytes(), j)
        if other != j and np.array_equal(X[:, other], X[:, j], equal_nan=X.dtype.kind == "f"):
            yield other, j
