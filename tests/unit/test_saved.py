"""An estimator that was saved goes on as if nothing had happened, from files of every format there has been."""

from itertools import islice
from pathlib import Path

import pytest
from river import datasets

from streamfl import MasterFLClassifier, MasterFLRegressor
from streamfl.core.errors import UsageError

# Written by version 0.1.0: never write it anew. 70 records of Phishing, linear models, rounds of 20.
ANSWER = {True: 0.973112, False: 0.026888}
FORMAT_1 = Path(__file__).parent / "data" / "phishing-format-1.streamfl"


def phishing(first: int, last: int) -> list[tuple[dict[str, float], bool]]:
    return list(islice(datasets.Phishing(), first, last))


def test_a_file_of_format_1_answers_as_it_did_when_it_was_written():
    model = MasterFLClassifier.load(FORMAT_1)
    ((x, _),) = phishing(75, 76)
    assert model.predict_proba_one(x) == pytest.approx(ANSWER, abs=1e-6)
    assert (model.round_size, model.features, model.neighbours, model.seed) == (20, "linear", False, 1)
    assert model.summary["rounds"] == 3


@pytest.mark.parametrize("features", ["auto", "linear", "rounds"])
@pytest.mark.parametrize("learnt", [0, 7, 45])
def test_what_is_saved_goes_on_to_the_last_bit(features: str, learnt: int, tmp_path: Path):
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


def test_what_is_no_such_file_is_refused_by_name(tmp_path: Path):
    path = tmp_path / "model"
    with pytest.raises(UsageError, match="cannot be read"):
        MasterFLClassifier.load(path)
    path.write_bytes(b"hello")
    with pytest.raises(UsageError, match="not a file that an estimator was saved to"):
        MasterFLClassifier.load(path)
    MasterFLRegressor().save(path)
    with pytest.raises(UsageError, match="holds a MasterFLRegressor"):
        MasterFLClassifier.load(path)
    data = FORMAT_1.read_bytes()
    assert data.count(b'\\"format\\":1') == 1
    path.write_bytes(data.replace(b'\\"format\\":1', b'\\"format\\":9'))
    with pytest.raises(UsageError, match="format 9; this version of streamfl reads formats up to 1"):
        MasterFLClassifier.load(path)
    with pytest.raises(UsageError, match="cannot be written"):
        MasterFLClassifier().save(tmp_path / "nowhere" / "model")
