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
    """

    client: str
    nonce: str  # a random text that tells this start of the client from every other
    # The incarnation that this start takes the place of; 0 for none, and for a start that does not know of one.
    after: int = 0
    moments: Moments  # counts, means and squared deviations of its features
    labels: tuple[str, ...] = ()  # the labels of its first records; empty in regression
    target: TargetUnit = TargetUnit()  # the location and scale of its first targets; unused in classification
    records: int = 0  # the number of records behind `moments`
    question: int = 0  # a counter of the questions of this start; `Joined` repeats it
    period: int | None = None  # with rounds by event time, the period of its first record: see `RoundOpened`

    # Where sums are masked, the public key (X25519) of this start, in hexadecimal digits: see `Roster`. `moments`
    # then only names features.
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Joined(Message):
    """Coordinator: answers `Join` with the client's incarnation and its position in the ledger."""

    # As in the `Join`:
    client: str
    nonce: str
    # The number that the coordinator has issued to this start, from 1: greater than that of any earlier start.
    incarnation: int
    entry: int  # the number of the open ledger entry
    # The next position to read, by partition; a partition that is not named is read from its start.
    positions: Mapping[str, int]
    read: int  # the client's records that the ledger accounts for, good and bad
    rejected: int = 0  # the bad records among them
    sample: tuple[SampledRound, ...] = ()  # the client's records in the history sample, to be read again
    held: tuple[HeldRecord, ...] = ()  # the client's holdout, to be read again
    question: int = 0  # the counter of the `Join` that is answered
    watermark: Watermark | None = None  # the watermark of the last entry that has one, if labels come later
    # Where sums are masked: those of its pending records over which an earlier start may have told a total.
    disclosed: Disclosed | None = None
    resumed: int = 0  # as in the open round


@dataclass(frozen=True, kw_only=True)
class Leave(Message):
    """Client: its source has ended, or it is to stop. Every update that it sent before still counts.

    Sent again after a pause until `Left` confirms it.
    """

    # As in `Join`:
    client: str
    nonce: str
    after: int = 0


@dataclass(frozen=True, kw_only=True)
class Left(Message):
    """Coordinator: confirms `Leave`."""

    # As in the `Leave`:
    client: str
    nonce: str


@dataclass(frozen=True, kw_only=True)
class Fenced(Message):
    """Coordinator: another start of the client holds its present incarnation, which is not the one in `after`.

    A start that has no incarnation asks again with the one that it is told. A start that has one was superseded.
    """

    # As in the `Join` or `Leave` that is answered:
    client: str
    nonce: str
    after: int
    incarnation: int  # the present incarnation


@dataclass(frozen=True, kw_only=True)
class Refusal(Message):
    """Coordinator: a client's message does not count for an entry.

    The entry no longer waits for this client, whose records stay pending. Published at once for every message that no
    correct client sends.
    """

    client: str  # whose message it is
    incarnation: int  # the incarnation that sent it; 0 for a start without one
    entry: int  # the entry for which it does not count
    reason: str  # what is wrong with it, for people

    # Whether the client is no longer a member, because its messages were refused for several entries in a row. A new
    # incarnation may join again.
    evicted: bool = False
