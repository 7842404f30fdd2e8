"""Labels as they are given, their names, and their places in what is learnt."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.estimators.rows import whole_text

Label = bool | int | float | str

# More different ones are targets, or names of records.
MOST_LABELS = 1000

# With ferns: each label has 128,000 cells in their table, of which every client holds a copy.
MOST_WITH_FERNS = 250


@dataclass(frozen=True, eq=False)
class Coded:
    """Some labels by their places in `names`, which end with those that are `new`."""

    codes: FloatArray
    names: tuple[str, ...]
    new: tuple[Label, ...] = ()


@dataclass
class Labels:
    """The labels that have been learnt; those that are equal in Python, such as True and 1, are one.

    Parameters
    ----------
    most
        How many there may be.
    given
        By name, as they were given when they were first seen.
    names
        In the order in which they were first seen.

    Examples
    --------
    >>> labels = Labels()
    >>> coded = labels.coded([True, "b", 1.0])
    >>> coded.codes, coded.names, labels.names
    (array([0., 1., 0.]), ('True', 'b'), ())
    >>> labels.note(coded)
    >>> labels.given, labels.names
    ({'True': True, 'b': 'b'}, ('True', 'b'))
    """

    most: int = MOST_LABELS
    given: dict[str, Label] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    _places: dict[Label, int] = field(default_factory=dict)

    def coded(self, labels: Iterable[Any]) -> Coded:
        """Return the places of labels; new ones are not noted, as their records may yet be refused.

        Raises
        ------
        ValueError
            One is no label, has the name of another one, or they are too many.
        """
        plain = [_plain(label) for label in labels]
        new = tuple(label for label in dict.fromkeys(plain) if label not in self._places)
        places = self._places
        if new:
            self._check(new)
            places = places | {label: len(self.names) + i for i, label in enumerate(new)}
        codes = np.array([places[label] for label in plain], dtype=np.float64)
        return Coded(codes, (*self.names, *map(str, new)) if new else self.names, new)

    def note(self, coded: Coded) -> None:
        """Remember labels whose records are learnt now."""
        self.restore(coded.new)

    def restore(self, labels: Sequence[Label]) -> None:
        """Remember labels that had been noted, in this order."""
        for label in labels:
            self._places.setdefault(label, len(self.names))
            self.given[str(label)] = label
            self.names += (str(label),)

    def _check(self, new: Sequence[Label]) -> None:
        if len(self.names) + len(new) > self.most:
            hint = "" if self.most == MOST_LABELS else f'; features="linear" learns up to {MOST_LABELS} labels'
            raise ValueError(f"more than {self.most} labels: are these targets? Then use MasterFLRegressor{hint}")
        named = dict(self.given)
        for label in new:
            whole_text(str(label), "a label")
            known = named.setdefault(str(label), label)
            if known != label:
                raise ValueError(
                    f"labels {known!r} and {label!r} are both called {str(label)!r}: use one kind of label"
                )


def _plain(label: Any) -> Label:
    """Return a label as Python's own.

    >>> _plain(np.int64(3)), _plain("a")
    (3, 'a')
    """
    plain: Any = label.item() if isinstance(label, np.generic) else label
    match plain:
        case bool():
            return plain
        case int():
            return int(plain)
        case float() if plain == plain:  # noqa: PLR0124 - NaN is no label
            return float(plain)
        case str():
            return str.__str__(plain)  # of an enumeration too, which prints otherwise
    if plain is None or isinstance(plain, float):
        raise ValueError(f"a label is {label!r}: leave out records that have no label")
    raise ValueError(f"a label is {label!r}: it must be a bool, an int, a float or a str; use its name or number")
