"""The base of all messages."""

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
