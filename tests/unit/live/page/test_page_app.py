"""The page over HTTP: what it says, to whom, and how it changes."""

import asyncio
import json
import re
import socket
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from asgi import asked, call
from patched_page import patched
from structlog.testing import capture_logs
from unit.live.page.told import IMAGE, accepted, closed, heard, joined, opened

from streamfl.errors import PeerError, UsageError
from streamfl.live.http.names import UnderItsNames
from streamfl.live.page import app as served
from streamfl.live.page import service
from streamfl.live.page.app import app
from streamfl.live.page.service import PageReader, serve_page, shown
from streamfl.live.page.source import PageSource
from streamfl.live.stopping import Stop
from streamfl.run import page as drawn
from streamfl.runtime.ports import LoggedDeadLetter, LoggedMessage

NOW = 1_700_000_000.0
HERE = {"host": "localhost:8080"}
STATIC = Path(drawn.__file__).parent / "static"


def source(*messages):
    return PageSource("forest", heard(*messages))


def get(made, path, **headers):
    return call(app(made), "GET", path, headers=HERE | headers)


@pytest.fixture
def two_rounds():
    first = closed(1, [accepted("c0", 30, rejected=2, measured=(24.0, 15.0)), ("c1", 10)], correct=30)
    return source(joined("c0"), joined("c1"), opened(1), first, opened(2), closed(2, [("c0", 40)], correct=10))


class TestPage:
    @pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/uplot.js", "/uplot.css"])
    def test_the_page_is_a_few_files_that_may_load_nothing_from_elsewhere(self, two_rounds, path):
        reply = get(two_rounds, path)
        assert reply.status == 200
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy

    def test_the_page_has_no_script_nor_style_in_its_text_and_asks_no_other_server(self):
        html = (STATIC / "page.html").read_text(encoding="utf-8")
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", html)
        ours = (
            html
            + (STATIC / "page.js").read_text(encoding="utf-8")
            + (STATIC / "page.css").read_text(encoding="utf-8")
        )
        assert not re.search(r"https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", ours)

    def test_the_plotting_library_comes_with_its_licence(self):
        assert "MIT License" in (STATIC / "uplot.LICENSE").read_text(encoding="utf-8")
        assert "uPlot" in (STATIC / "uplot.js").read_text(encoding="utf-8")[:200]

    def test_the_page_is_not_shown_under_the_name_of_another_site(self, two_rounds):
        rebound = {"host": "evil.example:8080"}
        own = UnderItsNames(app(two_rounds))
        for path in ("/", "/view", "/events"):
            refused = call(own, "GET", path, headers=rebound)
            assert (refused.status, "--host-name" in refused.error) == (400, True)
        assert call(UnderItsNames(app(two_rounds), ["Evil.example"]), "GET", "/view", headers=rebound).status == 200
        for host in ("127.0.0.2:8080", "[::1]:8080", "10.1.2.3", socket.gethostname()):
            assert call(own, "GET", "/view", headers={"host": host}).status == 200


class TestView:
    def test_a_log_that_is_silent_for_long_is_called_stalled_as_minutes_pass(self):
        made = source(joined("c0"), opened(1), *(closed(n, [("c0", 9)], correct=9) for n in range(1, 6)))
        last = 1_700_000_000 + 60 * 6  # an entry a minute
        told = []
        for minutes in (9, 12, 12.5, 13):
            made.clock = lambda now=last + 60 * minutes: now
            told.append((made.version, made.now()[1]["story"][0]))
        assert [kind for _, (_, kind) in told] == ["well", "stalled", "stalled", "stalled"]
        assert told[1][1][0].startswith(
            "Stalled: no entry has come since 2023-11-14T22:19:20Z, for 12 minutes; usually"
        )
        assert told[1][0] == told[2][0] != told[3][0], "a page that is open is told of each minute"
        assert made.as_of(3)["story"][0][1] == "well", "what was, was not late"

    def test_the_view_is_given_now_and_as_of_an_entry(self, two_rounds):
        now, then = get(two_rounds, "/view").json, get(two_rounds, "/view?entry=1").json
        assert (now["headline"]["value"], now["headline"]["records"], now["headline"]["entry"]) == (0.25, 80, 2)
        assert (then["headline"]["value"], then["headline"]["records"], then["headline"]["round"]) == (0.75, 40, 2)
        assert now["about"] | {"name": "forest", "first": 1, "last": 2} == now["about"]

    @pytest.mark.parametrize("entry", ["3", "0", "9999999999999999"])
    def test_the_view_of_an_entry_that_is_not_held_is_not_found(self, two_rounds, entry):
        reply = get(two_rounds, f"/view?entry={entry}")
        assert (reply.status, reply.error) == (404, f"the page does not have entry {entry}")

    @pytest.mark.parametrize("entry", ["x", "-1", "1.5", "1" * 99, ""])
    def test_the_view_of_an_entry_that_is_no_number_is_refused(self, two_rounds, entry):
        reply = get(two_rounds, f"/view?entry={entry}")
        assert (reply.status, reply.error) == (400, "entry is a whole number")
        assert get(two_rounds, "/view?entry=%31").json["headline"]["entry"] == 1

    def test_the_updates_of_an_entry_are_listed_with_their_positions(self, two_rounds):
        found = get(two_rounds, "/entry?entry=1").json
        assert found["updates"] == [
            ["c0", 30, 2, [["r.c0/0", 0, 32]], 0.8, 0.5],
            ["c1", 10, 0, [["r.c1/0", 0, 10]], None, None],
        ]
        assert get(two_rounds, "/entry").status == 404

    def test_large_answers_are_compressed_for_those_who_can_read_that(self):
        made = source(*(joined(f"c{i}") for i in range(100)))
        assert get(made, "/view").headers.get("content-encoding") is None
        reply = get(made, "/view", **{"accept-encoding": "gzip"})
        assert reply.headers["content-encoding"] == "gzip"
        assert len(reply.body) < len(get(made, "/view").body) / 2

    def test_the_view_of_an_entry_has_the_dead_letters_until_it(self, two_rounds):
        for minutes in (1, 10):
            two_rounds.letters.add(LoggedDeadLetter("r.c0", 0, 1, "no label", 1_700_000_000_000 + 60_000 * minutes))
        count = [get(two_rounds, f"/view{query}").json["letters"][0]["count"] for query in ("", "?entry=2")]
        assert count == [2, 2]
        assert get(two_rounds, "/view?entry=1").json["letters"][0]["count"] == 1, "until the next entry came"


def stream(made, steps):
    """The events of a stream that is looked at so many times, with what happens at each look."""
    looks = iter(steps)

    def ending():
        step = next(looks, None)
        if step is not None:
            step()
        return step is None

    reply = call(app(made, ending=ending), "GET", "/events", headers=HERE)
    assert reply.headers["content-type"].startswith("text/event-stream")
    blocks = [block.splitlines() for block in reply.body.decode().split("\n\n") if block.startswith("event")]
    return [(kind.partition(": ")[2], json.loads(data.partition(": ")[2])) for kind, data in blocks]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(served, "LOOK", 0.001)
    monkeypatch.setattr(service, "PAUSE", 0.0)


class TestStream:
    def test_the_stream_sends_the_whole_view_and_then_its_changes(self, two_rounds):
        third = lambda: two_rounds.history.hear(closed(3, [("c0", 5)], correct=5))  # noqa: E731
        nothing = lambda: None  # noqa: E731
        events = stream(two_rounds, [nothing, nothing, third, nothing])
        assert [kind for kind, _ in events] == ["view", "changes"]
        assert events[1][1]["rounds"] == {"length": 3, "rows": {"2": [3, 3, 3, 1, 5, 1.0, 0.0, 0]}}
        assert "drifts" not in events[1][1]
        page = patched(patched({}, events[0][1]), events[1][1])
        assert page == get(two_rounds, "/view").json

    def test_the_number_of_open_streams_is_bounded_however_many_ask_at_once(self, two_rounds, monkeypatch):
        monkeypatch.setattr(served, "STREAMS", 2)
        looks = iter(range(20))
        made = app(two_rounds, ending=lambda: next(looks, None) is None)

        async def main():
            return await asyncio.gather(*(asked(made, "GET", "/events", headers=HERE) for _ in range(6)))

        replies = asyncio.run(main())
        assert [reply.status for reply in replies].count(200) == 2
        assert {reply.error for reply in replies if reply.status != 200} == {
            "2 pages are open already, which is the limit; ask /view instead"
        }

    def test_a_stream_that_ended_makes_room_for_another(self, two_rounds, monkeypatch):
        monkeypatch.setattr(served, "STREAMS", 1)
        made = app(two_rounds, ending=lambda: True)
        for _ in range(3):
            assert call(made, "GET", "/events", headers=HERE).status == 200


class Log:
    """A watcher whose reads are told: what comes, and how much is left."""

    letters_before, letters_readable, unusable = 3, True, 0

    def __init__(self, *reads):
        self._reads, self.behind, self.closed = (
            list(reads),
            sum(len(one) for one in reads if isinstance(one, list)),
            False,
        )

    def read(self):
        assert not self.closed
        heard = self._reads.pop(0) if self._reads else []
        if isinstance(heard, Exception):
            raise heard
        self.behind -= len(heard)
        return heard

    def close(self):
        self.closed = True


def entries(*numbers):
    return [LoggedMessage(closed(n, [("c0", 10)])) for n in numbers]


class TestReading:
    def test_the_page_shows_the_end_of_the_log_until_all_of_it_is_read(self):
        made = PageSource("forest")
        end, whole = Log(entries(4, 5)), Log(entries(1, 2), entries(3, 4, 5), entries(6))
        reading = PageReader(made, end, whole)
        whole.behind = 5
        reading.step(NOW)
        assert (made.history.now.records, made.history.first, reading.status()["read"]) == (20, 4, 0.5)
        assert not end.closed
        reading.step(NOW)
        assert (made.history.now.records, made.history.first, reading.status()["read"]) == (50, 1, 1.0)
        assert end.closed
        reading.step(NOW)
        assert made.history.now.entry == 6

    def test_the_page_counts_each_dead_letter_once(self):
        letter = LoggedDeadLetter("r.c0", 0, 1, "no label")
        made = PageSource("forest")
        reading = PageReader(made, Log([*entries(1), letter]), Log(entries(1), [letter, *entries(2)]))
        for _ in range(3):
            reading.step(NOW)
        assert [count for _, count in made.letters.counted()] == [1]
        assert made.letters.before == 3

    def test_a_page_goes_on_when_the_log_does_not_answer(self):
        stop, logs = Stop(), [Log(entries(1)), Log(entries(1), PeerError("no answer from 127.0.0.1:9"), entries(2))]
        logs[1].behind = 1

        class Connector:
            def watcher(self, *, last):
                assert last == (service.FIRST if len(logs) == 2 else None)
                return logs.pop(0)

        whole = logs[1]
        read = whole.read
        whole.read = lambda: read() if whole._reads else setattr(stop, "requested", True) or []
        with capture_logs() as logged:
            serve_page("forest", Connector(), "0", stop)
        assert [line["event"] for line in logged] == ["page", "the whole log is read"]
        assert whole.closed

    def test_a_page_waits_for_a_federation_and_says_so(self):
        stop, made = Stop(), {}
        first = Log(entries(1))
        answers = [PeerError("no topic forest.control"), first, PeerError("gone"), Log(entries(1)), Log()]

        class Connector:
            def watcher(self, *, last):
                answer = answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                stop.requested = not answers
                return answer

        def remember(source, *_):
            made["source"] = source
            return nullcontext()

        with pytest.MonkeyPatch.context() as patch, capture_logs() as logged:
            patch.setattr(service, "shown", remember)
            patch.setattr(service, "PAUSE", 0.0)
            serve_page("forest", Connector(), "0", stop)
        unread = [line["reason"] for line in logged if line["event"] == "the federation cannot be read yet"]
        assert (unread, answers) == (["no topic forest.control", "gone"], [])
        assert first.closed, "a reader is closed if the other cannot be had"
        assert made["source"].status().keys() == {"read", "unusable", "silent_since"}
        made["source"].status = lambda: {"unread": "no topic forest.control"}
        assert get(made["source"], "/view").json["about"]["unread"] == "no topic forest.control"

    def test_the_page_says_since_when_the_log_does_not_answer(self):
        made, silence = PageSource("forest"), PeerError("no answer from 127.0.0.1:9")
        whole = Log(entries(1), silence, silence, entries(2))
        reading, told, stories = PageReader(made, Log(), whole), [], []
        whole.behind = 1
        for second in range(4):
            with suppress(PeerError):
                reading.step(NOW + second)
            view = get(made, "/view").json
            told.append(view["about"]["silent_since"])
            stories.append("the log does not answer" in view["story"][0][0])
        assert stories == [False, True, True, False]
        assert told == ["", "2023-11-14T22:13:21Z", "2023-11-14T22:13:21Z", ""]


def test_a_page_refuses_text_that_is_no_address():
    with (
        pytest.raises(UsageError, match="'here' is not an address"),
        shown(PageSource("f"), "here"),
    ):
        pass


def test_names_of_anybody_stay_text(two_rounds):
    two_rounds.history.hear(joined(IMAGE))
    reply = get(two_rounds, "/view")
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert IMAGE in [row[0] for row in reply.json["clients"]]
