"""Records that wait for their labels, which come later and under a key.

Theory of operation. A client reads two partitions: one holds features, each message under a key, the other labels
under the same keys. The labels are the client's records in the sense of the ledger: their order is the order of
learning, and their positions are what updates and entries name. The record of a label is found by its key.

Which label finds which record must not depend on how far either partition happened to be read, or a client that is
killed and reads again would learn something else. So every entry names a *watermark* m, a position among the
features. The *front* is the watermark, or lies behind the newest record that a label of the round after it has found.
A label finds only records in the *window*, from m - w to the front + w. What lies before is written off. After the
round the watermark is the front. If no label comes before features beyond the window do, an entry that passes no
label moves the watermark by w.

So a round may be longer than w: the window follows the front, until this lies w beyond the watermark. There the
window's end stays, which bounds what is kept. A label that finds nothing up to there waits for the entry that moves
the watermark, and the round has to close with the labels before it.

A label whose key is not there yet blocks those after it. It is *released*, which means rejected, as soon as it is
certain that it finds no record:

- A label finds the first record with its key. If that was rejected, so is the label, at once.
- The features have *passed* the label: the log says that a record was written more than `SLACK` after it, and that
  record lies w / 100 positions or more beyond the front. Such a record bounds what the label can find: those after
  it do not count, even if they have been read. So what becomes of the label follows from positions and times in the
  log alone.
- All has been read up to the front + w.

Whoever writes records or labels may lie about times, or have a wrong clock. Up to w / 100 positions beyond the front
no time counts, so labels in the order of their records find these. Otherwise a label that is dated back, or a record
that is dated ahead, costs labels their records; and a label that is dated ahead waits as long as the window takes, if
its record does not come. All of them are this client's. A label that was passed, and is older than the record at the
front, which an earlier label has found, shows that its clock is wrong: it moves the front by w / 100 positions, so
that after a gap labels soon find their records again.

A record before the watermark is *settled*, and waits no more, once the ledger has passed any label with its key:
mostly the one it was learnt with. A label that was released settles it as well: one that came long before its record,
or whose name the registry cannot take. Such a record counts as written off. A label that cannot be read settles
nothing: its record waits for another one. So what waits follows from the watermark and the two partitions alone. A
restarted client reads the features again from m - w, and the labels from `labels` of the watermark, behind which lies
the last label of every settled record in the window.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, takewhile
from typing import NamedTuple

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.bounds import bounded
from streamfl.machines.client.intake.no_change import NoChange
from streamfl.protocol.batch_queue import BatchQueue
from streamfl.protocol.delayed import answers_together
from streamfl.protocol.messages import Watermark
from streamfl.protocol.records import Batch, Rejection, aligned, union

NO_RECORD = "a label without a record: none within the window has its key"
PASSED = "a label without a record: later ones have come, and none before them has its key"
REJECTED = "the label of a record that was rejected"
LABELLED = "a second label for a record"

# By how many milliseconds a label may have been written before its record, or clocks may differ; and the window over
# the positions beyond the front in which no time counts: docs/choices.md, "Labels whose record does not come".
SLACK, NEAR = 60_000, 100

# How many windows of keys the ledger's labels may name before the watermark moves, so that those before are
# forgotten.
MOST_NAMED = 4


class Place(NamedTuple):
    """Where a record is: its position, and its batch and row."""

    position: int
    batch: Batch
    row: int


class Awaited(NamedTuple):
    """What a label waits for that blocks those after it."""

    # Its position, and its key.
    label: int
    key: str
    read: int  # the position up to which there is no record with that key
    end: int  # the position at which it is released, or waits for an entry

    # It is released before that by a record from `near` on that was written more than `SLACK` after `written`; None
    # if the log does not say.
    near: int
    written: int | None


class Released(NamedTuple):
    """A label that finds no record: its position, why, and to where it moves the front, if it does."""

    position: int
    why: str
    front: int = 0


@dataclass
class Waiting:
    """The records of one client that wait for their labels, and the labels that the ledger has not passed.

    Examples
    --------
    >>> from streamfl.protocol.delayed import Answers, Half
    >>> from streamfl.protocol.records import Span
    >>> keys = np.array(["k", "l"], dtype=object)
    >>> asked = Batch(Span("f", 0, 2), np.arange(2), ("x",), np.array([[1.0], [2.0]]), np.zeros(2),
    ...               half=Half("features", keys), answers=Answers(np.array([0.0, 0.0]), np.zeros(2), ("a",)))
    >>> told = Batch(Span("l", 0, 1), np.arange(1), (), np.ones((1, 0)), np.zeros(1), ("b",),
    ...              half=Half("labels", keys[1:]))
    >>> waiting = Waiting(window=10)
    >>> waiting.take_features(asked)
    >>> waiting.take_labels(told)
    >>> (joined,) = waiting.joined()
    >>> joined.X, joined.labels, joined.beside, joined.answers.labels, waiting.records
    (array([[2.]]), ('b',), array([1]), ('a',), 2)
    """

    # How many positions of features before the watermark and after the front a label may find its record in.
    window: int
    watermark: Watermark | None = None  # the last entry's watermark; None before the first features
    read: int = 0  # the next position of features
    ended: bool = False  # whether no features can follow
    is_stuck: bool = False  # whether features beyond the window are the next to be read
    known: NoChange = field(default_factory=NoChange)  # the last label that has come, which NoChange repeats
    complaint: str = ""  # why the last rejected label was rejected; "" while none was
    _front: int = 0  # behind the newest record that a label of the round has found
    _written: list[tuple[int, int]] = field(default_factory=list)  # positions and times of the records in the window
    _seen: tuple[int, int, int] = (-1, 0, 0)  # a label and two positions: no record between them has passed it
    _rejected: dict[str, deque[tuple[int, str]]] = field(default_factory=dict)  # positions and reasons, by key
    # Positions and keys of records before the watermark
    _behind: deque[tuple[int, str]] = field(default_factory=deque)
    _ahead: deque[tuple[int, str]] = field(default_factory=deque)  # those from the watermark on
    _places: dict[str, deque[Place]] = field(default_factory=dict)  # of both, by key; a label finds the first one
    _settled: set[str] = field(default_factory=set)  # keys of records before the watermark that wait no more
    _passed: int | None = None  # the ledger's position
    _told: int = 0  # the next label
    # Positions and keys, from the watermark's on
    _passed_labels: deque[tuple[int, str]] = field(default_factory=deque)
    _named: dict[str, int] = field(default_factory=dict)  # by key, the last one of them
    _taken: set[str] = field(default_factory=set)  # keys of the labels after them that have been joined
    _found: list[Batch] = field(default_factory=list)  # labels after the ledger's position that are done with
    _released: list[Released] = field(default_factory=list)  # those of them that were released
    _labels: BatchQueue = field(default_factory=BatchQueue)  # those after them
    _restores: bool = False  # what was read before a restart is not settled yet

    # --- what comes ----------------------------------------------------------------------------------------------

    def take_features(self, batch: Batch) -> None:
        """Let records wait, whose answers are known; some of them may have been labelled before a restart."""
        self.read = batch.span.end
        if self.watermark is None:
            self.watermark = Watermark(batch.span.partition, batch.span.start)
            self._front = batch.span.start
        if batch.half is None:
            return
        for row, (position, key) in enumerate(zip(batch.positions.tolist(), batch.half.keys.tolist(), strict=True)):
            if position >= self._begin:
                (self._behind if position < self.watermark.features else self._ahead).append((position, key))
                self._places.setdefault(key, deque()).append(Place(position, batch, row))
        for bad in batch.rejected:
            if bad.key and bad.position >= self._begin:
                self._rejected.setdefault(bad.key, deque()).append((bad.position, bad.reason))
        if batch.half.written is not None:
            written = zip(batch.positions.tolist(), batch.half.written.tolist(), strict=True)
            self._written += [one for one in written if one[0] >= self._begin]

    def take_labels(self, batch: Batch) -> None:
        """Take labels; those before the ledger's position tell which records wait no more."""
        self._told = batch.span.end
        if self._passed is not None and batch.span.start < self._passed:
            before = batch.before(self._passed)
            self.known.learn(before.y, before.labels)
            self._pass(_keys_of(before))
            batch = batch.after(self._passed)
        if batch.span.end > batch.span.start:
            self._labels.add(batch)

    # --- joining ---------------------------------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        """Count the labels that have not found their records yet."""
        return self._labels.read

    @property
    def awaited(self) -> Awaited | None:
        """Return the label whose record has not come, which blocks those after it; None if none does."""
        first = self._labels.first if self._labels and self.is_restored else None
        if first is None or first.half is None or not len(first):
            return None
        return Awaited(first.span.start, first.half.keys[0], self.read, self._end, self._near, first.half.time(0))

    @property
    def records(self) -> int:
        """Count the records that wait: they have no label, or one that the ledger has not passed."""
        return len(self._behind) + len(self._ahead) - len(self._settled)

    @property
    def room(self) -> int:
        """Return how many more positions of features may be read: at most three windows are kept."""
        return self.window if self.watermark is None else max(0, self._end - self.read)

    @property
    def _begin(self) -> int:
        return 0 if self.watermark is None else self.watermark.features - self.window

    @property
    def _end(self) -> int:
        return 0 if self.watermark is None else min(self._front, self.watermark.features + self.window) + self.window

    @property
    def _is_ahead(self) -> bool:
        """Tell whether the window cannot follow the front before an entry moves the watermark."""
        return self.watermark is not None and self._front > self.watermark.features + self.window

    @property
    def _near(self) -> int:
        """Return the first position at which times count."""
        return self._front + -(-self.window // NEAR)

    @property
    def is_read(self) -> bool:
        """Tell whether the window has been read to its end."""
        return self.ended or (self.watermark is not None and self.read >= self._end)

    @property
    def must_move(self) -> bool:
        """Tell whether nothing can be joined until an entry moves the watermark; none does before all is restored."""
        return self.is_restored and self.is_read and (self.is_stuck or (self._is_ahead and self.queued > 0))

    @property
    def is_restored(self) -> bool:
        """Tell whether all that had been read before a restart has been read again."""
        features = self.watermark is None or self.read >= self.watermark.features
        return features and (self._passed is None or self._told >= self._passed)

    def joined(self) -> list[Batch]:
        """Return the labels that have found their records since the last call, as whole records."""
        joined: list[Batch] = []
        if not self.is_restored:
            return joined
        if self._restores:
            self._settle(self._named)
            self._restores = False
        while self._labels:
            labels = self._labels.take()
            whole = self._whole(labels)
            if whole.span.end > whole.span.start:
                joined.append(whole)
                done = labels.before(whole.span.end)
                self.known.learn(done.y, done.labels)
                self._found.append(done)
            if whole.span.end < labels.span.end:
                self._labels.put_back([labels.after(whole.span.end)])
                break
        return joined

    def _whole(self, labels: Batch) -> Batch:
        """Return the first labels with their records, up to one that has to wait."""
        rows: list[int] = []
        places: list[Place] = []
        wrong: list[Rejection] = []
        end = labels.span.end
        for row, (position, key) in enumerate(_keys_of(labels)):
            found = self._found_by(position, key, None if labels.half is None else labels.half.time(row))
            if found is None:
                end = position
                break
            self._advance(found.front if isinstance(found, Released) else found.position + 1)
            if isinstance(found, Released):
                self._released.append(found)
                self.complaint = bounded(f"{found.why}: {key}")
                wrong.append(Rejection(position, self.complaint))
                continue
            self._taken.add(key)
            rows.append(row)
            places.append(found)
        return _of(labels.before(end), np.array(rows, np.int64), places, wrong)

    def _advance(self, front: int) -> None:
        """Move the front, and the window's end: what comes next beyond it is not known yet."""
        if front > self._front:
            self._front, self.is_stuck = front, False

    def _found_by(self, label: int, key: str, written: int | None) -> Place | Released | None:
        """Return the record that a label finds, or why it finds none; None if its record may still come."""
        place = next(iter(self._places.get(key, ())), None)
        bad = next(iter(self._rejected.get(key, ())), None)
        # A source may have returned records beyond the window.
        positions = [one[0] for one in (place, bad) if one is not None and one[0] < self._end]
        first = min(positions, default=min(self.read, self._end))
        if self._passes(label, written, first):
            return Released(label, PASSED, self._near if self._is_doubted(written) else 0)
        if not positions:
            return Released(label, NO_RECORD) if self.is_read and not self._is_ahead else None
        if bad is not None and first == bad[0]:
            return Released(label, f"{REJECTED} ({bad[1]})", first + 1)
        return Released(label, LABELLED) if key in self._settled or key in self._taken else place

    def _passes(self, label: int, written: int | None, before: int) -> bool:
        """Tell whether records before a position show that none comes any more for a label written at a time."""
        near = self._near
        if written is None or before <= near:
            return False
        seen = self._seen[2] if self._seen[:2] == (label, near) else near
        first, end = (bisect_left(self._written, (at,)) for at in (seen, before))
        passes = any(time > written + SLACK for _, time in self._written[first:end])
        if not passes:
            self._seen = label, near, max(seen, before)
        return passes

    def _is_doubted(self, written: int | None) -> bool:
        """Tell whether a label is older than the last record before the front: labels have come that far."""
        at = bisect_left(self._written, (self._front,))
        return written is not None and at > 0 and self._written[at - 1][1] > written + SLACK

    # --- following the ledger --------------------------------------------------------------------------------------

    def after(self, batches: Sequence[Batch]) -> Watermark | None:
        """Return the watermark after a round with some joined records; its counts are of this round."""
        if self.watermark is None or not self.is_restored:
            return (
                None
                if self.watermark is None
                else replace(self.watermark, expired=0, unmatched=0, repeated=0, unusable=0)
            )
        passed = batches[-1].span.end if batches else self._passed
        besides = [batch.beside for batch in batches if batch.beside is not None and len(batch)]
        learnt = set(np.concatenate(besides).tolist()) if besides else set()
        labels = list(self._newly(passed))
        released = [one for one in self._released if one.position < (passed or 0)]
        features = max(self.watermark.features, max(learnt, default=-1) + 1, *(one.front for one in released))
        moved = self.watermark.features + self.window
        is_long = self.read >= moved and len(self._named) + len(labels) > MOST_NAMED * self.window
        if is_long or (self.must_move and not batches):
            features = max(features, min(self.read, moved))
        last, expired = self._settling(features, labels, learnt, passed or 0)
        unusable = sum(one.why.startswith(REJECTED) for one in released)
        repeated = sum(one.why == LABELLED for one in released)
        unmatched = len(released) - unusable - repeated
        return Watermark(self.watermark.partition, features, last, expired, unmatched, repeated, unusable)

    def _settling(
        self, features: int, labels: Sequence[tuple[int, str]], learnt: Collection[int], passed: int
    ) -> tuple[int, int]:
        """Return `labels` and `expired` of the watermark at a position, after labels of some learnt records."""
        named = {key: position for position, key in labels}
        gone: dict[str, int] = {}  # how many of a key's records are written off
        settled: set[str] = set()  # again
        expired = 0
        for position, key in takewhile(lambda at: at[0] < features - self.window, chain(self._behind, self._ahead)):
            was_settled = key in self._settled and key not in gone
            expired += not was_settled and position not in learnt
            gone[key] = gone.get(key, 0) + 1
        for key in {*named, *gone, *(key for _, key in takewhile(lambda at: at[0] < features, self._ahead))}:
            places, first = self._places.get(key, ()), gone.get(key, 0)
            is_here = first < len(places) and places[first].position < features
            was_settled = key in self._settled and key not in gone
            if is_here and not was_settled and (key in named or key in self._named):
                settled.add(key)
                expired += places[first].position not in learnt
        last = next((position for position, _ in chain(reversed(labels), reversed(self._passed_labels))), passed)
        for position, key in chain(self._passed_labels, labels):
            still = key in settled or (key in self._settled and key not in gone)
            if still and position == named.get(key, self._named.get(key)):
                return position, expired
        return last, expired  # NoChange repeats the last label

    def follow(self, watermark: Watermark, passed: int | None) -> None:
        """Continue after an entry: write off what lies before the window, and let labels find their records again.

        Parameters
        ----------
        passed
            The ledger's position among the labels; None if it has passed none.
        """
        changed = self._pass(self._newly(passed))
        self.watermark, self._passed, self.is_stuck, self._front = watermark, passed, False, watermark.features
        del self._written[: bisect_left(self._written, (self._begin,))]
        self._forget_rejected()
        while self._passed_labels and self._passed_labels[0][0] < watermark.labels:
            position, key = self._passed_labels.popleft()
            if self._named[key] == position:
                del self._named[key]
        while self._ahead and self._ahead[0][0] < watermark.features:
            changed.append(self._ahead[0][1])
            self._behind.append(self._ahead.popleft())
        while self._behind and self._behind[0][0] < self._begin:
            changed.append(self._write_off(self._behind.popleft()[1]))
        self._settle(changed)
        again = (*self._found, *self._labels)
        anew = again if passed is None else [batch.after(passed) for batch in again if batch.span.end > passed]
        self._taken, self._found, self._labels = set(), [], BatchQueue(anew)
        self._released = []

    def _forget_rejected(self) -> None:
        """Forget the rejected records before the window."""
        for key in [key for key, places in self._rejected.items() if places[0][0] < self._begin]:
            self._rejected[key] = deque(one for one in self._rejected[key] if one[0] >= self._begin)
            if not self._rejected[key]:
                del self._rejected[key]

    def _newly(self, passed: int | None) -> Iterator[tuple[int, str]]:
        """Yield the labels that the ledger passes, which have been joined or rejected since its last entry."""
        for batch in self._found if passed is not None else ():
            yield from ((position, key) for position, key in _keys_of(batch) if position < (passed or 0))

    def _pass(self, labels: Iterable[tuple[int, str]]) -> list[str]:
        """Note labels that the ledger has passed; return their keys."""
        keys = []
        for position, key in labels:
            self._passed_labels.append((position, key))
            self._named[key] = position
            keys.append(key)
        if len(self._passed_labels) > 2 * len(self._named) + self.window:
            kept = [(position, key) for position, key in self._passed_labels if self._named[key] == position]
            self._passed_labels = deque(kept)
        return keys

    def _settle(self, keys: Iterable[str]) -> None:
        """Settle the records before the watermark with keys that the ledger's labels name."""
        for key in keys:
            if (
                key in self._named
                and key in self._places
                and self._places[key][0].position < self._begin + self.window
            ):
                self._settled.add(key)

    def _write_off(self, key: str) -> str:
        self._settled.discard(key)
        self._places[key].popleft()
        if not self._places[key]:
            del self._places[key]
        return key

    def begin(self, watermark: Watermark | None, passed: int | None) -> None:
        """Begin again where the ledger stands: features and labels are read again."""
        begin = 0 if watermark is None else max(0, watermark.features - self.window)
        fresh = Waiting(self.window, watermark, begin, complaint=self.complaint)
        for part in fields(self):
            setattr(self, part.name, getattr(fresh, part.name))
        self._front = 0 if watermark is None else watermark.features
        self._passed = passed
        self._told = (passed or 0) if watermark is None else watermark.labels
        self._restores = True


def pair(halves: Sequence[Batch], beside: Mapping[tuple[str, int], int]) -> list[Batch]:
    """Return whole records from halves that were read again.

    Parameters
    ----------
    halves
        Features of one partition, and labels.
    beside
        The position of a record's features, by the partition and position of its label.
    """
    features = [batch for batch in halves if batch.half is not None and batch.half.kind == "features"]
    places = {at: Place(at, batch, row) for batch in features for row, at in enumerate(batch.positions.tolist())}
    whole = []
    for batch in halves:
        if batch.half is None or batch.half.kind == "features":
            continue
        found = [places.get(beside.get((batch.span.partition, at), -1)) for at in batch.positions.tolist()]
        rows = [row for row, place in enumerate(found) if place is not None]
        whole.append(_of(batch, np.array(rows, np.int64), [place for place in found if place is not None], ()))
    return whole


def _keys_of(labels: Batch) -> Iterator[tuple[int, str]]:
    """Yield the positions and keys of labels."""
    if labels.half is not None:
        yield from zip(labels.positions.tolist(), labels.half.keys.tolist(), strict=True)


def _of(labels: Batch, rows: IntArray, places: Sequence[Place], wrong: Sequence[Rejection]) -> Batch:
    """Return whole records: some rows of labels with their features; the others are wrong."""
    told = labels.only(rows)
    parts = list(_by_batch(places))
    features = union([batch.features for batch, _ in parts])
    X = [aligned(batch.X[at], batch.features, features) for batch, at in parts]
    empty: FloatArray = np.zeros((0, len(features)))
    rejected = tuple(sorted([*labels.rejected, *wrong], key=lambda bad: bad.position))
    answers = [batch.answers.of(at) for batch, at in parts if batch.answers is not None]
    return replace(
        told,
        features=features,
        X=np.concatenate([empty, *X]),
        rejected=rejected,
        half=None,
        beside=np.array([place.position for place in places], np.int64),
        answers=answers_together(answers) if len(answers) == len(parts) else None,  # old records have none
        times=_times(parts),
    )


def _by_batch(places: Sequence[Place]) -> Iterator[tuple[Batch, IntArray]]:
    """Yield runs of places in the same batch, with their rows."""
    at = 0
    while at < len(places):
        batch, end = places[at].batch, at
        while end < len(places) and places[end].batch is batch:
            end += 1
        yield batch, np.array([place.row for place in places[at:end]], np.int64)
        at = end


def _times(parts: Sequence[tuple[Batch, IntArray]]) -> FloatArray | None:
    """Return when records were measured; None if no time is known."""
    if not parts or all(batch.times is None for batch, _ in parts):
        return None
    known = [np.full(len(at), np.nan) if batch.times is None else batch.times[at] for batch, at in parts]
    return np.concatenate(known)
