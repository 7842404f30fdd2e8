"""Calls an ASGI app without a server: what a request says and what it sends need not agree."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """Return the reason of a refusal, which is one line."""
        assert 400 <= self.status < 600
        (reason,) = self.json.values()
        assert list(self.json) == ["error"]
        assert reason
        assert len(reason.splitlines()) == 1
        return reason


async def asked(
    app: Any,
    method: str,
    path: str,
    body: bytes | Sequence[bytes] = b"",
    headers: dict[str, str] | None = None,
    *,
    end: bool = True,
) -> Reply:
    """Send a request in chunks; without `end`, the body never ends."""
    chunks = [body] if isinstance(body, bytes) else list(body)
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    if end:
        messages[-1]["more_body"] = False
    sent = list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.Event().wait()  # nothing comes any more
        return messages.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    await app(scope, receive, send)
    start, *parts = sent
    return Reply(
        start["status"],
        {name.decode(): value.decode("latin-1") for name, value in start["headers"]},
        b"".join(part.get("body", b"") for part in parts),
    )


def call(app: Any, method: str, path: str, *args: Any, **options: Any) -> Reply:
    """Send one request to an app, in a loop of its own."""
    return asyncio.run(asked(app, method, path, *args, **options))
