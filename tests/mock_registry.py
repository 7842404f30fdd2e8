"""A Schema Registry for tests, and messages as its clients frame them."""

import io
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


class Answers(BaseHTTPRequestHandler):
    schemas: ClassVar[dict[int, bytes]] = {}
    asked: ClassVar[Counter[str]] = Counter()
    status = 200

    def do_GET(self) -> None:
        self.asked[self.path] += 1
        number = int(self.path.rpartition("/")[2].partition("?")[0])
        body = self.schemas.get(number)
        self.send_response(404 if body is None else self.status)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def answering() -> Iterator[str]:
    """Run a registry without schemas, and yield its address."""
    Answers.schemas, Answers.asked, Answers.status = {}, Counter(), 200
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def schema(number: int, text: object, kind: str = "AVRO") -> None:
    """Give the registry a schema."""
    written = text if isinstance(text, str) else json.dumps(text)
    Answers.schemas[number] = json.dumps({"schema": written, "schemaType": kind}).encode()


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + payload


def avro(number: int, record: object, plan: object) -> bytes:
    import fastavro

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(plan), record)
    return framed(number, out.getvalue())
