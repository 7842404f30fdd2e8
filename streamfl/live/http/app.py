"""An ASGI app that answers by the V2 inference protocol, with a model that may change between two requests."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from streamfl import __version__
from streamfl.bounds import bounded
from streamfl.errors import PeerError, UsageError
from streamfl.live.answering import Answering
from streamfl.live.http.agreement import AgreementCounts, compared
from streamfl.live.http.infer import InferRequest, RequestLimits, TooLargeError, answer, metadata, predicted
from streamfl.records.values.cells import quoted
from streamfl.run.model_file import ServedModel
from streamfl.runtime.log.tally import Tally

# The version of a candidate, in addresses and answers.
CANDIDATE = "candidate"

HEADER = "Inference-Header-Content-Length"

# Requests are decoded and answered this many at a time: either takes memory, and most of it holds the interpreter.
THREADS = 2

DEFAULT = RequestLimits()


@dataclass
class Counts:
    """What an app has answered: requests for inference, their records, answers that warn, and refusals by status.

    `compared` counts what a candidate has predicted next to it.
    """

    requests: int = 0
    records: int = 0
    warned: int = 0
    refused: Counter[int] = field(default_factory=Counter)
    compared: AgreementCounts = field(default_factory=AgreementCounts)

    @property
    def figures(self) -> dict[str, object]:
        """Return the counts by name."""
        told = {"requests": self.requests, "records": self.records, "warned": self.warned}
        of_candidate = self.compared.figures if self.compared != AgreementCounts() else {}
        return {**told, "refused": dict(self.refused), **of_candidate}


def app(
    name: str,
    current: Callable[[], Answering | None],
    ready: Callable[[], str | None] = lambda: None,
    *,
    candidate: Callable[[], Answering | None] = lambda: None,
    limits: RequestLimits = DEFAULT,
    counts: Counts | None = None,
) -> ASGIApp:
    """Return the app.

    Parameters
    ----------
    current
        Returns the model that answers now; None while there is none. It is called in the thread of the
        server, before a request is read, and must not wait.
    ready
        Returns why the model should not be asked now, although there is one; None if it should. It is called like
        `current`.
    candidate
        Returns the candidate, whose version is `candidate`; None if there is none. It also predicts what the model
        is asked without a version, and both are compared. It is called like `current`.
    """
    return _V2(name, current, ready, candidate, limits, Counts() if counts is None else counts).asgi()


@dataclass(eq=False)
class _V2:
    name: str
    current: Callable[[], Answering | None]
    ready: Callable[[], str | None]
    candidate: Callable[[], Answering | None]
    limits: RequestLimits
    counts: Counts

    def __post_init__(self) -> None:
        self._begun = 0  # requests that are answered now
        self._held = 0  # bytes of the bodies of requests
        self._candidate: ServedModel | None = None  # the one that `counts` are of
        self._threads = asyncio.Semaphore(THREADS)
        log = structlog.get_logger("streamfl.http")
        self._refusals, self._warnings = Tally(log, "request refused"), Tally(log, "answer with a warning")

    def asgi(self) -> ASGIApp:
        of_model = [
            ("GET", "", self._metadata),
            ("GET", "/ready", self._model_ready),
            ("POST", "/infer", self._infer),
        ]
        places = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
        return Starlette(
            routes=[
                Route("/v2", self._server),
                Route("/v2/health/live", self._live),
                Route("/v2/health/ready", self._server_ready),
                *(Route(place + end, do, methods=[method]) for place in places for method, end, do in of_model),
            ],
            exception_handlers={HTTPException: self._refused},
        )

    async def _server(self, request: Request) -> Response:
        return _json({"name": "streamfl", "version": __version__, "extensions": ["binary_tensor_data"]})

    async def _live(self, request: Request) -> Response:
        return _json({"live": True})

    async def _server_ready(self, request: Request) -> Response:
        self._check_ready()
        return _json({"ready": True})

    async def _model_ready(self, request: Request) -> Response:
        self._asked_of(request)
        self._check_ready()
        return _json({"name": self.name, "ready": True})

    async def _metadata(self, request: Request) -> Response:
        answering, candidate = self._asked_of(request), self.candidate()
        versions = [one for one in (self.current(), candidate) if one is not None]
        figures = {} if candidate is None or answering is not candidate else self._compared(candidate).figures
        return _json(metadata(self.name, answering, versions, figures))

    async def _infer(self, request: Request) -> Response:
        answering = self._asked_of(request)
        candidate = None if "version" in request.path_params else self.candidate()
        header, body, whole = _length(request, HEADER), bytearray(), b""
        try:
            await self._read(request, body)
            whole = bytes(body)
            body.clear()
            content, head, asked, both = await self._answered(whole, header, answering, candidate)
        except TooLargeError as error:
            raise HTTPException(413, str(error)) from error
        except (PeerError, UsageError) as error:
            raise HTTPException(400, str(error)) from error
        finally:
            self._held -= len(body) + len(whole)
        self.counts.requests += 1
        self.counts.records += asked.records
        self._compare(candidate, both)
        if asked.warning:
            self.counts.warned += 1
            self._warnings.note("http", asked.warning)
        if head is None:
            return Response(content, media_type="application/json")
        return Response(content, media_type="application/octet-stream", headers={HEADER: str(head)})

    async def _answered(
        self, body: bytes, header: int | None, answering: Answering, candidate: Answering | None
    ) -> tuple[bytes, int | None, InferRequest, AgreementCounts]:
        """Answer a request that is here, unless too many others are."""
        if self._begun >= self.limits.at_once:
            raise _busy(f"{self._begun} requests are being answered")
        self._begun += 1
        try:
            async with self._threads:
                return await run_in_threadpool(self._answer, body, header, answering, candidate)
        finally:
            self._begun -= 1

    def _answer(
        self, body: bytes, header: int | None, answering: Answering, candidate: Answering | None
    ) -> tuple[bytes, int | None, InferRequest, AgreementCounts]:
        """Return the body of an answer, the bytes of its JSON if others follow, what was asked, and a comparison."""
        asked = InferRequest.of(body, header, answering.model, self.limits)
        predictions, unread = predicted(asked, answering.model)
        asked, both = asked.warned(unread), AgreementCounts()
        if candidate is not None:
            both = compared(asked, self.limits, answering.model, predictions, candidate)
        return *answer(asked, answering, self.name, predictions), asked, both

    def _asked_of(self, request: Request) -> Answering:
        """Return the model that a request asks, or refuse the request."""
        name, version = request.path_params["name"], request.path_params.get("version")
        if name != self.name:
            raise HTTPException(404, f"there is no model {quoted(name)}; there is {self.name}")
        candidate = self.candidate()
        if version == CANDIDATE and candidate is not None:
            return candidate
        if (answering := self.current()) is None:
            raise HTTPException(503, "there is no model yet")
        if version not in (None, answering.version):
            raise HTTPException(
                404, f"version {quoted(version)} is not available; the current one is {answering.version}"
            )
        return answering

    def _compare(self, candidate: Answering | None, both: AgreementCounts) -> None:
        """Count a comparison, unless another candidate has taken the place of this one."""
        now = self.candidate()
        if candidate is not None and now is not None and candidate.model is now.model:
            self.counts.compared = self._compared(candidate) + both
            self._candidate = candidate.model

    def _compared(self, candidate: Answering) -> AgreementCounts:
        """Return what is counted of a candidate; that of an earlier one is not."""
        return self.counts.compared if candidate.model is self._candidate else AgreementCounts()

    def _check_ready(self) -> None:
        reason = "there is no model yet" if self.current() is None else self.ready()
        if reason is not None:
            raise HTTPException(503, reason)

    async def _read(self, request: Request, body: bytearray) -> None:
        """Read the body, within the limits of bytes, also of all bodies together, and of time."""
        if request.headers.get("content-encoding", "identity") != "identity":
            raise HTTPException(415, "the body is compressed: send it as it is")
        declared, most = _length(request, "Content-Length"), self.limits.most_bytes
        too_large = HTTPException(413, f"the body has more than {most} bytes; send fewer records at a time")
        if declared is not None and declared > most:
            raise too_large
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for chunk in request.stream():
                    if len(body) + len(chunk) > most:
                        raise too_large
                    if self._held + len(chunk) > most * self.limits.at_once:
                        raise _busy(f"requests of {self._held} bytes are being read")
                    self._held += len(chunk)
                    body += chunk
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {self.limits.seconds:g} s") from None
        except ClientDisconnect:
            raise HTTPException(400, "the connection ended before the body") from None
        if declared not in (None, len(body)):
            raise HTTPException(400, f"Content-Length is {declared}, and the body has {len(body)} bytes")

    async def _refused(self, request: Request, error: Exception) -> Response:
        """Count a refusal and tell it, in one line."""
        if not isinstance(error, HTTPException):
            raise error
        reason = bounded(" ".join(error.detail.split()))
        self.counts.refused[error.status_code] += 1
        self._refusals.note(f"http {error.status_code}", reason)
        response = _json({"error": reason}, error.status_code)
        response.headers.update(error.headers or {})
        return response


def _json(told: dict[str, object], status: int = 200) -> Response:
    return Response(msgspec.json.encode(told), status, media_type="application/json")


def _busy(why: str) -> HTTPException:
    return HTTPException(503, f"{why}; try again", headers={"Retry-After": "1"})


def _length(request: Request, header: str) -> int | None:
    """Return the number of bytes that a header of a request tells; None without the header."""
    told = request.headers.get(header)
    if told is None:
        return None
    if not told.isdecimal() or len(told) > 12:
        raise HTTPException(400, f"{header} is {quoted(told)}, which is not a number of bytes")
    return int(told)
