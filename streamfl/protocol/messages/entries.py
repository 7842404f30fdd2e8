"""What a closed round has accepted: an entry of the ledger; and the end."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from streamfl.protocol.alarm import Reading
from streamfl.protocol.messages.base import Message
from streamfl.protocol.messages.ledger import Watermark
from streamfl.protocol.messages.updates import Served
from streamfl.protocol.records import Span


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """An update that counts, as a ledger entry names it."""

    # As in the update:
    client: str
    attempt: str
    spans: tuple[Span, ...]  # the positions that it covers
    # Its good and bad records:
    records: int
    rejected: int
    watermark: Watermark | None = None  # its watermark, if labels come later; `expired` is that of the round

    # How many of the predictions that it served of these records were right, and how many of NoChange; in regression
    # both sums of |prediction - target|. Six digits. None if it served none, or the coordinator sees only sums of all
    # clients. Nothing is decided by it. It takes 23 bytes of an entry, of targets 29.
    measured: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class RoundClosed(Message):
    """Coordinator: a ledger entry. It is the truth about which records were trained on.

    Published at quorum or deadline, in one transaction with the models that it leads to, the coordinator's state, its
    input offsets and the `RoundOpened` that follows. Entries have consecutive numbers. An entry with `records` 0 only
    moves positions past bad records: its round is opened again.
    """

    entry: int
    round: int
    epoch: int
    block: int
    accepted: tuple[Accepted, ...]  # the updates that count, by client
    # The totals of these updates:
    records: int
    trained: int
    rejected: int
    # `losses`, `readings` and the sums of `served` have six digits: they are for people, and decide nothing.
    losses: Mapping[str, float]  # by slot, the mean score of the live models before training
    serves: str  # the slot of the model that served this round
    readings: Mapping[str, Reading]  # by detector, its statistic and threshold
    served: Served  # how right the predictions were that clients served
    model: str  # the SHA-256 of the model that serves next
    registry: int  # the version of the registry under which the round was learnt
    promotions: int = 0  # how often so far a live model has become the incumbent
    refused: int = 0  # the messages that were refused for this entry, or came too late
    late: int = 0  # those of them that came too late; 9 bytes of an entry
    unlearnt: int = 0  # the records that an external model could not learn

    def accepted_of(self, client: str) -> Accepted | None:
        """Return what was accepted from a client."""
        return self._by_client.get(client)

    @cached_property
    def _by_client(self) -> Mapping[str, Accepted]:
        """Return what was accepted by client, the first if there are several; cached for all clients of a process."""
        return {accepted.client: accepted for accepted in reversed(self.accepted)}


@dataclass(frozen=True, kw_only=True)
class Ended(Message):
    """Coordinator: all clients have left or were evicted, and it ends.

    The last message of a coordinator that runs until the end (`--until-end`). A log keeps it for hosts that begin
    later, until a coordinator opens a round again. A client that still takes part asks with `Join`: only a
    coordinator that has not ended answers, so a forged end is found out.
    """

    entry: int  # the entry that stays open
