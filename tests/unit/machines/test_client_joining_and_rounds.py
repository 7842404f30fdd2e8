"""Scripts for the client machine: how it joins, closes its buffer, follows the ledger, and leaves."""

import math
from dataclasses import replace

import numpy as np
import pytest
from unit.machines.script import (
    LEARNER,
    REGISTRY,
    SLOT,
    as_bytes,
    batch,
    client,
    closed,
    feed,
    first_update,
    joined,
    opening,
    sent,
)

from streamfl.live.settings.settings import FederationSettings
from streamfl.protocol.decisions import Finished, PostUpdate, Predicted, Seek
from streamfl.protocol.events import RecordsRead, SourceEnded, Stopped, Tick
from streamfl.protocol.messages import BranchGroup, Fenced, Join, LabelSums, Leave, Left, Slot, Update
from streamfl.protocol.records import Span
from streamfl.protocol.registry import Registry


def left(incarnation: str = "i1", name: str = "c0") -> Left:
    return Left(client=name, nonce=incarnation)


# --- joining ---------------------------------------------------------------------------------------------------


def test_a_client_introduces_itself_when_its_first_round_is_full():
    machine = client()
    assert feed(machine, RecordsRead((batch("ab!"),))) == []
    decisions = feed(machine, RecordsRead((batch("bbab", start=3),)))
    (introduction,) = sent(decisions, Join)
    assert (introduction.client, introduction.nonce, introduction.after) == ("c0", "i1", 0)
    assert introduction.labels == ("a", "b")
    assert introduction.records == 4
    assert introduction.moments.count.tolist() == [4.0]
    assert introduction.moments.mean.tolist() == [-0.5]
    assert machine.accounted is None


def test_a_source_that_ends_early_is_introduced_with_what_it_has():
    machine = client()
    (introduction,) = sent(feed(machine, RecordsRead((batch("ab"),)), SourceEnded()), Join)
    assert introduction.records == 2


def test_a_client_asks_once_and_again_without_an_answer():
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), now=10.0)
    assert machine.wakes_at == 15.0
    assert feed(machine, RecordsRead((batch("ab", start=4),)), now=12.0) == []
    assert feed(machine, Tick(), now=14.9) == []
    assert len(sent(feed(machine, Tick(), now=15.0), Join)) == 1
    assert machine.wakes_at == 25.0  # twice as long each time
    for waited in (10.0, 20.0, 40.0, 80.0, 160.0, 160.0):
        now = machine.wakes_at
        assert len(sent(feed(machine, Tick(), now=now), Join)) == 1
        assert machine.wakes_at - now in (waited * 2, 160.0)


def fenced(after: int, present: int) -> Fenced:
    return Fenced(client="c0", nonce="i1", after=after, incarnation=present)


def test_a_start_that_is_fenced_by_a_later_one_ends():
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), joined(incarnation=3))
    assert feed(machine, fenced(after=2, present=4)) == [Finished()]
    assert machine.superseded


def test_a_start_whose_incarnation_was_issued_to_another_start_ends():
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), joined(incarnation=3))
    assert feed(machine, fenced(after=2, present=3)) == [Finished()]
    assert machine.superseded


def test_a_start_whose_incarnation_a_kill_of_the_coordinator_undid_asks_for_another():
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), joined(incarnation=3))
    (again,) = sent(feed(machine, fenced(after=2, present=1), Tick(), now=100.0), Join)
    assert (again.nonce, again.after) == ("i1", 1)
    feed(machine, joined(incarnation=2, question=again.question), now=101.0)
    assert (machine.incarnation, machine.superseded) == (2, False)


def test_a_client_with_a_lost_join_asks_again_while_the_others_continue():
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), now=0.0)
    joins = []
    for entry in range(1, 40):
        joins += sent(feed(machine, closed(entry), *opening(entry + 1), Tick(), now=float(entry)), Join)
    assert len(joins) >= 3


def test_a_client_that_is_stopped_before_the_federation_begins_leaves_at_once():
    machine = client()
    assert len(sent(feed(machine, Stopped()), Leave)) == 1
    assert feed(machine, left()) == [Finished()]


def test_a_client_ignores_answers_to_others():
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)))
    assert feed(machine, joined("c1"), joined(start=0), *opening()) == []
    assert machine.accounted is None


def test_joined_says_where_to_read_on_and_what_was_accounted_for():
    machine = client(start=2)
    feed(machine, RecordsRead((batch("abab"),)))
    decisions = feed(machine, joined(start=2, entry=4, positions={"c0": 12}, read=11))
    assert decisions == [Seek({"c0": 12})]
    assert (machine.pending, machine.accounted, machine.room) == (0, 11, 8)


def test_a_source_that_had_ended_may_go_on_after_a_seek():
    machine = client(start=2)
    feed(machine, RecordsRead((batch("ab"),)), SourceEnded())
    decisions = feed(machine, joined(start=2, entry=4, positions={"c0": 1}, read=1), *opening(4))
    assert sent(decisions, Leave) == sent(decisions, Update) == []
    (update,) = sent(feed(machine, RecordsRead((batch("b", start=1),)), SourceEnded()), Update)
    assert update.spans == (Span("c0", 1, 2),)


def test_a_stale_joined_moves_nothing():
    machine = client()
    update = first_update(machine, batch("abab"))
    feed(machine, closed(1, update))
    assert machine.accounted == 4
    assert feed(machine, joined(entry=1, positions={"c0": 0}, read=0)) == []
    assert machine.accounted == 4


# --- an update -------------------------------------------------------------------------------------------------


def test_an_update_has_sums_counts_and_a_step_and_no_record():
    machine = client()
    update = first_update(machine, batch("aab!b"))
    assert (update.entry, update.round, update.epoch, update.registry) == (1, 1, 1, 1)
    assert (update.records, update.trained, update.rejected) == (4, 4, 1)
    assert update.spans == (Span("c0", 0, 5),)
    assert update.attempt == "1-1"
    # An untrained softmax of two labels: ln 2 a record, of at most 2 ln 2.
    assert update.numbers.losses["m"].loss == pytest.approx(4 * 0.5)
    assert update.numbers.losses["m"].square == pytest.approx(4 * 0.25)
    # ln 2 of 4 ln 2, twice, and b is wrong: (4 * 0.5 + 2) / 3, in 8 bits.
    assert update.numbers.losses["m"].proper == 1.3359375
    assert update.numbers.new == (
        LabelSums(label="a", count=2, loss=1.0, square=0.5),
        LabelSums(label="b", count=2, loss=1.0, square=0.5),
    )
    # The gradient is the mean of z (p - e_y), with z = (x, 1): x and the class agree, the intercept cancels.
    assert update.numbers.differences["m"] == pytest.approx(np.array([[0.5, -0.5], [0.0, 0.0]]))
    assert update.numbers.squared_norm == pytest.approx(8.0)
    assert update.numbers.largest_norm == pytest.approx(math.sqrt(2.0))
    assert (update.numbers.served.records, update.numbers.served.correct, update.numbers.served.no_change) == (
        4,
        2,
        2.0,
    )
    assert update.numbers.moments is None


def test_only_the_records_of_one_round_are_sent():
    update = first_update(client(), batch("abab" + "aaaa"))
    assert (update.records, update.spans) == (4, (Span("c0", 0, 4),))


def test_moments_are_sent_when_they_are_wanted():
    update = first_update(client(), batch("aabb"), moments=True)
    assert update.numbers.moments is not None
    assert update.numbers.moments.count.tolist() == [4.0]
    assert update.numbers.moments.features == ()  # those of the registry, which all know


def test_every_model_is_scored_and_only_trained_ones_are_stepped():
    slots = (SLOT, Slot(name="average", version=1, eta=0.0, trained=False))
    good = np.array([[5.0, -5.0], [0.0, 0.0]])
    update = first_update(client(), batch("abab"), slots=slots, weights={"average": good})
    assert set(update.numbers.losses) == {"m", "average"}
    assert set(update.numbers.differences) == {"m"}
    assert update.numbers.losses["average"].loss < 0.01 < update.numbers.losses["m"].loss


def test_models_for_other_clients_are_neither_scored_nor_waited_for():
    branch = Slot(name="branch", version=1, eta=1.0, clients=("c9",))
    registry, model, *_, opened = opening(slots=(SLOT, branch))
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), joined())
    (update,) = sent(feed(machine, registry, model, opened), Update)
    assert set(update.numbers.losses) == set(update.numbers.differences) == {"m"}


def test_a_model_of_its_own_is_scored_and_trained():
    branch = Slot(name="branch", version=1, eta=1.0, clients=("c0",))
    update = first_update(client(), batch("abab"), slots=(SLOT, branch))
    assert set(update.numbers.losses) == set(update.numbers.differences) == {"m", "branch"}


def test_a_client_apart_scores_the_models_of_all_and_trains_and_serves_its_own():
    slots = (SLOT, replace(SLOT, name="branch", clients=("c0",)))
    apart = (BranchGroup(clients=("c0",), serves="branch"),)
    good = {"branch": np.array([[5.0, -5.0], [0.0, 0.0]])}
    update = first_update(client(), batch("abab"), slots=slots, weights=good, apart=apart)
    assert (update.records, update.trained, set(update.numbers.differences)) == (4, 4, {"branch"})
    assert update.numbers.losses["m"].loss == pytest.approx(2.0)
    # Its sums by label and its predictions are of the model that serves it.
    assert sum(sums.loss for sums in update.numbers.new) == pytest.approx(update.numbers.losses["branch"].loss)
    assert update.numbers.served.correct == 4
    other = first_update(client("c1"), batch("abab", of="c1"), slots=slots, apart=apart)
    assert (other.trained, set(other.numbers.differences)) == (4, {"m"})


def test_a_client_apart_without_a_model_of_its_own_trains_nothing():
    apart = (BranchGroup(clients=("c0",), serves="m"),)
    update = first_update(client(), batch("abab"), apart=apart)
    assert (update.records, update.trained, dict(update.numbers.differences)) == (4, 0, {})


def test_with_whitened_slots_the_gradient_is_sent_and_the_penalty_is_not():
    penalised = replace(LEARNER, l2=10.0)
    slots = (replace(SLOT, whitened=True, eta=4.0),)
    weights = {"m": np.array([[0.0, 0.0], [3.0, 3.0]])}
    update = first_update(
        client(learner=penalised), batch("aab!b"), slots=slots, weights=weights, second_moments=True
    )
    # The sum over four records of z (p - e), not the mean, and without the step size.
    assert update.numbers.differences["m"].tolist() == [[-2.0, 2.0], [0.0, 0.0]]
    # Four records z = (x, 1), x 1 or -1.
    assert update.numbers.second_moments is not None
    assert update.numbers.second_moments.tolist() == [[4.0, 0.0], [0.0, 4.0]]
    plain = first_update(client(learner=penalised), batch("abab"), weights=weights)
    assert plain.numbers.second_moments is None
    assert plain.numbers.differences["m"] == pytest.approx(np.array([[0.5, -0.5], [-30.0, -30.0]]))


def test_a_new_label_gets_a_column_and_scores_one():
    update = first_update(client(), batch("abzz"))
    assert update.new_labels == ("z",)
    assert update.numbers.differences["m"].shape == (2, 3)
    assert update.numbers.differences["m"][:, 2].tolist() != [0.0, 0.0]
    (z,) = (sums for sums in update.numbers.new if sums.label == "z")
    assert (z.count, z.loss, z.square) == (2, 2.0, 2.0)


def test_new_features_are_named_and_vanished_ones_are_their_mean():
    registry = Registry(1, ("gone",), ("a", "b"), np.array([7.0]), np.array([2.0]))
    update = first_update(client(), batch("abab"), registry=registry)
    assert update.new_features == ("x",)
    # z = 0 for the feature that is missing, and 1 for the constant.
    assert update.numbers.squared_norm == pytest.approx(4.0)
    assert update.numbers.differences["m"][0].tolist() == [0.0, 0.0]


def test_nothing_is_sent_before_every_model_is_here():
    machine = client()
    registry, model, opened = opening()
    feed(machine, RecordsRead((batch("abab"),)), joined())
    assert feed(machine, opened, registry) == []
    assert len(sent(feed(machine, model), Update)) == 1


# --- the ledger ------------------------------------------------------------------------------------------------


def test_a_client_drops_the_records_of_its_accepted_attempt_and_the_next_round_follows():
    machine = client()
    update = first_update(machine, batch("abab" + "bbbb"))
    decisions = feed(machine, closed(1, update))
    assert sent(decisions, Update) == []
    assert (machine.accounted, machine.pending) == (4, 4)
    (following,) = sent(feed(machine, *opening(2)), Update)
    assert following.spans == (Span("c0", 4, 8),)
    assert (following.attempt, following.entry, following.round) == ("1-2", 2, 2)


def test_a_client_that_an_entry_leaves_out_sends_the_same_records_under_the_next():
    machine = client()
    update = first_update(machine, batch("abab"))
    feed(machine, closed(1, records=99))
    assert (machine.accounted, machine.pending) == (0, 4)
    (again,) = sent(feed(machine, *opening(2)), Update)
    assert again.spans == update.spans
    assert (again.attempt, again.entry) == ("1-2", 2)


def test_a_client_asks_where_it_stands_when_another_attempt_in_its_name_is_accepted():
    machine = client()
    update = first_update(machine, batch("abab"))
    decisions = feed(machine, closed(1, replace(update, attempt="0-7", spans=(Span("c0", 0, 2),))))
    assert machine.accounted is None
    assert len(sent(decisions, Join)) == 1
    decisions = feed(machine, *opening(2), joined(entry=2, positions={"c0": 2}, read=2, question=2))
    assert Seek({"c0": 2}) in decisions
    assert machine.pending == 0
    (update,) = sent(feed(machine, RecordsRead((batch("abab", start=2),))), Update)
    assert update.spans == (Span("c0", 2, 6),)


def test_a_client_that_missed_an_entry_asks_where_it_stands():
    machine = client()
    update = first_update(machine, batch("abab"))
    decisions = feed(machine, closed(3, replace(update, entry=3)))
    assert machine.accounted is None
    assert len(sent(decisions, Join)) == 1
    assert sent(feed(machine, *opening(4)), Update) == []
    feed(machine, joined(entry=4, positions={"c0": 4}, read=4, question=2))
    (update,) = sent(feed(machine, RecordsRead((batch("abab", start=4),))), Update)
    assert update.entry == 4


def test_older_entries_and_openings_are_discarded():
    machine = client()
    update = first_update(machine, batch("abab" + "bbbb"))
    feed(machine, closed(1, update))
    (following,) = sent(feed(machine, *opening(2)), Update)
    assert feed(machine, closed(1, update)) == []
    assert feed(machine, *opening(1)) == []
    assert (machine.accounted, machine.pending) == (4, 4)
    feed(machine, closed(2, following))
    assert machine.accounted == 8


def test_a_coordinator_that_starts_again_has_the_same_update_sent_again():
    machine = client()
    update = first_update(machine, batch("abab"))
    for start in (1, 2):
        *_, opened = opening(resumed=start)
        (again,) = sent(feed(machine, opened), Update)
        assert as_bytes([again]) == as_bytes([update])
        assert feed(machine, *opening(resumed=start), *opening(resumed=start - 1)) == []  # a copy, and an older one


def test_an_update_for_a_coordinator_that_has_started_again_is_sent_once():
    machine = client()
    first_update(machine, batch("abab"), resumed=3)
    assert feed(machine, *opening(resumed=3)) == []


def test_an_opening_published_again_for_another_client_has_nothing_sent_again():
    machine = client()
    first_update(machine, batch("abab"))
    assert feed(machine, joined("c1"), *opening()) == []


def test_a_client_asks_after_silence_and_sends_its_update_again_on_the_answer():
    machine = client()
    update = first_update(machine, batch("abab"))
    assert machine.wakes_at == 5.0
    (asked,) = sent(feed(machine, Tick(), now=5.0), Join)
    assert (asked.nonce, asked.after) == ("i1", 0)
    decisions = feed(machine, joined(question=2), *opening(), now=6.0)
    assert as_bytes(sent(decisions, Update)) == as_bytes([update])
    assert [d for d in decisions if isinstance(d, Seek)] == []


def test_bad_records_alone_move_the_position_and_open_the_round_again():
    machine = client()
    update = first_update(machine, batch("!" * 8))
    assert (update.records, update.trained, update.rejected) == (0, 0, 8)
    assert update.spans == (Span("c0", 0, 8),)
    assert dict(update.numbers.differences) == {}
    feed(machine, closed(1, update))
    assert (machine.accounted, machine.pending, machine.room) == (8, 0, 8)
    feed(machine, *opening(2, t=1))
    (update,) = sent(feed(machine, RecordsRead((batch("abab", start=8),))), Update)
    assert (update.entry, update.round, update.spans) == (2, 1, (Span("c0", 8, 12),))


# --- the end ---------------------------------------------------------------------------------------------------


def test_a_source_that_ends_sends_its_rest_then_leaves():
    machine = client()
    update = first_update(machine, batch("abab" + "ab"))
    assert sent(feed(machine, SourceEnded()), Leave) == []
    feed(machine, closed(1, update))
    (rest,) = sent(feed(machine, *opening(2)), Update)
    assert (rest.records, rest.spans) == (2, (Span("c0", 4, 6),))
    (leave,) = sent(feed(machine, closed(2, rest)), Leave)
    assert (leave.client, leave.nonce) == ("c0", "i1")
    assert sent(feed(machine, Tick(), now=5.0), Leave) == [leave]
    assert sent(feed(machine, Tick(), now=15.0), Leave) == [leave]
    assert feed(machine, left("i0"), left(name="c1")) == []
    assert feed(machine, left()) == [Finished()]
    assert machine.room == 0
    assert machine.wakes_at is None
    assert feed(machine, *opening(3), RecordsRead((batch("abab"),)), Tick(), now=999.0) == []


def test_a_client_that_is_stopped_waits_for_its_last_update_and_leaves_the_rest():
    machine = client()
    update = first_update(machine, batch("abab" + "ab"))
    assert sent(feed(machine, Stopped()), Leave) == []
    assert machine.room == 0
    assert sent(feed(machine, closed(1, update), *opening(2)), Update) == []
    assert sent(feed(machine, Tick(), now=5.0), Leave)
    assert machine.pending == 2


# --- the interval clock ----------------------------------------------------------------------------------------


def test_by_the_clock_the_buffer_closes_at_the_announced_time():
    machine = client(clock="interval", capacity=100)
    (introduction,) = sent(feed(machine, RecordsRead((batch("ab"),)), now=1.0), Join)
    assert introduction.records == 2
    assert sent(feed(machine, joined(), *opening(closes=5.0), now=2.0), Update) == []
    assert machine.wakes_at == 7.0
    assert feed(machine, RecordsRead((batch("abaab", start=2),)), Tick(), now=6.9) == []
    (update,) = sent(feed(machine, Tick(), now=7.0), Update)
    assert (update.records, update.spans) == (7, (Span("c0", 0, 7),))


@pytest.mark.parametrize("ahead", [0.0, 7200.0, -1e9])
def test_when_a_buffer_closes_does_not_depend_on_what_a_clients_clock_says(ahead):
    machine = client(clock="interval", capacity=100)
    feed(machine, RecordsRead((batch("ab"),)), joined(), *opening(closes=5.0), now=ahead)
    assert machine.wakes_at == ahead + 5.0
    feed(machine, *opening(closes=3.0), now=ahead + 2.0)  # published again, for another client
    assert machine.wakes_at == ahead + 5.0
    assert sent(feed(machine, Tick(), now=ahead + 5.0), Update)


def test_an_update_is_not_asked_about_before_retry_seconds_have_passed():
    machine = client(clock="interval")
    feed(machine, RecordsRead((batch("ab"),)), joined(), *opening(closes=68.0), now=2.0)
    assert sent(feed(machine, Tick(), now=70.0), Update)
    assert machine.wakes_at == 70.0 + machine.settings.retry
    assert feed(machine, Tick(), now=69.9 + machine.settings.retry) == []
    assert sent(feed(machine, Tick(), now=70.0 + machine.settings.retry), Join)


@pytest.mark.parametrize("deadline", [0.5, 5.0, 60.0])
def test_by_default_no_client_asks_again_in_a_round_that_the_deadline_closes(deadline):
    settings = FederationSettings.model_validate({"rounds": {"deadline": deadline}, "records": {"topics": ["r"]}})
    machine = client(clock="interval", retry=settings.client_machine.retry)
    feed(machine, RecordsRead((batch("ab"),)), joined(), *opening(closes=68.0), now=2.0)
    assert sent(feed(machine, Tick(), now=70.0), Update)
    closes = 70.0 + settings.coordinator_machine.deadline  # all clients close their buffers when this one does
    assert machine.wakes_at > closes + 0.9 * deadline  # by then its entry is here
    assert feed(machine, Tick(), now=closes + 0.9 * deadline) == []


def test_a_round_that_is_opened_again_for_others_does_not_postpone_the_question_about_an_update():
    machine = client()
    assert sent(feed(machine, RecordsRead((batch("abab"),)), joined(), *opening()), Update)
    for now in (1.0, 2.0, 3.0, 4.0, 4.9):  # clients of another host join again and again
        assert feed(machine, *opening(), now=now) == []
    assert machine.wakes_at == machine.settings.retry == 5.0
    assert sent(feed(machine, Tick(), now=5.0), Join)


def test_by_the_clock_a_client_without_records_says_so():
    machine = client(clock="interval")
    feed(machine, Tick(), now=0.0)
    feed(machine, joined(), *opening(closes=6.0), now=1.0)
    (update,) = sent(feed(machine, Tick(), now=7.0), Update)
    assert (update.records, update.trained, update.rejected, update.spans) == (0, 0, 0, ())


def test_by_the_clock_a_client_that_came_too_late_sends_half_as_many_records_and_then_more_each_time():
    machine, sizes = client(clock="interval", capacity=1000), []
    feed(machine, RecordsRead((batch("ab" * 200),)), joined(), *opening(closes=1.0))
    for entry, in_time in enumerate([False, False, True, True, True, True], start=1):
        (own,) = sent(feed(machine, Tick(), now=float(entry)), Update)
        sizes.append(own.records)
        feed(machine, closed(entry, own if in_time else replace(own, client="c1")))
        feed(machine, *opening(entry + 1, closes=1.0), now=float(entry))
    assert sizes == [400, 200, 100, 125, 156, 19]
    assert machine.pending == 0


@pytest.mark.parametrize("its_turn_comes", [True, False])
def test_by_the_clock_a_client_that_was_late_without_records_sends_all_that_come_later(its_turn_comes):
    machine = client(clock="interval", capacity=1000)
    feed(machine, RecordsRead((batch("abab"),)), joined(), *opening(closes=1.0))
    (first,) = sent(feed(machine, Tick(), now=1.0), Update)
    feed(machine, closed(1, first), *opening(2, closes=1.0), now=1.0)
    if its_turn_comes:
        assert [update.records for update in sent(feed(machine, Tick(), now=2.0), Update)] == [0]
    feed(machine, closed(2, replace(first, client="c1")), *opening(3, closes=1.0), now=2.0)
    feed(machine, RecordsRead((batch("ab" * 200, start=4),)), now=2.5)
    (own,) = sent(feed(machine, Tick(), now=3.0), Update)
    assert own.records == 400


def test_by_the_clock_a_client_whose_turn_did_not_come_in_a_round_sends_half_of_its_records():
    machine = client(clock="interval", capacity=1000)
    feed(machine, RecordsRead((batch("ab" * 50),)), joined(), *opening(closes=1.0))
    (whole,) = sent(
        feed(
            client(clock="interval", capacity=1000),
            RecordsRead((batch("abab"),)),
            joined(),
            *opening(),
            Tick(),
            now=9.0,
        ),
        Update,
    )
    for entry in (1, 2):
        feed(machine, closed(entry, replace(whole, client="c1")), *opening(entry + 1, closes=1.0))
    (own,) = sent(feed(machine, Tick(), now=9.0), Update)
    assert own.records == 50


# --- measurements ----------------------------------------------------------------------------------------------


def test_predictions_are_reported_before_and_after_a_round():
    machine = client(measure=True)
    feed(machine, RecordsRead((batch("abba"),)), joined())
    decisions = feed(machine, *opening())
    (predicted,) = (d for d in decisions if isinstance(d, Predicted))
    assert predicted.labels == ("a", "b")
    assert predicted.truth.tolist() == [0.0, 1.0, 1.0, 0.0]
    last = [-1.0, 0.0, 1.0, 1.0]  # the model has learnt nothing
    assert predicted.served.tolist() == predicted.at_start.tolist() == predicted.no_change.tolist() == last
    (update,) = sent(decisions, Update)
    good = np.array([[5.0, -5.0], [0.0, 0.0]])
    decisions = feed(machine, closed(1, update), *opening(2, weights={"m": good}))
    (after,) = (d for d in decisions if isinstance(d, PostUpdate))
    assert (after.round, after.predicted.tolist()) == (1, [0.0, 1.0, 1.0, 0.0])


def test_no_change_repeats_the_last_label_that_was_accepted():
    machine = client()
    update = first_update(machine, batch("abab" + "bbba"))
    feed(machine, closed(1, update))
    (following,) = sent(feed(machine, *opening(2)), Update)
    assert following.numbers.served.no_change == 3.0


def test_rounds_may_have_sizes_of_their_own():
    machine = client(round_size=(2, 3))
    feed(machine, RecordsRead((batch("ababab"),)), joined())
    (first,) = sent(feed(machine, *opening()), Update)
    feed(machine, closed(1, first))
    (second,) = sent(feed(machine, *opening(2)), Update)
    assert (first.records, second.records) == (2, 3)


def test_a_registry_of_a_later_version_is_the_one_that_is_used():
    machine = client()
    update = first_update(machine, batch("abab" + "abab"))
    feed(machine, closed(1, update))
    doubled = Registry(2, REGISTRY.features, REGISTRY.labels, np.zeros(1), np.array([0.5]))
    (following,) = sent(feed(machine, *opening(2, registry=doubled)), Update)
    assert following.registry == 2
    assert following.numbers.squared_norm == pytest.approx(4 * 5.0)


def test_gradients_of_a_softmax_are_multiples_of_their_step_and_add_up_to_nothing():
    slots, weights = (replace(SLOT, whitened=True),), {"m": np.array([[0.3, 0.1], [0.2, -0.5]])}
    values = np.random.default_rng(3).normal(size=20).tolist()
    update = first_update(
        client(round_size=20), batch("abcb" * 5, values=values), slots=slots, weights=weights, exponents=(2, 3)
    )
    sums = update.numbers.differences["m"]
    assert sums.shape == (2, 3)  # label c is new
    assert (sums / np.array([[0.25], [0.5]]) % 1.0 == 0.0).all()
    assert sums.sum(axis=1).tolist() == [0.0, 0.0]
    assert np.abs(sums).min(axis=1).max() > 0.0
