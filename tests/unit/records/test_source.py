from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.errors import UsageError
from streamfl.protocol.records import Batch, Rejection, spans
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.source import TableSource
from streamfl.runtime.ports import Source

TABLE = Table(
    name="t",
    features=("a", "b"),
    X=np.arange(200, dtype=np.int16).reshape(100, 2),
    y=np.arange(100.0) % 3,
    labels=("p", "q", "r"),
    places=np.arange(100),
)


def source(bad: Sequence[bool]) -> TableSource:
    """Make a source in which record i is bad if `bad[i]` is; its good records are rows of the table from the end."""
    good = len(bad) - sum(bad)
    rejected = tuple(Rejection(i, f"bad {i}") for i, is_bad in enumerate(bad) if is_bad)
    log = Log(np.arange(99, 99 - good, -1), np.arange(good) + 0.5, rejected)
    return TableSource(TABLE, "c1", log)


def facts(batches: Sequence[Batch]) -> list[tuple[object, ...]]:
    good = [(int(p), x.tolist(), float(y)) for b in batches for p, x, y in zip(b.positions, b.X, b.y, strict=True)]
    return sorted([*good, *((r.position, r.reason) for b in batches for r in b.rejected)], key=lambda fact: fact[0])


def drained(reader: Source, limits: Sequence[int]) -> list[Batch]:
    found: list[Batch] = []
    for limit in limits:
        batches = list(reader.poll(limit))
        assert sum(batch.read for batch in batches) <= limit
        found += batches
    while not reader.ended:
        found += reader.poll(7)
    return found


bads = st.lists(st.booleans(), max_size=40)


def test_a_batch_by_hand() -> None:
    reader = source([True, False, False, True, False])
    assert reader.poll(0) == ()
    [batch] = reader.poll(4)
    assert (batch.span.partition, batch.span.start, batch.span.end) == ("c1", 0, 4)
    np.testing.assert_array_equal(batch.positions, [1, 2])
    np.testing.assert_array_equal(batch.X, [[198, 199], [196, 197]])
    assert batch.X.dtype == np.float64
    np.testing.assert_array_equal(batch.y, [0.5, 1.5])
    assert (batch.features, batch.labels) == (("a", "b"), ("p", "q", "r"))
    assert batch.rejected == (Rejection(0, "bad 0"), Rejection(3, "bad 3"))
    assert not reader.ended
    [rest] = reader.poll(4)
    np.testing.assert_array_equal(rest.X, [[194, 195]])
    assert reader.ended
    assert reader.poll(4) == ()


@given(bad=bads, limits=st.lists(st.integers(0, 9), max_size=20))
def test_a_source_reads_the_same_records_in_batches_of_any_size(bad: list[bool], limits: list[int]) -> None:
    batches = drained(source(bad), limits)
    assert facts(batches) == facts(drained(source(bad), [1000]))
    assert [fact[0] for fact in facts(batches)] == list(range(len(bad)))
    if bad:
        [span] = spans(batches)  # raises if one does not follow the other
        assert (span.start, span.end) == (0, len(bad))


@given(bad=bads, data=st.data())
def test_a_source_continues_from_any_position_after_a_seek(bad: list[bool], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(bad)))
    reader = source(bad)
    whole = facts(drained(reader, []))
    reader.seek({"another": 3})
    assert reader.ended
    reader.seek({"c1": at})
    assert facts(drained(reader, [5])) == whole[at:]


@given(bad=bads, data=st.data())
def test_fetch_reads_single_good_records_without_moving(bad: list[bool], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.integers(-2, len(bad) + 2), max_size=9))
    reader = source(bad)
    whole = facts(drained(source(bad), []))
    reader.poll(3)
    got = reader.fetch({"c1": wanted, "another": [0]})
    there = sorted({i for i in wanted if 0 <= i < len(bad) and not bad[i]})
    assert facts(got) == [whole[i] for i in there]
    assert len(got) == (1 if there else 0)
    assert facts(drained(reader, [])) == whole[3:]


@pytest.mark.parametrize("at", [-1, 6])
def test_a_position_outside_is_refused(at: int) -> None:
    with pytest.raises(UsageError, match=f"t: c1 has 5 records, but its position is {at}; give the same file"):
        source([False] * 5).seek({"c1": at})


def test_a_client_without_records_has_ended() -> None:
    assert source([]).ended
    assert source([]).poll(9) == ()
