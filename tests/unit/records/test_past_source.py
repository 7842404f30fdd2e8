"""A source with lags gives a record the same features, however it is polled, sought or read again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.protocol.records import Rejection
from streamfl.records import past_features, past_source
from streamfl.records.past_features import PastFeatures
from streamfl.records.past_source import SourceWithPast
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.source import TableSource

PAST = PastFeatures((1, 2), 3)
RECORDS = 30


def sources(bad: set[int]) -> tuple[SourceWithPast, dict[int, list[float]]]:
    """Return a source of records with bad ones among them, and the features of each good one."""
    good = [position for position in range(RECORDS) if position not in bad]
    X = np.arange(2.0 * len(good)).reshape(-1, 2) ** 2
    table = Table("t", ("x", "y"), X, np.zeros(len(good)), ("a",), np.array(good, np.int64))
    log = Log(
        np.arange(len(good)), np.zeros(len(good)), tuple(Rejection(position, "bad") for position in sorted(bad))
    )
    made = np.hstack([X, PAST.of(np.array(good, np.int64), X)])
    return SourceWithPast(TableSource(table, "c", log), PAST), dict(zip(good, made.tolist(), strict=True))


@given(
    st.sets(st.integers(0, RECORDS - 1), max_size=20),
    st.lists(st.tuples(st.integers(0, RECORDS), st.integers(1, 9)), max_size=4),
    st.sets(st.integers(0, RECORDS - 1)),
)
def test_a_record_has_the_same_features_after_any_seek_and_when_it_is_read_again(
    bad: set[int], sought: list[tuple[int, int]], wanted: set[int]
) -> None:
    source, expected = sources(bad)
    with pytest.MonkeyPatch.context() as patch:
        for module in (past_features, past_source):
            patch.setattr(module, "REACH", 4)
        source, expected = sources(bad)
        found = [*source.fetch({"c": sorted(wanted)})]
        assert {at for batch in found for at in batch.positions.tolist()} == wanted - bad
        for position, limit in sought:
            source.seek({"c": position})
            found += [*source.poll(limit), *source.poll(limit), *source.fetch({"c": sorted(wanted)})]
    for batch in found:
        assert batch.features == ("x", "y", *PAST.names(("x", "y")))
        np.testing.assert_array_equal(
            batch.X, np.array([expected[at] for at in batch.positions.tolist()]).reshape(-1, 10)
        )


@pytest.mark.parametrize(("bad", "read"), [(set[int](), 4), ({26}, 4 + 14)], ids=["good", "one bad"])
def test_of_old_records_no_more_is_read_than_what_is_made_of_them_needs(
    bad: set[int], read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, asked = sources(bad)[0], list[int]()
    fetch = source.source.fetch
    monkeypatch.setattr(past_source, "REACH", 13)
    monkeypatch.setattr(source.source, "fetch", lambda at: asked.extend(at["c"]) or fetch(at))
    (batch,) = source.fetch({"c": [28]})
    assert (batch.positions.tolist(), len(asked)) == ([28], read)


def test_a_record_that_may_come_next_is_predicted_with_its_past_and_changes_nothing() -> None:
    source, expected = sources(set())
    source.poll(5)
    for _ in range(2):
        features, X = source.next_of("c", ("x", "y"), np.array([expected[5][:2], expected[6][:2]]))
        assert (features, X.tolist()) == (("x", "y", *PAST.names(("x", "y"))), [expected[5], expected[6]])
