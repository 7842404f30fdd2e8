"""The ASGI app of the page: the page itself, a view of any entry, and a stream of what changes."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from streamfl.live.page.source import PageSource
from streamfl.run.page.sections import Sections, changed

# Seconds between two looks whether anything has changed, and after which a silent stream says that it is alive.
LOOK, ALIVE = 0.5, 15.0

# Streams at once; further pages ask now and then instead.
STREAMS = 64

# Bytes of an answer from which on it is compressed.
SMALL = 2000

# Views of the past that are made at once: each takes memory and the interpreter.
PAST = 2

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

STATIC = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/uplot.css": ("uplot.css", "text/css; charset=utf-8"),
    "/uplot.js": ("uplot.js", "text/javascript; charset=utf-8"),
}


def app(source: PageSource, *, ending: Callable[[], bool] = lambda: False) -> ASGIApp:
    """Return the app.

    Parameters
    ----------
    ending
        Whether the process is to end: streams end then as well.
    """
    page = _Page(source, ending)
    static = [Route(path, _file(*file)) for path, file in STATIC.items()]
    routes = [
        *static,
        Route("/view", page.view),
        Route("/entry", page.entry),
        Route("/events", page.events),
    ]
    return Starlette(routes=routes)


def _file(name: str, kind: str) -> Callable[[Request], Any]:
    content = files("streamfl.run.page").joinpath("static", name).read_bytes()

    async def send(request: Request) -> Response:
        return Response(content, media_type=kind, headers=HEADERS)

    return send


class _Page:
    def __init__(self, source: PageSource, ending: Callable[[], bool]) -> None:
        self._source, self._ending = source, ending
        self._streams = 0
        self._past = asyncio.Semaphore(PAST)

    async def view(self, request: Request) -> Response:
        """Answer with the page as it is now, or as of an entry."""
        if "entry" not in request.query_params:
            _, sections = await run_in_threadpool(self._source.now)
            return _json(sections, request=request)
        entry = _number(request, "entry")
        if entry is None:
            return _json({"error": "entry is a whole number"}, 400)
        async with self._past:
            found = await run_in_threadpool(self._source.as_of, entry)
        return _json(found, request=request) if found is not None else _not_held(entry)

    async def entry(self, request: Request) -> Response:
        """Answer with the updates of an entry."""
        entry = _number(request, "entry") or 0
        async with self._past:
            found = await run_in_threadpool(self._source.updates, entry)
        return _json(found, request=request) if found is not None else _not_held(entry)

    async def events(self, request: Request) -> Response:
        """Answer with a stream: first all sections, then whatever changes."""
        if self._streams >= STREAMS:
            return _json({"error": f"{STREAMS} pages are open already, which is the limit; ask /view instead"}, 503)
        self._streams += 1  # now: many may ask before the first stream begins
        headers = HEADERS | {"X-Accel-Buffering": "no"}
        return _Stream(self._stream(), self._ended, media_type="text/event-stream", headers=headers)

    def _ended(self) -> None:
        self._streams -= 1

    async def _stream(self) -> AsyncIterator[bytes]:
        version: Any = None
        before: Sections = {}
        silent = 0.0
        while not self._ending():
            if self._source.version != version:
                version, after = await run_in_threadpool(self._source.now)
                if changes := changed(before, after):
                    yield _event("view" if not before else "changes", changes)
                before, silent = after, 0.0
            elif silent >= ALIVE:
                yield b": alive\n\n"
                silent = 0.0
            await asyncio.sleep(LOOK)
            silent += LOOK


class _Stream(StreamingResponse):
    """A stream that tells when it has ended, also if it never began."""

    def __init__(self, content: AsyncIterator[bytes], ended: Callable[[], None], **options: Any) -> None:
        super().__init__(content, **options)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def _event(kind: str, sections: Sections) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(sections) + b"\n\n"


def _json(told: Sections, status: int = 200, request: Request | None = None) -> Response:
    body, headers = msgspec.json.encode(told), dict(HEADERS)
    if request is not None and "gzip" in request.headers.get("accept-encoding", "") and len(body) > SMALL:
        body = gzip.compress(body, 1)
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(body, status, media_type="application/json", headers=headers)


def _not_held(entry: int) -> Response:
    return _json({"error": f"the page does not have entry {entry}"}, 404)


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 16 else None
