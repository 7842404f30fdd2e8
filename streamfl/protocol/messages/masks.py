"""Masked sums: who masks them, the seeds of those who are missing, and about what totals were asked for."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from streamfl.protocol.messages.base import Message
from streamfl.protocol.messages.updates import Update
from streamfl.protocol.records import Span


@dataclass(frozen=True)
class Disclosed:
    """Records in no entry of which a total of masked sums may be known: see `TotalsAsked.repeats`."""

    entry: int  # the entry whose total it is, of all that repeat it the first
    clients: str  # the digest of the names of its clients, see `digest_of`
    ends: Mapping[str, int]  # by partition, the position after the last of the records
    records: int  # how many good ones there are

    @classmethod
    def of(cls, update: "Update", entry: int, clients: Iterable[str]) -> "Disclosed":
        """Return the records of an update, for a total of these clients."""
        return cls(entry, digest_of(clients), ends_of(update.spans), update.records)

    def are_pending(self, positions: Mapping[str, int]) -> bool:
        """Tell whether some of the records are not in the ledger, given the next positions by partition."""
        return any(end > positions.get(partition, 0) for partition, end in self.ends.items())


def digest_of(clients: Iterable[str]) -> str:
    """Return the SHA-256 of the names of some clients.

    >>> digest_of({"c1", "c0"}) == digest_of(["c0", "c1"]) != digest_of(["c0"])
    True
    """
    return hashlib.sha256("\0".join(sorted(clients)).encode("utf-8", "surrogatepass")).hexdigest()


def ends_of(spans: Sequence[Span]) -> dict[str, int]:
    """Return the position after the last one of each partition."""
    return {span.partition: span.end for span in spans}


@dataclass(frozen=True, kw_only=True)
class Roster(Message):
    """Coordinator: the clients that mask their sums, with their public keys.

    Published before the first round that names it. It takes some 80 bytes a client, and changes when one joins or
    leaves.
    """

    version: int  # its number, from 1
    keys: Mapping[str, str]  # by client, the key of its `Join`

    @cached_property
    def ring(self) -> tuple[str, ...]:
        """Return the clients in the order of the digests of their keys; cached for all clients of a process."""
        digest = {client: hashlib.sha256(key.encode()).digest() for client, key in self.keys.items()}
        return tuple(sorted(digest, key=lambda client: (digest[client], client)))

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Return the place of each client on the ring."""
        return {client: at for at, client in enumerate(self.ring)}


@dataclass(frozen=True, kw_only=True)
class Unmask(Message):
    """Coordinator: says whose masked sums it is going to add up, and asks these clients for the masks that remain.

    Published when a round has its updates, or an alarm its scores. If one of the clients does not answer, nothing is
    learnt of the entry, or of the scores.
    """

    entry: int  # the open entry
    stage: int  # 0 for updates, else that of `Score`
    attempts: Mapping[str, str]  # by client, the attempt of its update or scores that is added up


@dataclass(frozen=True, kw_only=True)
class Unmasked(Message):
    """Client: answers `Unmask` with seeds, in hexadecimal digits. Each is of one entry and stage alone."""

    client: str
    attempt: str  # that of its update or scores
    # As in the `Unmask`:
    entry: int
    stage: int
    own: str  # the seed of its own mask
    # By peer that is not among the clients, the seed of the mask that both know: 90 bytes each.
    shared: Mapping[str, str] = field(default_factory=dict)
