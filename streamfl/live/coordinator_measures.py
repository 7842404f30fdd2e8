"""What a coordinator measures: rounds, drift, members, refusals and bytes."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from streamfl.live.metrics.measures import Durations, Measure, Named, counter, counters, gauge, gauges, plain
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.protocol.decisions import Refused
from streamfl.protocol.messages import (
    LOCAL_STATES,
    FromCoordinator,
    InputsMoved,
    InputsStuck,
    LocalDrift,
    Noticed,
    Refusal,
    Restarted,
    RoundOpened,
    Score,
)
from streamfl.run.report.barren import Barren
from streamfl.run.summary import RoundSummary

# Causes of restarts that no detector's reading is named after. They, and the states of local drifts, are shown as 0
# from the start: of a series that begins with 1, Prometheus sees no increase.
CAUSES = ("operator", "new-label")

# A reading of what never restarts.
NO_CAUSE = "class-mix"


@dataclass
class CoordinatorMeasures:
    """Counts the coordinator's events since the process began, and reads its state.

    Parameters
    ----------
    now
        Returns seconds; differences are shown.

    Attributes
    ----------
    last
        The last round with records.
    """

    bytes_read: Callable[[], int]
    bytes_published: Callable[[], int]
    now: Callable[[], float]
    barren: Barren
    last: RoundSummary | None = None
    _counts: Counter[str] = field(default_factory=Counter)
    _restarts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(CAUSES, 0)))
    _local: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(LOCAL_STATES, 0)))
    _notices: Counter[str] = field(default_factory=Counter)
    _refused: Named = field(default_factory=Named)
    _refused_clients: Named = field(default_factory=Named)
    _seconds: dict[str, float] = field(default_factory=lambda: {"gathering": 0.0, "scoring": 0.0})
    _durations: Durations = field(default_factory=Durations)
    _opened: float | None = None  # when the open round was opened
    _phase: str = "gathering"
    _round: int = 0
    _scored: tuple[int, int] = (0, 0)  # the entry whose candidates are scored, and the stage
    _since: float | None = None

    def take(self, event: FromCoordinator | Refused | RoundSummary) -> None:
        """Count one event."""
        match event:
            case RoundSummary():
                self._close(event)
            case RoundOpened() if event.round != self._round or event.entry > self._scored[0] > 0:
                self._turn_to("gathering", event.round, (0, 0))
            case Score() if (event.entry, event.stage) > self._scored:
                self._turn_to("scoring", event.round, (event.entry, event.stage))
            case Restarted():
                self._restarts[event.cause] += 1
            case LocalDrift():
                self._local[event.state] += 1
            case InputsMoved():
                self._notices["inputs-moved"] += 1
            case InputsStuck():
                self._notices["inputs-stuck"] += 1
            case Noticed():
                self._notices[event.cause] += 1
            case Refusal(evicted=True):
                self._counts["evicted"] += 1
            case Refused(is_late=True):
                self._counts["late"] += 1
            case Refused():
                self._refused.add(plain(event.reason))
                self._refused_clients.add(event.client)
            case _:
                pass

    def _turn_to(self, phase: str, round_: int, scored: tuple[int, int]) -> None:
        """Note that a phase has begun.

        What is published again for clients that join begins none, nor does an entry that only moves positions.
        """
        now = self.now()
        if round_ != self._round:
            self._opened = now
        self._round, self._scored = round_, scored
        if self._since is not None:
            self._seconds[self._phase] += max(0.0, now - self._since)
        self._phase, self._since = phase, now

    def _close(self, closed: RoundSummary) -> None:
        if not closed.records:
            self._counts["empty"] += 1
        else:
            self.last = closed
            if self._opened is not None:
                self._durations.add(self.now() - self._opened)
            self._counts["rounds"] += 1
            self._restarts.update(dict.fromkeys(closed.readings.keys() - {NO_CAUSE}, 0))
        counts = self._counts
        counts["accepted"] += closed.records
        counts["rejected"] += closed.rejected
        counts["updates"] += closed.clients
        counts["unlearnt"] += closed.unlearnt

    # --- what is shown -------------------------------------------------------------------------------------------

    def measured(self, machine: Coordinator) -> Iterator[Measure]:
        """Yield all measures."""
        yield from self._of_rounds(machine)
        yield from self._of_drift(machine)
        yield from self._of_members(machine)
        yield from self._of_messages()

    def _of_rounds(self, machine: Coordinator) -> Iterator[Measure]:
        state, counts = machine.state, self._counts
        yield gauge("streamfl_round", "The open round.", state.round)
        yield gauge("streamfl_entry", "The open entry of the ledger.", state.entry)
        yield counter("streamfl_rounds_total", "Rounds closed with records.", counts["rounds"])
        yield counter("streamfl_empty_rounds_total", "Entries of the ledger without records.", counts["empty"])
        records = {name: float(counts[name]) for name in ("accepted", "rejected")}
        yield counters("streamfl_records_total", "Records entered into the ledger.", "result", records)
        yield counter(
            "streamfl_unlearnt_records_total", "Records that the model could not learn.", counts["unlearnt"]
        )
        yield counters("streamfl_round_seconds_total", "Seconds of rounds by phase.", "phase", self._seconds)
        yield self._durations.measure(
            "streamfl_round_duration_seconds", "Seconds from a round's opening to its entry."
        )
        since = 0.0 if self._since is None else self.now() - self._since
        yield gauge("streamfl_phase_age_seconds", "Seconds since the present phase of the round began.", since)
        yield from self._of_last_round()

    def _of_last_round(self) -> Iterator[Measure]:
        """Yield how good the last round was; nothing before the first."""
        last = self.last
        if last is None:
            return
        yield gauge("streamfl_loss", "Mean score of the serving model, last round.", last.loss)
        if last.no_change is None:
            return
        means = {"accuracy": last.accuracy, "error": last.mae, "NoChange": last.no_change}
        yield gauges(
            "streamfl_served",
            "Accuracy, or mean absolute error, of the served predictions of the last round, and of NoChange.",
            "of",
            {name: mean for name, mean in means.items() if mean is not None},
        )

    def _of_drift(self, machine: Coordinator) -> Iterator[Measure]:
        yield gauge(
            "streamfl_epoch",
            "The epoch: 1 plus the restarts since the federation began.",
            machine.state.profile.epoch,
        )
        yield counters("streamfl_restarts_total", "Restarts by cause.", "cause", dict(self._restarts))
        yield counters(
            "streamfl_local_drifts_total", "Local drifts that entered each state.", "state", dict(self._local)
        )
        yield counters(
            "streamfl_notices_total",
            "Changes that are not drift, such as another mix of classes.",
            "cause",
            dict(self._notices),
        )
        if self.last is not None:
            readings = self.last.readings
            of = {name: reading.statistic for name, reading in readings.items()}
            yield gauges("streamfl_statistic", "The detector's statistic after the last round.", "detector", of)
            of = {name: reading.threshold for name, reading in readings.items()}
            yield gauges(
                "streamfl_threshold", "The threshold above which the detector raises an alarm.", "detector", of
            )

    def _of_members(self, machine: Coordinator) -> Iterator[Measure]:
        members = machine.state.members.values()
        of = {
            "present": float(len(machine.present)),
            "left": float(sum(one.left and not one.evicted for one in members)),
            "evicted": float(sum(one.evicted for one in members)),
        }
        yield gauges("streamfl_clients", "Clients by their state.", "state", of)
        waited = dict.fromkeys(sorted(machine.waited_for), 1.0)
        yield gauge("streamfl_waited_for_clients", "Clients that the open round waits for.", len(waited))
        yield gauges("streamfl_waited_for", "1 for each client that the open round waits for.", "client", waited)
        missed = {
            name: float(one.missed) for name, one in machine.state.members.items() if one.missed and not one.left
        }
        yield gauges("streamfl_missed_rounds", "Rounds in a row without an update of the client.", "client", missed)

    def _of_messages(self) -> Iterator[Measure]:
        counts = self._counts
        yield counter("streamfl_updates_total", "Updates that were entered into the ledger.", counts["updates"])
        yield counter("streamfl_evictions_total", "Clients that were evicted.", counts["evicted"])
        late = self._counts["late"]
        yield counter("streamfl_late_messages_total", "Messages of clients that came too late for their round.", late)
        refused = self._refused.counts
        yield counters("streamfl_refused_total", "Messages of clients that were refused.", "reason", refused)
        by_client = self._refused_clients.counts
        yield counters("streamfl_refused_of_client_total", "Refused messages by client.", "client", by_client)
        way = {"up": float(self.bytes_read()), "down": float(self.bytes_published())}
        yield counters("streamfl_bytes_total", "Bytes of messages read and published.", "direction", way)

    def not_ready(self, machine: Coordinator) -> str | None:
        """Return why the coordinator is not ready: the federation has not begun, or learns nothing."""
        if machine.state.agreement is not None:
            return self.barren.reason
        return f"{machine.waiting_clients} of {machine.settings.min_clients} clients have joined"
