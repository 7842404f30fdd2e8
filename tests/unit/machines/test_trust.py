"""What messages reveal of records, as docs/trust.md says: all with `min_records` 1, nothing below the default 10."""

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import least_squares
from unit.machines.script import (
    LEARNER,
    REGISTRY,
    Federation,
    batch,
    client,
    closed,
    feed,
    first_update,
    opening,
    sent,
    weights_in,
)
from unit.machines.test_min_records import ABOUT_NO_RECORD, content

from streamfl.learning.grid import gradient_steps, second_steps
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.digits import BITS
from streamfl.protocol.events import RecordsRead
from streamfl.protocol.messages import Join, RegistryPublished, RoundOpened, Scores, Slot, Update
from streamfl.protocol.records import Batch, Rejection, Span


def rebuilt(update: Update) -> tuple[list[float], str]:
    """Return the one record of an update: its features and its label, from sums alone."""
    assert update.numbers.second_moments is not None
    z = update.numbers.second_moments[-1, :-1]  # the last row is the sum of z, here of one
    (label,) = (sums.label for sums in update.numbers.new)
    return (z * REGISTRY.scale + REGISTRY.mean).tolist(), label


def test_records_that_leave_alone_are_rebuilt_with_their_labels():
    rng = np.random.default_rng(1)
    labels, values = "".join(rng.choice(["a", "b"], 120)), rng.normal(size=120)
    machine = client(round_size=1, capacity=200)
    update = first_update(machine, batch(labels, values=values.tolist()), second_moments=True)
    found = [rebuilt(update)]
    for entry in range(2, 121):
        decisions = feed(machine, closed(entry - 1, update), *opening(entry, second_moments=True))
        (update,) = sent(decisions, Update)
        found.append(rebuilt(update))
    assert [label for _, label in found] == list(labels)
    # Before deviations are known, the grid is fine: its step is 2^-22.
    assert [x[0] for x, _ in found] == pytest.approx(values.tolist(), abs=2.0**-22)


def test_one_record_s_difference_is_the_record_times_its_error():
    update = first_update(client(round_size=1), batch("a", values=[0.75]))
    # An untrained softmax: p - e = (1/2 - 1, 1/2); the step is 1. This slot is not whitened, so on no grid.
    assert update.numbers.differences["m"] == pytest.approx(-np.outer([0.75, 1.0], [-0.5, 0.5]))


def test_of_twenty_records_the_sum_is_right_to_half_a_step():
    values = np.random.default_rng(2).normal(size=20)
    update = first_update(client(round_size=20), batch("ab" * 10, values=values.tolist()), second_moments=True)
    assert update.numbers.second_moments is not None
    step = second_steps((), 2)[-1, 0]
    assert update.numbers.second_moments[-1, 0] == pytest.approx(values.sum(), abs=step / 2)
    assert update.numbers.second_moments[-1, 0] != values.sum()


class Round6:
    """What a reader of the topics has of client c0's update of round 6: ten records of a default federation."""

    def __init__(self, features: int) -> None:
        names = tuple("xy"[:features])
        records = {f"c{i}": self._records(f"c{i}", 10 + i, names) for i in range(3)}
        machine = Coordinator(CoordinatorSettings(learner=LEARNER, min_clients=3), CoordinatorState(Promotion()))
        settings = ClientSettings(learner=LEARNER, round_size=10, capacity=20, min_records=10)
        run = Federation(machine, records, settings).run()
        (self.update,) = (u for u in run.of(Update) if (u.client, u.round) == ("c0", 6))
        (self.opened,) = (o for o in run.of(RoundOpened) if o.round == 6)
        (self.registry,) = (
            r.registry for r in run.of(RegistryPublished) if r.registry.version == self.update.registry
        )
        published = weights_in(run.log)
        self.weights = {slot.name: published[slot.name, slot.version] for slot in self.opened.slots}
        self.y = np.repeat(
            [float(self.registry.labels.index(s.label)) for s in self.update.numbers.new],
            [s.count for s in self.update.numbers.new],
        )
        (span,) = self.update.spans
        own = records["c0"]
        self.true = (own.X[span.start : span.end], own.y[span.start : span.end])

    @staticmethod
    def _records(name: str, seed: int, features: tuple[str, ...]) -> Batch:
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, 120)
        X = rng.normal(size=(120, len(features))) + 0.8 * y[:, None]
        return Batch(Span(name, 0, 120), np.arange(120), features, X, y.astype(np.float64), ("a", "b"))

    def sent(self) -> np.ndarray:
        """Return what the update says: second moments, gradients, losses."""
        moments, new = self.update.numbers.second_moments, self.update.numbers.new
        assert moments is not None
        slopes = [self.update.numbers.differences[slot.name][:, 0] for slot in self._trained()]
        losses = [[losses.loss, losses.square] for losses in self.update.numbers.losses.values()]
        return np.concatenate([moments.ravel(), *slopes, *losses, *([s.loss, s.square] for s in new)])

    def precision(self) -> np.ndarray:
        """Return how exact each of these numbers is: half a step of its grid, or a part in 2^9."""
        rows = len(self.registry.features) + 1
        gradient = gradient_steps(self.opened.asks.exponents, rows)[:, 0] / 2
        sums = 2 * (len(self.update.numbers.losses) + len(self.update.numbers.new))
        short = np.maximum(np.abs(self.sent()[-sums:]), 1e-6) * 2.0 ** -(BITS + 1)
        second = second_steps(self.opened.asks.exponents, rows).ravel() / 2
        return np.concatenate([second, *(gradient for _ in self._trained()), short])

    def would_be_sent(self, z: np.ndarray) -> np.ndarray:
        """Return the same for guessed records, those of label a first, before it is rounded."""
        Z = np.column_stack([z.reshape(10, -1), np.ones(10)])
        outputs = {name: Z @ W for name, W in self.weights.items()}
        model, known = LEARNER.model, self.opened.known_labels
        slopes = [Z.T @ model.derivative(outputs[slot.name], self.y)[:, 0] for slot in self._trained()]
        scores = {name: model.scores(model.losses(output, self.y), known) for name, output in outputs.items()}
        losses = [[s.sum(), s @ s] for s in (scores[name] for name in self.update.numbers.losses)]
        serves = [scores[self.opened.serves][self.y == label] for label in (0.0, 1.0)]
        return np.concatenate([(Z.T @ Z).ravel(), *slopes, *losses, *([s.sum(), s @ s] for s in serves)])

    def _trained(self) -> Iterator[Slot]:
        return (slot for slot in self.opened.slots if slot.name in self.update.numbers.differences)


# Where a search ends elsewhere, what would be sent is not what was, so it takes no record to tell them apart.
@pytest.mark.full
def test_ten_records_are_rebuilt_from_one_update_of_the_default_profile() -> None:
    of = Round6(1)
    assert (of.update.records, of.update.trained, len(of.weights)) == (10, 10, 9)
    sent, precision = of.sent(), of.precision()
    guesses = (np.random.default_rng(i).normal(size=10) for i in range(20))

    def misses(z: np.ndarray) -> np.ndarray:
        return (of.would_be_sent(z) - sent) / precision

    nearest = min((least_squares(misses, guess, method="lm") for guess in guesses), key=lambda end: end.cost)
    X = nearest.x[:, None] * of.registry.scale + of.registry.mean
    off = []
    for label in (0.0, 1.0):
        rebuilt, true = X[of.y == label], of.true[0][of.true[1] == label]
        off += np.abs(np.sort(rebuilt[:, 0]) - np.sort(true[:, 0])).tolist()
    assert (np.mean(off) < 0.2, max(off) < 0.5) == (True, True)


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
    settings = ClientSettings(learner=LEARNER, round_size=20, capacity=40, min_records=10)
    machine = Coordinator(CoordinatorSettings(learner=LEARNER, min_clients=3), CoordinatorState(Promotion()))
    run = Federation(machine, records, settings).run()

    updates = run.of(Update)
    few = [update for update in updates if update.records < 10]
    assert {update.records for update in few} == {0}
    assert any(content(update) == ABOUT_NO_RECORD for update in few)
    assert all(content(update) <= ABOUT_NO_RECORD for update in few)

    questions = [question for question in run.of(Join) if question.records < 10]
    assert {question.client for question in questions} == {"c0", "c1", "c2"}
    assert all(content(question) == {"client", "nonce", "question"} for question in questions)

    of_some = {(update.client, update.attempt) for update in updates if update.records}
    assert all((scores.client, scores.attempt) in of_some for scores in run.of(Scores))

    assert sum(update.records for update in updates) >= 2 * 50
    assert all(
        len(records[name]) - machine.accounted + machine.rejected < 10 for name, machine in run.clients.items()
    )


def test_messages_about_one_record_carry_something_if_the_minimum_is_one():
    machine = client(round_size=4, capacity=4, min_records=1)
    update = first_update(machine, batch("!!!b"))
    assert update.records == 1
    assert {"new", "losses", "differences"} <= content(update)
    assert sent(feed(machine, RecordsRead((batch("a", start=4),)), *opening(1)), Update) == []
