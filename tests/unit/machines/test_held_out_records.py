"""Scripts of held-out records: reported, kept, dropped, and restored after a kill."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from unit.machines.script import (
    LEARNER,
    REGISTRY,
    SLOT,
    answer,
    as_bytes,
    batch,
    begun,
    broadcast,
    client,
    closed,
    coordinator,
    feed,
    fetched,
    first_update,
    join,
    joined,
    opening,
    refusals,
    sent,
)

from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.protocol.decisions import Fetch, Seek
from streamfl.protocol.events import RecordsFetched, RecordsRead
from streamfl.protocol.messages import (
    BranchGroup,
    HeldRecord,
    HoldoutRule,
    Joined,
    LabelSums,
    RoundOpened,
    Score,
    Scores,
    Slot,
    Update,
)
from streamfl.protocol.records import Span
from streamfl.protocol.registry import Registry
from streamfl.sampling import ranks

HELD = HoldoutRule(per_label=100, since=1)
SIZE = 60
# A model that always says a: right on every a, wrong on every b.
ALWAYS_A = {"m": np.array([[0.0, 0.0], [50.0, -50.0]])}
STREAM = batch("aab!" * 60, start=500)


def among_one_in_ten(ordinals: Sequence[int]) -> list[int]:
    """Return the ordinals that c0 may hold back, by rank."""
    found = ranks(LEARNER.seed, "c0\x1fheld", np.array(ordinals))
    return [ordinals[i] for i in np.argsort(found) if found[i] < 2**64 / 10]


def label_of(ordinal: int) -> str:
    return "aab!"[ordinal % 4]


def first_round(held: HoldoutRule = HELD, **more: object):
    """Return a client after its first round's update, and that update."""
    machine = client(round_size=SIZE, capacity=400)
    return machine, first_update(machine, STREAM, held=held, **more)


def next_update(machine, *before: Update, entry: int = 2, held: HoldoutRule = HELD, **more: object) -> Update:
    """Have updates accepted, and return the next one."""
    (update,) = sent(feed(machine, closed(entry - 1, *before), *opening(entry, held=held, **more)), Update)
    return update


def test_held_out_records_are_reported_scored_and_served_and_not_trained_on():
    _, update = first_round()
    good = [i for i in range(79) if label_of(i) != "!"]
    expected = sorted(among_one_in_ten(good))
    assert len(expected) > 2
    assert update.kept.held == tuple(
        HeldRecord(round=1, ordinal=i, partition="c0", position=500 + i) for i in expected
    )
    assert (update.records, update.trained, update.numbers.served.records) == (60, 60 - len(expected), 60)
    assert sum(sums.count for sums in update.numbers.new) == 60
    # The constant's gradient of an untrained model: half the difference of the labels' shares among the trained.
    trained = [label_of(i) for i in good if i not in expected]
    share = (trained.count("a") - trained.count("b")) / (2 * len(trained))
    assert update.numbers.differences["m"][1] == pytest.approx([share, -share])


def test_a_client_holds_out_the_smallest_hashes_of_each_label_and_drops_the_others():
    machine, first = first_round(HoldoutRule(per_label=1, since=1))
    second = next_update(machine, first, held=HoldoutRule(per_label=1, since=1))
    good = [i for i in range(160) if label_of(i) != "!"]

    def kept(ordinals: list[int]) -> set[int]:
        return {next(i for i in among_one_in_ten(ordinals) if label_of(i) == label) for label in "ab"}

    assert {record.ordinal for record in first.kept.held} == kept(good[:60])
    assert {record.ordinal for record in second.kept.held} == kept(good[:120]) - kept(good[:60])
    assert set(second.kept.let_go) == kept(good[:60]) - kept(good[:120])
    assert second.kept.let_go


def test_the_next_round_reports_its_models_scores_of_held_out_records():
    machine, first = first_round()
    second = next_update(machine, first, weights=ALWAYS_A)
    labels = [label_of(record.ordinal) for record in first.kept.held]
    a, b = labels.count("a"), labels.count("b")
    assert first.numbers.old == ()
    assert second.numbers.old == tuple(
        LabelSums(label=label, count=n, loss=float(lost), square=float(lost))
        for label, n, lost in (("a", a, 0), ("b", b, b))
        if n
    )


def test_held_out_records_are_scored_under_the_present_registry():
    machine, first = first_round()
    # The same model in other coordinates, z = (x - 1) / 2, and labels the other way round.
    moved = Registry(2, ("x",), ("b", "a"), np.array([1.0]), np.array([2.0]))
    W = np.array([[0.7, -0.7], [0.3, -0.3]])
    there = np.array([[1.4, -1.4], [1.0, -1.0]])[:, ::-1]
    here = next_update(machine, first, weights={"m": W})
    machine, first = first_round()
    other = next_update(machine, first, weights={"m": there}, registry=moved)
    assert REGISTRY.labels == ("a", "b")
    assert {s.label: s.count for s in other.numbers.old} == {s.label: s.count for s in here.numbers.old}
    assert {s.label: s.loss for s in other.numbers.old} == pytest.approx({s.label: s.loss for s in here.numbers.old})


def test_held_out_records_of_rounds_before_the_rules_round_are_dropped():
    machine, first = first_round()
    second = next_update(machine, first, held=HoldoutRule(per_label=100, since=2))
    assert second.numbers.old == ()
    assert set(second.kept.let_go) == {record.ordinal for record in first.kept.held}
    third = next_update(machine, second, entry=3, held=HoldoutRule(per_label=100, since=2))
    assert sum(sums.count for sums in third.numbers.old) == len(second.kept.held) > 0


def test_a_client_that_the_rule_names_compares_only_with_records_since_its_own_round():
    machine, first = first_round()
    held = HoldoutRule(per_label=100, since=1, renewed={"c0": 2})
    assert (held.since_at("c0"), held.since_at("c1")) == (2, 1)
    second = next_update(machine, first, held=held)
    assert second.numbers.old == ()
    assert set(second.kept.let_go) == {record.ordinal for record in first.kept.held}
    third = next_update(machine, second, entry=3, held=held)
    assert sum(sums.count for sums in third.numbers.old) == len(second.kept.held) > 0
    # A round named for all clients counts if it is the later one; rounds named for others do not.
    assert HoldoutRule(per_label=100, since=3, renewed={"c0": 2}).since_at("c0") == 3
    machine, first = first_round()
    other = next_update(machine, first, held=HoldoutRule(per_label=100, since=1, renewed={"c1": 2}))
    assert sum(sums.count for sums in other.numbers.old) == len(first.kept.held)


def test_a_client_with_a_branch_keeps_its_holdout_unless_it_is_named():
    machine, first = first_round()
    second = next_update(machine, first, apart=(BranchGroup(clients=("c0",), serves="m"),))
    assert sum(sums.count for sums in second.numbers.old) == len(first.kept.held)
    assert second.kept.let_go == ()


def test_all_held_out_records_are_dropped_without_a_holdout_rule():
    machine, first = first_round()
    second = next_update(machine, first, held=None)
    assert (second.numbers.old, second.kept.held, second.trained) == ((), (), 60)
    assert set(second.kept.let_go) == {record.ordinal for record in first.kept.held}


# --- sent again ------------------------------------------------------------------------------------------------


def test_an_update_that_does_not_count_holds_nothing_back():
    machine, first = first_round()
    second = next_update(machine, entry=2, weights=ALWAYS_A)  # entry 1 closes without it
    assert second.spans == first.spans
    assert second.numbers.old == ()
    assert second.kept.held == tuple(replace(record, round=2) for record in first.kept.held)
    assert second.kept.let_go == ()
    third = next_update(machine, second, entry=3)
    assert sum(sums.count for sums in third.numbers.old) == len(second.kept.held)
    assert not {r.ordinal for r in third.kept.held} & {r.ordinal for r in second.kept.held}


def test_a_restarted_coordinator_has_the_same_holdout():
    machine, first = first_round()
    *_, opened = opening(1, held=HELD, resumed=1)
    (again,) = sent(feed(machine, opened), Update)
    assert as_bytes([again]) == as_bytes([first])


def test_the_ledger_holds_back_once_what_was_refused_and_sent_again():
    machine = coordinator(2, profile=Promotion())
    opened = begun(machine, "c0", "c1")
    held = tuple(HeldRecord(round=1, ordinal=i, partition="c0", position=i) for i in (1, 3))
    good = answer(opened, "c0", held=held, trained=2)
    assert refusals(feed(machine, replace(good, registry=9), good, replace(good, attempt="1-2"))) == [
        ("c0", "the update uses another version of the registry"),
        ("c0", "an update for this round has been accepted before"),
    ]
    (second,) = broadcast(feed(machine, answer(opened, "c1")), RoundOpened)
    assert machine.state.members["c0"].held == held
    more = (HeldRecord(round=2, ordinal=6, partition="c0", position=6),)
    feed(machine, answer(second, "c0", start=4, held=more, let_go=(1, 99), trained=3))
    assert machine.state.members["c0"].held == held  # not yet
    feed(machine, answer(second, "c1", start=4))
    (answered,) = broadcast(feed(machine, join("c0", start=2)), Joined)
    assert answered.held == (held[1], *more)


# --- after a kill ----------------------------------------------------------------------------------------------


def restored(first: Update, *, lost: Sequence[int] = (), **more: object) -> tuple[list, Update]:
    """Let another start of the client take over after round 1, and return what it decides, and its next update."""
    machine = client(round_size=SIZE, capacity=400, start=2)
    feed(machine, RecordsRead((STREAM,)))
    (span,) = first.spans
    told_ = joined(start=2, entry=2, positions={"c0": span.end}, read=span.end - 500, held=first.kept.held)
    decisions = feed(machine, told_, *opening(2, held=HELD, **more))
    assert feed(machine, RecordsRead((STREAM.after(span.end),))) == []  # it waits for what it held back
    places = [record.position for record in first.kept.held if record.position not in lost]
    (update,) = sent(feed(machine, RecordsFetched((fetched(STREAM, places),))), Update)
    return decisions, update


def test_held_out_records_read_again_after_a_kill_leave_no_trace_of_the_kill():
    weights = {"m": np.array([[0.3, -0.2], [0.1, 0.0]])}
    machine, first = first_round()
    undisturbed = next_update(machine, first, weights=weights)
    decisions, again = restored(first, weights=weights)
    places = tuple(record.position for record in first.kept.held)
    assert decisions == [Seek({"c0": 579}), Fetch({"c0": places})]
    assert sum(sums.count for sums in again.numbers.old) == len(first.kept.held)
    same = replace(again, attempt=undisturbed.attempt)
    assert as_bytes([same]) == as_bytes([undisturbed])


def test_held_out_records_that_cannot_be_read_any_more_are_left_out():
    machine, first = first_round()
    gone = first.kept.held[0].position
    _, again = restored(first, lost=(gone,))
    assert sum(sums.count for sums in again.numbers.old) == len(first.kept.held) - 1
    assert again.kept.held == next_update(machine, first).kept.held


def test_the_history_sample_and_the_holdout_are_read_again_together_each_position_once():
    machine, first = first_round(keep=10)
    assert first.kept.sample is not None
    sample = replace(first.kept.sample, share=1.0)
    twice = {record.position for record in first.kept.held} & {*first.kept.sample.positions["c0"]}
    machine = client(round_size=SIZE, capacity=400, start=2)
    feed(machine, RecordsRead((STREAM,)))
    answered = joined(start=2, entry=2, positions={"c0": 579}, read=79, sample=(sample,), held=first.kept.held)
    (fetch,) = (d for d in feed(machine, answered) if isinstance(d, Fetch))
    assert list(fetch.positions["c0"]) == sorted(
        {r.position for r in first.kept.held} | {*first.kept.sample.positions["c0"]}
    )
    feed(machine, RecordsFetched((fetched(STREAM, fetch.positions["c0"]),)), RecordsRead((STREAM.after(579),)))
    slots = (replace(SLOT, history=(1,)),)
    (update,) = sent(feed(machine, *opening(2, slots=slots, sampled=(1,), held=HELD)), Update)
    assert update.numbers.losses["m"].history_records == 10
    assert sum(sums.count for sums in update.numbers.old) == len(first.kept.held)
    assert len(fetch.positions["c0"]) == 10 + len(first.kept.held) - len(twice)


def test_records_of_several_partitions_keep_their_own_places():
    parts = tuple(batch("ab" * 60, start=start, of=of) for of, start in (("q", 40), ("p", 7)))
    machine = client(round_size=240, capacity=400)
    feed(machine, RecordsRead(parts), joined())
    (first,) = sent(feed(machine, *opening(1, held=HELD)), Update)
    # Ordinals go on from one partition to the next, as they were read.
    assert {(r.partition, r.position - r.ordinal) for r in first.kept.held} == {("q", 40), ("p", 7 - 120)}
    after = client(round_size=240, capacity=400, start=2)
    feed(after, RecordsRead(parts))
    positions = {"q": 160, "p": 127}
    answered = joined(start=2, entry=2, positions=positions, read=240, held=first.kept.held)
    (fetch,) = (d for d in feed(after, answered) if isinstance(d, Fetch))
    found = tuple(fetched(part, fetch.positions[part.span.partition]) for part in reversed(parts))
    more = tuple(batch("ab" * 60, start=end, of=of) for of, end in positions.items())
    feed(after, RecordsFetched(found), RecordsRead(more))
    (again,) = sent(feed(after, *opening(2, held=HELD, weights=ALWAYS_A)), Update)
    feed(machine, RecordsRead(more))
    undisturbed = next_update(machine, first, weights=ALWAYS_A)
    assert (again.numbers.old, again.kept.held, again.kept.let_go) == (
        undisturbed.numbers.old,
        undisturbed.kept.held,
        undisturbed.kept.let_go,
    )


def test_held_out_records_that_a_client_still_has_are_not_fetched_again():
    machine, first = first_round()
    feed(machine, closed(1, first))
    decisions = feed(machine, joined(entry=2, positions={"c0": 579}, read=79, held=first.kept.held))
    assert [d for d in decisions if isinstance(d, Fetch)] == []


# --- scoring candidates ----------------------------------------------------------------------------------------


def test_candidates_are_not_trained_on_held_out_records():
    machine, first = first_round()
    (model,) = (m for m in opening(1) if hasattr(m, "weights"))
    asked = Score(
        entry=1, round=1, epoch=1, registry=1, slots=(Slot(name="again", version=1, eta=1.0),), relabel=("again",)
    )
    (scores,) = sent(feed(machine, replace(model, slot="again"), asked), Scores)
    assert np.array_equal(scores.differences["again"], first.numbers.differences["m"])
    assert scores.losses["again"] == first.numbers.losses["m"]
    # All records have a say in which labels would fit: ln 1/2 each, 40 of a and 20 of b.
    assert scores.relabelling["again"] == pytest.approx(np.log(0.5) * np.array([[40.0, 40.0], [20.0, 20.0]]))


def test_a_round_that_is_all_held_out_trains_nothing_and_is_admitted():
    everything = batch("ab", of="c0")
    hashes = ranks(LEARNER.seed, "c0\x1fheld", np.arange(1000))
    at = next(i for i in range(999) if hashes[i] < 2**64 / 10 and hashes[i + 1] < 2**64 / 10)
    machine = client(round_size=2)
    feed(machine, RecordsRead((everything,)), joined(read=at))
    (update,) = sent(feed(machine, *opening(1, held=HELD)), Update)
    assert (update.records, update.trained, len(update.kept.held), dict(update.numbers.differences)) == (2, 0, 2, {})
    assert update.spans == (Span("c0", 0, 2),)
