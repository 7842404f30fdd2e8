"""Forged messages on the coordinator's topics: once they stop, a client recovers by itself."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from unit.machines.script import (
    LEARNER,
    PROFILES,
    REGISTRY,
    SLOT,
    Federation,
    as_bytes,
    batch,
    broadcast,
    client,
    closed,
    coordinator,
    feed,
    first_update,
    joined,
    opening,
    sent,
    swapping,
)

from streamfl.arrays import FloatArray
from streamfl.machines.client.ledger import published
from streamfl.machines.client.ledger.published import MODELS, Published
from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol import arrived
from streamfl.protocol.arrived import VERSIONS
from streamfl.protocol.changes import changed
from streamfl.protocol.decisions import Dropped, Finished, Seek
from streamfl.protocol.events import RecordsRead, Tick
from streamfl.protocol.messages import (
    Accepted,
    Ended,
    Fenced,
    FromCoordinator,
    Join,
    Leave,
    Left,
    ModelPublished,
    ModelsChanged,
    Refusal,
    RegistryPublished,
    RoundOpened,
    Score,
    Slot,
    Update,
)
from streamfl.protocol.records import Span
from streamfl.protocol.registry import Registry, TargetUnit

FAR = 10**9


def refusal(entry: int = 1, **more: Any) -> Refusal:
    return Refusal(**({"client": "c0", "incarnation": 1, "entry": entry, "reason": "for a reason"} | more))


def dropped(decisions: list[Any]) -> list[str]:
    return [str(decision.error) for decision in decisions if isinstance(decision, Dropped)]


# --- openings and closings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [2, 3, FAR])
def test_an_opening_far_ahead_keeps_no_real_one_out(ahead):
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), joined())
    asked = sent(feed(machine, *opening(ahead)), Join)
    assert len(asked) == (ahead > 2)  # the entry before the second may be on its way
    (update,) = sent(feed(machine, joined(question=2), *opening()), Update)
    assert update.entry == 1


def test_an_opening_far_ahead_is_no_reason_to_ask_twice():
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), joined())
    assert len(sent(feed(machine, *[opening(FAR + i)[-1] for i in range(50)]), Join)) == 1


def test_what_comes_before_the_first_answer_keeps_the_real_opening_out_neither():
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), opening(FAR)[-1], *opening(57), opening(FAR + 1)[-1])
    feed(machine, joined(entry=57))
    # The real one went by between the two; it is published again with the next answer.
    assert sent(feed(machine, Tick(), now=5.0), Join)
    assert sent(feed(machine, joined(entry=57, question=2), *opening(57), now=6.0), Update)


def test_two_hundred_forged_closings_are_taken_back_by_the_next_answer():
    machine = client()
    update = first_update(machine, batch("abab"))
    feed(machine, *[closed(entry) for entry in range(1, 201)], now=1.0)
    (asked,) = sent(feed(machine, Tick(), now=machine.wakes_at), Join)
    decisions = feed(machine, joined(question=asked.question), *opening(), now=8.0)
    (again,) = sent(decisions, Update)
    assert (again.entry, again.spans) == (1, update.spans)
    assert [d for d in decisions if isinstance(d, Seek)] == []


def test_a_client_asks_where_it_stands_when_two_closings_of_an_entry_differ():
    machine = client()
    update = first_update(machine, batch("abab" + "bbbb"))
    feed(machine, closed(1))
    (asked,) = sent(feed(machine, closed(1, update)), Join)
    assert sent(feed(machine, closed(1, update)), Join) == []
    decisions = feed(machine, joined(entry=2, positions={"c0": 4}, read=4, question=asked.question), *opening(2))
    assert Seek({"c0": 4}) in decisions
    assert sent(feed(machine, RecordsRead((batch("bbbb", start=4),))), Update)[0].spans == (Span("c0", 4, 8),)


@pytest.mark.parametrize(
    "other",
    [{"spans": (Span("elsewhere", 0, 10**12),)}, {"attempt": "1-2"}, {"records": 3}, {"rejected": 1}],
    ids=str,
)
def test_a_client_does_not_trust_an_acceptance_of_other_records_than_it_sent(other):
    machine = client()
    update = first_update(machine, batch("abab"))
    assert len(sent(feed(machine, closed(1, replace(update, **other), records=9)), Join)) == 1
    assert machine.pending == 4


@pytest.mark.parametrize("records", [0, 3])
def test_a_client_does_not_trust_an_acceptance_of_more_records_than_there_are_in_all(records):
    machine = client()
    update = first_update(machine, batch("abab"), keep=2)
    assert len(sent(feed(machine, closed(1, update, records=records)), Join)) == 1
    assert machine.pending == 4


def test_an_acceptance_before_any_that_was_forged_is_taken_back_to_the_start():
    machine = client()
    update = first_update(machine, batch("abab" + "aa"))
    feed(machine, closed(1, update))
    assert machine.pending == 2
    (asked,) = sent(feed(machine, Tick(), now=machine.wakes_at), Join)
    decisions = feed(machine, joined(question=asked.question), now=6.0)
    assert decisions == [Seek({"c0": 0})]  # the ledger names no position yet: it goes on where it began
    assert (machine.pending, machine.accounted) == (0, 0)


def test_a_client_that_lost_its_place_reads_from_the_start_if_the_ledger_has_no_position():
    machine = client()
    update = first_update(machine, batch("abab" + "aabb"))
    feed(machine, closed(1, update))
    (asked,) = sent(feed(machine, *opening(FAR)), Join)
    decisions = feed(machine, joined(question=asked.question))
    assert Seek({"c0": 0}) in decisions
    assert (machine.pending, machine.accounted) == (0, 0)


def test_an_answer_counts_once_and_only_to_the_newest_question():
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)))
    assert feed(machine, joined(question=0), joined(question=2), joined(question=FAR)) == []
    assert machine.accounted is None
    feed(machine, joined(entry=7, positions={"c0": 2}, read=2))
    assert feed(machine, joined(entry=9, positions={"c0": 9}, read=9)) == []
    assert machine.accounted == 2


def test_a_client_does_not_wait_for_an_announced_time_that_never_comes():
    machine = client(clock="interval", capacity=100)
    feed(machine, RecordsRead((batch("abab"),)), joined(), *opening(closes=1e300))
    assert machine.wakes_at == 5.0 * 2**5
    (asked,) = sent(feed(machine, Tick(), now=machine.wakes_at), Join)
    feed(machine, joined(question=asked.question), *opening(closes=5.0), now=165.0)
    assert sent(feed(machine, Tick(), now=170.0), Update)


def test_a_left_that_a_client_has_not_asked_for_costs_one_question():
    machine = client()
    update = first_update(machine, batch("abab"))
    assert feed(machine, Left(client="c0", nonce="i2"), Left(client="c1", nonce="i1")) == []
    (asked,) = sent(feed(machine, Left(client="c0", nonce="i1")), Join)
    assert (asked.nonce, asked.after) == ("i1+1", 1)  # as another start: the one that has left stays so
    assert feed(machine, Left(client="c0", nonce="i1")) == []
    decisions = feed(machine, joined(nonce="i1+1", incarnation=2, question=2), *opening())
    (again,) = sent(decisions, Update)
    assert (again.attempt, again.spans) == ("2-2", update.spans)
    feed(machine, closed(1, again))
    assert machine.accounted == 4
    (asked,) = sent(feed(machine, Left(client="c0", nonce="i1+1")), Join)
    assert (asked.nonce, asked.after) == ("i1+2", 2)


def test_a_client_removed_by_a_forged_leave_is_back_after_one_question():
    machine, federation_ = client(), coordinator(1)
    (introduced,) = sent(feed(machine, RecordsRead((batch("abab"),))), Join)
    told = broadcast(feed(federation_, introduced), FromCoordinator)
    assert sent(feed(machine, *told), Update)
    told = broadcast(feed(federation_, Leave(client="c0", nonce="i1")), FromCoordinator)
    assert federation_.present == set()
    (asked,) = sent(feed(machine, *told), Join)
    (commit,) = feed(federation_, asked)
    assert federation_.present == {"c0"}
    (again,) = sent(feed(machine, *commit.messages), Update)
    feed(machine, *broadcast(feed(federation_, again), FromCoordinator))
    assert (machine.accounted, federation_.state.members["c0"].accepted) == (4, 4)


# --- models ----------------------------------------------------------------------------------------------------


def test_versions_far_ahead_and_other_registries_keep_no_real_ones_out():
    registry, model, opened = opening()
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), joined())
    feed(machine, *[replace(model, version=FAR + i) for i in range(10)])
    feed(machine, *[RegistryPublished(registry=replace(REGISTRY, version=FAR + i)) for i in range(10)])
    feed(
        machine,
        RegistryPublished(registry=replace(REGISTRY, features=("x", "y"), mean=np.zeros(2), scale=np.ones(2))),
    )
    assert sent(feed(machine, opened, model), Update) == []
    assert sent(feed(machine, registry), Update)


def test_weights_of_another_shape_are_waited_for_again():
    registry, model, opened = opening()
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), joined(), registry, replace(model, weights=np.zeros((7, 3))))
    assert sent(feed(machine, opened), Update) == []
    assert machine.wakes_at == 5.0
    assert sent(feed(machine, model), Update)


def test_an_end_of_the_federation_makes_a_member_ask_once_whatever_records_it_has():
    machine = client()
    feed(machine, closed(1, first_update(machine, batch("abab"))))
    assert machine.pending == 0
    (asked,) = sent(feed(machine, *[Ended(entry=2)] * 100), Join)
    feed(machine, joined(entry=2, question=asked.question, positions={"c0": 4}, read=4), *opening(2))
    (update,) = sent(feed(machine, RecordsRead((batch("abab", start=4),))), Update)
    assert (update.entry, machine.dropped) == (2, 0)


def test_a_client_that_has_not_joined_ignores_an_end_of_the_federation():
    machine = client()
    feed(machine, RecordsRead((batch("ab"),)))
    assert feed(machine, Ended(entry=2)) == []
    assert machine.wakes_at is None


UNUSABLE: dict[str, FromCoordinator] = {
    "NaN": ModelPublished(slot="m", version=1, registry=1, weights=np.array([[np.nan]])),
    "outputs without squares": ModelPublished(slot="m", version=1, registry=1, weights=np.array([[-1e101]])),
    "a vector": ModelPublished(slot="m", version=1, registry=1, weights=np.zeros(3)),
    "a scaler of another length": RegistryPublished(registry=replace(REGISTRY, mean=np.zeros(9))),
    "a scale of 0": RegistryPublished(registry=replace(REGISTRY, scale=np.zeros(1))),
    "a unit of NaN": RegistryPublished(registry=replace(REGISTRY, target=TargetUnit(np.nan, 1.0))),
    "a feature twice": RegistryPublished(registry=Registry(1, ("x", "x"), (), np.zeros(2), np.ones(2))),
    "a label twice": RegistryPublished(registry=replace(REGISTRY, labels=("a", "a"))),
    "before the first entry": replace(opening()[-1], entry=0),
    "before the first round": replace(opening()[-1], round=0),
    "a model twice": replace(opening()[-1], slots=(SLOT, SLOT)),
    "never": replace(opening()[-1], closes=float("nan")),
    "a step of NaN": replace(opening()[-1], slots=(replace(SLOT, eta=float("nan")),)),
    "fewer than no labels": replace(opening()[-1], known_labels=-1),
    "fewer than no records": joined(read=-1),
    "before the start": joined(positions={"c0": -1}),
    "behind the end of any log": joined(positions={"c0": 10**30}),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_client_counts_and_forgets_messages_that_it_cannot_use(name):
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)))
    assert len(dropped(feed(machine, UNUSABLE[name]))) == machine.dropped == 1
    assert sent(feed(machine, joined(), *opening()), Update)


def test_a_model_that_breaks_only_when_it_is_used_does_not_end_a_client(monkeypatch):
    machine, broken = client(), [True]
    run = type(LEARNER.model).score_all

    def score_all(self: Any, *fields: Any) -> Any:
        if broken.pop() if broken else False:
            raise IndexError("of a model that was forged")
        return run(self, *fields)

    monkeypatch.setattr(type(LEARNER.model), "score_all", score_all)
    decisions = feed(machine, RecordsRead((batch("abab"),)), joined(), *opening())
    assert dropped(decisions) == ["of a model that was forged"]
    (asked,) = sent(feed(machine, Tick(), now=machine.wakes_at), Join)
    assert sent(feed(machine, joined(question=asked.question), *opening(), now=12.0), Update)


def test_received_models_are_bounded_under_any_names():
    here = Published()
    for i in range(3 * MODELS):
        here.add(ModelPublished(slot=f"m{i}", version=i, registry=i, weights=np.zeros((1, 1))))
        here.add(ModelPublished(slot="m", version=i, registry=i, weights=np.zeros((1, 1))))
        here.add(RegistryPublished(registry=replace(REGISTRY, version=i)))
    assert (len(here.slots), len(here.registries.versions), len(here.slots["m"].versions)) == (
        MODELS,
        VERSIONS,
        VERSIONS,
    )


def test_the_memory_of_all_models_is_bounded(monkeypatch):
    monkeypatch.setattr(published, "MOST_KEPT", 2000)
    here = Published()
    for i in range(200):
        here.add(ModelPublished(slot=f"m{i % 7}", version=i, registry=1, weights=np.zeros((1 + i % 5, 3))))
        if i % 50 == 49:
            here.forget_before([Slot(name="m0", version=i - 9, eta=0.1)])
        kept = sum(versions.memory for versions in here.slots.values())
        assert kept <= 2000
        assert kept > 1000 or i % 50 < 10 or i < 20  # no more is dropped than must be


def test_changes_and_states_that_wait_count_as_what_they_take_not_as_what_was_sent(monkeypatch):
    monkeypatch.setattr(arrived, "MOST_KEPT", 100_000)
    here, states = Published(), arrived.Arrived[dict[bool, FloatArray]]()
    zeros = np.zeros((10, 1000))  # 80 kB, in a few bytes
    for n in range(900, 906):
        here.add(ModelsChanged(version=n, slots=("m",), bases=(-1,), exponents=zeros[:, 0], numbers=zeros, digest=""))
        states.take(n, {True: zeros})
        assert list(here.changes.versions) == list(states.versions) == [n]


# --- refusals --------------------------------------------------------------------------------------------------


def test_a_refused_client_asks_where_it_stands_and_continues_with_the_next_entry():
    machine = client()
    update = first_update(machine, batch("abab"))
    decisions = feed(machine, refusal())
    assert len(sent(decisions, Join)) == 1
    assert sent(decisions, Update) == []
    assert machine.pending == 4
    assert sent(feed(machine, joined(question=2), *opening(), now=1.0), Update) == []
    (again,) = sent(feed(machine, closed(1, records=9), *opening(2), now=2.0), Update)
    assert (again.entry, again.spans) == (2, update.spans)


def test_a_refused_client_tries_again_ever_more_rarely_in_the_same_entry():
    machine, now, waited, question = client(), 0.0, [], 1
    update = first_update(machine, batch("abab"))
    for _ in range(7):
        assert sent(feed(machine, refusal(), now=now), Join)
        assert sent(feed(machine, joined(question=question + 1), *opening(), now=now), Update) == []
        waited.append(machine.wakes_at - now)
        now = machine.wakes_at
        question += 2
        assert len(sent(feed(machine, Tick(), now=now), Join)) == 1
        assert as_bytes(sent(feed(machine, joined(question=question), now=now), Update)) == as_bytes([update])
    assert waited == [10.0, 20.0, 40.0, 80.0, 160.0, 160.0, 160.0]


def test_a_client_waits_no_longer_than_at_first_once_an_update_is_accepted():
    machine = client()
    first_update(machine, batch("abab" + "bbbb"))
    for question in (2, 3):
        feed(machine, refusal(question - 1), joined(entry=question, question=question))
        (update,) = sent(feed(machine, *opening(question)), Update)
    assert machine.wakes_at == 4 * 5.0
    feed(machine, closed(3, update))
    assert sent(feed(machine, *opening(4)), Update)
    assert machine.wakes_at == 5.0


def test_a_client_ignores_refusals_of_others_of_other_starts_and_of_other_entries():
    machine = client()
    first_update(machine, batch("abab"))
    others = (refusal(client="c1"), refusal(incarnation=2), refusal(2), refusal(2, incarnation=2, evicted=True))
    assert feed(machine, *others) == []
    assert machine.evicted == ""


def test_an_evicted_client_stops_and_keeps_its_records():
    machine = client()
    first_update(machine, batch("abab"))
    assert feed(machine, refusal(evicted=True, reason="x" * 1000)) == [Finished()]
    assert (len(machine.evicted), machine.pending, machine.room, machine.wakes_at) == (500, 4, 0, None)
    assert feed(machine, Tick(), *opening(2), now=99.0) == []


def test_a_client_evicted_without_a_reason_knows_that_it_was_evicted():
    machine = client()
    first_update(machine, batch("abab"))
    assert feed(machine, refusal(evicted=True, reason="")) == [Finished()]
    assert machine.evicted == "no reason was given"


# --- a federation among forgers --------------------------------------------------------------------------------

Forger = Callable[[Client, int], list[FromCoordinator]]


def _of_this_entry(machine: Client) -> int:
    return machine._ledger.entry + 1


def _closings(machine: Client, n: int) -> list[FromCoordinator]:
    first = _of_this_entry(machine)
    return [closed(first + i, records=n) for i in range(n)]


def _own_closing(machine: Client, n: int) -> list[FromCoordinator]:
    if machine._flight.sent is None:
        return [closed(_of_this_entry(machine) + n)]
    accepted = Accepted(
        client=machine.name, attempt=machine._flight.sent.update.attempt, spans=(), records=n, rejected=0
    )
    own = closed(machine._flight.sent.update.entry, machine._flight.sent.update)
    return [own if n % 2 else replace(own, accepted=(accepted,))]


def _score(machine: Client, n: int) -> list[FromCoordinator]:
    slots = (replace(SLOT, name="nowhere"),)
    entry = _of_this_entry(machine)
    return [Score(entry=entry, round=n, epoch=n, registry=1, slots=slots, stage=FAR)]


def _misshapen(machine: Client, n: int) -> list[FromCoordinator]:
    opened = machine._ledger.opened
    names = [] if opened is None else [(slot.name, slot.version) for slot in opened.slots]
    wrong = np.zeros((n, 1 + n))
    return [ModelPublished(slot=name, version=v, registry=1, weights=wrong) for name, v in names]


def _registry(machine: Client, n: int) -> list[FromCoordinator]:
    version = 1 if machine._ledger.opened is None else machine._ledger.opened.registry
    names = tuple(f"f{i}" for i in range(5 + n))
    forged = Registry(version, names, ("no",), np.zeros(5 + n), np.ones(5 + n))
    return [RegistryPublished(registry=replace(forged, version=v)) for v in (version, version + n, FAR + n)]


def _answers(machine: Client, n: int) -> list[FromCoordinator]:
    fields = {
        "nonce": machine.nonce,
        "incarnation": machine.incarnation or 1,
        "entry": n,
        "positions": {machine.name: n},
        "read": n,
    }
    questions = (machine._ledger.last_answered, machine._ledger.question + n)
    return [joined(machine.name, question=question, **fields) for question in questions]


def _changes(machine: Client, n: int) -> list[FromCoordinator]:
    """Return changes of all models that it has, to versions that it waits for, has had, or that never come."""
    version = _of_this_entry(machine) + n % 3 - 1
    there = {slot: V.get(version - 1) for slot, V in machine._models.published.slots.items()}
    before = {slot: W for slot, W in there.items() if W is not None}
    if len({W.shape for W in before.values()}) != 1:  # none; or some have the shape that another forger gave them
        return []
    after = {slot: W - 4.0 for slot, W in before.items()}
    forged = changed(version, before, after, np.full(len(next(iter(before.values()))), -20.0))
    return [] if forged is None else [replace(forged, digest="lie"), replace(forged, version=FAR + n)]


FORGERS: dict[str, Forger] = {
    "openings far ahead": lambda machine, n: [opening(_of_this_entry(machine) + 2 + n * FAR)[-1]],
    "older openings": lambda machine, n: (
        [opening(max(1, machine._ledger.entry - n))[-1]] if machine._ledger.entry else []
    ),
    "closings": _closings,
    "its own closing": _own_closing,
    "closings far ahead": lambda machine, n: [closed(FAR + n)],
    "scores": _score,
    "weights of another shape": _misshapen,
    "changes of models": _changes,
    "the update uses another version of the registry": _registry,
    "answers to no question": _answers,
    "another start": lambda machine, n: [joined(machine.name, nonce="other", incarnation=machine.incarnation + n)],
    "fences": lambda machine, n: [
        Fenced(client=machine.name, nonce=nonce, after=machine._after, incarnation=n + 7)
        for nonce in ("other", *([] if machine.incarnation else [machine.nonce]))  # one that holds one would stop
    ],
    "leaving": lambda machine, _: [Left(client=machine.name, nonce=machine.nonce)],
    "refusals": lambda machine, n: [
        Refusal(client=machine.name, incarnation=machine.incarnation, entry=machine._ledger.entry + n, reason="no")
    ],
    "unusable": lambda _, n: [list(UNUSABLE.values())[n % len(UNUSABLE)]],
}


@dataclass
class AmongForgers(Federation):
    """A federation into which forged messages are put, before the events of these numbers."""

    forged: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    events: int = 0

    def _client(self, name: str, event: Any) -> None:
        self.events += 1
        for forger, n in self.forged.pop(self.events, ()):
            for message in FORGERS[forger](self.clients[name], n):
                super()._client(name, message)
        super()._client(name, event)

    def _dropped(self, error: Exception) -> None:
        pass  # what is forged, or cannot be used after what is forged


def federation(forged: dict[int, list[tuple[str, int]]]) -> AmongForgers:
    records = {name: swapping(name, 9, at=5) for name in ("c0", "c1")}
    machine = Coordinator(CoordinatorSettings(learner=LEARNER, min_clients=2), PROFILES["adaptive"]())
    return AmongForgers(machine, records, ClientSettings(learner=LEARNER, round_size=20), forged=forged)


@cache
def undisturbed() -> tuple[str, int]:
    run = federation({}).run()
    assert run.of(Score), "nothing was asked to be scored: that would not be tried"
    return run.coordinator.digest(), run.events


PLACES = st.integers(1, 140)
FORGED = st.lists(st.tuples(st.sampled_from(sorted(FORGERS)), st.integers(1, 5)), min_size=1, max_size=4)


# A refusal of the open entry, while another client asks again and again for scores that wait for this one.
REFUSED_WHILE_OTHERS_ASK = {
    66: [("unusable", 2), ("leaving", 3), ("unusable", 5), ("the update uses another version of the registry", 5)],
    97: [("refusals", 1), ("answers to no question", 5), ("openings far ahead", 5)],
}

# A stage of scoring that never comes, while another client asks again and again for the one that is open.
A_LATER_STAGE_WHILE_OTHERS_ASK = {72: [("closings far ahead", 5)], 102: [("refusals", 1)], 124: [("scores", 4)]}


@settings(phases=[Phase.explicit, Phase.generate])
@given(st.dictionaries(PLACES, FORGED, min_size=1, max_size=12))
@example(REFUSED_WHILE_OTHERS_ASK)
@example(A_LATER_STAGE_WHILE_OTHERS_ASK)
def test_after_any_forged_messages_the_model_is_the_undisturbed_one(forged):
    digest, events = undisturbed()
    assert events > 130
    run = federation(dict(forged)).run()
    assert run.coordinator.digest() == digest


@pytest.mark.parametrize("forger", FORGERS)
def test_each_forger_alone_disturbs_nothing(forger):
    run = federation({at: [(forger, 1 + at % 5)] for at in range(1, 140, 4)}).run()
    assert run.coordinator.digest() == undisturbed()[0]


def test_a_forged_answer_costs_time_and_no_record():
    class Answered(AmongForgers):
        def _client(self, name: str, event: Any) -> None:
            if isinstance(event, RoundOpened) and event.entry == 4 and not self.forged:
                self.forged = {-1: []}
                machine = self.clients[name]
                machine._ledger.question += 1
                wrong = joined(name, question=machine._ledger.question, entry=4, positions={name: 7}, read=7)
                Federation._client(self, name, wrong)
            super()._client(name, event)

    run = federation({})
    run = Answered(run.coordinator, run.records, run.settings).run()
    members = run.coordinator.state.members
    assert {name: member.read for name, member in members.items()} == {
        name: records.read for name, records in run.records.items()
    }
