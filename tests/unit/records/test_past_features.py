"""Lags, rolling means and rates: those of polars by client, the same in blocks, files, messages and predictions."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from river import base, compose, stats, utils
from river import feature_extraction as fx

import streamfl
from streamfl.bounds import REACH
from streamfl.cli.main import cli
from streamfl.errors import UsageError
from streamfl.records.past_features import PastFeatures, PastOfClients, PastRecords

VALUES = st.floats(-1e6, 1e6, width=32) | st.just(np.nan)
RECORDS = st.lists(st.tuples(st.sampled_from("ew"), VALUES, VALUES), max_size=40)


def plant(n: int = 1200) -> pl.DataFrame:
    """Return records of three sites, whose label says whether x has risen above a mix of its last two values."""
    random, last = np.random.default_rng(1), dict[str, list[float]]()
    rows = []
    for site in random.choice(["east", "west", "north"], n):
        x, before = random.normal(), last.setdefault(site, [0.0, 0.0])
        rows.append({"site": site, "x": x, "label": "up" if x > before[-1] + 0.5 * before[-2] else "down"})
        before.append(x)
    return pl.DataFrame(rows)


class Spy(base.Classifier):
    """A classifier that keeps what it is given."""

    def __init__(self) -> None:
        self.learnt: list[dict[Any, Any]] = []
        self.predicted: list[dict[Any, Any]] = []

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        self.learnt.append(dict(x))

    def predict_one(self, x: dict[Any, Any]) -> None:
        self.predicted.append(dict(x))


OF_PLANT = {"label": "label", "split": "column:site", "drop": ["site"], "features": "rounds"}


@given(RECORDS, st.integers(1, 5), st.integers(2, 6))
def test_they_are_what_polars_makes_of_the_records_of_each_client(
    records: list[tuple[str, float, float]], lag: int, window: int
) -> None:
    schema = {"site": pl.String, "x": pl.Float64, "y": pl.Float64}
    frame = pl.DataFrame(records, schema=schema, orient="row")
    past, each = PastFeatures((lag,), window), pl.col("x", "y").fill_nan(None)
    names, X = PastOfClients(past).extended(list(frame["site"]), ("x", "y"), frame["x", "y"].to_numpy())
    assert names[2:4] == (f"x[-{lag}]", f"y[-{lag}]")
    made = each.shift(lag), each.rolling_mean(window, min_samples=1), (each - each.shift(window)) / window
    expected = np.hstack([frame.select(one.over("site").fill_null(np.nan)).to_numpy() for one in made])
    np.testing.assert_array_equal(X[:, 2:4], expected[:, :2])
    np.testing.assert_allclose(X[:, 4:], expected[:, 2:], rtol=1e-6, atol=1e-3)


def test_each_name_stands_for_its_values() -> None:
    names, X = PastOfClients(PastFeatures((2, 1), 2)).extended(
        ["c"] * 3, ("x", "y"), np.array([[1, 9], [2, 7], [6, 4]])
    )
    made = dict(zip(names, X[2].tolist(), strict=True))
    assert made == {
        "x": 6.0, "y": 4.0, "x[-2]": 1.0, "y[-2]": 9.0, "x[-1]": 2.0, "y[-1]": 7.0,
        "mean2(x)": 4.0, "mean2(y)": 5.5, "rate2(x)": 2.5, "rate2(y)": -2.5,
    }  # fmt: skip


@given(RECORDS, st.data())
def test_blocks_change_nothing(records: list[tuple[str, float, float]], data: st.DataObject) -> None:
    past, cut = PastFeatures((1, 3), 4), data.draw(st.integers(0, len(records)))
    clients, X = [one[0] for one in records], np.array([one[1:] for one in records]).reshape(-1, 2)
    before = PastOfClients(past)
    parts = [before.extended(clients[part], ("x", "y"), X[part])[1] for part in (slice(cut), slice(cut, None))]
    np.testing.assert_array_equal(np.vstack(parts), PastOfClients(past).extended(clients, ("x", "y"), X)[1])


def test_a_block_that_lacks_a_column_has_its_past() -> None:
    before = PastOfClients(PastFeatures((1,)))
    before.extended(["e", "w"], ("x", "y"), np.array([[1.0, 5.0], [2.0, 6.0]]))
    features, X = before.extended(["w", "e"], ("z", "x"), np.array([[7.0, 3.0], [8.0, 4.0]]))
    assert features == ("z", "x", "x[-1]", "y[-1]", "z[-1]")
    np.testing.assert_array_equal(X, [[7.0, 3.0, 2.0, 6.0, np.nan], [8.0, 4.0, 1.0, 5.0, np.nan]])


def test_what_lies_too_far_before_is_missing() -> None:
    positions, X = np.array([0, 1, REACH + 1, REACH + 3]), np.array([[1.0], [2.0], [3.0], [4.0]])
    made = PastFeatures((1,), 2).of(positions, X)
    np.testing.assert_array_equal(made[:, 0], [np.nan, 1.0, 2.0, 3.0])
    np.testing.assert_array_equal(made[:, 1], [1.0, 1.5, 2.5, 3.5])
    np.testing.assert_array_equal(made[:, 2], [np.nan, np.nan, np.nan, np.nan])


def test_names_that_keep_changing_take_no_memory_for_ever() -> None:
    last = PastRecords(PastFeatures((1,)))
    for i in range(100):
        last.extended(np.array([i]), (f"x{i}",), np.array([[1.0]]))
    assert (last.features, last.X.shape) == (("x99",), (1, 1))


def test_texts_times_and_what_is_called_like_them_have_no_past() -> None:
    past = PastFeatures((1,), without=("hour sin",))
    last, names = PastRecords(past), ("x", "c=red", "hour sin", "x[-1]", "y" * 256)
    features, X = last.extended(np.array([0, 1]), names, np.arange(10.0).reshape(2, 5))
    assert (features, X[1, -1]) == (("x", "c=red", "hour sin", "y" * 256, "x[-1]"), 0.0)


def test_a_label_that_depends_on_the_last_values_is_learnt_from_them(tmp_path: Path) -> None:
    """And `predict` makes the same features of the same file, by the column of clients that the model names."""
    frame, path, model = plant(), tmp_path / "plant.csv", tmp_path / "m.safetensors"
    frame.write_csv(path)
    plain, lagged = (streamfl.replay(path, **OF_PLANT, lags=lags) for lags in ([], [1, 2]))
    assert (plain.result.accuracy.prequential < 0.82, lagged.result.accuracy.prequential > 0.92) == (True, True)
    lagged.model.save(model)
    table = streamfl.read(path, label="label", split="column:site", drop=["site"], lags=[1, 2])
    expected = lagged.model.predict(table.X, table.features)
    ran = CliRunner().invoke(cli, ["predict", str(path), "--model", str(model), "--label", "label", "--csv", "-"])
    assert [line.split(",")[2] for line in ran.stdout.splitlines() if line[:1].isdigit()] == expected
    frame.drop("site").write_csv(path)
    ran = CliRunner().invoke(cli, ["predict", str(path), "--model", str(model)])
    assert "no column 'site', which would name their clients: all records count as those of one" in ran.stderr


def test_an_embedded_federation_has_the_lags_of_the_file_and_predicts_the_next_records_of_a_client() -> None:
    frame, past = plant(320).with_columns(at=pl.int_range(320) * 3600), {"lags": [1, 2], "window": 3}
    rounds, fields = {"clock": "records", "size": 10}, {"label": "label", "time": "at", "time_features": ["hour"]}
    tables = {
        "federation": {"min_clients": 3},
        "rounds": rounds,
        "records": {"fields": {**fields, "drop": ["site"]}, **past},
        "learning": {"features": "rounds"},
    }
    federation = streamfl.Federation(tables)
    for row in frame[:300].iter_rows(named=True):
        federation.learn(row["site"], row)
    options = {"label": "label", "split": "column:site", "drop": ["site"], "time": "at", "time_features": ["hour"]}
    table, model = streamfl.read(frame, **options, **past), federation.model()
    assert (model.past, model.registry.features) == (table.past, table.features)
    expected = np.array(model.predict(table.X[300:], table.features))
    for site in ("east", "west", "north"):
        asked = frame[300:].filter(pl.col("site") == site)
        for _ in range(2):
            assert federation.predict(site, asked) == expected[frame["site"][300:].to_numpy() == site].tolist()


def test_fields_without_number_leave_room_for_what_is_made_of_them() -> None:
    """Else a message with many fields would keep its client out: a coordinator refuses more names than it takes."""
    tables = {
        "federation": {"most_features": 14},
        "rounds": {"clock": "records", "size": 10},
        "records": {"lags": [1], "window": 2, "fields": {"time": "at", "time_features": ["hour"]}},
        "learning": {"features": "rounds"},
    }
    federation = streamfl.Federation(tables)
    for i in range(25):
        federation.learn("c", {"at": i, "label": "ab"[i % 2], **{f"x{j}": i for j in range(9)}})
    features = federation.model().registry.features
    assert (len(features), {*features} >= {"x0", "x2", "rate2(x2)", "hour sin"}, "x3" in features) == (
        14,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ({"records": {"lags": [1001]}}, "there is no lag of 1001 records; give numbers from 1 to 1000"),
        ({"records": {"lags": [1], "clients": "message-key"}}, 'so not clients = "message-key"; write each client'),
        ({"records": {"lags": [1], "format": "packed"}}, 'one record per message, which format = "packed" does not'),
        ({"records": {"window": 9, "topics": ["a"]}, "labels": {"topic": "b"}}, "leave labels.topic out, or let the"),
    ],
)
def test_a_live_federation_that_cannot_make_them_says_what_to_do(tables: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        streamfl.Federation(tables)


def test_river_makes_the_same_features_while_it_learns_during_predictions() -> None:
    """So there is no class of ours for it: docs/river.md says how."""
    frame, spy = plant(300), Spy()
    lags = fx.Agg("x", "site", stats.Shift(1)) + fx.Agg("x", "site", stats.Shift(2))
    pipeline = lags + fx.Agg("x", "site", utils.Rolling(stats.Mean, 3)) + compose.Select("x") | spy
    with compose.learn_during_predict():
        for row in frame.iter_rows(named=True):
            pipeline.predict_one(row)
            pipeline.learn_one(row, row["label"])
    _, X = PastOfClients(PastFeatures((1, 2), 3)).extended(list(frame["site"]), ("x",), frame[["x"]].to_numpy())
    names = ["x", "x_shift_1_by_site", "x_shift_2_by_site", "x_mean_by_site"]
    for found in (spy.predicted, spy.learnt):
        made = np.array([[np.nan if one[name] is None else one[name] for name in names] for one in found])
        np.testing.assert_allclose(made, X[:, :4], rtol=1e-5, atol=1e-6)


def test_a_bad_record_is_a_position_of_its_client(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    lines = ["site,x,label", "e,1,a", "w,5,a", *["w,5,"] * (REACH - 1), "w,6,a", "e,2,b", "e,3,"]
    path.write_text("\n".join(lines))
    table = streamfl.read(path, label="label", split="column:site", drop=["site"], lags=[1])
    np.testing.assert_array_equal(table.X[:, 1], [np.nan, np.nan, 5.0, 1.0])
    path.write_text("\n".join([*lines[:3], "w,5,", *lines[3:]]))
    table = streamfl.read(path, label="label", split="column:site", drop=["site"], lags=[1])
    np.testing.assert_array_equal(table.X[:, 1], [np.nan, np.nan, np.nan, 1.0])


def test_a_file_that_has_a_column_of_such_a_name_is_refused() -> None:
    frame = pl.DataFrame({"x": [1.0, 2.0], "x[-1]": [7.0, 8.0], "label": ["a", "b"]})
    with pytest.raises(UsageError, match=r'its column "x\[-1\]" has the name of what --lags or --window makes'):
        streamfl.read(frame, lags=[1])
    assert streamfl.read(frame, lags=[2]).features[:2] == ("x", "x[-1]")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"lags": [0]}, "there is no lag of 0 records; give numbers from 1 to 1000"),
        ({"lags": [1, 1]}, "a lag is named more than once"),
        ({"lags": ["x"]}, "'x': give whole numbers, such as 1,24"),
        ({"window": 1}, "there is no window of 1 records; give a number from 2 to 1000"),
        ({"window": 5, "drop": ["x"], "time": "at"}, "a series alone .* leave --lags and --window out"),
    ],
)
def test_what_cannot_be_made_is_refused(options: dict[str, object], why: str) -> None:
    frame = pl.DataFrame({"at": range(40), "x": [1.0, 2.0] * 20, "label": [i + 0.5 for i in range(40)]})
    with pytest.raises(UsageError, match=why):
        streamfl.read(frame, **options)
