"""Traces of rounds by OpenTelemetry: one trace for each entry of the ledger, with spans of every process.

The trace and its first span follow from the federation's name and the entry, so that the processes' spans belong
together without a field in any message.
"""

import hashlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from streamfl import __version__
from streamfl.machines.client.phase import Phase
from streamfl.protocol.messages import Restarted, RoundOpened, Score
from streamfl.run.summary import RoundSummary

# The most clients of a host whose phases are traced.
MOST_CLIENTS = 100

# Phases of a client that are part of an entry.
OF_ENTRY = frozenset({Phase.GATHERING, Phase.SENT, Phase.SCORING})


def ids_of(federation: str, entry: int) -> tuple[int, int]:
    """Return the ids of an entry's trace and of its first span.

    >>> [f"{number:x}" for number in ids_of("forest", 57)]
    ['dd0fba9497b6477b162ddf88f7254961', '4f544c474bdf06b3']
    """
    digest = hashlib.sha256(f"{federation}/{entry}".encode()).digest()
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:24]) or 1


class _Ids(IdGenerator):
    """Gives the first span of a trace the id that all processes reckon with, and the others random ones."""

    def __init__(self) -> None:
        self.first: tuple[int, int] | None = None
        self._random = random.SystemRandom()

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128) if self.first is None else self.first[0]

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64) if self.first is None else self.first[1]


@dataclass
class Spans:
    """Writes spans of a federation's entries."""

    federation: str
    # The tracer of this process, and what gives its spans their ids.
    tracer: Tracer
    ids: _Ids
    now: Callable[[], int] = time.time_ns  # returns nanoseconds since 1970

    def entry(self, entry: int, since: int, attributes: Mapping[str, AttributeValue]) -> None:
        """Write the first span of an entry: from when it was opened to now."""
        self.ids.first = ids_of(self.federation, entry)
        try:
            span = self.tracer.start_span(f"entry {entry}", start_time=since, attributes=dict(attributes))
        finally:
            self.ids.first = None
        span.end(self.now())

    def part(self, entry: int, name: str, since: int, **attributes: AttributeValue) -> None:
        """Write a span within an entry, from a time to now."""
        trace, first = ids_of(self.federation, entry)
        whole = SpanContext(trace, first, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
        context = set_span_in_context(NonRecordingSpan(whole))
        self.tracer.start_span(name, context, start_time=since, attributes=attributes).end(self.now())


@dataclass
class CoordinatorTraces:
    """Traces the coordinator's part of each entry: gathering updates, and scoring candidates after an alarm."""

    spans: Spans
    _opened: tuple[int, int] | None = None  # the open entry, and when it was opened
    _phase: tuple[str, int] = ("gathering", 0)
    _attributes: dict[str, AttributeValue] = field(default_factory=dict)  # of the closed entry, not written yet

    def take(self, event: object) -> None:
        """Take what the coordinator does."""
        match event:
            case RoundOpened() if self._opened is None or self._opened[0] != event.entry:
                self._write()
                now = self.spans.now()
                self._opened, self._phase = (event.entry, now), ("gathering", now)
            case Score() if self._phase[0] == "gathering":
                self._turn("scoring")
            case Restarted() if self._attributes:
                self._attributes |= {"restart.cause": event.cause, "restart.chosen": event.chosen}
            case RoundSummary():
                self._close(event)
            case _:
                pass

    def _turn(self, to: str) -> None:
        name, since = self._phase
        if self._opened is not None:
            self.spans.part(self._opened[0], name, since)
        self._phase = (to, self.spans.now())

    def _close(self, closed: RoundSummary) -> None:
        if self._opened is None or self._opened[0] != closed.entry:
            return
        self._turn("gathering")
        numbers = {"round": closed.round, "epoch": closed.epoch, "clients": closed.clients}
        counts = {
            "records": closed.records,
            "rejected": closed.rejected,
            "refused": closed.refused,
            "late": closed.late,
        }
        self._attributes = {**numbers, **counts}

    def _write(self) -> None:
        """Write the first span of the entry that has closed: what is announced next to it is known by now."""
        if self._opened is not None and self._attributes:
            self.spans.entry(*self._opened, self._attributes)
        self._opened, self._attributes = None, {}


@dataclass
class HostTraces:
    """Traces what the clients of a host do for each entry: gathering records, waiting for the ledger, scoring."""

    spans: Spans
    _phases: dict[str, tuple[Phase, int, int]] = field(default_factory=dict)  # by client: phase, entry, since when

    def step(self, clients: Iterable[tuple[str, Phase, int]]) -> None:
        """Compare clients' phases and entries with those of the last step: what has ended is a span.

        Parameters
        ----------
        clients
            The name, the phase and the entry of each client of the host; the first hundred are traced.
        """
        now, traced = self.spans.now(), dict[str, tuple[Phase, int, int]]()
        for client, phase, entry in islice(clients, MOST_CLIENTS):
            before = self._phases.get(client)
            if before is not None and before[:2] == (phase, entry):
                traced[client] = before
                continue
            traced[client] = phase, entry, now
            if before is not None and before[0] in OF_ENTRY:
                self.spans.part(before[1], before[0].value, before[2], client=client)
        self._phases = traced


@contextmanager
def sending(
    federation: str, role: str, endpoint: str, processor: Callable[[str], SpanProcessor] | None = None
) -> Iterator[Spans]:
    """Send spans to an endpoint until the block ends; what is left then is sent within a few seconds.

    Parameters
    ----------
    endpoint
        Where an OpenTelemetry collector takes traces over HTTP, such as `http://127.0.0.1:4318`.
    processor
        Makes what takes the spans; by default they are sent in batches, by a thread of their own. At most 2,048
        wait; further ones are dropped.
    """
    ids = _Ids()
    about = {"service.name": f"streamfl.{role}", "service.namespace": federation, "service.version": __version__}
    provider = TracerProvider(resource=Resource.create(about), id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor((processor or _sent)(endpoint))
    try:
        yield Spans(federation, provider.get_tracer("streamfl", __version__), ids)
    finally:
        provider.shutdown()


def _sent(endpoint: str) -> SpanProcessor:
    return BatchSpanProcessor(OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=5))
