"""Labels as the user gives them, their names, and their indices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.run.estimators.rows import is_missing, whole_text

Label = bool | int | float | str
PLAIN = frozenset((bool, int, float, str))

# With more different labels the column probably holds targets, or identifies records.
MOST_LABELS = 1000

# With ferns: each label takes 128,000 cells in the ferns' table, and every client holds a copy of the table.
MOST_WITH_FERNS = 250


@dataclass(frozen=True, eq=False)
class EncodedLabels:
    """Labels as indices into `names`; the `new` labels are the last of the names."""

    codes: FloatArray
    names: tuple[str, ...]
    new: tuple[Label, ...] = ()


@dataclass
class LearntLabels:
    """The labels learnt so far. Labels that are equal in Python, such as True and 1, are the same label.

    Examples
    --------
    >>> labels = LearntLabels()
    >>> encoded = labels.encode([True, "b", 1.0])
    >>> encoded.codes, encoded.names, labels.names
    (array([0., 1., 0.]), ('True', 'b'), ())
    >>> labels.add(encoded)
    >>> labels.given, labels.names
    ({'True': True, 'b': 'b'}, ('True', 'b'))
    """

    most: int = MOST_LABELS  # the largest number of labels
    # Each label by its name, in the form in which it was first given.
    given: dict[str, Label] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # the names in order of first appearance
    _places: dict[Label, int] = field(default_factory=dict)
    # Labels that were encoded alone since the last new one.
    _encoded: dict[Label, EncodedLabels] = field(default_factory=dict)

    def encode_one(self, label: Any) -> EncodedLabels:
        """Return one label as an index: see `encode`."""
        if type(label) not in PLAIN:
            return self.encode([label])
        known = self._encoded.get(label)
        if known is None:
            known = self.encode([label])
            if not known.new:
                self._encoded[label] = known
        return known

    def encode(self, labels: Iterable[Any]) -> EncodedLabels:
        """Return labels as indices. New labels are not added yet, since their records may still be refused.

        Raises
        ------
        ValueError
            A value cannot be a label, two labels have the same name, or there are too many labels.
        """
        plain = [_plain(label) for label in labels]
        new = tuple(label for label in dict.fromkeys(plain) if label not in self._places)
        places = self._places
        if new:
            self._check(new)
            places = places | {label: len(self.names) + i for i, label in enumerate(new)}
        codes = np.array([places[label] for label in plain], dtype=np.float64)
        return EncodedLabels(codes, (*self.names, *map(str, new)) if new else self.names, new)

    def add(self, encoded: EncodedLabels) -> None:
        """Add the new labels of records that are learnt now."""
        if encoded.new:
            self.restore(encoded.new)

    def restore(self, labels: Sequence[Label]) -> None:
        """Add labels in this order."""
        for label in labels:
            self._encoded.clear()
            self._places.setdefault(label, len(self.names))
            self.given[str(label)] = label
            self.names += (str(label),)

    def _check(self, new: Sequence[Label]) -> None:
        if len(self.names) + len(new) > self.most:
            hint = "" if self.most == MOST_LABELS else f'; features="linear" learns up to {MOST_LABELS} labels'
            raise ValueError(f"more than {self.most} labels: if they are amounts, use MasterFLRegressor{hint}")
        named = dict(self.given)
        for label in new:
            whole_text(str(label), "a label")
            known = named.setdefault(str(label), label)
            if known != label:
                raise ValueError(
                    f"labels {known!r} and {label!r} have the same name {str(label)!r}: use one kind of label"
                )


def _plain(label: Any) -> Label:
    """Return a label as a plain Python value.

    >>> _plain(np.int64(3)), _plain("a")
    (3, 'a')
    """
    plain: Any = label.item() if isinstance(label, np.generic) else label
    match plain:
        case bool():
            return plain
        case int():
            return int(plain)
        case float() if plain == plain:  # noqa: PLR0124 - NaN is not a label
            return float(plain)
        case str():
            return str.__str__(plain)  # the value also of a string enumeration, whose str() may differ
    if is_missing(plain):
        raise ValueError(f"a label is {label!r}: leave out records without a label")
    raise ValueError(f"a label is {label!r}: it must be a bool, an int, a float or a str; use its name or number")
