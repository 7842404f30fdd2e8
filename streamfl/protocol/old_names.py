"""Reads values of earlier versions, whose fields had other names."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar


class ReadsOldNames:
    """A dataclass that can be read by old names of its fields; it is always written with the new ones.

    Attributes
    ----------
    OLD_NAMES
        The new name of each old one. If a field has several old names, the one with a value counts.
    """

    OLD_NAMES: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Rename fields before they are validated; the core does not import pydantic."""
        read = {"type": "no-info", "function": cls.of_old}
        return {"type": "function-before", "function": read, "schema": handler(source)}

    @classmethod
    def of_old(cls, value: Any) -> Any:
        """Return the fields of an earlier version as those of this one."""
        return renamed(value, cls.OLD_NAMES)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return fields by their new names; anything but a mapping is returned as it is, for validation to refuse.

    >>> renamed({"online": None, "guest": 3, "round": 7}, {"online": "between", "guest": "between"})
    {'between': 3, 'round': 7}
    """
    if not isinstance(value, Mapping) or names.keys().isdisjoint(value):
        return value
    old = {names[name]: kept for name, kept in value.items() if name in names and kept is not None}
    return old | {name: kept for name, kept in value.items() if name not in names}
