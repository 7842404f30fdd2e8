"""The table next to River."""

import pytest

from streamfl.errors import UsageError
from streamfl_benchmarks.pages.river_cells import river_streams
from streamfl_benchmarks.pages.rows import Rows


def test_the_message_names_the_best_peer_that_streamfl_was_not_compared_with() -> None:
    same = {"stream": "sea", "records": 9, "seed": 1, "variant": "one", "ahead": None}
    runs = [{**same, "method": "river-arf", "accuracy": 0.7}, {**same, "method": "river-hat", "accuracy": 0.8}]
    (sea,) = river_streams(Rows.of("made", runs))
    with pytest.raises(
        UsageError, match=r"sea: the run of river-hat.* on_river.py --streams sea --methods streamfl,river-hat"
    ):
        _ = sea.surely_better
