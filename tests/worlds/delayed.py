"""What must have become of each record whose label comes apart, by what the log holds and the ledger says alone."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from streamfl.errors import BrokenInvariantError
from streamfl.machines.client.intake.waiting import NEAR, SLACK
from streamfl.machines.client.ledger.known_ledger import LedgerPlace
from streamfl.protocol.messages import Accepted, Watermark
from streamfl.run.dealing.delayed import HalvesSource
from streamfl.testing.violation import expect


@dataclass(frozen=True)
class Halves:
    """All halves of one client, as its log holds them."""

    # The keys of the good ones, by position. No two records have the same key.
    features: Mapping[int, str]
    labels: Mapping[int, str]
    length: int  # how many labels there are, good and bad
    # The positions of bad records whose keys are known, by key.
    rejected: Mapping[str, int] = field(default_factory=dict)
    # When features and labels were written, in milliseconds, by position, as far as the log says.
    asked: Mapping[int, int] = field(default_factory=dict)
    told: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, source: HalvesSource) -> "Halves":
        """Return all halves of a source that nobody else reads."""
        keys: dict[str, dict[int, str]] = {"features": {}, "labels": {}}
        times: dict[str, dict[int, int]] = {"features": {}, "labels": {}}
        rejected: dict[str, int] = {}
        ends = {"features": 0, "labels": 0}
        while halves := source.poll(1000):
            for batch in (half.sound() for half in halves):
                if batch.half is None:
                    raise BrokenInvariantError("a source of halves has returned whole records")
                named = zip(batch.positions.tolist(), batch.half.keys.tolist(), strict=True)
                keys[batch.half.kind].update(named)
                ends[batch.half.kind] = batch.span.end
                if batch.half.written is not None:
                    written = zip(batch.positions.tolist(), batch.half.written.tolist(), strict=True)
                    times[batch.half.kind].update(written)
                if batch.half.kind == "features":
                    rejected |= {bad.key: bad.position for bad in batch.rejected if bad.key}
        return cls(keys["features"], keys["labels"], ends["labels"], rejected, times["features"], times["labels"])

    def passes(self, label: int, positions: range) -> bool:
        """Tell whether any record at some positions was written so late that a label waits for none after it."""
        if label not in self.told:
            return False
        latest = self.told[label] + SLACK
        return any(self.asked.get(at, latest) > latest for at in positions)

    def is_doubted(self, label: int, before: range) -> bool:
        """Tell whether a label is older than the last good record at some positions."""
        latest = self.told[label] + SLACK
        return next((self.asked[at] > latest for at in reversed(before) if at in self.asked), False)


@dataclass(frozen=True)
class Account:
    """What the ledger says of a client whose labels come later.

    Examples
    --------
    The window of two positions begins at 1. Of k to o, k is learnt, l is before the window, and n has been named by a
    label that was rejected; m and o wait.

    >>> halves = Halves(dict(enumerate("klmno")), dict(enumerate("kn")), 2)
    >>> account = Account(2, 1, 1, Watermark("f", 4, 0, 2), {0: 0})
    >>> sorted(account.waiting(halves, 2)), account.written_off(halves, 2)
    ([2, 4], 2)
    """

    passed: int = 0  # its position among the labels
    # Labels.
    accepted: int = 0
    rejected: int = 0
    watermark: Watermark | None = None  # the last one, with all that was written off; None before the first
    # The positions of the labels and of the features that were learnt.
    learnt: Mapping[int, int] = field(default_factory=dict)

    def after(self, entered: Accepted, learnt: Mapping[int, int]) -> "Account":
        """Return the account after an entry, by which some records were learnt."""
        watermark = None if entered.watermark is None else entered.watermark.after(self.watermark)
        return Account(
            max([self.passed, *(span.end for span in entered.spans)]),
            self.accepted + entered.records,
            self.rejected + entered.rejected,
            watermark or self.watermark,
            {**self.learnt, **learnt},
        )

    def is_known_as(self, client: str, place: LedgerPlace) -> bool:
        """Tell whether this is what a client knows of its place."""
        known = (place.positions.get(client, 0), place.read - place.rejected, place.rejected, place.watermark)
        return known == (self.passed, self.accepted, self.rejected, self.watermark)

    def waiting(self, halves: Halves, window: int) -> Collection[int]:
        """Return the records that wait: those in the window, but for those that are learnt or written off.

        A record before the watermark is written off if a label with its key was passed, and it was not learnt.
        """
        done = set(self.learnt.values())
        if self.watermark is None:
            return halves.features.keys() - done
        watermark = self.watermark.features
        passed = range(self.watermark.labels, self.passed)
        named = {halves.labels[position] for position in passed if position in halves.labels}
        before = {
            at for at, key in halves.features.items() if at < watermark and (at < watermark - window or key in named)
        }
        return halves.features.keys() - done - before

    def written_off(self, halves: Halves, window: int) -> int:
        """Count the records that neither were learnt nor wait."""
        return len(halves.features) - len(self.learnt) - len(self.waiting(halves, window))

    def outcomes(self, halves: Halves, window: int, labels: Iterable[int]) -> Mapping[int, int | str]:
        """Return what becomes of the next labels, by position: a record's position, or why it finds none.

        A label that cannot be read is not named, nor one that waits until the watermark moves, and those after it.
        """
        watermark = front = 0 if self.watermark is None else self.watermark.features
        begin = watermark - window
        there = {key: at for at, key in halves.features.items() if begin <= at}
        bad = {key: at for key, at in halves.rejected.items() if begin <= at}
        waits = {halves.features[at] for at in self.waiting(halves, window)}
        found: dict[int, int | str] = {}
        for label in labels:
            key = halves.labels.get(label)
            if key is None:
                continue
            end = min(front, watermark + window) + window
            at = there.get(key, bad.get(key, end))
            near = front + math.ceil(window / NEAR)
            if halves.passes(label, range(near, min(at, end))):
                found[label], front = "unmatched", near if halves.is_doubted(label, range(begin, front)) else front
            elif at >= end and front > watermark + window:
                break
            elif at >= end:
                found[label] = "unmatched"
            elif key in bad:
                found[label], front = "unusable", max(front, at + 1)
            elif key not in waits:
                found[label] = "repeated"
            else:
                waits.remove(key)
                found[label], front = at, max(front, at + 1)
        return found


@dataclass
class Accounts:
    """What the ledger has said of one client, entry by entry, next to what its log holds."""

    name: str  # the client
    halves: Halves  # what its log holds
    window: int  # see `streamfl.machines.client.intake.waiting`
    may_lack_names: bool = False  # whether the registry may be full, so that a label is rejected for its name
    _known: list[tuple[int, Account]] = field(default_factory=lambda: [(0, Account())])
    _off: dict[int, int] = field(default_factory=dict)  # by entry, what is written off

    def enter(self, entry: int, entered: Accepted, learnt: Mapping[int, int]) -> None:
        """Take what an entry accepts, and check what becomes of each label that it passes, and what it writes off."""
        before, account = self.last, self.last.after(entered, learnt)
        self._known.append((entry, account))
        outcomes = before.outcomes(self.halves, self.window, range(before.passed, account.passed))
        self._check_labels(outcomes, range(before.passed, account.passed), learnt)
        expect(
            account.accepted == len(account.learnt),
            f"{account.accepted} records of {self.name} are accepted, but {len(account.learnt)} were learnt",
        )
        expect(
            account.accepted + account.rejected == account.passed,
            f"{account.passed} labels of {self.name} are passed, but {account.accepted} accepted "
            f"+ {account.rejected} rejected",
        )
        off, told = (
            account.written_off(self.halves, self.window),
            account.watermark.expired if account.watermark else 0,
        )
        self._off[entry] = off
        self._check_rejected(before, account, outcomes)
        expect(off == told, f"{off} records of {self.name} are written off, but the ledger says {told}")

    def _check_labels(self, outcomes: Mapping[int, int | str], passed: range, learnt: Mapping[int, int]) -> None:
        """Check that of the labels that an entry passes those are learnt that find a record that waits, each once."""
        expect(all(label in passed for label in learnt), f"{self.name} learns {sorted(learnt)}, not of {passed}")
        for label in passed:
            key, at = self.halves.labels.get(label), outcomes.get(label)
            at = at if isinstance(at, int) else None
            lacks_name = self.may_lack_names and label not in learnt
            expect(
                learnt.get(label) == at or lacks_name,
                f"{self.name} has for the label of {key} at {label} the record at {learnt.get(label)}, not at {at}",
            )

    def _check_rejected(self, before: Account, account: Account, outcomes: Mapping[int, int | str]) -> None:
        """Check how many of the labels that an entry passes have no record, a labelled one, and a rejected one."""
        if account.watermark is None or self.may_lack_names:
            return
        known = (0, 0, 0) if before.watermark is None else before.watermark.released
        told = tuple(all_ - earlier for all_, earlier in zip(account.watermark.released, known, strict=True))
        why = Counter(outcomes.values())
        counts = (why["unmatched"], why["repeated"], why["unusable"])
        expect(
            counts == told,
            f"{counts} labels of {self.name} are unmatched, repeated and unusable, but the ledger says {told}",
        )

    @property
    def last(self) -> Account:
        """Return the account after the newest entry."""
        return self._known[-1][1]

    def at(self, entry: int) -> tuple[Account, int]:
        """Return the account after an entry, and how many records were written off by then."""
        found, account = self._known[bisect_right(self._known, entry, key=itemgetter(0)) - 1]
        return account, self._off.get(found, 0)

    def check_end(self, answered: Collection[int], min_records: int) -> None:
        """Check that once all is read each record was answered, and each label passed, but for a rest.

        Parameters
        ----------
        answered
            The positions of the features that were answered.
        min_records
            With fewer labels than this that find a record none of them is sent.

        Raises
        ------
        Violation
            Records or labels are missing; the message says which.
        """
        halves, last = self.halves, self.last
        missing = halves.features.keys() ^ set(answered)
        expect(not missing, f"{self.name} has not answered what its log holds: {sorted(missing)}")
        rest = range(last.passed, halves.length)
        good = sum(isinstance(one, int) for one in last.outcomes(halves, self.window, rest).values())
        expect(
            not rest or 0 < good < min_records,
            f"{self.name} has {halves.length} labels, but the ledger has {last.passed} of them; "
            f"{good} of the others have records that wait",
        )
