"""The messages that are refused while a ledger entry is open: how many, of whom, and what is still to be told."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from streamfl.core.bounds import is_name
from streamfl.core.protocol.messages import FromClient, Join, Leave, Refusal

# Unusable messages under a client's key in one entry, from which on they are held against it: anybody who may write
# can send one, so the first must not bend a round that waits for all.
UNUSABLE = 3

# Clients that are no members and are told in one entry that they were refused; more are counted only.
STRANGERS = 100


@dataclass
class Refusals:
    """What was refused since an entry was opened.

    Parameters
    ----------
    count
        All messages, late ones too.
    at_fault
        The members whose messages cannot be used, each with the reason: nobody waits for them. One whose message
        counts after all is taken out.
    announced
        The clients of whom a Refusal was announced for this entry: one each is enough.
    untold
        What is to be announced with the next message that goes out, by client.
    unusable
        By member, the messages under its key that were none.

    Examples
    --------
    >>> refusals = Refusals()
    >>> for reason in ("a loss of NaN", "a loss of -1"):
    ...     refusals.blame(Refusal(client="c0", incarnation="1", entry=7, reason=reason))
    >>> refusals.at_fault, [refusal.reason for refusal in refusals.take()], refusals.take()
    ({'c0': 'a loss of -1'}, ['a loss of NaN'], ())
    """

    count: int = 0
    at_fault: dict[str, str] = field(default_factory=dict)
    announced: set[str] = field(default_factory=set)
    untold: dict[str, Refusal] = field(default_factory=dict)
    unusable: dict[str, int] = field(default_factory=dict)

    def following(self) -> "Refusals":
        """Return those of the next entry: none yet, but what is still to be announced."""
        return Refusals(untold=dict(self.untold))

    def __copy__(self) -> "Refusals":
        """Return a copy that changes by itself."""
        return Refusals(self.count, dict(self.at_fault), set(self.announced), dict(self.untold), dict(self.unusable))

    def blame(self, refusal: Refusal) -> None:
        """Hold a refusal against a member, and announce it."""
        self.at_fault[refusal.client] = refusal.reason
        self._announce(refusal)

    def warn(self, refusal: Refusal, members: Iterable[str]) -> None:
        """Announce a refusal that is held against nobody; of strangers only so many."""
        strangers = self.announced.difference(members)
        if refusal.client not in self.announced and len(strangers) < STRANGERS:
            self._announce(refusal)

    def tell(self, refusal: Refusal) -> None:
        """Announce this of a client, in place of what was to be announced."""
        self.untold[refusal.client] = refusal

    def take(self) -> tuple[Refusal, ...]:
        """Return what is to be announced, in the order of names: now it is."""
        told = tuple(self.untold[client] for client in sorted(self.untold))
        self.untold = {}
        return told

    def _announce(self, refusal: Refusal) -> None:
        if refusal.client not in self.announced and is_name(refusal.client) and is_name(refusal.incarnation):
            self.announced.add(refusal.client)
            self.untold[refusal.client] = refusal


def incarnation_of(message: FromClient) -> str:
    """Return the incarnation that sent a message; an attempt is an incarnation and a counter.

    >>> incarnation_of(Leave(client="c0", incarnation="2026-11-22T10:00"))
    '2026-11-22T10:00'
    """
    if isinstance(message, Join | Leave):
        return message.incarnation
    return message.attempt.rpartition("-")[0]
