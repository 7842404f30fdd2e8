"""The roles of the fields of a record."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from streamfl.bounds import is_name
from streamfl.errors import UsageError
from streamfl.records.values.cells import USUAL, CellRules, listed, quoted, text
from streamfl.records.values.dates import Order
from streamfl.records.values.missing import Missing
from streamfl.records.values.numerals import Decimal
from streamfl.records.values.time_features import TimeFeatures
from streamfl.records.values.times import Notation


class FieldMap(BaseModel):
    """`[records.fields]`: which field of a record is what. A name with dots is a field of an inner object.

    Raises
    ------
    pydantic.ValidationError
        If a field has two roles, two features have the same name, or a declared value can never occur.

    Examples
    --------
    >>> fields = FieldMap(label="kind", categories={"colour": ("red", "blue")})
    >>> fields.category_features
    ('colour=red', 'colour=blue')
    >>> FieldMap(label="kind", drop=("kind",))
    Traceback (most recent call last):
    pydantic_core._pydantic_core.ValidationError: 1 validation error for FieldMap
      Value error, these fields are named more than once: kind; give each field one role...
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    label: str = "label"
    """The field with the label or target."""
    client: str | None = Field(None, json_schema_extra={"unset": "none"})
    """The field that names the record's client: a text or a whole number."""
    time: str | None = Field(None, json_schema_extra={"unset": "none", "decides": False})
    """The field with the time of the record: a date, or seconds, milli-, micro- or nanoseconds since 1970; or the two
    fields of its day and its time of day, `day,clock`; see docs/values.md."""
    timezone: str = Field("UTC", json_schema_extra={"decides": False})
    """The zone of times that name none, such as `Europe/Berlin`."""
    date_order: Order | None = Field(None, json_schema_extra={"unset": "as each date shows", "decides": False})
    """The order of day, month and year in dates such as 03/04/2026; without it they count as no time."""
    time_features: tuple[str, ...] = ()
    """What the time becomes: `hour`, `weekday`, `season`; each is an angle, by the clocks of `timezone`, and becomes
    two features, its sine and its cosine."""
    key: str | None = Field(None, json_schema_extra={"set_by": "labels.key"})
    """The field that names the record, if labels come later: a text or a whole number."""
    features: tuple[str, ...] = ()
    """The features: fields with numbers or booleans; if empty, every number in the record that has no other
    role."""
    drop: tuple[str, ...] = ()
    """Fields to ignore, with all their inner fields."""
    categories: dict[str, tuple[str, ...]] = {}
    """Text fields with their possible values, each of which becomes a feature `field=value` of 0 or 1: for a value
    that is not listed, all of them are 0, and if the field is missing, all are missing."""
    task: Literal["classification", "regression", "unlabelled"] = Field(
        "classification", json_schema_extra={"set_by": "federation.task"}
    )
    """Whether the label is a class or a number; or that there is none: a field of its name is left out."""
    labels: tuple[str, ...] = ()
    """All labels that may occur; needed if `schema` in `[records]` is `closed`."""
    registry: str = Field("", json_schema_extra={"set_by": "records.registry"})
    """The address of the Schema Registry."""
    closed: bool = Field(False, json_schema_extra={"set_by": "records.schema"})
    """Whether only the named fields and labels count: other fields are left out, records of other labels rejected."""

    missing_values: tuple[str, ...] = Field((), json_schema_extra={"set_by": "records.missing_values"})
    """More missing values; `not:NA` means that NA is a value."""
    decimal: Decimal | None = Field(None, json_schema_extra={"set_by": "records.decimal"})
    """The decimal mark of numbers that are texts."""

    @property
    def reading(self) -> CellRules:
        """Return how cells are read."""
        return _reading(self.missing_values, self.decimal)

    def reading_of(self, declared: Sequence[str]) -> CellRules:
        """Return how cells are read where these values are declared: they are values, even if one is called none."""
        return self.reading.keeping([value for value in declared if value.lower() != "nan"])

    @property
    def is_whole(self) -> bool:
        """Return whether the map names all features."""
        return self.closed or bool(self.features)

    @property
    def head(self) -> tuple[str, ...]:
        """The fields other than numbers: label (if there is one), client, time, key (if mapped), and categories."""
        named = [self.label if self.task != "unlabelled" else None, self.client, *self.times, self.key]
        return (*(name for name in named if name is not None), *self.categories)

    @property
    def times(self) -> tuple[str, ...]:
        """The fields that hold the time: none, one, or one of the day and one of the time of day.

        >>> FieldMap(time="day,clock").head
        ('label', 'day', 'clock')
        """
        return () if self.time is None else tuple(name.strip() for name in self.time.split(","))

    @property
    def half(self) -> Literal["features", "labels"] | None:
        """Which half of a record a message holds, if labels come later."""
        return None if self.key is None else "features"

    @property
    def category_features(self) -> tuple[str, ...]:
        """The features of all categories, in order of declaration."""
        return tuple(f"{name}={value}" for name, values in self.categories.items() for value in values)

    @property
    def wanted(self) -> frozenset[str]:
        """All fields with a role."""
        return frozenset((*self.head, *self.features))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The fields to leave out: `drop`, and the label of records that are to have none."""
        return (*self.drop, self.label) if self.task == "unlabelled" else self.drop

    def dropped(self, name: str) -> bool:
        """Return whether `left_out` names a field or an object around it.

        >>> fields = FieldMap(drop=("meta",))
        >>> fields.dropped("meta.id"), fields.dropped("metal")
        (True, False)
        """
        return name in self.left_out or name.startswith(tuple(f"{outer}." for outer in self.left_out))

    @property
    def holders(self) -> frozenset[str]:
        """The objects that may contain a field with a role.

        >>> sorted(FieldMap(features=("position.x.raw",)).holders)
        ['position', 'position.x']
        """
        return frozenset(outer for name in self.wanted for outer in outer_objects(name))

    @property
    def notation(self) -> Notation:
        """How the times are written."""
        return Notation(self.timezone, self.date_order)

    @property
    def made_of_times(self) -> TimeFeatures | None:
        """Which features are made of the times; None: none are."""
        return TimeFeatures(self.time_features, self.time or "", self.notation) if self.time_features else None

    @field_validator("timezone")
    @classmethod
    def _zone_exists(cls, name: str) -> str:
        try:
            return Notation(name).zone
        except UsageError as error:
            raise ValueError(str(error)) from None

    @field_validator("labels")
    @classmethod
    def _labels_as_read(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_as_read, labels))

    @field_validator("categories")
    @classmethod
    def _categories_as_read(cls, categories: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {name: tuple(map(_as_read, values)) for name, values in categories.items()}

    @model_validator(mode="after")
    def _one_role_each(self) -> Self:
        names = [*self.head, *self.features, *self.drop]
        if "" in names:
            raise ValueError("a name is empty; give the name of a field")
        try:
            _ = self.made_of_times
        except UsageError as error:
            raise ValueError(f"time_features: {error}") from None
        if len(self.times) > 2:
            raise ValueError(
                f"time names {len(self.times)} fields; name one, or that of the day and that of the time of day"
            )
        if twice := repeated(names):
            raise ValueError(f"these fields are named more than once: {listed(twice)}; give each field one role")
        return self

    @model_validator(mode="after")
    def _labels_can_occur(self) -> Self:
        if twice := repeated(self.labels):
            raise ValueError(f"labels are declared more than once: {listed(twice)}; declare each once")
        for label in self.labels:
            if not label or text(label, self.reading_of(self.labels)) != label or not is_name(label):
                raise ValueError(f"labels declare {quoted(label)}, which can never occur")
        return self

    @model_validator(mode="after")
    def _categories_can_occur(self) -> Self:
        for name, values in self.categories.items():
            if not values:
                raise ValueError(f"categories of {quoted(name)} declare no value; declare some, or drop the field")
            for value in values:
                if not value or text(value, self.reading_of(values)) != value:
                    raise ValueError(
                        f"categories of {quoted(name)} declare {quoted(value)}, which can never occur: values are "
                        f"read without surrounding blanks, and an empty text or nan is a missing value"
                    )
        if twice := repeated([*self.features, *self.category_features]):
            raise ValueError(f"more than one feature would have the name {listed(twice)}; rename or drop one")
        return self


@lru_cache(maxsize=64)
def _reading(missing_values: tuple[str, ...], decimal: Decimal | None) -> CellRules:
    return CellRules(Missing.of(missing_values), decimal)


def _as_read(value: str) -> str:
    """Return a declared value in the form that it has in records: 1 for 1.0, True for true.

    >>> _as_read("1.0"), _as_read("true"), _as_read("none"), _as_read(" ")
    ('1', 'True', 'none', ' ')
    """
    return value if value != value.strip() else text(value, USUAL.keeping([value]))


class LabelMap(FieldMap):
    """The roles of the fields of a message with a label that comes apart from its record: `label` and `key`.

    All other fields are left out.

    >>> LabelMap(key="id").is_whole, LabelMap(key="id").half
    (True, 'labels')
    """

    @property
    def is_whole(self) -> bool:
        """Return that there are no features."""
        return True

    @property
    def half(self) -> Literal["features", "labels"]:
        """Return that a message holds a label."""
        return "labels"


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once.

    >>> repeated(["b", "a", "b"])
    ['b']
    """
    return [name for name, count in Counter(names).items() if count > 1]


def outer_objects(name: str) -> Iterator[str]:
    """Yield the names of the objects around a dotted field.

    >>> list(outer_objects("position.x.raw"))
    ['position', 'position.x']
    """
    end = name.find(".")
    while end >= 0:
        yield name[:end]
        end = name.find(".", end + 1)
