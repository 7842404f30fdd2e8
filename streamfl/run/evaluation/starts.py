"""Which answers to clients that join are about a new start, and which only repeat one."""

from dataclasses import dataclass, field

from streamfl.bounds import NAMED
from streamfl.protocol.messages import Joined


@dataclass
class Starts:
    """Remembers the newest start of each client that has joined.

    A client asks again until it is answered, so it may be answered more than once; people are told once.

    Examples
    --------
    >>> answer = Joined(client="c0", nonce="7f", incarnation=1, entry=1, positions={}, read=0)
    >>> starts = Starts()
    >>> starts.is_new(answer), starts.is_new(answer)
    (True, False)
    """

    _newest: dict[str, tuple[str, int]] = field(default_factory=dict)  # nonce and incarnation by client

    def is_new(self, joined: Joined) -> bool:
        """Tell whether this start has not been answered before, and note it; of too many clients all are new."""
        start = joined.nonce, joined.incarnation
        if self._newest.get(joined.client) == start:
            return False
        if joined.client in self._newest or len(self._newest) < NAMED.clients:
            self._newest[joined.client] = start
        return True
