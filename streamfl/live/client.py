"""`streamfl client`: one process that runs the clients assigned to it by the group of hosts."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from streamfl.errors import UsageError
from streamfl.live.host_measures import HostMeasures
from streamfl.live.host_node import HostNode
from streamfl.live.identity import warn_if_open
from streamfl.live.metrics.exposure import exposed, traced
from streamfl.live.own_models_out import OwnModelsOut
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.settings.single_records import warn_of_single_records
from streamfl.live.stopping import Stop
from streamfl.records.doubts.doubting import DoubtingOnce, Looks
from streamfl.runtime.clock import ListeningClock
from streamfl.runtime.loop import run
from streamfl.runtime.ports import Connector, Host, RecordFormat, silence_of

if TYPE_CHECKING:
    from streamfl.live.tracing.rounds import Spans

LOG = structlog.get_logger("streamfl.client")

# The most failed clients that are named in the last line.
MOST_NAMES = 10


def serve_clients(
    settings: FederationSettings,
    connector: Connector,
    stop: Stop,
    *,
    until_end: bool,
    records: RecordFormat | None = None,
    own_models_out: Path | None = None,
) -> None:
    """Run clients until stopped or, with `until_end`, until their records have ended.

    Parameters
    ----------
    records
        How messages hold records, if not as the settings say.
    own_models_out
        The folder to which it writes a file for each client, with what that client alone knows, every minute and at
        the end; None: none.

    Raises
    ------
    PeerError
        Another host of the same name has taken over, or the log does not answer.
    UsageError
        Topics do not fit; or, at the end, clients have failed, for example because their records were deleted before
        they were accepted.
    """
    LOG.info("equal bytes", promised=not settings.unequal, because_of=list(settings.unequal))
    warn_of_single_records(settings)
    own = None if own_models_out is None else OwnModelsOut(own_models_out, settings)
    warn_if_open(settings)
    machine = replace(settings.client_machine, waits=not until_end)
    if machine.learner.online is not None:
        machine.learner.online.at_client()  # loads or compiles its loops: a group would not wait for that
    connector.prepare()
    records = DoubtingOnce(records or settings.record_format, Looks(settings.field_map))
    host = connector.host(settings.client.host, settings.placement, records, settings.delayed_labels)
    clock = ListeningClock(host.listen)
    node = HostNode(host, machine, stop, settings.client.stop_within, until_end, settings.past)
    measures = HostMeasures(node, settings.telemetry.most_behind)
    try:
        with (
            exposed(settings, "client", measures.measured, measures.not_ready, partial(silence_of, host)) as turned,
            traced(settings, "client") as spans,
        ):
            node.turned = _turning(node, turned, spans)
            if own is not None:
                node.turned = _keeping(node, node.turned, own, clock)
            run([node], clock)
        node.settle()
        if own is not None:
            own.write(one.machine for one in node.nodes.values())
    finally:
        _close(node, host)
        host.close()
    if node.failed:
        reasons = "; ".join(f"{client}: {reason}" for client, reason in list(node.failed.items())[:MOST_NAMES])
        raise UsageError(f"{len(node.failed)} of the clients failed: {reasons}")


def _keeping(
    node: HostNode, turned: Callable[[], None], own: OwnModelsOut, clock: ListeningClock
) -> Callable[[], None]:
    """Return what the loop calls at each turn, where clients' own files are kept."""

    def turn() -> None:
        turned()
        own.keep((one.machine for one in node.nodes.values()), clock.now())

    return turn


def _turning(node: HostNode, turned: Callable[[], None], spans: "Spans | None") -> Callable[[], None]:
    """Return what the loop calls at each turn."""
    if spans is None:
        return turned
    from streamfl.live.tracing.rounds import HostTraces  # noqa: PLC0415  needs the extra traces

    traces = HostTraces(spans)

    def turn() -> None:
        turned()
        traces.step((name, one.machine.phase, one.machine.entry) for name, one in node.nodes.items())

    return turn


def _close(node: HostNode, host: Host) -> None:
    """Log how many records were read, accepted and rejected, and are pending."""
    totals, counts = node.totals(), host.counts
    if totals.unaccounted:
        LOG.error(
            "records unaccounted for",
            unaccounted=totals.unaccounted,
            remedy="please report this; it is a defect of streamfl",
        )
    LOG.info(
        "ended",
        clients=len(node.nodes),
        read=totals.read,
        accepted=totals.accepted,
        rejected=totals.rejected,
        pending=totals.pending,
        out_of_period=totals.out_of_period,
        waiting=totals.waiting,
        expired=totals.expired,
        unmatched=totals.unmatched,
        repeated=totals.repeated,
        unusable=totals.unusable,
        unrouted=counts.unrouted,
        late=counts.late,
        dead_letters=counts.dead_letters,
        foreign=counts.foreign,
        ignored=counts.ignored,
        unknown=counts.unknown,
        failed=len(node.failed),
        failed_clients=list(node.failed)[:MOST_NAMES],
    )
