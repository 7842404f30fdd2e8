"""The endpoint that shows a process: /live, /ready and /metrics."""

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog
from prometheus_client import CollectorRegistry, GCCollector, Metric, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamfl.live.http.serving import serving
from streamfl.live.metrics.measures import Measure, gauge

LOG = structlog.get_logger("streamfl.telemetry")

# Seconds between two looks of the loop at its measures.
EVERY = 1.0

# Seconds without a turn of the loop after which a process is not ready, since it probably waits for a broker; and
# after which it counts as stuck: more than the longest wait for a broker.
SLOW, STUCK = 30.0, 900.0


@dataclass(eq=False)
class Endpoint:
    """What the endpoint shows. The loop refreshes it; the server's thread only reads what was shown last."""

    measured: Callable[[], Iterable[Measure]]  # returns the measures; called by the loop
    not_ready: Callable[[], str | None]  # returns why the process is not ready, None if it is; called by the loop
    # Returns why the log does not answer, empty if it does; called by the server's threads.
    silence: Callable[[], str] = lambda: ""
    federation: str = ""  # the name of the federation, which each sample has as a label
    seconds: Callable[[], float] = time.monotonic  # returns monotonic seconds
    _shown: tuple[Measure, ...] = ()
    _reason: str | None = "it has just started"
    _turned: float = field(default=-math.inf)
    _due: float = -math.inf

    def __post_init__(self) -> None:
        self._turned = self.seconds()

    def turn(self) -> None:
        """Note that the loop continues; now and then look at the measures."""
        now = self._turned = self.seconds()
        if now >= self._due:
            self._due = now + EVERY
            self._reason = self.not_ready()  # first: measures may wait for the log
            self._shown = tuple(self.measured())

    @property
    def stuck(self) -> str | None:
        """Return why the process does not live; None if it does."""
        return self._stands_still(STUCK)

    def _stands_still(self, most: float) -> str | None:
        """Return that the loop has not run for more than this many seconds; None if it has."""
        since = self.seconds() - self._turned
        return f"its main loop has not run for {since:.0f} seconds" if since > most else None

    @property
    def reason(self) -> str | None:
        """Return why the process is not ready; None if it is."""
        return self.silence() or self._stands_still(SLOW) or self._reason

    def collect(self) -> Iterator[Metric]:
        """Yield the measures that were shown last, for prometheus_client."""
        for measure in (*self._shown, gauge("streamfl_ready", "Whether the process is ready.", self._is_ready)):
            yield self._family(measure)

    def _family(self, measure: Measure) -> Metric:
        """Return a measure, each sample with the name of the federation."""
        name, what, of = measure.name, measure.what, {"federation": self.federation}
        if measure.kind == "histogram":
            histogram = HistogramMetricFamily(name, what, labels=list(of))
            buckets = [(labels["le"], count) for labels, count in measure.samples]
            histogram.add_metric(list(of.values()), buckets, measure.total)
            return histogram
        kind = CounterMetricFamily if measure.kind == "counter" else GaugeMetricFamily
        labels = list(of | dict(measure.samples[0][0])) if measure.samples else list(of)
        family = kind(name, what, labels=labels)
        for own, value in measure.samples:
            family.add_metric([(of | dict(own))[label] for label in labels], value)
        return family

    @property
    def _is_ready(self) -> float:
        return float(self.reason is None)

    def app(self, *, metrics: bool = True) -> Starlette:
        """Return the ASGI app; without `metrics` it shows the health alone."""
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        registry.register(self)

        async def live(request: Request) -> Response:
            return _health(self.stuck)

        async def ready(request: Request) -> Response:
            return _health(self.reason)

        async def measures(request: Request) -> Response:
            encode, kind = choose_encoder(request.headers.get("accept", ""))
            return Response(encode(registry), media_type=kind)

        more = [Route("/metrics", measures)] if metrics else []
        return Starlette(routes=[Route("/live", live), Route("/ready", ready), *more])


def _health(reason: str | None) -> Response:
    if reason is None:
        return JSONResponse({"status": "ok"})
    return JSONResponse({"status": "unavailable", "reason": reason}, 503)


@contextmanager
def shown(app: Starlette, host: str, port: int, names: Collection[str] = ()) -> Iterator[None]:
    """Serve the app of an endpoint until the block ends; it is also asked under `names`.

    Raises
    ------
    UsageError
        The address cannot be had.
    """
    with serving(app, host, port, names) as taken:
        LOG.info("telemetry", address=f"{host}:{taken}")
        yield
