"""Serves an ASGI app on an address of this machine, next to whatever else the process does."""

import asyncio
import math
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address
from threading import Thread
from typing import Literal

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamfl.errors import UsageError
from streamfl.live.http.names import UnderItsNames

# Connections at once, of which most wait; further ones are answered with 503. And those of one address, of IPv6 of
# one network; further ones are closed, so that nobody alone keeps all others out.
MOST_CONNECTIONS, MOST_OF_ADDRESS = 256, 128

# Seconds that requests have to end when the server stops.
GRACE = 10

# Seconds within which the head of a request, and then the rest of it, must arrive, and between two looks whether a
# client has taken more of an answer. An app may be less patient.
HEAD, BODY, UNREAD = 10.0, 40.0, 30.0

# Bytes that the system takes of an answer ahead of what it sends. By itself it takes megabytes: a slow client is long
# busy with these, and nothing more leaves.
AHEAD = 2**16

# Bytes of answers that wait until their readers take them, on all connections together: as many as the bodies of
# requests. Beyond it the answer that has waited longest is cut off.
MOST_WAITING = 2**28


class ImpatientProtocol(H11Protocol):
    """HTTP with a time limit on everything that a client has to do: uvicorn has one between requests only."""

    _arriving: Literal["head", "body", None] = None
    _due: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None  # runs while an answer waits for its reader
    _since: float = 0.0  # when that began
    _waiting: int = 0  # its bytes then; while some wait, nothing more of it is written

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless its address has too many, and wait for a request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # an answer waits as soon as the system does not take all of it
        others = [one for one in self.connections if isinstance(one, H11Protocol)]
        if sum(_network(one.client) == _network(self.client) for one in others) > MOST_OF_ADDRESS:
            transport.close()
        self._expect("head")

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._look()

    def handle_events(self) -> None:
        """Begin no request before the answer to the last one has been taken: each connection holds one answer."""
        if self._is_held():
            self.flow.pause_reading()
        else:
            super().handle_events()

    def on_response_complete(self) -> None:
        """Wait for the next request; uvicorn closes a connection on which nothing of one comes."""
        if self._waiting and self.conn.their_state is h11.SEND_BODY:
            self.transport.close()  # it was refused early, and the rest of it would begin the next one
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """Wait until the client takes more of an answer."""
        super().pause_writing()
        self._since, self._waiting = self.loop.time(), self.transport.get_write_buffer_size()
        self._await_reader()
        self._make_room()

    def resume_writing(self) -> None:
        """Continue to answer."""
        super().resume_writing()
        held = self._is_held()
        self._forget_reader()
        if held and not self.transport.is_closing():
            self.flow.resume_reading()
            self.handle_events()
            self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._expect(None)
        self._forget_reader()

    def _is_held(self) -> bool:
        """Tell whether a further request has to wait until an answer has been taken."""
        return bool(self._waiting) and self.conn.their_state is h11.IDLE

    def _await_reader(self, before: float = math.inf) -> None:
        """Look now and then whether the client has taken anything since the last look, else close the connection."""
        waiting = self.transport.get_write_buffer_size()
        if waiting < before:
            self._unread = self.loop.call_later(UNREAD, self._await_reader, waiting)
        else:
            self.transport.abort()

    def _make_room(self) -> None:
        """Cut off the answers that have waited longest while too many bytes wait."""
        unread = [one for one in self.connections if isinstance(one, ImpatientProtocol) and one._waiting]
        total = sum(one._waiting for one in unread)
        for one in sorted(unread, key=lambda one: one._since):
            if total <= MOST_WAITING:
                break
            total -= one._waiting
            one._forget_reader()
            one.transport.abort()

    def _forget_reader(self) -> None:
        self._waiting = 0
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _look(self) -> None:
        """See what has yet to arrive."""
        state, (rest, _) = self.conn.their_state, self.conn.trailing_data
        if state is h11.SEND_BODY:
            self._expect("body")
        elif self._is_held():
            self._expect(None)
        else:
            self._expect("head" if state is h11.IDLE and (rest or self.cycle is None) else None)

    def _expect(self, arriving: Literal["head", "body", None]) -> None:
        """Close the connection in time, unless something else arrives, or is waited for, by then."""
        if arriving == self._arriving:
            return
        self._arriving = arriving
        if self._due is not None:
            self._due.cancel()
        if arriving is not None:
            self._due = self.loop.call_later(HEAD if arriving == "head" else BODY, self.transport.close)


def _network(client: tuple[str, int] | None) -> bytes:
    """Return the address of a client; of IPv6 its network, all of whose addresses one client may have."""
    if client is None:
        return b""
    address = ip_address(client[0])
    if isinstance(address, IPv6Address):
        return address.packed[:8] if address.ipv4_mapped is None else address.ipv4_mapped.packed
    return address.packed


@contextmanager
def serving(app: ASGIApp, host: str = "127.0.0.1", port: int = 8000, names: Collection[str] = ()) -> Iterator[int]:
    """Serve an app in a thread of its own, until the block ends.

    Parameters
    ----------
    host
        The address; by default only this machine can reach it.
    port
        The port; 0 takes any that is free.
    names
        Names under which it may be asked, besides those of this machine and any address.

    Yields
    ------
    The port. Connections are taken from now on.

    Raises
    ------
    UsageError
        The address cannot be had.
    """
    config = uvicorn.Config(
        UnderItsNames(app, names),
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
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # connections have it from their listener
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, AHEAD)
        listener.bind((host, port))
        listener.listen(MOST_CONNECTIONS)
    except (OSError, OverflowError) as error:
        listener.close()
        raise UsageError(f"cannot serve on {host}, port {port}: {error}; choose another address") from error
    return listener
