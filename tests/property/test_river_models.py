"""Laws of merging what River models have learnt, whatever the records are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from river import compose, linear_model, multiclass, naive_bayes, preprocessing

from streamfl.models.river_models import Exported, ExportedTable, export, imported, merged

lm, pre, nb = linear_model, preprocessing, naive_bayes

ADDED = {
    "GaussianNB": nb.GaussianNB,
    "MultinomialNB": nb.MultinomialNB,
    "BernoulliNB": nb.BernoulliNB,
    "ComplementNB": nb.ComplementNB,
    "StandardScaler": pre.StandardScaler,
    "StandardScaler-centred": lambda: pre.StandardScaler(with_std=False),
    "MinMaxScaler": pre.MinMaxScaler,
    "MaxAbsScaler": pre.MaxAbsScaler,
    "pipeline": lambda: (
        (pre.MinMaxScaler() | compose.Suffixer("_unit")) + compose.Select() | pre.MaxAbsScaler() | nb.GaussianNB()
    ),
}
# Steps after a scaler see records that depend on what the scaler has learnt: only its own state is that of the pool.
AFTER_A_SCALER = {"pipeline"}
AVERAGED = {
    "SoftmaxRegression": lm.SoftmaxRegression,
    "OneVsRest": lambda: multiclass.OneVsRestClassifier(lm.LogisticRegression()),
    "OneVsRest-ALMA": lambda: multiclass.OneVsRestClassifier(lm.ALMAClassifier()),
    "OneVsRest-PA": lambda: multiclass.OneVsRestClassifier(lm.PAClassifier()),
}
BOTH = {
    "scaled Softmax": lambda: pre.StandardScaler() | lm.SoftmaxRegression(),
    "OneVsRest-scaled": lambda: multiclass.OneVsRestClassifier(pre.StandardScaler() | lm.Perceptron()),
}

# Counts for the naive Bayes models that take no other values; quarters, so that their sums are exact.
RECORDS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abc"), st.integers(0, 400).map(lambda n: n / 4), min_size=1),
        st.sampled_from(["low", "middle", "high"]),
    ),
    max_size=12,
)
# Values of any sign and size for those that take them.
WIDE = st.lists(
    st.tuples(st.dictionaries(st.sampled_from("abc"), st.floats(-1e3, 1e3), min_size=1), st.sampled_from("xyz")),
    max_size=12,
)
CLIENTS = st.lists(RECORDS, min_size=1, max_size=4)
WEIGHTS = st.lists(st.floats(0.01, 100), min_size=4, max_size=4)


def names(*models: dict[str, Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from([make for some in models for make in some.values()])


def learnt(model: Any, *streams: Sequence[tuple[Any, Any]]) -> Any:
    """Return a copy of the model that has learnt the records in this order."""
    again = imported(model, export(model))
    for stream in streams:
        for x, y in stream:
            again.learn_one(dict(x), y) if _supervised(again) else again.learn_one(dict(x))
    return again


def _supervised(model: Any) -> bool:
    return bool(model._supervised)


def close(found: Exported, expected: Exported, rtol: float) -> None:
    """Check that tables agree up to the order of names, relative to the largest number in a column."""
    assert found.model == expected.model
    assert set(found.tables) == set(expected.tables)
    for path, table in expected.tables.items():
        again = found.tables[path]
        assert again.rule == table.rule
        assert (set(again.rows), set(again.columns)) == (set(table.rows), set(table.columns))
        for name, values in zip(table.columns, table.values.T, strict=True):
            scale = np.abs(values).max(initial=0.0)
            if name in ("variance", "m2"):  # rounding is that of squares
                scale = max(scale, (table.values[:, 0] * table.values[:, 1] ** 2).max(initial=0.0))
            np.testing.assert_allclose(again.aligned(table.rows, (name,))[:, 0], values, rtol=0, atol=rtol * scale)


def alike(found: Exported, expected: Exported) -> None:
    """Check that tables agree to the last bit, and in the order of names."""
    assert list(found.tables) == list(expected.tables)
    for path, table in expected.tables.items():
        assert (found.tables[path].rows, found.tables[path].columns) == (table.rows, table.columns)
        np.testing.assert_array_equal(found.tables[path].values, table.values)


@given(names(ADDED, AVERAGED, BOTH), RECORDS, CLIENTS, WEIGHTS, st.randoms(use_true_random=False))
def test_the_order_of_parts_changes_nothing_but_the_last_bits(make, before, clients, weights, random):
    base = learnt(make(), before)
    parts = [(export(learnt(base, records)), w) for records, w in zip(clients, weights, strict=False)]
    shuffled = random.sample(parts, len(parts))
    one, other = merged(parts, export(base)), merged(shuffled, export(base))
    close(one, other, 1e-12)
    assert [table.rows for table in one.tables.values()] == [table.rows for table in other.tables.values()]


@given(names(ADDED, AVERAGED, BOTH), RECORDS, RECORDS, st.floats(0.01, 1e6))
def test_a_single_part_becomes_itself(make, before, records, weight):
    base = learnt(make(), before)
    part = export(learnt(base, records))
    close(merged([(part, weight)], export(base)), part, 1e-14)


@given(names(ADDED, AVERAGED, BOTH), RECORDS, st.integers(0, 4))
def test_clients_without_records_change_nothing(make, before, clients):
    base = export(learnt(make(), before))
    close(merged([(base, 3.0)] * clients, base), base, 1e-14)
    alike(merged([(base, 0.0)] * min(clients, 1), base), base)


@given(names({name: make for name, make in ADDED.items() if name not in AFTER_A_SCALER}), RECORDS, CLIENTS, CLIENTS)
def test_what_is_added_up_over_rounds_is_the_model_of_all_records(make, before, clients, later):
    base = learnt(make(), before)
    first = merged([(export(learnt(base, records)), 1.0) for records in clients], export(base))
    second = imported(make(), first)
    found = merged([(export(learnt(second, records)), 1.0) for records in later], first)
    close(found, export(learnt(base, *clients, *later)), 1e-12)


@given(names({name: ADDED[name] for name in ("GaussianNB", "StandardScaler", "MinMaxScaler")}), WIDE, st.lists(WIDE))
def test_moments_of_any_values_are_those_of_the_pool(make, before, clients):
    base = learnt(make(), before)
    found = merged([(export(learnt(base, records)), 1.0) for records in clients], export(base))
    close(found, export(learnt(base, *clients)), 1e-12)


@given(names(AVERAGED), RECORDS, CLIENTS, WEIGHTS)
def test_what_is_averaged_is_the_weighted_mean_over_the_union_of_names(make, before, clients, weights):
    base = learnt(make(), before)
    parts = [(export(learnt(base, records)), w) for records, w in zip(clients, weights, strict=False)]
    total = sum(weight for _, weight in parts)
    found = merged(parts, export(base))
    assert set(found.tables) == {path for part, _ in parts for path in part.tables}
    for path, table in found.tables.items():
        if table.rule != "mean":
            continue
        cells = [(_cells(part.tables[path]), weight) for part, weight in parts if path in part.tables]
        rows, columns = ({at[k] for some, _ in cells for at in some} for k in (0, 1))
        assert set(_cells(table)) == {(row, column) for row in rows for column in columns}
        for at, value in _cells(table).items():
            terms = [weight * some.get(at, 0.0) / total for some, weight in cells]
            np.testing.assert_allclose(value, sum(terms), rtol=1e-12, atol=1e-12 * max(map(abs, terms)))


def _cells(table: ExportedTable) -> dict[tuple[str, str], float]:
    return {
        (row, column): float(table.values[i, j])
        for i, row in enumerate(table.rows)
        for j, column in enumerate(table.columns)
    }


@given(st.lists(WIDE, min_size=1, max_size=3), st.floats(-1e6, 1e6), st.integers(1, 500))
def test_a_constant_feature_stays_exactly_constant(clients, value, records):
    base = learnt(pre.StandardScaler(), [({"k": value}, None)] * records)
    parts = [export(learnt(base, [({**x, "k": value}, y) for x, y in client])) for client in clients]
    found = imported(pre.StandardScaler(), merged([(part, 1.0) for part in parts], export(base)))
    assert (found.means["k"], found.vars["k"]) == (value, 0.0)
    assert found.transform_one({"k": value}) == {"k": 0.0}
