"""Records held back: which ones, whatever the cuts; bounds by label; what is restored; none is trained on."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamfl.learning.local_round import RoundRecords
from streamfl.machines.client.work.comparison import Comparison
from streamfl.machines.client.work.held_out import Holdout
from streamfl.protocol.messages import HoldoutRule
from streamfl.protocol.records import Batch, Rejection, Span
from streamfl.protocol.registry import Registry
from streamfl.sampling import ranks

N = 1200
SEED, CLIENT = 3, "c0"
HASHES = ranks(SEED, f"{CLIENT}\x1fheld", np.arange(N))
LABELS = np.random.default_rng(0).choice(3, N, p=[0.6, 0.35, 0.05])
NAMES = ("a", "b", "c")
BAD = frozenset(range(4, N, 97))


def batch(start: int, end: int, *, labels: tuple[str, ...] = NAMES, partition: str = "p") -> Batch:
    """Return records start .. end of a stream in which some are bad; a record's feature is its position."""
    positions = np.array([i for i in range(start, end) if i not in BAD], np.int64)
    y = np.array([labels.index(NAMES[LABELS[i]]) for i in positions], np.float64) if labels else positions / 7.0
    rejected = tuple(Rejection(i, "bad") for i in range(start, end) if i in BAD)
    return Batch(
        Span(partition, start, end), positions, ("x",), positions[:, None].astype(float), y, labels, rejected
    )


def held(out: Holdout) -> list[int]:
    return out.ordinals.tolist()


def expected(start: int, end: int, per_label: int) -> list[int]:
    """Return the good records with the smallest hashes of each label, among those under a tenth."""
    candidates = [i for i in range(start, end) if i not in BAD and HASHES[i] < 2**64 // 10]
    chosen: list[int] = []
    for label in range(3):
        mine = sorted((i for i in candidates if LABELS[i] == label), key=lambda i: HASHES[i])
        chosen += mine[:per_label]
    return sorted(chosen)


def after(out: Holdout, batches: Sequence[Batch], held: HoldoutRule, *, t: int, first: int) -> Holdout:
    return out.after(batches, held, t=t, first=first, seed=SEED, client=CLIENT)


def read(cuts: Sequence[int], polls: Sequence[int], per_label: int = 8, since: int = 1) -> Holdout:
    """Read the stream in rounds that end at `cuts`, handed over in batches that end at `polls` too."""
    out = Holdout()
    for t, (start, end) in enumerate(pairwise([0, *cuts, N]), 1):
        edges = sorted({start, *(p for p in polls if start < p < end), end})
        batches = [batch(a, b) for a, b in pairwise(edges)]
        out = after(out, batches, HoldoutRule(per_label=per_label, since=since), t=t, first=start)
    return out


POSITIONS = st.lists(st.integers(1, N - 1), max_size=6, unique=True).map(sorted)


@given(cuts=POSITIONS, polls=POSITIONS, per_label=st.integers(1, 40))
def test_what_is_held_back_depends_on_ordinals_alone(cuts: list[int], polls: list[int], per_label: int) -> None:
    out = read(cuts, polls, per_label)
    assert held(out) == expected(0, N, per_label)
    assert out.records.X[:, 0].tolist() == held(out)  # each with its own values
    assert [NAMES[LABELS[i]] for i in held(out)] == [out.records.labels[int(y)] for y in out.records.y]
    assert max(Counter(LABELS[held(out)].tolist()).values()) <= per_label


@given(cuts=POSITIONS.filter(len), polls=POSITIONS, killed=st.integers(1, 6), per_label=st.integers(1, 10))
def test_a_client_that_was_killed_goes_on_from_what_it_reads_again(
    cuts: list[int], polls: list[int], killed: int, per_label: int
) -> None:
    at = cuts[min(killed, len(cuts)) - 1]
    rounds = [c for c in cuts if c <= at]
    before = Holdout()
    for t, (start, end) in enumerate(pairwise([0, *rounds]), 1):
        before = after(before, [batch(start, end)], HoldoutRule(per_label=per_label, since=1), t=t, first=start)
    edges = sorted({0, *(p for p in polls if p < at), at})
    again = Holdout.restore(before.places(), [batch(a, b) for a, b in pairwise(edges)])
    assert again.places() == before.places()
    assert again.records.X.tolist() == before.records.X.tolist()
    last = after(again, [batch(at, N)], HoldoutRule(per_label=per_label, since=1), t=len(rounds) + 1, first=at)
    assert held(last) == expected(0, N, per_label)


def test_records_from_before_a_restart_are_let_go() -> None:
    out = read([400, 800], [], per_label=100)
    assert set(out.rounds.tolist()) == {1, 2, 3}
    assert held(out.since(3)) == expected(800, N, 100)
    assert out.since(1) is out
    out = after(out, [], HoldoutRule(per_label=100, since=2), t=4, first=N)
    assert held(out) == expected(400, N, 100)


def test_fewer_a_label_are_kept_once_there_are_more_labels() -> None:
    out = read([], [], per_label=30)
    out = after(out, [batch(0, 300)], HoldoutRule(per_label=4, since=1), t=2, first=N)
    assert Counter(out.records.y.tolist()) == {0.0: 4, 1.0: 4, 2.0: 4}


def test_fewer_a_label_are_kept_also_when_the_round_brings_no_candidate() -> None:
    out = read([], [], per_label=30)
    out = after(out, [], HoldoutRule(per_label=4, since=1), t=2, first=N)
    assert held(out) == expected(0, N, 4)


def test_held_out_records_of_a_regression_count_as_one_label() -> None:
    out = after(Holdout(), [batch(0, N, labels=())], HoldoutRule(per_label=20, since=1), t=1, first=0)
    candidates = [i for i in range(N) if i not in BAD and HASHES[i] < 2**64 // 10]
    assert held(out) == sorted(sorted(candidates, key=lambda i: HASHES[i])[:20])
    assert out.records.y.tolist() == [i / 7.0 for i in held(out)]


def test_partitions_features_and_codes_of_labels_may_differ_between_batches() -> None:
    # The second partition has labels in another order and a feature more; ordinals go on where the first one ended.
    first = batch(0, 600)
    y = np.array([NAMES[::-1].index(NAMES[LABELS[i]]) for i in range(600, N)], np.float64)
    X = np.column_stack([np.full(600, -1.0), np.arange(600.0, N)])
    second = Batch(Span("q", 0, 600), np.arange(600), ("extra", "x"), X, y, NAMES[::-1])
    out = after(Holdout(), [first, second], HoldoutRule(per_label=500, since=1), t=1, first=0)
    places = out.places()
    for place, code, row in zip(places, out.records.y, out.records.X, strict=True):
        own = place.ordinal if place.partition == "p" else place.position + 600
        assert place.ordinal == own
        assert (place.partition == "q") == (own >= 600)
        assert out.records.labels[int(code)] == NAMES[LABELS[own]]
        values = dict(zip(out.records.features, row, strict=True))
        assert values["x"] == own
        assert np.isnan(values["extra"]) if own < 600 else values["extra"] == -1.0
    assert {place.partition for place in places} == {"p", "q"}
    again = Holdout.restore(places, [second, first])  # read again in another order
    assert again.places() == places
    # One partition is gone: what was in it is, too.
    assert {place.partition for place in Holdout.restore(places, [second]).places()} == {"q"}


# --- their design, kept from round to round ------------------------------------------------------------------------

REGISTRY = Registry(1, ("x",), NAMES, np.array([600.0]), np.array([300.0]))


@given(cuts=POSITIONS, per_label=st.integers(1, 12), since=st.integers(1, 4))
def test_what_is_held_back_is_never_trained_on_and_its_design_follows(
    cuts: list[int], per_label: int, since: int
) -> None:
    comparison = Comparison()
    trained: set[int] = set()
    for t, (start, end) in enumerate(pairwise([0, *cuts, N]), 1):
        batches = [batch(start, end)]
        records = RoundRecords.of(batches, REGISTRY)
        now = HoldoutRule(per_label=per_label, since=since if t >= since else 1)
        before = comparison.under(REGISTRY, now.since)
        then, mine = before.after(batches, records, now, t=t, first=start, seed=SEED, client=CLIENT)
        good = batches[0].positions
        trained |= set(good.tolist() if mine is None else good[~mine].tolist())
        assert not trained & set(then.holdout.ordinals.tolist())
        assert mine is None or set(good[mine].tolist()) == {i for i in then.holdout.ordinals.tolist() if i >= start}
        came, left = then.changes(comparison)
        old, today = set(comparison.holdout.ordinals.tolist()), set(then.holdout.ordinals.tolist())
        assert ({place.ordinal for place in came}, set(left)) == (today - old, old - today)
        assert then.design is not None
        fresh = RoundRecords.of([then.holdout.records], REGISTRY)
        assert then.design.Z.tolist() == fresh.Z.tolist()
        assert then.design.y.tolist() == fresh.y.tolist()
        comparison = then


def test_a_new_registry_gives_a_new_design() -> None:
    out = read([], [])
    first = Comparison(out).under(REGISTRY, 1)
    assert first.design is not None
    assert first.under(REGISTRY, 1) is first
    second = first.under(REGISTRY.grown(("more",), ()), 1)
    assert second.design is not None
    assert (first.design.Z.shape[1], second.design.Z.shape[1]) == (2, 3)


def kept(rounds: Sequence[int], labels: Sequence[int]) -> Comparison:
    """Return held-out records of some rounds and labels, whose feature is their number."""
    n = len(rounds)
    X, y = np.arange(n, dtype=np.float64)[:, None], np.array(labels, dtype=np.float64)
    records = Batch(Span("p", 0, n), np.arange(n), ("x",), X, y, NAMES)
    out = Holdout(records, np.array(rounds), np.arange(n), ("p",), np.zeros(n, np.int64))
    return Comparison(out).under(REGISTRY, 1)


def compared(comparison: Comparison, t: int, since: int) -> list[int]:
    design = comparison.settle(t, since)
    assert design is not None
    return [round(x) for x in (design.Z[:, 0] * 300.0 + 600.0).tolist()]


def test_recent_records_are_compared_with_where_there_are_three_older_ones_of_the_label() -> None:
    comparison = kept([20, 21, 22, 23, 30, 31, 20, 21, 30, 31], [0] * 6 + [1] * 4)
    assert compared(comparison, 31, 1) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert compared(comparison, 30, 1) == [0, 1, 6, 7]  # only rounds before 22 are old
    assert compared(comparison, 40, 1) == list(range(10))


def test_records_of_the_first_three_rounds_are_compared_with_at_once() -> None:
    comparison = kept([20, 21, 22, 23, 22, 23], [0, 0, 0, 0, 1, 1])
    assert compared(comparison, 24, 20) == [0, 1, 2, 3, 4]
    assert compared(comparison, 24, 1) == []
    assert Comparison().settle(5, 1) is None
