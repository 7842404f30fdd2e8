"""How often a host polls for records: at once while there are more, seldom where few come."""

from types import SimpleNamespace

import pytest

from streamfl_connectors.kafka.hosts import host as module
from streamfl_connectors.kafka.hosts.host import AT_THE_END, LONGEST, SHORTEST, KafkaHost


class Records:
    """Partitions that hold so many messages; a poll brings at most ten."""

    labels, hungry, sources = None, True, {}

    def __init__(self):
        self.left, self.polls = 0, []

    def read(self):
        self.polls.append(min(self.left, 10))
        self.left -= self.polls[-1]
        return self.polls[-1] > 0

    @property
    def is_behind(self):
        return self.left > 0


class Clock:
    """The time, which passes while the host listens."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds

    def clear(self):
        pass


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def host(clock):
    host = KafkaHost.__new__(KafkaHost)
    host._records, host._received, host._answers, host._repartitioner = Records(), clock, None, None
    host._links, host.counts = SimpleNamespace(foreign=0), SimpleNamespace()
    host._pause, host._poll_at = SHORTEST, 0.0
    return host


def polls(host, clock, *, seconds, every=None):
    """Return what each poll brought in so many seconds, while a message comes every so often."""
    began, done, came = clock.now, len(host._records.polls), 0
    while clock.now - began < seconds:
        if every is not None:
            came, before = int((clock.now - began) / every), came
            host._records.left += came - before
        host.poll_clients()
        host.listen(0.5)
    return host._records.polls[done:]


def test_a_backlog_is_read_without_a_pause(host, clock):
    host._records.left = 1000
    began = clock.now
    for _ in range(100):
        host.poll_clients()
    assert host._records.left == 0
    assert clock.now == began


def test_single_messages_are_read_a_few_at_a_time(host, clock):
    found = polls(host, clock, seconds=10.0, every=0.005)
    assert sum(found) == pytest.approx(2000, abs=10)
    assert len(found) <= 10.0 / AT_THE_END + 5  # the first few find nothing
    assert max(found) <= 5


def test_without_messages_polls_become_seldom_and_the_first_message_ends_that(host, clock):
    assert len(polls(host, clock, seconds=10.0)) <= 10.0 / LONGEST + 7
    host._records.left = 15
    began = clock.now
    host.poll_clients()
    while host._records.left:
        host.listen(0.5)
        host.poll_clients()
    assert clock.now - began <= 2 * LONGEST
    assert len(polls(host, clock, seconds=AT_THE_END / 2)) == 0, "at the end it leaves time for some to come"


def test_a_message_of_the_coordinator_does_not_make_it_poll(host, clock):
    polls(host, clock, seconds=10.0)
    done = len(host._records.polls)
    for _ in range(20):
        host.poll_clients()
        clock.now += LONGEST / 50
    assert len(host._records.polls) <= done + 1
