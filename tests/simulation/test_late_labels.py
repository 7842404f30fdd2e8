"""Delayed labels: whatever is killed, the same labels find the same records, and the model is the same."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from worlds.simulation import Simulation

from simulation.federation import BAD, CLIENTS, ROUND, federation
from simulation.late_labels import Disorder, late
from simulation.test_simulation import faults_of
from streamfl.machines.client.intake.buffer import Buffer
from streamfl.machines.client.intake.waiting import Waiting
from streamfl.protocol.messages import LocalDrift, Update, Watermark
from streamfl.protocol.records import Batch
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.dealing.source import TableSource
from streamfl.run.settings import LearningSettings
from streamfl.sampling import generator
from streamfl.testing import Violation

# What a run comes to: the model, the rounds of restarts, which label was learnt with which features, and the
# watermarks.
Outcome = tuple[str, tuple[int, ...], dict[str, dict[int, int]], dict[str, Watermark | None]]

DELAYED = Disorder((7,))


def outcome(simulation: Simulation) -> Outcome:
    """Run a world; return what it comes to."""
    simulation.calm_after = 150.0  # small windows take many entries
    coordinator = simulation.run()
    restarts = tuple(restarted.round for restarted in simulation.audit.restarts)
    watermarks = {name: member.watermark for name, member in coordinator.state.members.items()}
    return coordinator.digest(), restarts, simulation.audit.learnt, watermarks


def right_answers(simulation: Simulation) -> int:
    """Count the records whose first recorded answer was right, among those that were learnt."""
    right = 0
    for name, log in simulation.logs.items():
        learnt = set(simulation.audit.learnt[name].values())
        for batch in simulation.recorded[name].parts(TableSource(simulation.table, name, log).between(0, len(log))):
            if batch.answers is None:
                raise AssertionError(f"{name} has not answered {batch.span}")
            served, _ = batch.answers.coded(batch.labels)
            same = (served == batch.y).tolist()
            right += sum(one for one, at in zip(same, batch.positions.tolist(), strict=True) if at in learnt)
    return right


def learning(features: str) -> LearningSettings:
    return LearningSettings(features="rounds") if features == "rounds" else LearningSettings()


@cache
def delayed(profile: str, features: str) -> Outcome:
    return outcome(late(DELAYED, window=60, profile=profile, learning=learning(features)))


def test_with_a_delay_every_record_is_answered_learnt_once_and_scored_as_it_was_answered():
    simulation = late(DELAYED, window=60)
    outcome(simulation)
    for name, log in simulation.logs.items():
        good = log.good_before(len(log))
        assert len(simulation.audit.learnt[name]) == len(simulation.audit.answered[name]) == good
        assert all(label == features for label, features in simulation.audit.learnt[name].items())
    served = sum(closed.served.correct for closed in simulation.audit.closed)
    assert served == right_answers(simulation) > 700
    assert sum(simulation.audit.rejected.values()) == BAD


@pytest.mark.worlds(fixed=[3], drawn=2, full=range(3, 7))
def test_with_a_delay_the_model_is_that_of_the_undisturbed_run(seed):
    is_that_of_the_undisturbed_run(seed, ("paper", "adaptive")[seed % 2], "rounds")


@pytest.mark.full
@pytest.mark.parametrize("profile", ["adaptive", "paper"])
def test_with_a_delay_ferns_and_linear_models_are_those_of_the_undisturbed_run(profile):
    is_that_of_the_undisturbed_run(4, profile, "auto")


def is_that_of_the_undisturbed_run(seed: int, profile: str, features: str) -> None:
    simulation = late(
        DELAYED, window=60, seed=seed, faults=faults_of(seed), profile=profile, learning=learning(features)
    )
    assert outcome(simulation) == delayed(profile, features)
    assert sum(closed.served.correct for closed in simulation.audit.closed) == right_answers(simulation)


@pytest.mark.full
def test_a_client_that_reads_halves_one_by_one_and_is_killed_before_round_1_is_introduced_by_the_same_records():
    for seed, faults in ((0, None), (15, faults_of(15))):
        simulation = late(replace(DELAYED, most=1), window=60, seed=seed, faults=faults)
        assert outcome(simulation) == delayed("adaptive", "rounds")


def disorder(seed: int) -> tuple[Disorder, int]:
    """Return how labels come in a world, and its window: many are too small for the delays."""
    rng = generator(seed, "disorder")
    delays = [(7,), (1, 3, 15), (1, 40), (-5, 1, 9), (2, 8, 200), (0, -30, 30)][seed % 6]
    shares = rng.choice([0.0, 0.05, 0.4]), rng.choice([0.0, 0.1]), rng.choice([0.0, 0.1])
    return Disorder(delays, *map(float, shares)), int(rng.choice([5, 10, 40, 300]))


@cache
def disordered(seed: int) -> tuple[Outcome, int]:
    """Return what a world without faults comes to, and how many labels it rejects."""
    labels, window = disorder(seed)
    simulation = late(labels, window=window, labels=seed)
    return outcome(simulation), sum(simulation.audit.rejected.values())


@pytest.mark.worlds(fixed=[203], drawn=2, full=[*range(100, 106), *range(203, 209)])
def test_the_same_labels_find_the_same_records_whatever_is_killed(seed):
    labels, window = disorder(seed)
    simulation = late(labels, window=window, labels=seed, seed=seed, faults=faults_of(seed))
    assert outcome(simulation) == disordered(seed)[0]


# --- a backlog longer than the window -------------------------------------------------------------------------------


def backlog(clock: str, seed: int = 0, *, missing: float = 0.2, **settings: Any) -> Simulation:
    """Return a federation whose labels all lie in the log at the start: a round by the clock finds them all there."""
    labels = Disorder((1, 4, 8), missing=missing, backlog=True)
    simulation = late(labels, window=12, seed=seed, faults=faults_of(seed) if seed else None, **settings)
    if clock == "interval":
        simulation.client = replace(simulation.client, clock="interval", capacity=200)
        simulation.coordinator = replace(simulation.coordinator, interval=3.0)
    return simulation


@pytest.mark.worlds(fixed=[501], drawn=0, full=[0, 502])
def test_no_label_of_a_backlog_longer_than_the_window_is_lost_in_rounds_by_the_clock(seed):
    simulation = backlog("interval", seed)
    outcome(simulation)
    assert sum(simulation.audit.rejected.values()) <= BAD
    assert sum(simulation.audit.accepted.values()) > 700


@cache
def undisturbed_backlog() -> Outcome:
    simulation = backlog("records")
    whole = outcome(simulation)
    assert sum(simulation.audit.rejected.values()) <= BAD
    return whole


@pytest.mark.full
@pytest.mark.worlds(fixed=range(500, 504), drawn=0)
def test_no_label_of_a_backlog_longer_than_the_window_is_lost_whatever_is_killed(seed):
    assert outcome(backlog("records", seed)) == undisturbed_backlog()


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 501])
@pytest.mark.parametrize("sums", ["off", "masked"])
def test_rounds_of_a_backlog_close_and_those_with_too_few_labels_for_an_update_move_the_window(seed, sums):
    """A round spans 24 records at most; where a fifth have no label, there may be fewer than 20 with one."""
    simulation = backlog(
        "records", seed, min_records=ROUND, missing=0.0 if sums == "masked" else 0.2, secure_aggregation=sums
    )
    outcome(simulation)
    assert sum(simulation.audit.accepted.values()) > 700


# --- records and labels that are rejected ---------------------------------------------------------------------------

# No window of these worlds is read to its end before the features are.
WIDE = 1000


def spoilt(seed: int) -> Disorder:
    """Return how labels come in a world where records and labels are rejected, and the log says when each came."""
    rng = generator(seed, "spoilt")
    delays = [(7,), (1, 3, 15), (2, 30), (-3, 1, 9)][seed % 4]
    shares = rng.choice([0.0, 0.05]), 0.02, rng.choice([0.0, 0.02]), 0.05, 0.05, rng.choice([0.0, 0.0, 0.05])
    return Disorder(delays, *map(float, shares))


def standing(simulation: Simulation) -> tuple[Outcome, int]:
    """Run a world; return what it comes to, and how far any update was behind the labels that were due."""
    behind, watch = 0, simulation.audit.watch

    def watching(now: float, node: str, message: Any) -> None:
        nonlocal behind
        watch(now, node, message)
        if isinstance(message, Update) and node == message.client and node in simulation._nodes:
            source = simulation._nodes[node].source
            behind = max(behind, source.due - max((span.end for span in message.spans), default=0))

    simulation.audit.watch = watching
    return outcome(simulation), behind


@cache
def undisturbed_spoilt(seed: int) -> tuple[Outcome, int]:
    return standing(late(spoilt(seed), window=WIDE, labels=seed))


@pytest.mark.worlds(fixed=[400], drawn=1, full=range(400, 408))
def test_rejected_records_and_labels_hold_up_no_client_and_find_the_same_whatever_is_killed(seed):
    whole, behind = undisturbed_spoilt(seed)
    simulation = late(spoilt(seed), window=WIDE, labels=seed, seed=seed, faults=faults_of(seed))
    assert outcome(simulation) == whole
    assert behind <= 2 * ROUND or spoilt(seed).lies  # a label that is dated ahead waits for its window
    watermarks = [watermark for watermark in whole[3].values() if watermark is not None]
    # The label of a rejected record whose key is known
    assert sum(watermark.unusable for watermark in watermarks) > 0
    assert sum(watermark.unmatched for watermark in watermarks) > 0


@pytest.mark.full
def test_the_worlds_have_labels_of_every_kind():
    worlds = [disordered(seed) for seed in range(6)]
    assert sum(rejected for _, rejected in worlds) > 500
    assert sum(len(pairs) for (_, _, learnt, _), _ in worlds for pairs in learnt.values()) > 500
    assert (
        sum(
            watermark.expired
            for (_, _, _, watermarks), _ in worlds
            for watermark in watermarks.values()
            if watermark is not None
        )
        > 500
    )


@pytest.mark.full
@pytest.mark.parametrize("settings", ["quorum", "interval", "min_records"])
def test_without_waiting_for_all_nothing_is_learnt_twice_and_all_is_accounted_for(settings):
    for seed in range(300, 302):
        labels, window = disorder(seed)
        more: dict[str, Any] = {
            "quorum": {"quorum": 2},
            "interval": {"profile": "paper"},  # scores that come after their stage would count as refused
            "min_records": {"min_records": ROUND},
        }[settings]
        # Fewer records than may leave it never have their labels
        window = 40 if settings == "min_records" else window
        simulation = late(labels, window=window, labels=seed, seed=seed, faults=faults_of(seed), **more)
        if settings == "interval":
            simulation.client = replace(simulation.client, clock="interval", capacity=200)
            simulation.coordinator = replace(simulation.coordinator, interval=3.0)
        outcome(simulation)  # the audit
        assert sum(map(len, simulation.audit.learnt.values())) == sum(simulation.audit.accepted.values()) > 0


def regression(seed: int, faults: int | None) -> Simulation:
    """Return a federation that learns a line, some of whose targets are no numbers that can be squared."""
    simulation = late(
        Disorder((1, 5, 12), missing=0.05, twice=0.05, unknown=0.02),
        window=40,
        labels=seed,
        seed=faults or 0,
        faults=None if faults is None else faults_of(faults),
    )
    table, learner = simulation.table, LearningSettings(features="rounds").learner("regression", 0)
    y = table.X @ np.array([2.0, -1.0]) - 1.0
    y[::40], y[::97], y[5::41], y[::7] = np.inf, np.nan, -np.inf, -1.0
    simulation.table = Table("line", table.features, table.X, y, (), table.places, table.rejected)
    simulation.client = replace(simulation.client, learner=learner)
    simulation.coordinator = replace(simulation.coordinator, learner=learner, task="regression")
    return simulation


@pytest.mark.full
def test_targets_that_come_apart_are_learnt_alike_and_those_that_are_no_numbers_are_rejected():
    simulation = regression(0, None)
    undisturbed = outcome(simulation)
    assert sum(simulation.audit.rejected.values()) > 2 * CLIENTS
    for faults in (5, 7):
        assert outcome(regression(0, faults)) == undisturbed


# --- a client that drifts alone ---------------------------------------------------------------------------------

SITES = 6
ALONE = 7  # the first round in which c0 is otherwise


def where_one_drifts_alone(simulation: Simulation) -> Simulation:
    """Return a federation of six clients, of which c0 exchanges its labels in round 7."""
    rng, n = np.random.default_rng(3), SITES * ROUND * 12
    X, row = rng.normal(size=(n, 2)), np.arange(n)
    y = (X @ rng.normal(size=(2, 3)) + 0.2 * rng.normal(size=(n, 3))).argmax(axis=1)
    y = np.where((row % SITES == 0) & (row >= SITES * ROUND * (ALONE - 1)), (y + 1) % 3, y).astype(np.float64)
    simulation.table = Table("sites", ("a", "b"), X, y, ("0", "1", "2"), row)
    simulation.logs = deal(simulation.table, SITES, "round-robin", 0)
    simulation.coordinator = replace(simulation.coordinator, min_clients=SITES)
    return simulation


def branched(simulation: Simulation) -> tuple[Outcome, list[tuple[int, str, tuple[str, ...]]]]:
    """Run it, and return what it comes to, and which local drifts were told."""
    told: list[tuple[int, str, tuple[str, ...]]] = []
    watch = simulation.audit.watch

    def noting(now: float, node: str, message: Any) -> None:
        watch(now, node, message)
        if isinstance(message, LocalDrift) and node == "coordinator":
            told.append((message.round, message.state, message.clients))

    simulation.audit.watch = noting
    return outcome(where_one_drifts_alone(simulation)), told


@pytest.mark.full
def test_a_client_that_drifts_alone_gets_the_same_branch_from_late_labels_and_is_answered_by_it():
    at_once, told = branched(federation())
    assert told == [(7, "latched", ("c0",)), (9, "branched", ("c0",))]
    simulation = late(DELAYED, window=60, seed=5, faults=faults_of(5))
    (digest, restarts, _, _), found = branched(simulation)
    assert (digest, restarts, found) == (*at_once[:2], told)
    assert sum(closed.served.correct for closed in simulation.audit.closed) == right_answers(simulation)
    log = simulation.logs["c0"]
    (batch,) = simulation.recorded["c0"].parts(TableSource(simulation.table, "c0", log).between(200, len(log)))
    assert np.mean(batch.answers.coded(batch.labels)[0] == batch.y) > 0.6
    assert simulation.kills > 2


@pytest.mark.full
def test_a_branch_is_the_same_whatever_is_killed_if_labels_come_in_any_order():
    labels = Disorder((1, 9, 30), missing=0.1, twice=0.1, unknown=0.1)
    undisturbed = branched(late(labels, window=60))
    assert [state for _, state, _ in undisturbed[1]] == ["latched", "branched"]
    simulation = late(labels, window=60, seed=5, faults=faults_of(5))
    assert branched(simulation) == undisturbed
    assert simulation.kills > 2


# --- faults that are noticed ------------------------------------------------------------------------------------


def settles_nothing_for_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Waiting, "records", property(lambda self: len(self._behind) + len(self._ahead)))


def rejects_labels_before_their_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Waiting, "is_read", property(lambda self: True))


def writes_off_in_silence(patch: pytest.MonkeyPatch) -> None:
    after = Waiting.after
    patch.setattr(Waiting, "after", lambda *given: (watermark := after(*given)) and replace(watermark, expired=0))


def rejects_in_silence(patch: pytest.MonkeyPatch) -> None:
    after = Waiting.after
    patch.setattr(Waiting, "after", lambda *given: (watermark := after(*given)) and replace(watermark, repeated=0))


def passes_over_a_record(patch: pytest.MonkeyPatch) -> None:
    take = Waiting.take_features

    def take_features(self: Waiting, batch: Batch) -> None:
        take(self, batch.only(np.flatnonzero(batch.positions != 30)))

    patch.setattr(Waiting, "take_features", take_features)


def leaves_with_its_last_labels_unsent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Buffer, "has_sendable", property(lambda self: self.size >= ROUND))


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "noticed"),
    [
        (settles_nothing_for_itself, "has read .* waiting"),
        (rejects_labels_before_their_records, "has for the label of .* the record at None, not at"),
        (writes_off_in_silence, "are written off, but the ledger says"),
        (rejects_in_silence, "are unmatched, repeated and unusable, but the ledger says"),
        (passes_over_a_record, "has read .* waiting"),
        (leaves_with_its_last_labels_unsent, "labels, but the ledger has"),
    ],
)
def test_a_client_whose_accounts_do_not_balance_is_noticed(fault, noticed, monkeypatch):
    fault(monkeypatch)
    with pytest.raises(Violation, match=noticed):
        for seed in (0, 3):
            outcome(late(Disorder((-5, 1, 9), missing=0.1, twice=0.1, unknown=0.1), window=20, labels=seed))


def finds_what_has_been_read(patch: pytest.MonkeyPatch) -> None:
    passes = Waiting._passes

    def only_at_the_end(self: Waiting, label: int, written: int | None, before: int) -> bool:
        return before == self.read and passes(self, label, written, before)

    patch.setattr(Waiting, "_passes", only_at_the_end)


def overlooks_rejected_records(patch: pytest.MonkeyPatch) -> None:
    take = Waiting.take_features
    patch.setattr(Waiting, "take_features", lambda self, batch: take(self, replace(batch, rejected=())))


@pytest.mark.full
@pytest.mark.parametrize("fault", [finds_what_has_been_read, overlooks_rejected_records])
def test_a_client_whose_labels_depend_on_how_far_it_has_read_is_noticed(fault, monkeypatch):
    fault(monkeypatch)
    with pytest.raises(
        Violation, match=r"has for the label of .* the record at|are unmatched, repeated and unusable"
    ):
        for seed in (401, 403):
            outcome(late(replace(spoilt(seed), delays=(-9, 1, 30)), window=WIDE, labels=seed))


def test_without_a_window_nothing_of_it_is_sent():
    simulation = federation()
    simulation.run()
    assert not any(update.watermark for update in simulation.audit.sent.values())
    assert not any(held.beside for update in simulation.audit.sent.values() for held in update.kept.held)
