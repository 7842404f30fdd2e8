"""The file of the model: what it says of names that do not fit, and what is refused."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from streamfl import codec
from streamfl.core.errors import UsageError
from streamfl.core.protocol.registry import Registry
from streamfl.model_file import ServedModel

# Predicts "yes" where a > b.
REGISTRY = Registry(1, ("a", "b"), ("no", "yes"), np.zeros(2), np.ones(2))
MODEL = ServedModel("classification", "softmax", REGISTRY, np.array([[-1.0, 1.0], [1.0, -1.0], [0.0, 0.0]]))


def test_names_that_the_model_does_not_know_are_refused_unless_they_are_to_be_ignored():
    X = np.array([[2.0, 1.0, 9.0]])
    with pytest.raises(UsageError, match='does not know c; it knows a, b; leave them out, or say unknown="ignore"'):
        MODEL.predict(X, ("a", "b", "c"))
    assert MODEL.predict(X, ("a", "b", "c"), unknown="ignore") == ["yes"]


def test_it_warns_of_features_that_are_missing_unless_they_are_to_be_the_mean():
    with pytest.warns(UserWarning, match="b of the model's features are missing and count as their means"):
        assert MODEL.predict([[-1.0]], ("a",)) == ["no"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert MODEL.predict([[-1.0]], ("a",), missing="mean") == ["no"]


def test_no_known_name_at_all_is_refused_whatever_is_allowed():
    with pytest.raises(UsageError, match="knows none of these features; it knows a, b"):
        MODEL.predict([[1.0]], ("c",), missing="mean", unknown="ignore")


def test_a_name_that_occurs_twice_is_told_so():
    with pytest.raises(UsageError, match="features names a more than once; name each column once"):
        MODEL.predict([[1.0, 2.0]], ("a", "a"))


def test_infinity_is_a_missing_value():
    assert MODEL.predict([[np.inf, 1.0], [1.0, np.inf]], ("a", "b")) == ["no", "yes"]


def test_a_file_without_its_digest_is_refused_unless_it_is_of_format_1(tmp_path: Path):
    path = tmp_path / "model"
    MODEL.save(path)
    plain, arrays = codec.unpack(path.read_bytes())
    assert plain["format"] == 2
    del plain["sha256"]
    path.write_bytes(codec.pack(plain, arrays))
    with pytest.raises(UsageError, match="the file is damaged: its digest is missing"):
        ServedModel.load(path)
    path.write_bytes(codec.pack({**plain, "format": 1}, arrays))
    old = ServedModel.load(path)
    assert old.predict([[2.0, 1.0]], ("a", "b")) == ["yes"]
    old.save(path)
    assert ServedModel.load(path).sha256 == MODEL.sha256


# --- records of any form ---------------------------------------------------------------------------------------

# Predicts "yes" where x > 0; being red is worth 10, blue nothing.
ENCODED = ServedModel(
    "classification",
    "softmax",
    Registry(1, ("x", "colour=blue", "colour=red"), ("no", "yes"), np.zeros(3), np.ones(3)),
    np.array([[-1.0, 1.0], [0.0, 0.0], [-5.0, 5.0], [0.0, 0.0]]),
    categories={"colour": ("blue", "red")},
    label="kind",
    left_out=("when",),
)
ROWS: dict[str, list[Any]] = {
    "kind": ["no"] * 5,
    "colour": ["blue", "red", "green", None, "blue"],
    "x": [2.0, -2.0, -2.0, 3.0, None],
}
PROBABILITIES = [1.0 / (1.0 + np.exp(-2.0 * score)) for score in (2.0, 3.0, -2.0, 3.0, 0.0)]
DICTS = [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)]


def pandas() -> Any:
    """Return pandas, which no part of this project requires."""
    return pytest.importorskip("pandas")


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: pandas().DataFrame(rows),
        lambda rows: pandas().DataFrame(rows).astype({"colour": "category", "x": "Float64"}),
        lambda rows: pandas().DataFrame(rows).astype({"colour": "string"}),
        pl.DataFrame,
        lambda rows: pl.DataFrame(rows).cast({"colour": pl.Categorical}),
        lambda _: DICTS,
        lambda _: [{name: value for name, value in one.items() if value is not None} for one in DICTS],
    ],
)
def test_records_of_every_form_are_encoded_as_in_training(form: Callable[[Any], Any]):
    records = form(ROWS)
    assert ENCODED.predict_proba(records)[:, 1] == pytest.approx(PROBABILITIES)
    assert ENCODED.predict(records) == ["yes", "yes", "no", "yes", "no"]


def test_rows_may_hold_texts_or_the_features_of_a_column():
    assert ENCODED.predict([[-2.0, "red"], ["3", "blue"], [None, ""]], ("x", "colour")) == ["yes", "yes", "no"]
    assert ENCODED.predict([[-2.0, 0, 1], [-2.0, 1, 0]], ("x", "colour=blue", "colour=red")) == ["yes", "no"]


def test_missing_columns_are_refused_if_asked():
    with pytest.raises(UsageError, match='x of the model\'s features are missing; add them, or say missing="mean"'):
        ENCODED.predict([{"colour": "red"}], missing="raise")
    with pytest.warns(UserWarning, match="^colour of the model's features are missing") as told:
        ENCODED.predict([{"x": 1.0}])
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ({"x": 1.0}, "give a list of records"),
        ([[1.0, 2.0]], "the columns have no names"),
        (np.ones((2, 2)), "the columns have no names"),
        ([{"x": "much"}], 'record 0, column "x": "much" is not a number'),
        ([{"x": 1.0, "weight": 2.0}], "does not know weight; it knows x, colour"),
    ],
)
def test_records_of_another_form_are_refused(records: Any, said: str):
    with pytest.raises(UsageError, match=said):
        ENCODED.predict(records, missing="mean")


def test_no_records_have_no_predictions():
    assert ENCODED.predict([]) == []
    assert ENCODED.predict_proba(pl.DataFrame({"x": []})).shape == (0, 2)


def test_targets_have_no_probabilities():
    model = ServedModel("regression", "squared", Registry(1, ("x",), (), np.zeros(1), np.ones(1)), np.ones((2, 1)))
    assert model.predict([{"x": 2}]) == [3.0]
    with pytest.raises(UsageError, match="call predict"):
        model.predict_proba([{"x": 2}])
