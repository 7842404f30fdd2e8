"""The file of the model: what it says of names that do not fit, and what is refused."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from streamfl import MasterFLClassifier, MasterFLRegressor
from streamfl.errors import UsageError
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging.merging import after
from streamfl.online.native.served import ServedNative
from streamfl.protocol.native.mixed import AgreedMixture
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.registry import Registry, TargetUnit
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.model_file import FORMAT, ServedModel
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.wire import codec

# Predicts "yes" where a > b.
REGISTRY = Registry(1, ("a", "b"), ("no", "yes"), np.zeros(2), np.ones(2))
MODEL = ServedModel("classification", "softmax", REGISTRY, np.array([[-1.0, 1.0], [1.0, -1.0], [0.0, 0.0]]))


def test_names_that_the_model_does_not_know_are_refused_unless_they_are_to_be_ignored():
    X = np.array([[2.0, 1.0, 9.0]])
    with pytest.raises(UsageError, match='does not know c; it knows a, b; leave them out, or say unknown="ignore"'):
        MODEL.predict(X, ("a", "b", "c"))
    assert MODEL.predict(X, ("a", "b", "c"), unknown="ignore") == ["yes"]


def test_a_model_warns_of_missing_features_unless_they_are_to_be_the_mean():
    with pytest.warns(UserWarning, match="b of the model's features are missing and count as their means"):
        assert MODEL.predict([[-1.0]], ("a",)) == ["no"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert MODEL.predict([[-1.0]], ("a",), missing="mean") == ["no"]


def test_no_known_name_at_all_is_refused_whatever_is_allowed():
    with pytest.raises(UsageError, match="knows none of these features; it knows a, b"):
        MODEL.predict([[1.0]], ("c",), missing="mean", unknown="ignore")


def test_a_name_that_occurs_twice_is_told_so():
    with pytest.raises(UsageError, match="features names a more than once; name each column once"):
        MODEL.predict([[1.0, 2.0]], ("a", "a"))


def test_infinity_is_a_missing_value():
    assert MODEL.predict([[np.inf, 1.0], [1.0, np.inf]], ("a", "b")) == ["no", "yes"]


@pytest.mark.parametrize("version", [1, 2, 3, True, -5])
def test_a_file_without_its_digest_is_refused_whatever_format_it_says(tmp_path: Path, version: object):
    path = tmp_path / "model"
    MODEL.save(path)
    plain, arrays = codec.unpack(path.read_bytes())
    assert plain["format"] == 3
    del plain["sha256"]
    path.write_bytes(codec.pack({**plain, "format": version}, arrays))
    with pytest.raises(UsageError, match=r"its digest is missing|: not |which streamfl 0\.1\.0 wrote"):
        ServedModel.load(path)


# --- records of any form ---------------------------------------------------------------------------------------

# Predicts "yes" where x > 0; being red is worth 10, blue nothing.
ENCODED = ServedModel(
    "classification",
    "softmax",
    Registry(1, ("x", "colour=blue", "colour=red"), ("no", "yes"), np.zeros(3), np.ones(3)),
    np.array([[-1.0, 1.0], [0.0, 0.0], [-5.0, 5.0], [0.0, 0.0]]),
    categories={"colour": ("blue", "red")},
    label="kind",
    left_out=("when",),
)
ROWS: dict[str, list[Any]] = {
    "kind": ["no"] * 5,
    "colour": ["blue", "red", "green", None, "blue"],
    "x": [2.0, -2.0, -2.0, 3.0, None],
}
PROBABILITIES = [1.0 / (1.0 + np.exp(-2.0 * score)) for score in (2.0, 3.0, -2.0, 3.0, 0.0)]
DICTS = [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)]


def pandas() -> Any:
    """Return pandas, which no part of this project requires."""
    return pytest.importorskip("pandas")


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: pandas().DataFrame(rows),
        lambda rows: pandas().DataFrame(rows).astype({"colour": "category", "x": "Float64"}),
        lambda rows: pandas().DataFrame(rows).astype({"colour": "string"}),
        pl.DataFrame,
        lambda rows: pl.DataFrame(rows).cast({"colour": pl.Categorical}),
        lambda _: DICTS,
        lambda _: [{name: value for name, value in one.items() if value is not None} for one in DICTS],
    ],
)
def test_records_of_every_form_are_encoded_as_in_training(form: Callable[[Any], Any]):
    records = form(ROWS)
    assert ENCODED.predict_proba(records)[:, 1] == pytest.approx(PROBABILITIES)
    assert ENCODED.predict(records) == ["yes", "yes", "no", "yes", "no"]


def test_rows_may_hold_texts_or_the_features_of_a_column():
    assert ENCODED.predict([[-2.0, "red"], ["3", "blue"], [None, ""]], ("x", "colour")) == ["yes", "yes", "no"]
    assert ENCODED.predict([[-2.0, 0, 1], [-2.0, 1, 0]], ("x", "colour=blue", "colour=red")) == ["yes", "no"]


def test_missing_columns_are_refused_if_asked():
    with pytest.raises(UsageError, match='x of the model\'s features are missing; add them, or say missing="mean"'):
        ENCODED.predict([{"colour": "red"}], missing="raise")
    with pytest.warns(UserWarning, match="^colour of the model's features are missing") as told:
        ENCODED.predict([{"x": 1.0}])
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ({"x": 1.0}, "give a list of records"),
        ([[1.0, 2.0]], "the columns have no names"),
        (np.ones((2, 2)), "the columns have no names"),
        ([{"x": 1.0, "weight": 2.0}], "does not know weight; it knows x, colour"),
    ],
)
def test_records_of_another_form_are_refused(records: Any, said: str):
    with pytest.raises(UsageError, match=said):
        ENCODED.predict(records, missing="mean")


def test_a_cell_that_is_no_number_is_missing_and_told():
    with pytest.warns(UserWarning, match='column "x": 1 of 2 cells are not numbers .* record 1: "much"') as told:
        assert (
            ENCODED.predict([{"x": 1.0}, {"x": "much"}], missing="mean")[1]
            == ENCODED.predict([{"x": None}], missing="mean")[0]
        )
    assert told[0].filename == __file__


def test_numbers_of_other_types_are_numbers_and_not_texts():
    for number in (np.float32(1.5), Decimal("1.5"), np.int64(2), np.bool_(True)):
        expected = ENCODED.predict_proba([{"x": float(number)}], missing="mean")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for records in ([{"x": number}], pl.DataFrame({"x": pl.Series([number], dtype=pl.Object)})):
                assert (ENCODED.predict_proba(records, missing="mean") == expected).all()


def test_a_model_reads_what_is_missing_as_its_training_did():
    model = replace(ENCODED, missing_values=("-1",), codes={"x": (-999.0,)})
    of = {"colour": "red"}
    missing = model.predict_proba([{"x": None, **of}]).tolist()
    assert model.predict_proba([{"x": -999, **of}]).tolist() == model.predict_proba([{"x": "-1", **of}]).tolist()
    assert model.predict_proba([{"x": -999, **of}]).tolist() == missing
    assert ENCODED.predict_proba([{"x": -999, **of}]).tolist() != missing


def test_no_records_have_no_predictions():
    assert ENCODED.predict([]) == []
    assert ENCODED.predict_proba(pl.DataFrame({"x": []})).shape == (0, 2)


def test_targets_have_no_probabilities():
    model = ServedModel("regression", "squared", Registry(1, ("x",), (), np.zeros(1), np.ones(1)), np.ones((2, 1)))
    assert model.predict([{"x": 2}]) == [3.0]
    with pytest.raises(UsageError, match="call predict"):
        model.predict_proba([{"x": 2}])


def test_targets_stay_within_those_of_the_run_and_a_tenth():
    known = Registry(1, ("x",), (), np.zeros(1), np.ones(1))
    model = ServedModel("regression", "squared", known, np.ones((2, 1)), extremes=(0.0, 2.0))
    assert model.predict([{"x": 1}, {"x": 2}, {"x": -9}]) == [2.0, 2.2, pytest.approx(-0.2)]


@pytest.mark.parametrize("extremes", [(2.0, 0.0), (1.0,), (0.0, np.inf)])
def test_impossible_extremes_of_targets_are_refused(tmp_path: Path, extremes: tuple[float, ...]):
    known = Registry(1, ("x",), (), np.zeros(1), np.ones(1))
    ServedModel("regression", "squared", known, np.ones((2, 1)), extremes=extremes).save(tmp_path / "model")
    with pytest.raises(UsageError, match=r"a least and a largest target|not a streamfl model file"):
        ServedModel.load(tmp_path / "model")


def test_a_replay_knows_the_targets_of_its_rounds():
    X, y = np.linspace(-1.0, 1.0, 60)[:, None], np.linspace(3.0, 101.0, 60)
    table = Table("t", ("x",), X, y, (), np.arange(60))
    settings = ReplaySettings(10, learning=LearningSettings(features="rounds"))
    assert Replay(table, deal(table, 3, "round-robin", 0), settings).run().model.extremes == pytest.approx(
        (3.0, 101.0), abs=1.0
    )


def test_an_estimator_knows_its_targets_also_after_it_was_saved(tmp_path: Path):
    model = MasterFLRegressor(round_size=10, features="rounds")
    for i in range(30):
        model.learn_one({"x": float(i % 10)}, float(i % 10))
    model.save(tmp_path / "saved")
    again = MasterFLRegressor.load(tmp_path / "saved")
    again.learn_one({"x": 0.0}, 20.0)
    for one, largest in ((model, 9.25), (again, 20.5)):
        assert one.served().extremes == (0.0, pytest.approx(largest, abs=0.5))
    assert model.served().predict([{"x": 1e6}])[0] <= 1.1 * 9.5


# --- explanations -------------------------------------------------------------------------------------------


def test_contributions_and_the_intercept_add_up_to_the_score():
    record = {"x": 0.5, "colour": "red"}
    why = ENCODED.explain(record)
    p = ENCODED.predict_proba([record])[0]
    assert why.predicted == "yes"
    assert why.probability == p[1]
    assert why.contributions == {"x": 0.5, "colour=blue": 0.0, "colour=red": 5.0}
    assert why.intercept + sum(why.contributions.values()) == pytest.approx(why.score)
    assert why.score == pytest.approx(0.5 * np.log(p[1] / p[0]))  # less the mean of the two outputs
    assert why.shares == {"rounds": 1.0}


def test_a_list_of_records_is_not_explained_as_one():
    with pytest.raises(UsageError, match="explain takes one record, a dict of its values by name"):
        MODEL.explain([{"a": 1.0, "b": 0.0}])


def test_a_logistic_model_is_explained_as_two_labels():
    registry = Registry(1, ("x",), ("no", "yes"), np.zeros(1), np.ones(1))
    model = ServedModel("classification", "logistic", registry, np.array([[4.0], [1.0]]))
    for x, label, score in ((1.0, "yes", 2.5), (-1.0, "no", 1.5)):
        why = model.explain({"x": x})
        assert (why.predicted, why.score, why.contributions) == (label, score, {"x": 2.0})


def test_a_target_is_explained_in_its_own_unit():
    registry = Registry(1, ("x",), (), np.array([1.0]), np.array([2.0]), TargetUnit(100.0, 10.0))
    model = ServedModel("regression", "squared", registry, np.array([[0.5], [0.1]]))
    why = model.explain({"x": 5.0})
    assert (why.predicted, why.score, why.contributions, why.intercept) == (111.0, 111.0, {"x": 10.0}, 101.0)
    assert why.probability is None


def test_a_client_that_has_drifted_alone_has_its_own_model():
    model = replace(MODEL, branches={"c7": -MODEL.weights}, clients=("c0", "c7"))
    records = [{"a": 2.0, "b": 1.0}]
    assert [model.predict(records, client=client) for client in ("", "c0", "c7")] == [["yes"], ["yes"], ["no"]]
    assert model.explain(records[0], client="c7").contributions == {"a": 2.0, "b": -1.0}
    with pytest.warns(UserWarning, match="^there is no way to tell which records belong to c7") as told:
        assert model.predict(records) == ["yes"]
    assert told[0].filename == __file__


def test_each_record_is_answered_for_the_client_that_its_column_names():
    own = {"site=east": -MODEL.weights, "7": -MODEL.weights}
    model = replace(MODEL, branches=own, client_column="site", clients=("site=east", "site=west", "7"))
    records = [{"a": 2.0, "b": 1.0, "site": site} for site in ("west", "east", "site=east", 7.0, None)]
    assert model.predict(records) == ["yes", "no", "no", "no", "yes"]
    assert [model.explain(one).predicted for one in records] == ["yes", "no", "no", "no", "yes"]
    assert model.predict(records, client="west") == ["yes"] * 5
    with pytest.warns(UserWarning, match="column 'site' would, but is missing"):
        model.predict([{"a": 2.0, "b": 1.0}])


def test_a_name_of_which_a_file_cannot_say_whether_it_is_a_client_is_warned_of_wherever_it_comes_from():
    model = replace(MODEL, branches={"site=east": -MODEL.weights}, client_column="site")
    records = [{"a": 2.0, "b": 1.0, "site": site} for site in ("esat", "east", None)]
    doubt = "^the model does not say whether a client is called esat{}; only site=east have models of their own"
    with pytest.warns(UserWarning, match=doubt.format(", which column 'site' names")):
        assert model.predict(records) == ["yes", "no", "yes"]
    with pytest.warns(UserWarning, match=doubt.format("")):
        assert model.predict(records, client="esat") == ["yes"] * 3
    for known in ("east", "site=east", ""):
        model.predict(records, client=known)  # no warning


def test_a_client_that_is_named_fills_in_the_column_of_clients():
    registry = Registry(1, ("x", "site=east", "site=west"), ("no", "yes"), np.zeros(3), np.ones(3))
    W = np.array([[0.0, 0.0], [-1.0, 1.0], [1.0, -1.0], [0.0, 0.0]])
    categories = {"site": ("east", "west")}
    model = ServedModel("classification", "softmax", registry, W, categories=categories, client_column="site")
    for client in ("east", "site=east", "west"):
        whole = model.predict_proba([{"x": 1.0, "site": client.removeprefix("site=")}])
        assert model.predict_proba([{"x": 1.0}], client=client).tolist() == whole.tolist()  # and no warning
    with pytest.warns(UserWarning, match="site of the model's features are missing"):
        model.predict([{"x": 1.0}])


# --- models that learn record by record --------------------------------------------------------------------


def native(settings: NativeSettings) -> ServedModel:
    """Return a model of two clients that have learnt records of three labels, or targets."""
    rng, agreed = np.random.default_rng(1), NativeState.none(settings)
    labels = () if settings.targets else ("u", "v", "w")
    clients = [NativeLearner(settings), NativeLearner(settings)]
    for _ in range(5):
        parts = []
        for client in clients:
            client.begin(replace(agreed, table=agreed.table.copy()))
            X = rng.normal(size=(100, 2)) * [1.0, 10.0] + [5.0, 0.0]
            y = 3.0 * X[:, 0] if settings.targets else (X[:, 0] > 5.0).astype(int) + (X[:, 1] > 0.0)
            client.learn(("a", "b"), X, y.astype(float), labels)
            parts.append(client.learnt())
        agreed, _ = after(agreed, parts, labels, settings=settings)
    registry = Registry(1, ("b", "a"), labels, np.zeros(2), np.ones(2), TargetUnit(15.0, 3.0))
    return ServedModel(
        "regression" if settings.targets else "classification",
        "squared" if settings.targets else "softmax",
        registry,
        0.1 * rng.normal(size=(3, len(labels) or 1)),
        native=ServedNative.of(settings, agreed),
    )


RECORD = {"a": 5.5, "b": -3.0}


@pytest.mark.compiles
def test_a_client_that_has_drifted_alone_is_answered_by_its_model_as_its_branch_mixes_it_with_all_others(
    tmp_path: Path,
):
    model = native(NativeSettings())
    W = np.random.default_rng(2).normal(size=model.weights.shape)
    branched = replace(model, branches={"c7": W}, clients=("c0", "c7"))
    alone = replace(branched, native=None, weights=W)
    records = [{"a": 2.0, "b": 1.0}, {"a": 7.0, "b": -9.0}]
    assert branched.predict_proba(records, client="c7") == pytest.approx(alone.predict_proba(records, client=""))
    why = branched.explain(records[0], client="c7")
    assert why.shares == {"rounds": 1.0}
    assert why == alone.explain(records[0], client="")
    assert model.native is not None
    mixture = AgreedMixture.equal(len(model.native.settings.experts))
    agreed = replace(model.native.agreed, branches={"branch-4": mixture})
    mixed = replace(branched, native=replace(model.native, agreed=agreed), branch_of={"c7": "branch-4"})
    as_all = replace(model, weights=W, native=replace(model.native, agreed=replace(agreed, mixture=mixture)))
    mixed.save(tmp_path / "model")
    for file in (mixed, ServedModel.load(tmp_path / "model")):
        assert file.predict_proba(records, client="c7") == pytest.approx(as_all.predict_proba(records))
        assert file.explain(records[0], client="c7").shares == as_all.explain(records[0]).shares
        assert file.predict_proba(records, client="c0") == pytest.approx(model.predict_proba(records))


@pytest.mark.compiles
@pytest.mark.parametrize("targets", [False, True])
@pytest.mark.parametrize("features", ["linear", "auto", "ferns"])
def test_a_file_keeps_the_models_that_learn_record_by_record(features: Any, targets: bool, tmp_path: Path):
    model = native(NativeSettings(features, targets=targets, seed=4))
    own = {"site=c7": np.ones(model.weights.shape)}
    model = replace(model, branches=own, client_column="site", clients=("site=c7", "c1", "another"))
    model.save(tmp_path / "model")
    read = ServedModel.load(tmp_path / "model")
    X = np.random.default_rng(2).normal([5.0, 0.0], 1.0, (50, 2))
    assert read.predict(X, ("a", "b"), client="c1") == model.predict(X, ("a", "b"), client="c1")
    assert read.native is not None
    assert read.native.settings.neighbours is False
    for client in ("c7", "another"):
        assert read.explain(RECORD, client=client) == model.explain(RECORD, client=client)


@pytest.mark.compiles
def test_the_models_that_learn_record_by_record_predict():
    model = native(NativeSettings("auto"))
    model = replace(model, weights=np.zeros_like(model.weights))  # as it was while they learnt
    X = np.random.default_rng(2).normal([5.0, 0.0], [1.0, 10.0], (500, 2))
    y = np.array(["u", "v", "w"])[(X[:, 0] > 5.0).astype(int) + (X[:, 1] > 0.0)]
    assert np.mean(np.array(model.predict(X, ("a", "b"))) == y) > 0.9
    assert np.mean(np.array(replace(model, native=None).predict(X, ("a", "b"))) == y) < 0.6


@pytest.mark.compiles
def test_the_linear_experts_are_explained_by_their_shares():
    model = native(NativeSettings("linear"))
    assert model.native is not None
    why = model.explain(RECORD)
    assert sum(why.shares.values()) == pytest.approx(1.0)
    assert why.shares.keys() == {"linear-10", "whitened-0.01", "whitened-0.1", "rounds"}
    assert why.intercept + sum(why.contributions.values()) == pytest.approx(why.score)
    # By hand: standardise with the agreed moments, multiply, subtract the mean over labels.
    moments = model.native.agreed.moments
    z = np.array([1.0, *((np.array([5.5, -3.0]) - moments.mean) / np.sqrt(moments.variance))])
    outputs = {name: z @ model.native.agreed.weights[:, m] for m, name in enumerate(model.native.settings.names)} | {
        "rounds": np.array([-3.0, 5.5, 1.0]) @ model.weights
    }
    best = model.labels.index(str(why.predicted))
    score = sum(why.shares[name] * (out[best] - out.mean()) for name, out in outputs.items())
    assert why.score == pytest.approx(score)
    assert why.probability == model.predict_proba([RECORD]).max()


@pytest.mark.compiles
def test_a_target_of_all_experts_is_explained_up_to_what_ferns_say():
    model = native(NativeSettings("linear", targets=True))
    why = model.explain(RECORD)
    assert why.intercept + sum(why.contributions.values()) == pytest.approx(why.score)
    assert isinstance(why.predicted, float)
    assert why.score == pytest.approx(why.predicted, abs=1.0)
    assert why.predicted == pytest.approx(16.5, abs=1.0)


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (lambda native: replace(native, cells=native.cells + 1e6), "rows that the table"),
        (lambda native: replace(native, cells=native.cells[[0] * len(native.cells)]), "rows of online models"),
        (
            lambda native: replace(native, settings=NativeSettings("linear", neighbours=False, last_answer=False)),
            "rows that the table",
        ),
        (lambda native: replace(native, settings=NativeSettings("ferns", neighbours=False)), "a client's own"),
        (lambda native: replace(native, settings=NativeSettings("ferns", last_answer=False)), "a client's own"),
        (lambda native: replace(native, agreed=replace(native.agreed, labels=("u", "v", "x"))), "for other labels"),
        (lambda native: replace(native, agreed=replace(native.agreed, norms=np.full(2, np.nan))), "do not fit"),
    ],
)
def test_a_file_whose_models_do_not_fit_is_refused(lie: Callable[[Any], Any], said: str, tmp_path: Path):
    model = native(NativeSettings("ferns"))
    replace(model, native=lie(model.native)).save(tmp_path / "model")
    with pytest.raises(UsageError, match=f"not a streamfl model file: it has .*{said}"):
        ServedModel.load(tmp_path / "model")


def test_a_file_whose_weights_do_not_fit_is_refused(tmp_path: Path):
    replace(MODEL, weights=np.ones((2, 2))).save(tmp_path / "model")
    with pytest.raises(UsageError, match="weights that do not fit its names"):
        ServedModel.load(tmp_path / "model")


def test_the_page_says_which_formats_are_read():
    said = (Path(__file__).parents[3] / "docs" / "output.md").read_text()
    assert f"This version writes and reads files of format {FORMAT}, as" in said


def test_what_a_model_looks_at_is_important_a_text_column_as_a_whole_and_nothing_else():
    registry = Registry(1, ("n", "c=a", "c=b", "x"), (), np.zeros(4), np.ones(4))
    W = np.array([[0.0], [-3.0], [3.0], [0.5], [0.0]])
    model = ServedModel("regression", "squared", registry, W, categories={"c": ("a", "b")})
    rng = np.random.default_rng(1)
    records = [{"n": rng.normal(), "c": "ab"[i % 2], "x": rng.normal()} for i in range(60)]
    truth = model.predict(records)
    found = model.importances(records, truth)
    assert list(found) == ["c", "x", "n"]
    assert found["c"] > 5 * found["x"] > 0.0 == found["n"]
    assert found == model.importances(records, truth)
    for few in (records[:1], records[:5]):
        with pytest.raises(UsageError, match="give two records or more"):
            model.importances(few, truth[:1])


@pytest.mark.parametrize("names", [("1", "2"), ("1.0", "2.0")], ids=["of records", "of an estimator"])
@pytest.mark.parametrize(
    "form",
    [
        list,
        np.array,
        lambda truth: list(np.array(truth, np.float32)),
        lambda truth: list(map(int, truth)),
        lambda truth: list(map(str, truth)),
        pl.Series,
        lambda truth: pandas().Series(truth, index=range(9, 9 + len(truth))),
    ],
)
def test_a_label_is_the_same_however_the_truth_writes_it(form: Callable[[Any], Any], names: tuple[str, ...]):
    model = replace(MODEL, registry=replace(REGISTRY, labels=names))
    records = np.random.default_rng(1).normal(size=(40, 2))
    truth = [float(answer) for answer in model.predict(records, ("a", "b"))]
    found = model.importances(records, form(truth), ("a", "b"))
    assert found["a"] > 0.1 < found["b"]


@pytest.mark.parametrize(
    ("truth", "said"),
    [
        (["1", "one", "2"], 'truth 1: "one" is not a number; leave its record out'),
        ([1.0, 2.0, float("nan")], "truth 2: the label is missing"),
        ([1.0, np.inf, None], "truth 1: the label is infinite"),
        (np.array([[1.0], [2.0], [3.0]]), "truth 0: .* is not a number"),
    ],
)
def test_a_target_that_is_none_is_named(truth: Any, said: str):
    registry = Registry(1, ("a",), (), np.zeros(1), np.ones(1))
    model = ServedModel("regression", "squared", registry, np.array([[1.0], [0.0]]))
    records = np.array([[1.0], [2.0], [3.0]])
    with pytest.raises(UsageError, match=said):
        model.importances(records, truth, ("a",))
    assert model.importances(records, ["1", "2.0", 3], ("a",))["a"] > 0.0
    with pytest.raises(UsageError, match="truth 1: the label is missing"):
        MODEL.importances(records.repeat(2, axis=1), ["no", None, "yes"], ("a", "b"))


def test_an_estimators_shared_model_is_saved_and_predicts_what_it_learnt(tmp_path):
    estimator = MasterFLClassifier(features="rounds", round_size=20, client="site")
    with pytest.raises(UsageError, match="no round was closed yet"):
        estimator.served()
    rng = np.random.default_rng(2)
    records = [{"x": rng.normal(), "site": i % 2} for i in range(200)]
    for record in records:
        estimator.learn_one(record, record["x"] > 0.0)
    model = estimator.served()
    answers = model.predict(records)
    assert np.mean([answer == str(record["x"] > 0.0) for answer, record in zip(answers, records, strict=True)]) > 0.9
    assert model.explain(records[0]).contributions["x"] != 0.0
    model.save(tmp_path / "m.safetensors")
    assert ServedModel.load(tmp_path / "m.safetensors").predict(records) == answers
    with pytest.raises(UsageError, match="a model of others"):
        MasterFLClassifier(model="river:linear_model.SoftmaxRegression").served()


def test_a_column_without_a_value_is_no_feature_and_may_be_in_records_all_the_same() -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=200), np.full(200, np.nan)])
    table = Table("t", ("a", "void"), X, (X[:, 0] > 0.0).astype(float), ("low", "high"), np.arange(200))
    settings = ReplaySettings(20, learning=LearningSettings(features="rounds"))
    replay = Replay(table, deal(table, 2, "round-robin", 0), settings)
    replay.run()
    model = replay._model()
    assert model.registry.features == ("a",)
    assert model.predict([{"a": 3.0, "void": None}, {"a": -3.0}]) == ["high", "low"]
    with pytest.raises(UsageError, match="does not know other"):
        model.predict([{"a": 3.0, "other": 1.0}])
