"""One process that serves clients, on a transport in memory: they come and go, and nothing is counted twice."""

from dataclasses import replace

import numpy as np
import pytest
from structlog.testing import capture_logs
from unit.machines.script import LEARNER, cut, fetched, swapping

from streamfl.errors import UsageError
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.live.client import serve_clients
from streamfl.live.coordinator import CoordinatorLog, CoordinatorService
from streamfl.live.host_measures import HostMeasures
from streamfl.live.host_node import COMES_BACK, FOR_GOOD, SETTLE_EVERY, HostNode, nonce
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.settings.tables import Records
from streamfl.live.stopping import Stop
from streamfl.machines.client.budget import Budget
from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.protocol.delayed import Half
from streamfl.protocol.messages import (
    Ended,
    Join,
    Joined,
    Leave,
    Left,
    LocalDrift,
    ModelPublished,
    Refusal,
    Restarted,
)
from streamfl.protocol.records import Batch, Span
from streamfl.runtime.clock import ManualClock
from streamfl.runtime.loop import run
from streamfl.runtime.nodes import CoordinatorNode
from streamfl.runtime.ports import ClientProgress, ReadingCounts
from streamfl.runtime.transport.memory import MemoryTransport

SIZE = 10
SETTINGS = ClientSettings(learner=LEARNER, round_size=SIZE, retry=1.0)


class Partition:
    """The records of a client as one process reads them: `streamfl.runtime.ports.Source`, with a count of its own."""

    def __init__(self, name, records, *, ends=True):
        self.name, self.records, self.ends = name, records, ends
        self.at = self.first = 0
        self.fails_at = None

    @property
    def ended(self):
        return self.ends and self.at >= self.records.span.end

    @property
    def read(self):
        """How many records, good and bad, lie before where it is."""
        before = self.records.before(self.at)
        return before.read

    def poll(self, limit):
        if self.fails_at is not None and self.at >= self.fails_at:
            self.fails_at = None
            raise UsageError("its records were deleted")
        left = self.records.after(self.at)
        if not left.read or limit < 1:
            return ()
        batch = cut(self.records, self.at, min(self.at + limit, self.records.span.end))
        self.at = batch.span.end
        return (batch,)

    def seek(self, positions):
        self.at = positions.get(self.name, self.at)

    def fetch(self, positions):
        return (fetched(self.records, positions[self.name]),) if self.name in positions else ()


class Host:
    """Links of a transport in memory; which clients are here is said by the test."""

    def __init__(self, transport, **here):
        self.transport = transport
        self.counts = ReadingCounts(unrouted=1, late=2, dead_letters=3, foreign=4, ignored=5, unknown={"kind": 6})
        self.here = dict(here)
        self.dropped, self.settled = [], []
        self.closed = False
        self.inbox = []

    def poll_clients(self):
        return dict(self.here)

    def link(self, client):
        return self.transport.client(client)

    def drop(self, client):
        self.dropped.append(client)

    def receive(self):
        arrived, self.inbox = self.inbox, []
        return arrived

    is_divided = True

    def backlog(self):
        return {"r.c0/0": 7}

    def settle(self, progress):
        self.settled.append(dict(progress))

    def listen(self, seconds):
        pass

    def close(self):
        self.closed = True


class Halves:
    """Features and labels of a client, each by its key: `streamfl.runtime.ports.DelayedSource`."""

    ended = features_ended = features_next = False

    def __init__(self, written=1_000, *, features="a", labels="ba"):
        n = len(features)
        half = Half("features", np.array(list(features), dtype=object), np.zeros(n, np.int64))
        asked = Batch(Span("f", 0, n), np.arange(n), ("x",), np.ones((n, 1)), np.zeros(n), half=half)
        n = len(labels)
        half = Half("labels", np.array(list(labels), dtype=object), np.array([written, *[2_000] * (n - 1)]))
        told = Batch(Span("l", 0, n), np.arange(n), (), np.zeros((n, 0)), np.zeros(n), ("yes",), half=half)
        self.batches = [asked, told]

    def poll_halves(self, labels, features, *, waits=False):
        return [self.batches.pop(0)] if self.batches else []

    def poll(self, limit):
        return self.poll_halves(limit, limit)

    def seek(self, positions, needed=None):
        pass

    def fetch(self, positions):
        return ()


class Inboxes:
    """The inboxes of several starts of one client."""

    def __init__(self, inboxes):
        self.inboxes = inboxes

    def append(self, message):
        for inbox in self.inboxes:
            inbox.append(message)


class Federation:
    """A coordinator and hosts, with a clock that is moved by hand."""

    def __init__(self, names=("c0", "c1"), *, rounds=4, ends=True):
        self.transport = MemoryTransport()
        self.records = {name: swapping(name, rounds, size=SIZE) for name in names}
        self.ends = ends
        settings = CoordinatorSettings(learner=LEARNER, min_clients=len(names))
        machine, link = Coordinator(settings, CoordinatorState(Promotion())), self.transport.coordinator()
        self.coordinator = CoordinatorNode(machine, link, self.publish)
        self.clock = ManualClock(time=1000.0)
        self.nodes = []

    def publish(self, message):
        """Pass a message of the coordinator to every host."""
        for node in self.nodes:
            node.host.inbox.append(message)

    def deliver_to(self, client, *nodes):
        """Deliver what is told to a client to each host on which it has been started."""
        inboxes = [node.nodes[client].link.inbox for node in nodes]
        self.transport._to_clients[client] = Inboxes(inboxes)

    def partition(self, name):
        return Partition(name, self.records[name], ends=self.ends)

    def host(self, *names, until_end=True, stop_within=3.0):
        host = Host(self.transport, **{name: self.partition(name) for name in names})
        node = HostNode(host, SETTINGS, Stop(), stop_within, until_end)
        self.nodes.append(node)
        return node

    def run(self):
        run([*self.nodes, self.coordinator], self.clock)

    def turns(self, n):
        """Step all nodes some times, a hundredth of a second apart."""
        for _ in range(n):
            for node in (*self.nodes, self.coordinator):
                node.step(self.clock.now())
            self.clock.time += 0.01

    def ledger(self):
        """Return accepted and rejected records, by client."""
        members = self.coordinator.machine.state.members
        return {name: (member.accepted, member.rejected) for name, member in members.items()}

    def all_records(self):
        return {name: (len(records), len(records.rejected)) for name, records in self.records.items()}


class TestLateLabels:
    def test_a_label_that_waits_for_its_record_for_a_minute_is_told_once_with_what_it_waits_for(self):
        host = Host(MemoryTransport(), c0=Halves())
        host.answer = lambda answered: None
        node = HostNode(host, replace(SETTINGS, window=100), Stop(), 3.0, until_end=False)
        with capture_logs() as logs:
            for now in (0.0, 1.0, 2.0, 60.0, 62.0, 63.0):
                node.step(now)
        (said,) = [one for one in logs if one["event"] == "labels wait"]
        assert (said["client"], said["labels"], said["first"], said["key"]) == ("c0", 2, 0, "b")
        assert said["reason"] == "no record with this key among those read, up to position 1"
        assert said["until"] == "position 100, or a record from 1 on that was written after 1970-01-01T00:01:01Z"
        (waits,) = [one for one in HostMeasures(node, 1).measured() if one.name == "streamfl_waiting_labels"]
        assert waits.samples == (({"client": "c0"}, 2.0),)

    def test_a_label_that_waits_until_the_window_moves_is_told_with_that(self):
        host = Host(MemoryTransport(), c0=Halves(features="ab", labels="abc"))
        host.answer = lambda answered: None
        node = HostNode(host, replace(SETTINGS, window=1), Stop(), 3.0, until_end=False)
        with capture_logs() as logs:
            for now in (0.0, 1.0, 62.0, 124.0):
                node.step(now)
        (said,) = [one for one in logs if one["event"] == "labels wait"]
        assert said["until"] == "the round ends, which moves the window"

    def test_a_label_with_a_timestamp_that_is_no_date_ends_no_host(self):
        for written, number in ((10**15, "1000000000060"), (2**63 - 1, "9223372036854836")):
            host = Host(MemoryTransport(), c0=Halves(written))
            host.answer = lambda answered: None
            node = HostNode(host, replace(SETTINGS, window=100), Stop(), 3.0, until_end=False)
            with capture_logs() as logs:
                for now in (0.0, 62.0, 124.0):
                    node.step(now)
            (said,) = [one for one in logs if one["event"] == "labels wait"]
            assert said["until"].endswith(f"written after {number} seconds since 1970")


class TestClients:
    def test_every_record_of_every_client_is_learnt_once(self):
        federation = Federation(("c0", "c1", "c2"))
        federation.host("c0", "c1")
        federation.host("c2")
        federation.run()
        assert federation.ledger() == federation.all_records()

    def test_a_host_takes_clients_that_come_later(self):
        federation = Federation()
        node = federation.host("c0")
        federation.turns(5)
        assert set(node.nodes) == {"c0"}
        node.host.here["c1"] = federation.partition("c1")
        federation.run()
        assert federation.ledger() == federation.all_records()

    def test_a_host_waits_for_clients_that_are_on_their_way_to_it(self):
        federation = Federation(("c0",))
        node = federation.host("c0")
        node.host.is_divided = False  # the group takes a client from another host, which then ends
        federation.turns(100)
        assert federation.ledger() == federation.all_records()
        assert not node.finished
        node.host.here["c1"] = Partition("c1", swapping("c1", 4, size=SIZE), ends=False)
        node.host.is_divided = True
        federation.turns(10)
        assert "c1" in node.nodes
        assert not node.finished
        del node.host.here["c1"]
        federation.turns(2)
        assert node.finished

    @pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 11])
    def test_clients_that_move_to_another_host_continue_where_the_ledger_is(self, turns):
        federation = Federation(rounds=6)
        first, second = federation.host("c0", "c1"), federation.host(until_end=False)
        federation.turns(turns)
        del first.host.here["c1"]
        second.host.here["c1"] = federation.partition("c1")
        federation.turns(2)
        assert first.host.dropped.count("c1") == (1 if turns else 0)
        assert (set(first.nodes), set(second.nodes)) == ({"c0"}, {"c1"})
        second.until_end = True
        federation.run()
        assert federation.ledger() == federation.all_records()

    def test_clients_that_were_released_and_taken_again_start_again(self):
        federation = Federation(rounds=6)
        node = federation.host("c0", "c1")
        with capture_logs() as logged:
            federation.turns(6)
            before = node.nodes["c1"]
            node.host.here["c1"] = federation.partition("c1")
            federation.turns(3)
        assert [line["client"] for line in logged if line["event"] == "joined"] == ["c0", "c1", "c1"]
        assert node.nodes["c1"] is not before
        assert node.nodes["c1"].machine.incarnation > before.machine.incarnation
        federation.run()
        assert federation.ledger() == federation.all_records()

    def test_clients_that_had_left_begin_again_when_records_come_again(self):
        federation = Federation(rounds=2, ends=True)
        node = federation.host("c0", "c1", until_end=False)
        federation.turns(60)
        assert all(client.finished for client in node.nodes.values())
        partition = node.host.here["c1"]
        old = node.nodes["c1"]
        partition.records = federation.records["c1"] = swapping("c1", 3, size=SIZE)
        federation.turns(60)
        assert node.nodes["c1"] is not old
        assert federation.ledger() == federation.all_records()

    def test_a_client_that_is_evicted_is_logged_once_and_the_others_continue(self):
        federation = Federation(rounds=40)
        node = federation.host("c0", "c1")
        federation.turns(3)
        machine = node.nodes["c1"].machine
        evicted = Refusal(client="c1", incarnation=machine.incarnation, entry=3, reason="why", evicted=True)
        with capture_logs() as logs:
            node.nodes["c1"].handle(evicted, federation.clock.now())
            federation.turns(60)
        failures = [(log["client"], log["reason"]) for log in logs if log["event"] == "client failed"]
        assert failures == [("c1", "evicted: why")]
        assert list(node.failed) == ["c1"]
        assert node.nodes["c1"].machine is machine
        assert machine.pending > 0
        assert not node.nodes["c0"].finished

    def test_clients_that_drop_messages_log_it_ever_more_rarely_and_continue(self):
        federation = Federation(rounds=4)
        node = federation.host("c0", "c1")
        federation.turns(3)
        wrong = ModelPublished(slot="m", version=1, registry=1, weights=np.array([[np.nan]]))
        with capture_logs() as logs:
            for _ in range(10):
                node.nodes["c1"].handle(wrong, federation.clock.now())
        assert [log["dropped"] for log in logs if log["event"] == "message dropped"] == [1, 2, 4, 8]
        federation.run()
        assert federation.ledger() == federation.all_records()

    def test_clients_log_when_and_where_their_own_records_changed(self):
        federation = Federation(rounds=4)
        node = federation.host("c0", "c1")
        federation.turns(3)
        mine = sorted(node.nodes["c1"].machine.positions)
        told = {
            "round": 9,
            "epoch": 1,
            "since": 8,
            "statistic": 11.0,
            "threshold": 9.2,
            "positions": {"elsewhere": (1, 2), mine[0]: (30, 40)},
            "times": (1_700_000_000_000, 1_700_000_060_000),
            "known_since": 8,
            "drift": 9,
        }
        with capture_logs() as logs:
            node._log(LocalDrift(clients=("c1", "c9"), state="latched", **told))
            node._log(LocalDrift(clients=("c9",), state="latched", **told))
            node._log(Restarted(cause="excess", chosen="scratch", **told))
        assert [(log["event"], log.get("clients")) for log in logs] == [("local drift", ["c1"]), ("restart", None)]
        for log in logs:
            assert (log["since"], log["since_time"], log["drift"]) == (8, "2023-11-14T22:13:20Z", 9)
            assert log["positions"] == {mine[0]: [30, 40]}

    def test_clients_that_exceed_their_budget_log_it_ever_more_rarely_and_continue(self):
        federation = Federation(rounds=25)
        node = federation.host("c0", "c1")
        node.settings = replace(SETTINGS, budget=Budget(lambda update: 26, of_record=2.5))
        with capture_logs() as logs:
            federation.run()
        assert federation.ledger() == federation.all_records()
        told = [log for log in logs if log["event"] == "updates over budget" and log["client"] == "c1"]
        assert [log["times"] for log in told] == [1, 2, 4]  # 16 updates are there from round 20 on
        assert [(log["round"], log["bytes_a_record"], log["budget"]) for log in told] == [
            (20, 2.6, 2.5),
            (21, 2.6, 2.5),
            (23, 2.6, 2.5),
        ]


class TestFailing:
    def test_a_client_without_available_records_leaves_and_the_others_continue(self):
        federation = Federation(("c0", "c1", "c2"), rounds=4)
        node = federation.host("c0", "c1", "c2")
        lost = node.host.here["c1"]
        lost.fails_at, lost.ends = 2 * SIZE, False
        with capture_logs() as logged:
            federation.run()
        (line,) = [line for line in logged if line["event"] == "client failed"]
        assert (line["client"], line["reason"]) == ("c1", "its records were deleted")
        assert node.failed == {"c1": "its records were deleted"}
        all_records = federation.all_records()
        ledger = federation.ledger()
        assert {name: ledger[name] for name in ("c0", "c2")} == {name: all_records[name] for name in ("c0", "c2")}
        assert sum(ledger["c1"]) + node.nodes["c1"].machine.pending == lost.at == 2 * SIZE
        assert federation.coordinator.machine.present == set()

    def test_a_host_does_not_begin_a_failed_client_again(self):
        federation = Federation(ends=False)
        node = federation.host("c0", "c1", until_end=False)
        node.host.here["c1"].fails_at = SIZE
        federation.turns(80)
        assert node.nodes["c1"].finished
        before = node.nodes["c1"]
        federation.turns(80)
        assert node.nodes["c1"] is before

    def test_the_link_of_a_client_that_has_left_is_let_go(self):
        federation = Federation()
        node = federation.host("c0", "c1")
        federation.run()
        assert sorted(node.host.dropped) == ["c0", "c1"]


class TestIncarnations:
    def test_no_two_starts_have_the_same_nonce(self):
        assert len({nonce() for _ in range(100)}) == 100

    @pytest.mark.parametrize("turns", [1, 2, 3, 5])
    def test_of_two_hosts_of_one_client_the_later_start_goes_on(self, turns):
        federation = Federation(rounds=6)
        first = federation.host("c0", "c1")
        federation.turns(turns)
        second = federation.host("c1")
        with capture_logs() as logs:
            federation.turns(1)
            federation.deliver_to("c1", first, second)
            federation.turns(40)
        assert [log["client"] for log in logs if log["event"] == "client superseded"] == ["c1"]
        assert first.nodes["c1"].machine.superseded
        assert second.nodes["c1"].machine.incarnation > first.nodes["c1"].machine.incarnation
        assert federation.ledger() == federation.all_records()

    def test_a_client_whose_place_was_taken_is_started_again_later_if_it_is_still_here(self):
        federation = Federation(rounds=40)
        node = federation.host("c0", "c1")
        federation.turns(3)
        before = node.nodes["c1"].machine
        thief = Client(SETTINGS, "c1", "thief")
        thief._after = before.incarnation
        federation.transport._to_coordinator.append(thief._join())
        federation.turns(3)
        assert before.superseded
        federation.turns(20)
        assert node.nodes["c1"].machine is before
        federation.clock.time += COMES_BACK
        federation.turns(100)
        assert node.nodes["c1"].machine.incarnation == before.incarnation + 2
        assert federation.ledger() == federation.all_records()


class TestStopping:
    def test_a_stopped_host_ends_when_all_clients_have_left(self):
        federation = Federation(ends=False)
        node = federation.host("c0", "c1", until_end=False, stop_within=1000.0)
        federation.turns(6)
        node.stop.requested = True
        federation.run()
        assert node.finished
        assert federation.clock.now() < 1000.0 + 100.0
        assert federation.coordinator.machine.present == set()

    def test_updates_under_way_when_a_host_is_stopped_still_count(self):
        federation = Federation(ends=False)
        node = federation.host("c0", "c1", until_end=False, stop_within=1000.0)
        federation.turns(1)
        node.step(federation.clock.now())  # both updates of round 1 are under way
        assert federation.coordinator.machine.state.round == 1
        node.stop.requested = True
        federation.run()
        assert all(accepted >= SIZE for accepted, _ in federation.ledger().values())

    def test_a_stopped_host_ends_at_the_deadline_without_answers(self):
        federation = Federation(ends=False)
        node = federation.host("c0", "c1", until_end=False, stop_within=0.5)
        federation.turns(6)
        node.stop.requested = True
        now = federation.clock.now()
        node.step(now)
        assert not node.finished
        assert node.wakes_at == now + 0.5
        node.step(now + 0.499)
        assert not node.finished
        node.step(now + 0.5)
        assert node.finished

    def test_a_stopped_host_takes_no_more_clients(self):
        federation = Federation(ends=False)
        node = federation.host("c0", until_end=False)
        federation.turns(2)
        node.stop.requested = True
        node.host.here["c1"] = federation.partition("c1")
        federation.turns(2)
        assert set(node.nodes) == {"c0"}

    def test_each_client_of_a_stopped_host_leaves_once_per_patience(self):
        federation = Federation(ends=False)
        node = federation.host("c0", "c1", until_end=False)
        federation.turns(6)
        node.stop.requested = True
        for _ in range(5):
            node.step(federation.clock.now())
        sent = federation.transport.coordinator().receive()
        leaves = [message.client for message in sent if isinstance(message, Leave)]
        assert len(leaves) == len(set(leaves))

    def test_a_stopped_host_without_clients_ends_at_once(self):
        federation = Federation()
        node = federation.host(until_end=False)
        node.stop.requested = True
        node.step(1000.0)
        assert node.finished


class TestUntilTheEnd:
    def test_a_host_that_runs_until_the_end_waits_for_clients_to_come(self):
        federation = Federation()
        node = federation.host(until_end=True)
        node.step(1000.0)
        assert not node.finished

    def test_a_host_ends_with_the_federation_only_if_it_runs_until_the_end(self):
        federation = Federation(rounds=2)
        node, idle = federation.host("c0", "c1", until_end=False), federation.host(until_end=False)
        federation.turns(60)
        assert all(client.finished for client in node.nodes.values())
        for host in (node, idle):
            host.step(federation.clock.now() + FOR_GOOD)
            assert not host.finished

    @pytest.fixture
    def ended(self):
        """A federation after its coordinator has ended, and a host that never had a client."""
        federation = Federation(rounds=2)
        busy, idle = federation.host("c0", "c1"), federation.host()
        federation.turns(60)
        assert busy.finished
        assert not idle.finished
        return federation, idle

    def test_a_host_that_never_had_a_client_ends_with_the_federation(self, ended):
        federation, idle = ended
        run([idle], federation.clock)
        assert idle.finished
        assert 1000.0 + FOR_GOOD < federation.clock.now() < 1000.6 + FOR_GOOD

    @pytest.mark.parametrize("reads_again", [True, False])
    def test_clients_given_to_a_host_after_the_coordinator_has_ended_end_too(self, reads_again, ended):
        """Their new host reads the last records again, up to the mark of their end, or goes on behind that mark."""
        federation, idle = ended
        partition = idle.host.here["c0"] = federation.partition("c0")
        if not reads_again:
            partition.ends, partition.at = False, partition.records.span.end
        now = federation.clock.now()
        idle.step(now)
        assert set(idle.nodes) == {"c0"}
        assert not idle.finished
        idle.step(now + FOR_GOOD)
        assert idle.finished

    def test_a_host_does_not_end_while_a_client_has_records_that_continue(self, ended):
        federation, idle = ended
        partition = idle.host.here["c0"] = federation.partition("c0")
        partition.ends = False
        for late in (0.0, FOR_GOOD, 10 * FOR_GOOD):
            idle.step(federation.clock.now() + late)
            assert not idle.finished

    def test_a_host_does_not_wait_for_a_failed_client_though_its_records_continue(self, ended):
        federation, idle = ended
        lost = idle.host.here["c0"] = federation.partition("c0")
        lost.records, lost.ends, lost.fails_at = cut(lost.records, 0, SIZE), False, SIZE
        idle.host.here["c1"] = federation.partition("c1")  # it waits for the coordinator, which has ended
        now = federation.clock.now()
        for turn in range(4):
            idle.step(now + turn)
        assert (list(idle.failed), idle.finished) == (["c0"], False)
        assert idle.nodes["c0"].machine.pending == SIZE
        idle.step(now + FOR_GOOD)
        assert idle.finished

    def test_a_host_does_not_wait_for_an_evicted_client_of_another_host(self):
        federation = Federation(rounds=2)
        federation.host("c0", "c1")
        idle = federation.host()
        stranger = {"client": "stranger", "incarnation": 1, "entry": 1}
        federation.publish(Joined(**stranger, nonce="7f", positions={}, read=0))
        federation.publish(Refusal(**stranger, reason="why", evicted=True))
        federation.turns(60)
        idle.step(federation.clock.now() + FOR_GOOD)
        assert idle.finished

    def test_a_host_does_not_end_while_a_client_of_another_host_takes_part(self):
        federation = Federation(("c0", "c1"), rounds=2)
        federation.host("c0")
        other, idle = federation.host("c1"), federation.host()
        other.host.here["c1"].ends = False
        federation.turns(60)
        idle.step(federation.clock.now() + 2 * FOR_GOOD)
        assert not idle.finished
        other.host.here["c1"].ends = True
        federation.turns(20)
        idle.step(federation.clock.now() + FOR_GOOD)
        assert idle.finished


class EndingFederation(Federation):
    """One whose coordinator ends after its clients, as with `--until-end`, and can be begun again."""

    def __init__(self, names=("c0", "c1"), **more):
        super().__init__(names, **more)
        self.messages = []
        self.service = CoordinatorService(self.coordinator, CoordinatorLog(), Stop(), until_end=True)

    def publish(self, message):
        self.messages.append(message)
        super().publish(message)

    def turns(self, n):
        for _ in range(n):
            for node in (*self.nodes, self.service):
                if not node.finished:
                    node.step(self.clock.now())
            self.clock.time += 0.01

    def begin_again(self):
        """Begin a coordinator that continues from the state of the last one."""
        state = self.coordinator.machine.state
        machine = Coordinator(self.coordinator.machine.settings, state)
        self.coordinator = CoordinatorNode(machine, self.transport.coordinator(), self.publish)
        self.service = CoordinatorService(self.coordinator, CoordinatorLog(), Stop(), until_end=True)
        self.coordinator.start(self.clock.now())

    def late(self, *names):
        """Return a host that begins now: a log tells it first whether the coordinator has ended."""
        node = self.host(*names)
        if isinstance(self.messages[-1], Ended):
            node.host.inbox.append(self.messages[-1])
        return node

    def after(self, node, seconds):
        """Step a host at once and then after some seconds, and return whether it has finished."""
        node.step(self.clock.now())
        self.clock.time += seconds
        node.step(self.clock.now())
        return node.finished


class TestTheCoordinatorsEnd:
    @pytest.fixture
    def ended(self):
        federation = EndingFederation(rounds=2)
        busy = federation.host("c0", "c1")
        federation.turns(60)
        assert busy.finished
        assert federation.service.finished
        assert [type(message) for message in federation.messages[-2:]] == [Left, Ended]
        return federation

    @pytest.mark.parametrize("records", [True, False])
    def test_a_host_that_takes_a_client_just_before_the_end_knows_of_the_end(self, records):
        """The new client, whose records no mark ends, may ask to join; nothing answers it."""
        federation = EndingFederation(rounds=2)
        node = federation.host("c0", "c1")
        while not federation.service.finished:
            federation.turns(1)
        new = node.host.here["c9"] = Partition("c9", swapping("c9", 2, size=SIZE), ends=False)
        if not records:
            new.at = new.records.span.end
        with capture_logs() as logged:
            federation.turns(60)
        events = [(line["event"], line.get("client")) for line in logged]
        assert events[:3] == [("client taken", "c9"), ("left", "c0"), ("left", "c1")]
        assert bool(node.nodes["c9"].machine.pending) is records
        assert not node.finished
        assert not federation.after(node, FOR_GOOD - 1.0)
        assert federation.after(node, 1.0)

    @pytest.mark.parametrize("clients", [(), ("c0",), ("c0", "c1")])
    def test_a_host_that_begins_after_the_end_knows_of_the_end(self, clients, ended):
        node = ended.late(*clients)
        for partition in node.host.here.values():
            partition.ends = False  # its buffer fills before it reads the mark
        assert not ended.after(node, FOR_GOOD - 1.0)
        assert ended.after(node, 1.0)

    def test_the_coordinators_end_lets_clients_that_are_left_behind_leave(self, ended):
        node = ended.late("c0")
        node.host.here["c0"].ends = False
        assert ended.after(node, FOR_GOOD)
        sent = ended.transport.coordinator().receive()
        assert [type(message) for message in sent if message.client == "c0"][-2:] == [Join, Leave]

    def test_the_coordinators_end_is_over_when_a_coordinator_begins_again(self, ended):
        """With more records, whichever of host and coordinator begins first."""
        for name in ("c0", "c1"):
            ended.records[name] = swapping(name, 4, size=SIZE)
        node = ended.late("c0", "c1")
        ended.nodes.remove(node)
        ended.after(node, FOR_GOOD - 1.0)
        ended.nodes = [node]
        ended.begin_again()
        ended.turns(80)
        assert {name: sum(counts) for name, counts in ended.ledger().items()} == {
            "c0": 4 * SIZE + 1,
            "c1": 4 * SIZE + 1,
        }
        assert (node.finished, ended.service.finished) == (True, True)
        assert isinstance(ended.messages[-1], Ended)

    def test_a_host_finds_out_that_an_end_was_forged(self):
        federation = EndingFederation(("c0", "c1"), rounds=6, ends=False)
        node, idle = federation.host("c0", "c1"), federation.host()
        federation.turns(60)
        forged = Ended(entry=3)
        for client in node.nodes:
            federation.transport._to_clients[client].append(forged)
        federation.publish(forged)
        federation.turns(3)
        for host in (node, idle):
            assert not federation.after(host, 3 * FOR_GOOD)
        assert federation.coordinator.machine.present == {"c0", "c1"}

    def test_a_host_without_until_end_ignores_the_coordinators_end(self, ended):
        node = ended.late("c0")
        node.until_end = False
        assert not ended.after(node, 2 * FOR_GOOD)


class TestSettling:
    def test_a_host_reports_the_ledgers_next_positions_now_and_then(self):
        federation = Federation(ends=False, rounds=4)
        node = federation.host("c0", "c1", until_end=False)
        federation.turns(60)
        now = federation.clock.now() + SETTLE_EVERY
        node.step(now)
        node.host.settled.clear()
        for half in range(1, 9):
            node.step(now + half * SETTLE_EVERY / 2)
        assert len(node.host.settled) == 4
        machines = {name: client.machine for name, client in node.nodes.items()}
        expected = {name: ClientProgress(machine.positions, machine.pending) for name, machine in machines.items()}
        assert node.host.settled[-1] == expected
        assert all(client.positions[name] > 0 for name, client in expected.items())

    def test_a_host_reports_no_position_of_a_client_with_an_unknown_place(self):
        federation = Federation()
        node = federation.host("c0")
        node.step(1000.0)
        assert node.host.settled == [{}]


class TestAccounts:
    @pytest.mark.parametrize("turns", [1, 2, 3, 4, 5, 7, 9, 20, 80])
    def test_every_record_that_a_host_reads_is_accepted_rejected_or_pending(self, turns):
        federation = Federation(rounds=7, ends=False)
        node = federation.host("c0", "c1", until_end=False)
        federation.turns(turns)
        totals = node.totals()
        assert totals.read == sum(partition.read for partition in node.host.here.values()) > 0
        assert totals.read == totals.accepted + totals.rejected + totals.pending
        known = [federation.ledger().get(name, (0, 0)) for name in ("c0", "c1")]
        in_flight = 2 * SIZE  # what the last turn of the coordinator accepted, and the clients have not yet received
        assert 0 <= sum(accepted for accepted, _ in known) - totals.accepted <= in_flight

    def test_no_record_is_missed_of_a_client_that_asks_for_its_place(self):
        federation = Federation(rounds=7, ends=False)
        node = federation.host("c0", "c1")
        federation.turns(9)
        alone = node.totals()
        node.nodes["c1"].machine._ledger.lose()
        totals = node.totals()
        assert totals.unaccounted == 0
        assert 0 < totals.accepted < alone.accepted

    def test_a_host_has_no_pending_records_at_the_end(self):
        federation = Federation(rounds=7)
        node = federation.host("c0", "c1")
        federation.run()
        totals = node.totals()
        assert (totals.accepted, totals.rejected) == tuple(
            map(sum, zip(*federation.all_records().values(), strict=True))
        )
        assert totals.rejected > 0
        assert totals.pending == 0
        assert totals.read == totals.accepted + totals.rejected


class Connector:
    def __init__(self, host):
        self.made, self.prepared, self.named = host, False, None

    def prepare(self):
        self.prepared = True

    def host(self, name, placement, records, delayed_labels=None):
        assert self.prepared, "topics must be there before the host is made"
        self.named = (name, placement.topics)
        return self.made


class TestProcess:
    @pytest.fixture
    def settings(self):
        return FederationSettings(
            federation={"name": "f", "min_clients": 1},
            rounds={"clock": "records", "size": SIZE},
            learning={"features": "rounds"},
            records=Records(topics=("r.*",)),
            client={"host": "plant-7", "stop_within": 0.0},
        )

    def serve(self, settings, host, stop):
        with capture_logs() as logged:
            serve_clients(settings, connector := Connector(host), stop, until_end=False)
        assert connector.named == ("plant-7", ("r.*",))
        assert host.closed
        return logged

    def test_a_host_process_ends_with_its_accounts(self, settings):
        transport, stop = MemoryTransport(), Stop()
        host = Host(transport, c0=Partition("c0", swapping("c0", 4, size=SIZE), ends=False))
        host.listen = lambda seconds: setattr(stop, "requested", True)
        logged = self.serve(settings, host, stop)
        ended = logged[-1]
        assert ended["event"] == "ended"
        assert (ended["clients"], ended["read"], ended["pending"]) == (1, 2 * SIZE, 2 * SIZE)
        assert ended["read"] == ended["accepted"] + ended["rejected"] + ended["pending"]
        counts = {name: ended[name] for name in ("unrouted", "late", "dead_letters", "foreign", "ignored", "unknown")}
        assert counts == {
            "unrouted": 1, "late": 2, "dead_letters": 3, "foreign": 4, "ignored": 5, "unknown": {"kind": 6}
        }  # fmt: skip
        sent = transport.coordinator().receive()
        assert [type(message) for message in sent] == [Join, Leave]

    @pytest.mark.compiles
    def test_a_host_process_compiles_before_it_joins_its_group(self, settings, monkeypatch):
        begun = []
        monkeypatch.setattr(NativeOnlineModels, "at_client", lambda _: begun.append("compiled"))
        monkeypatch.setattr(Connector, "prepare", lambda _: begun.append("joined") or 1 / 0)
        learning = settings.learning.model_copy(update={"features": "auto"})
        with pytest.raises(ZeroDivisionError):
            serve_clients(
                settings.model_copy(update={"learning": learning}), Connector(None), Stop(), until_end=False
            )
        assert begun == ["compiled", "joined"]

    def test_a_client_that_failed_is_named_in_the_last_line_and_the_process_fails_at_its_end(self, settings):
        stop = Stop()
        lost = Partition("c0", swapping("c0", 4, size=SIZE), ends=False)
        lost.fails_at = 0
        host = Host(MemoryTransport(), c0=lost)
        host.listen = lambda seconds: setattr(stop, "requested", True)
        with (
            capture_logs() as logged,
            pytest.raises(UsageError, match=r"^1 of the clients failed: c0: its records were deleted$"),
        ):
            serve_clients(settings, Connector(host), stop, until_end=False)
        (ended,) = [line for line in logged if line["event"] == "ended"]
        assert (ended["failed"], ended["failed_clients"]) == (1, ["c0"])
        assert host.closed

    @pytest.mark.parametrize(("min_records", "warned"), [(1, 1), (2, 0)])
    def test_a_host_process_warns_if_single_records_may_be_sent(self, settings, min_records, warned):
        rounds = settings.rounds.model_copy(update={"min_records": min_records})
        settings = settings.model_copy(update={"rounds": rounds})
        logged = self.serve(settings, Host(MemoryTransport()), Stop(requested=True))
        assert [line["event"] for line in logged].count("single records may be sent") == warned

    @pytest.mark.parametrize(
        ("sums", "labels", "warned"),
        [("masked", "y", ["f.predictions"]), ("masked", "", []), ("pooled", "y", []), ("off", "y", [])],
    )
    def test_a_host_process_warns_if_answers_show_what_masks_hide(self, settings, sums, labels, warned):
        privacy = settings.privacy.model_copy(update={"secure_aggregation": sums})
        labels = settings.labels.model_copy(update={"topic": labels})
        settings = settings.model_copy(update={"privacy": privacy, "labels": labels})
        logged = self.serve(settings, Host(MemoryTransport()), Stop(requested=True))
        assert [line["topic"] for line in logged if line["event"] == "masks do not hide answers"] == warned

    def test_a_host_process_reports_its_positions_before_it_ends(self, settings):
        stop = Stop(requested=True)
        host = Host(MemoryTransport())
        self.serve(settings, host, stop)
        assert host.settled == [{}, {}]


def test_clients_that_have_not_worked_yet_first_take_what_has_come_meanwhile(monkeypatch):
    federation = Federation(ends=False)
    node, order = federation.host(), []
    node.host.here.update({name: federation.partition(name) for name in ("c0", "c1")})
    node.step(0.0)

    def worked(name, now):
        order.append((name, now))
        node.host.inbox.append(Left(client="somebody", nonce="i1"))
        return True

    for name, one in node.nodes.items():
        monkeypatch.setattr(one, "step", lambda now, name=name: worked(name, now))
    for now in (1.0, 2.0, 3.0):
        assert node.step(now)
    assert order == [("c0", 1.0), ("c1", 2.0), ("c0", 3.0)]
