"""Metrics and health: what a process shows is what happened, and it is ready only if it can do its work."""

import json
import urllib.error
import urllib.request
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from asgi import call
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from unit.live import test_host_node as hosts
from unit.live.page import told
from unit.machines.script import answer, coordinator, join

from streamfl import __version__
from streamfl.errors import UsageError
from streamfl.live.coordinator import CoordinatorLog, summarising
from streamfl.live.coordinator_measures import CoordinatorMeasures
from streamfl.live.host_measures import HostMeasures
from streamfl.live.metrics.endpoint import EVERY, SLOW, STUCK, Endpoint
from streamfl.live.metrics.exposure import exposed
from streamfl.live.metrics.measures import (
    MOST_SAMPLES,
    OTHERS,
    Durations,
    Named,
    counter,
    counters,
    gauge,
    gauges,
    plain,
)
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.settings.tables import Records, Telemetry
from streamfl.protocol.decisions import Refused
from streamfl.protocol.messages import (
    InputsMoved,
    InputsStuck,
    LocalDrift,
    Noticed,
    Refusal,
    Restarted,
    RoundOpened,
    Score,
    Served,
    Watermark,
)
from streamfl.runtime.nodes import CoordinatorNode
from streamfl.runtime.ports import silence_of
from streamfl.runtime.transport.memory import MemoryTransport


def samples(measures):
    """Return measures as Prometheus reads them, by name and labels."""
    endpoint = Endpoint(lambda: measures, lambda: None, seconds=lambda: 0.0)
    endpoint.turn()
    return scraped(endpoint)


def scraped(endpoint, accept=""):
    reply = call(endpoint.app(), "GET", "/metrics", headers={"accept": accept})
    assert reply.status == 200
    families = list(text_string_to_metric_families(reply.body.decode()))
    found = [one for family in families for one in family.samples]
    ours = [one for one in found if one.name.startswith("streamfl_")]
    assert all("federation" in one.labels for one in ours)
    own = [sorted(value for name, value in one.labels.items() if name != "federation") for one in found]
    return {(one.name, *labels): one.value for one, labels in zip(found, own, strict=True)}


def test_durations_are_a_histogram_of_prometheus():
    durations = Durations()
    for seconds in (0.004, 0.004, 2.0, 4000.0):
        durations.add(seconds)
    found = samples([durations.measure("streamfl_d", "Seconds.")])
    assert found["streamfl_d_bucket", "0.003"] == 0
    assert found["streamfl_d_bucket", "0.01"] == 2
    assert found["streamfl_d_bucket", "1800"] == 3
    assert found["streamfl_d_bucket", "+Inf"] == found["streamfl_d_count",] == 4
    assert found["streamfl_d_sum",] == 4002.008


class TestEndpoint:
    def endpoint(self):
        self.now, self.reason, self.looks = 100.0, None, 0

        def measured():
            self.looks += 1
            yield gauge("streamfl_looks", "Looks.", self.looks)

        return Endpoint(measured, lambda: self.reason, seconds=lambda: self.now)

    def health(self, endpoint, path):
        reply = call(endpoint.app(), "GET", path)
        return reply.status, json.loads(reply.body).get("reason")

    def test_a_process_lives_and_is_not_ready_before_its_loop_has_turned(self):
        endpoint = self.endpoint()
        assert self.health(endpoint, "/live") == (200, None)
        assert self.health(endpoint, "/ready") == (503, "it has just started")
        assert scraped(endpoint)["streamfl_ready",] == 0.0

    def test_a_process_is_ready_as_its_loop_says(self):
        endpoint = self.endpoint()
        endpoint.turn()
        assert self.health(endpoint, "/ready") == (200, None)
        assert scraped(endpoint)["streamfl_ready",] == 1.0
        self.reason, self.now = "no clients", self.now + EVERY
        endpoint.turn()
        assert self.health(endpoint, "/ready") == (503, "no clients")
        assert self.health(endpoint, "/live") == (200, None)

    def test_a_loop_reads_its_measures_now_and_then(self):
        endpoint = self.endpoint()
        for _ in range(5):
            endpoint.turn()
        self.now += EVERY - 0.01
        endpoint.turn()
        assert scraped(endpoint)["streamfl_looks",] == self.looks == 1
        self.now += 0.01
        endpoint.turn()
        assert scraped(endpoint)["streamfl_looks",] == self.looks == 2

    def test_a_loop_that_turns_no_more_does_not_live(self):
        endpoint = self.endpoint()
        endpoint.turn()
        self.now += STUCK + 5.0
        reason = f"its main loop has not run for {STUCK + 5.0:.0f} seconds"
        assert self.health(endpoint, "/live") == self.health(endpoint, "/ready") == (503, reason)
        assert scraped(endpoint)["streamfl_ready",] == 0.0

    def test_a_loop_that_waits_for_long_is_not_ready_but_lives(self):
        endpoint = self.endpoint()
        endpoint.turn()
        self.now += SLOW + 1.0
        assert self.health(endpoint, "/ready") == (503, f"its main loop has not run for {SLOW + 1.0:.0f} seconds")
        assert self.health(endpoint, "/live") == (200, None)
        endpoint.turn()
        assert self.health(endpoint, "/ready") == (200, None)

    def test_a_process_is_not_ready_while_the_log_does_not_answer_though_its_loop_waits(self):
        endpoint = self.endpoint()
        endpoint.turn()
        host = SimpleNamespace(silence="")
        endpoint.silence = partial(silence_of, host)
        assert self.health(endpoint, "/ready") == (200, None)
        host.silence = "no answer from b:9092"
        assert self.health(endpoint, "/ready") == (503, "no answer from b:9092")
        assert scraped(endpoint)["streamfl_ready",] == 0.0

    def test_both_formats_of_prometheus_are_spoken(self):
        endpoint = self.endpoint()
        endpoint.turn()
        reply = call(
            endpoint.app(), "GET", "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
        )
        assert reply.body.endswith(b"# EOF\n")
        assert "process_resident_memory_bytes" in call(endpoint.app(), "GET", "/metrics").body.decode()


class TestNames:
    def test_names_of_others_in_metrics_are_bounded(self):
        values = {f"c{i:05d}": 1.0 for i in range(MOST_SAMPLES + 50)}
        shown = samples([gauges("m", "M.", "client", values), counters("n_total", "N.", "client", values)])
        for name in ("m", "n_total"):
            of = {key: value for key, value in shown.items() if key[0] == name}
            assert len(of) == MOST_SAMPLES
            assert of[name, OTHERS] == 51.0
            assert sum(of.values()) == len(values)

    def test_counted_names_in_metrics_are_bounded(self):
        named = Named()
        for i in range(3 * MOST_SAMPLES):
            named.add(f"reason {i}")
        named.add("reason 5")
        assert (len(named.counts), named.counts["reason 5"], sum(named.counts.values())) == (
            MOST_SAMPLES, 2.0, 3.0 * MOST_SAMPLES + 1.0,
        )  # fmt: skip

    def test_names_in_metrics_may_hold_any_character(self):
        nasty = 'a"b\\c\nd\u00e9\ud800'.encode(errors="replace").decode()
        assert samples([gauge("m", "M.", 2.0, client=nasty)])["m", nasty] == 2.0
        assert plain("x" * 500) == "x" * 80

    def test_a_measure_may_have_no_samples(self):
        assert ("m",) not in samples([gauges("m", "M.", "client", {})])
        assert samples([counter("n_total", "N.", 3.0)])["n_total",] == 3.0


class TestCoordinator:
    def begin(self):
        self.now = 10.0
        self.transport = MemoryTransport()
        self.machine = coordinator(min_clients=2)
        self.log = CoordinatorLog()
        self.measures = CoordinatorMeasures(lambda: 1234, lambda: 567, lambda: self.now, self.log.barren)
        self.take = summarising(self.log.take, self.measures.take)
        self.node = CoordinatorNode(self.machine, self.transport.coordinator(), summarising(self.measures.take))
        self.clients = self.transport.client("observer")

    def step(self, *messages):
        for message in messages:
            self.clients.send(message)
        self.node.step(self.now)
        return [message for message in self.clients.receive() if isinstance(message, RoundOpened)]

    def shown(self):
        return samples(self.measures.measured(self.machine))

    def test_a_coordinator_is_ready_when_the_federation_has_begun(self):
        self.begin()
        assert self.measures.not_ready(self.machine) == "0 of 2 clients have joined"
        self.step(join("c0"))
        assert self.measures.not_ready(self.machine) == "1 of 2 clients have joined"
        assert ("streamfl_loss",) not in self.shown()
        self.step(join("c1"))
        assert self.measures.not_ready(self.machine) is None

    def test_a_coordinator_shows_rounds_records_and_accuracy(self):
        self.begin()
        (opened,) = self.step(join("c0"), join("c1"))
        shown = self.shown()
        assert (shown["streamfl_round",], shown["streamfl_waited_for_clients",]) == (1, 2)
        assert shown["streamfl_waited_for", "c1"] == 1
        self.now += 5.0
        served = Served(records=4, correct=3, no_change=1)
        self.step(answer(opened, "c0", loss=0.25, served=served))
        assert ("streamfl_waited_for", "c0") not in self.shown()
        self.now += 2.5
        self.step(answer(opened, "c1", loss=0.75, served=served))
        shown = self.shown()
        assert (shown["streamfl_round",], shown["streamfl_rounds_total",], shown["streamfl_entry",]) == (2, 1, 2)
        assert (shown["streamfl_records_total", "accepted"], shown["streamfl_records_total", "rejected"]) == (8, 0)
        assert shown["streamfl_loss",] == pytest.approx(0.5)
        assert (shown["streamfl_served", "accuracy"], shown["streamfl_served", "NoChange"]) == (0.75, 0.25)
        assert (shown["streamfl_round_seconds_total", "gathering"], shown["streamfl_updates_total",]) == (7.5, 2)
        assert (shown["streamfl_round_duration_seconds_sum",], shown["streamfl_round_duration_seconds_count",]) == (
            7.5,
            1,
        )
        assert shown["streamfl_clients", "present"] == 2
        assert (shown["streamfl_bytes_total", "up"], shown["streamfl_bytes_total", "down"]) == (1234, 567)
        reading = self.measures.last.readings
        assert {key[1] for key in shown if key[0] == "streamfl_threshold"} == set(reading)

    def test_a_coordinator_shows_the_error_of_targets(self):
        self.begin()
        (opened,) = self.step(join("c0"), join("c1"))
        self.step(*(answer(opened, name) for name in ("c0", "c1")))
        served = Served(records=4, absolute_error=6.0, no_change=8.0)
        self.take(told.closed(2, [("c0", 4)], served=served))
        shown = self.shown()
        assert (shown["streamfl_served", "error"], shown["streamfl_served", "NoChange"]) == (1.5, 2.0)
        assert ("streamfl_served", "accuracy") not in shown

    def test_clients_that_join_again_do_not_make_the_phase_of_the_round_younger(self):
        self.begin()
        (opened,) = self.step(join("c0"), join("c1"))
        for start in range(2, 8):  # a host that is started again and again
            self.now += 200.0
            assert self.step(join("c0", start=start)) == [opened]
            assert self.shown()["streamfl_phase_age_seconds",] == 200.0 * (start - 1)
        self.measures.take(Score(entry=1, round=1, epoch=1, registry=1, slots=()))
        self.now += 300.0
        for again in (opened, Score(entry=1, round=1, epoch=1, registry=1, slots=())):
            self.measures.take(again)
        shown = self.shown()
        assert shown["streamfl_phase_age_seconds",] == 300.0
        self.measures.take(Score(entry=1, round=1, epoch=1, registry=1, slots=(), stage=2))
        assert self.shown()["streamfl_phase_age_seconds",] == 0.0
        assert shown["streamfl_round_seconds_total", "gathering"] == 1200.0

    def test_a_coordinator_that_learns_nothing_in_three_entries_is_not_ready_and_warns_with_the_reason(self):
        self.begin()
        self.step(join("c0"), join("c1"))
        said = []
        for entry in range(1, 5):
            closed = told.closed(entry, [told.accepted("c0", 0, rejected=40), told.accepted("c1", 0)])
            with capture_logs() as logs:
                self.take(closed)
            said.append(any(one["event"] == "nothing is learnt" for one in logs))
        why = "nothing was learnt in the last 4 entries: 160 records were rejected"
        assert (said, self.measures.not_ready(self.machine)) == ([False, False, True, False], why)
        self.take(told.closed(5, [("c0", 1)]))
        assert self.measures.not_ready(self.machine) is None

    def test_where_labels_come_later_it_is_said_that_none_has_come(self):
        self.begin()
        self.step(join("c0"), join("c1"))
        for entry in (1, 2, 3):
            self.take(told.closed(entry, [replace(told.accepted("c0", 0), watermark=Watermark("f", 9))]))
        why = "nothing was learnt in the last 3 entries: no label has arrived for any record"
        assert self.measures.not_ready(self.machine) == why

    def test_a_coordinator_counts_drifts_refusals_and_the_time_of_scores(self):
        self.begin()
        alarm = {"round": 3, "epoch": 2, "statistic": 9.0, "threshold": 5.0, "since": 2}
        take = self.measures.take
        take(Restarted(**alarm, cause="excess", chosen="zero", clients=()))
        take(Restarted(**alarm, cause="excess", chosen="zero", clients=()))
        take(LocalDrift(**alarm, clients=("c0",), state="latched"))
        take(Noticed(**alarm, cause="class-mix"))
        take(InputsMoved(**alarm))
        take(InputsStuck(**alarm, clients=(), stuck=()))
        for i in range(3):
            take(Refused(client=f"c{i % 2}", reason=f"an update of {i} bytes", is_fault=True))
        take(Refused(client="c0", reason="its round is closed already"))
        take(Refusal(client="c1", incarnation=1, entry=3, reason="no use", evicted=True))
        take(Score(entry=3, round=3, epoch=2, registry=1, slots=(), stage=1))
        self.now += 4.0
        take(RoundOpened(entry=4, round=4, epoch=2, block=1, registry=1, slots=(), serves="m", known_labels=0))
        self.now += 1.5
        shown = self.shown()
        assert shown["streamfl_restarts_total", "excess"] == 2
        assert shown["streamfl_local_drifts_total", "latched"] == 1
        assert shown["streamfl_notices_total", "class-mix"] == 1
        assert shown["streamfl_notices_total", "inputs-moved"] == 1
        assert shown["streamfl_refused_total", "an update of"] == 3
        assert shown["streamfl_late_messages_total",] == 1
        assert shown["streamfl_refused_of_client_total", "c0"] == 2
        assert shown["streamfl_evictions_total",] == 1
        assert shown["streamfl_round_seconds_total", "scoring"] == 4.0
        assert shown["streamfl_phase_age_seconds",] == 1.5


class TestHost:
    def test_a_host_is_ready_when_its_clients_have_joined_and_follow(self):
        federation = hosts.Federation(rounds=6, ends=False)
        node = federation.host()
        measures = HostMeasures(node, most_behind=2)
        assert measures.not_ready() == "no clients are assigned to it, and it has heard of none at other hosts"
        node.host.here.update({name: federation.partition(name) for name in ("c0", "c1")})
        node.step(federation.clock.now())
        assert measures.not_ready() == "2 clients have not joined, c0 among them: the coordinator has not answered"
        federation.turns(30)
        assert measures.not_ready() is None
        shown = samples(measures.measured())
        ledger = federation.ledger()
        assert shown["streamfl_ledger_records", "accepted"] == sum(accepted for accepted, _ in ledger.values())
        assert shown["streamfl_ledger_records", "rejected"] == sum(rejected for _, rejected in ledger.values())
        assert shown["streamfl_round",] == federation.coordinator.machine.state.round
        assert shown["streamfl_pending_records", "c1"] == 0
        assert shown["streamfl_backlog_messages", "r.c0/0"] == 7
        assert shown["streamfl_dead_letters_total",] == 3
        assert shown["streamfl_noted_records_total", "late"] == 2
        assert shown["streamfl_noted_records_total", "unknown categories"] == 6
        assert shown["streamfl_foreign_messages_total",] == 4

    def test_a_spare_host_is_ready_while_clients_of_others_take_part(self):
        federation = hosts.Federation(rounds=6, ends=False)
        federation.host("c0", "c1")
        spare = federation.host()
        measures = HostMeasures(spare, most_behind=2)
        assert measures.not_ready() is not None
        federation.turns(30)
        assert (measures.not_ready(), spare.is_spare) == (None, True)

    def test_rounds_that_a_host_has_not_heard_are_none_in_which_its_clients_learnt_nothing(self):
        federation = hosts.Federation(rounds=6, ends=False)
        node = federation.host("c0", "c1")
        federation.turns(1)
        for entry, behind in ((40, 1), (41, 2)):
            node._note(told.closed(entry, [("c1", 10)]), 0.0)
            assert {name: entry - learnt for name, learnt in node.learnt.items()} == {"c0": behind, "c1": 0}

    def stub(self, **pending):
        """A host in round 12 with clients that have so many pending records, of which round 9 was the last learnt."""
        nodes = {
            name: SimpleNamespace(machine=SimpleNamespace(pending=records, accounted=0), finished=False)
            for name, records in pending.items()
        }
        settings = SimpleNamespace(min_records=10)
        return SimpleNamespace(nodes=nodes, settings=settings, round=12, learnt=dict.fromkeys(pending, 9), failed={})

    def test_a_host_is_not_ready_while_a_client_has_records_and_learns_nothing(self):
        node = self.stub(c0=10, c1=9)
        assert HostMeasures(node, most_behind=3).not_ready() is None
        reason = "c0 has records, and nothing of them was learnt in 3 rounds"
        assert HostMeasures(node, most_behind=2).not_ready() == reason
        assert HostMeasures(self.stub(c0=9, c1=0), most_behind=0).not_ready() is None  # too few for an update

    def test_a_host_counts_rounds_from_when_a_client_was_taken(self):
        federation = hosts.Federation(rounds=6)
        node = federation.host("c0")
        federation.turns(30)
        node.host.here["c1"] = federation.partition("c1")
        node.step(federation.clock.now())
        assert node.learnt["c1"] == node.round
        del node.host.here["c1"]
        node.step(federation.clock.now())
        assert "c1" not in node.learnt

    def test_a_host_is_not_ready_with_a_failed_client(self):
        federation = hosts.Federation(ends=False)
        node = federation.host("c0", "c1")
        federation.turns(12)
        node.failed["c1"] = "its records are gone"
        reason = HostMeasures(node, most_behind=2).not_ready()
        assert reason == "1 clients have failed, c1 among them: the log has the reason"


class TestExposure:
    def settings(self, address):
        return FederationSettings(records=Records(topics=("r.*",)), telemetry=Telemetry(address=address))

    def test_metrics_are_served_over_a_socket_and_other_paths_are_not_found(self):
        measure = gauge("m", "M.", 1.0)
        with (
            capture_logs() as logged,
            exposed(self.settings("0"), "client", lambda: [measure], lambda: None) as turned,
        ):
            turned()
            (address,) = [line["address"] for line in logged if line["event"] == "telemetry"]
            with urllib.request.urlopen(f"http://{address}/metrics") as reply:
                text = reply.read().decode()
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(f"http://{address}/other")
        assert address.startswith("127.0.0.1:")
        assert '\nm{federation="federation"} 1.0\n' in text
        assert f'streamfl_info{{federation="federation",role="client",version="{__version__}"}} 1.0' in text

    def test_probes_have_a_listener_of_their_own_which_shows_nothing_else(self):
        settings = FederationSettings(records=Records(topics=("r.*",)), telemetry=Telemetry(address="0", health="0"))
        with capture_logs() as logged, exposed(settings, "client", list, lambda: None) as turned:
            turned()
            first, second = [line["address"] for line in logged if line["event"] == "telemetry"]
            for path in ("live", "ready"):
                with urllib.request.urlopen(f"http://{second}/{path}") as reply:
                    assert json.load(reply) == {"status": "ok"}
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(f"http://{second}/metrics")
        assert first != second

    def test_a_process_without_an_address_shows_no_metrics(self):
        with exposed(self.settings(""), "client", lambda: 1 / 0, lambda: None) as turned:
            turned()

    def test_an_address_that_is_taken_is_an_error_of_the_user(self):
        with (
            pytest.raises(UsageError, match=r"cannot serve on 256\.0\.0\.1"),
            exposed(self.settings("256.0.0.1:80"), "client", list, lambda: None),
        ):
            pass
