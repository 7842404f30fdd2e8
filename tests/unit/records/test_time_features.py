"""The time of a record becomes the same features in a file, a message, a request, a dict and a program."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import streamfl
from streamfl.cli.main import cli
from streamfl.errors import UsageError
from streamfl.records.doubts.doubting import DoubtingOnce, Looks
from streamfl.records.encoding import Encoding
from streamfl.records.files.readers import read
from streamfl.records.formats import FieldMap, record_format
from streamfl.records.values.time_features import TimeFeatures
from streamfl.records.values.times import Notation

KINDS = ("hour", "weekday", "season")
NAMES = ("hour sin", "hour cos", "weekday sin", "weekday cos", "season sin", "season cos")
BERLIN = Notation("Europe/Berlin", "dmy")
# The hours around the change of clocks, which go forward at 02:00 on 29 March 2026; and times that are none.
DAYS = ["29.03.2026", "29.03.2026", "28.03.2026", "01.11.2026", "", "30.02.2026"]
CLOCKS = ["01:59", "03:00", "12:00", "23:59", "12:00", "12:00"]


def joined(days: list[str], clocks: list[str]) -> list[str]:
    return [f"{day} {clock}" if day else "" for day, clock in zip(days, clocks, strict=True)]


@pytest.mark.parametrize("in_two", [False, True])
def test_one_time_is_the_same_features_everywhere(in_two: bool, tmp_path: Path) -> None:
    columns = {"at": DAYS, "clock": CLOCKS} if in_two else {"at": joined(DAYS, CLOCKS)}
    rows = [dict(zip(columns, cells, strict=True)) | {"x": i, "label": "ab"[i % 2]}
            for i, cells in enumerate(zip(*columns.values(), strict=True))]  # fmt: skip
    path, time = tmp_path / "f.csv", ",".join(columns)
    pl.DataFrame(rows).write_csv(path)
    table = read(str(path), time=time, notation=BERLIN, time_features=KINDS)
    fields = FieldMap(time=time, timezone="Europe/Berlin", date_order="dmy", time_features=KINDS)
    message = record_format("json", fields).decode(range(len(rows)), [json.dumps(row).encode() for row in rows])
    encoding = Encoding(table.features, table.categories, time_features=table.time_features)
    features, X, _ = encoding.encoded({name: [row[name] for row in rows] for name in rows[0]})
    assert table.features == message.features == features == ("x", *NAMES)
    np.testing.assert_array_equal(table.X, message.X)
    np.testing.assert_array_equal(table.X, X)
    assert np.isnan(X[:, 1]).tolist() == [False] * 4 + [True] * 2
    if not in_two:
        encoder = streamfl.TimeEncoder("at", KINDS, "Europe/Berlin", "dmy")
        made = [[encoder.transform_one(row)[name] for name in features] for row in rows]
        np.testing.assert_array_equal(made, X)
        frame = encoder.transform_many(pl.DataFrame(rows))
        np.testing.assert_array_equal(frame.select(features).to_numpy(), X)


def test_angles_are_those_of_the_clocks_of_the_zone() -> None:
    midnight, noon, summer = (
        1_767_222_000.0,
        1_767_265_200.0,
        1_782_856_800.0,
    )  # 2026-01-01 0:00, 12:00; 2026-07-01 0:00
    X = TimeFeatures(("hour",), "at", BERLIN).of(np.array([midnight, noon, summer]))
    assert X.round(3).tolist() == [[0.0, 1.0], [0.0, -1.0], [0.0, 1.0]]
    monday = np.array([4 * 86400.0, 11 * 86400.0])
    assert TimeFeatures(("weekday",), "at").of(monday).tolist() == [[0.0, 1.0]] * 2


@given(st.lists(st.floats(-6e10, 2.5e11) | st.just(np.nan), max_size=20), st.data())
def test_features_depend_on_their_record_alone(times: list[float], data: st.DataObject) -> None:
    features = TimeFeatures(
        KINDS, "at", Notation(data.draw(st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"])))
    )
    cut = data.draw(st.integers(0, len(times)))
    parts = [features.of(np.array(part, np.float64)) for part in (times[:cut], times[cut:])]
    np.testing.assert_array_equal(np.vstack(parts), features.of(np.array(times, np.float64)))


def test_a_model_file_knows_how_times_become_features(tmp_path: Path) -> None:
    rows = [{"at": f"2026-03-0{1 + i // 24} {i % 24:02}:30", "x": i % 5, "y": "day" if 8 <= i % 24 < 20 else "night"}
            for i in range(200)]  # fmt: skip
    options = {"label": "y", "time": "at", "time_features": ["hour"], "timezone": "Europe/Berlin", "clients": 2}
    run = streamfl.replay(pl.DataFrame(rows), **options, features="rounds")
    run.model.save(tmp_path / "m.safetensors")
    model = type(run.model).load(tmp_path / "m.safetensors")
    assert model.encoding.columns == ("x", "at")
    asked = [{"at": "2026-04-01 13:00", "x": 0}, {"at": "2026-04-01 01:00", "x": 0}, {"at": 1_775_041_200, "x": 0}]
    assert model.predict(asked) == ["day", "night", "day"]
    assert next(iter(model.importances(rows[100:], [row["y"] for row in rows[100:]]))) == "at"
    with pytest.warns(UserWarning, match='column "at": 1 of 1 cells .* the time "noon" is not a date'):
        model.predict([{"at": "noon", "x": 0}])
    with pytest.warns(UserWarning, match="at of the model's features are missing"):
        model.predict([{"x": 0}])


@pytest.mark.parametrize(
    "form", ["f.csv", pytest.param("f.parquet", marks=pytest.mark.process), "f.jsonl", "two.csv"]
)
def test_times_of_any_file_are_features_of_the_same_file_that_is_predicted(form: str, tmp_path: Path) -> None:
    """Columns of times in Parquet are no features, and a column of times of day may be found beside that of days."""
    begin = datetime(2026, 3, 1)
    frame = pl.DataFrame(
        [{"at": begin + timedelta(hours=i), "x": i % 5, "y": "ab"[8 <= i % 24 < 20]} for i in range(200)]
    )
    if form == "two.csv":
        day, clock = pl.col("at").dt.strftime("%d.%m.%Y"), pl.col("at").dt.strftime("%H:%M")
        frame = frame.select(at=day, clock=clock, x="x", y="y")
    path, model = tmp_path / form, tmp_path / "m.safetensors"
    {"csv": frame.write_csv, "parquet": frame.write_parquet, "jsonl": frame.write_ndjson}[form.split(".")[1]](path)
    run = streamfl.replay(path, label="y", time="at", time_features=["hour"], clients=2, features="rounds")
    run.model.save(model)
    ran = CliRunner().invoke(cli, ["predict", str(path), "--model", str(model), "--label", "y", "--csv", "-"])
    right = [line.split(",")[1] == line.split(",")[2] for line in ran.stdout.splitlines() if line[:1].isdigit()]
    assert (len(right), np.mean(right) > 0.95) == (200, True)


def test_the_order_of_day_and_month_is_that_of_the_file_that_was_learnt(tmp_path: Path) -> None:
    frame = pl.DataFrame({"at": ["03/04/2026", "25/04/2026"] * 20, "x": range(40), "label": ["a", "b"] * 20})
    table = streamfl.read(frame, time="at", time_features=["season"])
    encoding = Encoding(table.features, {}, time_features=table.time_features)
    np.testing.assert_array_equal(encoding.encoded({"at": ["03/04/2026"], "x": [0]})[1][0], table.X[0])


def test_a_file_that_is_predicted_may_write_its_dates_otherwise_than_the_one_that_was_learnt(tmp_path: Path) -> None:
    """The hour is by the clocks of the training, in whatever zone and order the times are written."""
    begin = datetime(2026, 4, 1)
    hours = [begin + timedelta(hours=i) for i in range(0, 240)]
    frame = pl.DataFrame({"at": hours, "x": [i % 5 for i in range(240)]})
    frame = frame.with_columns(
        y=pl.when(pl.col("at").dt.hour().is_between(8, 19)).then(pl.lit("b")).otherwise(pl.lit("a"))
    )
    learnt, asked, model = tmp_path / "f.csv", tmp_path / "g.csv", tmp_path / "m.safetensors"
    frame.with_columns(pl.col("at").dt.strftime("%d/%m/%Y %H:%M")).write_csv(learnt)
    options = {"label": "y", "time": "at", "time_features": ["hour"], "timezone": "Asia/Tokyo", "date_order": "dmy"}
    streamfl.replay(learnt, **options, clients=2, features="rounds").model.save(model)
    in_utc = (pl.col("at") - pl.duration(hours=9)).dt.strftime("%m/%d/%Y %H:%M")
    frame.with_columns(in_utc).write_csv(asked)

    def predicted(path: Path, *more: str) -> list[str]:
        words = ["predict", str(path), "--model", str(model), "--unknown", "ignore", "--csv", "-", *more]
        return CliRunner().invoke(cli, words).stdout.splitlines()

    right = predicted(learnt)
    assert len(right) == 241
    assert predicted(asked, "--timezone", "UTC", "--date-order", "mdy") == right
    assert predicted(asked, "--date-order", "mdy") != right
    frame.with_columns(at=pl.lit("soon")).write_csv(asked)
    said = CliRunner().invoke(cli, ["predict", str(asked), "--model", str(model), "--label", "y"]).output
    what = (
        "column at: 240 cells from line 2 on cannot be read as a time and count as missing; the reason for the first"
    )
    assert f'{what} one: the time "soon" is' in " ".join(said.split())
    streamfl.replay(learnt, label="y", drop=["at"], clients=2, features="rounds").model.save(model)
    ran = CliRunner().invoke(cli, ["predict", str(learnt), "--model", str(model), "--date-order", "mdy"])
    assert "the model takes no times; leave --timezone and --date-order out" in str(ran.exception)


def test_an_embedded_federation_learns_from_the_hour_and_its_model_takes_the_time() -> None:
    fields = {"label": "y", "time": "at", "time_features": ["hour"]}
    tables = {
        "rounds": {"clock": "records", "size": 20},
        "records": {"fields": fields},
        "learning": {"features": "rounds"},
    }
    federation = streamfl.Federation(tables)
    rows = [{"at": i * 3600, "x": i % 5, "y": "day" if 8 <= i % 24 < 20 else "night"} for i in range(1, 400)]
    federation.learn("a", rows)
    asked = [{"at": "2026-04-01 13:00", "x": 0}, {"at": "2026-04-01 01:00", "x": 0}]
    assert federation.predict("a", asked) == federation.model().predict(asked) == ["day", "night"]


def test_what_a_record_calls_like_them_gives_way() -> None:
    form = record_format("json", FieldMap(time="at", time_features=("hour",)))
    found = form.decode([0], [b'{"hour sin": 7, "at": 0, "label": "a", "x": 3}'])
    assert (found.features, found.X.tolist()) == (("x", "hour sin", "hour cos"), [[3.0, 0.0, 1.0]])


def test_nobody_doubts_the_season_of_a_thousand_records() -> None:
    fields = FieldMap(time="at", time_features=KINDS)
    form = DoubtingOnce(record_format("json", fields), Looks(fields)).fresh()
    messages = [b'{"at": %d, "x": %d, "label": "a"}' % (1_780_000_000 + 60 * i, i % 7) for i in range(1000)]
    assert form.decode(range(1000), messages).remarks == ()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"time_features": ["hour"]}, "time features need the column of the times; name it with --time"),
        ({"time": "at", "time_features": ["moon"]}, "there is no time feature moon; there are hour, weekday, season"),
        ({"time": "at", "time_features": ["hour", "hour"]}, "named more than once"),
    ],
)
def test_time_features_that_cannot_be_made_are_refused(options: dict[str, object], why: str) -> None:
    frame = pl.DataFrame({"at": [1.7e9, 1.8e9], "x": [1.0, 2.0], "label": ["a", "b"]})
    with pytest.raises(UsageError, match=why):
        streamfl.read(frame, **options)
    with pytest.raises(ValueError, match=why.replace("--time", ".*")):
        FieldMap.model_validate(options)
