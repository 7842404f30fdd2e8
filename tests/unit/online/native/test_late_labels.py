"""The outer mixture where labels come late: it is judged by what it said when records were answered."""

import numpy as np
import pytest

from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.private import late_labels as module
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.records import Batch, Span

LABELS = ("a", "b", "c")
NAMES = ("x", "y", "late")


def client(*, targets: bool = False) -> NativeAtClient:
    return NativeAtClient(NativeSettings("linear", targets=targets, neighbours=False, last_answer=True))


def records(X: np.ndarray, y: np.ndarray, *, labels: tuple[str, ...] = LABELS, at: int = 0) -> Batch:
    """Return records whose labels came apart from them."""
    n = len(X)
    names = NAMES[: X.shape[1]]
    return Batch(Span("p", at, at + n), at + np.arange(n), names, X, y, labels, beside=at + np.arange(n))


def stream(n: int, *, targets: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return records of which the third feature, and the third label, come late, with an outlier among the first."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[: n // 3, 2] = np.nan
    y = np.nan_to_num(X[:, 0]) + 0.3 * rng.normal(size=n)
    if targets:
        y += 5.0
        y[4] = 1e4
        return X, y
    codes = np.digitize(y, [-0.3, 0.8]).astype(float)
    return X, np.where((np.arange(n) < n // 2) & (codes == 2.0), 1.0, codes)


@pytest.mark.compiles
@pytest.mark.parametrize("targets", [False, True])
def test_labels_that_come_before_the_next_record_give_the_answers_of_labels_that_come_with_it(targets):
    (X, y), labels = stream(300, targets=targets), () if targets else LABELS
    late, plain = client(targets=targets), client(targets=targets)
    for at in range(0, 300, 20):  # labels that come with records are learnt together, as a round has them
        plain.learn_next(records(X[at : at + 20], y[at : at + 20], labels=labels, at=at))
    for i in range(300):
        one = records(X[i : i + 1], y[i : i + 1], labels=labels, at=i)
        answer, served = late.answer_late(one), plain.served[i]
        assert answer[0].tolist() == served[: answer.shape[1]].tolist()
        assert not served[answer.shape[1] :].any()
        late.learn_next(one)
    assert late.shares() == plain.shares()
    assert min(late.shares()["own"], late.shares()["last-answer"]) > 0.0


@pytest.mark.compiles
@pytest.mark.parametrize(("delay", "helps"), [(5, True), (40, False)])
def test_the_last_answer_counts_only_where_it_was_better_when_the_record_was_answered(delay, helps):
    """Labels come in runs of 20: five records later the last one still helps, forty later it says nothing."""
    rng, n, late, right = np.random.default_rng(2), 800, client(), 0
    X, y = np.zeros((n, 1)), np.repeat(rng.integers(0, 3, n // 20), 20).astype(float)
    for i in range(n):
        if i >= delay:
            late.learn_next(records(X[:1], y[i - delay : i - delay + 1], at=i - delay))
        told = late.answer_late(records(X[:1], y[i : i + 1], at=i))
        right += bool(told.size) and late.labels[told[0].argmax()] == LABELS[int(y[i])]
    assert (late.shares()["last-answer"] > 0.5) == helps
    assert right > 0.6 * n if helps else right > 0.25 * n


@pytest.mark.compiles
def test_a_label_that_no_expert_could_have_known_compares_none_of_them():
    late = client()
    for i in range(40):
        one = records(np.zeros((1, 1)), np.array([float(i % 2)]), at=i)
        late.answer_late(one)
        late.learn_next(one)
    before = late.shares()
    new = records(np.zeros((1, 1)), np.array([2.0]), at=40)
    late.answer_late(new)
    late.learn_next(new)
    assert (late.shares()["own"], late.shares()["last-answer"]) == (before["own"], before["last-answer"])
    assert late.learner.last.known == ("c", 0.0)


def test_of_records_whose_labels_come_later_than_there_is_room_some_are_known(monkeypatch):
    """There is room for 10 records, and labels come 15 to 40 records later, or never for half of the records."""
    monkeypatch.setattr(module, "MOST_NUMBERS", 120)
    said = module.PastPrediction("a", 0.0, 0.0, ("a",), np.zeros((12, 1)))
    for delay, every in ((15, 1), (40, 1), (40, 2)):
        past, known = module.PastPredictions(), 0
        for i in range(2000):
            if i >= delay and (i - delay) % every == 0:
                known += past.of(np.array([i - delay])) != [None]
                past.forget_learnt()
            past.keep(i, said)
            assert past._numbers == 12 * len(past._kept) <= 120
        assert known > 2000 / every * 10 / delay / 4


@pytest.mark.compiles
def test_what_was_said_is_bounded_and_forgotten_once_the_records_are_in_the_ledger(monkeypatch):
    late = client()
    late.learn_next(records(np.zeros((3, 1)), np.arange(3.0), at=0))
    late.answer_late(records(np.zeros((1, 1)), np.zeros(1), at=10))
    monkeypatch.setattr(module, "MOST_NUMBERS", 10 * late._past._numbers)
    late.answer_late(records(np.zeros((99, 1)), np.zeros(99), at=11))
    kept = sorted(late._past._kept)
    assert len(kept) == 10
    late.learn_next(records(np.zeros((kept[5], 1)), np.ones(kept[5]), at=0))
    again = late._past.of(np.array(kept[:5]))  # their update may have to be made again
    assert all(one is not None for one in again)
    late.release()
    assert sorted(late._past._kept) == kept[5:]
    assert late.learner.last.known == ("b", 0.0)
