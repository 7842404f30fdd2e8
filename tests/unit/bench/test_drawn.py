"""Streams drawn afresh every round: which rows, which labels, at whom and when."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.errors import UsageError
from streamfl.records.table import Table
from streamfl_benchmarks.drawn import (
    CONDITIONS,
    DRIFTS,
    DrawnStream,
    Lifetime,
    absences,
    affected,
    concepts,
    default_at,
    drawn_rounds,
    lifetimes,
    rare_pair,
)
from streamfl_benchmarks.recorded import recorded_rounds, rounds_recorded

COUNTS = np.array([400, 300, 150, 80, 40, 20, 10])
PLAIN = DrawnStream("t", "class-swap", (5, 9), clients=12, round_size=30, rounds=12)


def table(counts: npt.NDArray[np.int64] = COUNTS) -> Table:
    y = np.repeat(np.arange(len(counts)), counts)[np.random.default_rng(0).permutation(counts.sum())]
    labels = tuple(map(str, range(len(counts))))
    return Table(
        "t", ("a",), np.arange(len(y), dtype=np.float64)[:, None], y.astype(np.float64), labels, np.arange(len(y))
    )


TABLE = table()
TRUTH = TABLE.y.astype(np.int64)


def rounds_of(stream: DrawnStream, client: int = 0) -> list[tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]]:
    return list(drawn_rounds(stream, TABLE, lifetimes(stream)[client]))


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("drift", sorted(set(DRIFTS) - {"recorded"}))
def test_a_round_has_no_row_twice_and_only_labels_of_the_table(drift: str, condition: str) -> None:
    at = {"gradual": (2,), "none": ()}.get(drift, (5, 9))
    stream = replace(PLAIN, drift=drift, at=at, condition=condition, round_size=300)
    for lifetime in lifetimes(stream):
        rounds = list(drawn_rounds(stream, TABLE, lifetime))
        assert len(rounds) == lifetime.last
        for rows, y in rounds:
            assert len(np.unique(rows)) == len(rows) == len(y)
            assert np.isin(y, range(7)).all()
            assert rows.dtype == np.int32


def test_sizes_and_proportions_are_those_asked_for() -> None:
    # 12 x 12 rounds of N(30, 6): the mean has a standard error of 0.5; of 400/1000 a share of 0.0075.
    rows = [r for n in range(12) for r, _ in rounds_of(replace(PLAIN, rounds=12), n)]
    assert np.mean([len(r) for r in rows]) == pytest.approx(30.0, abs=2.0)
    assert np.std([len(r) for r in rows]) == pytest.approx(6.0, abs=1.5)
    assert (TRUTH[np.concatenate(rows)] == 0).mean() == pytest.approx(0.4, abs=0.03)


def test_a_swap_begins_in_its_round_and_ends_with_the_next() -> None:
    for t, (rows, y) in enumerate(rounds_of(PLAIN), start=1):
        swapped = np.array([1, 0, 3, 2, 5, 4, 6])[TRUTH[rows]]
        assert (y == (swapped if 5 <= t < 9 else TRUTH[rows])).all()


def test_a_drift_does_not_change_which_rows_are_drawn() -> None:
    for drift, at in (("permutation", (5,)), ("gradual", (2,)), ("rare-swap", (5,)), ("local", (5,))):
        still = rounds_of(replace(PLAIN, drift="none", at=()))
        moved = rounds_of(replace(PLAIN, drift=drift, at=at))
        assert all((a == b).all() for (a, _), (b, _) in zip(still, moved, strict=True))


@given(st.sampled_from(["plain", "skew", "sizes", "absent"]), st.integers(0, 11), st.integers(0, 3))
def test_what_a_client_draws_does_not_depend_on_how_many_others_there_are(
    condition: str, client: int, seed: int
) -> None:
    few = replace(PLAIN, condition=condition, seed=seed, rounds=6, at=(5,))
    many = replace(few, clients=40)
    for (rows, y), (again, same) in zip(rounds_of(few, client), rounds_of(many, client), strict=True):
        assert (rows == again).all()
        assert (y == same).all()


def test_classes_are_let_in_one_by_one_and_in_the_groups_of_mnist() -> None:
    stream = replace(PLAIN, drift="class-introduction", at=(3, 6))
    for t, (rows, y) in enumerate(rounds_of(stream), start=1):
        assert set(TRUTH[rows]) <= set(range(1 + (t >= 3) + (t >= 6)))
        assert (y == TRUTH[rows]).all()
    digits = table(np.full(10, 50))
    stream = replace(stream, stream="mnist14", at=(3, 6, 8))
    seen = [set(y.astype(int)) for _, y in drawn_rounds(stream, digits, lifetimes(stream)[0])]
    assert set.union(*seen[:2]) == {0, 1}
    assert set.union(*seen[5:7]) == {0, 1, 2, 3, 4}
    assert set.union(*seen[7:]) == {0, 1, 2, 3, 4, 5, 6}


def test_every_permutation_differs_from_the_one_before() -> None:
    for seed in range(30):
        names = concepts(DrawnStream("t", "permutation", (2, 3, 4), seed=seed), np.ones(3, np.int64))
        assert all(sorted(row) == [0, 1, 2] for row in names.tolist())
        assert (names[1:] != names[:-1]).any(axis=1).all()


def test_concepts_recur_as_a_b_a_c() -> None:
    for seed in range(30):
        stream = DrawnStream("t", "recurring", tuple(range(2, 9)), seed=seed)
        a, b, *rest = concepts(stream, np.ones(3, np.int64)).tolist()
        c = rest[1]
        assert [a, b, *rest] == [a, b, a, c, a, b, a, c]
        assert a == [0, 1, 2]
        assert len({tuple(a), tuple(b), tuple(c)}) == 3


def test_the_rare_pair_has_five_records_a_round() -> None:
    # Shares 0.01, 0.02, 0.04: together 0.03 of 166 records are 4.98, of 167 are 5.01.
    assert rare_pair(COUNTS, 166) == (5, 4)
    assert rare_pair(COUNTS, 167) == (6, 5)


def test_a_gradual_drift_takes_a_hundred_rounds() -> None:
    stream = DrawnStream("t", "gradual", (11,), clients=12, round_size=60, rounds=130)
    parts = []
    for n in range(12):
        rounds = rounds_of(stream, n)
        parts.append([np.mean((y != TRUTH[rows])[TRUTH[rows] < 6]) for rows, y in rounds])
    share = np.mean(parts, axis=0)
    assert (share[:10] == 0.0).all()
    assert (share[109:] == 1.0).all()
    # In round 11 + k the share is (k + 1) / 100; over 10 rounds of 720 records its error is below 0.006.
    assert share[35:45].mean() == pytest.approx(0.305, abs=0.03)
    assert share[85:95].mean() == pytest.approx(0.805, abs=0.03)


def test_a_local_drift_concerns_15_percent_and_ends_with_the_next() -> None:
    stream = DrawnStream("t", "local", (3, 6, 9), clients=20, round_size=30, rounds=11)
    first, third = affected(stream, 1), affected(stream, 3)
    assert len(first) == len(third) == 3
    for n, lifetime in enumerate(lifetimes(stream)):
        for t, (rows, y) in enumerate(rounds_of(stream, n), start=1):
            swapped = (lifetime.name in first and 3 <= t < 6) or (lifetime.name in third and t >= 9)
            assert (y == (np.array([1, 0, 3, 2, 5, 4, 6])[TRUTH[rows]] if swapped else TRUTH[rows])).all()


def test_absent_clients_have_no_records_but_never_all_of_them() -> None:
    stream = replace(PLAIN, condition="absent", rounds=400)
    assert np.mean(list(absences(stream).values())) == pytest.approx(0.3, abs=0.03)
    alone = replace(stream, clients=2)
    assert not np.all(list(absences(alone).values()), axis=0).any()
    empty = [len(rows) == 0 for rows, _ in rounds_of(stream)]
    assert (np.array(empty) == next(iter(absences(stream).values()))).all()


def test_half_of_the_clients_are_exchanged_twice() -> None:
    stream = DrawnStream("t", "none", (), "exchange", clients=4, round_size=30, rounds=10)
    spans = [(lifetime.first, lifetime.last) for lifetime in lifetimes(stream)]
    assert spans == [(1, 3), (1, 3), (1, 6), (1, 6), (4, 10), (4, 10), (7, 10), (7, 10)]
    assert [len(rows) > 0 for rows, _ in rounds_of(stream, 6)] == [False] * 6 + [True] * 4


def test_sizes_spread_over_one_decade_and_skew_over_few_classes() -> None:
    sizes = [np.mean([len(r) for r, _ in rounds_of(replace(PLAIN, condition="sizes"), n)]) for n in range(12)]
    assert 30 / 10**0.5 * 0.8 < min(sizes) < 20
    assert 40 < max(sizes) < 30 * 10**0.5 * 1.2
    skewed = [
        np.concatenate([TRUTH[r] for r, _ in rounds_of(replace(PLAIN, condition="skew"), n)]) for n in range(12)
    ]
    assert np.mean([np.bincount(y).max() / len(y) for y in skewed]) > 0.6


def test_the_class_mix_changes_with_each_fifth_for_all_clients_alike() -> None:
    stream = DrawnStream("t", "none", (), "class-mix", clients=12, round_size=60, rounds=10)
    mixes = np.zeros((5, 7))
    for n in range(12):
        for t, (rows, _) in enumerate(rounds_of(stream, n)):
            mixes[t // 2] += np.bincount(TRUTH[rows], minlength=7)
    mixes /= mixes.sum(axis=1, keepdims=True)
    assert np.abs(mixes[0] - COUNTS / 1000).max() < 0.04
    assert (np.abs(np.diff(mixes, axis=0)).sum(axis=1) > 0.2).all()


def test_a_class_with_too_few_records_is_filled_up_from_the_rest() -> None:
    few = table(np.array([50, 2]))
    stream = DrawnStream("t", "none", (), "skew", clients=12, round_size=40, rounds=3)
    sizes = [
        len(np.unique(rows)) for lifetime in lifetimes(stream) for rows, _ in drawn_rounds(stream, few, lifetime)
    ]
    assert np.mean(sizes) == pytest.approx(40.0, abs=4.0)


def test_what_was_recorded_is_dealt_in_its_order_to_the_last_record() -> None:
    # 1000 records, 4 clients of 60 a round: four rounds of 240, and 40 are left for the fifth.
    assert rounds_recorded(TABLE, 4, 60) == 5
    stream = DrawnStream("t", "recorded", (), clients=4, round_size=60, rounds=5)
    stream.check(TABLE)
    dealt = recorded_rounds(TABLE, clients=4, round_size=60, rounds=5)
    assert list(dealt) == [lifetime.name for lifetime in lifetimes(stream)]
    found = list(dealt.values())
    assert [len(rows) for rows, _ in found[0]] == [60, 60, 60, 60, 10]
    for t in range(5):
        rows = np.stack([own[t][0] for own in found], axis=1).ravel()
        assert rows.tolist() == list(range(240 * t, min(240 * (t + 1), 1000)))
        assert np.stack([own[t][1] for own in found], axis=1).ravel().tolist() == TRUTH[rows].tolist()


def test_default_rounds_fit_the_kind_and_the_run() -> None:
    assert default_at("mnist", "class-swap", 500, 10) == (31, 129, 279, 310, 369, 462)
    assert default_at("covtype", "gradual", 500, 7) == (50, 200, 350)
    assert default_at("covtype", "gradual", 300, 7) == (50, 200)
    assert default_at("covtype", "none", 500, 7) == default_at("covtype", "recorded", 500, 7) == ()
    assert default_at("x.csv", "class-introduction", 500, 3) == (65, 187)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"drift": "swap"}, "--drift swap: unknown"),
        ({"condition": "fog"}, "--condition fog: unknown"),
        ({"at": (5, 5)}, "must increase"),
        ({"at": (0,)}, "count from 1"),
        ({"at": (13,)}, "--at 13: the run ends with round 12"),
        ({"drift": "none"}, "leave --at out"),
        ({"drift": "recorded"}, "leave --at out"),
        ({"drift": "recorded", "at": (), "condition": "skew"}, "leave --condition skew out"),
        ({"drift": "recorded", "at": ()}, "t has 3 rounds of 12 x 30 records"),
        ({"at": ()}, "name rounds with --at"),
        ({"drift": "gradual", "at": (1, 100), "rounds": 300}, "each takes 100 rounds"),
        ({"drift": "class-introduction", "at": (1, 2, 3, 4, 5, 6, 7)}, "at most 6 rounds"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changes: dict[str, object], said: str) -> None:
    PLAIN.check(TABLE)
    with pytest.raises(UsageError, match=said):
        replace(PLAIN, **changes).check(TABLE)  # type: ignore[arg-type]


def test_a_client_that_is_not_yet_there_draws_the_same_when_it_comes() -> None:
    late, early = Lifetime("c07", 4, 6), Lifetime("c07", 1, 6)
    one, other = (
        list(drawn_rounds(replace(PLAIN, drift="none", at=()), TABLE, lifetime)) for lifetime in (late, early)
    )
    assert (one[3][0] == other[0][0]).all()
    assert all(len(rows) == 0 for rows, _ in one[:3])
