"""The newest value of every key, within bounds."""

from hypothesis import given
from hypothesis import strategies as st

from streamfl.runtime.log.newest import OVERHEAD, Newest


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(0, 900))))
def test_the_newest_values_stay_within_their_bound_and_are_counted_right(told):
    newest = Newest(3 * OVERHEAD + 1000)
    for i, (key, size) in enumerate(told):
        if size is None:
            newest.drop(key)
            continue
        newest.put(key, i, size)
        assert list(newest.values())[-1] == i
        assert newest._held == sum(size for _, size in newest._values.values()) <= 3 * OVERHEAD + 1000
