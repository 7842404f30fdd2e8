"""Every error streamfl raises, by whose fault it is.

StreamflError
├── UsageError          the caller: a file, a flag or a setting that cannot be used
├── PeerError           the other side of a link: a message that does not fit, an unknown version
│   └── TakenOverError  another process has taken over from this one
└── BrokenInvariantError  streamfl itself: please report it with its transcript
"""

from collections.abc import Iterable
from difflib import get_close_matches

# The characters of a name that are compared with known ones, which takes the square of their number.
LONGEST = 100


class StreamflError(Exception):
    """The root of all errors that streamfl raises on purpose."""


class UsageError(StreamflError):
    """The request cannot be carried out; the message names the place and the remedy. Exit code 2."""


class PeerError(StreamflError):
    """A message from the other side cannot be used; it is refused, counted and never trained on."""


class TakenOverError(PeerError):
    """Another process of the same name or role has taken over: nothing that this one writes counts any more."""


class BrokenInvariantError(StreamflError):
    """An invariant does not hold: a defect of streamfl, never of its user."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that suggests the closest known name; empty if none is close.

    >>> did_you_mean("siez", ["size", "quorum"]), did_you_mean("colour", ["size", "quorum"])
    ('; did you mean size?', '')
    """
    close = get_close_matches(name[:LONGEST], list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
