"""A client's buffer: what is taken, what is left, however the source was polled."""

from hypothesis import given
from hypothesis import strategies as st
from property.recorded import Recorded, batches_of, cuts, recorded_in, recordings

from streamfl.machines.client.intake.buffer import Buffer
from streamfl.protocol.records import Span, spans


def buffer_of(records: list[Recorded], cut: set[int]) -> Buffer:
    buffer = Buffer(capacity=1000)
    buffer.add(batches_of(records, cut))
    return buffer


def first_good(records: list[Recorded], n: int) -> list[Recorded]:
    """Return the records up to and with the n-th good one; all if there are fewer."""
    taken, good = [], 0
    for record in records:
        if good == n:
            break
        taken.append(record)
        good += record.good
    return taken


@given(recordings(), cuts(), st.integers(0, 45))
def test_the_head_has_the_first_good_records_and_the_bad_ones_among_them(
    records: list[Recorded], cut: set[int], n: int
) -> None:
    assert recorded_in(buffer_of(records, cut).head(n)) == first_good(records, n)


@given(recordings(), cuts(), cuts(), st.integers(0, 45))
def test_the_head_is_the_same_however_batches_are_split(
    records: list[Recorded], cut: set[int], other: set[int], n: int
) -> None:
    one, two = (buffer_of(records, c).head(n) for c in (cut, other))
    assert recorded_in(one) == recorded_in(two)
    assert spans(one) == spans(two)


@given(recordings(), cuts(), st.integers(0, 45))
def test_dropping_the_head_leaves_exactly_the_rest(records: list[Recorded], cut: set[int], n: int) -> None:
    buffer = buffer_of(records, cut)
    head = buffer.head(n)
    taken = recorded_in(head)
    buffer.drop(spans(head))
    left = recorded_in(buffer.batches)
    assert taken + left == records
    assert buffer.pending == len(left)
    assert buffer.size == sum(r.good for r in left)
    ends = {s.partition: s.end for s in spans(head)}
    assert all(s.start == ends.get(s.partition, 5) for s in buffer.held_spans())


@given(recordings(), cuts(), st.lists(st.integers(1, 9), max_size=20))
def test_heads_taken_one_after_another_are_the_stream(
    records: list[Recorded], cut: set[int], sizes: list[int]
) -> None:
    buffer = buffer_of(records, cut)
    seen: list[Recorded] = []
    for n in sizes:
        head = buffer.head(n)
        assert sum(map(len, head)) == min(n, buffer.size)
        seen += recorded_in(head)
        buffer.drop(spans(head))
    assert seen + recorded_in(buffer.batches) == records


@given(recordings(), cuts(), st.integers(0, 45))
def test_taking_the_head_of_a_buffer_drops_no_record(records: list[Recorded], cut: set[int], n: int) -> None:
    buffer = buffer_of(records, cut)
    buffer.head(n)
    assert recorded_in(buffer.batches) == records


@given(recordings(), cuts(), st.dictionaries(st.sampled_from("pqr"), st.integers(0, 100)))
def test_dropping_up_to_a_position_leaves_what_is_not_before_it(
    records: list[Recorded], cut: set[int], ends: dict[str, int]
) -> None:
    buffer = buffer_of(records, cut)
    buffer.drop([Span(partition, 0, end) for partition, end in ends.items()])
    assert recorded_in(buffer.batches) == [r for r in records if r.position >= ends.get(r.partition, 0)]


@given(recordings(), cuts())
def test_dropping_the_head_of_a_buffer_twice_is_dropping_it_once(records: list[Recorded], cut: set[int]) -> None:
    buffer = buffer_of(records, cut)
    head = spans(buffer.head(3))
    buffer.drop(head)
    once = recorded_in(buffer.batches)
    buffer.drop(head)
    assert recorded_in(buffer.batches) == once


@given(recordings(), cuts(), st.integers(1, 50))
def test_room_is_what_capacity_leaves(records: list[Recorded], cut: set[int], capacity: int) -> None:
    buffer = Buffer(capacity)
    assert buffer.room == capacity
    buffer.add(batches_of(records, cut))
    assert buffer.room == max(0, capacity - len(records))
    buffer.clear()
    assert (buffer.room, buffer.size, buffer.held_spans()) == (capacity, 0, ())
