"""A model of the user's own, federated by its weights: from the command line, and as an estimator."""

import importlib.util
import json
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import streamfl
from streamfl import MasterFLClassifier
from streamfl.cli.main import cli
from streamfl.errors import UsageError
from streamfl.protocol import registered
from streamfl.records.files.readers import read
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings

EXAMPLE = Path(__file__).parents[2] / "examples" / "federate_numpy_model.py"


@pytest.fixture(scope="module")
def network() -> Any:
    """Return the class of the example, whose module can be imported while the tests of this file run."""
    spec = importlib.util.spec_from_file_location(EXAMPLE.stem, EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[EXAMPLE.stem] = module
    module.Network.steps = 20  # less than the example needs, and enough here
    yield module.Network
    del sys.modules[EXAMPLE.stem]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("network", f"{EXAMPLE.stem}:Network", "streamfl.models")
    monkeypatch.setattr(registered, "entry_points", lambda **chosen: EntryPoints([entry]).select(**chosen))


def test_a_registered_model_is_replayed_by_its_name_as_the_class_is(network, installed, tmp_path):
    options = ["--clients", "4", "--round-size", "25", "--model", "network", "--json", str(tmp_path / "r.json")]
    ran = CliRunner().invoke(cli, ["replay", "river:Phishing", *options])
    assert ran.exit_code == 0, ran.output
    found = json.loads((tmp_path / "r.json").read_text())
    table = read("river:Phishing")
    settings = ReplaySettings(round_size=25, learning=LearningSettings(model=network))
    result = Replay(table, deal(table, 4, "round-robin", 0), settings).run().result
    assert found["model_sha256"] == result.model_sha256
    again = streamfl.replay("river:Phishing", clients=4, round_size=25, model=network).result
    assert again.model_sha256 == result.model_sha256
    assert found["unlearnt"] == 100  # the first round, in which features become known
    assert found["accuracy"]["prequential"] > max(0.75, found["accuracy"]["no_change"])


def test_a_replay_says_why_a_model_of_weights_has_learnt_nothing(network):
    class Fails(network):
        def learn(self, X, y):
            if len(X) > 6:  # more than it is tried with
                raise ArithmeticError("singular")
            super().learn(X, y)

    result = streamfl.replay("river:Phishing", clients=4, round_size=25, model=Fails).result
    assert (result.unlearnt, result.unlearnt_reason) == (result.accepted, "ArithmeticError: singular")


def test_a_model_with_weights_cannot_be_written_by_model_out(network, installed, tmp_path):
    options = ["--model", "network", "--model-out", str(tmp_path / "m")]
    ran = CliRunner().invoke(cli, ["replay", "river:Phishing", *options])
    assert ran.exit_code != 0
    assert "--model-out cannot save Network" in str(ran.exception) + ran.output


def test_an_estimator_with_a_class_is_cloned_and_not_saved_and_with_its_name_continues_identically(
    network, installed, tmp_path
):
    table = read("river:Phishing")
    records = [dict(zip(table.features, row, strict=True)) for row in table.X[:310].tolist()]
    labels = [table.labels[int(code)] for code in table.y[:310]]
    model = MasterFLClassifier(model="network", round_size=25)
    given = MasterFLClassifier(model=network, round_size=25).clone()
    for x, y in zip(records[:260], labels[:260], strict=True):
        assert given.predict_proba_one(x) == model.predict_proba_one(x)
        model.learn_one(x, y)
        given.learn_one(x, y)
    with pytest.raises(UsageError, match="give it as text"):
        given.save(tmp_path / "other")
    model.save(tmp_path / "saved")
    again = MasterFLClassifier.load(tmp_path / "saved")
    for x, y in zip(records[260:], labels[260:], strict=True):
        assert again.predict_proba_one(x) == model.predict_proba_one(x)
        model.learn_one(x, y)
        again.learn_one(x, y)
    assert np.isfinite(list(model.predict_proba_one(records[0]).values())).all()
