"""`streamfl alert`: reads what a federation publishes, and sends what is worth a message."""

import time as clock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import structlog

from streamfl.errors import PeerError, UsageError
from streamfl.live.alerts.delivery import (
    BODIES,
    Channel,
    DeliveryError,
    LocalProgram,
    Outbox,
    Webhook,
    key_in,
    wrong_address,
    wrong_command,
)
from streamfl.live.alerts.rules import Alert, AlertRules
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.settings.tables import Alerts
from streamfl.live.stopping import Stop
from streamfl.records.values.times import iso
from streamfl.runtime.ports import LoggedMessage, Watcher

LOG = structlog.get_logger("streamfl.alert")

# Seconds until a log that did not answer is asked again.
PAUSE = 1.0

# Messages before the end of the log that tell which clients take part.
HISTORY = 10_000


def channels(settings: Alerts, time: Callable[[], float] = clock.time) -> tuple[Channel, ...]:
    """Return the ways to people that settings name.

    Raises
    ------
    UsageError
        There is none, or one cannot be used.
    """
    found = list[Channel]()
    for setting, (what, remedy) in wrong_ways(settings):
        raise UsageError(f"[alerts] {setting}: {what}; {remedy}")
    if settings.webhook:
        secret = None if settings.secret is None else key_in(settings.secret)
        found.append(Webhook(settings.webhook, BODIES[settings.form], secret, time))
    if settings.command:
        found.append(LocalProgram(settings.command))
    if not found:
        raise UsageError("alerts would reach nobody; give `webhook` or `command` in [alerts]")
    return tuple(found)


def wrong_ways(settings: Alerts) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each way to people that cannot be used: its setting, and what is wrong and what to do."""
    if settings.webhook and (wrong := wrong_address(settings.webhook)) is not None:
        yield "webhook", wrong
    if settings.command and (wrong := wrong_command(settings.command)) is not None:
        yield "command", wrong


def send_test(federation: str, ways: Sequence[Channel], time: Callable[[], float] = clock.time) -> None:
    """Send an alert of the kind `test` all ways.

    Raises
    ------
    UsageError
        It was not delivered on some way; it was sent on all others.
    """
    alert = Alert(federation=federation, kind="test", text="this is a test: alerts arrive here", time=iso(time()))
    failed = list[str]()
    for way in ways:
        try:
            way.send(alert)
        except DeliveryError as error:
            failed.append(str(error))
    if failed:
        raise UsageError(f"the test alert was not delivered: {'; '.join(failed)}")


def rules(settings: FederationSettings) -> AlertRules:
    """Return the rules for a federation."""
    return AlertRules(
        settings.federation.name,
        stalled_after=settings.stalled_after,
        silent_after=settings.alerts.silent_after,
        most_clients=settings.federation.most_clients,
    )


@dataclass
class AlertService:
    """Sends the alerts of one federation, from now on: what is in the log already only tells who takes part."""

    watcher: Watcher  # reads what the coordinator publishes
    rules: AlertRules  # find the alerts
    kinds: Sequence[str]  # the kinds that are sent
    outboxes: Sequence[Outbox]  # where to
    now: Callable[[], float] = clock.monotonic  # seconds, by a monotonic clock
    time: Callable[[], float] = clock.time  # seconds since 1970
    pause: Callable[[float], None] = clock.sleep  # waits so many seconds
    _silence: str = ""  # why the log does not answer

    def run(self, stop: Stop) -> None:
        """Run until asked to stop; then try once more what still waits."""
        while not stop.requested:
            self._read()
            if not self._silence and self.watcher.behind == 0:
                break
        self.rules.begin(self.now())
        LOG.info("alerts begin", federation=self.rules.federation)
        while not stop.requested:
            self.step()
        for outbox in self.outboxes:
            outbox.deliver(self.now())
            if outbox.waiting:
                LOG.warning("alerts not delivered", alerts=len(outbox.waiting))

    def step(self) -> None:
        """Send the alerts of what has come since, and of the silence, if any."""
        for alert in [*self._read(), *self.rules.idle(self.now(), self.time(), self._silence)]:
            if alert.kind in self.kinds:
                LOG.info("alert", kind=alert.kind, text=alert.text)
                for outbox in self.outboxes:
                    outbox.add(alert)
        for outbox in self.outboxes:
            outbox.deliver(self.now())

    def _read(self) -> list[Alert]:
        """Return the alerts of messages that have come."""
        try:
            read = [one.message for one in self.watcher.read() if isinstance(one, LoggedMessage)]
        except PeerError as error:  # the brokers are away: nobody else may be there to tell it
            self._silence = str(error)
            self.pause(PAUSE)
            return []
        self._silence = ""
        return [alert for message in read for alert in self.rules.hear(message, self.now(), self.time())]


def outbox(channel: Channel) -> Outbox:
    """Return an outbox that logs what goes wrong."""

    def failed(error: DeliveryError) -> None:
        LOG.warning("alert not delivered", reason=str(error), channel=type(channel).__name__.lower())

    def given_up(alert: Alert) -> None:
        LOG.error("an alert was given up", kind=alert.kind, text=alert.text)

    return Outbox(channel, failed, given_up)
