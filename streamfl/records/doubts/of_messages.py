"""What looks wrong in the fields of messages, by the rules that hold for the columns of a file. It is only reported.

A process that reads messages drops nothing because of it: what a message means must not depend on those around it, or
a kill would change what is learnt.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.records.doubts.of_tables import (
    CONSTANT,
    COUNTER,
    FEWEST,
    IDENTIFIER,
    RATE,
    SAYS_NOTHING,
    TREND,
    Code,
    codes,
    codes_by_column,
    goes_one_way,
    is_constant,
    is_whole,
    mostly_goes_one_way,
    names_records,
)
from streamfl.records.values.cells import listed
from streamfl.records.values.missing import kept

# Of a field with one value that some messages lack.
SELDOM = f"has one value, and none in some records: {SAYS_NOTHING}"


class Doubts(NamedTuple):
    """What looks wrong in some records."""

    codes: dict[str, list[Code]]  # by field, numbers that probably stand for a missing value
    of_target: list[Code]  # such numbers among the targets
    counters: list[str]  # fields of whole numbers that only rise, or only fall
    others: dict[str, list[str]]  # what else is doubted, with the fields that it is true of

    def new(self, known: set[tuple[str, object]]) -> "Doubts":
        """Return what is not among the known doubts, and add it to them.

        >>> known = set()
        >>> found = Doubts({"t": [Code(-999.0, 0.1, True)]}, [], ["no"], {})
        >>> [len(list(found.new(known).notes())) for _ in range(2)]
        [2, 0]
        """

        def added(name: str, what: object) -> bool:
            is_new = (name, what) not in known
            known.add((name, what))
            return is_new

        return Doubts(
            {name: [code for code in some if added(name, code.value)] for name, some in self.codes.items()},
            [code for code in self.of_target if added("", code.value)],
            [name for name in self.counters if added(name, COUNTER)],
            {what: [name for name in names if added(name, what)] for what, names in self.others.items()},
        )

    def notes(self, written: Collection[float] = ()) -> Iterator[str]:
        """Yield a sentence for each code and each other doubt; the settings have the codes that are `written`."""
        for value in dict.fromkeys(code.value for some in self.codes.values() for code in some):
            at = [(name, code) for name, some in self.codes.items() for code in some if code.value == value]
            shares = listed([f"{name} ({code.of_records})" for name, code in at])
            what = f"{shares}: {value:.10g} repeats far outside the other values"
            if value in written:
                yield f"{what} and counts as missing; if it is a measurement, take it out of missing_values"
            else:
                yield f"{what}; if it stands for a missing value, add it to missing_values in [records]"
        for code in self.of_target:
            yield (
                f"the target is {code.value:.10g} in {code.share:.1%} of the records, far outside the others; if it "
                "is not a measurement, add it to missing_values in [records]"
            )
        if self.counters:
            each, it = ("each ", "them") if len(self.counters) > 1 else ("", "it")
            yield f"{listed(self.counters)}: {each}{COUNTER}; leave {it} out with drop in [records.fields]; {RATE}"
        for what, names in self.others.items():
            if names:
                each, it = ("each ", "them") if len(names) > 1 else ("", "it")
                yield f"{listed(names)}: {each}{what}; drop in [records.fields] leaves {it} out if of no use"

    def usual(self, features: Sequence[str], X: FloatArray) -> list[float]:
        """Return the usual codes that no field has as a value among others."""
        usual = dict.fromkeys(code.value for some in self.codes.values() for code in some if code.is_usual)
        others = {
            value: [j for j, name in enumerate(features) if value not in {c.value for c in self.codes.get(name, ())}]
            for value in usual
        }
        return [value for value in usual if not (X[:, others[value]] == value).any()]


def doubts(
    features: Sequence[str],
    X: FloatArray,
    targets: FloatArray | None = None,
    clients: Sequence[str] = (),
    *,
    missing_values: Sequence[str] = (),
    hot: Collection[str] = (),
) -> Doubts:
    """Return what looks wrong in consecutive records.

    Parameters
    ----------
    features, X
        Names and values, shape (n, d).
    targets
        Shape (n,); None in classification.
    clients
        Whose each record is; empty: all of one client.
    missing_values
        What the settings say; `not:-999` means that -999 is a measurement.
    hot
        Features that are values of texts, at which nothing is looked.

    >>> X = np.column_stack([np.where(np.arange(60) % 6, 20.0 + np.arange(60) % 7, -999.0), np.arange(60)])
    >>> found = doubts(("t", "no"), X)
    >>> found.counters, next(found.notes())
    (['no'], 't (16.7% of records): -999 repeats far outside the other values; if it stands for a missing value, ...')
    """
    if len(X) < FEWEST:
        return Doubts({}, [], [], {})
    places, values = [j for j, name in enumerate(features) if name not in hot], kept(missing_values)
    found = codes_by_column(X, places, values)
    owners = np.unique(clients, return_inverse=True)[1] if clients else None
    counters = [features[j] for j in places if is_whole(X[:, j]) and mostly_goes_one_way(X[:, j], owners)]
    constant = [j for j in places if is_constant(X[:, j])]
    others = {
        TREND: [features[j] for j in places if features[j] not in counters and goes_one_way(X[:, j], owners)],
        CONSTANT: [features[j] for j in constant if not np.isnan(X[:, j]).any()],
        SELDOM: [features[j] for j in constant if np.isnan(X[:, j]).any()],
        IDENTIFIER: [features[j] for j in places if names_records(X[:, j]) and features[j] not in counters],
    }
    return Doubts(
        {features[j]: some for j, some in found.items() if some and features[j] not in counters},
        [] if targets is None else list(codes(targets, values)),
        counters if len(counters) < len(places) else [],
        others,
    )
