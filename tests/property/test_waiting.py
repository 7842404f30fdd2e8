"""Records that wait for their labels, against a reference that keeps everything and looks through all of it."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamfl.machines.client.intake.waiting import LABELLED, MOST_NAMED, NEAR, REJECTED, SLACK, Waiting
from streamfl.protocol.delayed import Answers, Half
from streamfl.protocol.messages import Watermark
from streamfl.protocol.records import Batch, Rejection, Span

# A label that cannot be decoded has no key, as a record that cannot.
Keys = list[str | None]


@dataclass
class Side:
    """All of a partition: the keys of the good ones, those of bad ones if known, and when each was written."""

    keys: Keys
    bad: dict[int, str]
    written: list[int]


def _half(kind: str, side: Side, start: int, end: int) -> Batch:
    keys = side.keys
    good = [position for position in range(start, end) if keys[position] is not None]
    n = len(good)
    times = np.array([side.written[position] for position in good], np.int64)
    half = Half(kind, np.array([keys[position] for position in good], dtype=np.object_), times)
    bad = tuple(Rejection(at, "bad", key=side.bad.get(at, "")) for at in range(start, end) if keys[at] is None)
    X = np.array(good, np.float64)[:, None] if kind == "features" else np.zeros((n, 0))
    names, labels = (("x",), ()) if kind == "features" else ((), ("a",))
    answers = Answers(np.zeros(n), np.zeros(n), ("a",)) if kind == "features" else None
    return Batch(
        Span(kind, start, end),
        np.array(good, np.int64),
        names,
        X,
        np.zeros(n),
        labels,
        bad,
        half=half,
        answers=answers,
    )


@dataclass
class Reference:
    """The same rules, told by positions alone: `features` and `labels` are all keys, `asked` and `told` all else."""

    window: int
    asked: Side
    told: Side
    m: int = 0
    passed: int = 0
    first: int = 0  # `labels` of the watermark
    learnt: dict[int, int] = field(default_factory=dict)
    written_off: int = 0
    front: int = 0  # after the labels of the last outcome

    def __post_init__(self) -> None:
        self.features, self.labels = self.asked.keys, self.told.keys

    def end(self, front: int) -> int:
        """Return the window's end."""
        return min(front, self.m + self.window) + self.window

    def window_of(self, key: str, read: int, front: int) -> int | None:
        """Return the first record with a key in the window, as far as it was read."""
        places = range(max(0, self.m - self.window), min(read, self.end(front)))
        return next((at for at in places if self.features[at] == key), None)

    def settled(self) -> set[int]:
        """Return the records before the watermark that wait no more."""
        named = {key for key in self.labels[self.first : self.passed] if key is not None}
        places = [self.window_of(key, self.m, self.m) for key in named]
        return {at for at in places if at is not None}

    def outcome(self, read: int, told: int, *, ended: bool) -> list[tuple[int, int | None]]:
        """Return the labels after the ledger's position that are done with, with their records; None: rejected."""
        done: list[tuple[int, int | None]] = []
        settled, found, front = self.settled(), set(), self.m
        for position in range(self.passed, told):
            key = self.labels[position]
            if key is None:
                done.append((position, None))
                continue
            end = self.end(front)
            is_released = (ended or read >= end) and front <= self.m + self.window
            good, bad = self.window_of(key, read, front), self.bad_of(key, read, front)
            at = min((one for one in (good, bad) if one is not None), default=None)
            until = min(read, end) if at is None else at
            late = self.told.written[position] + SLACK
            near = range(front + -(-self.window // NEAR), until)
            is_passed = any(self.features[i] is not None and self.asked.written[i] > late for i in near)
            if at is None and not is_released and not is_passed:
                break
            last = self.last_before(front)
            if is_passed and last is not None and self.asked.written[last] > late:
                front += -(-self.window // NEAR)
            if at is None or is_passed or at in settled or at in found:
                done.append((position, None))
                continue
            front = max(front, at + 1)
            if at == bad:
                done.append((position, None))
                continue
            found.add(at)
            done.append((position, at))
        self.front = front
        return done

    def last_before(self, front: int) -> int | None:
        """Return the last good record in the window before a position."""
        places = range(front - 1, max(0, self.m - self.window) - 1, -1)
        return next((at for at in places if self.features[at] is not None), None)

    def bad_of(self, key: str, read: int, front: int) -> int | None:
        """Return the first record with a key in the window that was rejected, as far as it was read."""
        places = range(max(0, self.m - self.window), min(read, self.end(front)))
        return next((at for at in places if self.asked.bad.get(at) == key), None)


@dataclass
class Script:
    """What happens: the keys of both partitions, the window, and draws for every step."""

    window: int
    features: Side
    labels: Side
    steps: list[tuple[int, int]]


def script_of(seed: int) -> Script:
    """Draw a script: keys that come again, labels out of order, missing, twice, unknown, and bad ones."""
    rng = np.random.default_rng(seed)
    window, n = int(rng.integers(1, 12)), int(rng.integers(5, 80))
    again, bad = rng.choice([0.0, 0.2], 2)
    features: Keys = [str(int(rng.integers(i + 1)) if rng.random() < again else i) for i in range(n)]
    late = rng.choice([1.0, 5.0, 20.0])
    order = np.argsort(np.arange(n) + rng.normal(0.0, late, n))
    times = rng.choice([0, 1, 2], n, p=rng.choice([[0.0, 1.0, 0.0], [0.2, 0.6, 0.2]]))
    unknown = rng.choice([0.0, 0.1])
    labels: Keys = []
    for i in order.tolist():
        labels += [f"nobody {len(labels)}" if rng.random() < unknown else features[i]] * int(times[i])
    sides = []
    speed = rng.choice([0, 1, SLACK // 2, 10 * SLACK])  # without times, and with such as let none wait
    for keys, other in ((features, rng.choice([0, 3])), (labels, 0)):
        known = {i: str(key) for i, key in enumerate(keys) if rng.random() < bad}
        lies = np.where(rng.random(len(keys)) < rng.choice([0.0, 0.1]), rng.integers(-40, 40, len(keys)), other)
        times = (speed * (np.arange(len(keys)) + lies + 50)).tolist() if speed else [-1] * len(keys)
        named = {i: key for i, key in known.items() if i % 2}
        sides.append(Side([None if i in known else key for i, key in enumerate(keys)], named, times))
    whats = rng.choice(6, 250, p=[0.15, 0.15, 0.15, 0.15, 0.3, 0.1])
    return Script(window, *sides, list(zip(whats.tolist(), rng.integers(0, 7, 250).tolist(), strict=True)))


def _pairs(batches: list[Batch]) -> list[tuple[int, int | None]]:
    done: list[tuple[int, int | None]] = []
    for batch in batches:
        done += zip(batch.positions.tolist(), batch.beside.tolist(), strict=True)
        done += [(bad.position, None) for bad in batch.rejected]
    return sorted(done)


@given(st.integers(0, 2**32).map(script_of))
def test_labels_find_the_records_that_the_reference_says_however_they_are_read_and_restarted(script: Script) -> None:
    f, k, window = script.features, script.labels, script.window
    reference, waiting = Reference(window, f, k), Waiting(window)
    known_features, known_labels = f.keys, k.keys
    read = told = 0
    joined: list[Batch] = []
    for what, n in script.steps:
        if what in (0, 1):  # features
            beyond = 3 * (n == 6)  # a source may return more than there is room for
            end = min(read + n, len(known_features), read + waiting.room + beyond)
            if end > read:
                waiting.take_features(_half("features", f, read, end))
                read = end
        elif what in (2, 3):  # labels
            end = min(told + n, len(known_labels))
            if end > told:
                waiting.take_labels(_half("labels", k, told, end))
                told = end
        elif what == 4:  # an entry with some of the labels
            waiting.is_stuck = waiting.is_read
            batches = _head(joined, n)
            watermark = waiting.after(batches)
            if watermark is None:
                continue
            passed = batches[-1].span.end if batches else reference.passed
            _enter(reference, watermark, passed, batches, read)
            waiting.follow(watermark, passed or None)
            joined = []
        else:  # a restart
            if waiting.watermark is None:
                continue
            waiting.begin(waiting.watermark, reference.passed or None)
            read, told, joined = max(0, reference.m - window - n // 3), reference.first, []  # or begin earlier
        joined += waiting.joined()
        if waiting.is_restored:
            assert _pairs(joined) == reference.outcome(read, told, ended=False)
            here = [at for at in range(max(0, reference.m - window), read) if known_features[at] is not None]
            assert waiting.records == len(here) - len(reference.settled())
            good = sum(key is not None for key in known_features[:read])
            assert good == len(reference.learnt) + waiting.records + reference.written_off
        kept = 3 * window + max(0, read - reference.m - 2 * window)
        assert len(waiting._behind) + len(waiting._ahead) <= kept
        assert len(waiting._named) <= MOST_NAMED * window + len(known_labels)
        assert len(waiting._written) <= kept
        assert sum(map(len, waiting._rejected.values())) <= kept


def _head(joined: list[Batch], n: int) -> list[Batch]:
    """Return the records of some labels that are done with, as a buffer has them: n batches, cut anywhere."""
    batches = [batch for batch in joined[:n] if batch.span.end > batch.span.start]
    if batches and n % 2:
        last = batches[-1]
        batches[-1] = last.before(last.span.end - n % 3)
    return [batch for batch in batches if batch.span.end > batch.span.start]


def _enter(reference: Reference, watermark: Watermark, passed: int, batches: list[Batch], read: int) -> None:
    """Check a watermark, and enter the records of a round."""
    window, m = reference.window, reference.m
    pairs = {position: at for position, at in _pairs(batches) if at is not None}
    reasons = [(bad.position, bad.reason) for batch in batches for bad in batch.rejected]
    reference.outcome(read, passed, ended=False)
    newest = reference.front
    assert newest >= max([m, *(at + 1 for at in pairs.values())])
    assert watermark.features in (newest, m + window)
    if watermark.features > newest:
        assert read >= m + window
        assert not batches or len(reference.labels) > MOST_NAMED * window
    assert reference.first <= watermark.labels <= passed
    assert not set(pairs.values()) & set(reference.learnt.values())
    before = [at for at in range(max(0, m - window), read) if reference.features[at] is not None]
    waited = [at for at in before if at not in reference.settled() and at not in pairs.values()]
    reference.m, reference.passed, reference.first = watermark.features, passed, watermark.labels
    reference.learnt |= pairs
    gone = [at for at in waited if at < watermark.features - window or at in reference.settled()]
    assert watermark.expired == len(gone)
    assert watermark.repeated == sum(reason.startswith(LABELLED) for _, reason in reasons)
    assert watermark.unusable == sum(reason.startswith(REJECTED) for _, reason in reasons)
    assert sum(watermark.released) == sum(reference.labels[position] is not None for position, _ in reasons)
    reference.written_off += len(gone)


# --- labels of a backlog --------------------------------------------------------------------------------------------


@dataclass
class Backlog:
    """Labels whose records lie within the window of the front, which all lie in the log when a client begins.

    Parameters
    ----------
    window, records
        The window, and how many records there are.
    of
        The record of each label.
    size
        How many records a round takes; None: the clock closes it.
    draws
        How much is read at a time, and what happens then.
    """

    window: int
    records: int
    of: list[int]
    size: int | None
    draws: np.random.Generator


def backlog_of(seed: int) -> Backlog:
    """Draw a backlog: any order of the labels, any share of records that never get one, rounds of any clock."""
    rng = np.random.default_rng(seed)
    window, n = int(rng.integers(1, 12)), int(rng.integers(5, 150))
    never, late = rng.choice([0.0, 0.1, 0.5]), rng.choice([0.0, 1.0, 5.0])
    front, of = 0, []
    for at in np.argsort(np.arange(n) + rng.normal(0.0, late, n), kind="stable").tolist():
        if rng.random() >= never and front - window <= at < front + window:
            of.append(at)
            front = max(front, at + 1)
    return Backlog(window, n, of, None if rng.random() < 0.5 else int(rng.integers(1, 60)), rng)


@given(st.integers(0, 2**32).map(backlog_of))
def test_every_label_whose_record_is_within_the_window_of_the_front_finds_it_however_long_rounds_are(log: Backlog):
    names: Keys = [str(at) for at in range(log.records)]
    asked, told = Side(names, {}, [-1] * log.records), Side([names[at] for at in log.of], {}, [-1] * len(log.of))
    waiting, found = Waiting(log.window), {}
    read = labels = passed = 0
    joined: list[Batch] = []
    while passed < len(log.of):
        n, k, what = log.draws.integers([1, 1, 0], [9, 9, 8]).tolist()
        end, last = min(read + min(n, waiting.room), log.records), min(labels + k, len(log.of))
        waits = end == read and last == labels
        if end > read:
            waiting.take_features(_half("features", asked, read, end))
        if last > labels:
            waiting.take_labels(_half("labels", told, labels, last))
        read, labels, waiting.ended = end, last, end == log.records
        joined += waiting.joined()
        here = joined[-1].span.end - passed if joined else 0
        is_all = labels == len(log.of) and not waiting.queued
        closes = here > 0 and (is_all or waits or what == 0 if log.size is None else is_all or here >= log.size)
        assert closes or waiting.must_move or not waits
        if closes or waiting.must_move:
            batches = [batch.before(passed + (log.size or here)) for batch in joined]
            batches = [batch for batch in batches if batch.span.end > batch.span.start]
            watermark = waiting.after(batches)
            assert watermark is not None
            found |= dict(_pairs(batches))
            passed = batches[-1].span.end
            waiting.follow(watermark, passed)
            if what == 1:
                waiting.begin(watermark, passed)
                read, labels = max(0, watermark.features - log.window), watermark.labels
            joined = waiting.joined()
        assert len(waiting._behind) + len(waiting._ahead) <= 3 * log.window
    assert found == dict(enumerate(log.of))
