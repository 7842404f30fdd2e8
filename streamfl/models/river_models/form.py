"""How the state of one River class is told, and set again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from streamfl.core.protocol.external.tables import ExportedTable

Merging = Literal["nothing", "mean", "sum"]
Tables = Mapping[str, ExportedTable]


def _nothing_told(_: Any) -> Tables:
    return {}


def _nothing_set(_: Any, __: Tables) -> None:
    pass


def _no_obstacle(_: Any) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Form:
    """What is federated of one River class; exactly of this class, for a subclass may keep more.

    Parameters
    ----------
    merging
        `mean`: it is averaged; `sum`: counts, moments and extremes are added up; `nothing`: it learns nothing.
    tables
        From an estimator to its tables, by name.
    restore
        Puts tables into an estimator, in place of all that they tell of.
    obstacle
        Why an estimator with these parameters cannot be federated, and what to take instead; None if it can.
    """

    merging: Merging = "nothing"
    tables: Callable[[Any], Tables] = _nothing_told
    restore: Callable[[Any, Tables], None] = _nothing_set
    obstacle: Callable[[Any], str | None] = _no_obstacle
