import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.errors import UsageError
from streamfl.protocol.records import Rejection
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.imposed_drift import Injection, inject, parse


def table(y: list[int], labels: int) -> Table:
    n = len(y)
    names = tuple(str(i) for i in range(labels))
    return Table("t", ("a",), np.ones((n, 1)), np.array(y, float), names, np.arange(n))


def drifted(y: list[int], labels: int, text: str, size: int, bad: tuple[int, ...] = (), seed: int = 0) -> Log:
    source = table(y, labels)
    log = Log(np.arange(len(y)), source.y, tuple(Rejection(p, f"bad {p}") for p in bad))
    before = source.y.copy()
    [(name, after)] = inject(source, {"c0": log}, parse(text), size, seed).items()
    assert name == "c0"
    np.testing.assert_array_equal(source.y, before)
    np.testing.assert_array_equal(log.y, before)
    return after


def test_a_drift_is_parsed_from_its_kind_and_rounds() -> None:
    assert parse("permutation@5") == Injection("permutation", (5,))
    assert parse("class-introduction@2,9") == Injection("class-introduction", (2, 9))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("swap@3", "there is no drift 'swap'; use one of class-swap, class-introduction, permutation"),
        ("", "there is no drift ''; use one of"),
        ("class-swap", "not a list of rounds; write class-swap@31,129"),
        ("class-swap@", "not a list of rounds; write"),
        ("class-swap@1,x", "not a list of rounds; write"),
        ("class-swap@1.5", "not a list of rounds; write"),
        ("class-swap@5,5", "must increase; write"),
        ("class-swap@9,5", "must increase; write"),
        ("class-swap@0", "count from 1"),
        ("class-swap@-2", "count from 1"),
    ],
)
def test_a_drift_that_cannot_be_parsed_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse(text)


def test_two_class_swaps_exchange_the_labels_there_and_back() -> None:
    log = drifted([0, 1, 2, 3, 4] * 3, 5, "class-swap@2,3", 5)
    assert log.y.tolist() == [0, 1, 2, 3, 4, 1, 0, 3, 2, 4, 0, 1, 2, 3, 4]
    assert log.rows.tolist() == list(range(15))


def test_rounds_count_good_records() -> None:
    log = drifted([0, 0, 0, 0], 2, "class-swap@2", 2, bad=(0, 3))
    assert log.y.tolist() == [0, 0, 1, 1]
    assert [r.position for r in log.rejected] == [0, 3]


def test_permutations_change_at_each_round_and_are_by_seed() -> None:
    y = list(range(7)) * 4
    log = drifted(y, 7, "permutation@2,4", 7)
    rounds = log.y.reshape(4, 7).astype(int).tolist()
    assert rounds[0] == list(range(7))
    assert rounds[1] == rounds[2]
    assert rounds[1] != rounds[0]
    assert rounds[3] != rounds[2]
    assert [sorted(names) for names in rounds] == [list(range(7))] * 4
    assert drifted(y, 7, "permutation@2,4", 7).y.tolist() == log.y.tolist()
    assert drifted(y, 7, "permutation@2,4", 7, seed=1).y.tolist() != log.y.tolist()
    assert drifted(y, 7, "permutation@4", 7).y[21:].tolist() == log.y[21:].tolist()


@pytest.mark.parametrize("seed", range(8))
def test_a_permutation_of_two_labels_always_changes_something(seed: int) -> None:
    assert drifted([0] * 3, 2, "permutation@2,3", 1, seed=seed).y.tolist() == [0, 1, 0]


def test_classes_wait_until_they_are_let_in() -> None:
    #           0  1  2  3  4  5  6  7  8  9
    y = [2, 0, 1, 0, 1, 2, 0, 0, 1, 2]
    log = drifted(y, 3, "class-introduction@2,4", 2)
    # round 1: class 0 only; rounds 2 and 3: the oldest of classes 0 and 1; from round 4 on: all that is left
    assert log.rows.tolist() == [1, 3, 2, 4, 6, 7, 0, 5, 8, 9]
    assert log.y.tolist() == [y[i] for i in log.rows]


def test_a_round_ends_short_where_no_record_may_come() -> None:
    log = drifted([1, 1, 0, 1], 2, "class-introduction@3", 2)
    assert log.rows.tolist() == [2, 0, 1, 3]


@pytest.mark.parametrize(
    ("labels", "text", "first"),
    [(5, "class-introduction@2", 3), (7, "class-introduction@2,3", 3), (8, "class-introduction@2,3", 4)],
)
def test_the_first_group_of_introduced_classes_gets_the_remainder(labels: int, text: str, first: int) -> None:
    log = drifted(list(range(labels))[::-1], labels, text, labels)
    assert sorted(log.y[:first].tolist()) == list(range(first))
    rest = log.y[first:]
    size = (labels - first) // text.count(",") if "," in text else labels - first
    assert sorted(rest[:size].tolist()) == list(range(first, first + size))


def test_a_bad_record_goes_along_with_the_one_before_it() -> None:
    #  positions: 0 bad, 1 (class 1), 2 bad, 3 bad, 4 (class 0), 5 bad
    log = drifted([1, 0], 2, "class-introduction@2", 1, bad=(0, 2, 3, 5))
    assert log.rows.tolist() == [1, 0]
    assert log.rejected == (
        Rejection(0, "bad 0"),
        Rejection(2, "bad 5"),
        Rejection(4, "bad 2"),
        Rejection(5, "bad 3"),
    )


@given(
    y=st.lists(st.integers(0, 4), max_size=40),
    rounds=st.sets(st.integers(1, 9), min_size=1, max_size=4),
    size=st.integers(1, 6),
    kind=st.sampled_from(["class-swap", "class-introduction", "permutation"]),
    bad=st.integers(0, 4),
)
def test_no_record_is_lost(y: list[int], rounds: set[int], size: int, kind: str, bad: int) -> None:
    text = f"{kind}@{','.join(map(str, sorted(rounds)))}"
    log = drifted(y, 5, text, size, bad=tuple(range(bad)))
    assert sorted(log.rows.tolist()) == list(range(len(y)))
    assert len(log) == len(y) + bad
    assert [r.position for r in log.rejected] == list(range(bad))


@given(
    y=st.lists(st.integers(0, 3), max_size=60),
    rounds=st.sets(st.integers(1, 9), min_size=1, max_size=3),
    size=st.integers(1, 6),
)
def test_records_of_a_class_keep_their_order_when_classes_are_introduced(
    y: list[int], rounds: set[int], size: int
) -> None:
    log = drifted(y, 4, f"class-introduction@{','.join(map(str, sorted(rounds)))}", size)
    for label in range(4):
        own = log.rows[log.y == label].tolist()
        assert own == sorted(own)


@pytest.mark.parametrize(
    ("labels", "text", "size", "says"),
    [
        (0, "class-swap@2", 1, "t is a regression"),
        (1, "permutation@2", 1, "only one class"),
        (3, "class-introduction@2,3,4", 1, "3 rounds, but t has 3 classes; give at most 2 rounds"),
        (2, "class-swap@2", 0, "--round-size 0: .*at least 1"),
    ],
)
def test_a_drift_that_is_impossible_for_the_stream_is_refused_with_the_reason(
    labels: int, text: str, size: int, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        drifted([0], labels, text, size)
