"""Where a saved model comes from, and what it was worth there."""

import json
from dataclasses import dataclass
from typing import Literal

from streamfl.run.settings import LearningSettings, ProfileSettings


@dataclass(frozen=True)
class Provenance:
    """Where a model comes from, and what it was worth there."""

    version: str  # the version of streamfl
    source: str  # the federation, or the file
    # The last entry of the ledger, and its epoch.
    entry: int
    epoch: int
    # What it has learnt from.
    records: int
    clients: int
    rounds: int
    sha256: str  # the `model_sha256` of the run
    settings: str  # how it was learnt, as JSON
    measure: Literal["accuracy", "mae"]  # `accuracy`, or `mae` for targets

    # That measure on the last rounds: of this file, as it was before each round; and of what clients served. None if
    # it was not measured, as in live federations.
    file: float | None
    served: float | None

    # The bytes a record that clients sent and that the coordinator published, and those of its features as floats of
    # 32 bits; 0 where none were counted.
    up: float = 0.0
    down: float = 0.0
    raw: float = 0.0

    # How what clients send is protected from the coordinator. `none`: it sees the sums and differences of each
    # client. `masked`: only their totals over clients; `pooled`: the same without masks, to compare with.
    privacy: Literal["none", "pooled", "masked"] = "none"
    # What noise on the totals promises to each record; None: there is none.
    epsilon: float | None = None
    delta: float | None = None


def settings_told(learning: LearningSettings, profile: ProfileSettings, **others: object) -> str:
    """Return the settings of a run as `Provenance.settings`."""
    models = (("learning", learning), ("profile", profile))
    return json.dumps({**others, **{name: model.model_dump(mode="json", fallback=str) for name, model in models}})
