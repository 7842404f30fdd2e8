"""Which of several parts make something raise that is done with all of them."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from streamfl.core.errors import BrokenInvariantError

Part = TypeVar("Part")
Result = TypeVar("Result")

# What is wrong, by part.
Culprits = list[tuple[Part, Exception]]


def without_culprits(
    parts: Sequence[Part], attempt: Callable[[list[Part], Culprits[Part]], Result]
) -> tuple[Result, Culprits[Part]]:
    """Return the result of an attempt with all parts but those that make it raise, and these.

    A culprit is the last part of a shortest prefix that raises; it is left out, and so on.

    Parameters
    ----------
    parts
        In an order that does not depend on when they came.
    attempt
        Called with some parts, in order, and the culprits so far; it begins from the same state every time.

    Raises
    ------
    Exception
        What the attempt raises with no part at all: it is nobody's fault.
    BrokenInvariantError
        What the attempt raises.

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
        except Exception as error:  # whatever the numbers in a message make raise
            if not culprits:
                attempt([], culprits)  # if this raises too, it is nobody's fault
            culprits.append((left.pop(_shortest_that_raises(left, attempt, culprits) - 1), error))


def _shortest_that_raises(
    parts: list[Part], attempt: Callable[[list[Part], Culprits[Part]], object], culprits: Culprits[Part]
) -> int:
    """Return the length of a prefix that raises, though without its last part it does not; all parts do."""
    good, bad = 0, len(parts)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            attempt(parts[:middle], culprits)
        except BrokenInvariantError:
            raise
        except Exception:  # the error that is told is that of all parts
            bad = middle
        else:
            good = middle
    return bad
