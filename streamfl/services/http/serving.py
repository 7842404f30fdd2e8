"""Serves an ASGI app on an address of this machine, beside whatever else the process does."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamfl.core.errors import UsageError
from streamfl.services.stopping import Stop

# Connections at once, of which most wait; further ones are answered with 503.
MOST_CONNECTIONS = 256

# Seconds that requests have to end when the server stops, and that a new connection has for its first request.
GRACE, FIRST_REQUEST = 10, 10.0


class ImpatientProtocol(H11Protocol):
    """HTTP that closes a connection on which no request comes: uvicorn waits for the first one for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, and look after a while whether there was a request."""
        super().connection_made(transport)
        self.loop.call_later(FIRST_REQUEST, self._close_if_unused)

    def _close_if_unused(self) -> None:
        if self.cycle is None:
            self.transport.close()


@contextmanager
def serving(app: ASGIApp, host: str = "127.0.0.1", port: int = 8000) -> Iterator[int]:
    """Serve an app in a thread of its own, until the block ends.

    Parameters
    ----------
    app
        The app.
    host
        The address; by default only this machine can reach it.
    port
        The port; 0 takes any that is free.

    Yields
    ------
    The port. Connections are taken from now on.

    Raises
    ------
    UsageError
        The address cannot be had.
    """
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE,
    )
    server = uvicorn.Server(config)
    with _listening(host, port) as listener:
        # In a thread uvicorn leaves signals alone: they stop the process as everywhere else.
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, name="http", daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def serve(
    app: ASGIApp,
    stop: Stop,
    host: str = "127.0.0.1",
    port: int = 8000,
    began: Callable[[int], None] = lambda port: None,
) -> None:
    """Serve an app until the process is asked to stop.

    Parameters
    ----------
    app, host, port
        As in `serving`.
    stop
        Whether to stop.
    began
        Called with the port once connections are taken.

    Raises
    ------
    UsageError
        The address cannot be had.
    """
    with serving(app, host, port) as taken:
        began(taken)
        while not stop.requested:
            time.sleep(0.1)


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Its protocol is named, which `socket.create_server` does not: only then asyncio sends what is written at once, and
    not 40 ms later.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # a port is free as soon as its server has ended
        listener.bind((host, port))
        listener.listen(MOST_CONNECTIONS)
    except (OSError, OverflowError) as error:
        listener.close()
        raise UsageError(f"cannot serve on {host}, port {port}: {error}; choose another address") from error
    return listener
