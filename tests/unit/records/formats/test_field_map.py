"""Which maps of fields there can be, and which format a map is for."""

import pytest
from pydantic import ValidationError

from streamfl.errors import UsageError
from streamfl.records.formats import FieldMap, JsonRecords, Packed, record_format

WRONG = {
    "label among the features": ({"features": ("a", "label")}, "more than once: label"),
    "label dropped": ({"label": "y", "drop": ("y",)}, "more than once: y"),
    "client as feature": ({"client": "a", "features": ("a",)}, "more than once: a"),
    "time as client": ({"client": "a", "time": "a"}, "more than once: a"),
    "category as feature": ({"features": ("a",), "categories": {"a": ("x",)}}, "more than once: a"),
    "category as label": ({"categories": {"label": ("x",)}}, "more than once: label"),
    "feature twice": ({"features": ("a", "b", "a")}, "more than once: a"),
    "dropped twice": ({"drop": ("a", "a")}, "more than once: a"),
    "empty name": ({"features": ("",)}, "name is empty"),
    "value twice": ({"categories": {"a": ("x", "x")}}, "the name a=x"),
    "value named like a feature": ({"features": ("a=x",), "categories": {"a": ("x",)}}, "the name a=x"),
    "no values": ({"categories": {"a": ()}}, '"a" declare no value'),
    "empty value": ({"categories": {"a": ("",)}}, "can never occur"),
    "value with blanks": ({"categories": {"a": (" x",)}}, "can never occur"),
    "value nan": ({"categories": {"a": ("NaN",)}}, "can never occur"),
    "unknown key": ({"lable": "y"}, "Extra inputs"),
    "unknown task": ({"task": "ranking"}, "classification"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_impossible_field_map_is_refused(case: str) -> None:
    arguments, says = WRONG[case]
    with pytest.raises(ValidationError, match=says):
        FieldMap(**arguments)


def test_a_field_map_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        FieldMap().label = "y"


def test_the_head_names_what_is_no_number() -> None:
    fields = FieldMap(label="y", client="c", time="t", categories={"k": ("a", "b")}, features=("x",))
    assert fields.head == ("y", "c", "t", "k")
    assert fields.category_features == ("k=a", "k=b")
    assert fields.wanted == {"y", "c", "t", "k", "x"}


def test_what_lies_in_a_dropped_object_is_dropped() -> None:
    fields = FieldMap(drop=("meta", "gps.raw"))
    dropped = ["meta", "meta.id", "meta.id.part", "gps.raw", "gps.raw.x"]
    kept = ["metal", "gps", "gps.rawer", "x.meta"]
    assert [fields.dropped(name) for name in dropped + kept] == [True] * 5 + [False] * 4


def test_the_kind_gives_the_format() -> None:
    assert isinstance(record_format("json", FieldMap(label="y")), JsonRecords)
    assert isinstance(record_format("packed", FieldMap(task="regression")), Packed)
    with pytest.raises(UsageError, match="leave out label, drop"):
        record_format("packed", FieldMap(label="y", drop=("a",)))
