"""What a host measures: records of its clients, what it cannot use, and how far behind they are."""

from collections.abc import Iterator
from dataclasses import dataclass

from streamfl.live.host_node import HostNode
from streamfl.live.metrics.measures import Measure, counter, counters, gauge, gauges
from streamfl.live.metrics.rejected_labels import REASONS


@dataclass(frozen=True)
class HostMeasures:
    """The measures of a host."""

    node: HostNode  # its clients
    most_behind: int  # for how many rounds a client that has records may have learnt none of them

    def measured(self) -> Iterator[Measure]:
        """Yield all measures."""
        yield from self._of_clients()
        yield from self._of_records()
        yield from self._unusable()

    def _of_clients(self) -> Iterator[Measure]:
        node = self.node
        yield gauge("streamfl_round", "The round that follows the last closed one.", node.round + 1)
        yield gauge("streamfl_clients", "Clients that are assigned to this host.", len(node.nodes))
        yield gauge(
            "streamfl_failed_clients",
            "Clients that this host has stopped because of an error, which its log names.",
            len(node.failed),
        )
        pending = {name: float(one.machine.pending) for name, one in node.nodes.items()}
        yield gauges(
            "streamfl_pending_records", "Records that were read but are not in the ledger yet.", "client", pending
        )
        behind = {name: float(rounds) for name, rounds in self._behind().items()}
        yield gauges(
            "streamfl_behind_rounds", "Rounds since a record of the client was last learnt.", "client", behind
        )
        backlog = {name: float(messages) for name, messages in node.host.backlog().items()}
        yield gauges(
            "streamfl_backlog_messages", "Messages in the log that the host has not read yet.", "partition", backlog
        )

    def _of_records(self) -> Iterator[Measure]:
        totals = self.node.totals()
        results = {name: float(getattr(totals, name)) for name in ("accepted", "rejected")}
        what = "Records in the ledger, of the clients that this host runs now."
        yield Measure("streamfl_ledger_records", what, "gauge", tuple(({"result": k}, v) for k, v in results.items()))
        yield gauge("streamfl_waiting_records", "Records that wait for their labels.", totals.waiting)
        yield gauge("streamfl_expired_records", "Records whose label did not come in time.", totals.expired)
        labels = {name: float(getattr(totals, name)) for name in REASONS}
        what = "Rejected labels: without a record, for a record that had one, or for a rejected record."
        yield gauges("streamfl_rejected_labels", what, "why", labels)
        queued = {
            name: float(one.machine.intake.queued)
            for name, one in self.node.nodes.items()
            if one.machine.intake.awaited
        }
        what = "Labels that wait because the record of the first of them has not come."
        yield gauges("streamfl_waiting_labels", what, "client", queued)
        yield gauge("streamfl_out_of_period_records", "Records learnt in a later round.", totals.out_of_period)

    def _unusable(self) -> Iterator[Measure]:
        counts, machines = self.node.host.counts, [one.machine for one in self.node.nodes.values()]
        yield counter("streamfl_dead_letters_total", "Messages written as dead letters.", counts.dead_letters)
        unusable = {
            "unrouted": float(counts.unrouted),
            "late": float(counts.late),
            "ignored values": float(counts.ignored),
            "unknown categories": float(sum(counts.unknown.values())),
        }
        yield counters(
            "streamfl_noted_records_total", "Records that were used with a remark, by remark.", "remark", unusable
        )
        yield counter(
            "streamfl_foreign_messages_total",
            "Messages on the federation's topics that do not come from streamfl.",
            counts.foreign,
        )
        dropped = sum(machine.dropped for machine in machines)
        yield gauge("streamfl_dropped_messages", "Messages of the coordinator that could not be used.", dropped)
        over = sum(machine.over_budget for machine in machines)
        yield gauge("streamfl_updates_over_budget", "Updates larger than learning.bytes allows.", over)

    def _behind(self) -> dict[str, int]:
        """Return by client the rounds since its records were learnt; 0 without enough records for an update."""
        node = self.node
        min_records = node.settings.min_records
        return {
            name: node.round - node.learnt.get(name, node.round) if one.machine.pending >= min_records else 0
            for name, one in node.nodes.items()
        }

    def not_ready(self) -> str | None:
        """Return why the host is not ready: it has no clients, does not hear the coordinator, or is behind."""
        nodes = {name: one for name, one in self.node.nodes.items() if not one.finished}
        if not nodes and self.node.is_spare:
            return None
        if not nodes:
            return "no clients are assigned to it, and it has heard of none at other hosts"
        if failed := sorted(self.node.failed):
            return f"{len(failed)} clients have failed, {failed[0]} among them: the log has the reason"
        asking = sorted(name for name, one in nodes.items() if one.machine.accounted is None)
        if asking:
            return f"{len(asking)} clients have not joined, {asking[0]} among them: the coordinator has not answered"
        name, rounds = max(self._behind().items(), key=lambda one: one[1])
        if rounds > self.most_behind:
            return f"{name} has records, and nothing of them was learnt in {rounds} rounds"
        return None
