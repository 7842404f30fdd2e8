"""Fields of a message wherever they stand: its own, and those of its groups."""

from dataclasses import fields, replace
from typing import Any, TypeVar

from streamfl.protocol.messages import Message
from streamfl.protocol.messages.base import FieldGroup

M = TypeVar("M", bound=Message)


def altered(message: M, **changes: Any) -> M:
    """Return a message with other values of some fields, each given by its name alone.

    >>> from streamfl.protocol.messages import RoundOpened
    >>> opened = RoundOpened(entry=2, round=2, epoch=1, block=1, registry=1, slots=(), serves="m", known_labels=1)
    >>> changed = altered(opened, keep=7, epoch=3)
    >>> changed.earlier.keep, changed.epoch, field_of(changed, "keep"), field_of(changed, "epoch")
    (7, 3, 7, 3)
    """
    groups = group_of(message)
    changed: dict[str, Any] = {name: x for name, x in changes.items() if name not in groups}
    for group in dict.fromkeys(groups[name] for name in changes if name in groups):
        own = {name: x for name, x in changes.items() if groups.get(name) == group}
        changed[group] = replace(changed.get(group, getattr(message, group)), **own)
    return replace(message, **changed)


def field_of(message: Message, name: str) -> Any:
    """Return the value of a field."""
    group = group_of(message).get(name)
    return getattr(message if group is None else getattr(message, group), name)


def group_of(message: Message) -> dict[str, str]:
    """Return the name of the group of each field that is in one."""
    groups = [(f.name, getattr(message, f.name)) for f in fields(message)]
    return {f.name: name for name, group in groups if isinstance(group, FieldGroup) for f in fields(group)}
