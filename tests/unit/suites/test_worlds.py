"""Worlds whose seeds follow from the commit: always the same for a commit, others for another."""

from hypothesis import given
from hypothesis import strategies as st
from simulation.conftest import SEEDS, drawn_seeds

COMMITS = st.text("0123456789abcdef", min_size=40, max_size=40)


@given(COMMITS, COMMITS, st.integers(1, 20))
def test_a_commit_has_its_own_seeds_and_always_these(one: str, other: str, drawn: int) -> None:
    seeds = drawn_seeds(one, "a law", drawn)
    assert seeds == drawn_seeds(one, "a law", drawn)
    assert all(0 <= seed < SEEDS for seed in seeds)
    if one != other:
        assert seeds != drawn_seeds(other, "a law", drawn)
    assert seeds != drawn_seeds(one, "another law", drawn)
