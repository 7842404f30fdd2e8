"""Which field of a record is what."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from streamfl.core.bounds import is_name
from streamfl.streams.cells import listed, quoted, text


class FieldMap(BaseModel):
    """The roles of the fields of a record. A name with dots names a field of an object inside it.

    Parameters
    ----------
    label
        The field that holds the label, or the target.
    client
        The field that names the record's client: a text or an integer.
    time
        The field that says when the record was measured: a number of seconds since 1970 (above 1e11: of
        milliseconds), or a text in ISO 8601.
    features
        The fields that hold numbers or truth values; if empty, every field without another role.
    drop
        Fields to leave out, with everything inside them.
    categories
        The values of fields of text. Each becomes a feature `field=value`, which is 1 or 0; a value that is not
        declared is 0 in all of them, a missing one is missing in all.
    task
        Whether the label names a class or is a number.
    labels
        The labels there are, if the map is closed.
    closed
        Whether nothing counts but what the map names: other fields are left out, records of other labels rejected.

    Raises
    ------
    pydantic.ValidationError
        If a field has two roles, two features have one name, or a value could never be met.

    Examples
    --------
    >>> fields = FieldMap(label="kind", categories={"colour": ("red", "blue")})
    >>> fields.category_features
    ('colour=red', 'colour=blue')
    >>> FieldMap(label="kind", drop=("kind",))
    Traceback (most recent call last):
    pydantic_core._pydantic_core.ValidationError: 1 validation error for FieldMap
      Value error, named more than once: kind; give each field one role...
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str = "label"
    client: str | None = None
    time: str | None = None
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    categories: dict[str, tuple[str, ...]] = {}
    task: Literal["classification", "regression"] = "classification"
    labels: tuple[str, ...] = ()
    closed: bool = False

    @property
    def is_whole(self) -> bool:
        """Tell whether the map names every feature there is."""
        return self.closed or bool(self.features)

    @property
    def head(self) -> tuple[str, ...]:
        """The fields that are no numbers: label, client and time if there are such, those of categories."""
        named = [self.label, self.client, self.time]
        return (*(name for name in named if name is not None), *self.categories)

    @property
    def category_features(self) -> tuple[str, ...]:
        """The features that categories become, in the order in which they are declared."""
        return tuple(f"{name}={value}" for name, values in self.categories.items() for value in values)

    @property
    def wanted(self) -> frozenset[str]:
        """Every field that has a role."""
        return frozenset((*self.head, *self.features))

    def dropped(self, name: str) -> bool:
        """Tell whether a field is left out: it is named by `drop`, or lies inside one that is.

        >>> fields = FieldMap(drop=("meta",))
        >>> fields.dropped("meta.id"), fields.dropped("metal")
        (True, False)
        """
        return name in self.drop or name.startswith(tuple(f"{outer}." for outer in self.drop))

    @property
    def holders(self) -> frozenset[str]:
        """The objects in which a field that has a role may lie.

        >>> sorted(FieldMap(features=("position.x.raw",)).holders)
        ['position', 'position.x']
        """
        return frozenset(outer for name in self.wanted for outer in above(name))

    @model_validator(mode="after")
    def _one_role_each(self) -> Self:
        names = [*self.head, *self.features, *self.drop]
        if "" in names:
            raise ValueError("a name is empty; give the name of a field")
        if twice := repeated(names):
            raise ValueError(f"named more than once: {listed(twice)}; give each field one role")
        return self

    @model_validator(mode="after")
    def _labels_can_be_met(self) -> Self:
        if twice := repeated(self.labels):
            raise ValueError(f"labels declared more than once: {listed(twice)}")
        for label in self.labels:
            if not label or text(label) != label or not is_name(label):
                raise ValueError(f"labels declare {quoted(label)}, which no record can say")
        return self

    @model_validator(mode="after")
    def _categories_can_be_met(self) -> Self:
        for name, values in self.categories.items():
            if not values:
                raise ValueError(f"categories of {quoted(name)} declare no value; declare some, or drop the field")
            for value in values:
                if not value or text(value) != value:
                    raise ValueError(
                        f"categories of {quoted(name)} declare {quoted(value)}, which no record can say: values are "
                        f"read without blanks around them, and nothing or nan is a missing value"
                    )
        if twice := repeated([*self.features, *self.category_features]):
            raise ValueError(f"more than one feature would be named {listed(twice)}; rename or drop one")
        return self


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that are there more than once.

    >>> repeated(["b", "a", "b"])
    ['b']
    """
    return [name for name, count in Counter(names).items() if count > 1]


def above(name: str) -> Iterator[str]:
    """Name the objects in which a field with dots may lie.

    >>> list(above("position.x.raw"))
    ['position', 'position.x']
    """
    end = name.find(".")
    while end >= 0:
        yield name[:end]
        end = name.find(".", end + 1)
