"""`streamfl check`: whether a federation could run as it is set up, and what to do where it could not."""

from collections.abc import Sequence

from rich.console import Console

from streamfl.ports import Finding
from streamfl.services.connectors import connect
from streamfl.services.settings import FederationSettings

STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


def findings(settings: FederationSettings) -> Sequence[Finding]:
    """Return what was found, in the order in which things are needed.

    Raises
    ------
    UsageError
        The settings themselves cannot be used.
    """
    return connect(settings).findings(settings.placement, settings.record_format)


def show(found: Sequence[Finding], console: Console) -> None:
    """Print a line for every finding, and its remedy under it.

    >>> show([Finding("f.updates", "warning", "one copy", "make three")], Console())
    warning  f.updates: one copy
             -> make three
    """
    for finding in found:
        line = f"{finding.state:<8} {finding.subject}: {finding.found}"
        console.print(line, style=STYLES[finding.state], highlight=False, soft_wrap=True, markup=False)
        if finding.remedy:
            console.print(f"         -> {finding.remedy}", highlight=False, soft_wrap=True, markup=False)
