"""An estimator that was saved goes on as if nothing had happened."""

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from river import datasets

from streamfl import MasterFLClassifier, MasterFLRegressor
from streamfl.errors import UsageError
from streamfl.run.estimators.embedded import EmbeddedFederation
from streamfl.sampling import generator
from streamfl.wire import codec, safe_file

pytestmark = pytest.mark.compiles

Saved = tuple[dict[str, Any], dict[str, np.ndarray]]
Edit = Callable[[dict[str, Any], dict[str, np.ndarray]], object]


def phishing(first: int, last: int) -> list[tuple[dict[str, float], bool]]:
    return list(islice(datasets.Phishing(), first, last))


@pytest.mark.parametrize("features", ["auto", "linear", "rounds"])
@pytest.mark.parametrize("learnt", [0, 7, 45])
def test_a_saved_estimator_continues_to_the_last_bit(features: str, learnt: int, tmp_path: Path):
    model = MasterFLClassifier(round_size=20, features=features, seed=3)
    for x, y in phishing(0, learnt):
        model.learn_one(x, y)
    model.save(tmp_path / "model")
    again = MasterFLClassifier.load(tmp_path / "model")
    for x, y in phishing(learnt, learnt + 50):
        assert again.predict_proba_one(x) == model.predict_proba_one(x)
        again.learn_one(x, y)
        model.learn_one(x, y)
    assert again.summary == model.summary


@pytest.mark.parametrize("learnt", [100, 133])
def test_the_last_answer_is_saved_and_serves_on_to_the_last_bit(learnt: int, tmp_path: Path):
    rng = generator(4, "runs")
    records = [({"site": i % 2, "x": float(rng.normal())}, "abc"[i // 10 % 3]) for i in range(200)]
    model = MasterFLClassifier(round_size=20, features="linear", client="site", seed=3)
    for x, y in records[:learnt]:
        model.learn_one(x, y)
    model.save(tmp_path / "model")
    again = MasterFLClassifier.load(tmp_path / "model")
    assert again.summary["serving"]["last-answer"] > 0.1
    for x, y in records[learnt:]:
        assert again.predict_proba_one(x) == model.predict_proba_one(x)
        again.learn_one(x, y)
        model.learn_one(x, y)
    for one in (model, again):
        one.save(tmp_path / f"{one is model}")
    saved = [codec.unpack((tmp_path / name).read_bytes()) for name in ("True", "False")]
    lasts = [[client["last"] for client in plain["federation"]["clients"]] for plain, _ in saved]
    assert [[_filled(last, arrays) for last in part] for part, (_, arrays) in zip(lasts, saved, strict=True)] == [
        [_filled(last, saved[0][1]) for last in lasts[0]]
    ] * 2


def _filled(plain: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return plain data with the bytes of arrays in place of references."""
    if isinstance(plain, dict):
        name = plain.get(codec.REFERENCE)
        return {k: _filled(v, arrays) for k, v in plain.items()} if name is None else arrays[name].tobytes()
    return plain


def test_several_clients_and_a_target_are_saved_too(tmp_path: Path):
    records = [({"site": f"s{i % 3}", "x": i % 7}, 2.0 * (i % 7)) for i in range(100)]
    model = MasterFLRegressor(round_size=10, client="site")
    for x, y in records[:64]:
        model.learn_one(x, y)
    model.save(tmp_path / "model")
    again = MasterFLRegressor.load(tmp_path / "model")
    for x, y in records[64:]:
        assert again.predict_one(x) == model.predict_one(x)
        again.learn_one(x, y)
        model.learn_one(x, y)


def test_a_file_that_is_no_saved_estimator_is_refused_by_name(tmp_path: Path):
    path = tmp_path / "model"
    with pytest.raises(UsageError, match="cannot be read"):
        MasterFLClassifier.load(path)
    path.write_bytes(b"hello")
    with pytest.raises(UsageError, match="not a file that an estimator was saved to"):
        MasterFLClassifier.load(path)
    MasterFLRegressor().save(path)
    with pytest.raises(UsageError, match="holds a MasterFLRegressor"):
        MasterFLClassifier.load(path)
    MasterFLClassifier().save(path)
    data = path.read_bytes()
    assert data.count(b'"format":4') == 1
    for other, why in ((9, "format 9; this version of streamfl reads formats up to 4"), (2, r"0\.1\.0 wrote")):
        path.write_bytes(data.replace(b'"format":4', b'"format":%d' % other))
        with pytest.raises(UsageError, match=why):
            MasterFLClassifier.load(path)
    with pytest.raises(UsageError, match="cannot be written"):
        MasterFLClassifier().save(tmp_path / "nowhere" / "model")


# --- labels ------------------------------------------------------------------------------------------------------


def test_labels_keep_their_order_whatever_was_refused_between_them(tmp_path: Path):
    model = MasterFLClassifier(features="linear")
    model.learn_one({"a": 1}, "a")
    with pytest.raises(ValueError, match="a record is a list"):
        model.learn_one([1], "z")
    model.learn_one({"a": 1}, "zero", w=0)
    for i in range(50):
        model.learn_one({"a": i % 2}, "ab"[i % 2])
    model.save(tmp_path / "model")
    again = MasterFLClassifier.load(tmp_path / "model")
    for i in range(60):
        assert again.predict_proba_one({"a": i % 2}) == model.predict_proba_one({"a": i % 2})
        again.learn_one({"a": i % 2}, "ab"[i % 2])
        model.learn_one({"a": i % 2}, "ab"[i % 2])
    assert [again.predict_one({"a": i}) for i in (0, 1)] == ["a", "b"]
    assert list(again.predict_proba_one({"a": 1})) == ["a", "b"]


# --- damaged files -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Return what a file holds, without its digest: 110 records of three labels, rounds of 40."""
    path = tmp_path_factory.mktemp("saved") / "model"
    model, rng = MasterFLClassifier(seed=1, round_size=40, features="linear"), generator(0, "saved")
    for i in range(110):
        model.learn_one(dict(zip("abc", rng.normal(size=3).tolist(), strict=True)), "abc"[i % 3])
    model.save(path)
    plain, arrays = codec.unpack(path.read_bytes())
    plain.pop("sha256")
    return plain, arrays


def write(path: Path, plain: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    whole = {name: np.ascontiguousarray(array, dtype=np.float64) for name, array in arrays.items()}
    signed = {safe_file.DIGEST: safe_file.digest(plain, whole), **plain}
    path.write_bytes(safetensors.numpy.save(whole, metadata={codec.METADATA: json.dumps(signed)}))


def written(base: Saved, path: Path) -> MasterFLClassifier:
    write(path, *base)
    return MasterFLClassifier.load(path)


def put(*place: str | int, value: Any) -> Edit:
    """Return an edit: of the array there if the value is one, else of the value."""

    def edit(plain: Any, arrays: dict[str, np.ndarray]) -> None:
        for key in place[:-1]:
            plain = plain[key]
        if isinstance(value, np.ndarray):
            arrays[plain[place[-1]][codec.REFERENCE]] = value
        else:
            plain[place[-1]] = value

    return edit


CLIENT = ("federation", "clients", 0)
ONLINE = ("federation", "state", "online")
DAMAGES = {
    "y below 0": put(*CLIENT, "pending", 3, "y", value=np.array([-1.0])),
    "y beyond the labels": put(*CLIENT, "pending", 3, "y", value=np.array([3.0])),
    "y of another world": put(*CLIENT, "pending", 3, "y", value=np.array([1e18])),
    "y is NaN": put(*CLIENT, "pending", 3, "y", value=np.array([np.nan])),
    "y is not whole": put(*CLIENT, "pending", 3, "y", value=np.array([0.5])),
    "y too long": put(*CLIENT, "pending", 3, "y", value=np.zeros(5)),
    "X too long": put(*CLIENT, "pending", 3, "X", value=np.zeros((2000, 3))),
    "X too narrow": put(*CLIENT, "pending", 3, "X", value=np.zeros((1, 1))),
    "X too wide": put(*CLIENT, "pending", 0, "X", value=np.zeros((1, 9))),
    "X flat": put(*CLIENT, "pending", 3, "X", value=np.zeros(3)),
    "positions not whole": put(*CLIENT, "pending", 3, "positions", value=np.array([np.nan])),
    "features twice": put(*CLIENT, "pending", 3, "features", value=["a", "a", "b"]),
    "labels anew": put(*CLIENT, "pending", 3, "labels", value=["c", "b", "a"]),
    "labels of nobody": put(*CLIENT, "pending", 3, "labels", value=["a", "b", "c", "d"]),
    "held labels": put(*CLIENT, "held", "labels", value=["6", "7", "8"]),
    "held y": put(*CLIENT, "held", "y", value=np.full(5, 77.0)),
    "held X": put(*CLIENT, "held", "X", value=np.zeros((5, 1))),
    "mixture of another shape": put(*CLIENT, "mixture", "best", value=np.ones(3)),
    "mixture of shape 1": put(*CLIENT, "began", "best", value=np.ones(1)),
    "mixture is NaN": put(*CLIENT, "mixture", "stacked", value=np.full((2, 6), np.nan)),
    "mixture below 0": put(*CLIENT, "mixture", "outer", value=-np.ones(3)),
    "mixture of nothing": put(*CLIENT, "mixture", "best", value=np.zeros(6)),
    "mixture norm": put(*CLIENT, "mixture", "norm", value=-1.0),
    "mixture variance": put(*CLIENT, "mixture", "variance", value=float("nan")),
    "mixture seen": put(*CLIENT, "mixture", "seen", value=-1),
    "mixture seen, far too much": put(*CLIENT, "mixture", "seen", value=2**2000),
    "neighbours' numbers": put(*CLIENT, "neighbours", "Z", value=np.full((1000, 3), np.nan)),
    "neighbours' seen": put(*CLIENT, "neighbours", "seen", value=2**63 - 50),
    "last label": put(*CLIENT, "last", "label", value=3),
    "last label's counts": put(*CLIENT, "last", "counts", value=np.full((3, 16), np.nan)),
    "what followed a label": put(*CLIENT, "last", "following", value=np.full((3, 16), 3.0)),
    "the last target": put(*CLIENT, "last", "target", value=np.full(5, np.inf)),
    "the last answer's mixture": put(*CLIENT, "last", "mixture", "best", value=np.full(2, -1.0)),
    "the last answer's mixture of another shape": put(*CLIENT, "last", "mixture", "best", value=np.ones(4)),
    "no neighbours": put(*CLIENT, "neighbours", value=None),
    "read": put(*CLIENT, "read", value=-5),
    "since": put("federation", "since", value=-(10**9)),
    "contributors": put("federation", "contributors", value=["nobody"]),
    "incarnation": put("federation", "incarnation", value=-7),
    "no clients": put("federation", "clients", value=[]),
    "federation's labels": put("federation", "labels", value=["a"]),
    "estimator's labels": put("labels", value=["a"]),
    "labels twice": put("labels", value=["a", "b", "b"]),
    "labels in another order": put("labels", value=["c", "b", "a"]),
    "weighed": put("weighed", value=-1),
    "what was learnt is NaN": put(*ONLINE, "second", value=np.full((4, 4), np.nan)),
    "what was learnt from -81": put(*ONLINE, "seen", value=-81),
    "moments below 0": put(*ONLINE, "moments", "count", value=-np.ones(3)),
    "models of the round": put("federation", "state", "profile", "main", "rungs", 2, "W", value=np.zeros((1, 1))),
    "registry": put("federation", "state", "agreement", "registry", "features", value=["a"]),
    "a parameter too many": put("parameters", "nonsense", value=1),
    "features": put("parameters", "features", value="quux"),
    "other features": put("parameters", "features", value="ferns"),
    "neighbours": put("parameters", "neighbours", value=False),
    "last answer": put("parameters", "last_answer", value=False),
    "round_size": put("parameters", "round_size", value=0),
    "seed": put("parameters", "seed", value="x"),
    "model": put("parameters", "model", value="river:no.Such"),
    "detector": put("parameters", "detector", value=[1]),
    "parameters": put("parameters", value=[]),
    "a column of two kinds": put("columns", "categories", value={"a": ["N"]}),
    "values twice": put("columns", "categories", value={"wind": ["N", "N"]}),
    "too many values": put("columns", "categories", value={"wind": [f"n{i}" for i in range(51)]}),
    "counts of nothing": put("columns", "unusable", value={"nothing": 1}),
    "errors": put(*CLIENT, "errors", value={"errors": [1e999], "levels": [0.1, 0.5, 0.9]}),
    "levels": put(*CLIENT, "errors", value={"errors": [1.0], "levels": [0.1]}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_by_name(damage: str, base: Saved, tmp_path: Path):
    path, (plain, arrays) = tmp_path / "model", copy.deepcopy(base)
    DAMAGES[damage](plain, arrays)
    write(path, plain, arrays)
    with pytest.raises(UsageError, match=f"^{re.escape(str(path))}: "):
        MasterFLClassifier.load(path)


def test_the_file_that_is_damaged_above_is_good_itself(base: Saved, tmp_path: Path):
    assert set(written(base, tmp_path / "model").predict_proba_one({"a": 1.0})) == {"a", "b", "c"}


def test_targets_that_are_no_numbers_are_damage(tmp_path: Path):
    path, model = tmp_path / "model", MasterFLRegressor(round_size=40, features="linear")
    for i in range(50):
        model.learn_one({"a": i % 3}, float(i % 3))
    model.save(path)
    plain, arrays = codec.unpack(path.read_bytes())
    plain.pop("sha256")
    put(*CLIENT, "pending", 3, "y", value=np.array([np.inf]))(plain, arrays)
    write(path, plain, arrays)
    with pytest.raises(UsageError, match="damaged: the records of client 'c0' do not fit"):
        MasterFLRegressor.load(path)


@pytest.mark.parametrize(("task", "kind"), [("classification", "labels"), ("regression", "targets")])
def test_a_federation_takes_one_label_or_target_a_record(task: Any, kind: str):
    federation = EmbeddedFederation(task, round_size=5)
    with pytest.raises(ValueError, match=f"3 records but 4 {kind}: give one for each record"):
        federation.learn("", ("x",), np.zeros((3, 1)), np.zeros(4), ("a",))
    assert federation.clients == ()


BAR = """
from dataclasses import dataclass
from typing import Literal
from streamfl.learning.drift.detector import ScoreDetector
from streamfl.protocol.alarm import Alarm, Reading


@dataclass
class Bar(ScoreDetector):
    bar: float = 0.5
    kind: Literal["bar"] = "bar"
    reading: Reading | None = None

    def take(self, t, loss, records):
        return Alarm("bar", loss, self.bar, since=t) if loss > self.bar else None

    def reset(self, *, filled=False):
        self.reading = None
"""

SAVES = "from streamfl import MasterFLClassifier as M; m = M(features='rounds', detector='bar', round_size=5); "
LOADS = "from streamfl import MasterFLClassifier as M; print(M.load({path!r}).detector)"


@pytest.mark.process
@pytest.mark.full
def test_a_detector_of_another_package_is_imported_when_a_file_with_it_is_read(tmp_path: Path) -> None:
    about = tmp_path / "bar-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bar\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[streamfl.detectors]\nbar = bar_package:Bar\n")
    (tmp_path / "bar_package.py").write_text(BAR)
    path = str(tmp_path / "bar.streamfl")
    learns = f"[m.learn_one({{'x': float(i % 2)}}, i % 2) for i in range(20)]; m.save({path!r})"
    ended = []
    for code in (SAVES + learns, LOADS.format(path=path)):
        known = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
        ended.append(
            subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "PYTHONPATH": known},
            )
        )
    assert [(one.returncode, one.stdout) for one in ended] == [(0, ""), (0, "bar\n")], ended[-1].stderr
