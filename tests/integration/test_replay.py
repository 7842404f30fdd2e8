"""Whole federations over recorded streams, in this process."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from suites.parameters import full

from streamfl.errors import PeerError, UsageError
from streamfl.learning.drift.detectors.conformal import Conformal
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.online.native.merging import on_grids
from streamfl.protocol.decisions import Predicted
from streamfl.protocol.messages import RoundClosed
from streamfl.protocol.records import Rejection
from streamfl.records.files.covtype import covtype
from streamfl.records.files.readers import read
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.dealing.imposed_drift import Injection, inject
from streamfl.run.dealing.source import TableSource
from streamfl.run.evaluation.result import BytesBudget
from streamfl.run.model_file import ServedModel
from streamfl.run.replay import Replay, Replayed, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl.runtime.clock import ManualClock, SystemClock
from streamfl.runtime.loop import run
from streamfl.runtime.nodes import ClientNode, CoordinatorNode
from streamfl.runtime.ports import Clock
from streamfl.runtime.transport.memory import MemoryTransport

ROUNDS = LearningSettings(features="rounds")
SWAPS = (30, 55, 80)
FOREST = covtype()


@cache
def demo(seed: int = 0, swaps: tuple[int, ...] = SWAPS, measure: bool = False, **profile: object) -> Replayed:
    """Run the demo: forest records on 20 clients, 45 a round; it is faster with nothing measured or counted."""
    table = shuffled(FOREST, seed)
    logs = deal(table, 20, "round-robin", seed)
    if swaps:
        logs = inject(table, logs, Injection("class-swap", swaps), 45, seed)
    chosen = ProfileSettings.model_validate(profile)
    settings = ReplaySettings(
        round_size=45, seed=seed, learning=ROUNDS, profile=chosen, measure=measure, count_bytes=False
    )
    return Replay(table, logs, settings).run()


def found(replayed: Replayed, swaps: tuple[int, ...] = SWAPS) -> list[bool]:
    """Tell of every restart in turn whether it came within three rounds of the next swap."""
    restarts = [restarted.round for restarted in replayed.result.restarts]
    return [0 <= at - swap <= 3 for at, swap in zip(restarts, swaps, strict=True)]


# --- the demo --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *map(full, range(1, 5))])
def test_adaptive_restarts_after_each_swap_and_nowhere_else(seed):
    assert found(demo(seed)) == [True] * 3


def test_adaptive_is_quiet_without_swaps_and_learns():
    result = demo(swaps=(), measure=True).result
    assert result.restarts == ()
    assert result.accuracy is not None
    assert result.accuracy.prequential > 0.68
    assert result.accuracy.no_change < 0.4


def outlook(**profile: Any) -> str:
    learner = ROUNDS.learner("classification", 0)
    return ProfileSettings(**profile).create(104, learner).outlook()


def test_a_replay_with_the_papers_constants_never_restarts_and_says_so():
    assert "cannot fire at T = 104" in outlook(profile="paper")
    result = demo(profile="paper").result
    assert (result.rounds, result.restarts) == (104, ())


@pytest.mark.parametrize("seed", [0, full(1)])
def test_profile_paper_with_smaller_constants_and_warm_starts_finds_the_swaps(seed):
    small: dict[str, Any] = {"profile": "paper", "rho_scale": 5e-5, "start": "warm"}
    assert "can fire" in outlook(**small)
    replayed = demo(seed, **small)
    assert found(replayed) == [True] * 3
    assert {restarted.cause for restarted in replayed.result.restarts} <= {"test1", "test2"}
    assert demo(seed, swaps=(), **small).result.restarts == ()


def test_the_same_seed_gives_the_same_model_and_another_seed_another():
    again = demo.__wrapped__(0)
    assert again.result.model_sha256 == demo(0).result.model_sha256 == again.model.sha256
    assert again.rounds == demo(0).rounds
    assert demo(1).result.model_sha256 != demo(0).result.model_sha256


def test_a_scout_changes_nothing_but_what_the_test_sees(monkeypatch):
    # Five clients: four or more are compared by their losses. The scout is frozen after 1,000 records, in round 10.
    table = shuffled(FOREST, 0)
    logs = {
        name: replace(log, rows=log.rows[:300], y=log.y[:300])
        for name, log in deal(table, 5, "round-robin", 0).items()
    }
    settings = ReplaySettings(
        round_size=20, learning=ROUNDS, profile=ProfileSettings(detector="conformal"), measure=False
    )
    seen, found = [], []
    monkeypatch.setattr(Conformal, "update", lambda _, observed, groups: seen[-1].add("scout" in observed.models))
    for scouts in (True, False):
        monkeypatch.setattr(Conformal, "scouts", scouts)
        seen.append(set())
        found.append(Replay(table, logs, settings).run())
    assert seen == [{False, True}, {False}]
    assert found[0].rounds == found[1].rounds
    assert found[0].model.sha256 == found[1].model.sha256


def test_every_record_of_a_replay_is_accepted_rejected_or_pending():
    for replayed in (demo(0), demo(profile="paper")):
        result = replayed.result
        assert result.records == result.accepted + result.rejected + result.pending == 92962
        assert sum(line.records for line in replayed.rounds) == result.accepted
        assert [line.round for line in replayed.rounds] == list(range(1, 105))


# --- ways of learning ------------------------------------------------------------------------------------------


def blobs(n: int = 2000, classes: int = 2, seed: int = 0) -> Table:
    """Return classes around points of a plane, on scales that differ by a thousand."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    centres = 3.0 * np.array([[0, 0], [1, 1], [1, -1], [-1, 1]])
    X = (rng.normal(size=(n, 2)) + centres[y]) * [1.0, 1000.0] + [0.0, 5000.0]
    return Table("blobs", ("a", "b"), X, y.astype(np.float64), tuple(map(str, range(classes))), np.arange(n))


def line(n: int = 3000, swap: int | None = None) -> Table:
    """Return a linear target, large and far from 0; from record `swap` on its slope is turned round."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1]
    slope = np.array([300.0, -20.0, 500.0])
    y = X @ slope + rng.normal(size=n) * 5.0
    if swap is not None:
        y[swap:] = -y[swap:]
    return Table("line", ("a", "b", "c"), X, y + 10_000.0, (), np.arange(n))


def replayed_of(
    table: Table, *, clients: int = 4, size: int = 20, split: str = "round-robin", seed: int = 0, **learning: Any
) -> Replayed:
    logs = deal(table, clients, split, seed)
    chosen = LearningSettings.model_validate({"features": "rounds"} | learning)
    settings = ReplaySettings(round_size=size, min_records=1, seed=seed, learning=chosen)
    replayed = Replay(table, logs, settings).run()
    result = replayed.result
    assert result.records == result.accepted + result.rejected + result.pending
    assert result.pending == 0
    return replayed


WAYS: dict[str, dict[str, Any]] = {
    "one step": {},
    "local batches": {"local_batch": 5},
    "one record a step": {"local_batch": 1},
    "fedprox": {"algorithm": "fedprox", "local_batch": 5, "mu": 0.1},
    "fednova": {"algorithm": "fednova", "local_batch": 5},
    "a part of the records": {"gamma": 0.5},
    "logistic": {"model": "logistic"},
    "penalty": {"l2": 1e-3},
    **{
        f"fedomd {mirror} {average}": {"algorithm": "fedomd", "mirror": mirror, "average": average}
        for mirror in ("euclidean", "hypentropic", "p-norm")
        for average in ("primal", "dual")
    },
    "fedomd l1": {"algorithm": "fedomd", "l1": 1e-4},
    "record by record": {"features": "auto"},
    "record by record, in few bytes": {"features": "auto", "bytes": 60},
    "record by record, dear labels": {"features": "auto", "objective": "cost", "costs": {"1": 3.0}},
    "linear, record by record": {"features": "linear", "neighbours": False, "last_answer": False},
}


@cache
def learnt(way: str) -> Replayed:
    return replayed_of(blobs(), **WAYS[way])


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_learning_learns(way):
    replayed = learnt(way)
    accuracy = replayed.result.accuracy
    assert accuracy is not None
    assert accuracy.prequential > 0.9
    assert replayed.result.restarts == ()
    assert np.isfinite(replayed.model.weights).all()


def test_different_ways_of_learning_give_different_models():
    named = defaultdict(set)
    for name in WAYS:
        named[learnt(name).result.model_sha256].add(name)
    # The Euclidean map is FedAvg, in the primal and in the dual space; of a whitened step only the gradient is told.
    # An objective changes what is answered, and no model.
    assert sorted(sorted(names) for names in named.values() if len(names) > 1) == [
        ["fedomd euclidean dual", "fedomd euclidean primal", "one step"],
        ["record by record", "record by record, dear labels"],
    ]


@pytest.mark.parametrize(
    ("table", "model"), [(blobs, "squared"), (blobs, "huber"), (line, "softmax"), (line, "logistic")]
)
def test_a_model_for_the_other_task_is_refused_before_anything_runs(table, model):
    with pytest.raises(UsageError, match=f"model {model} predicts (numbers|labels), but these are"):
        replayed_of(table(), model=model)


def test_twenty_clients_of_an_easy_stream_of_which_none_can_be_compared_are_replayed():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    X = (2.0 * y + rng.normal(size=3000) * 0.1)[:, None]
    easy = Table("easy", ("a",), X, y.astype(np.float64), ("0", "1"), np.arange(3000))
    result = replayed_of(easy, clients=20, size=1).result
    assert result.restarts == ()
    assert result.accuracy is not None
    assert result.accuracy.prequential > 0.95


def test_a_logistic_model_cannot_grow_a_third_label_and_says_so():
    with pytest.raises(UsageError, match="use softmax"):
        replayed_of(blobs(classes=3), model="logistic")


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_regression_learns_a_target_in_its_own_unit(loss):
    result = replayed_of(line(), model=loss).result
    assert result.accuracy is None
    assert result.mae is not None
    assert result.rmse is not None
    assert result.mae.prequential < 0.3 * result.mae.no_change
    assert result.rmse.prequential >= result.mae.prequential
    assert result.restarts == ()


@pytest.mark.parametrize("scale", [1e-6, 1e9, 1e25])
def test_a_regression_does_not_depend_on_the_unit_of_its_target_even_with_one_record_a_round(scale):
    few = line(600)
    plain, scaled = (replayed_of(replace(few, y=by * few.y), size=1).result for by in (1.0, scale))
    assert plain.mae is not None
    assert scaled.mae is not None
    assert scaled.mae.prequential == pytest.approx(scale * plain.mae.prequential, rel=0.01)
    assert scaled.loss.prequential == pytest.approx(plain.loss.prequential, rel=0.01)


def test_a_target_too_large_to_be_squared_is_a_bad_record_and_not_the_end():
    table = line()
    y = table.y.copy()
    y[[3, 700]] = 1e200, -1e31
    result = replayed_of(replace(table, y=y)).result
    assert (result.rejected, result.accepted) == (2, 2998)


def test_a_refused_update_ends_the_replay_and_the_error_says_why(monkeypatch):
    monkeypatch.setattr(on_grids, "wrong_learnt", lambda *_, **__: "spoilt")
    with pytest.raises(PeerError, match="the update of client c0 was refused: spoilt"):
        replayed_of(blobs(), features="auto")


def test_regression_restarts_when_the_target_is_turned_round():
    result = replayed_of(line(swap=1600)).result
    assert [21 <= restarted.round <= 24 for restarted in result.restarts] == [True]


# --- streams as they are ---------------------------------------------------------------------------------------


def test_a_replay_learns_a_feature_and_a_label_that_come_late(tmp_path: Path):
    rng = np.random.default_rng(2)
    records = []
    for i in range(1600):
        y = int(rng.integers(0, 2 if i < 800 else 3))
        record: dict[str, Any] = {"a": float(rng.normal() + 3 * (y == 1)), "y": f"class {y}"}
        if i >= 400:
            record["late"] = float(rng.normal() + 5 * (y == 2))
        if i % 10:
            record["b"] = float(rng.normal() - 3 * (y == 1))
        records.append(json.dumps(record))
    path = tmp_path / "late.jsonl"
    path.write_text("\n".join(records) + "\n")
    replayed = replayed_of(read(str(path)))
    assert set(replayed.model.registry.features) == {"a", "b", "late"}
    assert replayed.model.registry.labels == ("class 0", "class 1", "class 2")
    assert replayed.model.predict(np.array([[0.0, 0.0, 6.0]]), ("a", "b", "late")) == ["class 2"]
    assert replayed.result.accuracy is not None
    assert replayed.result.accuracy.prequential > 0.75


def new_label(seed: int) -> list[float]:
    """Return the accuracies of rounds from the last one without a label on, which then has a third of the records."""
    table = blobs(3200, classes=3, seed=seed)
    late = table.y == 2.0
    late[2000:] = False  # 25 rounds of 80 records
    X = np.where(late[:, None], blobs(3200, classes=1, seed=seed + 10).X, table.X)
    replayed = replayed_of(replace(table, X=X, y=np.where(late, 0.0, table.y)), seed=seed)
    assert [(found.round, found.cause) for found in replayed.result.restarts] == [(26, "new-label")]
    return [line.accuracy for line in replayed.rounds[24:30] if line.accuracy is not None]


def test_a_label_is_known_in_the_round_after_it_came_whichever_model_serves():
    # Without drift an average serves by then, or a rung of short steps: what it began anew with would know nothing of
    # the label before another round.
    before, first, after, *later = np.mean([new_label(seed) for seed in range(8)], axis=0)
    assert before > 0.96
    assert first < 0.7  # nobody can know it yet
    assert after > 0.85
    assert min(later) > 0.87


def test_clients_without_records_do_not_hold_up_the_rest():
    table = blobs(400)
    logs = deal(table, 8, "dirichlet:0.02", 3)
    assert min(len(log) for log in logs.values()) == 0
    replayed = replayed_of(table, clients=8, split="dirichlet:0.02", seed=3)
    assert replayed.result.accepted == 400
    assert replayed.result.clients == 8


def test_a_shift_of_the_mix_of_labels_is_told_and_restarts_nothing():
    rng, before = np.random.default_rng(5), blobs(4000)
    often = np.flatnonzero((before.y == 1) | (rng.random(4000) < 0.2))  # from record 2000 on a fifth of label 0 stays
    kept = np.concatenate([np.arange(2000), often[often >= 2000]])
    shifted = replace(before, X=before.X[kept], y=before.y[kept], places=np.arange(len(kept)))
    result = replayed_of(shifted).result
    (notice,) = result.notices
    assert (notice.cause, notice.labels, notice.since) == ("class-mix", ("0", "1"), 26)
    assert 26 <= notice.round <= 30
    assert notice.statistic > notice.threshold
    assert (result.restarts, result.local_drifts) == ((), ())
    assert replayed_of(blobs(4000)).result.notices == ()


def test_a_replay_of_a_single_class_predicts_it_and_never_restarts():
    table = blobs(400)
    single = Table("single", table.features, table.X, np.zeros(400), ("only",), table.places)
    result = replayed_of(single).result
    assert result.accuracy is not None
    assert result.accuracy.prequential == result.accuracy.no_change == 0.99  # but for the first record of each client
    assert result.restarts == ()


def test_columns_that_never_change_do_no_harm_to_a_replay():
    table = blobs(1000)
    X = np.column_stack([table.X, np.zeros(1000), np.full(1000, 1e6)])
    wider = Table("constant", ("a", "b", "zero", "million"), X, table.y, table.labels, table.places)
    replayed = replayed_of(wider)
    assert replayed.result.accuracy is not None
    assert replayed.result.accuracy.prequential > 0.9
    assert np.isfinite(replayed.model.weights).all()


def test_only_constant_columns_still_learn_which_class_is_more_common():
    y = (np.arange(800) % 10 == 0).astype(np.float64)
    table = Table("nothing", ("a",), np.ones((800, 1)), y, ("often", "seldom"), np.arange(800))
    result = replayed_of(table).result
    assert result.accuracy is not None
    assert result.accuracy.prequential == pytest.approx(0.9, abs=0.02)


def test_bad_records_are_passed_counted_and_change_nothing_else():
    good = blobs(800)
    every = np.arange(800 + 200)
    # A bad record behind every fourth place, so that rounds have them at their ends too.
    bad = every[every % 5 == 2]
    places = np.setdiff1d(every, bad)
    spoilt = Table(
        "spoilt", good.features, good.X, good.y, good.labels, places, tuple(Rejection(int(p), "bad") for p in bad)
    )
    logs = {"c0": deal(spoilt, 1, "round-robin", 0)["c0"]}
    clean = {"c0": deal(good, 1, "round-robin", 0)["c0"]}
    # Which records are held back goes by their number, bad ones counted: this detector needs none.
    settings = ReplaySettings(round_size=20, learning=ROUNDS, profile=ProfileSettings(detector="glr"))
    with_bad, without = (Replay(table, log, settings).run() for table, log in ((spoilt, logs), (good, clean)))
    assert (with_bad.result.accepted, with_bad.result.rejected) == (800, 200)
    assert with_bad.result.model_sha256 == without.result.model_sha256


def test_a_client_with_nothing_but_bad_records_holds_up_no_round():
    good = blobs(200)
    logs = deal(good, 1, "round-robin", 0)
    logs["c1"] = Log(np.zeros(0, np.int64), np.zeros(0), tuple(Rejection(i, "bad") for i in range(90)))
    result = Replay(good, logs, ReplaySettings(round_size=20, learning=ROUNDS)).run().result
    assert (result.records, result.accepted, result.rejected, result.pending) == (290, 200, 90, 0)
    assert result.rounds == 10


def test_clients_may_have_rounds_of_their_own_sizes():
    table = blobs(100)
    logs = deal(table, 2, "round-robin", 0)
    sizes = {"c0": (10, 20, 20), "c1": (5, 5, 40)}
    replayed = Replay(table, logs, ReplaySettings(min_records=1, learning=ROUNDS), sizes=sizes).run()
    assert [told.records for told in replayed.rounds] == [15, 25, 60]


def test_a_client_that_had_no_records_in_a_round_takes_none_of_a_later_one():
    table = blobs(100)
    sizes, spans = {"c0": (10, 0, 20, 20), "c1": (0, 5, 0, 45)}, []
    replay = Replay(table, deal(table, 2, "round-robin", 0), ReplaySettings(min_records=1), sizes=sizes)

    def observe(event):
        if isinstance(event, Predicted):
            spans.extend((event.round, span.partition, span.start, span.end) for span in event.spans)

    replay.observe = observe
    assert [told.records for told in replay.run().rounds] == [10, 5, 20, 65]
    assert spans == [(1, "c0", 0, 10), (2, "c1", 0, 5), (3, "c0", 10, 30), (4, "c0", 30, 50), (4, "c1", 5, 50)]


# --- rounds by the clock ---------------------------------------------------------------------------------------


class Trickle(TableSource):
    """Gives a few records, then nothing until it is asked in a later second; or nothing at all until the end."""

    def __init__(self, table: Table, name: str, log: Log, clock: Clock, a_second: float) -> None:
        super().__init__(table, name, log)
        self._clock, self._rate, self._began = clock, a_second, clock.now()

    def poll(self, limit: int):
        there = int((self._clock.now() - self._began) * self._rate)
        return super().poll(min(limit, max(0, there - self.read)))


def by_the_clock(
    clock: Clock, interval: float, rates: Mapping[str, float], n: int = 300
) -> tuple[list[RoundClosed], Coordinator, list[Client]]:
    """Run a federation whose clients get so many records a second each, with rounds of so many seconds."""
    table = blobs(n * len(rates))
    logs = deal(table, len(rates), "round-robin", 0)
    learner = ROUNDS.learner("classification", 0)
    transport = MemoryTransport()
    told: list[Any] = []
    settings = CoordinatorSettings(learner=learner, min_clients=len(rates), interval=interval, deadline=10 * interval)
    node = CoordinatorNode(Coordinator(settings, CoordinatorState(Promotion())), transport.coordinator(), told.append)
    client = ClientSettings(learner=learner, round_size=50, clock="interval", capacity=400, retry=interval)
    nodes = [
        ClientNode(Client(client, name, "1"), Trickle(table, name, logs[name], clock, rate), transport.client(name))
        for name, rate in rates.items()
    ]
    node.start(clock.now())
    run([*nodes, node], clock)
    closed = [message for message in told if isinstance(message, RoundClosed)]
    return closed, node.machine, [one.machine for one in nodes]


def balanced(closed: list[RoundClosed], coordinator: Coordinator, clients: list[Client], n: int) -> None:
    members = coordinator.state.members
    assert sum(entry.records for entry in closed) == sum(member.accepted for member in members.values())
    for client in clients:
        assert members[client.name].read + client.pending == n


def test_by_a_clock_moved_by_hand_rounds_close_in_time_with_whatever_there_is():
    # In a round of 2 seconds c0 has 8 records and c1 has 2; c2 has one in 7 seconds, so none in most rounds.
    closed, coordinator, clients = by_the_clock(ManualClock(), 2.0, {"c0": 4.0, "c1": 1.0, "c2": 1 / 7}, n=60)
    balanced(closed, coordinator, clients, 60)
    rounds = [entry for entry in closed if entry.records]
    shares = [{accepted.client: accepted.records for accepted in entry.accepted} for entry in rounds]
    assert len(rounds) > 20
    assert {share["c0"] for share in shares[1:6]} == {8}
    assert {share["c1"] for share in shares[1:20]} == {2}
    assert {share["c2"] for share in shares[1:20]} == {0, 1}
    assert all(entry.records == sum(share.values()) for entry, share in zip(rounds, shares, strict=True))
    # About one in ten is held back from training.
    held = [entry.records - entry.trained for entry in rounds]
    assert min(held) >= 0
    assert 0.03 < sum(held) / sum(entry.records for entry in rounds) < 0.2
    assert sum(share.get("c2", 0) for share in shares) == 60


def test_by_the_real_clock_rounds_close_and_the_books_balance():
    closed, coordinator, clients = by_the_clock(SystemClock(), 0.05, {"c0": 2000.0, "c1": 1500.0})
    balanced(closed, coordinator, clients, 300)
    assert sum(entry.records for entry in closed) == 600
    assert len([entry for entry in closed if entry.records]) >= 2


def test_every_case_of_learning_is_a_setting():
    """A field added to the settings must be tried above, or be named here."""
    tried = {key for learning in WAYS.values() for key in learning}
    assert set(LearningSettings.model_fields) - tried == {"radius"}


def test_the_model_file_holds_the_models_of_clients_that_drifted_alone(tmp_path: Path):
    table = shuffled(covtype(), 0)
    logs = dict(deal(table, 20, "round-robin", 0))
    alone, labels = ("c03", "c05", "c07"), len(table.labels)
    for client in alone:
        y = logs[client].y.copy()
        y[len(y) // 2 :] = (y[len(y) // 2 :] + 1) % labels
        logs[client] = replace(logs[client], y=y)
    replayed = Replay(table, logs, ReplaySettings(round_size=100, learning=ROUNDS)).run()
    replayed.model.save(tmp_path / "model")
    model = ServedModel.load(tmp_path / "model")
    assert model.branches.keys() == set(alone)

    def right(client: str, served_as: str) -> float:
        X = table.X[logs[client].rows[-400:]].astype(np.float64)
        predicted = model.predictions(table.features, X, model.clients_of_records.rows({}, len(X), served_as)).argmax(
            axis=1
        )
        return float(np.mean(predicted == logs[client].y[-400:]))

    assert right("c03", "c03") > 0.6
    assert right("c03", "") < 0.3
    assert right("c00", "c00") == right("c00", "") > 0.6


# --- a budget of bytes -------------------------------------------------------------------------------------------


def test_a_replay_keeps_a_budget_of_bytes_and_reports_it():
    replayed = replayed_of(blobs(), features="auto", bytes=80).result
    plain = learnt("record by record").result
    assert replayed.budget is not None
    assert (replayed.budget.a_record, replayed.budget.exceeded) == (80.0, 0)
    assert 0 < replayed.budget.coarser <= 21 * 4  # from round 5 on
    assert plain.budget is None
    assert replayed.bytes is not None
    assert plain.bytes is not None
    assert replayed.bytes.up < 0.8 * plain.bytes.up
    assert replayed.accuracy is not None
    assert replayed.accuracy.prequential > 0.9


def test_updates_that_exceed_a_budget_are_sent_and_counted():
    result = replayed_of(blobs(), features="auto", bytes=29).result
    # From round 20 on 16 updates are there.
    assert result.budget == BytesBudget(a_record=29.0, coarser=21 * 4, exceeded=6 * 4)
    assert result.rounds == 25


def test_a_budget_of_raw_records_is_that_of_their_features_as_float32():
    table = blobs()
    wide = replace(table, features=tuple("abcdefgh"), X=np.hstack([table.X] * 4))
    raw, number = (replayed_of(wide, features="auto", bytes=given).result for given in ("raw", 4 * 8))
    assert raw.budget == number.budget
    assert raw.budget is not None
    assert raw.budget.a_record == 32.0
    assert raw.budget.coarser
    assert raw.model_sha256 == number.model_sha256


def test_two_values_a_record_are_too_few_for_any_update_and_each_comes_as_near_as_it_can():
    raw = replayed_of(blobs(), features="auto", bytes="raw").result
    assert raw.budget == BytesBudget(a_record=8.0, coarser=21 * 4, exceeded=6 * 4)


@pytest.mark.parametrize(
    ("learning", "why"),
    [
        (
            {"features": "rounds", "bytes": 80},
            "what the model of rounds sends cannot be rounded; leave bytes out",
        ),
        (
            {"model": "river:naive_bayes.GaussianNB", "features": "auto", "bytes": 80},
            "what a model of another library sends",
        ),
        ({"features": "auto", "bytes": 28.4}, "of 20 records could then have 568 bytes, .* give 29 or more, or make"),
        ({"features": "linear", "bytes": 16.4}, "give 17 or more, or make rounds larger"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused_before_anything_runs(learning, why):
    with pytest.raises(UsageError, match=why):
        replayed_of(blobs(), **learning)


@pytest.mark.parametrize("given", ["few", 0, -1, "nan", "inf", True, None, [80]])
def test_a_budget_that_is_no_number_of_bytes_is_refused(given):
    with pytest.raises(
        UsageError, match="this is not a number of bytes per record; give a positive number, raw or auto"
    ):
        LearningSettings(bytes=given)
    assert [LearningSettings(bytes=given).bytes for given in ("auto", "raw", "40", 0.5)] == ["auto", "raw", 40.0, 0.5]
