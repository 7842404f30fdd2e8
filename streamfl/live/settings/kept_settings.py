"""The settings with which a federation was run, kept in its state: what may change at a restart, and what may not."""

import json
from collections.abc import Mapping

from streamfl.bounds import bounded
from streamfl.live.settings.settings import FederationSettings
from streamfl.run.renamed import kept_now

# The tables of settings that are kept: those of the whole federation.
KEPT = ("federation", "rounds", "records", "labels", "learning", "profile", "privacy")

# What the state is made of, or what clients have counted by: a change would mix what does not belong together.
FIXED = frozenset(
    {
        "federation.task",
        "federation.seed",
        "federation.scaling",
        "rounds.clock",
        "records.clients",
        "labels.topic",
        "labels.key",
        "labels.window",
        "learning",
        "profile",
        "privacy.secure_aggregation",
        "privacy.noise",
        "privacy.radius",
    }
)

# Of these tables some settings are each host's own affair, or what is learnt does not depend on them.
FREE = frozenset(
    {"learning.bytes", "learning.neighbours", "learning.last_answer", "learning.objective", "learning.costs"}
)


def to_keep(settings: FederationSettings) -> dict[str, str]:
    """Return the settings that are kept, as JSON by their names.

    >>> from streamfl.live.settings.tables import Records
    >>> to_keep(FederationSettings(records=Records(topics=("r.*",))))["rounds.size"]
    '100'
    """
    tables = settings.model_dump(mode="json", include=set(KEPT))
    return {
        f"{table}.{name}": json.dumps(value, sort_keys=True)
        for table in KEPT
        for name, value in sorted(tables[table].items())
    }


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return what was and what is of each setting that both have, and that differs."""
    was = kept_now(before)
    return {name: (was[name], value) for name, value in now.items() if was.get(name, value) != value}


def is_fixed(name: str) -> bool:
    """Tell whether a setting may not change while the federation lives.

    >>> is_fixed("learning.features"), is_fixed("learning.bytes"), is_fixed("rounds.deadline")
    (True, False, False)
    """
    return name not in FREE and (name in FIXED or name.partition(".")[0] in FIXED)


def wrong(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Return why a coordinator with these settings cannot continue from a state with those before, or None.

    >>> wrong({"learning.features": '"auto"'}, {"learning.features": '"rounds"'})
    'learning.features was "auto" and is now "rounds": set it back, or start a new federation under another
    [federation] name'
    """
    for name, (was, now_is) in changes(before, now).items():
        if is_fixed(name):
            what = f"{name} was {bounded(was)} and is now {bounded(now_is)}"
            return f"{what}: set it back, or start a new federation under another [federation] name"
    return None
