"""Orders of operators, and what became of them."""

from dataclasses import dataclass
from typing import Literal

from streamfl.protocol.messages.base import Message

# What operators order about one client, and about the federation.
MemberAction = Literal["admit", "evict", "reset"]


Action = MemberAction | Literal["hold", "resume", "restart"]


@dataclass(frozen=True, kw_only=True)
class Command(Message):
    """Operator: changes who may take part, or how the federation continues."""

    # `evict`: the client is out until it is admitted again. `admit`: it may join; where clients belong to keys, the
    # first that brings it keeps it. `reset`: it belongs to no key any more, as if it had just been admitted. `hold`:
    # the open entry is not closed until `resume`. `restart`: an epoch begins when the open round closes.
    action: Action
    client: str  # its name; empty where the action is about the federation
    # One more than that of the last command: a command that is sent again, or raced by another, has no effect.
    number: int

    # With `restart`, the model that the epoch begins with: `scratch`, or one that is live or kept, by its name. If
    # there is none of this name, or it is empty, the best one.
    model: str = ""


@dataclass(frozen=True, kw_only=True)
class MemberChanged(Message):
    """Coordinator: a command has taken effect.

    Parameters
    ----------
    by
        The key that has signed it; empty if nothing is signed.
    entry
        The first ledger entry for which it holds.
    """

    action: Action
    client: str
    number: int
    by: str
    entry: int
    model: str = ""
