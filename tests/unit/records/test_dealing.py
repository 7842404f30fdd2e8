import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.errors import UsageError
from streamfl.protocol.records import Rejection
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log, deal

LABELS = ("p", "q", "r")


def table(goods: list[bool], seed: int = 0) -> Table:
    """Make a table of a file in which record i is good or bad; feature `row` is its number in the file."""
    places = np.flatnonzero(goods)
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, len(places)).astype(np.float64)
    X = np.stack([places, random.integers(0, 4, len(places))], axis=1).astype(np.float32)
    rejected = tuple(Rejection(int(i), f"line {i}") for i in np.flatnonzero(~np.array(goods, bool)))
    return Table("t", ("row", "site"), X, y, LABELS, places.astype(np.int64), rejected)


def in_order(source: Table, log: Log) -> list[str]:
    """Return the file's numbers of a log's records by their positions."""
    bad = {rejection.position: rejection.reason for rejection in log.rejected}
    good = iter(source.places[log.rows])
    return [bad[i] if i in bad else f"line {next(good)}" for i in range(len(log))]


goods = st.lists(st.booleans(), min_size=1, max_size=60).map(lambda flags: [True, *flags])
splits = st.sampled_from(["round-robin", "column:site", "column:row", "dirichlet:0.1", "dirichlet:5"])


@given(goods=goods, split=splits, clients=st.integers(1, 5), seed=st.integers(0, 9))
def test_every_record_is_dealt_once_in_the_order_of_the_file(
    goods: list[bool], split: str, clients: int, seed: int
) -> None:
    source = table(goods)
    logs = deal(source, None if "column" in split else min(clients, len(goods)), split, seed)
    numbers = {name: [int(said.split()[1]) for said in in_order(source, log)] for name, log in logs.items()}
    assert sorted(n for own in numbers.values() for n in own) == list(range(len(goods)))
    assert all(own == sorted(own) for own in numbers.values())
    for log in logs.values():
        np.testing.assert_array_equal(log.y, source.y[log.rows])


def test_round_robin_counts_bad_records() -> None:
    source = table([True, False, True, True, False, True, True])
    logs = deal(source, 3, "round-robin", 0)
    assert {name: in_order(source, log) for name, log in logs.items()} == {
        "c0": ["line 0", "line 3", "line 6"],
        "c1": ["line 1", "line 4"],
        "c2": ["line 2", "line 5"],
    }
    assert [r.position for r in logs["c1"].rejected] == [0, 1]
    assert logs["c2"].rejected == ()


@pytest.mark.parametrize(("clients", "first", "last"), [(1, "c0", "c0"), (10, "c0", "c9"), (11, "c00", "c10")])
def test_names_sort_as_they_count(clients: int, first: str, last: str) -> None:
    names = list(deal(table([True] * 20), clients, "round-robin", 0))
    assert (names[0], names[-1]) == (first, last)
    assert names == sorted(names)


def test_a_column_of_numbers_names_the_clients() -> None:
    source = table([True] * 50)
    logs = deal(source, None, "column:site", 0)
    assert list(logs) == ["site=0", "site=1", "site=2", "site=3"]
    assert {float(v) for v in source.X[logs["site=2"].rows, 1]} == {2.0}


def test_a_kept_column_of_text_names_the_clients_and_bad_records_follow() -> None:
    whole = table([False, True, True, False, False, True])
    kept = {"who": np.array(["b", "a", "b"])}
    source = Table("t", ("row", "site"), whole.X, whole.y, LABELS, whole.places, whole.rejected, kept)
    logs = deal(source, 2, "column:who", 0)
    assert {name: in_order(source, log) for name, log in logs.items()} == {
        "who=a": ["line 2", "line 3", "line 4"],
        "who=b": ["line 0", "line 1", "line 5"],
    }


def test_dirichlet_is_by_seed_and_skews_the_classes() -> None:
    source = table([True] * 3000)
    even, skewed = deal(source, 5, "dirichlet:1000", 1), deal(source, 5, "dirichlet:0.05", 1)
    share = {name: np.bincount(log.y.astype(int), minlength=3) for name, log in even.items()}
    assert all(abs(counts - 200).max() < 60 for counts in share.values())
    assert max(np.bincount(log.y.astype(int), minlength=3).max() for log in skewed.values()) > 600
    again, other = deal(source, 5, "dirichlet:0.05", 1), deal(source, 5, "dirichlet:0.05", 2)
    assert all(np.array_equal(skewed[name].rows, again[name].rows) for name in skewed)
    assert any(not np.array_equal(skewed[name].rows, other[name].rows) for name in skewed)


def test_dirichlet_spreads_a_client_over_the_file() -> None:
    source = table([True] * 3000)
    for log in deal(source, 3, "dirichlet:1000", 1).values():
        assert abs(source.places[log.rows].mean() - 1500) < 100


@pytest.mark.parametrize(
    ("clients", "split", "says"),
    [
        (0, "round-robin", "--clients 0: .*at least 1"),
        (6, "round-robin", "--clients 6: t has only 5 records; give at most"),
        (6, "dirichlet:1", "--clients 6"),
        (2, "roundrobin", "--split roundrobin: there is no such split; use one of round-robin, column:NAME"),
        (2, "column:", "there is no such split"),
        (2, "column:z", "--split column:z: t has no such column; the columns are row, site"),
        (
            2,
            "column:row",
            "--clients 2: column 'row' of t has 5 values, and each value is a client; leave --clients out",
        ),
        (2, "dirichlet:", "positive number"),
        (2, "dirichlet:0", "positive number"),
        (2, "dirichlet:nan", "positive number"),
        (2, "dirichlet:x", "positive number"),
    ],
)
def test_a_split_that_is_impossible_is_refused_with_the_reason(clients: int, split: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        deal(table([True] * 5), clients, split, 0)


def test_the_default_number_of_clients_is_ten_or_one_per_value_or_one_per_record() -> None:
    many, few = table([True] * 50), table([True] * 5)
    assert [len(deal(many, None, split, 0)) for split in ("round-robin", "dirichlet:1", "column:site")] == [10, 10, 4]
    assert len(deal(few, None, "round-robin", 0)) == 5


def test_a_column_with_more_values_than_a_federation_takes_clients_is_refused() -> None:
    assert len(deal(table([True] * 1000), 1000, "column:row", 0)) == 1000
    with pytest.raises(UsageError, match="1001 values in t, more than 1000 clients; use"):
        deal(table([True] * 1001), None, "column:row", 0)


def test_a_regression_has_no_classes_to_deal_by() -> None:
    source = table([True] * 5)
    regression = Table("t", source.features, source.X, source.y, (), source.places)
    with pytest.raises(UsageError, match="regression"):
        deal(regression, 2, "dirichlet:1", 0)
    assert len(deal(regression, 2, "round-robin", 0)) == 2
