"""The agreed mixture: what clients send of it, what is refused, and that no client's own memory is in it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from native_streams import state

from streamfl.arrays import FloatArray
from streamfl.bounds import NAMED
from streamfl.learning.online_models import Covered
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging.admission import wrong_learnt
from streamfl.online.native.merging.merging import after
from streamfl.online.native.served import ServedNative
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.mixed import AgreedMixture
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.native.sleeping import Rest

pytestmark = pytest.mark.compiles

SETTINGS = NativeSettings("auto", seed=3)
ALONE = replace(SETTINGS, neighbours=False)
NAMES = ("x", "y")


def xor(n: int, seed: int) -> tuple[FloatArray, FloatArray]:
    X = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, 2))
    return X, ((X[:, 0] > 0.0) ^ (X[:, 1] > 0.0)).astype(float)


def rounds(settings: NativeSettings, count: int) -> tuple[NativeState, list[NativeLearner]]:
    """Let two clients learn rounds of 100 records."""
    clients, agreed = [NativeLearner(settings), NativeLearner(settings)], NativeState.none(settings)
    for t in range(count):
        parts = []
        for c, client in enumerate(clients):
            client.begin(replace(agreed, table=agreed.table.copy()))
            client.learn(NAMES, *xor(100, 2 * t + c), ("0", "1"))
            parts.append(client.learnt())
        agreed, _ = after(agreed, parts, ("0", "1"), settings=settings)
    return agreed, clients


@pytest.fixture(scope="module")
def trained() -> NativeState:
    return rounds(SETTINGS, 12)[0]


def test_a_clients_own_memory_has_no_part_in_the_agreed_mixture(trained: NativeState):
    alone, _ = rounds(ALONE, 12)
    assert trained.mixture.best.shape == (len(SETTINGS.agreed_experts),)
    assert trained.chain == alone.chain
    for mine, other in zip(
        (trained.mixture.best, trained.mixture.stacked, trained.mixture.outer),
        (alone.mixture.best, alone.mixture.stacked, alone.mixture.outer),
        strict=True,
    ):
        assert np.array_equal(mine, other)


def test_what_is_sent_is_the_same_whatever_a_client_remembers(trained: NativeState):
    _, clients = rounds(SETTINGS, 12)
    mine, fresh = clients[0], NativeLearner(SETTINGS)
    mine.mixture.mixing.best[:] = np.eye(len(SETTINGS.experts))[-2]  # neighbours-1000 is all that it serves
    mine.mixture.mixing.stacked[:] = mine.mixture.mixing.best
    mine.rest = Rest(left=5)
    for client in (mine, fresh):
        client.begin(replace(trained, table=trained.table.copy()))
        client.learn(NAMES, *xor(100, 77), ("0", "1"))
    assert mine.mixture.mixing.best.tolist() != fresh.mixture.mixing.best.tolist()
    assert state(mine.learnt()) == state(fresh.learnt())


def test_a_late_client_is_as_sure_at_once_as_the_others_have_learnt_to_be(trained: NativeState):
    X, y = xor(1000, 78)

    def of_the_truth(mixture: AgreedMixture) -> float:
        late = NativeLearner(SETTINGS)
        late.begin(replace(trained, table=trained.table.copy(), mixture=mixture))
        return float(late.predicted(NAMES, X)[range(1000), y.astype(int)].mean())

    # With equal weights half of its experts are linear and say 0.5 of everything.
    assert of_the_truth(AgreedMixture()) < 0.8
    assert of_the_truth(trained.mixture) > 0.9


def test_a_client_that_has_learnt_keeps_its_own_weights(trained: NativeState):
    client = NativeLearner(SETTINGS)
    client.learn(NAMES, *xor(50, 79), ("0", "1"))
    own = client.mixture.report()
    client.begin(replace(trained, table=trained.table.copy()))
    assert np.array_equal(client.mixture.report().best, own.best)
    assert not np.array_equal(client.agreed_mixture.report().best, own.best[SETTINGS.shared])


def test_the_agreed_models_predict_what_no_linear_model_can(trained: NativeState):
    served = ServedNative.of(SETTINGS, trained)
    X, y = xor(1000, 99)
    predictions = served.predictions(NAMES, X, np.full((1000, 2), 0.5))
    assert predictions.sum(axis=1) == pytest.approx(np.ones(1000))
    assert np.mean(predictions.argmax(axis=1) == y) > 0.93
    assert served.wrong() is None


def test_every_round_starts_from_the_agreed_weights(trained: NativeState):
    client = NativeLearner(SETTINGS)
    client.begin(trained)
    assert np.array_equal(client.agreed_mixture.mixing.best, trained.mixture.best)
    client.learn(NAMES, *xor(50, 5), ("0", "1"))
    changed = client.learnt().mixture
    assert not np.array_equal(changed.stacked, trained.mixture.stacked)
    assert changed.records == trained.mixture.records + 50
    client.restore()
    client.learn(NAMES, *xor(50, 5), ("0", "1"))
    assert np.array_equal(client.learnt().mixture.stacked, changed.stacked)


def test_one_client_cannot_move_the_mean_squares_alone(trained: NativeState):
    client = NativeLearner(SETTINGS)
    client.begin(trained)
    client.learn(NAMES, *xor(50, 5), ("0", "1"))
    part = client.learnt()
    liar = replace(part, mixture=replace(part.mixture, variance=1e50, norm=1e50))
    table = trained.table.copy()
    moved, _ = after(replace(trained, table=table), [part, liar, part], ("0", "1"), settings=SETTINGS)
    assert (moved.mixture.norm, moved.mixture.variance) == (part.mixture.norm, part.mixture.variance)


def test_messages_without_a_mixture_leave_the_agreed_one(trained: NativeState):
    client = NativeLearner(SETTINGS)
    client.begin(trained)
    client.learn(NAMES, *xor(50, 5), ("0", "1"))
    old = replace(client.learnt(), mixture=AgreedMixture())
    moved, _ = after(replace(trained, table=trained.table.copy()), [old], ("0", "1"), settings=SETTINGS)
    assert moved.mixture is trained.mixture


def put(field: str, value: Any) -> Any:
    return lambda mixture: replace(mixture, **{field: value})


@pytest.mark.parametrize(
    "lie",
    [
        put("best", np.full(7, 1.0 / 7.0)),
        put("best", np.full(8, 1.0)),
        put("best", np.array([2.0, -1.0, 0, 0, 0, 0, 0, 0])),
        put("best", np.full(8, np.nan)),
        put("best", np.zeros(0)),
        put("stacked", np.full((2, 8), 17.0)),
        put("stacked", np.full((2, 8), np.nan)),
        put("stacked", np.zeros((3, 8))),
        put("outer", np.array([0.5, 0.5])),
        put("norm", -1.0),
        put("norm", float("inf")),
        put("variance", float("nan")),
        put("variance", 1e70),
        put("records", -1),
    ],
)
def test_a_mixture_that_no_client_can_have_is_refused(lie: Any, trained: NativeState):
    learnt = learnt_from(trained)
    covered = Covered(learnt.records, features=set(NAMES), labels={"0", "1"}, members=2, limits=NAMED)
    assert wrong_learnt(learnt, trained, covered) is None
    lies = replace(learnt, mixture=lie(learnt.mixture))
    assert wrong_learnt(lies, trained, covered) == "the mixture of online models is impossible"


def learnt_from(agreed: NativeState) -> NativeLearnt:
    client = NativeLearner(SETTINGS)
    client.begin(agreed)
    client.learn(NAMES, *xor(20, 6), ("0", "1"))
    return client.learnt()


def test_the_agreed_mixture_predicts_targets_that_no_linear_model_can():
    settings = NativeSettings("auto", targets=True)
    client, agreed = NativeLearner(settings), NativeState.none(settings)
    rng = np.random.default_rng(1)
    for _ in range(10):
        client.begin(replace(agreed, table=agreed.table.copy()))
        X = rng.normal(size=(100, 2))
        client.learn(NAMES, X, 1000.0 + np.abs(X[:, 0]))
        agreed, _ = after(agreed, [client.learnt()], (), settings=settings)
    served = ServedNative.of(settings, agreed)
    X = rng.normal(size=(500, 2))
    errors = served.predictions(NAMES, X, np.full((500, 1), 1000.0))[:, 0] - 1000.0 - np.abs(X[:, 0])
    assert np.abs(errors).mean() < 0.2
