"""How far partitions go: whatever brokers do, they are asked again, and the page goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic

import pytest
from structlog.testing import capture_logs
from unit.live.page.told import accepted, closed, heard, joined, opened

from streamfl.errors import PeerError, UsageError
from streamfl.live.page import lag, service
from streamfl.live.page.lag import lag_of
from streamfl.live.page.service import serve_page
from streamfl.live.page.source import PageSource
from streamfl.live.stopping import Stop
from streamfl.runtime.ports import PartitionReach

REACH = {"r.c0/0": PartitionReach(9, 5)}


class Ends:
    """Partition ends whose answers, exceptions or functions come one after another; the last one again and again."""

    def __init__(self, *answers):
        self._answers, self.closed = list(answers), 0

    def of(self, _partitions):
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer() if isinstance(answer, Callable) else answer

    def close(self):
        self.closed += 1


def until(holds: Callable[[], bool]) -> None:
    end = monotonic() + 20.0
    while not holds():
        assert monotonic() < end
        Event().wait(0.005)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(lag, "ASK_EVERY", 0.01)


@pytest.mark.parametrize("error", [PeerError("no answer"), UsageError("a wrong password")])
def test_after_an_error_the_log_is_asked_again_on_a_new_connection(error):
    made, first, later = PageSource("forest"), Ends(REACH, error), Ends(REACH)
    connections = iter([first, error, later])

    def reach():
        one = next(connections)
        if isinstance(one, Exception):
            raise one
        return one

    with capture_logs() as logged, lag_of(made, reach):
        until(lambda: made.reach_changes == 3)  # known, unknown, known
    assert made.reaches == {}  # of a page that ends
    assert [(line["event"], line["reason"]) for line in logged] == [
        ("how many records wait is not known", str(error))
    ] * 2
    assert (first.closed, later.closed) == (1, 1)


def test_brokers_that_do_not_answer_hold_up_neither_the_page_nor_its_end(monkeypatch):
    monkeypatch.setattr(lag, "ENDED_WITHIN", 0.1)
    stop, asked, answered, read = Stop(), Event(), Event(), []

    class Log:
        unusable = behind = letters_before = 0
        letters_readable = True

        def read(self):
            asked.wait(20.0)
            read.append(1)
            stop.requested = len(read) > 10
            return []

        def close(self):
            pass

    class Connector:
        def watcher(self, *, last):
            return Log()

    @contextmanager
    def nowhere(*_) -> Iterator[str]:
        yield ""

    def silent():
        asked.set()
        answered.wait(20.0)
        return {}

    monkeypatch.setattr(service, "shown", nowhere)
    begun = monotonic()
    serve_page("forest", Connector(), "0", stop, reach=lambda: Ends(silent))
    took = monotonic() - begun
    answered.set()
    assert len(read) > 10
    assert took < 10.0


def test_a_page_has_another_version_only_when_partitions_go_farther():
    first = closed(1, [accepted("c0", 30, measured=(24.0, 15.0))], correct=24)
    made = PageSource("forest", heard(joined("c0"), opened(1), first))
    versions = []
    for reaches in ({}, REACH, dict(REACH), {"r.c0/0": PartitionReach(10, 5)}, {}):
        made.take_reaches(reaches)
        versions.append(made.version)
    assert len(set(versions)) == 4
    assert versions[1] == versions[2]
