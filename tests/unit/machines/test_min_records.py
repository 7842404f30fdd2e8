"""With fewer than `min_records` good records a client sends nothing about them: Join, updates, scores, its end."""

from dataclasses import dataclass, fields, is_dataclass

import numpy as np
import pytest
from unit.machines.script import (
    Federation,
    batch,
    client,
    closed,
    cut,
    feed,
    first_update,
    joined,
    opening,
    sent,
    swapping,
)

from streamfl.machines.client.intake.buffer import Buffer
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.decisions import Finished, Predicted
from streamfl.protocol.events import BufferDue, RecordsRead, SourceEnded, Tick
from streamfl.protocol.messages import HoldoutRule, Join, Leave, Left, RoundClosed, Score, Scores, Update
from streamfl.protocol.messages.base import FieldGroup
from streamfl.protocol.records import Batch, Span, spans
from streamfl.protocol.registry import TargetUnit
from streamfl.run.settings import LearningSettings, ProfileSettings

# What an update says besides records: who sends it, for what, and which positions it moves past.
ABOUT_NO_RECORD = {"client", "attempt", "entry", "round", "epoch", "registry", "rejected", "spans"}


def content(value: object) -> set[str]:
    """Return which fields of a message say anything: hold what is not empty, zero, or the default; also in groups."""
    own = {f.name: getattr(value, f.name) for f in fields(value)}
    groups = [x for x in own.values() if isinstance(x, FieldGroup)]
    said = {name for name, x in own.items() if not isinstance(x, FieldGroup) and says(x)}
    return said.union(*map(content, groups))


def says(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.size > 0
    if is_dataclass(value):
        return bool(content(value)) and value != TargetUnit()
    return value is not None and bool(value)


# --- its Join --------------------------------------------------------------------------------------------------


def test_a_join_with_too_few_records_says_nothing_about_them():
    machine = client(clock="interval", min_records=3, capacity=100)
    (question,) = sent(feed(machine, RecordsRead((batch("ab"),))), Join)
    assert content(question) == {"client", "nonce", "question"}


def test_a_join_with_enough_records_describes_them():
    machine = client(clock="interval", min_records=3, capacity=100)
    (question,) = sent(feed(machine, RecordsRead((batch("aba"),))), Join)
    assert (question.records, question.labels, question.moments.count.tolist()) == (3, ("a", "b"), [3.0])


def test_a_round_size_and_a_buffer_below_the_minimum_of_records_count_as_the_minimum():
    machine = client(round_size=2, min_records=10)
    assert machine.room == 10
    assert sent(feed(machine, RecordsRead((batch("ab" * 4 + "a"),))), Join) == []
    (question,) = sent(feed(machine, RecordsRead((batch("b", start=9),))), Join)
    assert question.records == 10
    (update,) = sent(feed(machine, joined(), *opening()), Update)
    assert update.records == 10


def test_a_repeated_join_describes_the_same_records():
    machine = client(clock="interval", min_records=3, capacity=100)
    (first,) = sent(feed(machine, RecordsRead((batch("aba"),))), Join)
    feed(machine, RecordsRead((batch("a", start=3),)))
    (again,) = sent(feed(machine, Tick(), now=5.0), Join)
    # The difference of two sums that overlap in all but one record would be that record.
    assert (again.records, again.moments.mean.tolist()) == (3, first.moments.mean.tolist())
    feed(machine, joined(question=2), now=6.0)
    (later,) = sent(feed(machine, Tick(), now=machine.wakes_at), Join)
    assert content(later) <= {"client", "nonce", "question"}


def test_bad_records_that_use_the_room_up_leave_room_for_least_good_ones():
    buffer = Buffer(capacity=5, min_records=2)
    buffer.add([batch("!!!!")])
    assert (buffer.room, buffer.has_sendable) == (1, True)  # leading ones can be accounted for
    buffer.add([batch("a", start=4)])
    assert (buffer.pending, buffer.size, buffer.room) == (5, 1, 4)
    buffer.add([batch("abb", start=5)])
    # Of more than five records fewer than two of the first five are good: a round ends with the second good one.
    assert spans(buffer.full(4)) == (Span("c0", 0, 6),)
    roomy = Buffer(capacity=8, min_records=2)
    roomy.add([batch("!!!!aabb")])
    assert spans(roomy.full(4)) == (Span("c0", 0, 8),)


# --- its updates -----------------------------------------------------------------------------------------------


def test_too_few_records_at_the_end_of_a_timed_round_stay_pending():
    machine = client(clock="interval", min_records=3, capacity=100)
    feed(machine, RecordsRead((batch("!!ab!"),)), joined(), *opening(closes=6.0), now=1.0)
    (update,) = sent(feed(machine, Tick(), now=7.0), Update)
    assert content(update) == ABOUT_NO_RECORD
    assert (update.rejected, update.spans) == (2, (Span("c0", 0, 2),))
    feed(machine, closed(1, update), *opening(2, t=1, closes=9.0), now=8.0)
    assert (machine.pending, machine.accounted, machine.rejected) == (3, 2, 2)
    feed(machine, RecordsRead((batch("b", start=5),)), now=9.0)
    (update,) = sent(feed(machine, Tick(), now=17.0), Update)
    assert (update.records, update.rejected, update.spans) == (3, 1, (Span("c0", 2, 6),))


def test_a_client_whose_round_closes_early_sends_nothing_about_too_few_records():
    machine = client(min_records=3)
    feed(machine, RecordsRead((batch("ab"),)), BufferDue(), joined())
    (update,) = sent(feed(machine, *opening(moments=True, second_moments=True)), Update)
    assert content(update) == ABOUT_NO_RECORD - {"rejected", "spans"}
    assert machine.pending == 2


def test_an_update_without_records_says_nothing_about_held_out_ones():
    machine = client(min_records=2, round_size=80)
    update = first_update(machine, batch("ab" * 40), held=HoldoutRule(per_label=10, since=1))
    assert update.kept.held
    feed(machine, closed(1, update), RecordsRead((batch("a", start=80),)), BufferDue())
    held = HoldoutRule(per_label=10, since=2)  # those of round 1 are to be dropped, which would reveal whose they are
    (empty,) = sent(feed(machine, *opening(2, held=held, second_moments=True, moments=True)), Update)
    assert content(empty) == ABOUT_NO_RECORD - {"rejected", "spans"}
    assert len(machine.held_back) == len(update.kept.held)
    feed(machine, closed(2, empty))
    assert len(machine.held_back) == len(update.kept.held)


def test_scores_of_a_round_without_records_are_empty():
    machine = client(min_records=3)
    feed(machine, RecordsRead((batch("ab"),)), BufferDue(), joined())
    registry, model, opened = opening()
    assert sent(feed(machine, registry, model, opened), Update)
    asked = Score(entry=1, round=1, epoch=1, registry=1, slots=opened.slots, relabel=(opened.slots[0].name,))
    (scores,) = sent(feed(machine, asked), Scores)
    assert content(scores) == {"client", "attempt", "entry", "epoch", "stage"}


# --- its end ---------------------------------------------------------------------------------------------------


def test_a_client_leaves_with_too_few_last_records_pending():
    machine = client(min_records=3)
    update = first_update(machine, batch("abab" + "!ab!"))
    feed(machine, closed(1, update), SourceEnded())
    (leading,) = sent(feed(machine, *opening(2)), Update)
    assert (leading.records, leading.rejected, leading.spans) == (0, 1, (Span("c0", 4, 5),))
    (leave,) = sent(feed(machine, closed(2, leading)), Leave)
    assert feed(machine, Left(client=leave.client, nonce=leave.nonce)) == [Finished()]
    assert (machine.accounted, machine.rejected, machine.pending) == (5, 1, 3)


def test_a_client_with_too_few_records_in_all_joins_and_leaves():
    machine = client(min_records=3)
    (question,) = sent(feed(machine, RecordsRead((batch("ab"),)), SourceEnded()), Join)
    assert question.records == 0
    assert sent(feed(machine, joined()), Leave)
    assert machine.pending == 2


# --- a federation ----------------------------------------------------------------------------------------------


def numbers(name: str, n: int) -> Batch:
    """Return records of a target of 1000 and 10 times a feature, that a client reads."""
    x = np.random.default_rng(int(name[1:])).normal(size=n)
    return Batch(Span(name, 0, n), np.arange(n), ("x",), x[:, None], 1000.0 + 10.0 * x)


@dataclass
class Slowly(Federation):
    """A federation whose clients have read only so many records when they join."""

    starting: int = 2

    def _feed(self, name: str) -> bool:
        known = self.clients[name].accounted is not None
        if self.read[name] >= self.starting and not known:
            return False
        if not known:
            self.read[name] = self.starting

            self._client(name, RecordsRead((cut(self.records[name], 0, self.starting),)))
            return True
        return super()._feed(name)


def learnt(task: str, profile: str, min_records: int, starting: int) -> Federation:
    """Run two clients by the clock that join with `starting` records."""
    learner = LearningSettings(features="rounds").learner(task, 0)
    machine = Coordinator(
        CoordinatorSettings(learner=learner, min_clients=2, interval=10.0, task=task),
        CoordinatorState(ProfileSettings(profile=profile).create(40, learner)),
    )
    make = numbers if task == "regression" else (lambda name, n: swapping(name, n // 20))
    records = {name: make(name, 400) for name in ("c0", "c1")}
    settings = ClientSettings(learner=learner, round_size=20, clock="interval", capacity=20, min_records=min_records)
    return Slowly(machine, records, settings, starting=starting).run()


@pytest.mark.parametrize("profile", ["adaptive", "paper", "experts"])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_federation_with_empty_joins_learns(task, profile):
    blank, known = learnt(task, profile, 10, 2), learnt(task, profile, 1, 15)
    assert {question.records for question in blank.of(Join)} == {0}
    assert {question.records for question in known.of(Join)} <= {14, 15}
    registry = blank.coordinator.state.registry
    assert (set(registry.features), registry.labels) == (
        set(known.coordinator.state.registry.features),
        known.coordinator.state.registry.labels,
    )
    assert blank.coordinator.state.known_labels == len(registry.labels)
    final = [run.of(RoundClosed)[-1] for run in (blank, known)]
    assert final[0].losses[final[0].serves] <= final[1].losses[final[1].serves] + 0.02


# --- what it answers where it is ----------------------------------------------------------------------


def told(decisions: list[object]) -> list[tuple[int, list[float]]]:
    """Return the round of each report of predictions, and the labels of its records."""
    return [(one.round, one.truth.tolist()) for one in decisions if isinstance(one, Predicted)]


def test_records_too_few_to_be_sent_are_answered_in_their_round_and_not_again_when_they_are_sent():
    machine = client(clock="interval", min_records=3, capacity=100, measure=True)
    feed(machine, RecordsRead((batch("ab"),)), joined(), *opening(closes=6.0), now=1.0)
    decisions = feed(machine, Tick(), now=7.0)
    assert told(decisions) == [(1, [0.0, 1.0])]
    (update,) = sent(decisions, Update)
    assert content(update) == ABOUT_NO_RECORD - {"rejected", "spans"}
    answers = machine.answered
    feed(machine, closed(1, update), *opening(2, t=2, closes=9.0), RecordsRead((batch("bb", start=2),)), now=8.0)
    decisions = feed(machine, Tick(), now=17.0)
    (update,) = sent(decisions, Update)
    assert (answers, update.records, update.numbers.served.records) == (2, 4, 4)
    assert told(decisions) == [(2, [1.0, 1.0])]
    feed(machine, closed(2, update))
    assert machine.answered == 0


def test_a_process_that_does_not_measure_says_nothing_of_records_that_it_has_answered():
    machine = client(clock="interval", min_records=3, capacity=100)
    feed(machine, RecordsRead((batch("ab"),)), joined(), *opening(closes=6.0), now=1.0)
    (only,) = feed(machine, Tick(), now=7.0)
    assert content(only.message) == ABOUT_NO_RECORD - {"rejected", "spans"}
    assert machine.answered == 2


def test_what_was_answered_counts_when_the_records_are_sent_whatever_later_models_say():
    machine = client(clock="interval", min_records=3, capacity=100, measure=True)
    feed(machine, RecordsRead((batch("bb"),)), joined(), *opening(closes=6.0), now=1.0)
    (update,) = sent(feed(machine, Tick(), now=7.0), Update)
    knows_b = np.array([[0.0, 0.0], [-9.0, 9.0]])
    feed(machine, closed(1, update), *opening(2, t=2, closes=9.0, weights={"m": knows_b}), now=8.0)
    feed(machine, RecordsRead((batch("b", start=2),)), now=9.0)
    (update,) = sent(feed(machine, Tick(), now=17.0), Update)
    assert (update.numbers.served.records, update.numbers.served.correct) == (3, 2)  # not the first one


def test_the_last_records_are_answered_before_the_client_leaves_and_nothing_is_sent_of_them():
    machine = client(min_records=3, measure=True)
    update = first_update(machine, batch("ababab"))
    feed(machine, closed(1, update), SourceEnded())
    decisions = feed(machine, *opening(2, t=2))
    assert told(decisions) == [(2, [0.0, 1.0])]
    assert sent(decisions, Leave)
    assert not sent(decisions, Update)
    assert (machine.answered, machine.pending) == (2, 2)
