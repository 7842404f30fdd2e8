"""Under which names a server answers: a web site must not have a browser read it under a name of its own."""

import re
import socket
from collections.abc import Collection
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

# A name without the port after it; of IPv6 in brackets.
_NAME = re.compile(r"\[([^\]]*)\](?::\d+)?|([^:]*)(?::\d+)?")

UNKNOWN = "nothing is shown under this name; name it with --host-name, or in host_names of [telemetry] or [score]"


def own_names() -> frozenset[str]:
    """Return the names of this machine."""
    return frozenset({"localhost", socket.gethostname().lower()})


def answers(host: str, names: Collection[str]) -> bool:
    """Tell whether a server answers whoever asks for a host: by address, by one of its names, or by none.

    A site can have its name lead to any address, and then read what is answered under it. It has no name that is an
    address, and a browser always says for which name it asks; probes of proxies say none.

    >>> names = {"localhost", "page.example.org"}
    >>> [answers(host, names) for host in ("127.0.0.1:8080", "[::1]:8080", "localhost", "Page.Example.org:80")]
    [True, True, True, True]
    >>> [answers(host, names) for host in ("evil.example:8080", "127.0.0.1.evil.example", ":8080", "")]
    [False, False, False, True]
    """
    if not host:
        return True
    found = _NAME.fullmatch(host)
    if found is None:
        return False
    name = (found[1] or found[2] or "").lower()
    try:
        ip_address(name)
    except ValueError:
        return name in names
    return True


class UnderItsNames:
    """Refuses requests under any other name."""

    def __init__(self, app: ASGIApp, names: Collection[str] = ()) -> None:
        self._app, self._names = app, own_names() | {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and not answers(Headers(scope=scope).get("host", ""), self._names):
            await JSONResponse({"error": UNKNOWN}, 400)(scope, receive, send)
            return
        await self._app(scope, receive, send)
