import numpy as np
import pytest

from streamfl.protocol.records import Batch, Rejection
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.delayed import HalvesSource, delayed
from streamfl.run.dealing.source import TableSource

N = 5
TABLE = Table("t", ("a",), np.arange(10.0)[:, None], np.arange(10.0) % 2, ("p", "q"), np.arange(10))


def source(bad: tuple[int, ...] = ()) -> TableSource:
    """Make a source of five records, of which some are bad."""
    good = np.arange(N - len(bad))
    return TableSource(TABLE, "c", Log(good, TABLE.y[good], tuple(Rejection(i, f"line {i}") for i in bad)))


def told(batches: list[Batch]) -> list[tuple[str, int, int]]:
    return [(batch.half.kind, batch.span.start, batch.span.end) for batch in batches if batch.half is not None]


def test_a_label_comes_right_before_the_features_of_the_record_three_further_on() -> None:
    halves = delayed(source(), 3)
    assert told(list(halves.poll_halves(10, 10))) == [
        ("features", 0, 3), ("labels", 0, 1), ("features", 3, 4), ("labels", 1, 2), ("features", 4, 5),
        ("labels", 2, 5),
    ]  # fmt: skip
    assert halves.ended


@pytest.mark.parametrize("delay", [0, 1])
def test_without_a_delay_each_label_comes_before_the_next_record(delay: int) -> None:
    halves = told(list(delayed(source(), delay).poll_halves(10, 10)))
    assert halves == [(kind, i, i + 1) for i in range(N) for kind in ("features", "labels")]


def test_labels_that_come_after_the_end_come_at_the_end() -> None:
    assert told(list(delayed(source(), 100).poll_halves(10, 10))) == [("features", 0, 5), ("labels", 0, 5)]


def test_no_features_are_read_behind_the_last_label_of_a_round() -> None:
    halves = delayed(source(), 2)
    assert told(list(halves.poll_halves(2, 10))) == [
        ("features", 0, 2), ("labels", 0, 1), ("features", 2, 3), ("labels", 1, 2)
    ]  # fmt: skip
    assert (halves.asked, halves.read) == (3, 2)


def test_the_label_of_a_bad_record_is_bad_for_the_same_reason() -> None:
    halves = delayed(source(bad=(1, 4)), 2).poll_halves(10, 10)
    labels = [batch for batch in halves if batch.half is not None and batch.half.kind == "labels"]
    assert [(bad.position, bad.reason) for batch in labels for bad in batch.rejected] == [
        (1, "line 1"),
        (4, "line 4"),
    ]
    assert [p for batch in labels for p in batch.positions.tolist()] == [0, 2, 3]
    asked = [batch for batch in halves if batch.half is not None and batch.half.kind == "features"]
    assert all(batch.rejected == () for batch in asked)  # it is counted once, where the ledger counts
    assert [p for batch in asked for p in batch.positions.tolist()] == [0, 2, 3]


def test_a_label_whose_position_names_another_record_has_that_record_s_reason() -> None:
    halves = HalvesSource(source(bad=(3,)), np.array([5, 5]), np.array([3, 0])).poll_halves(10, 10)
    labels = [batch for batch in halves if batch.half is not None and batch.half.kind == "labels"]
    assert [(bad.position, bad.reason) for batch in labels for bad in batch.rejected] == [(0, "line 3")]
