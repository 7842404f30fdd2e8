"""Records as River gives them: dicts, arrays and data frames of several packages."""

import importlib
import warnings
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
from river.utils import dataframe

from streamfl.records.columns import NumberColumn
from streamfl.run.estimators.rows import MOST_LEFT_OUT, Rows, client_name, column


def packages():
    """Return the packages of data frames that are there; polars always is."""
    return [name for name in ("polars", "pandas", "pyarrow") if importlib.util.find_spec(name) is not None]


def frame_of(package, columns):
    module = importlib.import_module(package)
    return module.table(columns) if package == "pyarrow" else module.DataFrame(columns)


class NA:
    """Missing in pandas: it is neither true nor false, nor a number."""

    def __str__(self):
        return "<NA>"

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    def __ne__(self, other):
        return self

    __hash__ = object.__hash__


def learnt(rows, record):
    """Return the features of a record, which is learnt."""
    row = rows.row(record)
    rows.learn(row)
    return dict(zip(row.features, row.X[0].tolist(), strict=True))


FRAMES = pytest.mark.parametrize("package", packages())


# --- dicts -------------------------------------------------------------------------------------------------------


def test_records_with_the_same_features_share_an_order_however_they_are_spelt():
    rows = Rows()
    for _ in range(3):  # also when the order is known
        assert learnt(rows, {"b": 1, "a": 2.5}) == {"a": 2.5, "b": 1.0}
        assert rows.row({"a": 4, "b": 3}).features == ("a", "b")
    assert rows.row({"a": 4}).features == ("a",)


def test_truth_values_are_numbers_and_a_column_without_a_value_is_a_feature():
    rows = Rows()
    record = {"a": None, "b": np.nan, "c": True, "d": np.float32(0.5), "e": np.bool_(False), "f": Decimal("1.5")}
    assert str(learnt(rows, record)) == "{'a': nan, 'b': nan, 'c': 1.0, 'd': 0.5, 'e': 0.0, 'f': 1.5}"


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), "NA", " ? ", np.datetime64("NaT"), NA()])
def test_a_missing_value_is_one_however_it_is_written(missing):
    rows = Rows()
    assert str(learnt(rows, {"t": missing, "wind": missing})) == "{'t': nan, 'wind': nan}"
    learnt(rows, {"t": 2.5, "wind": "NW"})
    assert str(learnt(rows, {"t": missing, "wind": missing})) == "{'t': nan, 'wind=NW': nan}"
    assert rows.unusable == {}


def test_values_are_read_by_the_rules_of_files():
    record = {"c": "1,234.5", "d": "\u22120.5", "e": " 2.5 ", "f": "5 mV", "g": "2026-03-01", "h": "#DIV/0!"}
    with pytest.warns(UserWarning, match="feature 'g' looks like a time and is left out: streamfl.TimeEncoder makes"):
        assert str(learnt(Rows(), record)) == "{'c': 1234.5, 'd': -0.5, 'e': 2.5, 'f': 5.0, 'h': nan}"


def test_a_text_is_a_feature_of_its_own_from_its_first_appearance_on():
    rows = Rows()
    assert learnt(rows, {"wind": "NW"}) == {"wind=NW": 1.0}
    assert learnt(rows, {"wind": "S", "t": 1}) == {"t": 1.0, "wind=NW": 0.0, "wind=S": 1.0}
    assert learnt(rows, {"wind": " true "}) == {"wind=NW": 0.0, "wind=S": 0.0, "wind=True": 1.0}
    assert learnt(rows, {"wind": 38}) == {"wind=38": 1.0, "wind=NW": 0.0, "wind=S": 0.0, "wind=True": 0.0}


def test_what_is_only_predicted_teaches_nothing():
    rows = Rows()
    learnt(rows, {"wind": "NW"})
    assert rows.row({"wind": "S", "t": "x"}).features == ("t=x", "wind=NW", "wind=S")
    assert [*rows.columns] == ["wind"]
    assert rows.columns["wind"].values == ("NW",)


def test_a_text_among_numbers_is_missing_and_warned_of_once():
    rows = Rows()
    for value in (1.0, 2.0, 3.0):
        learnt(rows, {"t": value})
    with pytest.warns(UserWarning, match="feature 't' began with numbers: .*, such as \"NW\", counts as"):
        assert str(learnt(rows, {"t": "NW"})) == "{'t': nan}"
    assert str(learnt(rows, {"t": "S"})) == "{'t': nan}"
    assert rows.unusable == {"t": 2}


def test_a_number_that_may_be_two_is_missing():
    rows = Rows()
    with pytest.warns(UserWarning, match='such as "1,234", counts as missing'):
        assert str(learnt(rows, {"t": "1,234"})) == "{'t': nan}"
    assert learnt(rows, {"t": "1,5"}) == {"t": 1.5}


def test_more_than_fifty_values_are_counted_and_warned_of_once():
    rows = Rows()
    for i in range(50):
        learnt(rows, {"name": f"n{i}"})
    with pytest.warns(UserWarning, match="feature 'name' has more than 50 values: .* such as \"n50\", set none of"):
        assert not any(learnt(rows, {"name": "n50"}).values())
    assert len(learnt(rows, {"name": "n51"})) == 50
    assert rows.unusable == {"name": 2}


@FRAMES
def test_a_column_of_texts_that_are_numbers_is_one_of_numbers(package):
    X = Rows().many(frame_of(package, {"a": ["1,5", "NA", "2"], "b": [1, 2, 3]})).X
    np.testing.assert_array_equal(X, [[1.5, 1.0], [np.nan, 2.0], [2.0, 3.0]])


def test_a_feature_can_be_left_out_and_is_not_looked_at():
    assert learnt(Rows(without="site"), {"x": 1.0, "site": "north"}) == {"x": 1.0}
    assert Rows(without="site").row({"site": "north"}).X.shape == (1, 0)


def test_names_of_features_that_are_no_text_become_text():
    assert Rows(without="site").row({1: 10.0, ("a", 2): 20.0, "site": 3}).features == ("('a', 2)", "1")
    assert Rows().row({None: 1.0}).features == ("None",)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (object(), "holds values of the type object"),
        ([1.0, 2.0], "holds lists"),
        ({}, "holds lists"),
        (1 + 2j, "holds values of the type complex"),
        (timedelta(1), "holds values of the type timedelta"),
        (datetime(2026, 3, 1), "looks like a time"),
    ],
)
def test_what_is_neither_number_nor_text_is_left_out_and_warned_of_once(value, what):
    rows = Rows()
    with pytest.warns(UserWarning, match=f"feature 'odd' {what} and is left out: "):
        assert learnt(rows, {"x": 1.0, "odd": value}) == {"x": 1.0}
    for _ in range(3):
        assert learnt(rows, {"x": 1.0, "odd": value}) == {"x": 1.0}


def test_columns_that_are_left_out_are_remembered_and_warned_of_up_to_a_limit():
    rows = Rows()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for i in range(MOST_LEFT_OUT + 20):
            assert learnt(rows, {"x": 1.0, f"list {i}": [i]}) == {"x": 1.0}
    assert len(rows.columns) == MOST_LEFT_OUT + 1
    assert len(found) == MOST_LEFT_OUT
    assert learnt(rows, {f"list {MOST_LEFT_OUT}": 2.0}) == {f"list {MOST_LEFT_OUT}": 2.0}  # it was never one of lists


@pytest.mark.parametrize("x", [[1, 2, 3], "abc", None, 5, np.zeros(3)])
def test_a_record_that_is_no_dict_is_refused(x):
    with pytest.raises(ValueError, match=r"a record is a .*: a dict of features"):
        Rows().row(x)


def test_two_features_of_one_name_are_refused_every_time():
    rows = Rows()
    for _ in range(2):
        with pytest.raises(ValueError, match="features 0 and '0' have the same name '0'"):
            rows.row({0: 1.0, "0": 2.0})
    with pytest.raises(ValueError, match="two features have the same name 'wind=S'"):
        rows.row({"wind": "S", "wind=S": 2.0})


def test_more_ways_of_spelling_a_record_than_are_remembered_are_read_all_the_same():
    rows = Rows()
    rows.columns = {f"f{i}": NumberColumn(f"f{i}") for i in range(1100)}
    for i in range(1100):
        assert rows.row({f"f{i}": float(i)}).X.tolist() == [[float(i)]]
    assert len(rows._orders) == 1000


def test_a_record_that_is_predicted_and_then_learnt_is_read_once():
    rows = Rows()
    rows.learn(rows.row({"a": 1.0, "b": 2.0}))
    x = {"b": 2.0, "a": float("nan")}
    rows.row(x)
    predicted = rows.row(x)
    assert rows.row({**x}) is predicted
    x["b"] = 3.0
    assert rows.row(x).X.tolist()[0][1] == 3.0
    assert predicted.X.tolist()[0][1] == 2.0
    assert rows.row({"a": 1.0, "b": np.arange(2)}).unusable is not None  # two values have no one truth


# --- clients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "1"), (1.0, "1"), (np.float64(1.0), "1"), (np.int64(1), "1"), (-2.0, "-2"), (1.5, "1.5"), ("1.0", "1.0"),
        (True, "True"), (None, ""), (float("nan"), ""), (np.float32("nan"), ""), (float("inf"), "inf"),
    ],
)  # fmt: skip
def test_a_client_has_one_name_however_its_column_comes(value, name):
    assert client_name(value) == name


# --- many at once ------------------------------------------------------------------------------------------------


def test_columns_of_an_array_are_numbered_and_keep_their_numbers():
    told = Rows(without="1").many(np.array([[1, 2, 3], [4, 5, 6]]))
    assert (told.features, told.X.tolist(), told.excluded) == (("0", "2"), [[1.0, 3.0], [4.0, 6.0]], [2, 5])
    assert Rows().many([[1.0, None]]).X.tolist()[0][0] == 1.0
    assert len(Rows().many(np.zeros((0, 2))).X) == 0


@FRAMES
def test_data_frames_with_missing_values_and_a_column_that_is_left_out(package):
    frame = frame_of(package, {"x": [1.0, None, 3.0], "yes": [True, False, True], "site": ["a", "b", "b"]})
    rows = Rows(without="site")
    rows.learn(rows.many(frame))
    told = rows.many(frame)
    assert (told.features, list(told.excluded)) == (("x", "yes"), ["a", "b", "b"])
    np.testing.assert_array_equal(told.X, [[1.0, 1.0], [np.nan, 0.0], [3.0, 1.0]])
    assert Rows(without="site").many(frame_of(package, {"x": [1.0]})).excluded is None


@FRAMES
def test_a_frame_with_nothing_but_what_is_left_out_has_records_all_the_same(package):
    assert Rows(without="site").many(frame_of(package, {"site": ["a", "b"]})).X.shape == (2, 0)


@FRAMES
def test_texts_in_a_frame_are_features_which_have_no_value_before_the_record_in_which_they_first_appear(package):
    frame = frame_of(package, {"x": [1.0, 2.0, 3.0], "wind": [None, "S", "N"], "ok": [True, False, True]})
    rows = Rows()
    for new in (np.nan, 0.0):
        told = rows.many(frame)
        assert told.features == ("ok", "wind=N", "wind=S", "x")
        expected = [[1, np.nan, np.nan, 1], [0, new, 1, 2], [1, 1, 0, 3]]
        np.testing.assert_array_equal(told.X, expected)
        rows.learn(told)


@FRAMES
def test_a_frame_teaches_what_its_records_teach_one_by_one(package):
    columns = {
        "a": [None, "S", "N", "NA", "S"], "b": [1.0, None, 3.0, 4.0, 5.0], "c": [1, 2, 3, 4, 5],
        "d": [True, False, True, True, False], "e": [None] * 5, "f": ["1", "x", None, "2", "3"],
    }  # fmt: skip
    at_once, one_by_one = Rows(), Rows()
    with pytest.warns(UserWarning, match="feature 'f' began with numbers"):
        at_once.learn(at_once.many(frame_of(package, columns)))
    with pytest.warns(UserWarning, match="feature 'f' began with numbers"):
        for values in zip(*columns.values(), strict=True):
            learnt(one_by_one, dict(zip(columns, values, strict=True)))
    assert at_once.columns == one_by_one.columns
    assert at_once.unusable == one_by_one.unusable == {"f": 1}


@pytest.mark.parametrize("X", [np.zeros(3), np.zeros((2, 2, 2)), [1.0, 2.0], {"x": 1.0}, None, 5])
def test_an_array_or_frame_that_is_no_table_is_refused(X):
    with pytest.raises(ValueError, match="must be a table, a row each"):
        Rows().many(X)


@pytest.mark.parametrize("X", [np.zeros((2, 2), complex), np.zeros((2, 2), "datetime64[s]")])
def test_numbers_that_are_no_measurements_are_refused(X):
    with pytest.raises(ValueError, match="must be a table, a row each"):
        Rows().many(X)


def test_a_lazy_frame_is_to_be_collected():
    lazy = importlib.import_module("polars").DataFrame({"x": [1.0]}).lazy()
    with pytest.raises(ValueError, match=r"LazyFrame.*collect\(\) it first"):
        Rows().many(lazy)


@pytest.mark.parametrize(
    "X", [np.ones((5, 3)), np.ones((5, 3), order="F"), np.ones((5, 6))[:, ::2], np.ones((5, 3), ">f8"), [[1, 2]] * 5]
)
def test_the_rows_of_an_array_lie_one_after_another_and_are_copied(X):
    told = Rows(without="1").many(X).X
    assert told.flags.c_contiguous
    assert told.dtype == np.dtype(np.float64)
    assert told.dtype.isnative
    if isinstance(X, np.ndarray):
        assert not np.shares_memory(told, X)


@FRAMES
def test_the_rows_of_a_frame_lie_one_after_another(package):
    told = Rows().many(frame_of(package, {"x": [1.0, 2.0], "y": [3.0, 4.0]})).X
    assert told.flags.c_contiguous
    assert told.flags.writeable
    assert told.tolist() == [[1.0, 3.0], [2.0, 4.0]]


@pytest.mark.parametrize("y", [np.zeros((4, 1)), np.zeros(()), np.zeros((1, 4))])
def test_a_column_has_one_dimension(y):
    with pytest.raises(ValueError, match=r"their shape is \("):
        column(y)


@pytest.mark.parametrize("y", ["abc", b"abc", None, 5])
def test_a_column_of_labels_that_is_no_column_is_refused(y):
    with pytest.raises(ValueError, match="give a series, an array or a list"):
        column(y)


@FRAMES
def test_labels_and_targets_of_any_kind(package):
    frame = dataframe.into_frame(frame_of(package, {"y": ["a", "b"], "t": [1, 2]}))
    for name, expected in (("y", ["a", "b"]), ("t", [1, 2])):
        assert list(column(frame[name].to_native())) == expected
    assert list(column((True, "a"))) == [True, "a"]
    assert column(np.array([1.5, 2.5])) == [1.5, 2.5]


@FRAMES
def test_what_comes_of_a_frame_is_one_of_its_package(package):
    told = Rows().many(frame_of(package, {"x": [1.0, 2.0]}))
    out = told.table_like(np.array([[0.25, 0.75], [0.5, 0.5]]), ["a", "b"])
    assert type(out).__module__.partition(".")[0] == package
    assert dataframe.into_frame(out)["b"].to_list() == [0.75, 0.5]
    series = told.column_like(["a", "b"])
    assert type(series).__module__.partition(".")[0] == package
    assert dataframe.into_series(series).to_list() == ["a", "b"]


def test_the_index_of_pandas_is_kept():
    pandas = pytest.importorskip("pandas")
    told = Rows().many(pandas.DataFrame({"x": [1.0, 2.0]}, index=[7, 9]))
    assert told.column_like(["a", "b"]).index.tolist() == [7, 9]
    named = told.table_like(np.eye(2), [False, True])
    assert (named.index.tolist(), named.columns.tolist()) == ([7, 9], [False, True])
