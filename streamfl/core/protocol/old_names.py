"""Values that were saved or sent by an earlier version, with other names for their fields."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar


class ReadsOldNames:
    """A dataclass that is also read from fields by their old names; it is always written with the new ones.

    Attributes
    ----------
    OLD_NAMES
        The new name of each old one. Of several old names of one field, the one that holds something counts.
    """

    OLD_NAMES: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Rename fields before they are validated; the core itself knows nothing of pydantic."""
        named = {"type": "no-info", "function": lambda value: renamed(value, cls.OLD_NAMES)}
        return {"type": "function-before", "function": named, "schema": handler(source)}


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return fields by their new names; what is no mapping stays as it is, to be refused where it is read.

    >>> renamed({"online": None, "guest": 3, "round": 7}, {"online": "between", "guest": "between"})
    {'between': 3, 'round': 7}
    """
    if not isinstance(value, Mapping) or names.keys().isdisjoint(value):
        return value
    old = {names[name]: kept for name, kept in value.items() if name in names and kept is not None}
    return old | {name: kept for name, kept in value.items() if name not in names}
