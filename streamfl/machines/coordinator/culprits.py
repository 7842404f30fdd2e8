"""Finding the parts that make an operation on all parts raise."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from streamfl.errors import BrokenInvariantError

Part = TypeVar("Part")
Result = TypeVar("Result")

# Parts, each with its error.
Culprits = list[tuple[Part, Exception]]


def without_culprits(
    parts: Sequence[Part], attempt: Callable[[list[Part], Culprits[Part]], Result]
) -> tuple[Result, Culprits[Part]]:
    """Return the result of an attempt without the parts that make it raise, and those parts.

    A culprit is the last part of the shortest prefix that raises. It is left out, and the search is repeated.

    Parameters
    ----------
    parts
        In an order that does not depend on when they arrived.
    attempt
        Called with some parts, in order, and the culprits so far; it starts from the same state every time.

    Raises
    ------
    Exception
        What the attempt raises without any part: no part is at fault.
    BrokenInvariantError
        Raised by the attempt.

    Examples
    --------
    >>> left, culprits = without_culprits([1, 0, 2, 0], lambda parts, _: [12 // part for part in parts])
    >>> left, [(part, str(error)) for part, error in culprits]
    ([12, 6], [(0, 'integer division or modulo by zero'), (0, 'integer division or modulo by zero')])
    """
    left: list[Part] = list(parts)
    culprits: Culprits[Part] = []
    while True:
        try:
            return attempt(left, culprits), culprits
        except BrokenInvariantError:
            raise
        except Exception as error:  # anything that the numbers in a message make raise
            if not culprits:
                attempt([], culprits)  # if this raises too, no part is at fault
            culprits.append((left.pop(_shortest_that_raises(left, attempt, culprits) - 1), error))


def _shortest_that_raises(
    parts: list[Part], attempt: Callable[[list[Part], Culprits[Part]], object], culprits: Culprits[Part]
) -> int:
    """Return the length of a prefix that raises, but not without its last part; all parts together raise."""
    good, bad = 0, len(parts)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            attempt(parts[:middle], culprits)
        except BrokenInvariantError:
            raise
        except Exception:  # the error reported is that of all parts
            bad = middle
        else:
            good = middle
    return bad
