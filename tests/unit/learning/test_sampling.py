"""Randomness by key, and the history sample by hand."""

import numpy as np

from streamfl.learning.history import History, KeptRound, chosen
from streamfl.protocol.messages import SampledRound
from streamfl.protocol.records import Batch, Rejection, Span
from streamfl.sampling import digest, generator, ranks, sampled_rounds


def batch(start: int, good: list[int], bad: list[int], partition: str = "p") -> Batch:
    positions = np.array(good, dtype=np.int64)
    end = max([*good, *bad]) + 1
    return Batch(
        Span(partition, start, end),
        positions,
        ("a",),
        positions.astype(float)[:, None],
        np.zeros(len(good)),
        ("u",),
        tuple(Rejection(p, "bad") for p in bad),
    )


def test_a_generator_depends_on_seed_and_key_alone() -> None:
    def draws(seed: int, *key: str | int) -> tuple[int, ...]:
        return tuple(generator(seed, *key).integers(0, 2**40, 4).tolist())

    assert draws(1, "gamma", "c0", 5) == draws(1, "gamma", "c0", 5)
    others = [(2, "gamma", "c0", 5), (1, "gamma", "c1", 5), (1, "gamma", "c0", 6), (1, "schedule", "c0", 5)]
    assert len({draws(1, "gamma", "c0", 5), *(draws(*other) for other in others)}) == 5


def test_the_parts_of_a_key_do_not_run_together() -> None:
    assert digest("a", 11) != digest("a1", 1) != digest("a", 1, 1)
    assert digest("a", 1) == digest("a", "1") < 2**64


def test_ranks_depend_on_seed_client_and_ordinal_alone() -> None:
    ordinals = np.arange(1000)
    all_at_once = ranks(0, "c0", ordinals)
    np.testing.assert_array_equal(all_at_once[500:], ranks(0, "c0", ordinals[500:]))
    assert len(set(all_at_once.tolist())) == 1000
    assert not (all_at_once == ranks(0, "c1", ordinals)).any()
    assert not (all_at_once == ranks(1, "c0", ordinals)).any()


def test_the_smallest_ranks_are_a_uniform_sample() -> None:
    # The 100 smallest of 1000 ordinals, for 200 clients: 2000 in each tenth of the ordinals, deviation about 42.
    found = np.zeros(10)
    for client in range(200):
        smallest = np.argsort(ranks(0, f"c{client}", np.arange(1000)))[:100]
        found += np.bincount(smallest // 100, minlength=10)
    assert (np.abs(found - 2000) <= 4 * 42.4).all()


def test_every_round_is_as_likely_to_be_sampled() -> None:
    # 3 of 10 rounds, 1000 seeds: 300 each, deviation 14.5.
    found = np.bincount([t for seed in range(1000) for t in sampled_rounds(seed, tuple(range(10)), 3)], minlength=10)
    assert (np.abs(found - 300) <= 4 * 14.5).all()


def test_all_rounds_are_sampled_while_there_are_few() -> None:
    assert sampled_rounds(0, (), 3) == ()
    assert sampled_rounds(0, (7, 2, 5), 3) == (2, 5, 7)


def test_ordinals_count_bad_records() -> None:
    # Read: 10 good, 11 bad, 12 bad, 14 good (13 held nothing), 15 good; the first is number 40.
    np.testing.assert_array_equal(batch(10, [10, 14, 15], [11, 12]).ordinals(40), [40, 43, 44])
    # Over batches: the second begins after five records read.
    parts, sample = chosen(
        [batch(10, [10, 14, 15], [11, 12]), batch(16, [17], [16])], t=3, first=40, keep=9, seed=0, client="c"
    )
    assert sample == SampledRound(round=3, share=0.0, positions={"p": (10, 14, 15, 17)}, ordinals=(40, 43, 44, 46))
    assert [len(part) for part in parts] == [3, 1]


def test_an_earlier_bad_record_changes_the_sample() -> None:
    # The same good records with other ordinals have other hashes.
    alone = chosen([batch(0, list(range(1, 101)), [])], t=1, first=1, keep=10, seed=0, client="c")[1]
    behind = chosen([batch(0, list(range(1, 101)), [0])], t=1, first=1, keep=10, seed=0, client="c")[1]
    shifted = chosen([batch(0, list(range(1, 101)), [])], t=1, first=2, keep=10, seed=0, client="c")[1]
    assert alone.positions != behind.positions
    assert behind == shifted


def test_clients_and_seeds_sample_differently() -> None:
    records = [batch(0, list(range(100)), [])]
    samples = {
        chosen(records, t=1, first=0, keep=10, seed=seed, client=client)[1].ordinals
        for seed in (0, 1)
        for client in ("c0", "c1")
    }
    assert len(samples) == 4


def test_a_sample_has_no_bad_records() -> None:
    parts, _ = chosen([batch(10, [10, 14], [11])], t=3, first=0, keep=9, seed=0, client="c")
    assert [part.rejected for part in parts] == [()]


def test_a_round_without_good_records_has_an_empty_sample() -> None:
    assert chosen([], t=3, first=0, keep=9, seed=0, client="c")[0] == ()
    parts, sample = chosen([batch(5, [], [5, 6])], t=3, first=0, keep=9, seed=0, client="c")
    assert sum(map(len, parts)) == 0
    assert sample.ordinals == ()


def test_history_forgets_rounds_that_left_the_sample() -> None:
    history = History({t: KeptRound(0.5, ()) for t in (1, 2, 3)})
    history.retain((3, 1))
    assert set(history.rounds) == {1, 3}


def test_sampled_records_that_retention_removed_are_left_out() -> None:
    # 10, 12 and 15 were kept; the source now begins with 12.
    sample = SampledRound(round=4, share=0.25, positions={"p": (10, 12, 15)})
    history = History()
    history.restore([sample], [batch(12, [12, 13], []), batch(14, [14, 15, 16], [])])
    kept = history.rounds[4]
    assert kept.share == 0.25
    assert [part.positions.tolist() for part in kept.batches] == [[12], [15]]
    assert kept.records == 2


def test_records_of_several_rounds_and_partitions_are_restored_each_to_its_own() -> None:
    samples = [
        SampledRound(round=1, share=0.5, positions={"p": (1,), "q": (2,)}),
        SampledRound(round=2, share=0.5, positions={"q": (1,)}),
    ]
    history = History()
    history.restore(samples, [batch(1, [1, 2], [], "p"), batch(1, [1, 2], [], "q")])
    places = {
        t: [(b.span.partition, b.positions.tolist()) for b in kept.batches] for t, kept in history.rounds.items()
    }
    assert places == {1: [("p", [1]), ("q", [2])], 2: [("q", [1])]}
