import math
from itertools import pairwise

import pytest

from streamfl.run.report.chart import NARROW, WIDE, ChartEvent, Series, chart, path
from streamfl.run.report.labels import place
from streamfl.run.report.scale import Scale, ceiling, multiples, step, tick_text
from streamfl.run.report.thin import selected


def test_a_scale_maps_by_hand_computed_numbers() -> None:
    scale = Scale(1.0, 5.0, 40.0, 240.0)
    assert [scale(v) for v in (1, 2, 5)] == [40.0, 90.0, 240.0]


@pytest.mark.parametrize(
    ("span", "at_most", "size"), [(10, 10, 1.0), (11, 10, 2.0), (1, 5, 0.2), (0.003, 6, 0.0005), (10_000, 12, 1000.0)]
)
def test_a_step_is_the_smallest_round_number_that_fits(span: float, at_most: int, size: float) -> None:
    assert step(span, at_most) == size


def test_marks_are_the_multiples_within_both_ends() -> None:
    assert multiples(0.0, 0.6, 0.2) == pytest.approx([0.0, 0.2, 0.4, 0.6])
    assert [tick_text(v, 0.2) for v in multiples(0.0, 0.6, 0.2)] == ["0.0", "0.2", "0.4", "0.6"]


def test_an_axis_ends_on_a_mark_at_or_above_the_highest_value() -> None:
    assert [ceiling(v, 6) for v in (0.51, 0.6, 21.4, 0.0)] == [0.6, 0.6, 25.0, 1.0]


def test_values_stand_where_they_should() -> None:
    # The plot is 10 to 210 high with a restart label's lane above it: bottom 10 + 220 on the narrow canvas.
    made = chart(NARROW, [1, 2, 3], [Series("loss", "model", [0.0, 0.5, 1.0])], epochs=[(1, 1)], y_max=1.0)
    assert (made.top, made.bottom) == (10.0, 230.0)
    # Rounds 0.5 to 3.5 share 38 to 344: round 1 stands at 38 + 306 / 6.
    assert made.paths[0].d == "M89 230L191 120L293 10"


def test_an_event_line_stands_at_its_round_and_epochs_meet_there() -> None:
    made = chart(
        WIDE,
        range(1, 101),
        [Series("loss", "model", [0.1] * 100)],
        epochs=[(1, 1), (2, 40)],
        found=[ChartEvent(40, "n", "40: glr")],
        imposed=[ChartEvent(0, "before"), ChartEvent(39, "in"), ChartEvent(101, "after")],
    )
    at = 46 + (40 - 0.5) / 100 * (980 - 20 - 46)
    assert [line.x for line in made.found] == pytest.approx([at])
    assert [band.x for band in made.bands] == pytest.approx([46, at])
    assert [line.event.note for line in made.imposed] == ["in"]


def test_a_chart_of_nothing_but_missing_values_has_an_axis() -> None:
    made = chart(WIDE, [1, 2], [Series("loss", "model", [None, math.nan])], epochs=[(1, 1)])
    assert made.paths[0].d == ""
    assert [mark.text for mark in made.y_ticks] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]


def test_a_missing_value_breaks_the_path() -> None:
    x, y = Scale(0, 10, 0, 100), Scale(0, 1, 50, 0)
    assert path([1, 2, 3, 4, 5], [0, 1, math.nan, 1, 0], x, y) == "M10 50L20 0M40 0L50 50"


def test_labels_never_overlap_in_a_lane() -> None:
    placed = place([(x, 80.0) for x in range(0, 900, 17)], right=900, lanes=3)
    for lane in range(3):
        edges = sorted(p.x - 80.0 * p.before for p in placed if p and p.lane == lane)
        assert len(edges) > 5
        assert all(b - a >= 80.0 for a, b in pairwise(edges))


def test_a_short_run_is_drawn_whole_and_a_long_one_keeps_its_extremes() -> None:
    values: list[float | None] = [0.2] * 5000
    values[1234], values[4321], values[77] = 0.9, 0.01, None
    assert selected([values[:600]], 300) == list(range(600))
    found = selected([values], 300)
    assert {0, 1234, 4321, 4999} <= set(found)
    assert len(found) <= 1200
    assert found == sorted(set(found))
