"""Which pending records a round takes."""

import numpy as np
import pytest

from streamfl.learning.algorithms import FedAvg
from streamfl.learning.local_round import Learner
from streamfl.machines.client.intake.buffer import Buffer
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.client.work.clocks import Occasion, RoundBatches
from streamfl.machines.client.work.gathering import Gathering
from streamfl.models import Softmax
from streamfl.protocol.messages import RoundOpened
from streamfl.protocol.records import Batch, Rejection, Span
from streamfl_benchmarks.liars.fields import altered

SETTINGS = ClientSettings(Learner(Softmax(), FedAvg()), round_size=4, min_records=2, period=10.0)
OPENED = RoundOpened(
    entry=1, round=1, epoch=1, block=1, registry=1, slots=(), serves="m", known_labels=1, closes=None
)
NOT_YET = Occasion(0.0)


def gathering(times: list[float], *, bad: tuple[int, ...] = (), capacity: int = 100, **opened) -> Gathering:
    """Return pending records with these times, at the positions that no bad record has."""
    n = len(times) + len(bad)
    positions = np.setdiff1d(np.arange(n), bad)
    rejected = tuple(Rejection(position, "bad") for position in bad)
    X, y = np.ones((len(times), 1)), np.zeros(len(times))
    batch = Batch(Span("p", 0, n), positions, ("x",), X, y, ("a",), rejected, np.array(times))
    buffer = Buffer(capacity, SETTINGS.min_records)
    buffer.add([batch])
    return Gathering(SETTINGS, buffer, altered(OPENED, **opened))


def taken(gathered: RoundBatches | None) -> int | None:
    return None if gathered is None else sum(map(len, gathered.batches))


@pytest.mark.parametrize(
    ("happens", "records"),
    [({}, None), ({"is_full": True}, 4), ({"ended": True}, 4), ({"due": True}, 9)],
    ids=["nothing", "full", "no more follow", "closed as it is"],
)
def test_by_number_a_round_takes_its_size_and_all_only_if_it_is_closed_as_it_is(happens, records):
    nine = gathering([0.0] * 9)
    assert taken(nine.take(Occasion(0.0, **happens))) == records
    assert sum(map(len, nine.so_far())) == 4


@pytest.mark.parametrize(("now", "records"), [(4.9, None), (5.0, 9)])
def test_by_the_clock_a_round_takes_all_at_its_end(now, records):
    nine = gathering([0.0] * 9, closes=5.0)
    assert taken(nine.take(Occasion(now))) == records
    assert sum(map(len, nine.so_far())) == 9


def test_by_event_time_a_round_ends_where_records_of_a_later_period_begin():
    times = [31.0, 12.0, 39.9, 99.0, 33.0, np.nan, 40.0, 35.0, 41.0, 42.0, 55.0]
    gathered = gathering(times, period=3).take(NOT_YET)
    assert gathered is not None
    assert (taken(gathered), gathered.late, gathered.period) == (6, 1, 4)
    assert taken(gathering(times[:10], period=3).take(NOT_YET)) is None
    assert taken(gathering(times[:10], period=3).take(Occasion(0.0, ended=True))) == 6
    assert sum(map(len, gathering(times, period=3).so_far())) == 3  # what is surely of it


def test_by_event_time_too_few_records_wait_and_tell_the_period_after_them():
    gathered = gathering([31.0, *[45.0] * 5], bad=(0, 1), period=3).take(NOT_YET)
    assert gathered is not None
    assert (taken(gathered), gathered.period) == (0, 4)
    assert [batch.bad for batch in gathered.batches] == [2]


def test_by_event_time_a_full_buffer_is_a_round():
    assert taken(gathering([31.0] * 9, capacity=9, period=3).take(NOT_YET)) == 9
