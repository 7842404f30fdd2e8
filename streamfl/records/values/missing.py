"""Which cells are missing values: one definition for features, texts, labels and targets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from streamfl.errors import UsageError

# As written by pandas, R, spreadsheets, databases, C and loggers, and in the UCI repository; in any case.
WORDS = frozenset(
    (
        *("", "nan", "-nan", "+nan", "na", "n/a", "n.a.", "#n/a", "#na", "<na>", "nat", "null", "(null)", "<null>"),
        *("none", "nil", "no data", "nodata", "no_data", "no-data", "missing", "?", "??", ".", "-", "--", "---"),
        *("----", "–", "—", "\\n", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"),
        *("#wert!", "#bezug!", "#zahl!", "#nv"),  # of spreadsheets in German
        *("nan(ind)", "-nan(ind)", "nan(snan)", "-nan(snan)", "1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind", "1.#snan"),
    )
)
NOT = "not:"


@dataclass(frozen=True, slots=True)
class Missing:
    """What counts as missing, besides None and NaN.

    Examples
    --------
    >>> missing = Missing.of(["-999", "not:NA", "broken"])
    >>> "na" in missing.words, "broken" in missing.words, missing.numbers
    (False, True, frozenset({-999.0}))
    """

    words: frozenset[str] = WORDS  # texts, without surrounding blanks and in lower case
    numbers: frozenset[float] = frozenset()  # numbers, however they are written

    @classmethod
    def of(cls, changes: Sequence[str]) -> "Missing":
        """Return the usual missing values with some more; `not:NA` means that NA is a value.

        Raises
        ------
        UsageError
            A change is empty, or takes away what is not there.
        """
        words, numbers = set(WORDS), set[float]()
        for change in (one.strip() for one in changes):
            word = change.removeprefix(NOT).strip().lower()
            if not word:
                raise UsageError("a missing value has no text; an empty cell is always missing, so leave it out")
            if not change.startswith(NOT):
                words.add(word)
                numbers |= _numbers(word)
            else:
                words.discard(word)
        return cls(frozenset(words), frozenset(numbers))


USUAL = Missing()


def kept(changes: Sequence[str]) -> frozenset[float]:
    """Return the numbers that are values although they look like a code for a missing one.

    >>> kept(["not:-999", "not:NA", "-1"])
    frozenset({-999.0})
    """
    found = set[float]()
    for change in changes:
        if change.strip().startswith(NOT):
            found |= _numbers(change.strip().removeprefix(NOT))
    return frozenset(found)


def _numbers(word: str) -> set[float]:
    try:
        value = float(word)
    except ValueError:
        return set()
    return set() if math.isnan(value) else {value}
