"""Parts of delayed labels: halves, answers, what was recorded, and pairs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from worlds.phases import may_follow

from streamfl.learning.algorithms import FedAvg
from streamfl.learning.local_round import Learner
from streamfl.machines.client.intake.waiting import LABELLED, NO_RECORD, PASSED, REJECTED, Awaited, Waiting, pair
from streamfl.machines.client.machine import Client
from streamfl.machines.client.phase import Phase
from streamfl.machines.client.settings import ClientSettings
from streamfl.models import Softmax
from streamfl.protocol.delayed import Answers, Half, answers_together
from streamfl.protocol.events import RecordsRead, WindowFull
from streamfl.protocol.messages import Watermark
from streamfl.protocol.records import Batch, Rejection, Span, stacked
from streamfl.runtime.log.recorded import Recorded


def keys(text: str) -> np.ndarray:
    return np.array(list(text), dtype=np.object_)


def asked(
    names: str, start: int = 0, *, answered: bool = True, written: list[int] | None = None, bad: str = ""
) -> Batch:
    """Return records with the values 0, 1, .., each under a key of one character; `bad` come after them."""
    n = len(names)
    answers = Answers(np.zeros(n), np.full(n, -1.0), ("a",)) if answered else None
    X = np.arange(start, start + n, dtype=np.float64)[:, None]
    positions = np.arange(start, start + n)
    return Batch(
        Span("f", start, start + n + len(bad)),
        positions,
        ("x",),
        X,
        np.zeros(n),
        rejected=tuple(Rejection(start + n + i, "no number", key=key) for i, key in enumerate(bad)),
        half=Half("features", keys(names), None if written is None else np.array(written)),
        answers=answers,
    )


def told(names: str, start: int = 0, labels: str | None = None, written: list[int] | None = None) -> Batch:
    """Return labels, by default a, under keys of one character."""
    n = len(names)
    given = labels or "a" * n
    known = tuple(sorted(set(given)))
    y = np.array([known.index(one) for one in given], np.float64)
    half = Half("labels", keys(names), None if written is None else np.array(written))
    return Batch(Span("l", start, start + n), np.arange(start, start + n), (), np.zeros((n, 0)), y, known, half=half)


def waiting(names: str = "abcdef", window: int = 3) -> Waiting:
    """Return what waits once as many records have been read as there is room for."""
    fresh = Waiting(window)
    fresh.take_features(asked(names[: fresh.room]))
    return fresh


# --- batches -----------------------------------------------------------------------------------------------------


def test_a_batch_is_cut_with_its_keys_its_answers_and_the_places_of_its_features():
    n = 4
    batch = Batch(
        Span("l", 10, 15),
        np.array([10, 11, 13, 14]),
        ("x",),
        np.arange(4.0)[:, None],
        np.zeros(n),
        ("a",),
        (Rejection(12, "bad"),),
        half=Half("labels", keys("klmn")),
        beside=np.array([7, 5, 6, 9]),
        answers=Answers(np.array([0.0, -1.0, 0.0, 0.0]), np.array([-1.0, 0.0, 0.0, 0.0]), ("a",)),
    )

    def shown(part: Batch) -> tuple[str, list[int], list[float]]:
        assert part.half is not None and part.beside is not None and part.answers is not None
        return "".join(part.half.keys), part.beside.tolist(), part.answers.served.tolist()

    assert shown(batch.after(12)) == ("mn", [6, 9], [0.0, 0.0])
    assert shown(batch.before(13)) == ("kl", [7, 5], [0.0, -1.0])
    assert shown(batch.head(3)) == ("klm", [7, 5, 6], [0.0, -1.0, 0.0])
    assert shown(batch.only(np.array([1, 3]))) == ("ln", [5, 9], [-1.0, 0.0])
    assert stacked([batch.before(11), batch.after(14)]).beside.tolist() == [7, 9]
    assert stacked([asked("a")]).beside is None


def test_a_record_whose_label_the_registry_cannot_take_loses_its_place_and_its_answer_too():
    (joined,) = joined_of(waiting(), told("ab", labels="zy"))
    kept = joined.within(None, ("y",))
    assert (kept.beside.tolist(), len(kept.answers.served), kept.rejected[0].position) == ([1], 1, 0)


# --- answers -----------------------------------------------------------------------------------------------------


def test_answers_are_coded_by_other_labels_and_put_together():
    a = Answers(np.array([0.0, 1.0, -1.0]), np.array([1.0, -1.0, 0.0]), ("a", "b"))
    b = Answers(np.array([0.0]), np.array([1.0]), ("c", "a"))
    none = Answers(np.array([-1.0]), np.array([-1.0]))
    both = answers_together([a, none, b])
    assert both.labels == ("a", "b", "c")
    assert both.served.tolist() == [0.0, 1.0, -1.0, -1.0, 2.0]
    assert both.no_change.tolist() == [1.0, -1.0, 0.0, -1.0, 0.0]
    assert [part.tolist() for part in a.coded(("b",))] == [[-1.0, 0.0, -1.0], [0.0, -1.0, -1.0]]
    assert [part.tolist() for part in none.coded(("b",))] == [[-1.0], [-1.0]]
    assert answers_together([]).served.tolist() == []


def test_targets_are_put_together_as_they_are():
    both = answers_together([Answers(np.array([2.5]), np.array([0.0])), Answers(np.array([-1.0]), np.array([-1.0]))])
    assert (both.served.tolist(), both.no_change.tolist(), both.labels) == ([2.5, -1.0], [0.0, -1.0], ())


# --- what was recorded ---------------------------------------------------------------------------------------------


def test_the_first_answer_of_a_record_counts_and_comes_back_as_it_was():
    recorded = Recorded()
    recorded.add_all(asked("ab"))
    recorded.add(0, "b", "b")
    recorded.add(3, "b", "a")
    parts = list(recorded.parts(asked("abcde", answered=False)))
    assert [(part.span.start, part.span.end, part.answers is not None) for part in parts] == [
        (0, 2, True),
        (2, 3, False),
        (3, 4, True),
        (4, 5, False),
    ]
    assert (parts[0].answers.served.tolist(), parts[0].answers.no_change.tolist()) == ([0.0, 0.0], [-1.0, -1.0])
    answers = parts[2].answers
    assert [answers.labels[int(code)] for code in (answers.served[0], answers.no_change[0])] == ["b", "a"]
    recorded.forget(3)
    assert [part.answers is not None for part in recorded.parts(asked("abcde", answered=False))] == [
        False,
        True,
        False,
    ]


def test_bad_records_between_recorded_ones_stay_covered():
    recorded = Recorded()
    recorded.add(11, "a", None)
    batch = Batch(Span("f", 9, 14), np.array([10, 11]), ("x",), np.zeros((2, 1)), np.zeros(2))
    assert [(part.span.start, part.span.end, len(part)) for part in recorded.parts(batch)] == [
        (9, 11, 1),
        (11, 14, 1),
    ]
    empty = Batch(Span("f", 9, 14), np.zeros(0, np.int64), ("x",), np.zeros((0, 1)), np.zeros(0))
    assert [part.span for part in recorded.parts(empty)] == [Span("f", 9, 14)]


@pytest.mark.parametrize("target", [-1.0, 0.0, 2.5])
def test_targets_come_back_as_they_were_even_if_they_look_like_no_label(target):
    recorded = Recorded(targets=True)
    batch = asked("a", answered=False)
    said = Answers(np.array([target]), np.array([target]))
    recorded.add_all(Batch(batch.span, batch.positions, ("x",), batch.X, batch.y, half=batch.half, answers=said))
    (part,) = recorded.parts(batch)
    assert (part.answers.served.tolist(), part.answers.no_change.tolist()) == ([target], [target])


# --- joining -------------------------------------------------------------------------------------------------------


def joined_of(waiting: Waiting, *labels: Batch) -> list[Batch]:
    for batch in labels:
        waiting.take_labels(batch)
    return waiting.joined()


def test_labels_find_their_records_in_the_order_of_the_labels():
    (joined,) = joined_of(waiting(), told("ca", labels="ba"))
    assert (joined.X[:, 0].tolist(), joined.beside.tolist(), joined.positions.tolist()) == (
        [2.0, 0.0],
        [2, 0],
        [0, 1],
    )
    assert [joined.labels[int(code)] for code in joined.y] == ["b", "a"]
    assert joined.half is None


def test_a_label_whose_record_has_not_come_waits_until_the_window_is_read_and_holds_up_those_after_it():
    fresh = Waiting(3)
    fresh.take_features(asked("a"))
    assert joined_of(fresh, told("xa")) == []
    assert (fresh.queued, fresh.is_read) == (2, False)
    fresh.take_features(asked("bc", 1))
    (joined,) = fresh.joined()
    assert joined.rejected == (Rejection(0, f"{NO_RECORD}: x"),)
    assert joined.positions.tolist() == [1]


def test_the_label_of_a_rejected_record_is_released_at_once_and_the_mark_moves_behind_the_record():
    fresh = Waiting(100)
    fresh.take_features(asked("ab", bad="c"))
    joined = joined_of(fresh, told("cb"))
    assert [bad.reason for batch in joined for bad in batch.rejected] == [f"{REJECTED} (no number): c"]
    assert [batch.beside.tolist() for batch in joined] == [[1]]
    assert fresh.after([joined[0].before(1)]) == Watermark("f", 3, 0, 0, unusable=1)


def test_a_label_without_a_record_is_released_by_a_record_that_was_written_a_minute_after_it():
    fresh = Waiting(100)
    fresh.take_features(asked("ab", written=[0, 70_000]))
    assert joined_of(fresh, told("xb", written=[10_000, 80_000])) == []  # it might come in the same minute
    assert fresh.awaited == Awaited(label=0, key="x", read=2, end=100, near=1, written=10_000)
    fresh.take_features(asked("c", 2, written=[70_001]))
    (joined,) = fresh.joined()
    assert joined.rejected == (Rejection(0, f"{PASSED}: x"),)
    assert (joined.beside.tolist(), fresh.awaited) == ([1], None)


class Counting(list[tuple[int, int]]):
    """A list that counts what is taken out of it in slices."""

    taken = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        self.taken += len(found) if isinstance(at, slice) else 0
        return found


def test_what_a_label_waits_for_is_looked_for_once_in_each_record():
    fresh, n = Waiting(10_000), 1_000
    fresh._written = Counting()
    for at in range(n):
        fresh.take_features(asked("a", at, written=[10_000]))
        assert joined_of(fresh, *([] if at else [told("x", written=[10_000])])) == []
    assert fresh._written.taken <= n
    fresh.take_features(asked("a", n, written=[70_001]))
    (joined,) = fresh.joined()
    assert joined.rejected == (Rejection(0, f"{PASSED}: x"),)


def test_a_record_behind_the_one_that_released_its_label_is_not_found_though_it_was_read():
    labels = told("c", written=[10_000])
    for features in ([asked("abc", written=[0, 70_001, 70_002])], [asked("ab", written=[0, 70_001])]):
        fresh = Waiting(100)
        for batch in features:
            fresh.take_features(batch)
        (joined,) = joined_of(fresh, labels)
        assert joined.rejected == (Rejection(0, f"{PASSED}: c"),)


def test_labels_in_order_find_their_records_whatever_the_clocks_say():
    fresh = Waiting(100)
    fresh.take_features(asked("abcdef", written=[10**9 + i for i in range(6)]))
    (joined,) = joined_of(fresh, told("acf", written=[0, 1, 2]))  # f lies two positions beyond the front
    assert joined.beside.tolist() == [0, 2]
    assert [bad.position for bad in joined.rejected] == [2]


def test_labels_whose_clock_is_behind_find_their_records_again_after_a_gap():
    fresh = Waiting(100)
    fresh.take_features(asked("abcdefgh", written=[10**9 + i for i in range(8)]))
    joined = joined_of(fresh, told("afgh", written=[0, 1, 2, 3]))  # b to e get no labels
    assert [at for batch in joined for at in batch.beside.tolist()] == [0]
    assert [bad.reason for batch in joined for bad in batch.rejected] == [f"{PASSED}: {key}" for key in "fgh"]
    watermark = fresh.after(joined)
    # Each of them has moved it by a hundredth of the window
    assert (watermark.features, watermark.unmatched) == (4, 3)
    fresh.follow(watermark, 4)
    (joined,) = joined_of(fresh, told("e", 4, written=[4]))
    assert joined.beside.tolist() == [4]


def test_without_a_time_only_the_window_releases_a_label():
    fresh = Waiting(100)
    fresh.take_features(asked("ab", written=[0, 10**9]))
    assert joined_of(fresh, told("x", written=[-1])) == []
    assert fresh.awaited is not None
    assert fresh.awaited.written is None


def test_a_label_that_cannot_be_read_holds_up_nothing_and_its_record_waits_for_another_one():
    fresh = waiting("abc", window=100)
    unreadable = replace(told(""), span=Span("l", 0, 1), rejected=(Rejection(0, "no label", key="a"),))
    joined = joined_of(fresh, unreadable, told("b", 1))
    assert [batch.beside.tolist() for batch in joined] == [[], [1]]
    fresh.follow(fresh.after(joined), 2)
    assert (fresh.records, fresh.awaited) == (2, None)
    (joined,) = joined_of(fresh, told("a", 2))
    assert joined.beside.tolist() == [0]


def test_a_second_label_is_rejected_before_the_entry_and_after_it():
    fresh = waiting()
    (joined,) = joined_of(fresh, told("aa"))
    assert joined.rejected == (Rejection(1, f"{LABELLED}: a"),)
    fresh.follow(fresh.after([joined]), 2)
    (again,) = joined_of(fresh, told("a", 2))
    assert again.rejected == (Rejection(2, f"{LABELLED}: a"),)


def test_the_mark_lies_behind_the_newest_record_and_what_lies_before_the_window_is_written_off():
    fresh = waiting(window=3)
    (joined,) = joined_of(fresh, told("c"))
    assert fresh.after([joined]) == Watermark("f", 3, 0, 0)
    fresh.follow(Watermark("f", 3, 0, 0), 1)
    assert (fresh.room, fresh.records) == (3, 2)
    fresh.take_features(asked("def", 3))
    (joined,) = joined_of(fresh, told("f", 1))
    assert fresh.after([joined]) == Watermark("f", 6, 1, 2)  # a and b were never labelled
    fresh.follow(Watermark("f", 6, 1, 2), 2)
    assert fresh.records == 2


def test_the_watermark_moves_without_a_label_only_if_features_beyond_the_window_come_next():
    fresh = waiting(window=3)
    assert (fresh.is_read, fresh.must_move, fresh.after([])) == (True, False, Watermark("f", 0, 0, 0))
    fresh.is_stuck = True
    assert fresh.after([]) == Watermark("f", 3, 0, 0)
    (joined,) = joined_of(fresh, told("a"))
    assert fresh.after([joined]) == Watermark("f", 1, 0, 0)  # a label was passed


def test_the_window_follows_the_front_until_this_is_a_window_beyond_the_mark_and_then_labels_wait_for_an_entry():
    fresh = waiting("abc", window=3)
    assert joined_of(fresh, told("cxeyz"))[0].beside.tolist() == [2]
    fresh.take_features(asked("def", 3))
    (joined,) = fresh.joined()  # the front is 3: x finds nothing before 6
    assert (joined.rejected, joined.beside.tolist()) == ((Rejection(1, f"{NO_RECORD}: x"),), [4])
    assert (fresh.room, fresh.queued, fresh.must_move) == (0, 2, True)  # the front is 5, and the watermark 0
    watermark = fresh.after([joined])
    assert watermark.features == 5
    fresh.follow(watermark, 3)
    assert (fresh.room, fresh.must_move) == (2, False)
    fresh.take_features(asked("gz", 6))
    (joined,) = fresh.joined()
    assert (joined.rejected, joined.beside.tolist()) == ((Rejection(3, f"{NO_RECORD}: y"),), [7])


def test_a_client_that_was_stuck_goes_on_reading_once_a_label_has_come():
    client = Client(ClientSettings(Learner(Softmax(), FedAvg()), round_size=5, window=2), "c0", nonce="7f")
    client.handle(RecordsRead((asked("ab", answered=False),)), now=0.0)
    client.handle(WindowFull(), now=0.0)
    assert (client.phase, client.features_room) == (Phase.JOINING, 0)
    event = RecordsRead((told("ab"),))
    decisions = client.handle(event, now=0.0)
    assert (client.phase, client.features_room, client.intake.is_stuck) == (Phase.FILLING, 2, False)
    assert may_follow(Phase.JOINING, event, decisions, client.phase)


def test_many_labels_of_unknown_keys_move_the_mark_so_that_they_are_forgotten():
    fresh = waiting(window=3)
    joined = joined_of(fresh, told("ijklmnopqrst"))
    assert fresh.after(joined).features == 0
    joined += joined_of(fresh, told("u", 12))
    assert fresh.after(joined).features == 3


def test_a_label_that_was_rejected_settles_its_record_like_any_other_once_the_mark_has_passed_it():
    fresh = waiting(window=3)
    joined = joined_of(fresh, told("cg"))
    fresh.take_features(asked("def", 3))
    joined += fresh.joined()  # g is beyond the window
    assert [bad for batch in joined for bad in batch.rejected] == [Rejection(1, f"{NO_RECORD}: g")]
    first = fresh.after(joined)
    assert (first.unmatched, first.repeated, fresh.complaint) == (1, 0, f"{NO_RECORD}: g")
    fresh.follow(first, 2)
    fresh.take_features(asked("ghi", 6))
    (joined,) = joined_of(fresh, told("fhh", 2))
    assert fresh.after([joined.before(4)]).repeated == 0  # the second label is not passed yet
    watermark = fresh.after([joined])
    fresh.follow(watermark, 5)
    assert watermark.expired == 5  # a, b, d, e, and g
    assert (watermark.unmatched, watermark.repeated, fresh.complaint) == (0, 1, f"{LABELLED}: h")
    assert fresh.records == 1  # i


def test_an_entry_before_all_was_read_again_leaves_the_mark_where_it_is():
    fresh = waiting(window=3)
    fresh.begin(Watermark("f", 5, 2, 40), 4)
    fresh.is_stuck = True
    assert fresh.after([]) == Watermark("f", 5, 2, 0)
    assert fresh.room == 6  # from 2 to 8
    fresh.begin(Watermark("f", 1, 0, 0), 1)
    assert fresh.room == 4  # from 0, not from -2


def test_a_full_window_asks_for_no_entry_before_all_was_read_again_since_none_would_move_it():
    fresh = Waiting(3)
    fresh.begin(Watermark("f", 0, 0, 0), 2)
    fresh.take_features(asked("abc"))
    fresh.is_stuck = True
    assert (fresh.is_read, fresh.must_move) == (True, False)
    fresh.take_labels(told("xy"))
    assert (fresh.is_restored, fresh.must_move) == (True, True)


def test_pairs_are_read_again_from_halves():
    halves = [asked("abc"), asked("gh", 6), told("xy", 10), told("z", 20)]
    first, second = pair(halves, {("l", 10): 7, ("l", 11): 1, ("l", 20): 99})
    assert (first.positions.tolist(), first.X[:, 0].tolist(), first.beside.tolist()) == ([10, 11], [7.0, 1.0], [7, 1])
    assert len(second) == 0  # the features are gone
