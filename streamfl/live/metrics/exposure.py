"""Whether, and where, a process shows its measures and its health, and sends its traces: `[telemetry]`."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from streamfl import __version__
from streamfl.errors import UsageError
from streamfl.live.metrics.measures import Measure, gauge
from streamfl.live.settings.addresses import address
from streamfl.live.settings.settings import FederationSettings

if TYPE_CHECKING:
    from streamfl.live.tracing.rounds import Spans


def unwatched() -> None:
    """Do nothing at a turn of the loop: nobody watches."""


@contextmanager
def exposed(
    settings: FederationSettings,
    role: str,
    measured: Callable[[], Iterable[Measure]],
    not_ready: Callable[[], str | None],
    silence: Callable[[], str] = lambda: "",
) -> Iterator[Callable[[], None]]:
    """Show a process until the block ends, if `[telemetry]` says where.

    Parameters
    ----------
    measured, not_ready
        Return its measures, and why it is not ready, None if it is. They are called in its loop.
    silence
        Returns why the log does not answer, empty if it does; also called while the loop waits for the log.

    Yields
    ------
    What its loop calls at each turn.

    Raises
    ------
    UsageError
        The address cannot be had, or packages are lacking.
    """
    where = settings.telemetry
    if not where.address and not where.health:
        yield unwatched
        return
    if lacking := [name for name in ("prometheus_client", "starlette", "uvicorn") if find_spec(name) is None]:
        raise UsageError(f"[telemetry] needs {' and '.join(lacking)}: install the extra telemetry (docs/install.md)")
    from streamfl.live.metrics.endpoint import Endpoint, shown  # noqa: PLC0415  needs the extra telemetry

    name = settings.federation.name
    info = gauge("streamfl_info", "The process.", 1.0, version=__version__, role=role)
    endpoint = Endpoint(lambda: (info, *measured()), not_ready, silence, name)
    apps = ((where.address, endpoint.app()), (where.health, endpoint.app(metrics=False)))
    with ExitStack() as stack:
        for place, app in apps:
            if place:
                stack.enter_context(shown(app, *address(place), where.host_names))
        yield endpoint.turn


@contextmanager
def traced(settings: FederationSettings, role: str) -> Iterator["Spans | None"]:
    """Yield what takes the spans of a process, if `[telemetry] traces` says where to send them.

    Raises
    ------
    UsageError
        Packages are lacking.
    """
    if not settings.telemetry.traces:
        yield None
        return
    from streamfl.live.tracing.rounds import sending  # noqa: PLC0415  needs the extra traces

    with sending(settings.federation.name, role, settings.telemetry.traces) as spans:
        yield spans
