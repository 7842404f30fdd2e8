"""Under which names a page is shown: a web site must not have a browser read it under a name of its own."""

import re
import socket
from collections.abc import Collection
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

# A name without the port after it; of IPv6 in brackets.
_NAME = re.compile(r"\[([^\]]*)\](?::\d+)?|([^:]*)(?::\d+)?")

UNKNOWN = "no page is shown under this name: start it with --host-name, and the name\n"


def own_names() -> frozenset[str]:
    """Return the names of this machine."""
    return frozenset({"localhost", socket.gethostname().lower()})


def is_shown(host: str, names: Collection[str]) -> bool:
    """Tell whether a page is shown to whoever asks for a host: by address, or by one of its names.

    A site can have its name lead to any address, and then read what is answered under it. It has no name that is an
    address.

    >>> names = {"localhost", "page.example.org"}
    >>> [is_shown(host, names) for host in ("127.0.0.1:8080", "[::1]:8080", "localhost", "Page.Example.org:80")]
    [True, True, True, True]
    >>> [is_shown(host, names) for host in ("evil.example:8080", "127.0.0.1.evil.example", "")]
    [False, False, False]
    """
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
    """Middleware that refuses requests under any other name.

    Parameters
    ----------
    app
        What answers the others.
    names
        The names, in lower case.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and not is_shown(Headers(scope=scope).get("host", ""), self._names):
            await PlainTextResponse(UNKNOWN, 400)(scope, receive, send)
            return
        await self._app(scope, receive, send)
