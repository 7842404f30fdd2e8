"""Estimators learn texts and gaps as they are, without an encoder."""

from pathlib import Path

import polars as pl
import pytest
from river import compose, preprocessing

from streamfl import MasterFLClassifier, MasterFLRegressor
from streamfl.run.model_file import ServedModel
from streamfl.sampling import generator

WINDS = ["N", "S", "north west"]


def estimator(**more):
    return MasterFLClassifier(**({"round_size": 20, "features": "linear", "seed": 1} | more))


def records(n=90):
    """Return records whose label follows from a text, which is missing now and then."""
    rng, made = generator(0, "winds"), []
    for _ in range(n):
        wind, t = WINDS[int(rng.integers(3))], float(rng.normal())
        x = {"wind": None if rng.random() < 0.1 else wind, "ok": bool(t > 0.0), "t": t, "x": None}
        made.append((x, "yes" if wind == "S" else "no"))
    return made


def learnt(model, pairs):
    """Return what is predicted for each record before it is learnt."""
    said = []
    for x, y in pairs:
        said.append(model.predict_proba_one(x))
        model.learn_one(x, y)
    return said


def test_a_text_predicts_the_label_that_follows_from_it():
    model, pairs = estimator(), records()
    learnt(model, pairs)
    assert [model.predict_one({"wind": wind}) for wind in WINDS] == ["no", "yes", "no"]
    assert model.summary["unusable"] == {}


def test_texts_are_learnt_as_one_hot_features_that_are_missing_before_their_first_appearance():
    pairs, seen, encoded = records(), [], []
    for x, y in pairs:
        wind = x["wind"]
        seen += [wind] if wind is not None and wind not in seen else []
        hot = {f"wind={one}": None if wind is None else float(wind == one) for one in seen}
        encoded.append(({"t": x["t"], "ok": float(x["ok"])} | hot, y))
    assert learnt(estimator(), pairs) == learnt(estimator(), encoded)


def test_a_key_that_is_absent_is_one_that_is_missing():
    pairs = records()
    without = [({name: value for name, value in x.items() if value is not None}, y) for x, y in pairs]
    assert learnt(estimator(), without) == learnt(estimator(), pairs)


def test_saved_and_loaded_an_estimator_knows_its_texts(tmp_path: Path):
    model, pairs = estimator(), records()
    learnt(model, pairs[:50])
    model.save(tmp_path / "model")
    again = MasterFLClassifier.load(tmp_path / "model")
    assert learnt(again, pairs[50:]) == learnt(model, pairs[50:])
    assert again.summary == model.summary


def test_saved_and_loaded_an_estimator_reads_units_and_leaves_out_what_it_left_out(tmp_path: Path):
    model = estimator(features="rounds")
    with pytest.warns(UserWarning, match="feature 'at' .* is left out"):
        model.learn_one({"v": "12 mV", "at": "2026-03-01 10:00"}, "no")
    model.save(tmp_path / "model")
    rows = MasterFLClassifier.load(tmp_path / "model")._rows
    found = rows.row({"v": "13 mV", "at": 5.0})
    assert (found.features, found.X.tolist(), found.unusable) == (("v",), [[13.0]], None)


def test_a_model_file_predicts_records_with_texts_as_the_estimator_does(tmp_path: Path):
    model, pairs = estimator(), records(80)  # whole rounds
    learnt(model, pairs)
    model.served(own=True).save(tmp_path / "model.safetensors")
    served = ServedModel.load(tmp_path / "model.safetensors")
    asked = [{**x, "wind": wind} for x, _ in pairs[:3] for wind in [*WINDS, "unheard of", None]]
    for x in asked:
        del x["x"]  # it never had a value, so no model knows it
    for x in asked:
        (p,) = served.predict_proba([x]).tolist()
        assert dict(zip(served.labels, p, strict=True)) == pytest.approx(model.predict_proba_one(x), rel=1e-9)


def test_a_frame_with_texts_is_learnt_as_its_records_one_by_one():
    loop, many = (estimator(last_answer=False) for _ in range(2))
    pairs = records()
    learnt(loop, pairs)
    frame = pl.DataFrame([x for x, _ in pairs])
    many.learn_many(frame[:30], [y for _, y in pairs[:30]])
    many.learn_many(frame[30:], [y for _, y in pairs[30:]])
    assert many.summary == loop.summary
    expected = [loop.predict_proba_one(x)["yes"] for x, _ in pairs]
    assert many.predict_proba_many(frame)["yes"].to_list() == pytest.approx(expected, rel=1e-9)


def test_targets_are_predicted_from_texts():
    model = MasterFLRegressor(round_size=20, features="linear")
    for x, _ in records():
        model.learn_one(x, 10.0 * WINDS.index(x["wind"] or "S"))
    assert model.predict_one({"wind": "north west"}) == pytest.approx(20.0, abs=5.0)
    assert model.predict_one({"wind": "N"}) == pytest.approx(0.0, abs=5.0)


def test_steps_of_a_pipeline_take_the_numbers_and_leave_the_texts():
    numbers = compose.Select("t") | preprocessing.StandardScaler()
    model = (numbers + compose.Select("wind", "ok")) | estimator()
    for x, y in records():
        model.predict_one(x)
        model.learn_one(x, y)
    assert [model.predict_one({"wind": wind, "t": 0.0, "ok": True}) for wind in WINDS] == ["no", "yes", "no"]


def test_what_is_refused_or_only_predicted_teaches_no_text():
    model = estimator()
    model.learn_one({"wind": "N"}, "a")
    model.predict_one({"wind": "S", "t": "x"})
    model.learn_one({"wind": "S"}, "a", w=0)
    with pytest.raises(ValueError, match="a label is None"):
        model.learn_one({"wind": "S"}, None)
    with pytest.raises(ValueError, match="more than 2000 features"):
        model.learn_one({"wind": "S", **{f"x{i}": 1.0 for i in range(2000)}}, "a")
    assert {name: column.features for name, column in model._rows.columns.items()} == {"wind": ("wind=N",)}
    assert [*model._rows.columns] == ["wind"]
