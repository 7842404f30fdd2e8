"""The two lines below the header of a file of Orange (`.tab`): what each column holds, and what it is for."""

from collections.abc import Sequence
from dataclasses import dataclass

from streamfl.records.request import Task
from streamfl.records.values.missing import WORDS

LINES = 2
_KINDS = frozenset(
    ("c", "d", "s", "t", "continuous", "discrete", "string", "time", "numeric", "categorical", "text", "datetime")
)
_DISCRETE = frozenset(("d", "discrete", "categorical"))
_NO_VALUES = frozenset(("", "?", ".", "na", "nan"))  # missing in Orange, in a column of any kind
_ROLES = frozenset(["class", "meta", "ignore", "i", "m", "c", "weight"])


@dataclass(frozen=True, slots=True)
class Described:
    """What the lines say."""

    label: str | None  # the first column that is a class; None if there is none
    task: Task | None  # whether that is one of numbers or of classes; None if it is not said
    no_feature: dict[str, str]  # columns that are notes, or that the file wants left out, with their role
    # By column of categories, what may be a value there although it is usually missing, such as none.
    values: dict[str, tuple[str, ...]]


def described(names: Sequence[str], kinds: Sequence[str], roles: Sequence[str]) -> Described | None:
    """Return what two lines below a header say; None if they do not describe columns.

    A kind may also be the list of a column's values, separated by blanks, if the others are kinds.

    >>> described(["age", "who", "id"], ["d", "child adult", "s"], ["", "class", "meta"])
    Described(label='who', task='classification', no_feature={'id': 'meta'}, values=...)
    >>> described(["a", "b"], ["d", "c"], ["first", "child"]) is None
    True
    """
    if not len(names) == len(kinds) == len(roles):
        return None
    kinds, roles = [kind.strip().lower() for kind in kinds], [role.strip().lower() for role in roles]
    no_kinds = [kind for kind in kinds if kind and kind not in _KINDS and " " not in kind]
    no_roles = [role for role in roles if role and role not in _ROLES and "=" not in role]
    if no_kinds or no_roles or _KINDS.isdisjoint(kinds):
        return None
    classes = [j for j, role in enumerate(roles) if role in ("class", "c")]
    no_feature = {name: role for name, role in zip(names, roles, strict=True) if role in ("meta", "m", "ignore", "i")}
    are_values = tuple(WORDS - _NO_VALUES)
    values = {name: are_values for name, kind in zip(names, kinds, strict=True) if kind in _DISCRETE or " " in kind}
    if not classes:
        return Described(None, None, no_feature, values)
    first = classes[0]
    tasks: dict[str, Task] = dict.fromkeys(("c", "continuous", "numeric"), "regression")
    return Described(names[first], tasks.get(kinds[first], "classification"), no_feature, values)
