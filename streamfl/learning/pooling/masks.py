"""Masks that cancel: the coordinator learns the total of the clients' sums, and of no client its own.

Bonawitz et al. 2017 (Practical secure aggregation), with a second message in place of shared secrets. For every
entry each client adds a mask of its own, and for each of its peers one that both know and that one adds, the other
subtracts. The coordinator says whose sums it is going to add up. Each of these clients then tells the seed of its own
mask, and the seeds that it shares with peers who are not among them. So masks of absent clients are removed, and what
an absent client has sent, if it comes late, stays hidden by its own mask. A client answers for one set of clients, of
at least `min_clients_per_sum`; if one of them stays silent, nothing is learnt of the entry.

The silent one may answer later. Then a total is known that nobody has learnt, and its difference from the next total
over the same records would be what the two sets of clients differ by. The law that prevents it: **a total is about
records of one round alone. It is the same as an earlier one, of the same clients and records, or each of its clients
has at least `min_records` records in it about which it has told no total.** Take any combination of totals, and of
those in it the ones that were told last: nothing before holds their new records, which are of at least
`min_clients_per_sum` clients. So what totals tell together is about at least `min_clients_per_sum` clients, or about
none.

Each client keeps the law by itself: `machines/client/work/disclosure.py` which records it tells about, and
`unprotected` of `machines/client/usable.py` that no record of an earlier round is scored again. `testing/observer.py`
checks it.

In a large federation a client has only some peers: Bell et al. 2020 show that a number that grows with the logarithm
of that of the clients is enough.
"""

import hashlib
import hmac
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from streamfl.arrays import IntArray
from streamfl.protocol.messages import Roster, Unmask, Unmasked
from streamfl.protocol.records import Span

# The peers of a client, half of them on either side of a ring; in a smaller federation all are.
PEERS = 32

# The hexadecimal digits of a public key, and of a seed.
KEY_DIGITS = 64

# The prime of Curve25519, and its points of low order: nobody has a secret with the owner of such a key (RFC 7748).
PRIME = 2**255 - 19
OF_LOW_ORDER = {
    0,
    1,
    PRIME - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
}

# Minimum number of clients in a total that is published, unless settings say another number.
FEWEST = 3

# What the coordinator is told of the numbers about records.
Sums = Literal["off", "pooled", "masked"]

# From a seed of 32 bytes, so many whole numbers that look random without it.
Expand = Callable[[bytes, int], IntArray]


class Secrets(Protocol):
    """The secrets of one start of a client."""

    @property
    def public(self) -> str:
        """Return the public key, in hexadecimal digits."""
        ...

    @property
    def own(self) -> bytes:
        """Return a secret that nobody else knows, 32 bytes."""
        ...

    def shared(self, public: str) -> bytes:
        """Return the secret that only this client and the owner of a public key know, 32 bytes."""
        ...

    def expand(self, seed: bytes, n: int) -> IntArray:
        """Return the n whole numbers that a seed stands for."""
        ...


def peers(roster: Roster, client: str) -> tuple[str, ...]:
    """Return the peers of a client on the roster: its neighbours on the ring, or in a small federation all others.

    >>> roster = Roster(version=1, keys={f"c{i}": f"{i:064x}" for i in range(40)})
    >>> len(peers(roster, "c7")), all("c7" in peers(roster, name) for name in peers(roster, "c7"))
    (32, True)
    >>> peers(Roster(version=1, keys={"a": "0", "b": "1"}), "a")
    ('b',)
    """
    ring, at = roster.ring, roster.places[client]
    if len(ring) <= PEERS + 1:
        return tuple(name for name in roster.keys if name != client)
    return tuple(ring[(at + step) % len(ring)] for i in range(1, PEERS // 2 + 1) for step in (-i, i))


def seed(secret: bytes, entry: int, stage: int, attempt: str = "") -> bytes:
    """Return the seed of one mask: of an entry, of its update (stage 0) or of scores, of an attempt or of all.

    >>> seed(bytes(32), 7, 0).hex()[:8], seed(bytes(32), 7, 0, "3-2").hex()[:8]
    ('764d4357', '4812856b')
    """
    return hmac.new(secret, f"streamfl mask {entry} {stage} {attempt}".encode(), hashlib.sha256).digest()


def is_seed(text: str) -> bool:
    """Tell whether a text is a seed, in hexadecimal digits.

    >>> is_seed("0f" * 32), is_seed("0f"), is_seed("0F" * 32)
    (True, False, False)
    """
    return len(text) == KEY_DIGITS and set(text) <= set("0123456789abcdef")


def is_key(text: str) -> bool:
    """Tell whether a text is a public key, in hexadecimal digits, of which there are secrets with others.

    >>> is_key("0f" * 32), is_key("0f"), is_key("00" * 32)
    (True, False, False)
    """
    return is_seed(text) and int.from_bytes(bytes.fromhex(text), "little") % 2**255 % PRIME not in OF_LOW_ORDER


def _sign(client: str, peer: str) -> int:
    return 1 if client < peer else -1


@dataclass
class Masks:
    """The masks of one client for one entry.

    It may make several attempts, because a message can be lost. Each attempt has its own mask, so two attempts show
    nothing together, not even how they differ. In each stage the client tells the seeds of one attempt only, for one
    set of others' attempts. The totals of scores are of the same clients and records as the total of the updates:
    otherwise the difference of two totals would tell about single clients. Attempts may be newer: a client that has
    made its update again scores under a new name.
    """

    # The client, and its secrets.
    client: str
    secrets: Secrets
    roster: Roster  # the clients that mask, this one among them
    entry: int
    min_clients_per_sum: int  # minimum number of clients in a total that it allows
    _made: dict[tuple[int, str], tuple[Span, ...]] = field(default_factory=dict)  # the records, by stage and attempt
    _told: dict[int, Mapping[str, str]] = field(default_factory=dict)  # the attempts of each total, by stage

    @property
    def has_told(self) -> bool:
        """Tell whether seeds were told."""
        return 0 in self._told

    @property
    def told_about(self) -> tuple[Span, ...]:
        """Return the records about which seeds were told; none before that."""
        return self._made[0, self._told[0][self.client]] if self.has_told else ()

    def masked(self, sums: IntArray, stage: int, attempt: str, spans: tuple[Span, ...] = ()) -> IntArray | None:
        """Return masked sums; None if an attempt of this name was masked before: two would show what differs.

        None as well, for scores of other records than those that seeds were told about: no total of them may be told.

        Parameters
        ----------
        stage, attempt
            0 for an update, else the stage of the scores; and the name of the attempt.
        spans
            The records whose sums they are.
        """
        if (stage, attempt) in self._made or (stage > 0 and self.has_told and spans != self.told_about):
            return None
        self._made[stage, attempt] = spans
        total = sums.astype(np.uint64) + self._expanded(self._own(stage, attempt), len(sums))
        for peer in peers(self.roster, self.client):
            mask = self._expanded(self._shared(peer, stage), len(sums))
            total = total + mask if _sign(self.client, peer) > 0 else total - mask
        return total.astype(np.int64)

    def _own(self, stage: int, attempt: str) -> bytes:
        return seed(self.secrets.own, self.entry, stage, attempt)

    def _shared(self, peer: str, stage: int) -> bytes:
        return seed(self.secrets.shared(self.roster.keys[peer]), self.entry, stage)

    def _expanded(self, seed: bytes, n: int) -> NDArray[np.uint64]:
        return self.secrets.expand(seed, n).astype(np.uint64)

    def unmasked(self, asked: Unmask) -> Unmasked | None:
        """Return the seeds with which a total can be told; None if it must not be."""
        attempts, stage = asked.attempts, asked.stage
        attempt, mine = attempts.get(self.client), peers(self.roster, self.client)
        hidden_among = 1 + len(attempts.keys() & set(mine))
        if attempt is None or asked.entry != self.entry or (stage, attempt) not in self._made:
            return None
        if hidden_among < self.min_clients_per_sum or not self.roster.keys.keys() >= attempts.keys():
            return None
        if not self._is_as_told(attempts, stage):
            return None
        self._told[stage] = dict(attempts)
        return Unmasked(
            client=self.client,
            attempt=attempt,
            entry=self.entry,
            stage=stage,
            own=self._own(stage, attempt).hex(),
            shared={peer: self._shared(peer, stage).hex() for peer in mine if peer not in attempts},
        )

    def _is_as_told(self, attempts: Mapping[str, str], stage: int) -> bool:
        """Tell whether a total is of the attempts told of in its stage, and of the clients and records of stage 0."""
        if not self.has_told:
            return stage == 0
        of_same = attempts.keys() == self._told[0].keys()
        about_same = self._made[stage, attempts[self.client]] == self.told_about
        return of_same and about_same and self._told.get(stage, attempts) == attempts


def absent_peers(roster: Roster, client: str, clients: Collection[str]) -> set[str]:
    """Return the peers of a client that are not among some clients: it tells the seeds that it shares with them."""
    return {peer for peer in peers(roster, client) if peer not in clients}


def total_of(sums: Sequence[IntArray], answers: Sequence[Unmasked], expand: Expand) -> IntArray:
    """Return the total of masked sums, without the masks that do not cancel.

    Parameters
    ----------
    sums
        The masked sums of the clients that answered, shape (n,) each.
    """
    total = plain_total(sums).astype(np.uint64)
    for answer in answers:
        total = total - expand(bytes.fromhex(answer.own), len(total)).astype(np.uint64)
        for peer, shared in answer.shared.items():
            mask = expand(bytes.fromhex(shared), len(total)).astype(np.uint64)
            total = total - mask if _sign(answer.client, peer) > 0 else total + mask
    return total.astype(np.int64)


def plain_total(sums: Sequence[IntArray]) -> IntArray:
    """Return the total of sums, modulo 2^64.

    >>> plain_total([np.array([2**62, 1]), np.array([2**62, -3])]).tolist()
    [-9223372036854775808, -2]
    """
    total = np.zeros(len(sums[0]), np.uint64)
    for part in sums:
        total = total + part.astype(np.uint64)
    return total.astype(np.int64)
