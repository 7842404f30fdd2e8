"""Names that cross the limits of a federation: granted in the order of clients, the other columns dropped."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from suites.examples import examples
from unit.machines.script import (
    PROFILES,
    Federation,
    answer,
    batch,
    begun,
    broadcast,
    client,
    closed,
    coordinator,
    feed,
    first_update,
    join,
    joined,
    opening,
    refusals,
    sent,
    swapping,
)

from streamfl.bounds import Limits
from streamfl.learning.local_round import Learner
from streamfl.machines.client.intake.buffer import Buffer
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator import names
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.names import Grant
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.events import RecordsRead
from streamfl.protocol.messages import (
    HoldoutRule,
    LabelSums,
    ModelPublished,
    RegistryPublished,
    RoundClosed,
    RoundOpened,
    Scores,
    Update,
)
from streamfl.protocol.moments import Moments
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.records import Batch, Span
from streamfl.protocol.registry import Registry
from streamfl.run.settings import LearningSettings
from streamfl_benchmarks.liars.fields import altered

FULL = Registry(1, ("x",), ("a", "b"), np.zeros(1), np.ones(1))
TRAINED = ["step 16", "step 8", "step 4", "step 2", "step 1", "shadow"]


def wide(opened: RoundOpened, name: str, start: float, new: tuple[str, ...], **more) -> Update:
    """Return an update whose differences are (start + column) / 1000; the second row is 10 times the first."""
    row = (start + np.arange(2 + len(new))) / 1000.0
    trained = [slot.name for slot in opened.slots if slot.name in opened.trained_by(name, opened.slots)]
    differences = {model: np.vstack([row, 10.0 * row]) for model in trained}
    return answer(opened, name, new_labels=new, differences=differences, **more)


def registered(decisions) -> Registry:
    return broadcast(decisions, RegistryPublished)[-1].registry


# --- the coordinator -------------------------------------------------------------------------------------------


def test_labels_that_cross_the_limit_together_are_granted_in_client_order():
    machine = coordinator(3, limits=Limits(labels=4))
    opened = begun(machine, "c0", "c1", "c2")
    # In any order of arrival c0's label comes first, then the first of c1's; there is no room for u and z.
    updates = [
        wide(opened, "c2", 300.0, ("z",)),
        wide(opened, "c0", 100.0, ("v",)),
        wide(opened, "c1", 200.0, ("t", "u")),
    ]
    decisions = feed(machine, *updates)
    assert refusals(decisions) == []
    (entry,) = broadcast(decisions, RoundClosed)
    assert [(a.client, a.records) for a in entry.accepted] == [("c0", 4), ("c1", 4), ("c2", 4)]
    assert registered(decisions).labels == ("a", "b", "t", "v")
    # A model moves by the mean of three clients, in thousandths: column a by (100 + 200 + 300) / 3, b by one more,
    # t by 202 / 3, as only c1 has it, v by 102 / 3, as only c0 has.
    weights = {m.slot: m.weights for m in broadcast(decisions, ModelPublished)}
    row = np.array([200.0, 201.0, 202.0 / 3, 102.0 / 3]) / 1000.0
    trained = min(opened.trained_by("c0", opened.slots))
    np.testing.assert_allclose(weights[trained], [row, 10.0 * row], atol=1e-6)


def test_names_within_the_limit_are_registered_as_before():
    machine = coordinator(2, limits=Limits(labels=4))
    opened = begun(machine, "c0", "c1")
    decisions = feed(machine, wide(opened, "c1", 0.0, ("t", "v")), wide(opened, "c0", 0.0, ("v",)))
    assert registered(decisions).labels == ("a", "b", "t", "v")


def test_features_that_cross_the_limit_together_are_granted_in_client_order():
    machine = coordinator(2, scaling=True, limits=Limits(features=3))
    opened = begun(machine, "c0", "c1")

    def update(name: str, new: tuple[str, ...]) -> Update:
        names = ("x", *new)
        moments = Moments(names, np.full(len(names), 4.0), np.zeros(len(names)), np.full(len(names), 4.0))
        return answer(opened, name, new_features=new, moments=moments)

    decisions = feed(machine, update("c1", ("k", "l")), update("c0", ("p",)))
    assert refusals(decisions) == []
    assert registered(decisions).features == ("x", "k", "p")
    # What is remembered of features does not grow beyond them either.
    assert set(machine.state.agreed.moments.features) == {"x", "k", "p"}
    assert set(machine.state.agreed.early.first.features) <= {"x", "k", "p"}


def test_introductions_that_cross_the_limits_begin_with_the_first_clients_names():
    machine = coordinator(2, limits=Limits(features=3, labels=3))

    def introduced(name: str, features: tuple[str, ...], labels: tuple[str, ...]):
        d = len(features)
        return join(name, labels=labels, moments=Moments(features, np.full(d, 4.0), np.zeros(d), np.full(d, 4.0)))

    decisions = feed(machine, introduced("c1", ("x", "k", "l"), ("a", "n")), introduced("c0", ("x", "z"), ("b", "a")))
    assert registered(decisions).features == ("x", "z", "k")
    assert registered(decisions).labels == ("a", "b", "n")
    assert len(broadcast(decisions, RoundOpened)) == 1


BROUGHT = Registry(1, ("x",), ("a", "b"), np.zeros(1), np.ones(1))


def numbered(*shape: int) -> np.ndarray:
    """Return an array whose numbers tell their places: 123 is that of [1, 2, 3]."""
    return sum(10.0**i * index for i, index in enumerate(np.indices(shape)[::-1]))


def bringing(opened: RoundOpened) -> Update:
    """Return an update of features k and l and of labels t and u, which has learnt online, too."""
    names, labels = ("x", "k", "l"), ("a", "b", "t", "u")
    moments = Moments(names, np.array([4.0, 3.0, 2.0]), np.arange(3.0), np.ones(3))
    learnt = NativeLearnt(
        features=names,
        labels=labels,
        records=4,
        count=np.array([4.0, 3.0, 2.0]),
        moments=moments,
        norms=np.ones(2),
        second=numbered(4, 4),
        weights=numbered(4, 2, 4),
        cells=np.array([7.0, 9.0]),
        visits=np.ones(2),
        table=numbered(2, 3, 4),
        bearing=np.arange(4.0),
        right=numbered(2, 4),
        again=("k", "l"),
        far=moments,
    )
    update = wide(opened, "c0", 0.0, ("t", "u"), new_features=("k", "l"), moments=moments, learnt=learnt)
    return altered(update, new=tuple(LabelSums(label=label, count=1, loss=0.0, square=0.0) for label in labels))


def test_names_that_are_not_granted_leave_no_trace_in_an_update():
    opened = begun(coordinator(1), "c0")
    update = bringing(opened)
    grant = Grant(BROUGHT, frozenset({"x", "l"}), frozenset({"a", "b", "u"}))
    cut = grant.update(update)
    assert (cut.new_features, cut.new_labels, [one.label for one in cut.numbers.new]) == (
        ("l",),
        ("u",),
        ["a", "b", "u"],
    )
    assert {name: x[0].tolist() for name, x in cut.numbers.differences.items()} == {
        name: [0.0, 0.001, 0.003] for name in TRAINED
    }
    assert (cut.numbers.moments.features, cut.numbers.moments.count.tolist()) == (("x", "l"), [4.0, 2.0])
    learnt = cut.numbers.learnt
    assert (learnt.features, learnt.labels, learnt.again) == (("x", "l"), ("a", "b", "u"), ("l",))
    assert (learnt.moments.features, learnt.far.features) == (("x", "l"), ("x", "l"))
    assert learnt.count.tolist() == [4.0, 2.0]
    # Rows 0 (the constant), 1 (x) and 3 (l); columns 0, 1 and 3.
    assert learnt.second.tolist() == [[0, 1, 3], [10, 11, 13], [30, 31, 33]]
    assert learnt.weights[:, 1].tolist() == [[10, 11, 13], [110, 111, 113], [310, 311, 313]]
    assert learnt.table[1, 2].tolist() == [120, 121, 123]
    assert (learnt.bearing.tolist(), learnt.right.tolist()) == ([0, 1, 3], [[0, 1, 3], [10, 11, 13]])
    assert (learnt.cells, learnt.visits, learnt.records) == (
        update.numbers.learnt.cells,
        update.numbers.learnt.visits,
        4,
    )


def test_names_that_are_not_granted_leave_no_trace_in_scores():
    opened = begun(coordinator(1), "c0")
    update = bringing(opened)
    told_ = Scores(
        client="c0", attempt="1-1", entry=1, epoch=1, stage=1, losses={}, differences=update.numbers.differences
    )
    cut = Grant(BROUGHT, frozenset({"x"}), frozenset({"a", "b", "u"})).scores(told_, update)
    assert {name: x[0].tolist() for name, x in cut.differences.items()} == {
        name: [0.0, 0.001, 0.003] for name in TRAINED
    }
    whole = Grant(BROUGHT, frozenset({"x"}), frozenset({"a", "b", "t", "u"}))
    assert whole.scores(told_, update) is told_


LONG = "x" * 257
PILE = tuple(f"n{i:02}" for i in range(11))


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        ({"new_features": (LONG,)}, "a name has more than 256 bytes, or is not UTF-8"),
        ({"new_labels": ("é" * 129,)}, "a name has more than 256 bytes, or is not UTF-8"),
        ({"new_labels": ("\ud800",)}, "a name has more than 256 bytes, or is not UTF-8"),
        ({"new_features": PILE}, "11 new names, but at most 10 are allowed"),
        ({"new_labels": PILE}, "11 new names, but at most 10 are allowed"),
        (
            {"moments": Moments(("y",), np.ones(1), np.zeros(1), np.ones(1))},
            "moments name a feature that no record has",
        ),
    ],
)
def test_an_update_of_names_that_no_reader_takes_is_refused(new, reason):
    machine = coordinator(1, scaling=True, limits=Limits(10, 10))
    opened = begun(machine, "c0")
    shape = (2, 2 + len(new.get("new_labels", ())))
    differences = {name: np.zeros(shape) for name in opened.trained_by("c0", opened.slots)}
    spoilt = answer(opened, "c0", **{"differences": differences, **new})
    decisions = feed(machine, spoilt)
    assert refusals(decisions) == [("c0", reason)]
    (again,) = broadcast(decisions, RoundOpened)  # nobody else is there: the entry closes without records
    assert broadcast(feed(machine, answer(again, "c0")), RoundClosed)


@pytest.mark.parametrize(
    "names",
    [
        {"labels": ("a", LONG)},
        {"labels": PILE},
        {"moments": Moments((LONG,), np.ones(1), np.zeros(1), np.ones(1))},
        {"moments": Moments(PILE, np.ones(11), np.zeros(11), np.ones(11))},
    ],
)
def test_an_introduction_of_names_that_no_reader_takes_is_refused(names):
    machine = coordinator(1, limits=Limits(10, 10))
    assert len(refusals(feed(machine, join("c0", **names)))) == 1
    assert begun(machine, "c0").round == 1


# --- the client ------------------------------------------------------------------------------------------------


def reading(labels: str, start: int = 0) -> Batch:
    """Return records of the features x and late; late is the position of the record."""
    one = batch(labels, start=start)
    return replace(one, features=("x", "late"), X=np.column_stack([one.X, one.positions]))


def test_once_the_registry_is_full_other_labels_are_rejected_and_other_features_left_out():
    machine = client(limits=Limits(features=1, labels=2))
    decisions = feed(machine, RecordsRead((reading("aczb"),)), joined(), *opening(registry=FULL))
    assert sent(decisions, Update) == []  # two of four are good: the round is not full
    (update,) = sent(feed(machine, RecordsRead((reading("ba!a", start=4),))), Update)
    assert (update.new_features, update.new_labels) == ((), ())
    assert (update.records, update.rejected) == (4, 2)
    assert update.spans == (Span("c0", 0, 6),)
    # The bad record behind the fourth good one belongs to the next round.
    feed(machine, closed(1, update))
    assert (machine.accounted, machine.rejected) == (6, 2)


def test_a_registry_with_room_takes_all_that_a_round_brings():
    machine = client(limits=Limits(features=2, labels=3))
    decisions = feed(machine, RecordsRead((reading("aczb"),)), joined(), *opening(registry=FULL))
    (update,) = sent(decisions, Update)
    assert (update.new_features, update.new_labels) == (("late",), ("c", "z"))
    assert (update.records, update.rejected) == (4, 0)


def test_where_a_label_was_not_granted_its_records_are_let_go_of():
    # All of the round's records that hash to it are held back; z was not granted.
    held = {"per_label": 100, "since": 1}
    machine = client(round_size=60, limits=Limits(labels=3))
    first = first_update(machine, batch("abcz" * 15), held=HoldoutRule(**held))
    places = {record.position: record.ordinal for record in first.kept.held}
    of_z = {ordinal for position, ordinal in places.items() if position % 4 == 3}
    assert of_z, "the script holds no record of z back"
    full = Registry(2, ("x",), ("a", "b", "c"), np.zeros(1), np.ones(1))
    decisions = feed(
        machine,
        closed(1, first),
        RecordsRead((batch("abcz" * 20, start=60),)),
        *opening(2, registry=full, held=HoldoutRule(**held)),
    )
    (second,) = sent(decisions, Update)
    assert set(second.kept.let_go) == of_z
    assert {sums.label for sums in second.numbers.old} <= {"a", "b", "c"}
    assert (second.records, second.rejected) == (60, 19)


# --- a federation ----------------------------------------------------------------------------------------------

NAMES = st.integers(0, 40)


def poured(
    name: str, features: list[int], labels: list[int], rounds: int = 4, size: int = 20, since: int = 0
) -> Batch:
    """Return records of which every fifth has another label, and all more features: as many as a reader takes.

    The other labels begin with record `since`.
    """
    source = swapping(name, rounds, size=size)
    n = len(source)
    columns = tuple(f"f{i:02}" for i in list(dict.fromkeys(features))[:3])
    names = ("a", "b", *(f"l{i:02}" for i in list(dict.fromkeys(labels))[:2]))
    y = source.y.copy()
    y[since::5] = np.arange(len(y[since::5])) % len(names)
    X = np.column_stack([source.X, *(np.arange(n) % 7 * 1.0 for _ in columns)])
    return replace(source, features=(*source.features, *columns), X=X, y=y, labels=names)


@pytest.mark.parametrize("learning", ["rounds", pytest.param("linear", marks=pytest.mark.compiles)])
@settings(max_examples=examples(8))
@given(st.lists(NAMES, max_size=9), st.lists(NAMES, max_size=9), st.lists(NAMES, max_size=9))
def test_memory_is_bounded_and_every_update_counts(learning, one, other, third):
    limits = Limits(features=5, labels=4)
    learner: Learner = LearningSettings(features=learning).learner("classification", 0)
    records = {
        "c0": poured("c0", one, other),
        "c1": poured("c1", other, third, since=20),  # in round 2, when it has joined
        "c2": poured("c2", third, one, since=20),
    }
    machine = Coordinator(CoordinatorSettings(learner=learner, min_clients=3, limits=limits), PROFILES["adaptive"]())
    told_size = ClientSettings(learner=learner, round_size=20, limits=limits)
    run = Federation(machine, records, told_size).run()
    state = run.coordinator.state
    registry = state.registry
    assert len(registry.features) <= 5
    assert len(registry.labels) <= 4
    assert set(state.agreed.moments.features) <= set(registry.features)
    if state.online is not None:
        assert set(state.online.features) <= set(registry.features)
        assert set(state.online.labels) <= set(registry.labels)
    # Nothing was refused, and every record is in the ledger: as good, or as one of a label that there is no room for.
    assert {entry.refused for entry in run.of(RoundClosed)} == {0}
    for name, source in records.items():
        member = state.members[name]
        assert member.read == source.read
        assert member.rejected >= len(source.rejected)


# --- both limits together ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "labels", "new_features", "new_labels", "granted_features", "granted_labels"),
    [
        (1, 2, 9, 9, 0, 7),  # 9 labels of 20 weights leave room for one feature
        (3, 2, 9, 9, 0, 3),
        (3, 5, 9, 9, 0, 0),
        (1, 2, 9, 0, 8, 0),
        (1, 4, 9, 1, 2, 1),
    ],
)
def test_names_are_granted_as_long_as_a_model_has_no_more_weights_than_it_may(
    features, labels, new_features, new_labels, granted_features, granted_labels
):
    limits = Limits(features=10, labels=9, weights=20)
    registry = Registry(1, _names("x", features), _names("a", labels), np.zeros(features), np.ones(features))
    update = Update(
        client="c0", attempt="i1-1", entry=1, round=1, epoch=1, registry=1, records=1, trained=1, rejected=0,
        spans=(), new_features=_names("new x", new_features),
        new_labels=_names("new a", new_labels),
    )  # fmt: skip
    grant = Grant.of([update], registry, limits)
    assert len(grant.features) == features + granted_features
    assert len(grant.labels) == labels + granted_labels
    assert (len(grant.features) + 1) * len(grant.labels) <= limits.weights


def test_a_client_leaves_out_what_is_beyond_the_weights_of_a_model():
    limits = Limits(features=10, labels=9, weights=8)
    full = Registry(2, ("x", "y", "z"), ("a", "b"), np.zeros(3), np.ones(3))
    buffer = Buffer(10)
    X, y = np.ones((2, 4)), np.array([0.0, 2.0])
    buffer.add([Batch(Span("c0", 0, 2), np.arange(2), ("x", "y", "z", "new"), X, y, ("a", "b", "c"))])
    buffer.drop_unregistered_names(full, limits)
    (kept,) = buffer.batches
    assert (kept.features, kept.labels, len(kept), len(kept.rejected)) == (("x", "y", "z"), ("a", "b"), 1, 1)


def _names(what: str, count: int) -> tuple[str, ...]:
    return tuple(f"{what}{i}" for i in range(count))


# --- what names cost -------------------------------------------------------------------------------------------

FIVE = tuple(f"c{i}" for i in range(5))
UPDATE = Update(
    client="c0", attempt="i1-1", entry=2, round=2, epoch=1, registry=1, records=1, trained=1, rejected=0,
    spans=(),
)  # fmt: skip


def granted_features(brought: dict[str, tuple[str, ...]], spent: dict[str, int] | None = None, t: int = 2) -> Grant:
    """Return what is granted to five clients, some of which bring features."""
    updates = [replace(UPDATE, client=client, new_features=brought.get(client, ())) for client in FIVE]
    return Grant.of(updates, FULL, Limits(), spent=dict.fromkeys(FIVE, 0) | (spent or {}), t=t)


def test_a_client_that_brings_names_alone_is_granted_a_few_and_its_updates_count():
    machine = coordinator(5)
    opened = begun(machine, *FIVE)
    for new in ((), _names("l", 20), _names("m", 20)):
        columns = len(machine.state.registry.labels)
        updates = [
            answer(
                opened,
                client,
                start=4 * (opened.round - 1),
                new_labels=new if client == "c4" else (),
                differences={
                    name: np.zeros((2, columns + (len(new) if client == "c4" else 0)))
                    for name in opened.trained_by(client, opened.slots)
                },
            )
            for client in FIVE
        ]
        decisions = feed(machine, *updates)
        assert refusals(decisions) == []
        assert [one.client for one in broadcast(decisions, RoundClosed)[0].accepted] == list(FIVE)
        opened = broadcast(decisions, RoundOpened)[-1]
    assert machine.state.registry.labels == ("a", "b", *sorted(_names("l", 16)))
    spent = {name: member.spent for name, member in machine.state.members.items()}
    assert spent == dict.fromkeys(FIVE, 0) | {"c4": 64}
    assert machine.waiting_names == {"c4": 20}


def test_what_a_client_has_spent_is_gone_and_comes_back_with_the_rounds():
    many = {"c4": _names("f", 80)}
    assert len(granted_features(many).cost) == 5
    assert [granted_features(many, {"c4": spent}, t).cost["c4"] for spent, t in ((0, 2), (10, 2), (64, 19))] == [
        64, 54, 0,
    ]  # fmt: skip
    grant = granted_features(many, {"c4": 64}, 60)
    assert (grant.cost["c4"], grant.waiting) == (3, {"c4": 77})


def test_names_that_more_than_a_fifth_of_the_clients_bring_cost_nobody():
    names = _names("f", 300)
    grant = granted_features({"c1": names, "c3": names}, {"c1": 64, "c3": 64})
    assert len(grant.features) == 301
    assert set(grant.cost.values()) == {0}


def test_where_each_client_has_columns_of_its_own_all_get_theirs():
    grant = granted_features({client: _names(f"{client} f", 100) for client in FIVE})
    assert len(grant.features) == 501
    assert set(grant.cost.values()) == {100}


def test_a_client_with_twice_as_many_columns_of_its_own_as_the_middle_one_gets_no_more_than_that():
    grant = granted_features({client: _names(f"{client} f", 500 if client == "c4" else 100) for client in FIVE})
    assert grant.cost == dict.fromkeys(FIVE, 100) | {"c4": 200}


def test_names_of_the_first_round_and_of_few_clients_are_all_granted_and_cost_nothing():
    many = {"c4": _names("f", 300)}
    grant = granted_features(many, t=1)
    assert (len(grant.features), sum(grant.cost.values()), grant.waiting) == (301, 0, {})
    update = replace(UPDATE, new_features=_names("f", 300))
    grant = Grant.of([update], FULL, Limits(), spent={"c0": 900, "c1": 0, "c2": 0}, t=9)
    assert (len(grant.features), sum(grant.cost.values()), grant.waiting) == (301, 0, {})


def test_what_a_member_brought_alone_when_the_federation_began_costs_nothing():
    machine = coordinator(4)
    alone = Moments(("x", "y", "z"), np.full(3, 4.0), np.zeros(3), np.full(3, 4.0))
    feed(machine, join("c0", moments=alone), *(join(f"c{i}") for i in (1, 2, 3)))
    assert machine.state.registry.features == ("x", "y", "z")
    assert [member.spent for member in machine.state.members.values()] == [0, 0, 0, 0]


def test_labels_are_told_from_features_even_if_they_cost_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(names, "LABEL", 1)
    same = tuple(f"n{i:02}" for i in range(40))
    update = replace(UPDATE, new_features=same, new_labels=same)
    grant = Grant.of([update], FULL, Limits(), spent=dict.fromkeys(FIVE, 0), t=2)
    assert (len(grant.features), len(grant.labels), grant.cost) == (1 + 24, 2 + 40, {"c0": 64})
