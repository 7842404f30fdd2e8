"""Traces of rounds: spans of both sides of an entry, in one trace, with the times at which things happened."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from unit.live.page.told import accepted, closed, opened

from streamfl.live.tracing.rounds import MOST_CLIENTS, CoordinatorTraces, HostTraces, Spans, ids_of, sending
from streamfl.machines.client.phase import Phase
from streamfl.protocol.messages import Restarted, Score
from streamfl.run.summary import RoundSummary


class Written:
    """Spans that were written, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.exporter, self.now = InMemorySpanExporter(), 0

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def told(self) -> list[tuple[str, int, int]]:
        return [(span.name, span.start_time or 0, span.end_time or 0) for span in self.spans]


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture
def spans(written: Written) -> Iterator[Spans]:
    with sending("forest", "test", "", lambda _: SimpleSpanProcessor(written.exporter)) as one:
        one.now = lambda: written.now
        yield one


def closed_with_a_client(entry: int) -> RoundSummary:
    return RoundSummary.of(closed(entry, [accepted("c0", 50, rejected=2)]))


def at(written: Written, now: int, traces: CoordinatorTraces, *events: object) -> None:
    written.now = now
    for event in events:
        traces.take(event)


def test_an_entry_is_a_trace_of_its_phases(written: Written, spans: Spans) -> None:
    traces = CoordinatorTraces(spans)
    at(written, 100, traces, opened(1))
    at(written, 150, traces, opened(1))  # published again
    at(written, 300, traces, Score.__new__(Score))
    at(written, 310, traces, Score.__new__(Score))
    restarted = Restarted(round=1, epoch=2, cause="excess", statistic=20.0, threshold=9.0, chosen="scratch", since=1)
    at(written, 420, traces, closed_with_a_client(1), restarted, opened(2))  # the order of a Commit
    at(written, 500, traces, closed_with_a_client(2), opened(3))
    gathering, scoring, entry, more, second = written.told
    assert (gathering, scoring) == (("gathering", 100, 300), ("scoring", 300, 420))
    assert (entry, more, second) == (("entry 1", 100, 420), ("gathering", 420, 500), ("entry 2", 420, 500))
    whole, after = written.spans[2], written.spans[4]
    assert whole.parent is None
    assert whole.attributes == {
        "round": 1,
        "epoch": 1,
        "clients": 1,
        "records": 50,
        "rejected": 2,
        "refused": 0,
        "late": 0,
        "restart.cause": "excess",
        "restart.chosen": "scratch",
    }
    assert "restart.cause" not in (after.attributes or {})


def test_an_entry_that_was_not_seen_to_begin_is_not_traced(written: Written, spans: Spans) -> None:
    at(written, 100, CoordinatorTraces(spans), closed_with_a_client(7))
    assert written.spans == []


def test_both_sides_of_an_entry_are_in_one_trace_though_nothing_is_sent(written: Written, spans: Spans) -> None:
    coordinator, host = CoordinatorTraces(spans), HostTraces(spans)
    at(written, 100, coordinator, opened(3))
    for now, phase in ((120, Phase.GATHERING), (130, Phase.GATHERING), (200, Phase.SENT), (260, Phase.WAITING)):
        written.now = now
        host.step([("c0", phase, 3)])
    at(written, 270, coordinator, closed_with_a_client(3), opened(4))
    assert written.told == [
        ("gathering", 120, 200),
        ("sent", 200, 260),
        ("gathering", 100, 270),
        ("entry 3", 100, 270),
    ]
    traces = {span.context.trace_id for span in written.spans if span.context}
    assert traces == {ids_of("forest", 3)[0]}
    *parts, entry = written.spans
    assert {span.parent.span_id for span in parts if span.parent} == {entry.context.span_id if entry.context else 0}
    assert written.spans[0].attributes == {"client": "c0"}
    assert len({ids_of(name, entry) for name in ("forest", "plant") for entry in (1, 2)}) == 4


def test_a_client_in_the_same_phase_of_another_entry_is_another_span(written: Written, spans: Spans) -> None:
    host = HostTraces(spans)
    for now, entry in ((10, 1), (20, 2), (30, 2)):
        written.now = now
        host.step([("c0", Phase.GATHERING, entry)])
    assert written.told == [("gathering", 10, 20)]


def test_a_hundred_clients_of_a_host_are_traced_and_one_that_has_gone_is_forgotten(
    written: Written, spans: Spans
) -> None:
    host = HostTraces(spans)
    names = [f"c{n}" for n in range(MOST_CLIENTS + 7)]
    host.step((name, Phase.GATHERING, 1) for name in names)
    host.step((name, Phase.SENT, 1) for name in names)
    assert len(written.spans) == MOST_CLIENTS
    host.step([])
    host.step((name, Phase.WAITING, 1) for name in names)
    assert len(written.spans) == MOST_CLIENTS, "what they did meanwhile is not known"


def test_a_collector_is_sent_the_spans_by_the_end() -> None:
    taken: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        with sending("forest", "coordinator", f"http://127.0.0.1:{server.server_port}/") as spans:
            traces = CoordinatorTraces(spans)
            for event in (opened(1), closed_with_a_client(1), opened(2)):
                traces.take(event)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    ((path, body),) = taken
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    told = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert path == "/v1/traces"
    assert (told["service.name"], told["service.namespace"]) == ("streamfl.coordinator", "forest")
    assert {span.name for scope in resource.scope_spans for span in scope.spans} == {"gathering", "entry 1"}
