"""The bases of all messages, and of the groups of fields in them."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from streamfl.arrays import HOLDS_ARRAYS
from streamfl.protocol.memory import memory


@dataclass(frozen=True, kw_only=True, eq=False)
class Message:
    """The base class of all messages."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    @cached_property
    def memory(self) -> int:
        """Return about how many bytes it takes, weighed once."""
        return memory(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class FieldGroup:
    """The base of a group of fields of a message, which one mode uses and others do not.

    Fields that have their default are not written, so a group that its mode does not use takes no bytes.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS
