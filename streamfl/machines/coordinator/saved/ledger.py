"""The ledger: which records of which client have been accepted. It is the truth about what was trained on."""

from bisect import bisect_left
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from operator import attrgetter

from streamfl.machines.coordinator.saved.places import Places
from streamfl.protocol.messages import Accepted, Disclosed, HeldRecord, SampledRound, Update, Watermark

ORDINAL = attrgetter("ordinal")

# After this many totals in a row that failed because of it a member is left out; and of 2^LONGEST_REST entries at
# most.
MOST_SILENT, LONGEST_REST = 3, 10


@dataclass
class Member:
    """One client's account.

    Examples
    --------
    >>> member = Member(1, "7f", positions={"p": 12}, accepted=11, rejected=1)
    >>> member.read, member.held_by("7f").incarnation, member.held_by("a0").incarnation
    (12, 1, 2)
    """

    incarnation: int = 0  # the number of the start that joined last; 0 before any has
    nonce: str = ""  # the nonce of that start, which holds the incarnation; empty if it is not known
    left: bool = False  # whether it has left; it may come back

    # Whether rounds wait for it: it was there when the federation began, or has sent an update since it joined. A
    # name that only joins holds nothing up. With a deadline, rounds wait at once for one that comes back.
    awaited: bool = True
    positions: dict[str, int] = field(default_factory=dict)  # the next position of each of its partitions
    # Records accepted, and bad records passed.
    accepted: int = 0
    rejected: int = 0
    missed: int = 0  # rounds closed without it since its last update
    sample: tuple[SampledRound, ...] = ()  # the places of its history sample, to be read again after a kill
    held: tuple[HeldRecord, ...] = ()  # the places of its held-out records, by increasing ordinal

    # Entries in a row that closed without it because its messages for them were refused. An accepted update ends the
    # row, also one of a client that lies now and then: eviction is for one whose records would pend for ever. No
    # round waits for a client after a refusal, and the bounds on influence limit what is accepted.
    refused: int = 0
    evicted: bool = False  # whether it has left because of that; only a new incarnation may come back
    places: Places = field(default_factory=Places)  # where and when its last rounds began
    watermark: Watermark | None = None  # how far it has come in the features, if its labels come later
    key: str = ""  # the public key for masks of the start that joined last, if it has one
    spent: int = 0  # what the names have cost that it has brought alone: see `streamfl.machines.coordinator.names`
    disclosed: Disclosed | None = None  # the pending records over which a total of masked sums was asked for
    silent: int = 0  # totals in a row that failed because it told no seeds of its masks
    rests: int = 0  # the entry from which on it masks sums again; it is left out before that

    @property
    def read(self) -> int:
        """Return how many records are accounted for."""
        return self.accepted + self.rejected

    @property
    def counts(self) -> tuple[int, ...]:
        """Return all counts: none is ever below 0."""
        watermarks = () if self.watermark is None else self.watermark.counts
        records = (*self.positions.values(), self.accepted, self.rejected)
        return (
            *records,
            self.incarnation,
            self.missed,
            self.refused,
            self.spent,
            self.silent,
            self.rests,
            *watermarks,
        )

    def fences(self, nonce: str, after: int) -> bool:
        """Tell whether a start may not speak for the client: another one holds the incarnation, and not `after`."""
        return nonce != self.nonce and after != self.incarnation

    def held_by(self, nonce: str) -> "Member":
        """Return the account with a start's incarnation: the present one, or the next if another start has that."""
        return replace(self.copy(), incarnation=self.incarnation + (nonce != self.nonce), nonce=nonce)

    def after_join(self, nonce: str, key: str = "", *, is_waited_for: bool) -> "Member":
        """Return the account after a Join: the client is a member, again if it had left; `key` is for its masks.

        Anybody may have sent the Join of one that had left. So no round waits for it before it sends an update, but
        where rounds have a deadline it `is_waited_for`: after a stop all clients come back at once, and the first
        update would close the round.
        """
        awaited = self.awaited and (not self.left or (is_waited_for and not self.evicted))
        member = replace(self.held_by(nonce), left=False, missed=0, awaited=awaited, key=key)
        return replace(member, refused=0, evicted=False) if self.evicted else member

    def after_leave(self, nonce: str) -> "Member":
        """Return the account after a Leave."""
        return replace(self.held_by(nonce), left=True)

    def copy(self) -> "Member":
        """Return an independent copy."""
        same = copy(self)  # `replace` takes several times as long
        same.positions = dict(self.positions)
        return same

    def accept(self, update: Update, share: float) -> Accepted:
        """Enter an update; `share` is its share of the round's records."""
        self.places = self.places.after(update)
        for span in update.spans:
            self.positions[span.partition] = span.end
        if self.disclosed is not None and not self.disclosed.are_pending(self.positions):
            self.disclosed = None
        if update.watermark is not None:
            self.watermark = update.watermark.after(self.watermark)
        self.missed, self.refused, self.awaited = 0, 0, True
        self.silent = 0 if update.records else self.silent
        self.accepted += update.records
        self.rejected += update.rejected
        if update.kept.sample is not None:
            kept = update.kept.sample
            self.sample = (*self.sample, replace(kept, share=share))
        if update.kept.let_go:
            self.held = _without(self.held, update.kept.let_go)
        self.held += update.kept.held
        return Accepted(
            client=update.client,
            attempt=update.attempt,
            spans=update.spans,
            records=update.records,
            rejected=update.rejected,
            watermark=update.watermark,
            measured=update.numbers.served.beside_no_change,
        )

    def count_silence(self, entry: int) -> bool:
        """Count an entry without a total because of it; return whether it is left out of the next ones.

        It is left out for twice as many entries each time, so that one that never tells its seeds costs ever less.
        """
        self.silent += 1
        if self.silent < MOST_SILENT:
            return False
        self.rests = entry + 1 + 2 ** min(self.silent, LONGEST_REST)
        return True

    def retain(self, rounds: Iterable[int], *, held_since: int | None) -> None:
        """Forget the places of rounds no longer in the sample, and of records held out before a round."""
        kept = set(rounds)
        self.sample = tuple(s for s in self.sample if s.round in kept)
        if held_since is None:
            self.held = ()
        elif self.held and self.held[0].round < held_since:  # they are sorted
            self.held = tuple(record for record in self.held if record.round >= held_since)


def _without(held: tuple[HeldRecord, ...], ordinals: Iterable[int]) -> tuple[HeldRecord, ...]:
    """Return the records without some ordinals. Only a few of hundreds go, so most are copied without a look.

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
