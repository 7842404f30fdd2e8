"""`streamfl coordinator`: the coordinator machine on a log."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from streamfl.bounds import bounded
from streamfl.errors import TakenOverError, UsageError
from streamfl.live.coordinator_measures import CoordinatorMeasures
from streamfl.live.identity import grants, secret, warn_if_open
from streamfl.live.joined_clients import JoinedClients
from streamfl.live.metrics.exposure import exposed, traced, unwatched
from streamfl.live.metrics.measures import Measure, gauge
from streamfl.live.metrics.whereabouts import whereabouts
from streamfl.live.model_out import ModelOut
from streamfl.live.settings import kept_settings
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.stopping import Stop
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.decisions import Refused
from streamfl.protocol.messages import (
    FromCoordinator,
    InputsMoved,
    InputsStuck,
    Joined,
    Left,
    LocalDrift,
    MemberChanged,
    Noticed,
    Refusal,
    RegistryPublished,
    Restarted,
    RoundClosed,
)
from streamfl.run.evaluation.result import dated
from streamfl.run.report.barren import MOST_BARREN, Barren
from streamfl.run.report.display import announcement
from streamfl.run.report.lateness import Lateness
from streamfl.run.summary import RoundSummary
from streamfl.runtime.clock import ListeningClock
from streamfl.runtime.loop import run
from streamfl.runtime.nodes import CoordinatorNode
from streamfl.runtime.ports import (
    Connector,
    LabelTopics,
    Placement,
    RecordFormat,
    ServedCoordinatorLink,
    StandbyConnector,
    WrongState,
    silence_of,
)

if TYPE_CHECKING:
    from streamfl.live.tracing.rounds import Spans

LOG = structlog.get_logger("streamfl.coordinator")

# What views of a coordinator take: its messages, with entries as summaries, and its refusals.
WatchedEvent = FromCoordinator | Refused | RoundSummary

# Seconds of waiting before a log line says for which clients; the time then doubles.
QUIET = 30.0

# After this many entries a log line says how many bytes a record takes.
BYTES_EVERY = 100

# The most clients named in one log line.
MOST_NAMES = 10

# The most clients whose last refusal is remembered: any writer can invent names.
MOST_REFUSALS = 10_000


# What it means that names of a client have to wait, and what to do.
UNLEARNT = "these features and labels are not learnt yet"
NAME_LESS = (
    'if records invent names, set schema = "closed" in [records]; otherwise start the federation with these names'
)


@dataclass
class CoordinatorLog:
    """Logs the coordinator's events, and the clients that it waits for.

    Attributes
    ----------
    barren
        Counts entries that have taught the model nothing.
    """

    bytes_read: Callable[[], int] = lambda: 0
    bytes_written: Callable[[], int] = lambda: 0
    barren: Barren = field(default_factory=Barren)
    _clients: JoinedClients = field(default_factory=JoinedClients)
    _lateness: Lateness = field(default_factory=Lateness)
    _refusals: dict[str, str] = field(default_factory=dict)
    _records: int = 0
    _features: int = 0
    _own_names: set[str] = field(default_factory=set)  # members of which was logged that names have to wait

    def take(self, event: WatchedEvent) -> None:
        """Log one event."""
        if self._clients.is_known(event):
            return
        match event:
            case RegistryPublished():
                self._features = len(event.registry.features)
            case RoundSummary():
                self._closed(event)
            case Restarted() | LocalDrift() | InputsMoved() | InputsStuck() | Noticed():
                _log_finding(event)
            case Joined():
                LOG.info("joined", client=event.client, entry=event.entry, read=event.read)
            case Left():
                LOG.info("left", client=event.client)
            case MemberChanged():
                told = {"client": event.client} if event.client else {}
                what = "member changed" if event.client else "command carried out"
                LOG.warning(what, **told, action=event.action, entry=event.entry, by=event.by)
            case Refusal(evicted=True):
                LOG.error("evicted", client=event.client, entry=event.entry, reason=event.reason)
                self._refusals.pop(event.client, None)
            case Refused():
                self._refused(event)
            case _:
                pass

    def _refused(self, refused: Refused) -> None:
        """Log a refusal; repeated ones are logged once, and again if the round stalls."""
        what = f"{'late' if refused.is_late else 'refused'}: {refused.reason}"
        if self._refusals.get(refused.client) == what:
            return
        if refused.is_late:
            LOG.info("came too late", client=refused.client, reason=refused.reason)
        else:
            kept = {"dead_letter": True} if refused.is_fault else {}
            LOG.warning("refused", client=refused.client, reason=refused.reason, **kept)
        if refused.client in self._refusals or len(self._refusals) < MOST_REFUSALS:
            self._refusals[refused.client] = what

    def _closed(self, closed: RoundSummary) -> None:
        LOG.info(
            "round" if closed.records else "round without records",
            round=closed.round,
            epoch=closed.epoch,
            entry=closed.entry,
            clients=closed.clients,
            records=closed.records,
            rejected=closed.rejected,
            refused=closed.refused,
            late=closed.late,
            loss=None if math.isnan(closed.loss) else round(closed.loss, 4),
            model=closed.model[:12],
        )
        self.barren.take(closed)
        if self.barren.reason is not None and self.barren.entries % MOST_BARREN == 0:
            LOG.warning("nothing is learnt", round=closed.round, entry=closed.entry, reason=self.barren.reason)
        if self._lateness.take(closed) == "began":
            LOG.warning("more updates come too late than in time", round=closed.round, reason=self._lateness.reason)
        if closed.unlearnt:
            LOG.warning("records that the model could not learn", round=closed.round, records=closed.unlearnt)
        self._records += closed.records
        if closed.entry % BYTES_EVERY == 0:
            LOG.info("bytes per record", **self.bytes_a_record)
        for accepted in closed.accepted:
            self._refusals.pop(accepted.client, None)

    @property
    def bytes_a_record(self) -> dict[str, float]:
        """Return the bytes per record since this coordinator began.

        `up`: of clients' messages, those that were refused or forged included; `down`: of what was written for
        clients; `raw`: of features as floats of 32 bits.
        """
        up, down = self.bytes_read(), self.bytes_written()
        a_record = [round(count / self._records, 1) if self._records else 0.0 for count in (up, down)]
        return {"up": a_record[0], "down": a_record[1], "raw": 4.0 * self._features}

    def names(self, machine: Coordinator) -> None:
        """Log, once for each client, that names that it alone brings have to wait."""
        for client, count in machine.waiting_names.items():
            if client not in self._own_names:
                self._own_names.add(client)
                told = {"names": count, "consequence": UNLEARNT, "remedy": NAME_LESS}
                LOG.warning("new names have to wait", client=client, **told)

    def waiting(self, machine: Coordinator, seconds: float) -> None:
        """Log which clients keep the round open, and why if known."""
        waited = sorted(machine.waited_for)
        named = [f"{name} ({self._refusals[name]})" if name in self._refusals else name for name in waited]
        state = machine.state
        evicted = evicted_field(evicted_of(state))
        if state.held:
            LOG.warning("held by an operator", round=state.round, seconds=round(seconds), remedy="streamfl resume")
        elif state.agreement is None:
            there, needed = machine.waiting_clients, machine.settings.min_clients
            LOG.warning("waiting for clients to join", joined=there, expected=needed, seconds=round(seconds))
        elif waited:
            LOG.warning(
                "waiting for scores" if machine.is_scoring else "waiting for updates",
                round=state.round,
                clients=named[:MOST_NAMES],
                more=max(0, len(named) - MOST_NAMES),
                seconds=round(seconds),
                **evicted,
            )
        elif evicted:
            LOG.warning("no client is waited for: all have left or were evicted", seconds=round(seconds), **evicted)


def _log_finding(found: Restarted | LocalDrift | InputsMoved | InputsStuck | Noticed) -> None:
    """Log an announcement of a change."""
    match found:
        case Restarted():
            LOG.warning(
                "restart",
                round=found.round,
                epoch=found.epoch,
                cause=found.cause,
                statistic=round(found.statistic, 2),
                threshold=round(found.threshold, 2),
                chosen=found.chosen,
                online_models_begin_again=found.online_models_begin_again,
                clients=list(found.clients),
                labels=list(found.labels),
                **whereabouts(found),
            )
        case LocalDrift():
            LOG.warning(
                "local drift",
                round=found.round,
                clients=list(found.clients),
                state=found.state,
                behind=found.behind,
                statistic=round(found.statistic, 2),
                threshold=round(found.threshold, 2),
                labels=list(found.labels),
                **whereabouts(found),
            )
        case InputsMoved() | InputsStuck():
            what = "inputs moved" if isinstance(found, InputsMoved) else "inputs stuck"
            text = announcement(dated(found))
            LOG.warning(what, round=found.round, clients=list(found.clients), text=text, **whereabouts(found))
        case Noticed():
            LOG.info(found.cause, round=found.round, labels=list(found.labels), **whereabouts(found))


def evicted_of(state: CoordinatorState) -> list[str]:
    """Return the evicted clients: their records are pending until another start joins."""
    return sorted(name for name, member in state.members.items() if member.evicted)


def evicted_field(evicted: list[str]) -> dict[str, object]:
    """Return the log field that names evicted clients; empty if there are none."""
    if not evicted:
        return {}
    return {"evicted": [*evicted[:MOST_NAMES], *(["..."] if len(evicted) > MOST_NAMES else [])]}


@dataclass
class CoordinatorService:
    """The coordinator as a node of the loop: it ends when stopped or, with `until_end`, after its clients.

    In the latter case it publishes `Ended`, so that hosts do not wait for it, those that begin later included.
    """

    node: CoordinatorNode
    log: CoordinatorLog
    stop: Stop
    until_end: bool
    model: ModelOut | None = None
    turned: Callable[[], None] = unwatched
    finished: bool = False
    _at: tuple[int, bool] = (0, False)
    _since: float = 0.0
    _next_line: float = 0.0

    @property
    def wakes_at(self) -> float | None:
        """Return when the machine wants a Tick."""
        return self.node.wakes_at

    def step(self, now: float) -> bool:
        """Step the machine."""
        busy = self.node.step(now)
        has_ended = self.until_end and self.node.finished
        if has_ended:
            self.node.end()
        self.finished = self.stop.requested or has_ended
        self._watch(now)
        self.turned()
        return busy

    def _watch(self, now: float) -> None:
        if self.model is not None:
            self.model.keep(self.node.machine, self.log.bytes_a_record, now)
        state = self.node.machine.state
        at = (state.entry, state.agreement is not None)
        if at != self._at:
            self._at, self._since = at, max(now, self.node.machine.waits_from)
            self._next_line = self._since + QUIET
            self.log.names(self.node.machine)
        elif now >= self._next_line:
            self.log.waiting(self.node.machine, now - self._since)
            self._next_line = now + 2.0 * (now - self._since)


def serve_coordinator(
    settings: FederationSettings,
    connector: Connector,
    stop: Stop,
    *,
    until_end: bool,
    model_out: Path | None = None,
    standby: bool = False,
) -> None:
    """Run the coordinator until it is stopped, fenced by another one or, with `until_end`, left by all clients.

    Parameters
    ----------
    model_out
        Where to write the model that the clients agree on, every minute and at the end; None: nowhere.
    standby
        Whether to wait until no other coordinator is heard, and to stand by again when one has taken over.

    Raises
    ------
    PeerError
        Another coordinator has taken over, or the log does not answer.
    UsageError
        The model cannot be written; or the connector has no heartbeats to stand by for.
    """
    model = None if model_out is None else ModelOut(model_out, settings)
    if standby and not isinstance(connector, StandbyConnector):
        raise UsageError(
            f"connector {settings.federation.connector} cannot send heartbeats, which a standby needs; leave out "
            "--standby"
        )
    connector.prepare()
    serving = ServingCoordinator(settings, connector, stop, until_end, model)
    with (
        exposed(settings, "coordinator", serving.measured, serving.not_ready, serving.silence) as serving.turned,
        traced(settings, "coordinator") as serving.spans,
    ):
        while True:
            try:
                link = serving.stood_by() if standby else connector.coordinator(*serving.place)
                if link is not None:
                    serving.run(link)
                break
            except TakenOverError:
                if not standby:
                    raise
                LOG.warning("another coordinator has taken over", consequence="this one stands by")


@dataclass
class ServingCoordinator:
    """A process that is the coordinator, or stands by until it is."""

    settings: FederationSettings
    connector: Connector
    stop: Stop
    until_end: bool
    model: ModelOut | None
    turned: Callable[[], None] = unwatched
    spans: "Spans | None" = None
    _running: tuple[Coordinator, CoordinatorMeasures, ServedCoordinatorLink] | None = None

    def measured(self) -> Iterable[Measure]:
        """Return what is shown: that it stands by, or what the coordinator measures."""
        serves = self._running is not None
        yield gauge("streamfl_serves", "Whether this process is the coordinator, and not one that stands by.", serves)
        if self._running is not None:
            machine, measures, _ = self._running
            yield from measures.measured(machine)

    def not_ready(self) -> str | None:
        """Return why it is not ready; one that stands by is."""
        if self._running is None:
            return None
        machine, measures, _ = self._running
        return measures.not_ready(machine)

    def silence(self) -> str:
        """Return why the log does not answer; empty if it does, or while this process stands by."""
        return "" if self._running is None else silence_of(self._running[2])

    @property
    def place(self) -> tuple[Placement, RecordFormat, LabelTopics | None, WrongState]:
        """Return what a connector asks for: the topics and format of records, and which states cannot be used."""
        settings = self.settings
        return settings.placement, settings.record_format, settings.delayed_labels, wrong_state(settings)

    def stood_by(self) -> ServedCoordinatorLink | None:
        """Wait until no other coordinator is heard, and take over; return None if the process is to end before."""
        self._running = None
        if not isinstance(self.connector, StandbyConnector):
            raise UsageError("the connector has no heartbeats")
        silence = self.settings.coordinator.silence
        with closing(self.connector.standby(*self.place)) as standby:
            LOG.info("standing by", silence=silence)
            if not standby.wait(silence, stopped=self._stopped):
                return None
            LOG.warning("no other coordinator is heard", consequence="this one takes over")
            return standby.take_over()

    def _stopped(self) -> bool:
        self.turned()
        return self.stop.requested

    def run(self, link: ServedCoordinatorLink) -> None:
        """Be the coordinator, and close its link."""
        settings, connector = self.settings, self.connector
        heart = connector.heartbeat(settings.coordinator.silence) if isinstance(connector, StandbyConnector) else None
        log = CoordinatorLog(lambda: link.bytes_read, lambda: link.bytes_written)
        clock = ListeningClock(link.listen)
        measures = CoordinatorMeasures(lambda: link.bytes_read, lambda: link.bytes_written, clock.now, log.barren)

        def turned() -> None:
            self.turned()
            if heart is not None:
                heart.turned()

        try:
            machine = _machine(settings, link)
            node = CoordinatorNode(machine, link, summarising(log.take, measures.take, *_traces(self.spans)))
            self._running = machine, measures, link
            node.start(clock.now())
            run([CoordinatorService(node, log, self.stop, self.until_end, self.model, turned)], clock)
            if self.model is not None:
                self.model.write(machine, log.bytes_a_record)
            # Not after an error: the machine's state may not have been committed.
            _close(machine, log.bytes_a_record)
        finally:
            if heart is not None:
                heart.close()
            link.close()


def summarising(*takers: Callable[[WatchedEvent], None]) -> Callable[[FromCoordinator | Refused], None]:
    """Return what observes a coordinator for several takers, which share the summary of each entry."""

    def observe(event: FromCoordinator | Refused) -> None:
        observed = RoundSummary.of(event) if isinstance(event, RoundClosed) else event
        for take in takers:
            take(observed)

    return observe


def _traces(spans: "Spans | None") -> Iterator[Callable[[object], None]]:
    """Yield what traces the coordinator's events, if they are traced."""
    if spans is not None:
        from streamfl.live.tracing.rounds import CoordinatorTraces  # noqa: PLC0415  needs the extra traces

        yield CoordinatorTraces(spans).take


def wrong_state(settings: FederationSettings) -> WrongState:
    """Return what tells why a coordinator with these settings cannot continue from a state, or None.

    Whoever may write states can write any: one with other constants of the profile, or one that no round can be
    opened from, would keep every coordinator from starting.
    """
    configured, now = settings.first_state().profile, kept_settings.to_keep(settings)

    def wrong(state: CoordinatorState) -> str | None:
        reason = state.wrong() or kept_settings.wrong(state.settings, now) or state.profile.wrong_beside(configured)
        if reason is not None:
            return reason
        try:
            Coordinator(settings.coordinator_machine, state).start(0.0)
        except Exception as error:  # anything that a forged state makes raise
            return bounded(f"no round can be opened from it: {type(error).__name__}: {error}")
        return None

    return wrong


def _machine(settings: FederationSettings, link: ServedCoordinatorLink) -> Coordinator:
    before = link.restore()
    if before is None:
        LOG.info("a new federation", federation=settings.federation.name, expects=settings.min_clients)
    else:
        LOG.info("resumed", round=before.round, epoch=before.profile.epoch, entry=before.entry)
        for name, (was, now) in kept_settings.changes(before.settings, kept_settings.to_keep(settings)).items():
            LOG.warning("setting changed", setting=name, was=was, now=now)
    LOG.info("equal bytes", promised=not settings.unequal, because_of=list(settings.unequal))
    warn_if_open(settings)

    def recover() -> CoordinatorState:
        return _with_settings(link.restore() or settings.first_state(), settings)

    state = _with_settings(before or settings.first_state(), settings)
    machine = replace(settings.coordinator_machine, secret=secret(settings))
    return Coordinator(machine, state, recover, link.ends, grants(settings), link.log_ids)


def _with_settings(state: CoordinatorState, settings: FederationSettings) -> CoordinatorState:
    """Return a state that the next commit saves with these settings."""
    return replace(state, settings=kept_settings.to_keep(settings))


def _close(machine: Coordinator, bytes_a_record: dict[str, float]) -> None:
    """Log how many records were read, accepted and rejected since the federation began, from the ledger.

    Bytes per record count since this coordinator began.
    """
    state = machine.state
    accepted = sum(member.accepted for member in state.members.values())
    rejected = sum(member.rejected for member in state.members.values())
    evicted = evicted_field(evicted_of(state))
    if evicted:
        LOG.warning("records of evicted clients are pending", clients=evicted["evicted"])
    LOG.info(
        "ended",
        rounds=state.round - 1,
        epoch=state.profile.epoch,
        read=accepted + rejected,
        accepted=accepted,
        rejected=rejected,
        clients=len(state.members),
        refused=state.refused,
        restarts=state.profile.epoch - 1,
        model_sha256=machine.digest() if state.agreement is not None else None,
        bytes=bytes_a_record,
    )
