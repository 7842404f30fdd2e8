"""What a round costs, held by counts instead of times: the same on every machine, however busy it is."""

import sys

import numpy as np
import pytest

from streamfl_benchmarks.cost import Cost, Counter, cost

# `python -m streamfl_benchmarks.cost` prints these. A change that costs less is as welcome as it is to be noted here.
FIGURES = {
    "paper": Cost(ours=11478, arrays=1580),
    "adaptive": Cost(ours=18674, arrays=5124),
}


@pytest.mark.parametrize("profile", FIGURES)
def test_a_round_makes_as_many_calls_as_is_noted(profile: str) -> None:
    found, noted = cost(profile), FIGURES[profile]
    assert (found.ours, found.arrays) == pytest.approx((noted.ours, noted.arrays), rel=0.1), (
        f"a round of {profile} makes {found.ours:.0f} calls of our functions and {found.arrays:.0f} of NumPy's, not "
        f"{noted.ours:.0f} and {noted.arrays:.0f}: find what costs more, or note the new figures in {__file__}"
    )


def test_the_counter_of_calls_counts_methods_functions_and_reductions_and_nothing_else() -> None:
    counter, x = Counter(), np.ones((2, 3))
    counter.counts = True
    for event, called in (
        ("c_call", x.astype),
        ("c_call", np.zeros),
        ("c_call", np.add.reduce),
        ("c_call", len),
        ("c_return", np.zeros),
    ):
        counter(sys._getframe(), event, called)
    assert counter.arrays == 3
