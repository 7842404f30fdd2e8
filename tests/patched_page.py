"""What the page does with changes of its sections, in Python."""

from collections.abc import Mapping
from typing import Any

from streamfl.run.page.sections import ROWS


def patched(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a page after some changes, as `patched` of page.js does."""
    after = dict(before)
    for name, section in changes.items():
        if name not in ROWS:
            after[name] = section
            continue
        rows = [*before.get(name, [])][: section["length"]]
        rows += [None] * (section["length"] - len(rows))
        for at, row in section["rows"].items():
            rows[int(at)] = row
        after[name] = rows
    return after
