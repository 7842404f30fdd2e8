"""The clients of one host, as one node of the loop: those that the group of hosts assigns to it."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from streamfl.errors import UsageError
from streamfl.live.joined_clients import JoinedClients
from streamfl.live.metrics.exposure import unwatched
from streamfl.live.metrics.rejected_labels import RejectedLabels
from streamfl.live.metrics.whereabouts import whereabouts
from streamfl.live.other_features import other_features
from streamfl.live.stopping import Stop
from streamfl.machines.client.intake.waiting import SLACK
from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.protocol.decisions import Answered, Dropped, OverBudget
from streamfl.protocol.messages import (
    Ended,
    FromCoordinator,
    Joined,
    Left,
    LocalDrift,
    Refusal,
    Restarted,
    RoundClosed,
    RoundOpened,
)
from streamfl.records.past_features import PastFeatures
from streamfl.records.past_source import SourceWithPast
from streamfl.records.values.cells import listed
from streamfl.records.values.times import iso
from streamfl.run.summary import late_labels
from streamfl.runtime.nodes import ClientNode
from streamfl.runtime.ports import ClientProgress, Host, Source
from streamfl.wire.masking import MaskKeys

LOG = structlog.get_logger("streamfl.client")

# Seconds between two commits of the group's offsets, which are only a hint.
SETTLE_EVERY = 5.0

# Seconds for which a label waits for its record before the log says so.
STANDS = 60.0

# Seconds after which a client is started again whose place another start has taken. If another host has been assigned
# the client, this one is told so before.
COMES_BACK = 30.0

# Seconds after all clients have left, or the coordinator has ended, until the federation counts as over. It is longer
# than a takeover, after which a client comes back if it has more records. A coordinator that begins again, or whose
# end was forged, speaks within it.
FOR_GOOD = 30.0


def nonce() -> str:
    """Return a random text: no two starts of clients have the same."""
    return secrets.token_hex(8)


@dataclass
class Totals:
    """Sums over this host's clients: records, or delayed labels, read = accepted + rejected + pending.

    `read` is counted where records are read, the others where they are entered into the ledger.
    `waiting` are records that have been answered and wait for their labels, `expired` those that were written off.
    `unmatched` are rejected labels without a record, `repeated` those of a record that had one, `unusable` those of a
    record that was rejected itself.
    `out_of_period`: with rounds by event time, records that were learnt in a later round than that of their period.
    """

    read: int = 0
    accepted: int = 0
    rejected: int = 0
    pending: int = 0
    out_of_period: int = 0
    waiting: int = 0
    expired: int = 0
    unmatched: int = 0
    repeated: int = 0
    unusable: int = 0

    @property
    def unaccounted(self) -> int:
        """Return how many more records were read than are accounted for: 0, unless there is a defect."""
        return self.read - self.accepted - self.rejected - self.pending

    def add(self, node: ClientNode) -> None:
        """Add the counts of a client."""
        machine = node.machine
        if machine.accounted is None:  # it has asked for its place: what the ledger has of its records is not known
            self.read += machine.pending
            self.pending += machine.pending
            return
        accounted = machine.accounted
        self.read += node.reading.total
        self.accepted += accounted - machine.rejected
        self.rejected += machine.rejected
        self.pending += machine.pending
        self.out_of_period += machine.late
        self.waiting += machine.intake.waiting
        self.expired += machine.expired
        unmatched, repeated, unusable = machine.unpaired
        self.unmatched += unmatched
        self.repeated += repeated
        self.unusable += unusable


@dataclass
class HostNode:
    """The clients of one process as one node of the loop; the group of hosts assigns and removes them."""

    host: Host  # the source of records and links
    settings: ClientSettings  # how the clients work
    stop: Stop  # set when the process is to end: every client then finishes its update in flight and leaves
    stop_within: float  # the most seconds that this takes

    # Whether to end when the records of all clients here have ended and are learnt. The node also ends when the
    # coordinator has ended, whatever its clients here have, or all clients of the federation have left for good and
    # none here has records: they would wait for ever.
    until_end: bool
    past: PastFeatures | None = None  # which features are made of the records before; None: none are
    nonce: Callable[[], str] = nonce  # returns a random text, which tells a start of a client from every other
    turned: Callable[[], None] = unwatched  # called at each turn of the loop
    nodes: dict[str, ClientNode] = field(default_factory=dict)
    # The clients that were stopped because their records are not available, with the reason. The others continue.
    failed: dict[str, str] = field(default_factory=dict)
    finished: bool = False
    round: int = 0  # the last closed round, 0 before the first
    # By client, the last closed round that has learnt records of it, or in which it was taken.
    learnt: dict[str, int] = field(default_factory=dict)
    _taking_part: set[str] = field(default_factory=set)
    _superseded: dict[str, float] = field(default_factory=dict)
    _refusals: set[str] = field(default_factory=set)
    _compared: set[str] = field(default_factory=set)
    _joined: JoinedClients = field(default_factory=JoinedClients)
    _rejected_labels: RejectedLabels = field(default_factory=RejectedLabels)
    _standing: dict[str, tuple[int | None, float, bool]] = field(default_factory=dict)
    _all_left_at: float | None = None
    _ended_at: float | None = None
    _deadline: float | None = None
    _settle_at: float = 0.0
    _turn: int = -1  # of the client that was stepped last

    def __post_init__(self) -> None:
        self.settings = replace(self.settings, learner=self.settings.learner.in_one_process())

    @property
    def wakes_at(self) -> float | None:
        """Return when the first client wants a Tick, or when the process is to end."""
        moments = [node.wakes_at for node in self.nodes.values() if not node.finished]
        moments += [self._deadline, self._ends_at, *(self._superseded[name] for name in self._that_come_back)]
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def _ends_at(self) -> float | None:
        """Return when the federation counts as over, None while it continues.

        It is over when the coordinator has ended, or when all clients have left, and none here has records.
        """
        if self.until_end and self._ended_at is not None:
            return self._ended_at + FOR_GOOD
        not_failed = (node for name, node in self.nodes.items() if name not in self.failed)
        has_records = any(node.machine.pending and not node.source.ended for node in not_failed)
        if not self.until_end or self._all_left_at is None or has_records:
            return None
        return self._all_left_at + FOR_GOOD

    def step(self, now: float) -> bool:
        """Step every client."""
        self._follow(self._sources(), now)
        heard = self._receive(now)
        self._begin_to_stop(now)
        busy = self._step_clients(now)
        for name, node in self.nodes.items():
            if node.machine.evicted and name not in self.failed:
                self._fail(name, node, f"evicted: {node.machine.evicted}")
            if node.machine.superseded and name not in self._superseded:
                LOG.warning("client superseded", client=name, reason="a later start of the same client joined")
                self._superseded[name] = now + COMES_BACK
            self._note_standing(name, node.machine, now)
        self._rejected_labels.log(now, self._complaint)
        self._settle(now)
        self.finished = self._is_over(now)
        self.turned()
        return busy or heard or self.finished

    def _sources(self) -> Mapping[str, Source]:
        """Read records, and return this host's clients with their sources."""
        hosted, past = self.host.poll_clients(), self.past
        if past is None:
            return hosted
        kept = {name: node.source for name, node in self.nodes.items() if isinstance(node.source, SourceWithPast)}
        return {
            name: kept[name] if name in kept and kept[name].source is source else SourceWithPast(source, past)
            for name, source in hosted.items()
        }

    def _receive(self, now: float) -> bool:
        """Take new messages; return whether there are any."""
        messages = self.host.receive()
        for message in messages:
            self._log(message)
            self._note(message, now)
        return bool(messages)

    def _step_clients(self, now: float) -> bool:
        """Step one client after another, beginning where the last step has ended; return whether one has worked.

        It ends when messages have come meanwhile: after these, the others' work may be of no use.
        """
        names = [name for name, node in self.nodes.items() if not node.finished]
        busy = False
        for _ in names:
            self._turn = (self._turn + 1) % len(names)
            name = names[self._turn]
            if self._step(name, self.nodes[name], now):
                busy = True
                if self._receive(now):
                    break
        return busy

    def _step(self, client: str, node: ClientNode, now: float) -> bool:
        """Step one client; if its records are not available, it leaves, and the others continue."""
        try:
            busy = node.step(now)
        except UsageError as error:
            self._fail(client, node, str(error))
            node.stop(now)
            busy = True
        if client not in self._compared:
            self._compare(client, node)
        if node.finished:
            self.host.drop(client)  # nothing reads its link from now on
        return busy

    def _compare(self, client: str, node: ClientNode) -> None:
        """Compare the features of a client that has just joined once with those that the federation knows."""
        registered = node.machine.registered
        if not registered or not (own := node.machine.features):
            return
        self._compared.add(client)
        found = other_features(own, registered)
        if found is not None:
            LOG.warning(
                "other features than the federation's",
                client=client,
                only_here=listed(found.unknown),
                missing_here=listed(found.lacking),
                remedy="give what means the same one name at all clients; what is missing counts as its mean",
            )

    def _fail(self, client: str, node: ClientNode, reason: str) -> None:
        LOG.error("client failed", client=client, reason=reason, pending=node.machine.pending)
        self.failed[client] = reason

    def _follow(self, hosted: Mapping[str, Source], now: float) -> None:
        """Start the clients that were assigned to this host, and drop those that were removed."""
        for client in [name for name, node in self.nodes.items() if hosted.get(name) is not node.source]:
            LOG.info("client released", client=client)
            self._compared.discard(client)
            for of in (self._superseded, self._standing, self.learnt):
                of.pop(client, None)
            if not self.nodes.pop(client).finished:
                self.host.drop(client)
        for client, source in hosted.items():
            restarts = client in self.nodes and self._may_come_back(client, self.nodes[client], now)
            if (client not in self.nodes or restarts) and not self.stop.requested:
                LOG.info("client taken", client=client)
                self._joined.forget(client)
                self._superseded.pop(client, None)
                machine = Client(self.settings, client, self.nonce(), self._secrets())
                self.nodes[client] = ClientNode(machine, source, self.host.link(client), self._observe)
                self.learnt[client] = self.round

    def _secrets(self) -> MaskKeys | None:
        """Return new keys for the masks and the noise of a start, if it sends sums."""
        return MaskKeys() if self.settings.secure_aggregation != "off" else None

    def _may_come_back(self, client: str, node: ClientNode, now: float) -> bool:
        """Tell whether a client has left and has records again; a failed client does not come back."""
        has_failed = client in self.failed or node.machine.evicted or now < self._superseded.get(client, now)
        return node.finished and not node.source.ended and not has_failed and not node.machine.has_too_few_peers

    @property
    def _that_come_back(self) -> list[str]:
        """Return the clients whose place another start has taken, and which have records."""
        return [name for name in self._superseded if not self.nodes[name].source.ended]

    def _observe(self, event: object) -> None:
        """Log a client's first unusable message, its first excess over its budget; then the 2nd, the 4th, ..."""
        match event:
            case Answered():
                self.host.answer(event)
            case Dropped(client, error):
                dropped = self.nodes[client].machine.dropped
                if dropped.bit_count() == 1:
                    LOG.warning("message dropped", client=client, reason=str(error), dropped=dropped)
            case OverBudget(client):
                over = self.nodes[client].machine.over_budget
                if over.bit_count() == 1:
                    LOG.warning(
                        "updates over budget",
                        client=client,
                        round=event.round,
                        bytes_a_record=round(event.bytes_per_record, 1),
                        budget=event.budget,
                        times=over,
                        remedy="raise learning.bytes, or make rounds larger",
                    )
            case _:
                pass

    def _begin_to_stop(self, now: float) -> None:
        if self.stop.requested and self._deadline is None:
            LOG.info("stopping", clients=len(self.nodes), within=self.stop_within)
            self._deadline = now + self.stop_within
            for node in self.nodes.values():
                node.stop(now)

    def _is_over(self, now: float) -> bool:
        done = all(node.finished or name in self.failed for name, node in self.nodes.items())
        if self._deadline is not None:
            return done or now >= self._deadline
        if self.until_end and done and self.nodes and not self._that_come_back and self.host.is_divided:
            return True
        over = self._ends_at is not None and now >= self._ends_at
        if over:
            self._leave_behind(now)
        return over

    def _leave_behind(self, now: float) -> None:
        """Let the other clients leave without an answer, or the next coordinator would wait for those that joined."""
        for client, node in self.nodes.items():
            if not node.finished:
                LOG.warning("client left behind", client=client, pending=node.machine.pending, reason="the end")
                node.stop(now)

    def _settle(self, now: float) -> None:
        if now >= self._settle_at:
            self._settle_at = now + SETTLE_EVERY
            self.settle()

    def settle(self) -> None:
        """Report the clients' progress to the group."""
        machines = {name: node.machine for name, node in self.nodes.items()}
        progress = {name: ClientProgress(m.needed, m.pending) for name, m in machines.items() if m.positions}
        self.host.settle(progress)

    def _note(self, message: FromCoordinator, now: float) -> None:
        """Note which clients take part, here or on another host, and whether the coordinator has ended."""
        match message:
            case Ended():
                self._ended_at = now if self._ended_at is None else self._ended_at
            case Joined() | Left() | Refusal() | RoundOpened() | RoundClosed():
                self._ended_at = None  # it continues, or another one does
        match message:
            case Joined():
                self._taking_part.add(message.client)
            case RoundClosed():
                self._taking_part.update(accepted.client for accepted in message.accepted)
                if message.round > self.round + 1:  # rounds that it has not heard say nothing of its clients
                    self.learnt = dict.fromkeys(self.learnt, message.round - 1)
                self.round = message.round
                here = (one.client for one in message.accepted if one.records and one.client in self.nodes)
                self.learnt.update(dict.fromkeys(here, message.round))
            case Left() | Refusal(evicted=True):
                self._taking_part.discard(message.client)
            case _:
                return
        self._all_left_at = None if self._taking_part else now

    @property
    def is_spare(self) -> bool:
        """Tell whether all clients that take part are on other hosts: it takes some if one of these ends."""
        return not self.nodes and bool(self._taking_part)

    @property
    def _partitions(self) -> set[str]:
        return {partition for node in self.nodes.values() for partition in node.machine.positions}

    def _log(self, message: FromCoordinator) -> None:
        match message:
            case RoundClosed():
                hosted = [accepted for accepted in message.accepted if accepted.client in self.nodes]
                self._rejected_labels.take(hosted)
                is_apart = any(accepted.watermark is not None for accepted in hosted)
                LOG.info(
                    "round",
                    round=message.round,
                    epoch=message.epoch,
                    entry=message.entry,
                    clients=len(hosted),
                    records=sum(accepted.records for accepted in hosted),
                    rejected=sum(accepted.rejected for accepted in hosted),
                    **({"waiting": self.totals().waiting, **late_labels(hosted)} if is_apart else {}),
                )
            case Restarted():
                where = whereabouts(message, self._partitions)
                LOG.warning("restart", round=message.round, epoch=message.epoch, cause=message.cause, **where)
            case LocalDrift() if drifted := [name for name in message.clients if name in self.nodes]:
                where = whereabouts(message, self._partitions)
                LOG.warning("local drift", round=message.round, clients=drifted, state=message.state, **where)
            case Joined() if message.client in self.nodes and not self._joined.is_known(message):
                LOG.info("joined", client=message.client, entry=message.entry, read=message.read)
            case Left() if message.client in self.nodes:
                LOG.info("left", client=message.client)
            case Refusal() if message.client in self.nodes and message.incarnation == 0:
                self._refused(message)
            case Ended():
                LOG.info("the coordinator has ended", entry=message.entry)
            case _:
                pass

    def _refused(self, refusal: Refusal) -> None:
        """Log once that somebody may not speak for a client: this host, or one who says that it is this client."""
        if refusal.client not in self._refusals:
            self._refusals.add(refusal.client)
            LOG.warning("refused in a client's name", client=refusal.client, reason=refusal.reason)

    def _complaint(self, client: str) -> str:
        return self.nodes[client].machine.intake.complaint if client in self.nodes else ""

    def _note_standing(self, client: str, machine: Client, now: float) -> None:
        """Log once of a label that it has waited for its record for long, and all labels after it."""
        awaited = machine.intake.awaited
        label, since, _ = self._standing.get(client, (None, now, False))
        if awaited is None:
            self._standing.pop(client, None)
        elif awaited.label != label:
            self._standing[client] = (awaited.label, now, False)
        elif now >= since + STANDS and not self._standing[client][2]:
            self._standing[client] = (label, since, True)
            after = None if awaited.written is None else iso((awaited.written + SLACK) / 1000.0)
            later = f", or a record from {awaited.near} on that was written after {after}" if after else ""
            is_read = awaited.read >= awaited.end
            LOG.warning(
                "labels wait",
                client=client,
                labels=machine.intake.queued,
                first=awaited.label,
                key=awaited.key,
                reason=f"no record with this key among those read, up to position {awaited.read}",
                until="the round ends, which moves the window" if is_read else f"position {awaited.end}{later}",
            )

    def totals(self) -> Totals:
        """Return the sums over this host's clients."""
        totals = Totals()
        for node in self.nodes.values():
            totals.add(node)
        return totals
