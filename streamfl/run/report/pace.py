"""How many records of a client are learnt a second, by the times at which the log took entries."""

import msgspec

# A client's newest rounds with records of which its pace is told: this many at least, and twice as many at most.
HALF = 10


class Pace(msgspec.Struct, array_like=True):
    """The records of a client's newest rounds, and since when they were learnt; times are milliseconds since 1970.

    Counting begins after the first entry, whose records were learnt in a time that nobody knows.

    Examples
    --------
    >>> pace = Pace()
    >>> for minute in range(3):
    ...     pace.take(30, 1_700_000_000_000 + 60_000 * minute)
    >>> pace.a_second(1_700_000_120_000), pace.a_second(1_700_000_240_000), Pace().a_second(1_700_000_000_000)
    (0.5, 0.25, None)
    """

    began: int = 0  # since when, and how many records of earlier rounds: `HALF` of them
    before: int = 0
    since: int = 0  # since when, and how many records of the newest rounds: at most `HALF`
    records: int = 0
    rounds: int = 0
    last: int = 0  # when the last of them was learnt

    def take(self, records: int, time: int) -> None:
        """Take an entry with records of the client into account, which the log took at a time; 0: unknown."""
        if not time:
            return
        if not self.last:
            self.began = self.since = self.last = time
            return
        if self.rounds == HALF:
            self.began, self.before, self.since = self.since, self.records, self.last
            self.records = self.rounds = 0
        self.records, self.rounds, self.last = self.records + records, self.rounds + 1, max(time, self.last)

    def a_second(self, now: int) -> float | None:
        """Return how many records were learnt a second until now; None if that is not known yet."""
        learnt = self.before + self.records
        return 1000.0 * learnt / (now - self.began) if learnt and now > self.began else None
