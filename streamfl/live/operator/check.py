"""`streamfl check`: whether a federation can run with its settings, and the remedy for each problem."""

from collections.abc import Sequence

from rich.console import Console

from streamfl.errors import UsageError
from streamfl.live.identity import OPEN_TO_ALL, REMEDY, Process, signatures
from streamfl.live.settings.connectors import connect
from streamfl.live.settings.settings import FederationSettings
from streamfl.records.doubts.doubting import Doubting
from streamfl.run.report.terminal import print_line
from streamfl.runtime.ports import CheckResult

STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


def findings(settings: FederationSettings) -> Sequence[CheckResult]:
    """Return the findings, in the order in which a federation needs things.

    Raises
    ------
    UsageError
        The settings themselves cannot be used.
    """
    asked = (settings.unlabelled, settings.unlabelled_format) if settings.score.topics else None
    records = Doubting(settings.record_format, settings.field_map)
    of_log = connect(settings).findings(settings.placement, records, asked, settings.delayed_labels)
    is_open = settings.federation.members == "open"
    has_errors = any(finding.state == "error" for finding in of_log)  # these come first: who may join can wait
    return [*of_log, *([] if is_open and has_errors else member_findings(settings))]


def member_findings(settings: FederationSettings) -> Sequence[CheckResult]:
    """Return whether messages are signed, and whether the keys that this machine's settings name can be used."""
    if settings.federation.members == "open":
        return [CheckResult("members", "warning", OPEN_TO_ALL, REMEDY)]
    named: dict[Process, bool] = {
        "client": settings.client.key is not None,
        "coordinator": settings.coordinator.key is not None,
    }
    processes: list[Process] = [process for process, has_key in named.items() if has_key]
    return [_key_finding(settings, process) for process in processes or ["reader"]]


def _key_finding(settings: FederationSettings, process: Process) -> CheckResult:
    subject = f"members ({process})"
    try:
        own = signatures(settings, process).own
    except UsageError as error:
        found, _, remedy = str(error).rpartition("; ")
        return CheckResult(subject, "error", found or str(error), remedy)
    whose = "no key, and none is needed to read" if own is None else f"its key is {own.key.public}"
    return CheckResult(subject, "ok", f'"{settings.federation.members}", {whose}')


def show(all_findings: Sequence[CheckResult], console: Console) -> None:
    """Print each finding, with its remedy below.

    >>> show([CheckResult("f.updates", "warning", "one copy", "make three")], Console())
    warning  f.updates: one copy
             -> make three
    """
    for finding in all_findings:
        line = f"{finding.state:<8} {finding.subject}: {finding.found}"
        print_line(console, line, STYLES[finding.state])
        if finding.remedy:
            print_line(console, f"         -> {finding.remedy}")
