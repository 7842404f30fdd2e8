"""How the state of a River class is exported and restored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from streamfl.protocol.external.tables import ExportedTable

Merging = Literal["nothing", "mean", "sum"]
Tables = Mapping[str, ExportedTable]


def _no_tables(_: Any) -> Tables:
    return {}


def _restore_nothing(_: Any, __: Tables) -> None:
    pass


def _no_obstacle(_: Any) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Form:
    """How a River class is federated; only the class itself, because a subclass may have more state."""

    # `mean`: its weights are averaged. `sum`: its counts and moments are added, its extremes are taken. `nothing`: it
    # learns nothing.
    merging: Merging = "nothing"
    tables: Callable[[Any], Tables] = _no_tables  # returns the tables of an estimator, by name
    restore: Callable[[Any, Tables], None] = _restore_nothing  # replaces the state of an estimator by tables
    # Returns why an estimator with these parameters cannot be federated, and what to take instead; None if it can.
    obstacle: Callable[[Any], str | None] = _no_obstacle
