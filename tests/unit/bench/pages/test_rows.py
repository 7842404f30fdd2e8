"""Cells of tables, from runs made by hand and figures reckoned by hand."""

import pytest

from streamfl.errors import UsageError
from streamfl_benchmarks.pages.drift_cells import delay, found, quiet_at_least, temporal_kappa
from streamfl_benchmarks.pages.regret_cells import slope
from streamfl_benchmarks.pages.rows import Rows, seed_counts

RUNS = Rows.of(
    "made",
    [
        {"method": "ours", "seed": 1, "of": {"accuracy": 0.70, "naive": 0.40}, "detections": [0, 1]},
        {"method": "ours", "seed": 2, "of": {"accuracy": 0.74, "naive": 0.42}, "detections": [0, None]},
        {"method": "ours", "seed": 3, "of": {"accuracy": 0.72, "naive": 0.41}, "detections": [0, 4]},
        {"method": "theirs", "seed": 3, "of": {"accuracy": 0.65, "naive": 0.41}, "detections": [None, None]},
        {"method": "theirs", "seed": 1, "of": {"accuracy": 0.60, "naive": 0.40}, "detections": [None, None]},
    ],
)
OURS, THEIRS = RUNS.where(method="ours"), RUNS.where(method="theirs")


def test_means_and_spreads() -> None:
    # Deviations -0.02, 0.02, 0: the variance is 0.0008 / 2, its root 0.02; t of 2 degrees 4.3027, by 0.02 / sqrt(3).
    assert OURS.mean("of.accuracy", 3) == "0.720"
    assert OURS.mean_sd("of.accuracy", 3) == "0.720 ± 0.020"
    assert OURS.mean_interval("of.accuracy", 4) == "0.7200 ± 0.0497"
    assert OURS.where(seed=2).mean_sd("of.accuracy", 2) == "0.74"
    assert OURS.difference("of.accuracy", "of.naive").mean("difference", 3) == "0.310"


def test_differences_are_paired_by_seed_whatever_the_order() -> None:
    # Seeds 1 and 3 alone are in both: 0.10 and 0.07; half the range 0.015, t of 1 degree 12.706.
    assert OURS.less(THEIRS, "of.accuracy") == "0.0850 ± 0.1906"


def test_a_cell_of_no_runs_is_empty_and_a_row_of_none_an_error() -> None:
    nothing = OURS.where(seed=2).where(method="theirs")
    assert (nothing.mean("of.accuracy"), nothing.mean_sd("of.accuracy"), nothing.less(OURS, "of.accuracy")) == (
        "",
    ) * 3
    assert seed_counts([OURS, THEIRS]) == "3 / 2"
    with pytest.raises(UsageError, match="a row has no runs"):
        seed_counts([nothing, nothing])


def test_what_is_misspelt_is_an_error_and_no_empty_cell() -> None:
    with pytest.raises(UsageError, match="no run of made has method 'our'"):
        RUNS.where(method="our")
    with pytest.raises(UsageError, match=r"no field of\.acuracy; it has method, seed, of, detections"):
        OURS.mean("of.acuracy")


def test_two_runs_of_one_seed_make_no_row() -> None:
    with pytest.raises(UsageError, match="the same seed in one row"):
        RUNS.mean("of.accuracy")


def test_drifts_found_and_how_late() -> None:
    assert (found(OURS), found(THEIRS), found(OURS, THEIRS)) == ("5 of 6", "none", "5 of 10")
    assert (delay(OURS), delay(OURS.where(seed=[1, 2])), delay(THEIRS)) == ("median 0 (0 to 4)", "0, once 1", "none")


def test_quiet_runs_and_temporal_kappa() -> None:
    # 1 - 0.025^(1/3) without an alarm; with only alarms nothing is known.
    assert (quiet_at_least(3, 0), quiet_at_least(3, 3)) == ("0.292", "0.000")
    one = Rows.of("made", [{"seed": 1, "accuracy": {"prequential": 0.9, "no_change": 0.8}}])
    assert temporal_kappa(one) == "0.50"


def test_the_slope_of_regret_is_over_horizons_and_its_spread_over_seeds() -> None:
    powers = {0: 0.4, 1: 0.6}
    runs = [{"seed": s, "rounds": T, "regret": 3 * T**a} for s, a in powers.items() for T in (4, 16, 64)]
    # Mean 0.5, half the range 0.1, t of 1 degree 12.706.
    assert slope(Rows.of("made", runs)) == "0.50 ± 1.27"
    bent = [*runs, {"seed": 0, "rounds": 1, "regret": 900.0}, {"seed": 1, "rounds": 1, "regret": 900.0}]
    assert slope(Rows.of("made", bent), since=4) == "0.50 ± 1.27"
