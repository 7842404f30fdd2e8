"""A client that keeps fewer than `min_records` good records to itself: it goes on, in bounded memory, and counts
right."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from unit.machines.script import LEARNER, closed, joined, opening

from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.protocol.decisions import Finished, Send
from streamfl.protocol.events import RecordsRead, SourceEnded
from streamfl.protocol.messages import Join, Leave, Left, Update
from streamfl.protocol.records import Batch, Rejection, Span

LEAST, SIZE, CAPACITY = 3, 6, 8


def records(good: list[bool], start: int, end: int) -> Batch:
    """Return some records of a client: good ones, of labels a and b, and bad ones."""
    there = np.array([i for i in range(start, end) if good[i]], np.int64)
    bad = tuple(Rejection(i, "bad") for i in range(start, end) if not good[i])
    X, y = (there % 2 * 2.0 - 1.0)[:, None], (there % 2).astype(np.float64)
    return Batch(Span("c0", start, end), there, ("x",), X, y, ("a", "b"), bad)


class Run:
    """A client that reads a stream in pieces; whatever it sends counts at once, and the next round opens."""

    def __init__(self, good: list[bool], pieces: list[int]) -> None:
        self.machine = Client(ClientSettings(LEARNER, SIZE, min_records=LEAST, capacity=CAPACITY), "c0", "i1")
        self.updates: list[Update] = []
        self.entry, self.at, self.most, self.finished = 1, 0, 0, False
        turns = 0
        while self.at < len(good):
            room = self.machine.room
            assert room, "it neither reads nor sends"
            end = min(len(good), self.at + min(room, pieces[turns % len(pieces)]))
            piece = records(good, self.at, end)
            self.at, turns = end, turns + 1
            self.feed(RecordsRead((piece,)))
            self.most = max(self.most, self.held())
            self.read = end
            accounted = self.machine.accounted or 0
            assert accounted + self.machine.pending == end
        self.feed(SourceEnded())

    def held(self) -> int:
        """Count the objects that stand for what it has read."""
        return sum(len(b) + len(b.rejected) + 1 for b in self.machine._buffer.batches)

    def feed(self, event: object) -> None:
        for decision in self.machine.handle(event, 0.0):
            match decision:
                case Send(Join()):
                    self.feed(joined())
                    for message in opening(self.entry):
                        self.feed(message)
                case Send(Update() as update):
                    self.updates.append(update)
                    self.entry += 1
                    self.feed(closed(update.entry, update))
                    for message in opening(self.entry):
                        self.feed(message)
                case Send(Leave()):
                    self.feed(Left(client="c0", nonce="i1"))
                case Finished():
                    self.finished = True


STREAMS = st.lists(
    st.one_of(st.tuples(st.just(value=True), st.integers(1, 8)), st.tuples(st.just(value=False), st.integers(1, 30))),
    max_size=20,
).map(lambda runs: [good for good, n in runs for _ in range(n)])
PIECES = st.lists(st.integers(1, 20), min_size=1, max_size=5)


@given(STREAMS, PIECES)
def test_a_client_with_few_good_records_keeps_bounded_memory_and_accounts_for_every_record(good, pieces):
    run = Run(good, pieces)
    assert run.finished
    assert all(update.records == 0 or update.records >= LEAST for update in run.updates)
    done = (run.machine.accounted or 0) - run.machine.rejected
    assert done == sum(update.records for update in run.updates)
    # What is left is fewer good records than may leave, and the bad ones after the first of them.
    rest = good[run.machine.accounted :]
    assert sum(rest) == sum(good) - done < LEAST
    assert not rest or rest[0]
    assert run.machine.pending == len(rest)
    assert run.most <= 4 * CAPACITY


@given(STREAMS, PIECES, PIECES)
def test_what_a_client_with_few_good_records_sends_does_not_depend_on_polling(good, pieces, others):
    def sent(run: Run) -> list[tuple[int, int, tuple[Span, ...]]]:
        return [(update.records, update.rejected, update.spans) for update in run.updates]

    assert sent(Run(good, pieces)) == sent(Run(good, others))


def test_many_bad_records_between_two_good_ones_are_a_few_objects():
    run = Run([True, *[False] * 20_000, True, *[False] * 20_000, True], [5])
    assert [(update.records, update.rejected) for update in run.updates] == [(3, 40_000)]
    assert run.most <= 4 * CAPACITY
