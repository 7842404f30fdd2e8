"""The history sample: a function of ordinals, never of how records arrived."""

from hypothesis import given
from hypothesis import strategies as st
from property.recorded import Recorded, batches_of, cuts, recorded_in, recordings

from streamfl.learning.history import History, chosen
from streamfl.protocol.messages import SampledRound
from streamfl.sampling import ranks, sampled_rounds


def sample(
    records: list[Recorded], cut: set[int], *, keep: int, first: int = 100, seed: int = 0, client: str = "c0"
) -> tuple[list[Recorded], SampledRound]:
    parts, sampled = chosen(batches_of(records, cut), t=7, first=first, keep=keep, seed=seed, client=client)
    return recorded_in(parts), sampled


@given(recordings(), cuts(), cuts(), st.integers(1, 12))
def test_the_sample_is_the_same_however_batches_are_split(
    records: list[Recorded], cut: set[int], other: set[int], keep: int
) -> None:
    assert sample(records, cut, keep=keep) == sample(records, other, keep=keep)


@given(recordings(), cuts(), st.integers(1, 12))
def test_the_history_sample_has_the_good_records_with_the_smallest_hashes(
    records: list[Recorded], cut: set[int], keep: int
) -> None:
    # Ordinals count every record read, bad ones too, from 100 on.
    good = [(100 + i, r) for i, r in enumerate(records) if r.good]
    hashes = ranks(0, "c0", [i for i, _ in good])  # type: ignore[arg-type]
    smallest = sorted(range(len(good)), key=lambda j: hashes[j])[:keep]
    expected = [good[j] for j in sorted(smallest)]
    kept, sampled = sample(records, cut, keep=keep)
    assert kept == [r for _, r in expected]
    assert sampled.ordinals == tuple(i for i, _ in expected)
    assert sampled.round == 7


@given(recordings(), cuts(), st.integers(1, 12))
def test_the_history_sample_is_bounded_and_has_the_positions_of_its_records(
    records: list[Recorded], cut: set[int], keep: int
) -> None:
    kept, sampled = sample(records, cut, keep=keep)
    assert len(kept) == len(sampled.ordinals) == min(keep, sum(r.good for r in records))
    for partition, positions in sampled.positions.items():
        assert positions == tuple(r.position for r in kept if r.partition == partition)
    assert sum(map(len, sampled.positions.values())) == len(kept)


@given(recordings(), cuts(), cuts(), st.integers(1, 12))
def test_records_that_are_read_again_are_the_same_sample(
    records: list[Recorded], cut: set[int], other: set[int], keep: int
) -> None:
    kept, sampled = sample(records, cut, keep=keep)
    history = History()
    history.restore([sampled], batches_of(records, other))
    assert recorded_in(history.rounds[7].batches) == kept
    assert history.rounds[7].records == len(kept)


@given(st.integers(0, 5), st.integers(1, 8), st.integers(1, 60))
def test_sampled_rounds_are_stable(seed: int, most: int, rounds: int) -> None:
    gone: set[int] = set()
    kept: tuple[int, ...] = ()
    for t in range(1, rounds + 1):
        after = sampled_rounds(seed, (*kept, t), most)
        # One by one or all at once, the choice is the same; and what left stays away.
        assert after == sampled_rounds(seed, tuple(range(1, t + 1)), most)
        assert len(after) == min(t, most)
        assert list(after) == sorted(after)
        gone |= {*kept, t} - {*after}
        assert not gone & {*after}
        kept = after
