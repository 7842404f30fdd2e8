"""Where a saved model comes from, and what it was worth there."""

import json
from dataclasses import dataclass
from typing import Literal

from streamfl.run.settings import LearningSettings, ProfileSettings


@dataclass(frozen=True)
class Provenance:
    """Where a model comes from, and what it was worth there.

    Parameters
    ----------
    version
        The version of streamfl.
    source
        The federation, or the file.
    entry, epoch
        The last entry of the ledger, and its epoch.
    records, clients, rounds
        What it has learnt from.
    sha256
        The `model_sha256` of the run.
    settings
        How it was learnt, as JSON.
    measure
        `accuracy`, or `mae` for targets.
    file, served
        That measure on the last rounds: of this file, as it was before each round; and of what clients served.
        None if it was not measured, as in live federations.
    up, down, raw
        The bytes a record that clients sent and that the coordinator published, and those of its features as floats
        of 32 bits; 0 where none were counted.
    privacy
        How what clients send is protected from the coordinator. `none`: it sees the sums and differences of each
        client. `masked`: only their totals over clients; `pooled`: the same without masks, to compare with.
    epsilon, delta
        What noise on the totals promises to each record; None: there is none.
    """

    version: str
    source: str
    entry: int
    epoch: int
    records: int
    clients: int
    rounds: int
    sha256: str
    settings: str
    measure: Literal["accuracy", "mae"]
    file: float | None
    served: float | None
    up: float = 0.0
    down: float = 0.0
    raw: float = 0.0
    privacy: Literal["none", "pooled", "masked"] = "none"
    epsilon: float | None = None
    delta: float | None = None


def settings_told(learning: LearningSettings, profile: ProfileSettings, **others: object) -> str:
    """Return the settings of a run as `Provenance.settings`."""
    models = (("learning", learning), ("profile", profile))
    return json.dumps({**others, **{name: model.model_dump(mode="json", fallback=str) for name, model in models}})
