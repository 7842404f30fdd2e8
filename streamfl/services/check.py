"""`streamfl check`: whether a federation can run with its settings, and the remedy for each problem."""

from collections.abc import Sequence

from rich.console import Console

from streamfl.ports import Finding
from streamfl.services.connectors import connect
from streamfl.services.settings import FederationSettings

STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


def findings(settings: FederationSettings) -> Sequence[Finding]:
    """Return the findings, in the order in which a federation needs things.

    Raises
    ------
    UsageError
        The settings themselves cannot be used.
    """
    asked = (settings.unlabelled, settings.unlabelled_format) if settings.score.topics else None
    return connect(settings).findings(settings.placement, settings.record_format, asked, settings.apart)


def show(all_findings: Sequence[Finding], console: Console) -> None:
    """Print each finding, with its remedy below.

    >>> show([Finding("f.updates", "warning", "one copy", "make three")], Console())
    warning  f.updates: one copy
             -> make three
    """
    for finding in all_findings:
        line = f"{finding.state:<8} {finding.subject}: {finding.found}"
        console.print(line, style=STYLES[finding.state], highlight=False, soft_wrap=True, markup=False)
        if finding.remedy:
            console.print(f"         -> {finding.remedy}", highlight=False, soft_wrap=True, markup=False)
