"""Laws of decisions: what weights, costs and shares do to the label that answers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.learning.objectives import POWERS, Balanced, BestKappa, Cost, SeenLabels, TriedSums
from streamfl.protocol.messages import LabelSums, Numbers, Tried, Update
from streamfl.protocol.messages.decision_rule import DecisionRule, likeliest

LABELS = ("a", "b", "c", "d")
COUNTS = st.integers(0, 50)


@st.composite
def probabilities(draw: st.DrawFn) -> np.ndarray:
    """Return probabilities of some records, in steps of which products are exact or clearly different."""
    rows = draw(st.lists(st.lists(st.integers(1, 64), min_size=4, max_size=4), min_size=1, max_size=8))
    P = np.array(rows, np.float64)
    return P / P.sum(axis=1, keepdims=True)


@given(P=probabilities(), count=st.integers(1, 1000), cost=st.sampled_from([0.25, 1.0, 8.0]))
def test_with_equal_shares_or_equal_costs_the_likeliest_label_answers(P, count, cost):
    seen = SeenLabels(labels=dict.fromkeys(LABELS, float(count)))
    for rule in (
        Balanced().rule(seen, LABELS),
        BestKappa().rule(seen, LABELS),
        Cost(dict.fromkeys(LABELS, cost)).rule(SeenLabels(), LABELS),
        Balanced().rule(SeenLabels(), LABELS),
    ):
        assert rule.label_indices(P, LABELS).tolist() == likeliest(P).tolist()


@given(P=probabilities(), weights=st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4))
def test_with_the_power_0_the_likeliest_label_answers(P, weights):
    rule = DecisionRule(weights=dict(zip(LABELS, weights, strict=True)), power=0.0)
    assert rule.label_indices(P, LABELS).tolist() == likeliest(P).tolist()


@given(P=probabilities(), costs=st.lists(st.integers(1, 30), min_size=4, max_size=4))
def test_no_other_label_has_a_smaller_expected_cost(P, costs):
    prices = np.array(costs, np.float64)
    answers = (
        Cost(dict(zip(LABELS, prices.tolist(), strict=True)))
        .rule(SeenLabels(), ())
        .label_indices(P, LABELS)
        .astype(int)
    )
    expected = (P * prices).sum(axis=1, keepdims=True) - P * prices  # of each answer: all but its own label is missed
    assert (expected[np.arange(len(P)), answers] <= expected.min(axis=1) + 1e-9).all()


@given(P=probabilities(), costs=st.lists(st.integers(1, 30), min_size=4, max_size=4), order=st.permutations(range(4)))
def test_the_order_of_labels_changes_no_answer_but_among_equals(P, costs, order):
    rule = DecisionRule(weights=dict(zip(LABELS, map(float, costs), strict=True)))
    turned = tuple(LABELS[i] for i in order)
    here, there = rule.label_indices(P, LABELS), rule.label_indices(P[:, order], turned)
    products = np.sort(P * np.array(costs), axis=1)
    for one, other, sizes in zip(here, there, products, strict=True):
        if sizes[-1] > sizes[-2] * (1.0 + 1e-9):
            assert LABELS[int(one)] == turned[int(other)]


@given(counts=st.lists(COUNTS, min_size=9, max_size=9).filter(any))
def test_kappa_is_that_of_the_table_of_truths_and_answers(counts):
    table = np.array(counts, np.float64).reshape(3, 3)
    n, names = table.sum(), LABELS[:3]
    chance = (table.sum(axis=0) @ table.sum(axis=1)) / n**2
    truth, answers = (dict(zip(names, table.sum(axis=axis).tolist(), strict=True)) for axis in (1, 0))
    found = TriedSums(correct=float(np.trace(table)), answers=answers).kappa(truth)
    if chance < 1.0 - 1e-9:
        assert found == pytest.approx((np.trace(table) / n - chance) / (1.0 - chance))


def counted(**labels: int) -> Update:
    new = tuple(LabelSums(label=label, count=count, loss=0.0, square=0.0) for label, count in labels.items())
    tried = (Tried(correct=1, answers={"a": 1}),) * len(POWERS)
    return Update(
        client="c", attempt="", entry=1, round=1, epoch=1, registry=1, spans=(), records=sum(labels.values()),
        trained=0, rejected=0, numbers=Numbers(new=new, tried=tried),
    )  # fmt: skip


def test_a_label_fades_with_the_records_of_all_labels_and_counts_as_one_record_at_least():
    goal, seen = BestKappa(), SeenLabels()
    for records in ({"a": 1000, "b": 10}, {"a": 2000}, {"a": 20000}):
        before, seen = seen, goal.after(seen, [counted(**records)], LABELS)
    assert before.labels["b"] == pytest.approx(10.0 / math.e)
    assert before.tried[0].correct == pytest.approx(1.0 + 1.0 / math.e)
    weights = goal.rule(seen, LABELS).weights
    assert 0.0 < seen.labels["b"] < 0.01
    assert weights["b"] == pytest.approx(sum((seen.labels["a"], 1.0)) / 2.0, rel=1e-5)


@given(kappas=st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_of_powers_with_equal_kappa_the_least_is_chosen(kappas):
    truth = {"a": 50.0, "b": 50.0}
    tried = tuple(TriedSums(correct=50.0 + 10.0 * k, answers=truth) for k in kappas)
    assert SeenLabels(labels=truth, tried=tried).best == POWERS[kappas.index(max(kappas))]
