"""A client's own model file: what is agreed, with what that client alone knows."""

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfl import MasterFLClassifier, MasterFLRegressor
from streamfl.errors import UsageError
from streamfl.live.own_models_out import OwnModelsOut
from streamfl.live.settings.settings import FederationSettings
from streamfl.protocol.messages.rounds import BranchGroup
from streamfl.protocol.records import Batch, Span
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.model_file import ServedModel
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.saved.own_files import check_own_files, own_file
from streamfl.run.settings import LearningSettings

pytestmark = pytest.mark.compiles

LINEAR = LearningSettings(features="linear")


def stream(n: int, *, targets: bool) -> list[tuple[dict[str, Any], Any]]:
    """Return records of two sites that follow opposite rules."""
    rng, found = np.random.default_rng(1), list[tuple[dict[str, Any], Any]]()
    for i in range(n):
        a, site = rng.normal(), ("east", "west")[i % 2]
        t = a if site == "east" else -a
        found.append(({"a": a, "b": rng.normal(), "site": site}, t if targets else "low" if t < 0.0 else "high"))
    return found


def estimator(*, targets: bool, records: int = 230, **parameters: Any) -> Any:
    kind = MasterFLRegressor if targets else MasterFLClassifier
    made = kind(seed=1, round_size=50, client="site", **parameters)
    for x, y in stream(records, targets=targets):
        made.learn_one(x, y)
    return made


@pytest.mark.parametrize("targets", [False, True])
def test_it_answers_as_the_client_does_between_two_rounds(targets: bool, tmp_path: Path):
    made, path = estimator(targets=targets, records=200), tmp_path / "own.safetensors"
    made.served(own=True).save(path)
    own = ServedModel.load(path)
    for x, _ in stream(240, targets=targets)[200:]:
        if targets:
            assert own.predict([x])[0] == pytest.approx(made.predict_one(x), rel=1e-12)
        else:
            told = made.predict_proba_one(x)
            assert own.predict_proba([x])[0] == pytest.approx([told[label] for label in own.labels], rel=1e-12)


@pytest.mark.parametrize("targets", [False, True])
def test_where_clients_follow_opposite_rules_it_predicts_and_what_is_agreed_does_not(targets: bool):
    made, later = estimator(targets=targets), stream(400, targets=targets)[230:]
    xs, ys = [x for x, _ in later], [y for _, y in later]

    def missed(model: ServedModel) -> float:
        told = model.predict(xs)
        return float(np.mean(np.abs(np.subtract(told, ys)) if targets else np.array(told) != np.array(ys)))

    assert missed(made.served(own=True)) < 0.2
    assert missed(made.served()) > 0.4


def test_the_agreed_file_has_nothing_of_it(tmp_path: Path):
    made = estimator(targets=False)
    agreed, own = made.served(), made.served(own=True)
    assert (agreed.own_parts, sorted(own.own_parts)) == ({}, ["east", "west"])
    assert agreed.native is not None and not len(agreed.native.agreed.pairs)
    x = {"a": 1.0, "b": 0.0, "site": "north"}  # of no client
    with pytest.warns(UserWarning, match="only east, west have models of their own"):
        assert own.predict_proba([x])[0].tolist() == agreed.predict_proba([x])[0].tolist()
    assert own.sha256 == agreed.sha256


def test_without_a_name_records_are_of_its_only_client_and_of_several_are_warned_of():
    made = estimator(targets=False)
    both, x = made.served(own=True), {"a": 1.0, "b": 0.0}
    one = replace(both, own_parts={"east": both.own_parts["east"]})
    assert one.predict_proba([x]).tolist() == both.predict_proba([x], client="east").tolist()
    assert one.predict_proba([x], client="").tolist() == made.served().predict_proba([x]).tolist()
    with pytest.warns(UserWarning, match="no way to tell which records belong to east, west"):
        both.predict([x])


def test_only_its_owner_may_read_it_also_where_all_could_read_the_one_before(tmp_path: Path):
    made, path = estimator(targets=False), tmp_path / "model"
    made.served().save(path)
    path.chmod(0o644)
    made.served(own=True).save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("part", ["mixture", "last", "own"])
def test_one_that_no_client_can_have_made_is_refused(part: str, tmp_path: Path):
    ours, others = (estimator(targets=False, features=kind).served(own=True) for kind in ("linear", "auto"))
    mine, theirs = ours.own_parts["east"], others.own_parts["east"]
    wrong = {
        "mixture": theirs.mixture,  # of other experts
        "last": replace(mine.last, labels=("low",)),
        "own": replace(mine.own, weights=mine.own.weights[:1]),
    }
    replace(ours, own_parts={"east": replace(mine, **{part: wrong[part]})}).save(tmp_path / "own")
    with pytest.raises(UsageError, match="not a streamfl model file"):
        ServedModel.load(tmp_path / "own")


# --- of a host, and of a replay --------------------------------------------------------------------------------


def replayed(**settings: Any) -> tuple[Replay, Any]:
    rng = np.random.default_rng(3)
    X, turn = rng.normal(size=(400, 2)), np.arange(400) % 2
    y = ((X[:, 0] > 0.0) ^ (turn == 1)).astype(float)  # two clients with opposite rules
    table = Table("t", ("a", "b"), X, y, ("u", "v"), np.arange(400))
    replay = Replay(table, deal(table, 2, "round-robin", 0), ReplaySettings(20, **({"learning": LINEAR} | settings)))
    return replay, replay.run()


def test_a_hosts_file_answers_as_its_client_and_what_is_learnt_in_the_open_round_is_not_in_what_is_agreed():
    replay, _ = replayed()
    machine = replay._clients["c0"].machine
    batch = Batch(Span("c0", 0, 3), np.arange(3), ("a", "b"), np.eye(3, 2), np.array([1.0, 0.0, 1.0]), ("u", "v"))

    def own() -> ServedModel:
        made = ServedModel.at_client(machine, LINEAR, "classification")
        assert made is not None
        return made

    before = own()
    told = before.predictions(("a", "b"), batch.X, before.clients_of_records.rows({}, 3))
    assert told == pytest.approx(machine.answer(batch)[0], rel=1e-12)
    machine.learn_early(batch)
    after = own()
    assert before.native is not None and after.native is not None
    assert (after.native.agreed.table == before.native.agreed.table).all()
    assert (after.native.agreed.weights == before.native.agreed.weights).all()
    assert after.own_parts["c0"].neighbours.seen == before.own_parts["c0"].neighbours.seen + 3


def test_a_hosts_last_file_has_what_its_client_learnt_in_the_open_round_and_those_before_only_closed_rounds(
    tmp_path: Path,
):
    replay, _ = replayed()
    machine = replay._clients["c0"].machine
    settings = FederationSettings.model_validate({"records": {"topics": ["r"]}, "learning": {"features": "linear"}})
    out = OwnModelsOut(tmp_path, settings)

    def learnt() -> int:
        return ServedModel.load(tmp_path / "c0.safetensors").own_parts["c0"].neighbours.seen

    out.keep([machine], 0.0)
    before = learnt()
    machine.learn_early(Batch(Span("c0", 0, 2), np.arange(2), ("a", "b"), np.eye(2), np.zeros(2), ("u", "v")))
    out.keep([machine], 1e6)
    assert learnt() == before
    out.write([machine])
    assert learnt() == before + 2


def test_a_hosts_file_of_a_client_with_a_branch_answers_others_with_the_model_of_all():
    replay, _ = replayed()
    machine = replay._clients["c0"].machine
    opened = machine._ledger.opened
    assert opened is not None
    slot = next(one.name for one in opened.slots if one.name != opened.serves and one.clients is None)
    agreed = ServedModel.at_client(machine, LINEAR, "classification")
    machine._ledger.opened = replace(opened, apart=(BranchGroup(clients=("c0",), serves=slot),))
    apart = ServedModel.at_client(machine, LINEAR, "classification")
    assert agreed is not None
    assert apart is not None
    assert (apart.weights == agreed.weights).all()
    assert (apart.branches["c0"] != agreed.weights).any()
    x = [{"a": 1.0, "b": 0.5}]
    assert apart.predict_proba(x, client="").tolist() == agreed.predict_proba(x, client="").tolist()


def test_the_result_says_what_the_agreed_file_and_clients_own_files_are_worth(tmp_path: Path):
    replay, done = replayed()
    figures = done.result.accuracy
    assert figures.model_file < 0.7
    assert figures.own_file > 0.85
    replay.save_own_models(done, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c0.safetensors", "c1.safetensors"]
    loaded = ServedModel.load(tmp_path / "c1.safetensors")
    assert loaded.provenance.file == figures.own_file
    assert loaded.predict([{"a": 2.0, "b": 0.0}, {"a": -2.0, "b": 0.0}]) == ["u", "v"]


def test_of_rounds_alone_nothing_is_a_clients_own(tmp_path: Path):
    rounds = LearningSettings(features="rounds")
    assert replayed(learning=rounds)[1].result.accuracy.own_file is None
    with pytest.raises(UsageError, match="models of its own only with features linear, ferns or auto; leave it out"):
        check_own_files(tmp_path, rounds, "classification")
    with pytest.raises(UsageError, match="there is no such folder; make it"):
        check_own_files(tmp_path / "none", LINEAR, "classification")


def test_every_client_has_a_file_of_its_own_whatever_its_name():
    names = ["a/b", "a%2Fb", "../a", "", "a", "é" * 80, "é" * 79 + "e"]
    files = [own_file(Path("own"), name) for name in names]
    assert len(set(files)) == len(names)
    assert all(file.parent == Path("own") and len(file.name.encode()) <= 255 for file in files)
