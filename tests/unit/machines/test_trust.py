"""What messages tell about records: docs/trust.md, shown. With `least` 1 all; below 10, by default, nothing."""

import numpy as np
import pytest
from unit.machines.script import (
    LEARNER,
    REGISTRY,
    Federation,
    batch,
    client,
    closed,
    first_update,
    opening,
    sent,
    tell,
)
from unit.machines.test_least import ABOUT_NO_RECORD, tells

from streamfl.core.client import ClientSettings
from streamfl.core.coordinator import Coordinator, CoordinatorSettings
from streamfl.core.events import RecordsRead
from streamfl.core.messages import Join, Scores, Update
from streamfl.core.promotion import Promotion
from streamfl.core.records import Batch, Rejection, Span
from streamfl.core.standing import Standing


def rebuilt(update: Update) -> tuple[list[float], str]:
    """Return the one record of an update: its features and its label, from sums alone."""
    assert update.second_moments is not None
    z = update.second_moments[-1, :-1]  # the last row is the sum of z, here of one
    (label,) = (sums.label for sums in update.new)
    return (z * REGISTRY.scale + REGISTRY.mean).tolist(), label


def test_records_that_leave_alone_are_rebuilt_exactly_with_their_labels():
    rng = np.random.default_rng(1)
    labels, values = "".join(rng.choice(["a", "b"], 40)), rng.normal(size=40)
    machine = client(round_size=1, capacity=100)
    update = first_update(machine, batch(labels, values=values.tolist()), second_moments=True)
    found = [rebuilt(update)]
    for entry in range(2, 41):
        decisions = tell(machine, closed(entry - 1, update), *opening(entry, second_moments=True))
        (update,) = sent(decisions, Update)
        found.append(rebuilt(update))
    assert [label for _, label in found] == list(labels)
    assert [x[0] for x, _ in found] == values.tolist()


def test_one_record_s_difference_is_the_record_times_its_error():
    update = first_update(client(round_size=1), batch("a", values=[0.75]))
    # An untrained softmax: p - e = (1/2 - 1, 1/2); the step is 1.
    assert update.differences["m"] == pytest.approx(-np.outer([0.75, 1.0], [-0.5, 0.5]))


def test_of_twenty_records_the_sum_is_exact():
    values = np.random.default_rng(2).normal(size=20)
    update = first_update(client(round_size=20), batch("ab" * 10, values=values.tolist()), second_moments=True)
    assert update.second_moments is not None
    assert update.second_moments[-1, 0] == pytest.approx(values.sum(), rel=1e-12)


def scarce(name: str, seed: int) -> Batch:
    """Return a client's records: long runs of bad ones, few good ones between, and a rest of seven."""
    runs = [(False, 45), (True, 25), (False, 50), (True, 4), (False, 60), (True, 31), (False, 3), (True, 7)]
    good = np.concatenate([np.full(n, is_good) for is_good, n in runs])
    there, rng = np.flatnonzero(good), np.random.default_rng(seed)
    y = rng.integers(0, 2, len(there))
    bad = tuple(Rejection(int(i), "bad") for i in np.flatnonzero(~good))
    X = rng.normal(size=(len(there), 2)) + y[:, None]
    return Batch(Span(name, 0, len(good)), there, ("x", "y"), X, y.astype(np.float64), ("a", "b"), bad)


def test_no_message_about_fewer_than_ten_records_carries_anything():
    records = {name: scarce(name, i) for i, name in enumerate(("c0", "c1"))}
    records["c2"] = scarce("c2", 2).head(6)  # never enough
    settings = ClientSettings(learner=LEARNER, round_size=20, capacity=40, least=10)
    machine = Coordinator(CoordinatorSettings(learner=LEARNER, expect=3), Standing(Promotion()))
    run = Federation(machine, records, settings).run()

    updates = run.of(Update)
    few = [update for update in updates if update.records < 10]
    assert {update.records for update in few} == {0}
    assert any(tells(update) == ABOUT_NO_RECORD for update in few)
    assert all(tells(update) <= ABOUT_NO_RECORD for update in few)

    questions = [question for question in run.of(Join) if question.records < 10]
    assert {question.client for question in questions} == {"c0", "c1", "c2"}
    assert all(tells(question) == {"client", "incarnation", "question"} for question in questions)

    of_some = {(update.client, update.attempt) for update in updates if update.records}
    assert all((scores.client, scores.attempt) in of_some for scores in run.of(Scores))

    assert sum(update.records for update in updates) >= 2 * 50
    assert all(
        len(records[name]) - machine.accounted + machine.rejected < 10 for name, machine in run.clients.items()
    )


def test_with_least_1_such_messages_do_carry_something():
    machine = client(round_size=4, capacity=4, least=1)
    update = first_update(machine, batch("!!!b"))
    assert update.records == 1
    assert {"new", "losses", "differences"} <= tells(update)
    assert sent(tell(machine, RecordsRead((batch("a", start=4),)), *opening(1)), Update) == []
