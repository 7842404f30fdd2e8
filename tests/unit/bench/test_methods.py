"""How a method is measured over a drawn stream."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pytest

from streamfl.arrays import FloatArray
from streamfl.errors import UsageError
from streamfl.learning.drift.detectors.excess import Excess
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl_benchmarks.comparison import title
from streamfl_benchmarks.drawn import DrawnStream
from streamfl_benchmarks.features import prepared, standardised
from streamfl_benchmarks.federated import BestInHindsight, Federation
from streamfl_benchmarks.methods import FEDERATIONS, check, run
from streamfl_benchmarks.peers.base import ClientRecords
from streamfl_benchmarks.peers.registry import PEERS, PeerSpec
from streamfl_benchmarks.plain import run_peer
from streamfl_benchmarks.records import Drawn


def drawn(drift: str, at: tuple[int, ...], condition: str = "plain", **sizes: int) -> Drawn:
    stream = DrawnStream("covtype", drift, at, condition, **({"clients": 4, "round_size": 30, "rounds": 12} | sizes))
    return Drawn.of(stream, prepared("covtype", None))


@pytest.mark.parametrize("condition", ["plain", "absent", "exchange"])
def test_a_federation_is_counted_as_its_own_result_counts(condition: str) -> None:
    stream = drawn("class-swap", (5, 9), condition)
    learning = LearningSettings(l2=2e-4)
    profile = ProfileSettings(profile="paper")
    settings = ReplaySettings(min_records=1, seed=1, learning=learning, profile=profile, scaling=False)
    result = Replay(stream.table, stream.logs(), settings, sizes=stream.sizes()).run().result
    found = Federation(ProfileSettings(profile="paper")).run(stream, "paper")
    assert result.accuracy is not None
    assert found.run.accuracy.prequential == result.accuracy.prequential
    assert found.run.accuracy.no_change == result.accuracy.no_change
    assert found.run.accuracy.round_start == result.accuracy.round_start
    assert found.run.records == result.accepted == sum(map(sum, stream.sizes().values()))
    assert not np.isnan(found.losses).any()


def test_the_loss_is_that_of_the_federation_where_all_labels_are_known() -> None:
    stream = DrawnStream("river:Phishing", "class-swap", (5,), clients=4, round_size=30, rounds=8)
    both = Drawn.of(stream, prepared(stream.stream, None))
    learning = LearningSettings(l2=2e-4)
    profile = ProfileSettings(profile="paper")
    settings = ReplaySettings(min_records=1, seed=1, learning=learning, profile=profile, scaling=False)
    result = Replay(both.table, both.logs(), settings, sizes=both.sizes()).run().result
    found = Federation(ProfileSettings(profile="paper")).run(both, "paper")
    assert found.run.loss == pytest.approx(result.loss.prequential)
    assert found.losses == pytest.approx(np.array([line.loss for line in result.per_round]))


def test_a_label_that_is_not_registered_yet_counts_one() -> None:
    found = run("paper", drawn("class-introduction", (4,), rounds=5))
    # With one class known nothing can be wrong; from round 4 on about half of the records are of the second.
    assert found.losses[:3].tolist() == [0.0, 0.0, 0.0]
    assert found.losses[3] == pytest.approx(0.57, abs=0.15)


def test_every_method_sees_the_same_records() -> None:
    stream = drawn("class-introduction", (4, 8), "absent")
    runs = [run(method, stream).run for method in ("adaptive", "paper", "fedavg-sqrt")]
    assert len({r.records for r in runs}) == 1
    assert len({r.accuracy.no_change for r in runs}) == 1


@pytest.mark.parametrize("method", ["adaptive", "fedavg-sqrt", "limit"])
def test_the_penalty_is_the_same_for_all_and_tells_runs_apart(method: str) -> None:
    stream = drawn("class-swap", (5,))
    paper, none = run(method, stream), run(method, stream, 0.0)
    assert (paper.run.l2, none.run.l2) == (2e-4, 0.0)
    assert none.losses[1:].tolist() != paper.losses[1:].tolist()
    assert paper.run.key == f"covtype class-swap@5 plain 4x30x12 seed 1: {method}"
    assert none.run.key == f"covtype class-swap@5 plain 4x30x12 l2 0 seed 1: {method}"
    assert title(none.run).endswith("12 rounds, penalty 0")
    assert title(none.run) != title(paper.run)


@dataclass
class Oracle:
    """Answers class 0 before round 3, and class `later` from then on; remembers what it was shown."""

    later: int
    t: int = 1
    shown: list[float] = field(default_factory=list)

    def outputs(self, Z: FloatArray) -> FloatArray:
        outputs = np.zeros((len(Z), 7))
        outputs[:, 0 if self.t < 3 else self.later] = 1.0
        return outputs

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        assert all((own.Z[:, -1] == 1.0).all() for own in clients)
        self.t = t + 1
        self.shown.append(loss)
        return "why" if t == 2 else None


def test_a_peer_is_tested_then_trained_and_the_best_variant_is_told() -> None:
    stream = drawn("none", (), rounds=4)
    built = {"later=0": Oracle(0), "later=1": Oracle(1), "later=2": Oracle(2)}
    constants = MappingProxyType({name: {"later": float(o.later)} for name, o in built.items()})
    spec = PeerSpec(lambda _, chosen: built[f"later={chosen['later']:g}"], constants)
    found = run_peer(spec, stream, "oracle")
    assert found.run.variant == "later=1"  # the most frequent class of covtype
    rows = [np.concatenate([own.y[own.round(t)] for own in stream.clients.values()]) for t in range(1, 5)]
    guesses = [0, 0, 1, 1]
    right = sum(int((y == guess).sum()) for y, guess in zip(rows, guesses, strict=True))
    # Predicted again after each round: the model of the next one.
    after = sum(int((y == guess).sum()) for y, guess in zip(rows, [0, 1, 1, 1], strict=True))
    n = sum(map(len, rows))
    assert found.run.accuracy.prequential == found.run.accuracy.round_start == right / n
    assert found.run.accuracy.post_update == after / n
    assert [(r.round, r.cause) for r in found.run.restarts] == [(2, "why")]
    assert found.losses == pytest.approx(np.array(built["later=1"].shown))
    # Output 1 for one class, 0 for six: ln(e + 6) - 1 when right, ln(e + 6) when not, of 2 ln 7.
    share = (rows[0] == 0).mean()
    assert found.losses[0] == pytest.approx((np.log(np.e + 6) - share) / (2 * np.log(7)))


def test_the_paper_gets_the_step_that_is_best_in_hindsight() -> None:
    stream = drawn("class-swap", (9,), rounds=16)
    steps = (1.0, 30.0)
    plain = {f"step={s:g}": Federation(ProfileSettings(profile="paper", start="warm", step=s)) for s in steps}
    found = BestInHindsight(plain).run(stream, "paper-best").run
    alone = {name: federation.run(stream, "paper-best").run.accuracy for name, federation in plain.items()}
    best = max(alone, key=lambda name: alone[name].prequential or 0.0)
    assert (found.variant, found.accuracy) == (best, alone[best])
    assert len({one.prequential for one in alone.values()}) == 2


@pytest.mark.parametrize("method", ["paper-best", "paper-warm-best"])
def test_the_grid_of_the_paper_holds_the_printed_step(method: str) -> None:
    entry = FEDERATIONS[method]
    assert isinstance(entry, BestInHindsight)
    assert [federation.profile.step for federation in entry.variants.values()] == [1.0, 3.0, 10.0, 30.0, 100.0, 300.0]
    assert {federation.profile.start for federation in entry.variants.values()} == {
        "warm" if "warm" in method else None
    }


def test_the_ablations_lack_what_they_are_named_for() -> None:
    def profile(method: str) -> Promotion:
        entry = FEDERATIONS[method]
        assert isinstance(entry, Federation)
        made = entry.profile.create(100, LearningSettings(features="rounds").learner("classification", 0))
        assert isinstance(made, Promotion)
        return made

    names = ("adaptive", "adaptive-never", "adaptive-plain", "adaptive-plain-never")
    found = {name: (profile(name).ladder.whitened, isinstance(profile(name).detector, Excess)) for name in names}
    assert list(found.values()) == [(True, True), (True, False), (False, True), (False, False)]
    stream = drawn("class-swap", (6,), round_size=100, rounds=8)
    assert run("adaptive", stream).run.detections == (0,)
    assert run("adaptive-never", stream).run.restarts == ()


def test_an_unknown_method_is_refused_with_the_list() -> None:
    with pytest.raises(UsageError, match=r"--method sgd: unknown.*adaptive.*fedavg"):
        check(["adaptive", "sgd"])
    assert not set(FEDERATIONS) & set(PEERS)


def test_features_are_those_of_the_paper() -> None:
    X = prepared("covtype", None).X
    assert np.abs(X).max() == pytest.approx(5 / np.sqrt(10))
    flat = standardised(np.array([[1.0, np.nan, 5.0], [3.0, 2.0, 5.0]]))
    assert flat.tolist() == [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


def test_alone_is_the_sum_of_what_each_client_reaches_by_itself() -> None:
    stream = drawn("class-swap", (5,), clients=3)
    apart = Federation(ProfileSettings(), parts=Drawn.apart).run(stream, "alone")
    own = [Federation(ProfileSettings()).run(part, "alone").run for part in stream.apart()]
    assert [list(part.clients) for part in stream.apart()] == [[name] for name in stream.clients]
    right = sum(round(one.records * (one.accuracy.prequential or 0.0)) for one in own)
    assert apart.run.records == sum(one.records for one in own)
    assert apart.run.accuracy.prequential == right / apart.run.records
    assert len(apart.run.restarts) == sum(len(one.restarts) for one in own)
    assert apart.run.accuracy.prequential != Federation(ProfileSettings()).run(stream, "a").run.accuracy.prequential


def test_one_place_has_the_records_of_each_round_client_by_client() -> None:
    stream = drawn("class-swap", (5,), "absent", clients=3)
    (place,) = stream.in_one_place()
    for t in (1, 5, 12):
        (own,) = place.round(t, stream.table.X)
        assert own.y.tolist() == [y for client in stream.round(t, stream.table.X) for y in client.y.tolist()]
    found = Federation(ProfileSettings(), parts=Drawn.in_one_place).run(stream, "one").run
    assert found.records == sum(map(sum, stream.sizes().values()))
    with pytest.raises(UsageError, match="no client drifts alone"):
        drawn("local", (5,), clients=3).in_one_place()
