"""Records held back from training: a function of their numbers, never of how they came in."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from property.recorded import LABELS, Recorded, batches_of, cuts, recordings

from streamfl.machines.client.work.held_out import Holdout
from streamfl.protocol.messages import HeldRecord, HoldoutRule
from streamfl.sampling import ranks

Round = tuple[list[Recorded], set[int]]
STREAMS = recordings(most=120)


def rounds_of(records: list[Recorded], ends: set[int], cut: set[int]) -> list[Round]:
    """Return a stream as rounds that end at some places, each with the same cuts into batches."""
    places = [0, *sorted(end for end in ends if end < len(records)), len(records)]
    return [(records[a:b], cut) for a, b in pairwise(places)]


def held_out(rounds: list[Round], *, per_label: int, since: int = 1, first: int = 0) -> Holdout:
    out = Holdout()
    for t, (records, cut) in enumerate(rounds, 1):
        held = HoldoutRule(per_label=per_label, since=since)
        out = out.after(batches_of(records, cut), held, t=t, first=first, seed=3, client="c0")
        first += len(records)
    return out


def numbers(out: Holdout) -> list[int]:
    return [place.ordinal for place in out.places()]


def among_one_in_ten(records: list[Recorded], first: int = 0) -> dict[int, tuple[float, int]]:
    """Return by ordinal the label and the rank of those good records that may be held back."""
    found = {first + i: record for i, record in enumerate(records) if record.good}
    hashes = ranks(3, "c0\x1fheld", list(found))  # type: ignore[arg-type]
    return {i: (found[i].code, int(h)) for i, h in zip(found, hashes.tolist(), strict=True) if h < 2**64 / 10}


@given(STREAMS, st.sets(st.integers(1, 100), max_size=4), cuts(), cuts(), st.integers(1, 4))
def test_held_out_records_are_the_same_however_batches_are_split(
    records: list[Recorded], ends: set[int], cut: set[int], other: set[int], per_label: int
) -> None:
    found = [held_out(rounds_of(records, ends, c), per_label=per_label).places() for c in (cut, other)]
    assert found[0] == found[1]


@given(STREAMS, st.sets(st.integers(1, 100), max_size=4), cuts(), st.integers(1, 4), st.integers(0, 1000))
def test_held_out_records_of_a_label_have_the_smallest_hashes_of_all_rounds_together(
    records: list[Recorded], ends: set[int], cut: set[int], per_label: int, first: int
) -> None:
    some = among_one_in_ten(records, first)
    expected = []
    for code in range(len(LABELS)):
        mine = sorted((rank, i) for i, (label, rank) in some.items() if label == code)
        expected += [i for _, i in mine[:per_label]]
    out = held_out(rounds_of(records, ends, cut), per_label=per_label, first=first)
    assert numbers(out) == sorted(expected)
    places = [(place.partition, place.position) for place in out.places()]
    assert places == [(records[i - first].partition, records[i - first].position) for i in sorted(expected)]
    # The records themselves are those at these places.
    assert out.records.X.tolist() == [records[i - first].row for i in sorted(expected)]


@given(STREAMS, st.sets(st.integers(1, 100), max_size=4), cuts(), cuts(), st.data())
def test_held_out_records_that_are_read_again_are_the_same_and_continue_alike(
    records: list[Recorded], ends: set[int], cut: set[int], other: set[int], data: st.DataObject
) -> None:
    *before, last = rounds_of(records, ends, cut)
    out = held_out(before, per_label=3)
    again = Holdout.restore(data.draw(st.permutations(out.places())), batches_of(records, other))
    assert again.places() == out.places()
    assert (again.records.X.tolist(), again.records.y.tolist()) == (out.records.X.tolist(), out.records.y.tolist())
    first = sum(len(part) for part, _ in before)
    batches, held = batches_of(*last), HoldoutRule(per_label=3, since=1)
    after = [x.after(batches, held, t=9, first=first, seed=3, client="c0").places() for x in (out, again)]
    assert after[0] == after[1]


@given(STREAMS, st.sets(st.integers(1, 100), max_size=4), cuts(), st.integers(1, 6))
def test_held_out_records_of_earlier_rounds_are_dropped(
    records: list[Recorded], ends: set[int], cut: set[int], since: int
) -> None:
    rounds = rounds_of(records, ends, cut)
    everything = held_out(rounds, per_label=1000).places()
    late = held_out(rounds, per_label=1000, since=since)
    # Only the last round looks at what is to be let go; without records that may be held back it does nothing.
    assert late.since(since).places() == tuple(place for place in everything if place.round >= since)


def test_held_out_records_that_their_source_no_longer_has_are_left_out() -> None:
    places = [HeldRecord(round=1, ordinal=i, partition="p", position=i) for i in range(3)]
    records = [Recorded("p", i, good=True) for i in (0, 2)]
    assert numbers(Holdout.restore(places, batches_of(records, set()))) == [0, 2]
    assert len(Holdout.restore(places, [])) == 0
