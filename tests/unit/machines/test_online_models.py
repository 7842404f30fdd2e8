"""Online models, in the machines: where each client begins, and what counts."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from native_streams import state
from unit.machines.script import (
    LEARNER,
    PROFILES,
    Federation,
    answer,
    as_bytes,
    batch,
    begun,
    broadcast,
    client,
    closed,
    coordinator,
    cut,
    feed,
    first_update,
    join,
    joined,
    opening,
    reborn,
    refusals,
    sent,
    swapping,
    uncounted,
)

from streamfl.errors import PeerError
from streamfl.learning.local_round import Learner
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging
from streamfl.online.native.merging.agreed_round import after_round
from streamfl.online.native.merging.grids import step_of_cells, step_of_weights
from streamfl.protocol.decisions import Predicted, Seek
from streamfl.protocol.digits import BITS, in_bits
from streamfl.protocol.events import BufferDue, RecordsRead, Tick
from streamfl.protocol.messages import (
    Join,
    Joined,
    OnlinePublished,
    Restarted,
    RoundClosed,
    RoundOpened,
    Served,
    Update,
)
from streamfl.protocol.messages.decision_rule import likeliest
from streamfl.protocol.moments import Moments
from streamfl.protocol.native import sleeping
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import Features, NativeSettings
from streamfl.protocol.native.sleeping import Rest
from streamfl.protocol.native.steps import Steps
from streamfl.protocol.records import Batch
from streamfl.run.settings import LearningSettings
from streamfl.sampling import generator
from streamfl.wire import codec, messages
from streamfl_benchmarks.liars.fields import altered

pytestmark = pytest.mark.compiles

CLIENTS = ("c0", "c1", "c2")
SETTINGS = NativeSettings("linear", neighbours=False)


def learner(features: Features = "linear", *, neighbours: bool = False) -> Learner:
    return LearningSettings(features=features, neighbours=neighbours).learner("classification", 0)


LINEAR, FERNS = learner(), learner("ferns")


def online(
    how: Learner = LINEAR,
    *,
    rounds: int = 5,
    size: int = 20,
    at: int | None = None,
    kind: type[Federation] = Federation,
    federation: dict[str, Any] | None = None,
    **settings: Any,
) -> Federation:
    """Return three clients with rounds of so many records, whose models also learn online."""
    told_ = CoordinatorSettings(**({"learner": how, "min_clients": 3} | settings))
    records = {name: swapping(name, rounds, at=at, size=size) for name in CLIENTS}
    clients = ClientSettings(learner=how, round_size=size, capacity=size, measure=True)
    return kind(Coordinator(told_, PROFILES["adaptive"]()), records, clients, **(federation or {}))


def agreed_by(run: Federation, *, without: Callable[[RoundOpened, Update], bool] = lambda opened, update: False):
    """Return the agreed models of every version, from what was sent and accepted alone."""
    opened = {message.entry: message for message in run.of(RoundOpened)}
    updates = {(update.client, update.attempt): update for update in run.of(Update)}
    models = {1: NativeState.none(run.settings.learner.online.settings)}
    labels = ("a", "b")
    for entry in run.of(RoundClosed):
        accepted = [updates[a.client, a.attempt] for a in sorted(entry.accepted, key=lambda a: a.client)]
        before = models[entry.round]
        told = [u.numbers.learnt for u in accepted if not without(opened[entry.entry], u)]
        parts = [part and run.settings.learner.online.named(part, before) for part in told]
        copy = replace(before, table=before.table.copy())
        models[entry.round + 1], _ = merging.after(copy, [part for part in parts if part], labels)
    return models


def reference(models: NativeState, records: Batch, version: int = 1) -> NativeLearnt:
    """Return what c0 learns of records from agreed models on."""
    one = NativeLearner(SETTINGS)
    one.begin(models)
    one.learn(records.features, records.X, records.y, records.labels)
    return one.learnt("c0", version)


def as_sent(models: NativeState, records: Batch, version: int = 1) -> NativeLearnt:
    """Return the same as it is sent: without the agreed names, and later with means of squares in few bits."""
    learnt = reference(models, records, version).beyond(models.features, models.labels)
    if not models.features:
        return learnt
    return replace(learnt, norms=in_bits(learnt.norms), mixture=learnt.mixture.in_few_bits)


def after(records: Batch, labels: tuple[str, ...] = ("a", "b")) -> tuple[NativeState, NativeChange]:
    """Return the agreed models after one client's round from nothing, and their change."""
    return merging.after(NativeState.none(SETTINGS), [reference(NativeState.none(SETTINGS), records)], labels)


def native(machine: Client) -> NativeAtClient:
    assert isinstance(machine.online_models, NativeAtClient)
    return machine.online_models


# --- a whole federation ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["linear", "auto"])
def test_no_byte_that_is_sent_depends_on_the_last_answer_but_what_was_served(features):
    runs = {}
    for last_answer in (True, False):
        how = LearningSettings(features=features, last_answer=last_answer).learner("classification", 0)
        runs[last_answer] = in_runs(online(how, rounds=6))
    served = [[update.numbers.served for update in run.of(Update)] for run in runs.values()]
    assert served[0] != served[1]  # it did serve
    assert any(one.shares["last-answer"] > 0.0 for one in served[0])
    one, other = ([sent_bytes(message) for message in run.log] for run in runs.values())
    assert len(one) == len(other) > 50
    assert one == other


def in_runs(run: Federation) -> Federation:
    """Run a federation in which no feature says anything, and labels change every tenth record."""
    rng = generator(1, "runs")
    for name, records in run.records.items():
        y = np.repeat(np.arange(len(records) // 10) % 2, 10).astype(float)
        run.records[name] = replace(records, X=rng.normal(size=records.X.shape), y=y)
    return run.run()


def sent_bytes(message: Any) -> bytes:
    """Return a message as bytes, without counts of what was served."""
    if isinstance(message, RoundClosed):
        message = replace(message, accepted=tuple(replace(one, measured=None) for one in message.accepted))
    if isinstance(message, RoundClosed | Update):
        message = altered(message, served=Served())
    return messages.encode(message)


@pytest.mark.parametrize("how", [LINEAR, FERNS, learner("auto", neighbours=True)], ids=["linear", "ferns", "auto"])
def test_the_agreed_models_are_those_of_all_accepted_differences_and_all_clients_begin_there(how):
    run = online(how).run()
    models = agreed_by(run)
    final = run.coordinator.state
    assert final.online is not None
    assert state(final.online) == state(models[final.round])
    assert final.online.seen == sum(entry.records for entry in run.of(RoundClosed)) == 300
    assert {opened.online for opened in run.of(RoundOpened)} == {True}
    for name in CLIENTS:
        last = native(run.clients[name])
        assert last.version == final.round - 1
        last.learner.restore()
        np.testing.assert_array_equal(last.learner._models.weights, models[last.version].weights)
        np.testing.assert_array_equal(last.learner.table, models[last.version].table.astype(np.float32))


def test_round_one_begins_from_nothing_without_a_label_and_what_is_served_first_is_wrong():
    run = online(rounds=2).run()
    first = [published for published in run.of(OnlinePublished) if published.version == 1]
    assert {(p.agreed.labels, p.agreed.features, p.agreed.seen, p.agreed.weights.shape) for p in first} == {
        ((), (), 0, (1, 3, 0))
    }
    updates = {update.client: update for update in run.of(Update) if update.round == 1}
    for name, update in updates.items():
        mine = cut(run.records[name], 0, 20)
        assert update.numbers.learnt is not None
        assert update.numbers.learnt.labels == tuple(dict.fromkeys(mine.labels[int(code)] for code in mine.y))
        alone = NativeLearner(SETTINGS)
        served = likeliest(alone.learn(mine.features, mine.X, mine.y, mine.labels))
        assert served[0] == -1.0
        said = [alone.labels[int(code)] if code >= 0 else None for code in served]
        truth = [mine.labels[int(code)] for code in mine.y]
        assert update.numbers.served.correct == sum(a == b for a, b in zip(said, truth, strict=True))
        assert sum(update.numbers.served.shares.values()) == pytest.approx(len(mine), rel=2.0**-BITS)
    (entry,) = [entry for entry in run.of(RoundClosed) if entry.round == 1]
    assert entry.served.correct == sum(update.numbers.served.correct for update in updates.values())
    assert entry.served.shares == pytest.approx(
        {
            n: sum(u.numbers.served.shares[n] for u in updates.values())
            for n in (*SETTINGS.names, "rounds", "last-answer", "own")
        },
        rel=1e-5,  # an entry has six digits
    )


class Early(Federation):
    """Clients learn what they are given at once, in pieces of some records, before they read it."""

    piece = 1

    def _client(self, name: str, event: Any) -> None:
        if isinstance(event, RecordsRead):
            for read in event.batches:
                for start in range(0, len(read), self.piece):
                    self.clients[name].learn_early(read.only(np.arange(start, min(len(read), start + self.piece))))
        super()._client(name, event)


class EarlyInSevens(Early):
    piece = 7


@pytest.mark.parametrize("kind", [Early, EarlyInSevens])
@pytest.mark.parametrize("how", [LINEAR, learner("auto", neighbours=True)], ids=["linear", "auto"])
def test_learning_early_and_learning_at_the_close_send_the_same_bytes(kind, how):
    early, late = online(how, kind=kind, rounds=4).run(), online(how, rounds=4).run()
    assert as_bytes(early.of(Update)) == as_bytes(late.of(Update))
    assert early.coordinator.digest() == late.coordinator.digest()


def test_a_coordinator_that_is_restored_at_every_commit_comes_to_the_same_models():
    undisturbed = online(FERNS).run()
    restored = online(FERNS, federation={"restart": reborn}).run()
    assert restored.coordinator is not undisturbed.coordinator
    assert restored.coordinator.digest() == undisturbed.coordinator.digest()
    assert state(restored.coordinator.state.online) == state(undisturbed.coordinator.state.online)


def test_the_order_in_which_updates_arrive_changes_no_bit():
    first = {update.client: update for update in online(rounds=1).run().of(Update)}
    found = set()
    for order in permutations(CLIENTS):
        machine = online(rounds=1).coordinator
        joins = {message.client: message for message in online(rounds=1).run().of(Join)}
        feed(machine, *joins.values())
        assert refusals(feed(machine, *(first[name] for name in order))) == []
        found.add(codec.encode(machine.state))
    assert len(found) == 1


class Deaf(Federation):
    """c1 does not hear of the online models in their version 3, the first time."""

    dropped = 0

    def _client(self, name: str, event: Any) -> None:
        if name == "c1" and isinstance(event, OnlinePublished) and event.version == 3 and not self.dropped:
            self.dropped += 1
            return
        super()._client(name, event)


def test_a_client_that_missed_a_version_asks_and_gets_the_whole_table():
    undisturbed, run = online(FERNS).run(), online(FERNS, kind=Deaf).run()
    assert run.dropped == 1
    whole = [published.version for published in run.of(OnlinePublished) if published.is_whole]
    assert set(whole) == {1, 3}
    assert [message.client for message in run.of(Join)].count("c1") == 2
    assert sorted(as_bytes(undisturbed.of(Update))) == sorted(set(as_bytes(run.of(Update))))
    assert run.coordinator.digest() == undisturbed.coordinator.digest()


class Spoiling(Federation):
    """c1 gets a change of version 3 that does not fit, the first time."""

    spoilt = 0
    errors: tuple[tuple[str, str], ...] = ()

    def _client(self, name: str, event: Any) -> None:
        if name == "c1" and isinstance(event, OnlinePublished) and event.version == 3 and not self.spoilt:
            self.spoilt += 1
            assert isinstance(event.agreed, NativeChange)
            event = replace(event, agreed=replace(event.agreed, weights=event.agreed.weights[1:]))
        try:
            super()._client(name, event)
        except PeerError as error:  # which it drops
            self.errors = (*self.errors, (name, str(error)))


def test_a_client_with_a_change_that_does_not_fit_asks_and_gets_the_whole_state():
    undisturbed, run = online(FERNS).run(), online(FERNS, kind=Spoiling).run()
    assert run.spoilt == 1
    assert [name for name, _ in run.errors] == ["c1"]
    assert "changes of agreed models do not fit them" in run.errors[0][1]
    assert {published.version for published in run.of(OnlinePublished) if published.is_whole} == {1, 3}
    assert [message.client for message in run.of(Join)].count("c1") == 2
    # It has forgotten its own memory, so what it served is another; what it learnt for others is the same.
    learnt = [
        {(u.client, u.round): state(u.numbers.learnt) for u in one.of(Update) if u.numbers.learnt is not None}
        for one in (undisturbed, run)
    ]
    assert learnt[0] == learnt[1]
    assert len(learnt[0]) == 18
    assert state(run.coordinator.state.online) == state(undisturbed.coordinator.state.online)


class Restarting(Federation):
    """Every client starts again, with nothing but its source, in rounds 2 and 4."""

    starts = 0

    def _restarted(self) -> None:
        if self.coordinator.state.entry == 2 * (self.starts + 1) <= 4:
            self.starts += 1
            for name in self.clients:
                self.clients[name], self.read[name] = Client(self.settings, name, f"i{100 + self.starts}"), 0


@pytest.mark.parametrize("how", [LINEAR, FERNS], ids=["linear", "ferns"])
def test_clients_that_start_again_read_on_from_the_agreed_models(how):
    undisturbed, run = online(how).run(), online(how, kind=Restarting).run()
    assert run.starts == 2
    assert run.coordinator.digest() == undisturbed.coordinator.digest()
    assert state(run.coordinator.state.online) == state(undisturbed.coordinator.state.online)


def test_where_labels_have_other_names_models_that_have_not_noticed_take_them_over():
    run = online(FERNS, rounds=14, at=11, size=40).run()
    (restarted,) = run.of(Restarted)
    assert (restarted.chosen, restarted.round) == ("relabelled", 11)
    parts = [
        update.numbers.learnt for update in run.of(Update) if update.round == 11 and update.numbers.learnt is not None
    ]
    shares = sum(part.right.sum(axis=1) for part in parts) / sum(part.bearing.sum() for part in parts)
    has_not = shares < 0.5
    assert has_not.tolist() == [True, False, True, True]  # the fast one has learnt the other names by itself
    before, found = (agreed_by(run)[version] for version in (11, 12))
    published = {message.version: message for message in run.of(OnlinePublished)}
    after_ = published[12]
    assert after_.is_whole
    # What rounding had kept back, at most half a step, is told first: that is a step or none.
    steps = before.steps
    others = before.weights[:, has_not][..., [1, 0]]
    assert (np.abs(after_.agreed.weights[:, has_not] - others) <= step_of_weights(steps)[has_not]).all()
    np.testing.assert_array_equal(after_.agreed.weights[:, ~has_not], found.weights[:, ~has_not])
    assert np.abs(before.weights[:, has_not]).max() > 0.01
    shallow = slice(0, 25_600)
    others = before.table[shallow, 0][:, [1, 0]]
    # Of the table less than a step was kept back, which may be two of the steps of now.
    step = step_of_cells(steps, np.arange(25_600))[:, 0]
    assert (np.abs(after_.agreed.table[shallow, 0] - others) <= 2.0 * step).all()
    # A row is told when one of its numbers has gathered a step: without those that are dropped, a few still wait.
    other = np.abs(after_.agreed.table[shallow, 1] - found.table[shallow, 1])
    assert (other <= step_of_cells(steps, np.arange(25_600))[:, 1]).all()
    assert np.count_nonzero(other.any(axis=1)) < 0.01 * len(other)
    assert (after_.agreed.labels, after_.agreed.seen) == (found.labels, found.seen)
    # All go on from there.
    assert {native(machine).version for machine in run.clients.values()} == {max(published) - 1}
    served = {entry.round: entry.served.correct / entry.records for entry in run.of(RoundClosed)}
    assert min(served[10], served[12]) > 0.9
    assert served[11] < 0.8


class Knowing(Federation):
    """Clients report that the online models had all records right."""

    def _coordinator(self, event: Any) -> None:
        if isinstance(event, Update) and event.numbers.learnt is not None:
            right = np.broadcast_to(event.numbers.learnt.bearing, event.numbers.learnt.right.shape)
            event = altered(event, learnt=replace(event.numbers.learnt, right=right))
        super()._coordinator(event)


def test_where_all_models_know_better_a_restart_renames_none_of_them():
    run = online(FERNS, rounds=14, at=11, size=40, kind=Knowing).run()
    (restarted,) = run.of(Restarted)
    assert restarted.chosen == "relabelled"
    assert not any(published.is_whole for published in run.of(OnlinePublished) if published.version > 1)
    assert run.coordinator.state.online is not None
    found = agreed_by(run)
    assert run.coordinator.state.online.chain == found[max(found)].chain


def test_a_restart_wakes_sleeping_models(monkeypatch):
    monkeypatch.setattr(sleeping, "LEAST_PART", 0.6)
    run = online(FERNS, rounds=17, at=14, size=25).run()
    (restarted,) = run.of(Restarted)
    rests = {message.version: message.agreed.rests for message in run.of(OnlinePublished)}
    t = restarted.round
    assert [version for version in rests if asleep(rests[version], "rounds")][:3] == [9, 10, 12]
    assert rests[t]["rounds"].left > 1
    assert rests[t + 1]["rounds"].left == 0
    assert any(asleep(rests[t], expert) for expert in ("fern-8-10", "fern-24-10"))
    assert not any(asleep(rests[t + 1], expert) for expert in ("rounds", "fern-8-10", "fern-24-10"))


def asleep(rests: Mapping[str, Rest], expert: str) -> bool:
    return expert in rests and rests[expert].left > 0


def test_clients_apart_take_what_is_agreed_and_add_nothing_to_it():
    size = 50
    records = {f"c{i}": swapping(f"c{i}", 12, size=size, at=9 if i == 1 else None) for i in range(6)}
    machine = Coordinator(CoordinatorSettings(learner=LINEAR, min_clients=6), CoordinatorState(Promotion()))
    run = Federation(machine, records, ClientSettings(learner=LINEAR, round_size=size)).run()
    apart = {opened.round: [c for group in opened.apart for c in group.clients] for opened in run.of(RoundOpened)}
    assert (apart[9], apart[11]) == ([], ["c1"])

    def is_apart(opened: RoundOpened, update: Update) -> bool:
        """Tell whether an update adds nothing: its client is apart, or differs from all others for the first time."""
        apart = any(update.client in group.clients for group in opened.apart)
        return apart or (opened.round, update.client) == (9, "c1")

    agreed, branched = run.coordinator.state.online, ("branches", "chain")
    assert agreed is not None
    assert state(agreed, without=branched) == state(agreed_by(run, without=is_apart)[13], without=branched)
    assert run.coordinator.state.online.chain != agreed_by(run)[13].chain


def test_a_round_in_which_all_are_apart_changes_nothing():
    run = online(rounds=1).run()
    agreed = run.of(OnlinePublished)[0].agreed
    learnt = {update.client: update.numbers.learnt for update in run.of(Update) if update.numbers.learnt is not None}
    assert learnt.keys() == set(CLIENTS)
    assert all(part.records for part in learnt.values())
    models, change = after_round(agreed, learnt, ("a", "b"), SETTINGS, apart=learnt.keys())
    assert change is not None
    assert (len(change.cells), change.seen, change.weights.any(), change.second.any()) == (0, 0, False, False)
    assert (models.seen, models.labels, models.chain) == (0, ("a", "b"), agreed.chain)


# --- rounds that do not count, and records that are read again ---------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
def test_an_update_that_was_not_accepted_is_learnt_again_from_the_new_models(whole):
    machine, records = client(learner=LINEAR), batch("abab", values=[1.0, -1.0, 2.0, -3.0])
    first = first_update(machine, records, online=True)
    assert first.numbers.learnt is not None
    assert as_learnt(first.numbers.learnt) == as_learnt(as_sent(NativeState.none(SETTINGS), records))
    models, change = after(batch("abba", values=[5.0, -2.0, 1.0, 4.0]))
    published = OnlinePublished(version=2, agreed=models if whole else change)
    (again,) = sent(feed(machine, closed(1), published, *opening(2, online=True)), Update)
    assert again.numbers.learnt is not None
    assert as_learnt(again.numbers.learnt) == as_learnt(as_sent(models, records, 2))
    assert as_learnt(again.numbers.learnt) != as_learnt(first.numbers.learnt)


@pytest.mark.parametrize("whole", [True, False])
def test_records_that_are_read_again_are_learnt_once(whole):
    machine = client(learner=LINEAR)
    first = first_update(machine, batch("abab"), online=True)
    # Another start of this client had two of them accepted: they are read again from there.
    taken = replace(first, attempt="0-1")
    models, change = after(cut(batch("abab"), 0, 2))
    published = OnlinePublished(version=2, agreed=models if whole else change)
    decisions = feed(
        machine,
        closed(1, taken),
        joined(entry=2, positions={"c0": 2}, question=2),
        published,
        *opening(2, online=True),
    )
    assert any(isinstance(decision, Seek) for decision in decisions)
    assert native(machine).learner.records == 0
    rest = batch("abba", start=2)
    (again,) = sent(feed(machine, RecordsRead((rest,))), Update)
    assert again.numbers.learnt is not None
    assert as_learnt(again.numbers.learnt) == as_learnt(as_sent(models, rest, 2))


@pytest.mark.parametrize("how", [LINEAR, FERNS, learner("auto", neighbours=True)], ids=["linear", "ferns", "auto"])
def test_what_was_learnt_of_records_that_are_to_be_read_again_is_forgotten_within_the_round(how):
    machine, fresh = (client(learner=how, clock="interval") for _ in range(2))
    feed(machine, Tick(), joined(), *opening(online=True))
    machine.learn_early(batch("ab"))
    feed(machine, RecordsRead((batch("ab"),)), opening(9)[-1])  # some entries were missed: it asks
    feed(machine, joined(entry=2, positions={"c0": 1}, question=2), *opening(2, t=1, online=True))
    again = batch("bcab", start=1)
    machine.learn_early(cut(again, 1, 3))
    (update,) = sent(feed(machine, RecordsRead((again,))), Update)
    feed(fresh, Tick(), joined(entry=2, positions={"c0": 1}), *opening(2, t=1, online=True))
    (expected,) = sent(feed(fresh, RecordsRead((again,))), Update)
    assert update.numbers.learnt is not None
    assert expected.numbers.learnt is not None
    assert as_learnt(update.numbers.learnt) == as_learnt(expected.numbers.learnt)


def as_learnt(learnt: NativeLearnt) -> Any:
    return state(learnt)


def test_an_entry_without_records_changes_no_model_and_loses_none_for_those_that_have_not_begun():
    """With a quorum c0 closes entry 2 with a bad record alone, while c1 has heard of version 2 and not yet begun."""
    machine = coordinator(2, learner=FERNS, quorum=2)
    clients = {name: client(name, learner=FERNS) for name in ("c0", "c1")}
    records = {"c0": batch("abab", of="c0"), "c1": batch("bbaa", of="c1")}

    def hand(decisions: list[Any]) -> list[Update]:
        return [update for name, one in clients.items() for update in sent(feed(one, *to(name, decisions)), Update)]

    def to(name: str, decisions: list[Any]) -> list[Any]:
        return [m for m in broadcast(decisions, object) if not isinstance(m, Joined) or m.client == name]

    joins = [
        message for name, one in clients.items() for message in sent(feed(one, RecordsRead((records[name],))), Join)
    ]
    decisions = [d for u in hand(feed(machine, *joins)) for d in feed(machine, u)]
    assert machine.state.round == 2
    hand(decisions)
    assert (native(clients["c1"]).version, machine.state.entry) == (1, 2)
    # One bad record, and the round is closed by the clock.
    (empty,) = sent(feed(clients["c0"], RecordsRead((batch("!", start=4, of="c0"),)), BufferDue()), Update)
    machine._standing.settings = replace(machine.settings, quorum=1)
    decisions = feed(machine, empty)
    (entry,) = broadcast(decisions, RoundClosed)
    assert (entry.entry, entry.round, entry.records) == (2, 2, 0)
    assert broadcast(decisions, OnlinePublished) == []
    assert machine.state.online is not None
    assert machine.state.online.seen == 8
    hand(decisions)
    (update,) = sent(feed(clients["c1"], RecordsRead((batch("abab", start=4, of="c1"),))), Update)
    assert (update.entry, update.round) == (3, 2)
    learner_ = native(clients["c1"]).learner
    learner_.restore()
    assert np.abs(learner_.table).max() > 0.0
    np.testing.assert_array_equal(learner_.table, machine.state.online.table.astype(np.float32))


# --- answers of online models --------------------------------------------------------------------------------------


def test_a_single_record_teaches_at_once_and_answers_teach_nothing():
    machine = client(learner=LINEAR)
    assert machine.answer(batch("a"))[0].shape == (1, 0)
    machine.learn_early(batch("abababab"))
    asked = batch("ab", start=8)
    before = state(native(machine))
    said, labels = machine.answer(asked)
    assert (labels, said.argmax(axis=1).tolist()) == (("a", "b"), [0, 1])
    assert said.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert state(native(machine)) == before
    # The truth is not looked at.
    np.testing.assert_array_equal(machine.answer(replace(asked, y=1.0 - asked.y))[0], said)
    machine.learn_early(batch("bbbbb", start=8, values=[1.0] * 5))
    assert machine.answer(asked)[0][0].argmax() == 1


def test_without_models_between_rounds_the_model_of_the_last_round_answers():
    machine = client(learner=LEARNER)
    assert machine.answer(batch("ab"))[1] == ()
    machine.learn_early(batch("ab"))
    update = first_update(machine, batch("abab"))
    assert update.numbers.learnt is None
    assert machine.answer(batch("ab"))[1] == ()
    W = {"m": np.array([[2.0, -2.0], [0.0, 0.0]])}
    feed(machine, closed(1, update), *opening(2, weights=W))
    said, labels = machine.answer(batch("ab"))
    p = 1.0 / (1.0 + np.exp(-4.0))
    assert labels == ("a", "b")
    assert said == pytest.approx(np.array([[p, 1.0 - p], [1.0 - p, p]]))


def test_the_model_that_serves_rounds_is_one_of_the_experts_from_round_two_on():
    machine = client(learner=LINEAR, measure=True)
    update = first_update(machine, batch("abab"), online=True)
    models, _ = after(batch("abab"))
    # The online models know a from b by now; the rounds' says the contrary, and is listened to a little.
    published = OnlinePublished(version=2, agreed=models)
    alike = client(learner=LINEAR)
    first_update(alike, batch("abab"), online=True)
    wrong = {"m": np.array([[-9.0, 9.0], [0.0, 0.0]])}
    feed(machine, closed(1, update), published, *opening(2, weights=wrong, online=True))
    feed(alike, closed(1, update), published, *opening(2, online=True))
    against, uniform = (one.answer(batch("a"))[0][0, 0] for one in (machine, alike))
    assert against < uniform


def test_served_predictions_are_in_the_rounds_labels():
    machine = client(learner=LINEAR, measure=True)
    # b comes first: the learner counts it 0, the registry 1.
    records = batch("baba")
    decisions = feed(machine, RecordsRead((records,)), joined(), *opening(online=True))
    (predicted,) = [d for d in decisions if isinstance(d, Predicted)]
    assert predicted.labels == ("a", "b")
    alone = likeliest(NativeLearner(SETTINGS).learn(records.features, records.X, records.y, records.labels))
    assert alone.tolist()[0] == -1.0
    assert predicted.served.tolist() == [{-1.0: -1.0, 0.0: 1.0, 1.0: 0.0}[code] for code in alone.tolist()]


# --- what is refused ---------------------------------------------------------------------------------------------


def test_a_client_that_does_not_learn_between_rounds_cannot_go_on_where_others_do():
    machine = client(learner=LEARNER)
    decisions = feed(machine, RecordsRead((batch("abab"),)), joined(), *opening(online=True))
    assert sent(decisions, Update) == []


def test_without_models_between_rounds_nothing_about_them_is_published():
    machine = client(learner=LINEAR)
    assert first_update(machine, batch("abab")).numbers.learnt is None
    assert broadcast(feed(coordinator(1), join("c0")), OnlinePublished) == []


@pytest.mark.parametrize("has", [True, False])
def test_an_update_must_have_models_between_rounds_exactly_if_the_federation_has(has):
    machine = coordinator(2, learner=LINEAR if has else LEARNER)
    opened = begun(machine, "c0", "c1")
    assert opened.online is has
    part = reference(NativeState.none(SETTINGS), batch("abab"))
    wrong = answer(opened, "c1", learnt=None if has else part)
    assert refusals(feed(machine, wrong)) == [("c1", "either the update or the federation has no online models")]
    assert refusals(feed(machine, altered(wrong, learnt=part if has else None))) == []


HOSTILE: dict[str, Callable[[NativeLearnt], NativeLearnt]] = {
    "a label that is unknown": lambda part: replace(
        part,
        labels=("a", "b", "zzz"),
        weights=np.pad(part.weights, ((0, 0), (0, 0), (0, 1))),
        table=np.zeros((0, 2, 3)),
    ),
    "cells in two dimensions": lambda part: replace(part, cells=np.zeros((0, 1))),
    "moments of several shapes": lambda part: replace(part, moments=replace(part.moments, count=np.ones(2))),
    "norms beyond all numbers": lambda part: replace(part, norms=np.full(2, 1.7e308)),
    "moments beyond all numbers": lambda part: replace(part, moments=replace(part.moments, m2=np.array([1.7e308]))),
    "second moments without an inverse": lambda part: replace(part, second=np.array([[4.0, 0.0], [0.0, -4.0]])),
}


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE)
def test_a_message_that_would_stop_the_coordinator_or_all_clients_is_refused(spoil):
    machine = coordinator(2, learner=LINEAR)
    opened = begun(machine, "c0", "c1")
    part = reference(NativeState.none(SETTINGS), batch("abab"))
    before = uncounted(machine)
    spoilt = messages.decode(messages.encode(answer(opened, "c1", learnt=spoil(part))))
    assert [name for name, _ in refusals(feed(machine, spoilt))] == ["c1"]
    assert uncounted(machine) == before
    for name in ("c1", "c0"):  # it counts if it comes before the round closes without c1
        assert refusals(feed(machine, answer(opened, name, learnt=part))) == []
    assert machine.state.round == 2


def in_round_2() -> tuple[Coordinator, RoundOpened, NativeLearnt]:
    """Return a coordinator that has agreed on names, its open round, and what c0 has learnt there as it is sent."""
    machine = coordinator(2, learner=LINEAR)
    opened, first = begun(machine, "c0", "c1"), as_sent(NativeState.none(SETTINGS), batch("abab"))
    (opened,) = broadcast(feed(machine, *(answer(opened, name, learnt=first) for name in ("c0", "c1"))), RoundOpened)
    agreed = machine.state.online
    assert isinstance(agreed, NativeState)
    return machine, opened, as_sent(agreed, batch("bbaa"), 2)


def test_agreed_names_are_not_sent_again():
    machine, opened, part = in_round_2()
    assert (part.features, part.labels, part.moments.features, part.moments.count.size) == ((), (), (), 1)
    assert refusals(feed(machine, *(answer(opened, name, learnt=part, start=4) for name in ("c0", "c1")))) == []
    assert (machine.state.online.features, machine.state.online.seen) == (("x",), 16)


# What does not fit the names that it leaves out: of one feature and two labels, with the constant two rows.
UNFIT: dict[str, tuple[Callable[[NativeLearnt], NativeLearnt], str]] = {
    "more rows": (lambda part: replace(part, weights=np.pad(part.weights, ((0, 1), (0, 0), (0, 0)))), "weights"),
    "fewer rows": (lambda part: replace(part, weights=part.weights[:1]), "weights"),
    "more columns": (lambda part: replace(part, bearing=np.append(part.bearing, 0.0)), "records by label"),
    "counts of two": (lambda part: replace(part, count=np.ones(2)), "counts"),
    "moments of two": (
        lambda part: replace(part, moments=Moments((), np.full(2, 4.0), np.zeros(2), np.zeros(2))),
        "moments",
    ),
    "far ones of two": (lambda part: replace(part, far=Moments((), np.ones(2), np.zeros(2), np.zeros(2))), "far out"),
    "agreed names again": (lambda part: part.named(("x",), ("a", "b")), "do not follow the agreed ones"),
    "a new name without rows": (lambda part: replace(part, features=("y",)), "no record has"),
}


@pytest.mark.parametrize(("spoil", "reason"), UNFIT.values(), ids=UNFIT)
def test_numbers_that_do_not_fit_the_names_that_are_not_sent_are_refused(spoil, reason):
    machine, opened, part = in_round_2()
    ((name, said),) = refusals(feed(machine, answer(opened, "c1", learnt=spoil(part), start=4)))
    assert name == "c1"
    assert reason in said


def test_the_largest_differences_that_are_admitted_can_be_added_up():
    machine = coordinator(2, learner=FERNS)
    opened = begun(machine, "c0", "c1")
    one = NativeLearner(NativeSettings("ferns", neighbours=False))
    one.learn(("x",), np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array([0.0, 1.0, 0.0, 1.0]), ("a", "b"))
    part = one.learnt()
    most = 2.0**62 / 2.0**16 / 2 / 2 / 4 - 1.0
    large = replace(part, table=np.full(part.table.shape, most))
    assert refusals(feed(machine, *(answer(opened, name, learnt=large) for name in ("c0", "c1")))) == []
    assert machine.state.round == 2
    assert machine.state.online is not None
    assert machine.state.online.table.max() == pytest.approx(most * 2.0 ** (max(part.steps.table) - part.steps.finer))


@pytest.mark.parametrize("liar", ["c0", "c3"])
@pytest.mark.parametrize("exponent", [110, -110])
def test_a_client_that_lies_of_its_steps_harms_no_other(liar, exponent):
    machine = coordinator(4, learner=FERNS)
    opened = begun(machine, "c0", "c1", "c2", "c3")
    one = NativeLearner(NativeSettings("ferns", neighbours=False))
    one.learn(("x",), np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array([0.0, 1.0, 0.0, 1.0]), ("a", "b"))
    part = one.learnt()
    lie = replace(
        part,
        steps=Steps((exponent,) * 4, (exponent,) * 4),
        weights=1e9 * part.weights,
        table=1e9 * part.table,
    )
    told = {name: lie if name == liar else part for name in ("c0", "c1", "c2", "c3")}
    decisions = feed(machine, *(answer(opened, name, learnt=learnt) for name, learnt in told.items()))
    assert refusals(decisions) == []
    (entry,) = broadcast(decisions, RoundClosed)
    assert {accepted.client for accepted in entry.accepted} == set(told)
    assert machine.state.online is not None
    assert np.isfinite(machine.state.online.table).all()
    steps = machine.state.online.steps
    honest = part.steps
    assert np.abs(np.subtract(steps.weights, honest.weights)).max() <= 2
    assert np.abs(np.subtract(steps.table, honest.table)).max() <= 2
