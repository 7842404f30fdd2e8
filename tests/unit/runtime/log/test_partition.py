"""One partition and the clients in it, driven by hand and by hypothesis: nothing is lost, nothing comes twice."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.errors import UsageError
from streamfl.protocol.records import Rejection, Span
from streamfl.runtime.log.partition import TOO_MANY, PartitionReader
from streamfl.runtime.ports import ClientProgress, Decoded

PARTITION = "t/0"


def decoded(log, start, end):
    """Return the block [start, end) of a log: a client's name a position, `!` after it for a bad record, or a gap."""
    places = range(start, min(end, len(log)))
    good = [i for i in places if log[i] and not log[i].endswith("!")]
    bad = [i for i in places if log[i].endswith("!")]
    return Decoded(
        positions=np.array(good, np.int64),
        features=("x",),
        X=np.array(good, np.float64).reshape(-1, 1),
        y=np.array(good, np.float64) % 2,
        labels=("even", "odd"),
        clients=tuple(log[i] for i in good),
        rejected=tuple(Rejection(i, f"bad {i}") for i in bad),
        rejected_clients=tuple(log[i][:-1] for i in bad),
        times=np.zeros(0),
    )


class Driver:
    """Reads a log into a reader, block by block, as a consumer does."""

    def __init__(self, log, *, only=None, room=4, head=0, **more):
        self.log = log
        self.strays = []
        self.reader = PartitionReader(
            PARTITION, head, room, lambda positions: decoded(log, min(positions), max(positions) + 1), only, **more
        )

    def __getitem__(self, client):
        return self.reader.clients[client]

    def read(self, n):
        """Read a block of n positions where it is wanted; tell whether there was anything to read."""
        wanted = self.reader.wanted()
        if wanted is None or wanted >= len(self.log):
            return False
        self.reader.head = wanted
        end = min(wanted + n, len(self.log))
        self.strays += self.reader.take(end, decoded(self.log, wanted, end))
        return True


def records(batches):
    """Return the positions of good and of bad records."""
    good = [int(p) for batch in batches for p in batch.positions]
    return good, [rejection.position for batch in batches for rejection in batch.rejected]


def spans(batches):
    return [(batch.span.start, batch.span.end) for batch in batches]


def test_each_client_gets_the_times_of_its_own_records_if_they_have_any():
    log = ["a", "b", "a!", "a", "b"]
    reader = PartitionReader(PARTITION, 0, 10, lambda positions: decoded(log, 0, 5))
    reader.take(5, replace(decoded(log, 0, 5), times=np.array([10.0, 11.0, 13.0, np.nan])))
    (a,), (b,) = (reader.clients[name].poll(10) for name in "ab")
    assert (a.times.tolist(), b.times[0], np.isnan(b.times[1])) == ([10.0, 13.0], 11.0, True)
    assert reader.clients["a"].fetch({PARTITION: [0]})[0].times is None


class TestOneClient:
    def test_the_client_of_a_partition_gets_good_and_bad_records_in_order_and_no_more_than_it_asks_for(self):
        driver = Driver(["a", "a!", "a", "a", "a!", "a"], only="a", room=10)
        driver.read(6)
        first = driver["a"].poll(3)
        assert (records(first), spans(first)) == (([0, 2], [1]), [(0, 3)])
        rest = driver["a"].poll(10)
        assert (records(rest), spans(rest)) == (([3, 5], [4]), [(3, 6)])
        assert driver["a"].poll(10) == []

    def test_a_record_keeps_its_features_and_label(self):
        driver = Driver(["a", "a!", "a", "a"], only="a", room=10)
        driver.read(4)
        driver["a"].poll(2)
        (batch,) = driver["a"].poll(2)
        assert (batch.X[:, 0].tolist(), batch.y.tolist(), batch.labels) == ([2, 3], [0, 1], ("even", "odd"))

    def test_a_partition_is_not_read_while_its_client_is_full_and_then_continues_where_it_was(self):
        driver = Driver(["a"] * 12, only="a", room=4)
        assert driver.read(5)
        assert driver.reader.wanted() is None
        driver["a"].poll(2)
        assert driver.reader.wanted() == 5

    def test_spans_stay_contiguous_over_gaps(self):
        driver = Driver(["", "", "a", "", "", "", "a", ""], only="a", room=10)
        for _ in range(4):
            driver.read(2)
        assert spans(driver["a"].poll(10)) == [(0, 4), (4, 8)]

    def test_a_gap_at_the_end_belongs_to_what_comes_after_it(self):
        driver = Driver(["a", "", "", "a"], only="a", room=10)
        driver.read(1)
        driver.read(2)
        assert spans(driver["a"].poll(10)) == [(0, 1)]
        driver.read(1)
        assert spans(driver["a"].poll(10)) == [(1, 4)]

    def test_a_client_takes_the_records_that_were_under_way_when_it_became_full(self):
        driver = Driver(["a"] * 4, only="a", room=2)
        driver.read(2)
        driver.reader.take(4, decoded(driver.log, 2, 4))
        assert records(driver["a"].poll(5))[0] == [0, 1, 2, 3]

    def test_a_seek_back_gives_the_records_again(self):
        driver = Driver(["a"] * 6, only="a", room=10)
        driver.read(6)
        driver["a"].poll(3)
        driver["a"].seek({PARTITION: 1})
        assert driver.reader.wanted() == 1
        driver.read(4)
        again = driver["a"].poll(10)
        assert (records(again)[0], spans(again)) == ([1, 2, 3, 4], [(1, 5)])

    def test_a_seek_forward_leaves_out_what_lies_between(self):
        driver = Driver(["a"] * 6, only="a", room=10)
        driver.read(2)
        driver["a"].seek({PARTITION: 4})
        assert driver.reader.wanted() == 4
        driver.read(2)
        assert records(driver["a"].poll(10))[0] == [4, 5]

    def test_a_seek_of_another_partition_changes_nothing(self):
        driver = Driver(["a"] * 4, only="a", room=10)
        driver.read(2)
        driver["a"].seek({"t/1": 0})
        assert records(driver["a"].poll(10))[0] == [0, 1]
        assert driver.reader.wanted() == 2

    def test_old_records_are_fetched_without_moving(self):
        driver = Driver(["a", "a", "a!", "b", "a"], only=None, room=10)
        driver.read(5)
        (batch,) = driver["a"].fetch({PARTITION: (4, 1), "t/1": (0,)})
        assert (batch.positions.tolist(), batch.X[:, 0].tolist(), batch.span) == (
            [1, 4],
            [1, 4],
            Span(PARTITION, 1, 5),
        )
        assert driver["a"].fetch({PARTITION: (2,)}) == ()  # a bad record is no record
        assert driver["a"].fetch({"t/1": (0,)}) == ()
        assert records(driver["a"].poll(10)) == ([0, 1, 4], [2])


class TestSeveralClients:
    def test_each_client_of_a_shared_partition_gets_its_own_records(self):
        driver = Driver(["a", "b", "a!", "b!", "", "b", "a"], room=10)
        driver.read(7)
        assert records(driver["a"].poll(10)) == ([0, 6], [2])
        assert records(driver["b"].poll(10)) == ([1, 5], [3])

    def test_a_full_client_gets_its_records_later_and_the_others_get_nothing_twice(self):
        driver = Driver(["b", "a", "a", "b", "a", "b", "a", "b"], room=2)
        driver.read(3)
        driver.read(2)  # passes a by
        assert driver["a"].lags
        assert records(driver["b"].poll(5))[0] == [0, 3]
        driver.read(3)
        assert records(driver["b"].poll(5))[0] == [5, 7]
        assert records(driver["a"].poll(5))[0] == [1, 2]
        assert driver.reader.wanted() == 3  # back to where a is
        driver.read(5)
        assert records(driver["a"].poll(5))[0] == [4, 6]
        assert driver["b"].poll(5) == []
        assert not driver["a"].lags

    def test_the_other_clients_read_on_while_a_lagging_one_still_holds_records(self):
        driver = Driver(["b", "a", "a", "a", "b", "b"], room=2)
        driver.read(3)
        driver.read(1)  # passes a by
        driver["a"].poll(1)
        assert driver.reader.wanted() == 4

    def test_a_lagging_client_takes_no_block_that_does_not_follow_what_it_has(self):
        driver = Driver(["b", "a", "a", "a", "a", "b"], room=2)
        driver.read(3)
        driver.read(1)  # passes a by
        driver["a"].poll(1)  # so there is room again
        driver.read(2)
        assert records(driver["a"].poll(5))[0] == [2]
        assert driver.reader.wanted() == 3

    def test_the_rest_of_a_block_that_was_read_in_part_is_taken(self):
        driver = Driver(["a", "b", "b!", "b", "b!", "b"], room=10)
        driver.read(4)
        assert records(driver["b"].poll(5)) == ([1, 3], [2])
        driver["a"].seek({PARTITION: 0})
        driver.read(6)
        assert records(driver["b"].poll(5)) == ([5], [4])

    def test_nothing_is_read_while_all_are_full(self):
        driver = Driver(["a", "a", "b", "b", "a"], room=2)
        driver.read(4)
        assert driver.reader.wanted() is None
        driver["b"].poll(2)
        assert driver.reader.wanted() == 4

    def test_a_client_begins_with_the_block_in_which_it_is_met_first(self):
        driver = Driver(["a", "a", "", "b"], room=10)
        driver.read(2)
        driver.read(2)
        assert driver["b"].begun == 2
        assert spans(driver["b"].poll(5)) == [(2, 4)]

    def test_a_bad_record_alone_makes_its_client_known(self):
        driver = Driver(["b!"], room=10)
        driver.read(1)
        assert records(driver["b"].poll(1)) == ([], [0])

    def test_bad_records_that_name_nobody_are_strays(self):
        driver = Driver(["a", "!", "a!", "!"], room=10)
        driver.read(4)
        assert [stray.position for stray in driver.strays] == [1, 3]
        assert set(driver.reader.clients) == {"a"}

    def test_more_clients_than_there_may_be_are_strays(self):
        driver = Driver(["a", "b", "c", "c!", "a"], room=10, most_clients=2)
        driver.read(5)
        assert set(driver.reader.clients) == {"a", "b"}
        assert [(stray.position, stray.reason) for stray in driver.strays] == [(3, "bad 3"), (2, TOO_MANY)]


def test_a_client_that_is_known_from_elsewhere_lacks_nothing_that_comes_and_has_nothing_before():
    log = Driver(["a", "a", "b", "a"])
    log.read(2)
    source = log.reader.source_of("b")
    assert (source.next, log.reader.source_of("a")) == (2, log["a"])
    log.read(2)
    assert spans(source.poll(9)) == [(2, 4)]


class TestTheEnd:
    def test_a_client_has_ended_when_it_has_taken_all_records_before_the_marker(self):
        driver = Driver(["a", "a", ""], only="a", room=10)
        driver.read(3)
        driver.reader.ends_at(2)
        assert not driver["a"].ended
        driver["a"].poll(1)
        assert not driver["a"].ended
        driver["a"].poll(1)
        assert driver["a"].ended

    def test_a_marker_with_records_after_it_ends_no_client(self):
        driver = Driver(["a", "", "a"], only="a", room=10)
        driver.read(2)
        driver.reader.ends_at(1)
        driver.read(1)
        driver.reader.goes_on(2)
        driver["a"].poll(10)
        assert not driver["a"].ended

    @pytest.mark.parametrize("position", [0, 3])
    def test_a_seek_forgets_the_end_of_a_partition(self, position):
        driver = Driver(["a", "", "a", "a", "a"], only="a", room=10)
        driver.read(2)
        driver.reader.ends_at(1)
        driver["a"].poll(1)
        driver["a"].seek({PARTITION: position})
        assert not driver["a"].ended

    def test_the_end_stays_for_the_other_clients_while_old_records_are_read_again(self):
        driver = Driver(["a", "b", "a", ""], room=10)
        driver.read(4)
        driver.reader.ends_at(3)
        driver["b"].poll(1)
        driver["a"].seek({PARTITION: 0})
        driver.read(2)
        driver.reader.goes_on(1)
        assert driver["b"].ended

    def test_an_old_marker_that_is_read_again_ends_nobody_who_has_read_on(self):
        driver = Driver(["a", "b", "", "b"], room=10)
        driver.read(4)
        driver["b"].poll(5)
        driver["a"].seek({PARTITION: 0})
        driver.read(3)
        driver.reader.ends_at(2)
        driver["a"].poll(5)
        assert driver["a"].ended
        assert not driver["b"].ended


class TestSettled:
    @pytest.fixture
    def driver(self):
        driver = Driver(["a", "b", "a", "b", "a"], room=10)
        driver.read(5)
        return driver

    def test_the_settled_position_is_the_head_when_no_client_needs_a_record(self, driver):
        driver["a"].poll(5)
        driver["b"].poll(5)
        at = ClientProgress({PARTITION: 5}, pending=0)
        assert driver.reader.settled({"a": at, "b": at}) == 5

    def test_the_settled_position_is_the_one_of_the_client_that_needs_most(self, driver):
        driver["a"].poll(5)
        driver["b"].poll(5)
        a, b = ClientProgress({PARTITION: 3}, pending=1), ClientProgress({PARTITION: 2}, pending=1)
        assert driver.reader.settled({"a": a, "b": b}) == 2
        assert driver.reader.settled({"a": a, "b": ClientProgress({PARTITION: 2}, pending=0)}) == 3

    def test_the_settled_position_is_before_records_that_wait(self, driver):
        driver["a"].poll(5)
        at = ClientProgress({PARTITION: 1}, pending=0)
        assert driver.reader.settled({"a": ClientProgress({PARTITION: 5}, 0), "b": at}) == 1

    def test_the_settled_position_is_the_start_where_nothing_is_known_of_a_client(self, driver):
        driver["a"].poll(5)
        driver["b"].poll(5)
        assert driver.reader.settled({"a": ClientProgress({PARTITION: 5}, 0)}) == 0

    def test_the_settled_position_is_before_what_a_lagging_client_has_not_had(self):
        driver = Driver(["b", "a", "a", "a", "b"], room=2)
        driver.read(3)
        driver.read(2)  # passes a by
        for name in ("a", "b"):
            driver[name].poll(5)
        assert driver["a"].lags
        assert driver.reader.settled({name: ClientProgress({PARTITION: 3}, 0) for name in ("a", "b")}) == 3


class Taken:
    """What one client has had since it last sought a position, held against the log."""

    def __init__(self, source):
        self.source = source
        self.since = source.begun
        self.batches = []

    def take(self, limit):
        batches = list(self.source.poll(limit))
        assert sum(batch.read for batch in batches) <= limit
        self.batches += batches

    def seek(self, position):
        self.source.seek({PARTITION: position})
        self.since, self.batches = position, []

    def expected(self, log, client):
        """All records of the client from where it began."""
        good = [i for i in range(self.since, len(log)) if log[i] == client]
        return good, [i for i in range(self.since, len(log)) if log[i] == f"{client}!"]

    def check(self, log, client, *, complete):
        good, bad = records(self.batches)
        end = self.batches[-1].span.end if self.batches else self.since
        all_good, all_bad = self.expected(log, client)
        assert good == [i for i in all_good if i < end]
        assert bad == [i for i in all_bad if i < end]
        edges = [self.since, *(edge for batch in self.batches for edge in (batch.span.start, batch.span.end))]
        assert edges[:-1:2] == edges[1::2], "spans do not follow one another"
        for batch in self.batches:
            assert batch.X[:, 0].tolist() == batch.positions.tolist()
            assert all(batch.span.start <= p < batch.span.end for p in (*batch.positions, *records([batch])[1]))
        if complete:
            assert (good, bad) == (all_good, all_bad)


CLIENTS = ("a", "b")
LOGS = st.lists(
    st.sampled_from(["", "!", *CLIENTS, *CLIENTS, *(f"{name}!" for name in CLIENTS)]), min_size=8, max_size=40
)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(1, 6)),
        st.tuples(st.just("read"), st.integers(1, 6)),
        st.tuples(st.just("poll"), st.sampled_from(CLIENTS), st.integers(1, 2)),
        st.tuples(st.just("poll"), st.sampled_from(CLIENTS), st.integers(1, 2)),
        st.tuples(st.just("seek"), st.sampled_from(CLIENTS), st.integers(0, 40)),
    ),
    min_size=6,
    max_size=60,
)


def accepted(taken, limit):
    """Return a position that the ledger may send a client back to: the end of any batch, or where it began."""
    ends = [taken.since, *(batch.span.end for batch in taken.batches)]
    return ends[limit % len(ends)]


@given(LOGS, OPERATIONS, st.integers(1, 4), st.integers(0, 3))
def test_each_client_gets_exactly_its_own_records_in_order_once_since_it_last_sought(log, operations, room, head):
    driver = Driver(log, room=room, head=min(head, len(log)))
    taken = {}

    def meet():
        for client, source in driver.reader.clients.items():
            taken.setdefault(client, Taken(source))

    for operation in operations:
        match operation:
            case ("read", n):
                driver.read(n)
                meet()
            case ("poll", client, limit) if client in taken:
                taken[client].take(limit)
                taken[client].check(log, client, complete=False)
            case ("seek", client, which) if client in taken:
                taken[client].seek(accepted(taken[client], which))
    turns = 0
    while driver.read(3) or any(one.source.waiting for one in taken.values()):
        meet()
        for one in taken.values():
            one.take(2)
        turns += 1
        assert turns <= 20 * (len(log) + 1), "reads the same again and again"
    for client, one in taken.items():
        one.check(log, client, complete=True)
    met = {name.rstrip("!") for name in log[min(head, len(log)) :]} - {""}
    assert set(taken) == met


@given(st.lists(st.sampled_from(["", "a", "a!"]), max_size=30), OPERATIONS, st.integers(1, 5))
def test_the_only_client_of_a_partition_gets_every_record(log, operations, room):
    driver = Driver(log, only="a", room=room)
    taken = Taken(driver["a"])
    for operation in operations:
        match operation:
            case ("read", n):
                before = driver["a"].waiting
                driver.read(n)
                assert driver["a"].waiting <= max(before, room - 1 + n)
            case ("poll", _, limit):
                taken.take(limit)
                taken.check(log, "a", complete=False)
            case ("seek", _, which):
                taken.seek(accepted(taken, which))
    while driver.read(4) or driver["a"].waiting:
        taken.take(3)
    taken.check(log, "a", complete=True)


class TestFailing:
    def test_a_client_whose_records_cannot_be_had_says_so_once_and_the_others_go_on(self):
        driver = Driver(["a", "b", "a", "b", "a", "b"], room=10)
        driver.read(2)
        assert records(driver["a"].poll(9)) == ([0], [])
        driver["a"].seek({PARTITION: 10**12})
        driver["a"].fail("beyond the end")
        with pytest.raises(UsageError, match="beyond the end"):
            driver["a"].poll(9)
        assert driver["a"].poll(9) == []
        while driver.read(2):
            pass
        assert (driver["a"].waiting, driver["a"].poll(9)) == (0, [])
        assert records(driver["b"].poll(9)) == ([1, 3, 5], [])
        assert driver.reader.settled({}) <= 6

    def test_the_partition_of_a_failed_client_is_not_read_any_more(self):
        driver = Driver(["a"] * 6, only="a")
        driver.read(2)
        driver["a"].fail("gone")
        assert driver.reader.wanted() is None

    def test_the_other_clients_of_a_failed_clients_partition_are_read_on_wherever_it_stands(self):
        driver = Driver(["a", "b"] * 3, room=10)
        driver.read(6)
        driver["a"].seek({PARTITION: 1})
        driver["a"].fail("gone")
        driver["b"].seek({PARTITION: 3})
        assert driver.reader.wanted() == 3
