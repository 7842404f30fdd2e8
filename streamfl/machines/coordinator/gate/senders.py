"""Which start of a client has sent a message."""

import re
from collections.abc import Mapping

from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.protocol.messages import FromClient, Join, Leave

# An attempt: the incarnation, and a counter.
ATTEMPT = re.compile(r"([0-9]{1,18})-[0-9]{1,18}", re.ASCII)


def incarnation_in(attempt: str) -> int | None:
    """Return the incarnation in an attempt, which is that and a counter; None if it is not an attempt.

    >>> incarnation_in("3-17"), incarnation_in("3"), incarnation_in("-1-1")
    (3, None, None)
    """
    found = ATTEMPT.fullmatch(attempt)
    return None if found is None else int(found[1])


def sender_of(message: FromClient, members: Mapping[str, Member]) -> int | None:
    """Return the incarnation that sent a message: 0 for a start that holds none, None if that is not known.

    >>> members = {"c0": Member(4, nonce="7f")}
    >>> [sender_of(Leave(client="c0", nonce=nonce), members) for nonce in ("7f", "a0")]
    [4, 0]
    """
    if not isinstance(message, Join | Leave):
        return incarnation_in(message.attempt)
    member = members.get(message.client)
    return member.incarnation if member is not None and member.nonce == message.nonce else 0
