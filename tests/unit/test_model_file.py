"""The file of the model: what it says of names that do not fit, and what is refused."""

import warnings
from pathlib import Path

import numpy as np
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
