"""The ledger: which records of which client have been accepted; the truth about what was trained on."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter

from streamfl.core.protocol.messages import Accepted, HeldRecord, SampledRound, Update

ORDINAL = attrgetter("ordinal")


@dataclass
class Member:
    """One client's account.

    Parameters
    ----------
    incarnation
        The start of the client that joined last.
    left
        Whether it has left; it may come back.
    positions
        Where each of its partitions goes on.
    accepted, rejected
        Records accepted, and bad records passed.
    missed
        Rounds closed without it since it was last heard of in one.
    sample
        Where the records of its history sample are, to be read again after a kill.
    held
        Where those are that it holds back from training, by increasing ordinal.
    refused
        Entries in a row that closed without it because its messages for them were refused.
    evicted
        Whether it has left because of that; only a new incarnation may come back.

    Examples
    --------
    >>> member = Member("1", positions={"p": 12}, accepted=11, rejected=1)
    >>> member.read
    12
    """

    incarnation: str
    left: bool = False
    positions: dict[str, int] = field(default_factory=dict)
    accepted: int = 0
    rejected: int = 0
    missed: int = 0
    sample: tuple[SampledRound, ...] = ()
    held: tuple[HeldRecord, ...] = ()
    refused: int = 0
    evicted: bool = False

    @property
    def read(self) -> int:
        """Return how many records are accounted for."""
        return self.accepted + self.rejected

    @property
    def counts(self) -> tuple[int, ...]:
        """Return all that is counted: none of it is ever below 0."""
        return (*self.positions.values(), self.accepted, self.rejected, self.missed, self.refused)

    def heard(self, incarnation: str) -> "Member":
        """Return the account of a client that has asked with Join: a member, again if it had left."""
        member = replace(self.copied(), incarnation=incarnation, left=False, missed=0)
        return replace(member, refused=0, evicted=False) if self.evicted else member

    def gone(self, incarnation: str) -> "Member":
        """Return the account of a client that has left."""
        return replace(self.copied(), incarnation=incarnation, left=True)

    def copied(self) -> "Member":
        """Return an account that changes by itself."""
        return replace(self, positions=dict(self.positions))

    def accept(self, update: Update, share: float) -> Accepted:
        """Enter an update; `share` is its part of the round's records."""
        for span in update.spans:
            self.positions[span.partition] = span.end
        self.missed = self.refused = 0
        self.accepted += update.records
        self.rejected += update.rejected
        if update.sample is not None:
            kept = update.sample
            sampled = SampledRound(round=kept.round, share=share, positions=kept.positions, ordinals=kept.ordinals)
            self.sample = (*self.sample, sampled)
        if update.let_go:
            self.held = _without(self.held, update.let_go)
        self.held += update.held
        return Accepted(
            client=update.client,
            attempt=update.attempt,
            spans=update.spans,
            records=update.records,
            rejected=update.rejected,
        )

    def retain(self, rounds: Iterable[int], *, held_since: int | None) -> None:
        """Forget the places of rounds no longer in the sample, and of records held back before a round."""
        kept = set(rounds)
        self.sample = tuple(s for s in self.sample if s.round in kept)
        if held_since is None:
            self.held = ()
        elif self.held and self.held[0].round < held_since:  # they are in order
            self.held = tuple(record for record in self.held if record.round >= held_since)


def _without(held: tuple[HeldRecord, ...], ordinals: Iterable[int]) -> tuple[HeldRecord, ...]:
    """Return the records of other ordinals than these; a few of hundreds go, so that most are not looked at.

    >>> held = tuple(HeldRecord(round=1, ordinal=o, partition="p", position=o) for o in (2, 3, 5, 7))
    >>> [record.ordinal for record in _without(held, (7, 3, 4, 3))]
    [2, 5]
    """
    kept: list[HeldRecord] = []
    first = 0
    for ordinal in sorted(set(ordinals)):
        at = bisect_left(held, ordinal, lo=first, key=ORDINAL)
        if at < len(held) and held[at].ordinal == ordinal:
            kept += held[first:at]
            first = at + 1
    return (*kept, *held[first:])
