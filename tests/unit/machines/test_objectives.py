"""Objectives in a federation: the rule of a round follows from the ledger, and changes nothing that is learnt."""

from collections import Counter
from dataclasses import dataclass, replace

import pytest
from unit.machines.script import Federation
from unit.machines.test_online_models import online

from streamfl.learning.objectives import (
    POWERS,
    Accuracy,
    Balanced,
    BestKappa,
    Cost,
    Objective,
    SeenLabels,
    TriedSums,
)
from streamfl.machines.client.usable import unusable
from streamfl.machines.coordinator.gate.checks import Claim, wrong_tried
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.protocol.messages import DecisionRule, Refusal, RoundClosed, RoundOpened, Tried, Update
from streamfl.wire import codec, messages, state_bytes

pytestmark = pytest.mark.compiles


def run(objective, *, rounds=3, **more):
    return online(objective=objective, rounds=rounds, **more).run()


def test_the_rule_of_a_round_follows_from_the_labels_of_rounds_before():
    told = run(Balanced())
    opened = {message.round: message.decision for message in told.of(RoundOpened)}
    assert opened[1] == DecisionRule()
    labels = Counter()
    for update in told.of(Update):
        if update.round == 1:
            labels.update({one.label: one.count for one in update.numbers.new})
    n = sum(labels.values())
    assert opened[2].weights == pytest.approx({name: n / (2 * count) for name, count in labels.items()}, abs=1e-5)
    assert not any(update.numbers.tried for update in told.of(Update))


def test_for_kappa_each_power_is_tried_on_all_records_of_a_round():
    told = run(BestKappa())
    for update in told.of(Update):
        tried = update.numbers.tried
        assert len(tried) == (0 if update.round == 1 else len(POWERS))
        assert all(sum(one.answers.values()) == update.records for one in tried)
    last = told.of(RoundOpened)[-1].decision
    assert (last.tried, last.power in POWERS) == (POWERS, True)


@pytest.mark.parametrize("objective", [Balanced(), BestKappa(), Cost({"b": 50.0})], ids=repr)
def test_nothing_that_is_learnt_depends_on_the_objective(objective):
    told, plain = run(objective, at=40), run(Accuracy(), at=40)
    numbers = [
        [replace(update.numbers, served=plain.of(Update)[0].numbers.served, tried=()) for update in one.of(Update)]
        for one in (told, plain)
    ]
    assert [messages.encode(replace(u, numbers=n)) for u, n in zip(told.of(Update), numbers[0], strict=True)] == [
        messages.encode(replace(u, numbers=n)) for u, n in zip(plain.of(Update), numbers[1], strict=True)
    ]
    assert told.coordinator.digest() == plain.coordinator.digest()


def test_a_price_that_outweighs_all_makes_its_label_the_answer_to_every_record():
    told = run(Cost({"b": 1e9}))
    for update in told.of(Update):
        if update.round > 1:
            (b,) = (one.count for one in update.numbers.new if one.label == "b")
            assert update.numbers.served.correct == b


def test_without_an_objective_rounds_updates_and_states_have_not_a_byte_of_it():
    told = run(Accuracy())
    assert all(b"decision" not in messages.encode(message) for message in told.of(RoundOpened))
    assert all(b"tried" not in messages.encode(update) for update in told.of(Update))
    assert "seen" not in codec.split(told.coordinator.state)[0]


def test_a_saved_state_opens_the_same_round_by_the_same_rule():
    told = run(BestKappa())
    state = state_bytes.decode(state_bytes.encode(told.coordinator.state))
    assert state.seen == told.coordinator.state.seen
    assert BestKappa().rule(state.seen, state.registry.labels) == told.of(RoundOpened)[-1].decision


def test_a_state_with_impossible_counts_of_labels_is_refused():
    state = run(BestKappa()).coordinator.state
    assert state.wrong() is None
    lies = ({"tried": state.seen.tried[:2]}, {"labels": {"a": -1.0}}, {"labels": {"a": 1e308, "b": 1e308}})
    for seen in (replace(state.seen, **lie) for lie in lies):
        assert replace(state, seen=seen).wrong() == "impossible counts of labels"


@pytest.mark.parametrize("part", ["inputs", "input_baseline", "spread_baseline", "standstill"])
def test_a_state_whose_memory_of_inputs_lacks_a_client_is_refused(part):
    state = run(BestKappa()).coordinator.state
    memory = getattr(state, part)
    assert state.wrong() is None
    lacking = replace(state, **{part: replace(memory, clients=(*memory.clients, "unheard-of"))})
    assert lacking.wrong() == "what is remembered of inputs does not fit its clients and features"


@pytest.mark.parametrize(
    "lie",
    [
        (Tried(correct=0, answers={}),) * 4,
        (Tried(correct=0, answers={}),) * 10**5,
        (Tried(correct=-1, answers={}),) * 5,
        (Tried(correct=9, answers={"a": 8}),) * 5,
        (Tried(correct=0, answers={"a": 10**9}),) * 5,
        (Tried(correct=0, answers={"z": 1}),) * 5,
        (Tried(correct=0, answers={"a": -5, "b": 5}),) * 5,
    ],
)
def test_impossible_counts_of_what_was_tried_are_refused(lie):
    told = run(BestKappa(), rounds=2)
    update = next(update for update in told.of(Update) if update.round == 2)
    lied = replace(update, numbers=replace(update.numbers, tried=lie))
    (opened,), state = [each for each in told.of(RoundOpened) if each.round == 2], told.coordinator.state
    claims = [Claim(one, Member(), opened, (), state.registry, 2, 1) for one in (update, lied)]
    wrong = [wrong_tried(claim) for claim in claims]
    assert wrong == [None, "the counts of answers that were tried are impossible"]


@dataclass
class Switching(Federation):
    """A federation whose coordinator starts again with another objective while updates of a round are in."""

    to: Objective | None = None

    def _coordinator(self, event):
        super()._coordinator(event)
        if self.to is not None and isinstance(event, Update) and event.round == 2:
            settings, self.to = replace(self.coordinator.settings, objective=self.to), None
            state = state_bytes.decode(state_bytes.encode(self.coordinator.state))
            self.restart = lambda _: Coordinator(settings, state)
            self._restarted()
            self.restart = lambda machine: machine


@pytest.mark.parametrize(("one", "other"), [(BestKappa(), Accuracy()), (Balanced(), BestKappa())], ids=repr)
def test_an_objective_may_change_while_a_round_is_open(one, other):
    told = run(one, kind=Switching, federation={"to": other})
    assert not told.of(Refusal)
    assert [len(entry.accepted) for entry in told.of(RoundClosed)][:3] == [3, 3, 3]
    assert told.coordinator.settings.objective == other


def test_only_the_objective_kappa_remembers_what_was_tried():
    told = run(BestKappa())
    seen, updates = told.coordinator.state.seen, told.of(Update)[-3:]
    labels = told.coordinator.state.registry.labels
    remembered = [bool(goal.after(seen, updates, labels).tried) for goal in (Accuracy(), Balanced(), BestKappa())]
    assert (bool(seen.tried), remembered) == (True, [False, False, True])


def test_members_who_claim_any_number_of_records_cannot_make_a_rule_that_nobody_uses():
    claims = {"a": 1.0, "b": 9e15 * 1000}
    seen = SeenLabels(labels=claims, tried=(TriedSums(correct=9e18, answers=claims),) * len(POWERS))
    assert seen.is_possible
    assert BestKappa().rule(seen, ("a", "b")).wrong() is None


@pytest.mark.parametrize(
    "rule",
    [{"weights": {"a": 0.0}}, {"weights": {"a": float("nan")}}, {"power": 2.0}, {"tried": (0.5,) * 10**5}],
    ids=["zero", "nan", "power", "many"],
)
def test_a_round_with_an_impossible_rule_is_not_used(rule):
    opened = run(Accuracy(), rounds=1).of(RoundOpened)[0]
    assert unusable(opened, None) is None
    assert unusable(replace(opened, decision=DecisionRule(**rule)), None) == "the weights of labels are out of range"


def test_no_update_is_refused_for_any_objective():
    for objective in (Balanced(), BestKappa(), Cost({"nobody": 3.0})):
        told = run(objective)
        assert not told.of(Refusal)
        assert sum(entry.records for entry in told.of(RoundClosed)) == 180
