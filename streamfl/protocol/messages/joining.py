"""Joining and leaving."""

from collections.abc import Mapping
from dataclasses import dataclass

from streamfl.protocol.messages.base import Message
from streamfl.protocol.messages.ledger import HeldRecord, SampledRound, Watermark
from streamfl.protocol.messages.masks import Disclosed
from streamfl.protocol.moments import Moments
from streamfl.protocol.registry import TargetUnit


@dataclass(frozen=True, kw_only=True, eq=False)
class Join(Message):
    """Client: asks to take part, or asks again for its position in the ledger.

    Sent when a client starts, when a partition is assigned to it, when the ledger names an update that it did not
    send, and again after a pause while no answer comes. `Joined` answers it. `labels`, `moments` and `target`
    describe the client's first records; they count until round 1 opens, and are ignored for a known member.

    Parameters
    ----------
    client
        The client's name.
    nonce
        A random text that tells this start of the client from every other.
    after
        The incarnation that this start takes the place of; 0 for none, and for a start that does not know of one.
    moments
        Counts, means and squared deviations of its features.
    labels
        The labels of its first records; empty in regression.
    target
        The location and scale of its first targets; unused in classification.
    records
        The number of records behind `moments`.
    question
        A counter of the questions of this start; `Joined` repeats it.
    period
        With rounds by event time, the period of its first record: see `RoundOpened`.
    key
        Where sums are masked, the public key (X25519) of this start, in hexadecimal digits: see `Roster`. `moments`
        then only names features.
    """

    client: str
    nonce: str
    after: int = 0
    moments: Moments
    labels: tuple[str, ...] = ()
    target: TargetUnit = TargetUnit()
    records: int = 0
    question: int = 0
    period: int | None = None
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Joined(Message):
    """Coordinator: answers `Join` with the client's incarnation and its position in the ledger.

    Parameters
    ----------
    client, nonce
        Those of the `Join`.
    incarnation
        The number that the coordinator has issued to this start, from 1: greater than that of any earlier start.
    entry
        The number of the open ledger entry.
    positions
        The next position to read, by partition; a partition that is not named is read from its start.
    read
        The client's records that the ledger accounts for, good and bad.
    rejected
        The bad records among them.
    sample
        The client's records in the history sample, to be read again.
    held
        The client's holdout, to be read again.
    question
        The counter of the `Join` that is answered.
    watermark
        The watermark of the last entry that has one, if labels come later.
    disclosed
        Where sums are masked: those of its pending records over which an earlier start may have told a total.
    """

    client: str
    nonce: str
    incarnation: int
    entry: int
    positions: Mapping[str, int]
    read: int
    rejected: int = 0
    sample: tuple[SampledRound, ...] = ()
    held: tuple[HeldRecord, ...] = ()
    question: int = 0
    watermark: Watermark | None = None
    disclosed: Disclosed | None = None


@dataclass(frozen=True, kw_only=True)
class Leave(Message):
    """Client: its source has ended, or it is to stop. Every update that it sent before still counts.

    Sent again after a pause until `Left` confirms it.

    Parameters
    ----------
    client, nonce, after
        As in `Join`.
    """

    client: str
    nonce: str
    after: int = 0


@dataclass(frozen=True, kw_only=True)
class Left(Message):
    """Coordinator: confirms `Leave`.

    Parameters
    ----------
    client, nonce
        Those of the `Leave`.
    """

    client: str
    nonce: str


@dataclass(frozen=True, kw_only=True)
class Fenced(Message):
    """Coordinator: another start of the client holds its present incarnation, which is not the one in `after`.

    A start that has no incarnation asks again with the one that it is told. A start that has one was superseded.

    Parameters
    ----------
    client, nonce, after
        Those of the `Join` or `Leave` that is answered.
    incarnation
        The present incarnation.
    """

    client: str
    nonce: str
    after: int
    incarnation: int


@dataclass(frozen=True, kw_only=True)
class Refusal(Message):
    """Coordinator: a client's message does not count for an entry.

    The entry no longer waits for this client, whose records stay pending. Published at once for every message that no
    correct client sends.

    Parameters
    ----------
    client
        Whose message it is.
    incarnation
        The incarnation that sent it; 0 for a start without one.
    entry
        The entry for which it does not count.
    reason
        What is wrong with it, for people.
    evicted
        Whether the client is no longer a member, because its messages were refused for several entries in a row. A
        new incarnation may join again.
    """

    client: str
    incarnation: int
    entry: int
    reason: str
    evicted: bool = False
