"""Sends alerts: to an address on the web, or to a command of the operator's."""

import hashlib
import hmac
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from streamfl.errors import UsageError
from streamfl.live.alerts.rules import Alert
from streamfl.runtime.no_redirects import open_directly

# Seconds that a delivery may take.
WITHIN = 10.0

# Seconds until a failed delivery is tried again; they double up to the longest.
FIRST, LONGEST = 1.0, 300.0

# The most alerts that wait to be delivered; beyond it the oldest one is given up.
MOST = 1000

# The headers of a signed message.
TIME, SIGNATURE = "X-Streamfl-Time", "X-Streamfl-Signature"


class DeliveryError(Exception):
    """An alert was not delivered; it is tried again."""


class Channel(Protocol):
    """A way to people."""

    def send(self, alert: Alert) -> None:
        """Deliver an alert.

        Raises
        ------
        DeliveryError
            It was not delivered.
        """
        ...


def json_body(alert: Alert) -> dict[str, object]:
    """Return the alert as a JSON object: its fields by name."""
    return alert.plain


def slack_body(alert: Alert) -> dict[str, object]:
    """Return the alert as Slack, Mattermost and others show it; names cannot make links or mention anybody.

    >>> slack_body(Alert(federation="forest", kind="ended", text="<!channel> & more", time="2026-01-01T00:00:00Z"))
    {'text': 'forest: &lt;!channel&gt; &amp; more'}
    """
    text = f"{alert.federation}: {alert.text}"
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


# What a webhook receives, by the name in `[alerts] form`.
BODIES: dict[str, Callable[[Alert], dict[str, object]]] = {"json": json_body, "slack": slack_body}


@dataclass(frozen=True)
class Webhook:
    """Posts alerts to an address."""

    address: str = field(repr=False)  # where to
    body: Callable[[Alert], dict[str, object]]  # what is posted of an alert
    secret: bytes | None = field(repr=False)  # the key that signs it; None: it is not signed
    time: Callable[[], float]  # seconds since 1970

    def send(self, alert: Alert) -> None:
        """Post an alert; any answer but 2xx is a failure, also a redirection."""
        data = json.dumps(self.body(alert), ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json; charset=utf-8", **self._signed(data)}
        try:
            request = urllib.request.Request(self.address, data, headers, method="POST")  # noqa: S310  http(s) only
            with open_directly(request, timeout=WITHIN):
                pass
        except urllib.error.HTTPError as error:
            error.close()
            raise DeliveryError(f"the webhook answered {error.code}") from error
        except (OSError, HTTPException, ValueError) as error:  # ValueError: a name that no host can have
            raise DeliveryError(f"the webhook does not answer: {error}") from error

    def _signed(self, data: bytes) -> dict[str, str]:
        if self.secret is None:
            return {}
        time = str(int(self.time()))
        return {TIME: time, SIGNATURE: signature(self.secret, time, data)}


def signature(secret: bytes, time: str, data: bytes) -> str:
    """Return HMAC-SHA256 (RFC 2104) of the time, a full stop and the body, in hexadecimal digits.

    >>> signature(b"key", "1700000000", b"{}")[:20]
    '9d713ed406bb7076d412'
    """
    return hmac.new(secret, time.encode() + b"." + data, hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class LocalProgram:
    """Runs a program for each alert, which reads it from its standard input as a line of JSON."""

    arguments: Sequence[str]  # the program and its arguments; no shell sees them

    def send(self, alert: Alert) -> None:
        """Run the program; any exit status but 0 is a failure."""
        data = json.dumps(json_body(alert), ensure_ascii=False).encode() + b"\n"
        try:
            done = subprocess.run(self.arguments, input=data, timeout=WITHIN, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeliveryError(f"the command could not be run: {error}") from error
        if done.returncode:
            raise DeliveryError(f"the command ended with status {done.returncode}")


@dataclass
class Outbox:
    """Delivers alerts through one channel in order, and tries again what could not be delivered."""

    channel: Channel  # where to
    failed: Callable[[DeliveryError], None]  # called with why a delivery failed
    given_up: Callable[[Alert], None]  # called with an alert that is given up, because too many wait
    waiting: deque[Alert] = field(default_factory=deque)
    _again: float = 0.0
    _pause: float = FIRST

    def add(self, alert: Alert) -> None:
        """Take an alert to be delivered."""
        if len(self.waiting) == MOST:
            self.given_up(self.waiting.popleft())
        self.waiting.append(alert)

    def deliver(self, now: float) -> None:
        """Deliver what waits, unless it is too early to try again."""
        while self.waiting and now >= self._again:
            try:
                self.channel.send(self.waiting[0])
            except DeliveryError as error:
                self._again, self._pause = now + self._pause, min(2.0 * self._pause, LONGEST)
                self.failed(error)
                return
            self._pause = FIRST
            self.waiting.popleft()


def wrong_command(arguments: Sequence[str]) -> tuple[str, str] | None:
    """Return why a command cannot be run, and what to do; None if it can.

    >>> wrong_command(["python3"]), wrong_command(["/nowhere/page-me"])
    (None, ('/nowhere/page-me: no such file', 'write the path of a program'))
    """
    program = arguments[0]
    if shutil.which(program) is not None:
        return None
    if "/" not in program:
        return f"{program} was not found in PATH", "write its path"
    if Path(program).is_file():
        return f"{program} is not executable", f"chmod +x {program}"
    return f"{program}: no such file", "write the path of a program"


def wrong_address(webhook: str) -> tuple[str, str] | None:
    """Return what is wrong with the address of a webhook, and what to do; None if it can be one.

    >>> wrong_address("https://chat.example/T1"), wrong_address("https://chat.example:port/T1")
    (None, ('not the address of a web server', 'write https://HOST/PATH, or http://HOST:PORT/PATH'))
    """
    try:
        parts = urlsplit(webhook)
        is_right = bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or a bracket is not closed
        is_right = False
    # The address itself may be secret.
    return (
        None if is_right else ("not the address of a web server", "write https://HOST/PATH, or http://HOST:PORT/PATH")
    )


def key_in(path: Path) -> bytes:
    """Return the secret in a file, without the end of its line.

    Raises
    ------
    UsageError
        It cannot be read, or is empty.
    """
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"[alerts] secret: {path}: cannot be read: {error.strerror}") from error
    if not key:
        raise UsageError(f"[alerts] secret: {path} is empty; write a long random text into it")
    return key
