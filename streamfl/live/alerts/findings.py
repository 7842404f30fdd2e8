"""Whether alerts can be sent from this machine, for `streamfl check`."""

from collections.abc import Sequence

from streamfl.errors import UsageError
from streamfl.live.alerts.service import channels, wrong_ways
from streamfl.live.settings.tables import Alerts
from streamfl.runtime.ports import CheckResult


def alert_findings(settings: Alerts) -> Sequence[CheckResult]:
    """Return whether `streamfl alert` can run here; nothing if the settings name nobody whom it is to reach.

    That it cannot is no error: the command and the secret need to be on one machine only.

    >>> alert_findings(Alerts()), [one.found for one in alert_findings(Alerts(command=("/nowhere/page-me",)))]
    ([], ['/nowhere/page-me: no such file'])
    """
    if not (settings.webhook or settings.command):
        return []
    if wrong := list(wrong_ways(settings)):
        return [CheckResult(f"alerts ({setting})", "warning", what, remedy) for setting, (what, remedy) in wrong]
    try:
        channels(settings)
    except UsageError as error:  # of the secret
        return [
            CheckResult("alerts (secret)", "warning", str(error), "name a file that can be read, with a long text")
        ]
    return [
        CheckResult("alerts", "ok", "the settings can be used; send a test: streamfl alert --settings FILE --test")
    ]
