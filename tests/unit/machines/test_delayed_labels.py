"""A client whose labels come later: at the end of its features, and after a restart."""

from dataclasses import replace

import numpy as np
import pytest
from unit.machines.script import batch, client, closed, feed, joined, opening, sent

from streamfl.machines.client.intake.arrivals import Arrivals
from streamfl.machines.client.phase import Phase
from streamfl.protocol.decisions import Answered, Seek
from streamfl.protocol.delayed import Answers, Half
from streamfl.protocol.events import FeaturesEnded, RecordsRead
from streamfl.protocol.messages import Join, Refusal, Update, Watermark
from streamfl.protocol.records import Batch
from streamfl.runtime.log.recorded import Recorded


def features(keys: str, *, start: int = 0, answered: bool = False, served: float = 0.0) -> Batch:
    """Return features under keys of one character."""
    whole = batch("a" * len(keys), start=start, of="f")
    answers = Answers(np.full(len(keys), served), np.full(len(keys), -1.0), ("a",)) if answered else None
    return replace(whole, labels=(), half=half("features", keys), answers=answers)


def labels(keys: str, *, start: int = 0) -> Batch:
    """Return labels under keys of one character, all of them a."""
    whole = batch("a" * len(keys), start=start, of="l")
    return replace(whole, features=(), X=np.zeros((len(keys), 0)), half=half("labels", keys))


def half(kind, keys: str) -> Half:
    return Half(kind, np.array(list(keys), dtype=object))


def test_labels_of_no_record_are_rejected_once_the_features_have_ended_though_labels_have_not():
    machine = client(window=100, round_size=2)
    feed(machine, RecordsRead((features("kl"), labels("uv"))))
    assert (machine.room, machine.pending) == (0, 2)  # they wait for features that could still come
    feed(machine, FeaturesEnded())
    assert (machine.room, machine.pending) == (2, 2)
    feed(machine, RecordsRead((labels("kl", start=2),)))
    assert (machine.room, machine.pending) == (0, 4)
    (first,) = machine._buffer.batches[:1]
    assert [(bad.position, bad.reason.rpartition(": ")[2]) for bad in first.rejected] == [(0, "u"), (1, "v")]


def test_a_client_that_was_there_before_answers_nothing_new_until_it_has_the_models():
    machine = client(window=100)
    decisions = feed(machine, RecordsRead((features("kl", answered=True),)))
    assert len(sent(decisions, Join)) == 1  # it asks at once, without a label
    assert (machine.phase, machine.features_room) == (Phase.JOINING, 0)
    answer = joined(entry=3, positions={"l": 7}, read=7, watermark=Watermark("f", 200, 5))
    (seek,) = [one for one in feed(machine, answer) if isinstance(one, Seek)]
    assert seek == Seek({"f": 100, "l": 5}, {"l": 7})
    assert (machine.phase, machine.features_room) == (Phase.WAITING, 0)
    assert machine.needed == {"f": 100, "l": 5}
    feed(machine, *opening(3))
    assert (machine.phase, machine.features_room) == (Phase.GATHERING, 200)
    (answered,) = [
        one for one in feed(machine, RecordsRead((features("mn", start=100),))) if isinstance(one, Answered)
    ]
    assert answered.opened is not None
    assert (answered.opened.round, answered.predictions.shape) == (3, (2, 2))


def test_a_client_that_answered_without_models_and_was_killed_is_introduced_by_its_records_as_if_it_had_not_been():
    machine = client(window=100, round_size=2)
    assert feed(machine, RecordsRead((features("kl", answered=True, served=-1.0),))) == []
    assert (machine.phase, machine.features_room) == (Phase.FILLING, 98)
    assert sent(feed(machine, RecordsRead((labels("k"),))), Join) == []
    (join,) = sent(feed(machine, RecordsRead((labels("l", start=1),))), Join)
    assert join.records == 2


def test_a_new_client_reads_features_before_there_are_models():
    machine = client(window=100)
    (answered,) = [one for one in feed(machine, RecordsRead((features("kl"),))) if isinstance(one, Answered)]
    assert (answered.opened, answered.predictions.shape) == (None, (2, 0))
    assert machine.features_room == 98


def test_a_target_of_minus_one_is_recorded_as_it_was_answered():
    recorded = Recorded(targets=True)
    answers = Answers(np.array([-1.0, 2.5]), np.array([0.5, -1.0]))
    asked = replace(features("kl"), answers=answers)
    recorded.add_all(asked)
    (again,) = recorded.parts(replace(asked, answers=None))
    assert again.answers is not None
    assert (again.answers.served.tolist(), again.answers.no_change.tolist()) == ([-1.0, 2.5], [0.5, -1.0])


def test_records_are_described_once_when_they_come_and_never_fewer_than_min_records():
    machine = client(window=100, round_size=2, min_records=2)
    feed(machine, RecordsRead((features("klmnop"), labels("kl"))), joined())
    (update,) = sent(feed(machine, *opening()), Update)
    assert update.numbers.arrived is not None
    assert (update.records, update.numbers.arrived.count.tolist()) == (2, [6.0])
    feed(machine, closed(1, update), RecordsRead((features("q", start=6), labels("mn", start=2))))
    (update,) = sent(feed(machine, *opening(2)), Update)
    assert (update.records, update.numbers.arrived) == (2, None)
    feed(machine, closed(2, update), RecordsRead((features("r", start=7), labels("op", start=4))))
    (update,) = sent(feed(machine, *opening(3)), Update)
    assert update.numbers.arrived is not None
    assert update.numbers.arrived.count.tolist() == [2.0]


def test_an_update_that_is_refused_or_late_describes_the_same_records_again_until_it_counts():
    machine = client(window=100, round_size=2, min_records=2)
    feed(machine, RecordsRead((features("klm"), labels("kl"))), joined())
    (update,) = sent(feed(machine, *opening()), Update)
    assert described(update) == [3.0]
    feed(machine, Refusal(client="c0", entry=1, reason="no", incarnation=1), joined(question=2))
    feed(machine, RecordsRead((features("nopq", start=3),)))
    feed(machine, closed(1))  # without this client
    (update,) = sent(feed(machine, *opening(2)), Update)
    assert described(update) == [3.0]  # and not the four that have come since
    feed(machine, closed(2, records=9))  # it came too late
    (update,) = sent(feed(machine, *opening(3)), Update)
    assert described(update) == [3.0]
    feed(machine, closed(3, update), RecordsRead((labels("mn", start=2),)))
    (update,) = sent(feed(machine, *opening(4)), Update)
    assert described(update) == [4.0]


def test_records_are_not_described_twice_if_an_entry_that_was_missed_has_them():
    machine = client(window=100, round_size=2, min_records=2)
    feed(machine, RecordsRead((features("klmnop"), labels("kl"))), joined())
    (update,) = sent(feed(machine, *opening()), Update)
    assert described(update) == [6.0]
    mark = replace(Watermark("f", 0, 0), features=2, labels=2)
    feed(machine, *opening(3), joined(entry=3, positions={"l": 2}, read=2, question=2, watermark=mark))
    feed(machine, RecordsRead((features("klmnop", answered=True), labels("mn", start=2))))
    (update,) = sent(feed(machine, *opening(3)), Update)
    assert (update.records, update.numbers.arrived) == (2, None)


@pytest.mark.parametrize("how", ["off", "pooled"])
def test_sums_say_nothing_of_records_whose_labels_have_not_come(how):
    machine = client(window=100, round_size=2, min_records=2, secure_aggregation=how)
    feed(machine, RecordsRead((features("klmnop"), labels("kl"))), joined())
    (update,) = sent(feed(machine, *opening(pooled=how == "pooled")), Update)
    assert update.records == 2
    assert (update.numbers.arrived is None, bool(update.sums)) == (how == "pooled", how == "pooled")


def described(update: Update) -> list[float]:
    """Return how many records an update describes as they came."""
    assert update.numbers.arrived is not None
    return update.numbers.arrived.count.tolist()


def test_of_a_backlog_the_newest_records_are_described():
    arrivals = Arrivals()
    arrivals.add(batch("a" * 500, of="f", values=[9.0] * 500))
    arrivals.add(batch("a" * 1500, start=500, of="f", values=[9.0] * 500 + [1.0] * 1000))
    found = arrivals.moments(("x",), least=10)
    assert found is not None
    assert (found.count.tolist(), found.mean.tolist(), found.m2.tolist()) == ([1000.0], [1.0], [0.0])


@pytest.mark.parametrize("size", [1, 7, 520, 700, 999])
def test_as_many_of_the_newest_records_are_described_in_whatever_batches_they_came(size):
    arrivals, values = Arrivals(), [*range(2400)]
    for start in range(0, 2400, size):
        part = values[start : start + size]
        arrivals.add(batch("a" * len(part), start=start, of="f", values=[float(value) for value in part]))
        arrivals.add(batch("", start=start + len(part), of="f", values=[]))
    found = arrivals.moments(("x",), least=1000)
    assert found is not None
    assert (found.count.tolist(), found.mean.round(3).tolist()) == ([1000.0], [pytest.approx(1899.5, rel=1e-3)])


def test_records_that_an_earlier_start_has_answered_are_not_described_again():
    machine = client(window=100, round_size=2, min_records=2)
    feed(machine, RecordsRead((features("klmnop", answered=True), labels("kl"))), joined())
    (update,) = sent(feed(machine, *opening()), Update)
    assert (update.records, update.numbers.arrived) == (2, None)
