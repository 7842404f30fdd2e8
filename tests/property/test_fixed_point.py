"""Sums that no order can change, for any parts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamfl.learning.fixed_point import weighted_mean

PARTS = st.lists(
    st.tuples(st.integers(1, 5000), arrays(np.float64, (2, 2), elements=st.floats(-1e3, 1e3))),
    min_size=1,
    max_size=8,
)


@given(PARTS, st.randoms(use_true_random=False))
def test_the_weighted_mean_of_parts_in_any_order_has_identical_bytes(
    parts: list[tuple[int, np.ndarray]], random: object
) -> None:
    shuffled = list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert weighted_mean(shuffled).tobytes() == weighted_mean(parts).tobytes()


@given(PARTS)
def test_the_weighted_mean_in_fixed_point_is_the_mean_to_its_grid(parts: list[tuple[int, np.ndarray]]) -> None:
    expected = np.average([x for _, x in parts], axis=0, weights=[n for n, _ in parts])
    np.testing.assert_allclose(weighted_mean(parts), expected, rtol=1e-12, atol=len(parts) * 2.0**-32)
