"""What a client knows of the ledger: the last entry, its own place, and the open round."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streamfl.protocol.messages import Accepted, Joined, RoundClosed, RoundOpened, Watermark


@dataclass
class LedgerPlace:
    """A client's place in the ledger: its next position by partition, its accounted records, and its watermark."""

    positions: dict[str, int]
    read: int
    rejected: int
    watermark: Watermark | None = None

    def move(self, accepted: Accepted) -> None:
        """Move past the records that an entry accepts."""
        self.positions.update({span.partition: span.end for span in accepted.spans})
        self.read += accepted.records + accepted.rejected
        self.rejected += accepted.rejected
        if accepted.watermark is not None:
            self.watermark = accepted.watermark.after(self.watermark)


@dataclass
class KnownLedger:
    """What a client knows of the ledger. It may be wrong: anyone who can write to the coordinator's topics can forge.

    The answer to the newest question is the truth, even if it takes the client back.

    Examples
    --------
    >>> ledger = KnownLedger()
    >>> start = {"client": "c0", "nonce": "7f", "incarnation": 1}
    >>> joined = Joined(**start, entry=4, positions={"p": 12}, read=12, question=ledger.ask())
    >>> ledger.is_answer(joined), ledger.differs(joined), ledger.take(joined), ledger.is_answer(joined)
    (True, True, False, False)
    >>> ledger.entry, ledger.place
    (3, LedgerPlace(positions={'p': 12}, read=12, rejected=0, watermark=None))
    """

    entry: int = 0  # the last entry the client has seen
    place: LedgerPlace | None = None  # the client's place after it; None while unknown

    # The opening of the round after it, or a candidate for it: see `open_round`. Its `closes` is a time on the
    # client's clock.
    opened: RoundOpened | None = None
    # The number of the newest question, and of the last one that was answered.
    question: int = 0
    last_answered: int = 0
    _ahead: RoundOpened | None = None
    _closed: RoundClosed | None = None
    _believed: Mapping[str, int] = field(default_factory=dict)
    _believed_watermark: Watermark | None = None

    @property
    def open_round(self) -> RoundOpened | None:
        """Return the opening of the next entry, if it has arrived and the client knows its place."""
        opened = self.opened
        is_next = self.place is not None and opened is not None and opened.entry == self.entry + 1
        return opened if is_next else None

    # --- the place ---------------------------------------------------------------------------------------------

    def ask(self) -> int:
        """Return the number of a new question."""
        self.question += 1
        return self.question

    def is_answer(self, joined: Joined) -> bool:
        """Tell whether a Joined is the first answer to the newest question; a later copy is out of date."""
        return joined.question == self.question > self.last_answered

    def lose(self) -> None:
        """Make the place unknown; keep its positions, to see later whether the answer differs."""
        if self.place is not None:
            self._believed, self._believed_watermark, self.place = self.place.positions, self.place.watermark, None

    def forget(self) -> None:
        """Forget the place and the openings."""
        self.lose()
        self.opened = self._ahead = None

    def differs(self, joined: Joined) -> bool:
        """Tell whether an answer has other positions than the client last believed."""
        place = self.place
        believed = (self._believed, self._believed_watermark) if place is None else (place.positions, place.watermark)
        return (joined.positions, joined.watermark) != believed

    def take(self, joined: Joined) -> bool:
        """Take the place from Joined; return whether the open round is another one."""
        self.last_answered = joined.question
        self.entry, self._closed = joined.entry - 1, None
        self.place = LedgerPlace(dict(joined.positions), joined.read, joined.rejected, joined.watermark)
        return self._turn_to(self._ahead, self.opened)

    # --- openings and entries ----------------------------------------------------------------------------------

    def misses(self, opened: RoundOpened) -> bool:
        """Tell whether an opening is so far ahead that entries were missed; one entry may still be on its way."""
        return self.place is not None and opened.entry > self.entry + 2

    def open(self, opened: RoundOpened) -> bool:
        """Take an opening; return whether the open round is another one.

        While the place is unknown, the opening furthest ahead and the last one are kept.
        """
        if self.place is None:
            farthest = self.opened is None or opened.entry > self.opened.entry
            self.opened, self._ahead = (opened, self.opened) if farthest else (self.opened, opened)
            return False
        if opened.entry == self.entry + 2:
            self._ahead = opened
            return False
        return self._turn_to(opened)

    def contradicts(self, closed: RoundClosed) -> bool:
        """Tell whether an entry shows that one was missed or that the last one was forged."""
        last = self._closed
        differs = last is not None and closed.entry == last.entry and closed.accepted != last.accepted
        return differs or closed.entry > self.entry + 1

    def close(self, closed: RoundClosed) -> bool:
        """Move to the next entry; return whether the round after it is open already."""
        self.entry, self._closed = closed.entry, closed
        return self._turn_to(self._ahead)

    def _turn_to(self, *openings: RoundOpened | None) -> bool:
        """Take the first opening for the next entry; return whether it differs from the current one."""
        opened = next((o for o in openings if o is not None and o.entry == self.entry + 1), None)
        if opened is None:
            return False
        known, self.opened = self.opened, opened
        is_other = (
            known is None
            or known.entry != opened.entry
            # heard again, it closes as told last, and may be of another start of the coordinator
            or replace(opened, closes=known.closes, resumed=known.resumed) != known
        )
        if self._ahead is not None and self._ahead.entry == opened.entry:
            self._ahead = None
        return is_other
