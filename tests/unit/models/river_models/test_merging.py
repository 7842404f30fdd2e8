"""Merging by hand-computed numbers, and what is refused of a part."""

import re
from fractions import Fraction

import numpy as np
import pytest

from streamfl.errors import PeerError, UsageError
from streamfl.models.river_models import Exported, merged, refusal
from streamfl.models.river_models import ExportedTable as Table
from streamfl.online.external.increments import pooled
from streamfl.sampling import generator

MOMENTS = ("count", "mean", "m2")


def weights(**values: float) -> Exported:
    return Exported("M", {"M.weights": Table.column("mean", "weight", values)})


def counts(**values: float) -> Exported:
    return Exported("M", {"M.counts": Table.column("sum", "count", values)})


def moments(count: float, mean: float, m2: float) -> Exported:
    return Exported("M", {"M.moments": Table.of("moments", {"x": (count, mean, m2)}, MOMENTS)})


def single(exported: Exported) -> dict[str, float]:
    (table,) = exported.tables.values()
    return table.single()


def test_weights_become_the_weighted_mean_and_a_missing_one_is_0():
    found = merged([(weights(x=4.0, y=1.0), 30.0), (weights(x=8.0, z=2.0), 10.0)], weights(x=2.0))
    assert single(found) == {"x": 5.0, "y": 0.75, "z": 0.5}


def test_counts_of_the_base_are_counted_once():
    found = merged([(counts(up=7, down=1), 1.0), (counts(up=5, low=2), 99.0), (counts(up=5), 0.0)], counts(up=5))
    assert single(found) == {"up": 7, "down": 1, "low": 2}


def test_new_names_follow_those_of_the_base_in_order():
    found = merged([(weights(b=1.0, z=1.0), 1.0), (weights(b=1.0, a=1.0, c=1.0), 1.0)], weights(b=0.0))
    assert found.tables["M.weights"].rows == ("b", "a", "c", "z")


def test_columns_that_only_some_have_are_0_elsewhere():
    one = Exported("M", {"M.w": Table.grid("mean", {"up": {"x": 2.0}})})
    other = Exported("M", {"M.w": Table.grid("mean", {"down": {"y": 6.0}})})
    table = merged([(one, 1.0), (other, 1.0)], Exported("M", {"M.w": Table.grid("mean", {})})).tables["M.w"]
    assert (table.rows, table.columns) == (("x", "y"), ("down", "up"))
    np.testing.assert_array_equal(table.values, [[0.0, 1.0], [3.0, 0.0]])


def test_a_table_that_only_some_have_is_taken_up():
    base = Exported("M", {})
    part = Exported("M", {"M/low.w": Table.column("mean", "weight", {"x": 8.0})})
    assert single(merged([(base, 3.0), (part, 1.0)], base)) == {"x": 2.0}


def test_merged_minima_and_maxima_are_those_of_all_parts():
    def part(rule: str, **values: float) -> Exported:
        return Exported("M", {"M.e": Table.column(rule, rule, values)})

    for rule, expected in (("least", {"x": -1.0, "y": 2.0}), ("most", {"x": 3.0, "y": 2.0})):
        found = merged([(part(rule, x=-1.0), 1.0), (part(rule, x=3.0, y=2.0), 1.0)], part(rule, x=1.0))
        assert single(found) == expected


def test_without_parts_or_weights_what_is_averaged_stays_at_the_base():
    assert single(merged([], weights(x=2.0))) == {"x": 2.0}
    assert single(merged([(weights(x=4.0, y=1.0), 0.0)], weights(x=2.0))) == {"x": 2.0, "y": 0.0}


@pytest.mark.parametrize("of_base", [0, 3, 1_000_000])
@pytest.mark.parametrize("centre", [0.0, 1e3])
def test_moments_lose_nothing_however_large_the_base_is(of_base: int, centre: float):
    # Every value is a multiple of 2^-20, so that exact moments come from whole numbers.
    rng = generator(0, "moments", of_base)
    values = [np.round((centre + rng.normal(size=n)) * 2**20) / 2**20 for n in (of_base, 10, 1, 200)]
    base, *own = (exact(v) for v in values)
    parts = [joined(base, part) for part in own]
    found = pooled(MOMENTS, [floats(part) for part in parts], floats(base))
    expected = floats(joined(joined(joined(base, own[0]), own[1]), own[2]))
    np.testing.assert_allclose(found[0, :2], expected[0, :2], rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(found[0, 2], expected[0, 2], rtol=4e-15)


Sums = tuple[int, Fraction, Fraction]


def exact(values: np.ndarray) -> Sums:
    """Return how many there are, their sum and the sum of their squares."""
    whole = [int(v) for v in (values * 2**20).tolist()]
    return len(whole), Fraction(sum(whole), 2**20), Fraction(sum(v * v for v in whole), 2**40)


def joined(one: Sums, other: Sums) -> Sums:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def floats(sums: Sums) -> np.ndarray:
    n, total, squares = sums
    return np.array([[n, float(total / n), float(squares - total * total / n)] if n else [0.0, 0.0, 0.0]])


def wrong(**tables: Table) -> Exported:
    return Exported("M", {"M.moments": moments(3, 1.0, 2.0).tables["M.moments"], **tables})


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (Exported("N", {}), "it is of N, not of M"),
        (Exported("M", {}), "it has no M.moments"),
        (moments(2, 1.0, 2.0), "M.moments has counted less than the base"),
        (Exported("M", {"M.moments": Table.of("moments", {}, MOMENTS)}), "M.moments has counted less than the base"),
        (moments(3, np.nan, 2.0), "M.moments has values that are not finite"),
        (moments(3, np.inf, 2.0), "M.moments has values that are not finite"),
        (moments(4, 1.0, -2.0), "M.moments has a negative count or spread"),
        (wrong(new=Table.column("sum", "count", {"x": -1})), "new has a negative count or spread"),
        (
            Exported("M", {"M.moments": Table.column("mean", "count", {"x": 3})}),
            "M.moments is merged by another rule",
        ),
        (
            Exported("M", {"M.moments": Table.of("moments", {"x": (3, 1.0)}, ("count", "mean"))}),
            "M.moments is merged by another rule than in the base, or has other columns",
        ),
        (wrong(new=Table.of("moments", {"x": (1,)}, ("n",))), "new has columns that are not moments: n"),
        (wrong(new=Table("mean", ("#{}",), ("w",), np.ones((1, 1)))), "new has a name that cannot be used"),
        (wrong(new=Table("mean", ("#1", "#true"), ("w",), np.ones((2, 1)))), "new has a name that cannot be used"),
        (wrong(new=Table("mean", ("x",), ("#x",), np.ones((1, 1)))), "new has a name that cannot be used"),
    ],
)
def test_a_part_that_did_not_begin_at_the_base_is_refused(part: Exported, reason: str):
    base = moments(3, 1.0, 2.0)
    assert refusal(base, base) is None
    assert (refusal(part, base) or "").startswith(reason)
    with pytest.raises(PeerError, match=f"part 1 of 2 cannot be merged: {re.escape(reason)}"):
        merged([(base, 1.0), (part, 1.0)], base)


def test_parts_with_a_negative_mean_are_merged():
    assert refusal(moments(4, -2.0, 30.0), moments(3, -1.0, 2.0)) is None


def test_one_label_written_in_two_ways_is_refused():
    def part(label: object) -> Exported:
        return Exported("M", {"M.counts": Table.column("sum", "count", {label: 1})})

    reason = "True and 1 are the same key of a dict: all clients must write it in the same way"
    assert refusal(part(True), part(1)) == "M.counts has counted less than the base"
    with pytest.raises(PeerError, match=reason):
        merged([(part(True), 1.0), (part(1), 1.0)], counts())
    both = Exported("M", {"M.counts": Table("sum", ("#1", "#true"), ("count",), np.ones((2, 1)))})
    assert (refusal(both, part(1)) or "").startswith("M.counts has a name that cannot be used: True and 1")


def test_new_tables_of_two_kinds_are_refused():
    base = Exported("M", {})
    one, other = (Exported("M", {"M/a.w": Table.column(rule, "w", {"x": 1.0})}) for rule in ("mean", "sum"))
    with pytest.raises(
        PeerError, match=r"part 1 of 2 cannot be merged: M/a\.w is another table than in earlier parts"
    ):
        merged([(one, 1.0), (other, 1.0)], base)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_weight_that_is_none_is_the_callers_fault(weight: float):
    with pytest.raises(UsageError, match="a weight must be 0 or more, and finite; that of part 0 is"):
        merged([(weights(x=1.0), weight)], weights(x=1.0))


@pytest.mark.parametrize(
    ("rows", "columns", "shape"),
    [(("x",), ("w",), (2, 1)), (("x", "x"), ("w",), (2, 1)), (("x",), ("w", "w"), (1, 2)), (("x",), (), (1,))],
)
def test_a_table_whose_names_and_numbers_differ_is_refused(rows, columns, shape):
    with pytest.raises(ValueError, match=r"rows and|named twice"):
        Table("mean", rows, columns, np.ones(shape))
