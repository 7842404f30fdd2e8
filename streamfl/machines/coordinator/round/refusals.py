"""The refusals while a ledger entry is open: how many, of which clients, and which are still to be announced."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from streamfl.bounds import is_name
from streamfl.protocol.messages import Refusal

# From this many unusable messages under a client's key in one entry, they count against it. Any writer can send one,
# so the first must not change a round that waits for all clients.
UNUSABLE = 3

# The most refusals of clients that are not members announced in one entry; more are only counted.
STRANGERS = 100


@dataclass
class Refusals:
    """The refusals since an entry was opened.

    Examples
    --------
    >>> refusals = Refusals()
    >>> for reason in ("a loss of NaN", "a loss of -1"):
    ...     refusals.blame(Refusal(client="c0", incarnation=1, entry=7, reason=reason))
    >>> refusals.at_fault, [refusal.reason for refusal in refusals.take()], refusals.take()
    ({'c0': 'a loss of -1'}, ['a loss of NaN'], ())
    """

    count: int = 0  # all refused messages, including late ones
    late: int = 0  # those that only came too late

    # The members with a refused message, each with the reason: the round does not wait for them. A later message that
    # is accepted removes the member.
    at_fault: dict[str, str] = field(default_factory=dict)
    # The clients with an announced Refusal for this entry: one each is enough.
    announced: set[str] = field(default_factory=set)
    # Refusals to be announced with the next message, by client.
    unannounced: dict[str, Refusal] = field(default_factory=dict)
    unusable: dict[str, int] = field(default_factory=dict)  # by member, how much under its key was not a message

    def for_next_entry(self) -> "Refusals":
        """Return the refusals of the next entry: only those still to be announced."""
        return Refusals(unannounced=dict(self.unannounced))

    def __copy__(self) -> "Refusals":
        """Return an independent copy."""
        return replace(
            self,
            at_fault=dict(self.at_fault),
            announced=set(self.announced),
            unannounced=dict(self.unannounced),
            unusable=dict(self.unusable),
        )

    def blame(self, refusal: Refusal) -> None:
        """Count a refusal against a member, and announce it."""
        self.at_fault[refusal.client] = refusal.reason
        self._announce(refusal)

    def warn(self, refusal: Refusal, members: Iterable[str]) -> None:
        """Announce a refusal that counts against no member; for strangers only up to STRANGERS."""
        strangers = self.announced.difference(members)
        if refusal.client not in self.announced and len(strangers) < STRANGERS:
            self._announce(refusal)

    def announce_instead(self, refusal: Refusal) -> None:
        """Announce this refusal in place of the client's unannounced one."""
        self.unannounced[refusal.client] = refusal

    def take(self) -> tuple[Refusal, ...]:
        """Take the refusals to be announced, in the order of names."""
        taken = tuple(self.unannounced[client] for client in sorted(self.unannounced))
        self.unannounced = {}
        return taken

    def _announce(self, refusal: Refusal) -> None:
        if refusal.client not in self.announced and is_name(refusal.client):
            self.announced.add(refusal.client)
            self.unannounced[refusal.client] = refusal
