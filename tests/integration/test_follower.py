"""A reader that only follows what is published answers as the model file does, whenever it begins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from streamfl.errors import PeerError
from streamfl.machines.client import follower as following
from streamfl.machines.client.follower import MOST_WAITING, Follower
from streamfl.machines.coordinator.round import open_round
from streamfl.protocol.memory import memory
from streamfl.protocol.messages import (
    BranchGroup,
    FromCoordinator,
    ModelPublished,
    ModelsChanged,
    OnlinePublished,
    RegistryPublished,
    RoundOpened,
    Slot,
)
from streamfl.protocol.records import Batch, Span
from streamfl.protocol.registry import Registry
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.model_file import ServedModel
from streamfl.run.replay import Replay, Replayed, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.runtime.log import tensors
from streamfl.runtime.log.newest import Newest
from streamfl.runtime.transport.traffic import Traffic
from streamfl.wire import messages

EVERY = 8


@dataclass
class Published(Traffic):
    """The messages of the coordinator, in order, as bytes."""

    sent: list[bytes] = field(default_factory=list)

    def add(self, message: object) -> None:
        super().add(message)
        if isinstance(message, FromCoordinator):
            self.sent.append(messages.encode(message))


@dataclass(frozen=True)
class Run:
    learning: LearningSettings
    table: Table
    sent: tuple[bytes, ...]
    replayed: Replayed

    def follower(self) -> Follower:
        task = "classification" if self.table.labels else "regression"
        return Follower(self.learning.learner(task, 0))

    def answers(self, follower: Follower, client: str = "") -> np.ndarray:
        X = self.table.X[:50].astype(np.float64)
        batch = Batch(Span("p", 0, len(X)), np.arange(len(X)), self.table.features, X, np.zeros(len(X)))
        predictions, labels = follower.predictions(batch, client)
        assert labels == self.replayed.model.labels[: len(labels)]
        return predictions

    def of_file(self, client: str = "") -> np.ndarray:
        model, X = self.replayed.model, self.table.X[:50].astype(np.float64)
        return model.predictions(self.table.features, X, model.clients_of_records.rows({}, len(X), client))


def swapped(n: int, targets: bool) -> Table:
    """Return two classes whose labels are swapped in the middle, or a target whose slope turns round."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    score = X @ [2.0, -1.0, 0.5] * np.where(np.arange(n) < n // 2, 1.0, -1.0)
    y = score if targets else (score > 0).astype(np.float64)
    return Table("swapped", ("a", "b", "c"), X, y, () if targets else ("0", "1"), np.arange(n))


KINDS = ("rounds", "linear", "auto", "river", "targets")


@pytest.fixture(scope="module", params=KINDS)
def run(request) -> Iterator[Run]:
    learning, published = learning_of(request.param), Published()
    table = swapped(2400, request.param == "targets")
    settings = ReplaySettings(round_size=30, learning=learning)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_round, "WHOLE_EVERY", EVERY)
        patch.setattr(tensors, "CHANGED", EVERY + 2)
        replayed = Replay(table, deal(table, 3, "round-robin", 0), settings, _traffic=published).run()
        yield Run(learning, table, tuple(published.sent), replayed)


def learning_of(kind: str) -> LearningSettings:
    kinds = {"river": {"model": "river:naive_bayes.GaussianNB"}, "targets": {"features": "linear"}}
    return LearningSettings.model_validate(kinds.get(kind, {"features": kind}))


def compacted(sent: Sequence[bytes]) -> list[FromCoordinator]:
    """Return what a compacted topic of models still holds, and the round that was opened last."""
    newest: Newest[str, tensors.Tensors] = Newest(2**30)
    opened = []
    for message in map(messages.decode, sent):
        if isinstance(message, tensors.Tensors):
            newest.put(tensors.key_of(message), message, 0)
        elif isinstance(message, RoundOpened):
            opened = [message]
    return [*opened, *newest.values()]


def test_a_follower_follows_every_round_and_answers_as_the_model_file(run):
    follower = run.follower()
    for data in run.sent:
        assert follower.take(messages.decode(data)) == []
    assert follower.opened.round == run.replayed.result.rounds + 1
    assert follower.behind == 0
    if not isinstance(run.learning.model, str) or not run.learning.model.startswith("river:"):
        np.testing.assert_allclose(run.answers(follower), run.of_file(), rtol=1e-12)  # matrix products differ


def curved(X: np.ndarray, targets: bool, turned: np.ndarray | bool) -> np.ndarray:
    """Return two classes, or a target, to which one feature of three adds the opposite where it has turned."""
    score = X[:, 0] * X[:, 1] + np.where(turned, -1.5, 1.5) * X[:, 2]
    return score if targets else (score > 0).astype(np.float64)


@pytest.mark.parametrize("targets", [False, True])
def test_a_client_of_a_branch_is_answered_as_well_as_by_the_best_expert_for_it_in_file_scorer_and_http(targets):
    X, published = np.random.default_rng(3).normal(size=(5600, 3)), Published()
    names = () if targets else ("0", "1")
    table = Table("curved", ("a", "b", "c"), X, curved(X, targets, False), names, np.arange(len(X)))
    logs = deal(table, 4, "round-robin", 0)
    alone = logs["c3"]
    y = np.where(np.arange(len(alone.y)) < 500, alone.y, curved(X[alone.rows], targets, True))
    logs["c3"] = replace(alone, y=y)
    learning = LearningSettings()
    replayed = Replay(table, logs, ReplaySettings(round_size=30, learning=learning), _traffic=published).run()
    run = Run(learning, table, tuple(published.sent), replayed)
    follower, file = run.follower(), replayed.model
    for message in map(messages.decode, published.sent):
        follower.take(message)
    assert file.branches.keys() == {"c3"}

    # What a scorer answers on Kafka and over HTTP, and the file.
    followed = ServedModel.followed(follower, learning, "regression" if targets else "classification")
    over_http = followed.predictions(table.features, X[:50], followed.clients_of_records.rows({}, 50, "c3"))
    np.testing.assert_allclose(run.answers(follower, "c3"), run.of_file("c3"), rtol=1e-12)
    np.testing.assert_allclose(over_http, run.of_file("c3"), rtol=1e-12)
    np.testing.assert_allclose(run.answers(follower, "c0"), run.of_file(), rtol=1e-12)

    def error(model: ServedModel) -> float:
        rows = alone.rows[-400:]
        predicted = model.predictions(table.features, X[rows], model.clients_of_records.rows({}, len(rows), "c3"))
        wrong = np.abs(predicted[:, 0] - y[-400:]) if targets else predicted.argmax(axis=1) != y[-400:]
        return float(wrong.mean())

    by_expert = {expert: error(single(file, k)) for k, expert in enumerate(file.native.settings.experts)}
    assert error(file) < min(by_expert.values()) + 0.01
    assert error(file) < error(replace(file, branches={})) / 2  # as one of all others
    if targets:  # a straight line cannot follow the curve, which the others still tell
        assert error(file) < error(replace(file, branch_of={})) / 2


def single(file: ServedModel, k: int) -> ServedModel:
    """Return a file in which expert k answers alone for the clients of every branch."""
    weights = np.eye(len(file.native.settings.experts))[k]
    mixtures = {
        name: replace(mixture, best=weights, stacked=np.array([weights, weights]))
        for name, mixture in file.native.agreed.branches.items()
    }
    return replace(file, native=replace(file.native, agreed=replace(file.native.agreed, branches=mixtures)))


def test_what_is_published_whole_changes_no_model_of_any_client(run, monkeypatch):
    monkeypatch.setattr(open_round, "WHOLE_EVERY", 10**9)
    settings = ReplaySettings(round_size=30, learning=run.learning)
    again = Replay(run.table, deal(run.table, 3, "round-robin", 0), settings).run()
    assert again.result.model_sha256 == run.replayed.result.model_sha256


@pytest.mark.parametrize("rounds", [EVERY - 1, EVERY, EVERY + 3, 3 * EVERY - 2, 3 * EVERY + 1])
def test_a_follower_that_begins_late_answers_as_one_that_was_there_from_the_beginning(run, rounds):
    until = next(i for i, data in enumerate(run.sent) if _opens(messages.decode(data), rounds))
    first, late = run.follower(), run.follower()
    for data in run.sent[: until + 1]:
        first.take(messages.decode(data))
    for message in compacted(run.sent[: until + 1]):
        assert late.take(message) == []
    assert late.opened == first.opened
    np.testing.assert_array_equal(run.answers(late), run.answers(first))
    for data in run.sent[until + 1 :]:
        first.take(messages.decode(data))
        late.take(messages.decode(data))
    np.testing.assert_array_equal(run.answers(late), run.answers(first))


def _opens(message: FromCoordinator, round_: int) -> bool:
    return isinstance(message, RoundOpened) and message.round == round_


def test_rounds_may_be_opened_before_or_after_their_models_arrive(run):
    ahead, behind = run.follower(), run.follower()
    decoded = [messages.decode(data) for data in run.sent]
    of_models = [message for message in decoded if isinstance(message, tensors.Tensors)]
    others = [message for message in decoded if not isinstance(message, tensors.Tensors)]
    for message in others:
        ahead.take(message)
    assert ahead.opened is None
    assert ahead.behind == ahead.newest == run.replayed.result.rounds + 1
    for message in of_models:
        ahead.take(message)
    for message in [*of_models, *others]:
        behind.take(message)
    np.testing.assert_array_equal(run.answers(ahead), run.answers(behind))


def test_nothing_answers_before_a_round_was_learnt(run):
    follower = run.follower()
    for data in run.sent:
        message = messages.decode(data)
        if _opens(message, 2):
            break
        follower.take(message)
        with pytest.raises(PeerError, match="no models were published yet"):
            run.answers(follower)


def test_what_is_lost_leaves_the_models_before_until_a_whole_round(run):
    lost = {5, 6}
    follower, errors = run.follower(), []
    answered = []
    for data in run.sent:
        message = messages.decode(data)
        if isinstance(message, ModelsChanged | OnlinePublished | ModelPublished) and message.version in lost:
            continue
        errors += follower.take(message)
        if isinstance(message, RoundOpened) and message.round < 2 * EVERY:
            answered.append((message.round, follower.opened.round if follower.opened else 0))
    assert (6, 4) in answered
    assert (EVERY, EVERY) in answered
    assert follower.behind == 0


def test_messages_that_wait_are_bounded_and_forged_ones_change_nothing():
    follower = Follower(LearningSettings(features="rounds").learner("classification", 0))
    for version in range(MOST_WAITING + 50):
        weights = np.zeros((1, 1))
        assert follower.take(ModelPublished(slot="m", version=10**9 + version, registry=1, weights=weights)) == []
    assert len(follower._waiting) == MOST_WAITING
    (error,) = follower.take(ModelPublished(slot="m", version=2, registry=1, weights=np.array([[np.nan]])))
    assert "not a matrix of finite numbers" in str(error)
    assert follower.opened is None


def test_messages_that_wait_have_bounded_memory(monkeypatch):
    one = ModelPublished(slot="m", version=10**9, registry=1, weights=np.zeros((5, 60)))
    monkeypatch.setattr(following, "MOST_KEPT", 7 * memory(one) // 2)
    follower = Follower(LearningSettings(features="rounds").learner("classification", 0))
    for version in range(50):
        follower.take(replace(one, version=10**9 + version))
    assert [message.version - 10**9 for message in follower._waiting] == [47, 48, 49]
    for published in opening(("a", "b"), np.zeros((2, 2)), round_=3):
        follower.take(published)
    assert follower.opened.round == 3
    assert follower._kept == 3 * memory(one)


@pytest.mark.parametrize("own", KINDS)
def test_with_other_settings_than_the_federation_nothing_answers(run, own, request):
    if own == request.node.callspec.params["run"]:
        pytest.skip("the same settings")
    follower = Follower(learning_of(own).learner("regression" if own == "targets" else "classification", 0))
    for data in run.sent:
        follower.take(messages.decode(data))
    assert follower.opened is None
    assert follower.newest == run.replayed.result.rounds + 1


def opening(labels, weights, *, round_=3, **others):
    """Return a registry, a model and a round that names it."""
    named = {"slots": (Slot(name="m", version=round_, eta=1.0),), "serves": "m", "known_labels": 2} | others
    return [
        RegistryPublished(registry=Registry(1, ("x",), labels, np.zeros(1), np.ones(1))),
        ModelPublished(slot="m", version=round_, registry=1, weights=weights),
        RoundOpened(entry=7, round=round_, epoch=1, block=1, registry=1, **named),
    ]


@pytest.mark.parametrize(
    ("model", "task", "labels", "columns"),
    [
        ("softmax", "classification", (), 0),
        ("logistic", "classification", (), 1),
        ("logistic", "classification", ("a", "b", "c"), 1),
        ("squared", "regression", ("a",), 1),
    ],
)
def test_a_round_without_answers_of_the_wanted_kind_is_not_followed(model, task, labels, columns):
    follower = Follower(LearningSettings(features="rounds", model=model).learner(task, 0))
    for message in opening(labels, np.zeros((2, columns))):
        assert follower.take(message) == []
    assert (follower.opened, follower.newest) == (None, 3)


@pytest.mark.parametrize(
    "forged", [{"serves": "n"}, {"tested": "n"}, {"slots": ()}, {"apart": (BranchGroup(clients=("c",), serves="n"),)}]
)
def test_a_round_that_is_served_by_a_model_it_does_not_name_is_refused(forged):
    follower = Follower(LearningSettings(features="rounds").learner("classification", 0))
    errors = [
        error for message in opening(("a", "b"), np.zeros((2, 2)), **forged) for error in follower.take(message)
    ]
    assert [str(error) for error in errors] == ["the round is served or tested by a model that it does not name"]
    assert (follower.opened, follower.newest) == (None, 0)


def test_a_change_that_does_not_fit_leaves_the_round_before_until_a_whole_state(run):
    if run.learning.features not in {"linear", "auto"} or run.learning.model != "auto":
        pytest.skip("no changes of an agreed state")
    follower, answered, errors = run.follower(), [], []
    for data in run.sent:
        message = messages.decode(data)
        if isinstance(message, OnlinePublished) and message.version == 5 and not message.is_whole:
            wider = np.zeros((*message.agreed.weights.shape[:2], message.agreed.weights.shape[2] + 1))
            message = replace(message, agreed=replace(message.agreed, weights=wider))
        errors += follower.take(message)
        if isinstance(message, RoundOpened) and 4 <= message.round <= EVERY:
            answered.append((message.round, follower.opened.round))
    assert answered == [(4, 4), *((late, 4) for late in range(5, EVERY)), (EVERY, EVERY)]
    assert any("do not fit them" in str(error) for error in errors)
