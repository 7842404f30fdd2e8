import math

import pytest

from streamfl_benchmarks.chart import Canvas, Series, chart, path
from streamfl_benchmarks.scale import Scale, ceiling, multiples, step, tick_text

CANVAS = Canvas(width=360, height=220, left=38, right=16, x_ticks=6, y_ticks=6)


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


def test_values_and_drifts_stand_where_they_should() -> None:
    # The plot is 10 to 230 high; rounds 0.5 to 3.5 share 38 to 344: round 1 stands at 38 + 306 / 6.
    made = chart(CANVAS, [1, 2, 3], [Series("loss", "model", [0.0, 0.5, 1.0])], [0, 2, 4])
    assert (made.top, made.bottom, made.drifts) == (10.0, 230.0, (191.0,))
    assert made.paths[0].d == "M89 230L191 120L293 10"


def test_a_chart_of_nothing_but_missing_values_has_an_axis() -> None:
    made = chart(CANVAS, [1, 2], [Series("loss", "model", [None, math.nan])])
    assert made.paths[0].d == ""
    assert [mark.text for mark in made.y_ticks] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]


def test_a_missing_value_breaks_the_path() -> None:
    x, y = Scale(0, 10, 0, 100), Scale(0, 1, 50, 0)
    assert path([1, 2, 3, 4, 5], [0, 1, math.nan, 1, 0], x, y) == "M10 50L20 0M40 0L50 50"
