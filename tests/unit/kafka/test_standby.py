"""How long a coordinator may be silent before another one takes over."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl_connectors.kafka.coordinator import standby
from streamfl_connectors.kafka.coordinator.standby import Silence, until_silent

GAPS = st.lists(st.floats(0.01, 2.0), max_size=30)


def heard(least, gaps):
    silence, now = Silence(least, 0.0), 0.0
    for gap in gaps:
        now += gap
        silence.heard(now)
    return silence, now


def test_regular_heartbeats_leave_the_limit_of_silence_at_its_least():
    silence, now = heard(0.3, [0.05] * 100)
    assert not silence.is_over(now + 0.29)
    assert silence.is_over(now + 0.31)


def test_late_heartbeats_raise_the_limit_of_silence_to_at_most_four_times_the_least():
    assert heard(0.3, [0.05, 0.25, 0.05])[0].limit == 0.5
    assert heard(0.3, [5.0])[0].limit == pytest.approx(1.2)


def test_a_late_heartbeat_is_forgotten_after_a_minute_of_regular_ones():
    assert heard(0.3, [0.25] + [0.05] * (standby.GAPS - 1))[0].limit == pytest.approx(0.5)
    assert heard(0.3, [0.25] + [0.05] * standby.GAPS)[0].limit == 0.3


def test_a_time_in_which_no_heartbeat_could_be_heard_is_no_silence():
    silence, now = heard(0.3, [0.05])
    silence.excused(now + 60.0)
    assert not silence.is_over(now + 60.29)
    silence.heard(now + 60.05)
    assert silence.limit == 0.3


@given(GAPS, st.floats(0.1, 1.0))
def test_a_gap_as_long_as_one_heard_before_is_no_silence(gaps, least):
    silence, now = heard(least, gaps)
    assert not silence.is_over(now + 0.99 * min(max([0.0, *gaps]), 4.0 * least))
    assert silence.is_over(now + 4.0 * least + 1e-6)


class Heard:
    """A consumer of heartbeats that reads nothing, of a topic that ends later and later, then stays as it is."""

    def __init__(self, ends):
        self.ends = iter(ends)
        self.asked = 0

    def assign(self, partitions): ...

    def seek_to_end(self, partition): ...

    def position(self, partition):
        return 7

    def poll(self, timeout_ms):
        return {}

    def end_offsets(self, partitions):
        self.asked += 1
        return dict.fromkeys(partitions, next(self.ends))

    def close(self): ...


def test_a_standby_that_has_not_read_all_heartbeats_calls_nobody_silent():
    consumer = Heard([8, 9, 7])
    connection = SimpleNamespace(
        consumer=lambda **_: consumer, settings=SimpleNamespace(bootstrap_servers=["127.0.0.1:9"])
    )
    assert until_silent(connection, "f.heartbeats", 0.01, lambda: False)
    assert consumer.asked == 3
