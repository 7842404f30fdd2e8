"""A headless Chromium, driven over its DevTools protocol through pipes."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE = 60.0

FOUND = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class Browser:
    """One tab of a browser.

    Parameters
    ----------
    commands, answers
        Descriptors of the pipes to and from the browser: JSON, each message ended by a zero.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers, self._buffer = commands, answers, b""
        self._numbers = itertools.count(1)
        self.said: list[str] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> Any:
        """Send a command to the tab, and return its result."""
        return self._ask(method, session=self._session, **params)

    def _ask(self, method: str, session: str | None = None, **params: Any) -> Any:
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            if message.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}:
                self.said.append(json.dumps(message["params"]))

    def _message(self) -> Any:
        while b"\0" not in self._buffer:
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, url: str, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        """Open a page in a window of this size."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        """Wait until an expression is true in the page, and return its value."""
        ends = time.monotonic() + PATIENCE
        while not (value := self.value(script)):
            assert time.monotonic() < ends, (script, self.said, self.value("document.body.innerText")[:500])
            time.sleep(0.05)
        return value

    def named(self, name: str) -> list[str]:
        """Return the values of all elements with a name, as numbers that are not rounded for people."""
        return self.value(f"[...document.querySelectorAll('[data-name=\"{name}\"]')].map(e => e.dataset.value)")

    def column(self, table: str, nth: int) -> list[str]:
        """Return the texts of a column of a table, counted from 1."""
        cells = f"#{table} tbody td:nth-child({nth})"
        return self.value(f"[...document.querySelectorAll('{cells}')].map(e => e.textContent)")

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Save a picture of the window, or of the whole page."""
        made = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(made["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser that keeps its files in a folder, and end it after the block."""
    assert FOUND is not None
    its_commands, commands = os.pipe()
    answers, its_answers = os.pipe()
    words = [FOUND, *FLAGS, f"--user-data-dir={folder}"]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{its_commands} 4>&{its_answers}', "bash", *words],
            pass_fds=(its_commands, its_answers),
            stdout=log,
            stderr=log,
        )
    os.close(its_commands)
    os.close(its_answers)
    try:
        yield Browser(commands, answers)
    finally:
        process.kill()
        process.wait()
        for descriptor in (commands, answers):
            with suppress(OSError):
                os.close(descriptor)
