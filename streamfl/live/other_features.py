"""Whether the records of a client have other features than the federation has learnt from so far."""

from collections.abc import Collection
from typing import NamedTuple


class OtherFeatures(NamedTuple):
    """The columns that only a client has, and those that it lacks."""

    unknown: tuple[str, ...]
    lacking: tuple[str, ...]


def other_features(own: Collection[str], agreed: Collection[str]) -> OtherFeatures | None:
    """Return what differs, if that is half of the client's columns or of the federation's; else None.

    Values of a text, `colour=red`, are one column.

    >>> other_features(["t", "p", "colour=red"], ["temperature", "p", "colour=blue"])
    >>> other_features(["t", "p"], ["temperature", "p"])
    OtherFeatures(unknown=('t',), lacking=('temperature',))
    """
    here, there = ({name.partition("=")[0]: None for name in names} for names in (own, agreed))
    unknown, lacking = (tuple(name for name in a if name not in b) for a, b in ((here, there), (there, here)))
    differs = 2 * len(unknown) >= len(here) or 2 * len(lacking) >= len(there)
    return OtherFeatures(unknown, lacking) if here and there and differs else None
