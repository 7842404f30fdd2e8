"""The coordinator as a service: what it logs, which clients it waits for, when it ends."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from structlog.testing import capture_logs
from unit.live.page import told
from unit.machines.script import answer, broadcast, coordinator, join, leave

from streamfl.errors import UsageError
from streamfl.live import coordinator as service
from streamfl.live.coordinator import QUIET, CoordinatorLog, CoordinatorService, serve_coordinator, summarising
from streamfl.live.identity import OPEN_TO_ALL
from streamfl.live.model_out import EVERY, ModelOut
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.settings.tables import Records
from streamfl.live.stopping import Stop
from streamfl.machines.coordinator.gate import admission
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.protocol.decisions import Refused
from streamfl.protocol.messages import (
    Ended,
    Leave,
    LocalDrift,
    Restarted,
    RoundClosed,
    RoundOpened,
    Served,
)
from streamfl.protocol.records import Span
from streamfl.run.model_file import ServedModel
from streamfl.run.report.lateness import REMEDY
from streamfl.run.settings import LearningSettings
from streamfl.run.summary import RoundSummary
from streamfl.runtime.nodes import CoordinatorNode
from streamfl.runtime.transport.memory import MemoryTransport
from streamfl.wire import messages, safe_file


class Federation:
    """A service on a transport in memory, driven by hand."""

    def __init__(self, machine=None, *, until_end=False):
        self.transport = MemoryTransport()
        self.machine = machine or coordinator(min_clients=2)
        self.log = CoordinatorLog()
        node = CoordinatorNode(self.machine, self.transport.coordinator(), summarising(self.log.take))
        self.stop = Stop()
        self.service = CoordinatorService(node, self.log, self.stop, until_end)
        self.received = self.transport.client("observer")

    def step(self, now, *messages):
        """Hand over messages, take a turn, and return what was logged."""
        for message in messages:
            self.received.send(message)
        with capture_logs() as logged:
            self.service.step(now)
        return logged

    def begun(self, now=0.0):
        """Let two clients join, and return the opening of round 1."""
        self.step(now, join("c0"), join("c1"))
        return next(message for message in self.received.receive() if isinstance(message, RoundOpened))


def one_bad(opened, client):
    """The update of three good records and a bad one."""
    return answer(opened, client, records=3, rejected=1, spans=(Span(client, 0, 4),))


def warnings(logged):
    return [line for line in logged if line["log_level"] == "warning" and line["event"] != OPEN_TO_ALL]


class TestWaiting:
    def test_waiting_for_clients_to_join_is_logged_with_their_number(self):
        federation = Federation()
        federation.step(0.0, join("c0"))
        assert warnings(federation.step(QUIET - 0.1)) == []
        (warning,) = warnings(federation.step(QUIET))
        assert warning == {
            "event": "waiting for clients to join",
            "joined": 1,
            "expected": 2,
            "seconds": 30,
            "log_level": "warning",
        }

    def test_waiting_for_updates_is_logged_with_the_clients(self):
        federation = Federation()
        opened = federation.begun()
        federation.step(1.0, answer(opened, "c0"))
        (warning,) = warnings(federation.step(QUIET))
        assert (warning["event"], warning["round"], warning["clients"], warning["more"]) == (
            "waiting for updates",
            1,
            ["c1"],
            0,
        )

    def test_waiting_for_scores_after_an_alarm_is_logged_with_the_clients(self):
        federation = Federation()
        opened = federation.begun()
        for t in range(11):  # the last round loses much more than those before
            said = (
                answer(opened, name, loss=0.7 if t == 10 else 0.2, records=100, start=100 * t)
                for name in ("c0", "c1")
            )
            federation.step(1.0 + t, *said)
            opened = next(
                (message for message in federation.received.receive() if isinstance(message, RoundOpened)), opened
            )
        assert federation.machine.is_scoring
        (warning,) = warnings(federation.step(12.0 + QUIET))
        assert (warning["event"], warning["clients"]) == ("waiting for scores", ["c0", "c1"])

    def test_waiting_for_a_client_with_refused_updates_is_logged_with_the_reason(self):
        federation = Federation()
        opened = federation.begun()
        wrong = answer(opened, "c1", registry=7)
        federation.step(1.0, answer(opened, "c0"), wrong)
        (warning,) = warnings(federation.step(QUIET))
        assert warning["clients"] == ["c1 (late: the update uses another version of the registry)"]

    def test_waiting_is_logged_ever_more_rarely(self):
        federation = Federation()
        federation.begun()
        moments = [now for now in range(400) if warnings(federation.step(float(now)))]
        assert moments == [30, 90, 270]

    def test_the_time_of_waiting_starts_again_with_every_entry(self):
        federation = Federation()
        opened = federation.begun()
        federation.step(QUIET)
        federation.step(QUIET + 1, answer(opened, "c0"), answer(opened, "c1"))
        assert federation.machine.state.round == 2
        assert warnings(federation.step(2 * QUIET)) == []
        (warning,) = warnings(federation.step(2 * QUIET + 1))
        assert (warning["round"], warning["clients"], warning["seconds"]) == (2, ["c0", "c1"], 30)

    def test_the_time_of_waiting_for_updates_starts_when_the_first_round_opens(self):
        federation = Federation()
        federation.step(0.0)
        federation.step(100.0, join("c0"))
        federation.begun(now=110.0)
        assert warnings(federation.step(139.0)) == []
        (warning,) = warnings(federation.step(140.0))
        assert (warning["event"], warning["seconds"]) == ("waiting for updates", 30)

    def test_a_timed_round_waits_for_updates_from_when_clients_close_their_buffers(self):
        federation = Federation(coordinator(2, interval=60.0, deadline=50.0))
        federation.begun(now=10.0)
        assert warnings(federation.step(99.0)) == []
        (warning,) = warnings(federation.step(100.0))
        assert (warning["event"], warning["seconds"]) == ("waiting for updates", 30)

    def test_waiting_for_a_client_whose_last_update_was_too_late_says_so(self):
        federation = Federation()
        opened = federation.begun()
        late = answer(opened, "c1")
        federation.step(1.0, answer(opened, "c0"), late)
        federation.step(2.0, late)
        (warning,) = warnings(federation.step(1.0 + QUIET))
        assert warning["clients"] == ["c0", "c1 (late: its round is closed already)"]

    def test_waiting_for_many_clients_names_the_first_ten(self):
        federation = Federation(coordinator(min_clients=13))
        federation.step(0.0, *(join(f"c{i:02}") for i in range(13)))
        (warning,) = warnings(federation.step(QUIET))
        assert (warning["clients"], warning["more"]) == ([f"c{i:02}" for i in range(10)], 3)


def put_out(federation):
    """Let c1 be refused until it is put out; return what was logged, and the open round."""
    opened, logged = federation.begun(), []
    for t in range(3):
        wrong = answer(opened, "c1", squared_norm=float("nan"))
        logged += federation.step(1.0 + 2 * t, wrong, answer(opened, "c0", start=4 * t))
        opened = next(m for m in reversed(federation.received.receive()) if isinstance(m, RoundOpened))
    return logged, opened


def test_a_client_that_moves_to_another_host_is_not_logged_as_joined_again_until_it_has_left():
    federation = Federation()
    logged = [
        *federation.step(0.0, join("c0"), join("c1")),
        *federation.step(1.0, join("c1", start=2)),
        *federation.step(2.0, leave("c1", start=2)),
        *federation.step(3.0, join("c1", start=3)),
    ]
    told = [(line["event"], line["client"]) for line in logged if line["event"] in {"joined", "left"}]
    assert told == [("joined", "c0"), ("joined", "c1"), ("left", "c1"), ("joined", "c1")]


class TestRefusals:
    def test_refusals_are_logged_with_the_reason_and_the_dead_letter(self):
        federation = Federation()
        opened = federation.begun()
        (line,) = warnings(federation.step(1.0, answer(opened, "c1", squared_norm=float("nan"))))
        logged_fields = {name: line[name] for name in ("event", "client", "reason", "dead_letter")}
        assert logged_fields == {
            "event": "refused",
            "client": "c1",
            "reason": "a norm is out of range",
            "dead_letter": True,
        }

    def test_a_message_that_only_comes_too_late_is_no_warning(self):
        federation = Federation()
        opened = federation.begun()
        late = answer(opened, "c1")
        federation.step(1.0, answer(opened, "c0"), late)
        (line,) = federation.step(2.0, late)
        assert (line["log_level"], line["event"], line["client"]) == ("info", "came too late", "c1")

    def test_the_entry_counts_messages_that_came_too_late_apart_from_those_that_were_refused(self):
        federation = Federation()
        opened = federation.begun()
        late = answer(opened, "c1")
        federation.step(1.0, answer(opened, "c0"), late)
        federation.step(2.0, late, late)
        opened = next(m for m in federation.received.receive() if isinstance(m, RoundOpened) and m.round == 2)
        federation.step(3.0, answer(opened, "c0", start=4), answer(opened, "c1", start=4))
        closed = [m for m in federation.received.receive() if isinstance(m, RoundClosed)]
        assert [(one.entry, one.refused, one.late) for one in closed] == [(2, 2, 2)]
        summary = RoundSummary.of(closed[0])
        assert (summary.refused, summary.remarks()) == (0, {"late": "2 too late"})

    def test_that_most_clients_come_too_late_again_and_again_is_a_warning_with_what_to_do(self):
        log, said = CoordinatorLog(), []
        for entry, late in enumerate((20, 1, 20, 20, 20, 0, 0, 0, 20, 20, 20), start=1):
            with capture_logs() as logged:
                log.take(RoundSummary.of(told.closed(entry, [("c0", 10)], refused=late, late=late)))
            said += [(entry, line["reason"]) for line in warnings(logged)]
        assert [entry for entry, _ in said] == [4, 11]
        assert said[0][1] == f"in 3 of the last 4 rounds more updates came too late than in time; {REMEDY}"

    def test_an_evicted_client_is_logged_with_the_reason_and_named_while_it_waits(self):
        federation = Federation()
        logged, _ = put_out(federation)
        (line,) = [line for line in logged if line["log_level"] == "error"]
        assert (line["event"], line["client"], line["entry"]) == ("evicted", "c1", 3)
        assert line["reason"] == "evicted, refused for 3 entries in a row: a norm is out of range"
        (waiting,) = warnings(federation.step(QUIET + 5.0))
        assert (waiting["clients"], waiting["evicted"]) == (["c0"], ["c1"])

    def test_a_coordinator_ends_without_evicted_clients_and_logs_them(self):
        federation = Federation(until_end=True)
        put_out(federation)
        assert not federation.service.finished
        federation.step(9.0, Leave(client="c0", nonce="i1"))
        assert federation.service.finished
        with capture_logs() as logged:
            service._close(federation.machine, federation.log.bytes_a_record)
        warning, ended = logged
        assert (warning["event"], warning["clients"]) == ("records of evicted clients are pending", ["c1"])
        assert (ended["accepted"], ended["refused"]) == (12, 3)

    def test_invented_names_are_forgotten(self):
        log = CoordinatorLog()
        with capture_logs():
            for i in range(service.MOST_REFUSALS + 5):
                log.take(Refused(f"x{i}", "junk", is_fault=True))
        assert len(log._refusals) == service.MOST_REFUSALS


class TestLog:
    def test_that_names_of_a_client_have_to_wait_is_logged_once(self):
        machine, log = SimpleNamespace(waiting_names={"c1": 7}), CoordinatorLog()
        with capture_logs() as logged:
            log.names(machine)
            log.names(machine)
        (warning,) = logged
        assert (warning["event"], warning["client"], warning["names"]) == ("new names have to wait", "c1", 7)
        assert 'schema = "closed"' in warning["remedy"]

    def test_the_bytes_of_a_record_are_logged_every_hundred_entries(self):
        log = CoordinatorLog(lambda: 3000, lambda: 500)
        closed = RoundClosed(
            entry=99, round=99, epoch=1, block=0, accepted=(), records=100, trained=100, rejected=0, losses={},
            serves="m", readings={}, served=Served(), model="", registry=1,
        )  # fmt: skip
        with capture_logs() as logged:
            summarising(log.take)(closed)
            summarising(log.take)(replace(closed, entry=100))
        (told,) = [line for line in logged if line["event"] == "bytes per record"]
        assert (told["up"], told["down"], told["raw"]) == (15.0, 2.5, 0.0)

    def test_a_refusal_is_logged_once_for_the_same_reason(self):
        log = CoordinatorLog()
        with capture_logs() as logged:
            for reason in ("a", "a", "b", "b"):
                log.take(Refused("c0", reason))
        assert [line["reason"] for line in logged] == ["a", "b"]

    def test_a_refusal_is_over_when_an_update_counts(self):
        federation = Federation()
        opened = federation.begun()
        federation.step(1.0, answer(opened, "c1", registry=7))
        federation.step(2.0, answer(opened, "c0"), answer(opened, "c1"))
        (warning,) = warnings(federation.step(QUIET + 2.0))
        assert warning["clients"] == ["c0", "c1"]

    def test_a_round_is_logged_with_its_counts(self):
        federation = Federation()
        opened = federation.begun()
        logged = federation.step(1.0, answer(opened, "c0"), one_bad(opened, "c1"))
        (closed,) = [line for line in logged if line["event"] == "round"]
        logged_fields = {
            name: closed[name] for name in ("round", "epoch", "entry", "clients", "records", "rejected", "loss")
        }
        assert logged_fields == {
            "round": 1,
            "epoch": 1,
            "entry": 1,
            "clients": 2,
            "records": 7,
            "rejected": 1,
            "loss": 0.3,
        }

    def test_restarts_are_logged_with_their_cause(self):
        log = CoordinatorLog()
        with capture_logs() as logged:
            log.take(
                Restarted(
                    round=31, epoch=2, cause="glr", statistic=113.84, threshold=11.7, chosen="scratch", since=30
                )
            )
            log.take(
                LocalDrift(
                    round=9,
                    epoch=1,
                    clients=("c3",),
                    labels=(),
                    since=8,
                    state="latched",
                    statistic=11.0,
                    threshold=9.2,
                )
            )
        assert [(line["event"], line["log_level"]) for line in logged] == [
            ("restart", "warning"),
            ("local drift", "warning"),
        ]
        assert (logged[0]["cause"], logged[0]["statistic"], logged[1]["clients"]) == ("glr", 113.84, ["c3"])
        assert (logged[0]["since"], logged[0]["positions"]) == (30, {})
        assert logged[0]["online_models_begin_again"] is False
        assert not {"time", "since_time", "known_since", "drift"} & logged[0].keys()

    def test_findings_are_logged_with_when_and_where(self):
        log = CoordinatorLog()
        with capture_logs() as logged:
            log.take(
                LocalDrift(
                    round=90,
                    epoch=1,
                    clients=("c3",),
                    since=8,
                    state="latched",
                    statistic=11.0,
                    threshold=9.2,
                    positions={f"p{i:02}": (10 * i, 10 * i + 5) for i in range(12)},
                    times=(1_700_000_000_000, 1_700_000_060_000),
                    known_since=59,
                    drift=7,
                    behind=4,
                )
            )
        (line,) = logged
        assert (line["since"], line["known_since"], line["drift"], line["behind"]) == (8, 59, 7, 4)
        assert (line["since_time"], line["time"]) == ("2023-11-14T22:13:20Z", "2023-11-14T22:14:20Z")
        assert (len(line["positions"]), line["positions"]["p09"]) == (10, [90, 95])


def leaving(*names):
    return [Leave(client=name, nonce="i1") for name in names]


class TestTheEnd:
    def test_the_end_comes_when_all_clients_have_left_if_that_is_wanted(self):
        federation = Federation(until_end=True)
        federation.begun()
        federation.step(1.0, *leaving("c0"))
        assert not federation.service.finished
        federation.step(1.0, *leaving("c1"))
        assert federation.service.finished

    def test_the_end_is_published_after_all_else(self):
        federation = Federation(until_end=True)
        federation.begun()
        federation.step(1.0, *leaving("c0", "c1"))
        assert federation.received.receive()[-1] == Ended(entry=1)

    def test_the_end_does_not_come_while_a_client_has_joined_after_the_last_has_left(self):
        federation = Federation(until_end=True)
        federation.begun()
        federation.step(1.0, *leaving("c0", "c1"), join("c2"))
        assert not federation.service.finished
        assert not any(isinstance(message, Ended) for message in federation.received.receive())
        federation.step(2.0, *leaving("c2"))
        assert federation.service.finished

    def test_the_end_does_not_come_when_all_have_left_unless_wanted_and_clients_may_come_back(self):
        federation = Federation()
        federation.begun()
        federation.step(1.0, *leaving("c0", "c1"))
        assert not federation.service.finished
        federation.step(2.0, join("c0", start=2))
        assert federation.machine.present == {"c0"}

    def test_the_end_comes_when_the_coordinator_is_stopped(self):
        federation = Federation()
        federation.begun()
        federation.stop.requested = True
        federation.step(1.0)
        assert federation.service.finished


class Link:
    """The link of a service in memory; when nothing has come for a while, the process is stopped."""

    def __init__(self, transport, stop, sent=()):
        self.inner, self.stop, self.idle, self.closed = transport.coordinator(), stop, 0, False
        self.bytes_read = self.bytes_written = 0
        self.outside = transport.client("outside")
        for message in sent:
            self.outside.send(message)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def receive(self):
        arrived = self.inner.receive()
        self.bytes_read += sum(len(messages.encode(message)) for message in arrived)
        return arrived

    def publish(self, published):
        self.bytes_written += sum(messages.size_on_log(message, messages.encode(message)) for message in published)
        self.inner.publish(published)

    def commit(self, published, state):
        self.publish(published)
        self.inner.commit((), state)

    def ends(self, partitions):
        return dict.fromkeys(partitions)

    def log_ids(self, partitions):
        return dict.fromkeys(partitions)

    def listen(self, seconds):
        self.idle += 1
        self.stop.requested = self.idle > 3

    def close(self):
        self.closed = True


class Connector:
    def __init__(self, link):
        self.link, self.prepared = link, False

    def prepare(self):
        self.prepared = True

    def coordinator(self, placement, records, delayed_labels=None, wrong=None):
        assert placement.topics == ("r",)
        assert records.stride == 1
        assert self.prepared, "topics must be there before the link is made"
        return self.link


@pytest.fixture
def settings():
    return FederationSettings(
        federation={"name": "f", "min_clients": 2, "scaling": False},
        rounds={"clock": "records", "deadline": 0},
        learning={"features": "rounds"},
        records=Records(topics=("r",), clients="partition"),  # in memory a partition has the name of its client
    )


def serve(settings, link, **more):
    with capture_logs() as logged:
        serve_coordinator(settings, Connector(link), link.stop, until_end=False, **more)
    assert link.closed
    return logged


class TestProcess:
    def test_a_coordinator_begins_a_federation_and_continues_it_when_it_is_restarted(self, settings):
        transport = MemoryTransport(durable=True)
        first = serve(settings, Link(transport, Stop(), [join("c0"), join("c1")]))
        assert first[0]["event"] == "a new federation"
        assert first[1]["event"] == "equal bytes"
        assert (first[2]["event"], first[2]["log_level"]) == (OPEN_TO_ALL, "warning")
        assert (first[1]["promised"], first[1]["because_of"]) == (not settings.unequal, list(settings.unequal))
        state = transport.coordinator().restore()
        opened = first_opening(settings, state)
        updates = [answer(opened, "c0"), one_bad(opened, "c1")]
        second = serve(settings, Link(transport, Stop(), updates))
        assert (second[0]["event"], second[0]["round"]) == ("resumed", 1)
        (ended,) = [line for line in second if line["event"] == "ended"]
        assert (ended["rounds"], ended["read"], ended["accepted"], ended["rejected"]) == (1, 8, 7, 1)
        assert len(ended["model_sha256"]) == 64
        state = transport.coordinator().restore()
        state.profile.epoch = 4
        transport.coordinator().commit([], state)
        third = serve(settings, Link(transport, Stop()))
        assert third[-1]["restarts"] == 3  # those before this process, too
        assert third[-1]["model_sha256"] == ended["model_sha256"]
        assert third[-1]["read"] == 8

    def test_a_message_that_raises_before_the_first_commit_is_refused_and_ends_nothing(self, settings, monkeypatch):
        monkeypatch.setattr(admission, "wrong_introduction", lambda *_: 1 / 0)
        transport = MemoryTransport(durable=True)
        logged = serve(settings, Link(transport, Stop(), [join("c0"), join("c1")]))
        assert (logged[-1]["event"], logged[-1]["refused"], logged[-1]["rounds"]) == ("ended", 2, 0)
        reason = "could not be handled: ZeroDivisionError: division by zero"
        assert {line["reason"] for line in warnings(logged)} == {reason}

    def test_a_coordinator_asks_where_a_log_ends_and_refuses_positions_beyond(self, settings):
        transport = MemoryTransport(durable=True)
        link = Link(transport, Stop(), [join("c0"), join("c1")])
        serve(settings, link)
        opened = first_opening(settings, transport.coordinator().restore())
        link = Link(transport, Stop(), [answer(opened, "c0"), answer(opened, "c1")])
        link.ends = lambda partitions: dict.fromkeys(partitions, 3)
        logged = serve(settings, link)
        assert {line["reason"] for line in warnings(logged)} == {
            "positions of c0 beyond the end of its log",
            "positions of c1 beyond the end of its log",
        }

    def test_a_coordinator_that_never_began_ends_without_a_model(self, settings):
        logged = serve(settings, Link(MemoryTransport(durable=True), Stop()))
        assert (logged[-1]["event"], logged[-1]["model_sha256"], logged[-1]["read"]) == ("ended", None, 0)

    def test_a_coordinator_that_fails_closes_its_link(self, settings, monkeypatch):
        link = Link(MemoryTransport(), Stop())
        monkeypatch.setattr(service, "run", lambda *_: np.linalg.inv(np.zeros((1, 1))))
        with pytest.raises(np.linalg.LinAlgError):
            serve_coordinator(settings, Connector(link), link.stop, until_end=False)
        assert link.closed


class TestModelFile:
    @pytest.fixture
    def out(self, settings, tmp_path):
        return ModelOut(tmp_path / "model.safetensors", settings)

    def round_of(self, federation, opened, now, start):
        federation.step(now, answer(opened, "c0", start=start), answer(opened, "c1", start=start))
        return next(message for message in federation.received.receive() if isinstance(message, RoundOpened))

    def test_the_model_file_is_written_at_the_end_with_what_it_learnt_from(self, settings, tmp_path):
        transport, path = MemoryTransport(durable=True), tmp_path / "model.safetensors"
        serve(settings, Link(transport, Stop(), [join("c0"), join("c1")]), model_out=path)
        assert ServedModel.load(path).provenance.records == 0
        opened = first_opening(settings, transport.coordinator().restore())
        sent = [answer(opened, "c0"), one_bad(opened, "c1")]
        logged = serve(settings, Link(transport, Stop(), sent), model_out=path)
        model = ServedModel.load(path)
        made = model.provenance
        assert (made.source, made.entry, made.epoch, made.rounds) == ("f", 1, 1, 1)
        assert (made.records, made.clients, made.measure, made.file, made.privacy) == (7, 2, "accuracy", None, "none")
        assert made.sha256 == model.sha256 == logged[-1]["model_sha256"]
        size = sum(len(messages.encode(update)) for update in sent)
        assert {"up": made.up, "down": made.down, "raw": made.raw} == logged[-1]["bytes"]
        assert (made.up, made.raw) == (round(size / 7, 1), 4.0)
        assert 10.0 < made.down < 1000.0
        assert json.loads(made.settings)["learning"]["features"] == "rounds"
        assert (model.label, model.labels, model.predict([{"x": 1.0}])) == ("label", ("a", "b"), ["a"])

    @pytest.mark.parametrize("sums", ["pooled", "masked"])
    def test_the_model_file_says_how_what_clients_send_is_protected(self, settings, tmp_path, sums):
        privacy = settings.privacy.model_copy(update={"secure_aggregation": sums})
        path = tmp_path / "model.safetensors"
        transport = MemoryTransport(durable=True)
        joins = [join("c0"), join("c1"), join("c2")]
        serve(settings.model_copy(update={"privacy": privacy}), Link(transport, Stop(), joins), model_out=path)
        assert ServedModel.load(path).provenance.privacy == sums

    def test_the_model_file_is_renewed_after_a_minute_in_which_rounds_were_closed(self, out):
        federation = Federation()
        federation.service.model = out
        opened = federation.begun(now=5.0)
        assert ServedModel.load(out.path).provenance.rounds == 0
        opened = self.round_of(federation, opened, 6.0, 0)
        assert ServedModel.load(out.path).provenance.rounds == 0
        self.round_of(federation, opened, 5.0 + EVERY, 4)
        assert ServedModel.load(out.path).provenance.rounds == 2
        out.path.unlink()
        federation.step(1000.0)  # no round since
        assert not out.path.exists()

    def test_a_model_file_that_cannot_be_written_is_logged_and_ends_nothing_before_the_end(self, out, monkeypatch):
        def full(*_, **__):
            raise UsageError("no space left")

        monkeypatch.setattr(safe_file, "write", full)
        federation = Federation()
        federation.service.model = out
        logged = federation.step(0.0, join("c0"), join("c1"))
        (line,) = [line for line in logged if line["log_level"] == "error"]
        assert (line["event"], line["reason"]) == ("model file not written", "no space left")
        with pytest.raises(UsageError):
            out.write(federation.machine, federation.log.bytes_a_record)

    def test_a_model_file_in_no_folder_or_of_a_river_model_is_refused_before_anything_begins(
        self, settings, tmp_path
    ):
        with pytest.raises(UsageError, match="no such folder"):
            serve_coordinator(settings, None, Stop(), until_end=False, model_out=tmp_path / "no" / "model")
        river = settings.model_copy(
            update={"learning": LearningSettings(model="river:naive_bayes.GaussianNB", features="rounds")}
        )
        with pytest.raises(UsageError, match="a model that is not streamfl's own"):
            ModelOut(tmp_path / "model", river)


def first_opening(settings, state):
    """The opening that a coordinator tells which goes on from a state."""
    (opened,) = broadcast(Coordinator(settings.coordinator_machine, state).start(0.0), RoundOpened)
    return opened
