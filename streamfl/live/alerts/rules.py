"""What of a federation is worth a message to a person: drifts as announced, and what no longer happens."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from streamfl.bounds import NAMED
from streamfl.live.operator.watch import Outlook
from streamfl.live.settings.tables import AlertKind
from streamfl.printable import printable
from streamfl.protocol.messages import (
    TOGETHER_AGAIN,
    Ended,
    Finding,
    FromCoordinator,
    Joined,
    Left,
    Refusal,
    RoundClosed,
)
from streamfl.records.values.times import iso
from streamfl.run.evaluation.result import (
    Dated,
    DatedInputsMoved,
    DatedInputsStuck,
    DatedLocalDrift,
    DatedNotice,
    DatedRestart,
    dated,
)
from streamfl.run.report.display import announcement, local_text
from streamfl.run.report.lateness import Lateness
from streamfl.run.report.words import count, listed
from streamfl.run.summary import RoundSummary

# The most clients, labels and features that an alert names.
LISTED = 20

# Seconds without an answer of the log after which people are told: brokers that restart are back before.
AWAY = 60.0

KINDS: Mapping[type[Dated], AlertKind] = {
    DatedRestart: "drift",
    DatedLocalDrift: "local-drift",
    DatedInputsMoved: "inputs-moved",
    DatedInputsStuck: "inputs-stuck",
    DatedNotice: "notice",
}


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One thing that is worth a message."""

    federation: str
    kind: AlertKind | Literal["test"]  # what it is
    text: str  # the same in a sentence or two, printable
    time: str  # when it was found, ISO 8601 in UTC
    # Whether it has ended: the federation or the client continues, or a client has returned to the model of all.
    is_over: bool = False
    # The round in which it was found, and that since which it holds; None if no round has to do with it.
    round: int | None = None
    since: int | None = None
    # Those concerned, at most `LISTED`.
    clients: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    features: tuple[str, ...] = ()  # those that moved, or whose sensors are stuck

    @property
    def plain(self) -> dict[str, object]:
        """The alert as a JSON object, without what is not known."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}


@dataclass
class AlertRules:
    """Finds alerts in what the coordinator publishes, and in its silence.

    Examples
    --------
    >>> rules = AlertRules("forest", stalled_after=60.0, silent_after=3)
    >>> rules.begin(now=100.0)
    >>> rules.idle(now=150.0, time=1.7e9), [alert.text for alert in rules.idle(now=160.0, time=1.7e9)]
    ([], ['no record was learnt for 60 s: no round is open; the coordinator waits for clients to join, and logs each \
one that joins'])
    """

    federation: str
    # Seconds without a round that learnt records after which the federation is stalled; None: never.
    stalled_after: float | None
    silent_after: int  # rounds without a record of a client after which the client is silent
    most_clients: int = NAMED.clients  # the most clients whose silence is watched
    _outlook: Outlook = field(default_factory=Outlook)
    _rounds: int = 0
    _heard: dict[str, int] = field(default_factory=dict)  # by client, the round in which it last had records
    _silent: set[str] = field(default_factory=set)
    _lateness: Lateness = field(default_factory=Lateness)
    _learnt: float = 0.0
    _answered: float = 0.0  # when the log was last known to answer
    _is_stalled: bool = False

    def begin(self, now: float) -> None:
        """Count time from now on, and look at every client afresh: what was heard so far is history."""
        self._learnt, self._answered, self._is_stalled = now, now, False
        self._lateness = Lateness()
        self._silent.clear()

    def hear(self, message: FromCoordinator, now: float, time: float) -> list[Alert]:
        """Return the alerts of a message.

        Parameters
        ----------
        now
            Seconds, by the clock that also times `idle`.
        time
            Seconds since 1970.
        """
        self._outlook.hear(message)
        match message:
            case RoundClosed():
                late = self._late(message, time)
                if not message.records:
                    return late
                return [*self._goes_on(message, now, time), *late, *self._silence(message, time)]
            case Finding():
                return [self._found(dated(message), time)]
            case Joined():
                self._watch(message.client)
            case Left():
                self._forget(message.client)
            case Refusal(evicted=True):
                self._forget(message.client)
                text = f"{message.client} was evicted: {message.reason}"
                return [self._alert("evicted", text, time, clients=(message.client,))]
            case Ended():
                return [self._alert("ended", "the federation has ended: all clients have left", time)]
            case _:
                pass
        return []

    def idle(self, now: float, time: float, reason: str = "") -> list[Alert]:
        """Return that the federation is stalled, once, if no record was learnt, or the log was silent, for too long.

        Parameters
        ----------
        reason
            Why nothing can be heard; empty if the log answers.
        """
        self._answered = self._answered if reason else now
        silent, away = now - self._learnt, now - self._answered
        if away >= AWAY:
            why = f"the log has not answered for {away:.0f} s: {reason}"
        elif self.stalled_after is None or silent < self.stalled_after or self._outlook.is_paused:
            return []
        else:
            why = f"no record was learnt for {silent:.0f} s: {self._outlook.waits_for()}"
        told, self._is_stalled = self._is_stalled, True
        return [] if told else [self._alert("stalled", why, time)]

    def _goes_on(self, closed: RoundClosed, now: float, time: float) -> list[Alert]:
        silent, was_stalled = now - self._learnt, self._is_stalled
        self._learnt, self._is_stalled = now, False
        if not was_stalled:
            return []
        text = f"records are learnt again, after {silent:.0f} s"
        return [self._alert("stalled", text, time, is_over=True, round=closed.round)]

    def _late(self, closed: RoundClosed, time: float) -> list[Alert]:
        """Return that more updates come too late than in time again and again, or that most come in time again."""
        changed = self._lateness.take(RoundSummary.of(closed))
        if changed is None:
            return []
        text = self._lateness.reason or "most updates come in time again"
        return [self._alert("late", text, time, is_over=changed == "ended", round=closed.round)]

    def _silence(self, closed: RoundClosed, time: float) -> list[Alert]:
        """Return which clients have become silent with this round, and which are heard again."""
        self._rounds += 1
        present = {one.client: None for one in closed.accepted if one.records or one.rejected}
        for client in present:
            self._watch(client)
        back = sorted(self._silent & present.keys())
        gone = [c for c, last in self._heard.items() if self._rounds - last >= self.silent_after]
        silent = sorted(set(gone) - self._silent)
        self._silent = (self._silent - present.keys()) | set(silent)
        alerts = []
        if silent:
            text = f"{listed(silent)} sent no record for {count(self.silent_after)} rounds"
            alerts.append(self._alert("silent", text, time, round=closed.round, clients=silent))
        if back:
            text = f"{listed(back)} sent records again"
            alerts.append(self._alert("silent", text, time, is_over=True, round=closed.round, clients=back))
        return alerts

    def _watch(self, client: str) -> None:
        if client in self._heard or len(self._heard) < self.most_clients:
            self._heard[client] = self._rounds

    def _forget(self, client: str) -> None:
        self._heard.pop(client, None)
        self._silent.discard(client)

    def _found(self, found: Dated, time: float) -> Alert:
        stuck = found.stuck if isinstance(found, DatedInputsStuck) else ()
        features = [*dict.fromkeys([*(one.feature for one in found.moved), *(one.feature for one in stuck)])]
        clients: Sequence[str] = () if isinstance(found, DatedNotice) else found.clients
        if isinstance(found, DatedInputsMoved) and not clients:
            clients = sorted({client for one in found.moved for client in one.clients})
        text, is_over = announcement(found), False
        if isinstance(found, DatedLocalDrift) and found.state != "latched":
            text, is_over = local_text(found), found.state in TOGETHER_AGAIN
        about: dict[str, Any] = {"round": found.round, "since": found.since, "is_over": is_over}
        names: dict[str, Sequence[str]] = {"clients": clients, "labels": found.labels, "features": features}
        return self._alert(KINDS[type(found)], text, time, **names, **about)

    def _alert(
        self,
        kind: AlertKind,
        text: str,
        time: float,
        *,
        clients: Sequence[str] = (),
        labels: Sequence[str] = (),
        features: Sequence[str] = (),
        **more: Any,
    ) -> Alert:
        return Alert(
            federation=self.federation,
            kind=kind,
            text=printable(text),
            time=iso(time),
            clients=tuple(map(printable, clients[:LISTED])),
            labels=tuple(map(printable, labels[:LISTED])),
            features=tuple(map(printable, features[:LISTED])),
            **more,
        )
