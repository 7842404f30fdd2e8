"""Batches and spans by hand."""

import numpy as np
import pytest

from streamfl.errors import BrokenInvariantError
from streamfl.machines.client.intake.buffer import Buffer
from streamfl.protocol.records import Batch, Rejection, Span, spans, stacked

# Positions 10 .. 17: good 10, 12, 15; bad 11 and 16; nothing at 13, 14 and 17.
BATCH = Batch(
    Span("p", 10, 18),
    np.array([10, 12, 15]),
    ("a",),
    np.array([[0.0], [1.0], [2.0]]),
    np.array([0.0, 1.0, 0.0]),
    ("u", "v"),
    (Rejection(11, "no label"), Rejection(16, "no number")),
)


def empty(start: int, end: int, partition: str = "p") -> Batch:
    return Batch(Span(partition, start, end), np.zeros(0, np.int64), ("a",), np.zeros((0, 1)), np.zeros(0), ("u",))


def outline(batch: Batch) -> tuple[int, int, list[int], list[int]]:
    assert batch.X[:, 0].tolist() == [BATCH.positions.tolist().index(p) for p in batch.positions]
    return batch.span.start, batch.span.end, batch.positions.tolist(), [r.position for r in batch.rejected]


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (0, (10, 10, [], [])),
        (1, (10, 11, [10], [])),
        (2, (10, 13, [10, 12], [11])),
        (3, (10, 16, [10, 12, 15], [11])),
        (4, (10, 18, [10, 12, 15], [11, 16])),
    ],
)
def test_the_head_ends_with_its_last_good_record(n: int, expected: tuple) -> None:
    assert outline(BATCH.head(n)) == expected


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (3, (10, 18, [10, 12, 15], [11, 16])),
        (10, (10, 18, [10, 12, 15], [11, 16])),
        (11, (11, 18, [12, 15], [11, 16])),
        (13, (13, 18, [15], [16])),
        (17, (17, 18, [], [])),
        (18, (18, 18, [], [])),
        (99, (18, 18, [], [])),
    ],
)
def test_a_batch_cut_after_a_position_keeps_the_later_records(position: int, expected: tuple) -> None:
    assert outline(BATCH.after(position)) == expected


def test_a_batch_of_some_records_keeps_its_span() -> None:
    some = BATCH.only(np.array([0, 2]))
    assert outline(some) == (10, 18, [10, 15], [])
    assert some.y.tolist() == [0.0, 0.0]


def test_a_batch_counts_its_good_records_and_those_read() -> None:
    assert (len(BATCH), BATCH.read) == (3, 5)


def test_spans_join_batches_that_follow_one_another() -> None:
    parts = [empty(0, 3), empty(5, 9, "q"), empty(3, 4), empty(4, 10), empty(9, 9, "q")]
    assert spans(parts) == (Span("p", 0, 10), Span("q", 5, 9))
    assert spans([]) == ()


@pytest.mark.parametrize("start", [2, 4])
def test_spans_that_overlap_or_leave_a_gap_are_a_defect(start: int) -> None:
    with pytest.raises(BrokenInvariantError, match="does not follow"):
        spans([empty(0, 3), empty(start, 9)])


def test_a_buffer_counts_good_records_and_all_records() -> None:
    buffer = Buffer(6)
    buffer.add([BATCH])
    assert (buffer.size, buffer.pending, buffer.room) == (3, 5, 1)
    buffer.add([Batch(Span("p", 18, 20), np.array([18, 19]), ("a",), np.ones((2, 1)), np.zeros(2), ("u",))])
    assert (buffer.size, buffer.pending, buffer.room) == (5, 7, 0)
    assert buffer.held_spans() == (Span("p", 10, 20),)


def test_a_span_that_held_nothing_is_kept_until_it_is_accepted() -> None:
    buffer = Buffer(6)
    buffer.add([empty(0, 5)])
    assert buffer.held_spans() == (Span("p", 0, 5),)
    buffer.drop([Span("p", 0, 5)])
    assert buffer.held_spans() == ()


def test_stacked_batches_keep_their_own_names_and_labels() -> None:
    other = Batch(
        Span("q", 0, 3),
        np.array([0, 2]),
        ("b", "a"),
        np.array([[7.0, 8.0], [9.0, 6.0]]),
        np.array([0.0, 1.0]),
        ("v", "w"),
    )
    both = stacked([BATCH, empty(3, 9), other])
    assert both.features == ("a", "b")
    np.testing.assert_array_equal(both.X, [[0.0, np.nan], [1.0, np.nan], [2.0, np.nan], [8.0, 7.0], [6.0, 9.0]])
    assert [both.labels[int(code)] for code in both.y] == ["u", "v", "u", "v", "w"]
    assert both.positions.tolist() == [10, 12, 15, 0, 2]


def test_stacked_targets_are_no_labels() -> None:
    targets = Batch(Span("p", 0, 2), np.arange(2), ("a",), np.ones((2, 1)), np.array([-2.5, 7.0]))
    assert (stacked([targets, targets]).y.tolist(), stacked([targets]).labels) == ([-2.5, 7.0, -2.5, 7.0], ())
    assert (len(stacked([])), len(stacked([empty(0, 5)]))) == (0, 0)
