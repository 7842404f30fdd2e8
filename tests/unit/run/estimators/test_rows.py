"""Records as River gives them: dicts, arrays and data frames of several packages."""

import importlib
from datetime import datetime

import numpy as np
import pytest
from river.utils import dataframe

from streamfl.run.estimators.rows import Rows, client_name, column, table


def packages():
    """Return the packages of data frames that are there; polars always is."""
    return [name for name in ("polars", "pandas", "pyarrow") if importlib.util.find_spec(name) is not None]


def frame_of(package, columns):
    module = importlib.import_module(package)
    return module.table(columns) if package == "pyarrow" else module.DataFrame(columns)


FRAMES = pytest.mark.parametrize("package", packages())


# --- dicts -------------------------------------------------------------------------------------------------------


def test_records_with_the_same_features_share_an_order_however_they_are_spelt():
    rows = Rows()
    assert rows.row({"b": 1, "a": 2.5})[0] == ("a", "b")
    features, X = rows.row({"a": 4, "b": 3})
    assert (features, X.tolist()) == (("a", "b"), [[4.0, 3.0]])
    assert rows.row({"a": 4})[0] == ("a",)


def test_missing_values_are_nan_and_truth_values_are_numbers():
    _, X = Rows().row({"a": None, "b": float("nan"), "c": True, "d": np.float32(0.5), "e": np.bool_(False)})
    np.testing.assert_array_equal(X, [[np.nan, np.nan, 1.0, 0.5, 0.0]])


def test_values_are_read_by_the_rules_of_files():
    _, X = Rows().row({"a": "NA", "b": "--", "c": "1,234.5", "d": "\u22120.5", "e": " 2.5 ", "f": "#DIV/0!"})
    np.testing.assert_array_equal(X, [[np.nan, np.nan, 1234.5, -0.5, 2.5, np.nan]])


@FRAMES
def test_a_column_of_texts_that_are_numbers_is_one_of_numbers(package):
    X = table(frame_of(package, {"a": ["1,5", "NA", "2"], "b": [1, 2, 3]})).X
    np.testing.assert_array_equal(X, [[1.5, 1.0], [np.nan, 2.0], [2.0, 3.0]])


def test_a_feature_can_be_left_out_and_is_not_looked_at():
    features, X = Rows(without="site").row({"x": 1.0, "site": "north"})
    assert (features, X.tolist()) == (("x",), [[1.0]])
    assert Rows(without="site").row({"site": "north"})[1].shape == (1, 0)


def test_names_of_features_that_are_no_text_become_text():
    assert Rows(without="site").row({1: 10.0, ("a", 2): 20.0, "site": 3})[0] == ("('a', 2)", "1")


@pytest.mark.parametrize("value", ["red", object(), [1.0, 2.0], {}, 10**400, 1 + 2j])
def test_what_is_no_number_is_refused_by_name(value):
    with pytest.raises(ValueError, match=r"feature 'colour' is .* encode it first"):
        Rows().row({"x": 1.0, "colour": value})


def test_a_time_that_is_no_number_names_what_makes_one_of_it():
    with pytest.raises(ValueError, match=r"feature 'at' is .* for instance with streamfl.TimeEncoder"):
        Rows().row({"at": datetime(2026, 3, 1)})


@pytest.mark.parametrize("x", [[1, 2, 3], "abc", None, 5, np.zeros(3)])
def test_a_record_that_is_no_dict_is_refused(x):
    with pytest.raises(ValueError, match=r"a record is a .*: a dict of features"):
        Rows().row(x)


def test_two_features_of_one_name_are_refused_every_time():
    rows = Rows()
    for _ in range(2):
        with pytest.raises(ValueError, match="features 0 and '0' have the same name '0'"):
            rows.row({0: 1.0, "0": 2.0})


def test_more_ways_of_spelling_a_record_than_are_remembered_are_read_all_the_same():
    rows = Rows()
    for i in range(1100):
        assert rows.row({f"f{i}": float(i)})[1].tolist() == [[float(i)]]
    assert len(rows._orders) == 1000


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
    told = table(np.array([[1, 2, 3], [4, 5, 6]]), without="1")
    assert (told.features, told.X.tolist(), told.excluded) == (("0", "2"), [[1.0, 3.0], [4.0, 6.0]], [2, 5])
    assert table([[1.0, None]]).X.tolist()[0][0] == 1.0
    assert table(np.zeros((0, 2))).X.shape == (0, 2)


@FRAMES
def test_data_frames_with_missing_values_and_a_column_that_is_left_out(package):
    frame = frame_of(package, {"x": [1.0, None, 3.0], "yes": [True, False, True], "site": ["a", "b", "b"]})
    told = table(frame, without="site")
    assert (told.features, list(told.excluded)) == (("x", "yes"), ["a", "b", "b"])
    np.testing.assert_array_equal(told.X, [[1.0, 1.0], [np.nan, 0.0], [3.0, 1.0]])
    assert table(frame_of(package, {"x": [1.0]}), without="site").excluded is None


@FRAMES
def test_a_frame_with_nothing_but_what_is_left_out_has_records_all_the_same(package):
    assert table(frame_of(package, {"site": ["a", "b"]}), without="site").X.shape == (2, 0)


@FRAMES
def test_text_in_a_frame_is_refused(package):
    with pytest.raises(ValueError, match="encode a column that is not numeric"):
        table(frame_of(package, {"x": [1.0, 2.0], "colour": ["red", "blue"]}))


@pytest.mark.parametrize("X", [np.zeros(3), np.zeros((2, 2, 2)), [1.0, 2.0], [["red"]], {"x": 1.0}, None, 5])
def test_an_array_or_frame_that_is_no_table_is_refused(X):
    with pytest.raises(ValueError, match="numbers, a row each"):
        table(X)


@pytest.mark.parametrize("X", [np.zeros((2, 2), complex), np.zeros((2, 2), "datetime64[s]"), [[10**400, 1.0]]])
def test_numbers_that_are_no_measurements_are_refused(X):
    with pytest.raises(ValueError, match="numbers, a row each"):
        table(X)


def test_a_lazy_frame_is_to_be_collected():
    lazy = importlib.import_module("polars").DataFrame({"x": [1.0]}).lazy()
    with pytest.raises(ValueError, match=r"LazyFrame.*collect\(\) it first"):
        table(lazy)


@pytest.mark.parametrize(
    "X", [np.ones((5, 3)), np.ones((5, 3), order="F"), np.ones((5, 6))[:, ::2], np.ones((5, 3), ">f8"), [[1, 2]] * 5]
)
def test_the_rows_of_an_array_lie_one_after_another_and_are_copied(X):
    told = table(X, without="1").X
    assert told.flags.c_contiguous
    assert told.dtype == np.dtype(np.float64)
    assert told.dtype.isnative
    if isinstance(X, np.ndarray):
        assert not np.shares_memory(told, X)


@FRAMES
def test_the_rows_of_a_frame_lie_one_after_another(package):
    told = table(frame_of(package, {"x": [1.0, 2.0], "y": [3.0, 4.0]})).X
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
    told = table(frame_of(package, {"x": [1.0, 2.0]}))
    out = told.table_like(np.array([[0.25, 0.75], [0.5, 0.5]]), ["a", "b"])
    assert type(out).__module__.partition(".")[0] == package
    assert dataframe.into_frame(out)["b"].to_list() == [0.75, 0.5]
    series = told.column_like(["a", "b"])
    assert type(series).__module__.partition(".")[0] == package
    assert dataframe.into_series(series).to_list() == ["a", "b"]


def test_the_index_of_pandas_is_kept():
    pandas = pytest.importorskip("pandas")
    told = table(pandas.DataFrame({"x": [1.0, 2.0]}, index=[7, 9]))
    assert told.column_like(["a", "b"]).index.tolist() == [7, 9]
    named = told.table_like(np.eye(2), [False, True])
    assert (named.index.tolist(), named.columns.tolist()) == ([7, 9], [False, True])
