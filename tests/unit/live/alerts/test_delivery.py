"""How alerts reach people."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path

import pytest

from streamfl.errors import PeerError, UsageError
from streamfl.live.alerts.delivery import (
    BODIES,
    FIRST,
    LONGEST,
    MOST,
    DeliveryError,
    LocalProgram,
    Outbox,
    Webhook,
    json_body,
    key_in,
    signature,
)
from streamfl.live.alerts.findings import alert_findings
from streamfl.live.alerts.rules import Alert, AlertRules
from streamfl.live.alerts.service import AlertService, channels, send_test
from streamfl.live.settings.tables import Alerts
from streamfl.protocol.messages import Left, Refusal
from streamfl.runtime.ports import LoggedMessage

ALERT = Alert(federation="forest", kind="silent", text="Größe sent no record", time="2026-01-01T00:00:00Z", round=7)


@contextmanager
def listening(*answers: int) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """Serve on loopback, with these statuses one after another, then 200; yield the address and what was posted."""
    posted: list[tuple[dict[str, str], bytes]] = []
    statuses = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(statuses.pop(0) if statuses else 200)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", posted
        finally:
            server.shutdown()
            thread.join()


def webhook(address: str, form: str = "json", secret: bytes | None = None) -> Webhook:
    return Webhook(address, BODIES[form], secret, time=lambda: 1_700_000_000.9)


def test_a_webhook_receives_the_alert_as_signed_json() -> None:
    with listening() as (address, posted):
        webhook(address, secret=b"key").send(ALERT)
    ((headers, body),) = posted
    assert (
        json.loads(body)
        == json_body(ALERT)
        == {
            "federation": "forest",
            "kind": "silent",
            "text": "Größe sent no record",
            "time": "2026-01-01T00:00:00Z",
            "is_over": False,
            "round": 7,
        }
    )
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    assert headers["X-Streamfl-Time"] == "1700000000"
    assert headers["X-Streamfl-Signature"] == signature(b"key", "1700000000", body)


def test_neither_the_secret_nor_an_address_that_may_be_one_is_in_a_text() -> None:
    shown = repr(webhook("https://hooks.example.org/T0/B0", secret=b"key"))
    assert "T0" not in shown
    assert "key" not in shown


def test_without_a_secret_nothing_is_signed() -> None:
    with listening() as (address, posted):
        webhook(address, "slack").send(ALERT)
    ((headers, body),) = posted
    assert json.loads(body) == {"text": "forest: Größe sent no record"}
    assert not [name for name in headers if name.startswith("X-Streamfl")]


@pytest.mark.parametrize("status", [302, 404, 500])
def test_any_other_answer_is_a_failure_and_no_redirection_is_followed(status: int) -> None:
    refused = pytest.raises(DeliveryError, match=f"the webhook answered {status}")
    with listening(status) as (address, posted), refused:
        webhook(address).send(ALERT)
    assert len(posted) == 1


def test_a_webhook_that_does_not_answer_or_cannot_be_is_a_failure() -> None:
    with listening() as (address, _):
        pass
    for nowhere in (address, "https://hooks..example.org/x", f"http://{'h' * 70}/x", "http://["):
        with pytest.raises(DeliveryError, match="does not answer"):
            webhook(nowhere).send(ALERT)


@pytest.mark.process
def test_a_command_reads_the_alert_from_its_input(tmp_path: Path) -> None:
    found = tmp_path / "found"
    program = f"import sys; open({str(found)!r}, 'wb').write(sys.stdin.buffer.read())"
    LocalProgram((sys.executable, "-c", program)).send(ALERT)
    assert json.loads(found.read_bytes()) == json_body(ALERT)
    with pytest.raises(DeliveryError, match="ended with status 3"):
        LocalProgram((sys.executable, "-c", "raise SystemExit(3)")).send(ALERT)
    with pytest.raises(DeliveryError, match="could not be run"):
        LocalProgram((str(tmp_path / "none"),)).send(ALERT)


class Failing:
    """Fails so many times."""

    def __init__(self, times: int) -> None:
        self.times, self.sent = times, list[str]()

    def send(self, alert: Alert) -> None:
        self.times -= 1
        if self.times >= 0:
            raise DeliveryError("no")
        self.sent.append(alert.text)


def alert(text: str) -> Alert:
    return Alert(federation="f", kind="drift", text=text, time="")


def test_alerts_are_delivered_in_order_and_failures_tried_again_after_longer_and_longer() -> None:
    channel, tried = Failing(4), list[float]()
    outbox = Outbox(channel, failed=lambda _: tried.append(now), given_up=lambda _: None)
    outbox.add(alert("a"))
    outbox.add(alert("b"))
    for now in map(float, range(20)):
        outbox.deliver(now)
    assert tried == [0.0, FIRST, FIRST * 3, FIRST * 7]
    assert channel.sent == ["a", "b"]


def test_the_pause_has_a_bound_and_begins_anew_after_a_success() -> None:
    channel, tried = Failing(20), list[float]()
    outbox = Outbox(channel, failed=lambda _: tried.append(now), given_up=lambda _: None)
    outbox.add(alert("a"))
    for now in map(float, range(int(15 * LONGEST))):
        outbox.deliver(now)
    assert max(b - a for a, b in pairwise(tried)) == LONGEST
    channel.times = 1
    outbox.add(alert("b"))
    outbox.deliver(now)
    outbox.deliver(now + FIRST)
    assert channel.sent == ["a", "b"]


def test_what_waits_is_bounded_and_what_is_given_up_is_told() -> None:
    given_up = list[Alert]()
    outbox = Outbox(Failing(10**9), failed=lambda _: None, given_up=given_up.append)
    for n in range(MOST + 2):
        outbox.add(alert(str(n)))
    assert [one.text for one in given_up] == ["0", "1"]
    assert len(outbox.waiting) == MOST


def test_settings_without_anybody_to_tell_are_refused() -> None:
    with pytest.raises(UsageError, match="alerts would reach nobody"):
        channels(Alerts())
    both = Alerts(webhook="https://x", command=(sys.executable,))
    assert [type(one) for one in channels(both)] == [Webhook, LocalProgram]


def test_a_way_that_cannot_work_is_found_by_check_and_before_the_first_alert(tmp_path: Path) -> None:
    program = tmp_path / "page-me"
    program.write_text("#!/bin/sh\n")
    for settings, why in (
        (Alerts(command=(str(program),)), "is not executable"),
        (Alerts(command=(str(tmp_path / "other"),)), "no such file"),
        (Alerts(command=("no-such-program-here",)), "was not found in PATH"),
        (Alerts(webhook="https://host:port/x"), "not the address of a web server"),
        (Alerts(webhook="https://x", secret=tmp_path / "none"), "cannot be read"),
    ):
        (finding,) = alert_findings(settings)
        assert finding.state == "warning" and why in finding.found, finding
        with pytest.raises(UsageError, match=why):
            channels(settings)
    program.chmod(0o700)
    assert [one.state for one in alert_findings(Alerts(command=(str(program),)))] == ["ok"]


def test_a_test_alert_goes_all_ways_and_says_which_failed() -> None:
    well, broken = Failing(0), Failing(1)
    with pytest.raises(UsageError, match="the test alert was not delivered: "):
        send_test("forest", [broken, well], time=lambda: 0.0)
    assert well.sent == ["this is a test: alerts arrive here"]
    send_test("forest", [well], time=lambda: 0.0)


def test_a_secret_is_read_without_the_end_of_its_line(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    with pytest.raises(UsageError, match="cannot be read"):
        key_in(file)
    file.write_text("\n")
    with pytest.raises(UsageError, match="is empty"):
        key_in(file)
    file.write_text("s3cret\n")
    assert key_in(file) == b"s3cret"


class Log:
    """A watcher of messages that come in so many portions, of which the first ones were there at the beginning."""

    letters_before, letters_readable, unusable = 0, False, 0

    def __init__(self, *portions: list[object] | Exception, there: int = 0) -> None:
        self.portions, self.behind = list(portions), there

    def read(self) -> list[LoggedMessage]:
        portion = self.portions.pop(0) if self.portions else []
        if isinstance(portion, Exception):
            raise portion
        self.behind = max(0, self.behind - 1)
        return [LoggedMessage(message) for message in portion]

    def close(self) -> None:
        pass


class Counted:
    """Asks to stop after so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    @property
    def requested(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def evicted(client: str) -> Refusal:
    return Refusal(client=client, incarnation=1, entry=2, reason="x", evicted=True)


def test_only_what_comes_after_the_history_is_sent_and_only_the_wanted_kinds() -> None:
    channel, left = Failing(0), Left(client="c", nonce="1")
    outbox = Outbox(channel, failed=lambda _: None, given_up=lambda _: None)
    history = [[], [left], [evicted("old")], PeerError("no broker answers"), [evicted("older")]]
    log = Log(*history, [left], [evicted("new")], there=4)
    service = AlertService(log, AlertRules("f", None, 3), ("evicted",), [outbox], time=lambda: 0.0)
    service.pause = lambda _: None
    service.run(Counted(9))
    assert channel.sent == ["new was evicted: x"]
    log = Log([], [evicted("new")])
    AlertService(log, AlertRules("f", None, 3), ("drift",), [outbox], time=lambda: 0.0).run(Counted(6))
    assert len(channel.sent) == 1


def test_brokers_that_are_away_are_told_and_end_nothing() -> None:
    channel, clock = Failing(0), iter(range(0, 10_000, 30)).__next__
    outbox = Outbox(channel, failed=lambda _: None, given_up=lambda _: None)
    log = Log([], PeerError("no broker answers"), PeerError("no broker answers"), [], [evicted("new")])
    service = AlertService(log, AlertRules("f", 60.0, 3), ("stalled", "evicted"), [outbox], clock, lambda: 0.0)
    service.pause = lambda _: None
    service.run(Counted(6))
    assert channel.sent[0].endswith("s: no broker answers")
    assert channel.sent[1:] == ["new was evicted: x"]
