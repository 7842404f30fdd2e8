"""Time travel: the page as of an entry is the page that was live when the next entry came."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.live.page.told import accepted, closed, drifted, heard, joined, left, opened, refused, restarted

from streamfl.live.page import history as bounds
from streamfl.live.page.history import PageHistory
from streamfl.protocol.messages import Fenced
from streamfl.run.page.sections import sections

CLIENTS = st.sampled_from([f"c{i}" for i in range(4)])
BESIDE = st.one_of(
    st.builds(joined, CLIENTS),
    st.builds(left, CLIENTS),
    st.builds(refused, CLIENTS, evicted=st.booleans()),
    st.builds(opened, st.integers(1, 9)),
    st.builds(restarted, st.integers(1, 9), st.integers(1, 4)),
    st.builds(drifted, st.integers(1, 9), st.sampled_from(["latched", "branched", "returned"]), st.tuples(CLIENTS)),
)
UPDATES = st.lists(st.builds(accepted, CLIENTS, st.integers(0, 50), rejected=st.integers(0, 3)), max_size=4)
STEPS = st.lists(st.tuples(UPDATES, st.lists(BESIDE, max_size=4)), min_size=1, max_size=12)


@pytest.fixture(autouse=True, scope="module")
def small_chunks():
    """Chunks of a few events, so that short histories have many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "EVENTS", 5)
        patch.setattr(bounds, "UPDATES", 7)
        yield


@given(st.lists(BESIDE, max_size=4), STEPS)
def test_the_view_of_an_entry_is_the_one_that_was_live(before, steps):
    history, live = heard(*before), {}
    for entry, (updates, beside) in enumerate(steps, 1):
        for message in (closed(entry, updates, correct=1), *beside):
            history.hear(message, 1_700_000_000_000 + entry)
        until = 1_700_000_000_001 + entry if entry < len(steps) else None
        live[entry] = (copy.deepcopy(sections(history.now)), until)
    found = {entry: history.as_of(entry) for entry in live}
    assert {entry: (sections(view), until) for entry, (view, until) in found.items()} == live
    assert history.as_of(0) is None
    assert history.as_of(len(steps) + 1) is None
    assert history.first == 1


def test_an_entry_is_held_with_its_updates():
    history = heard(*(closed(n, [accepted("c0", 10, 10 * n)]) for n in range(1, 30)))
    (taken,) = history.entry(17).taken
    assert (taken.client, taken.records, taken.spans) == ("c0", 10, (("r.c0/0", 170, 180),))
    assert history.entry(30) is None


def test_the_oldest_entries_are_forgotten_beyond_the_bytes():
    history = heard(*(closed(n, [("c0", 10)]) for n in range(1, 2000)), history=PageHistory(most_bytes=20_000))
    assert 1 < history.first < 1999
    assert history.as_of(history.first - 1) is None
    assert history.as_of(history.first)[0].records == 10 * history.first
    assert history.as_of(1999) == (history.now, None)
    assert history.bytes <= 20_000


class TestOrder:
    def entries(self, *numbers):
        history = heard(*(closed(n, [("c0", 10)]) for n in numbers))
        return [line.summary.entry for line in history.now.lines], history.out_of_order

    @pytest.mark.parametrize("forged", [1, 3, 9, 2**60])
    def test_an_entry_that_does_not_follow_is_left_out(self, forged):
        assert self.entries(1, 2, 3, forged, 4, 5) == ([1, 2, 3, 4, 5], 1)

    def test_a_coordinator_that_began_anew_is_followed_and_nothing_of_the_one_before_is_shown(self):
        assert self.entries(7, 8, 1, 2, 3) == ([1, 2, 3], 0)
        history = heard(joined("old"), closed(7, [("old", 5)]), closed(8, [("old", 5)]), closed(1, []), closed(2, []))
        assert (history.now.clients, history.now.points) == ({}, [])
        assert history.as_of(8)[0].clients.keys() == {"old"}

    def test_entries_that_were_deleted_are_a_gap_and_no_beginning(self):
        assert self.entries(1, 2, 7, 8) == ([1, 2, 7, 8], 0)

    def test_a_log_whose_beginning_is_deleted_begins_anywhere(self):
        assert self.entries(500, 501) == ([500, 501], 0)

    def test_of_two_entries_of_one_number_the_newest_is_held(self):
        told = [closed(n, [("c0", 10)]) for n in (1, 2, 3)] + [closed(n, [("c0", 20)]) for n in (1, 2, 3)]
        history = heard(*told)
        assert history.entry(2).taken[0].records == 20
        assert history.as_of(2)[0].records == 2 * 20
        assert history.as_of(3) == (history.now, None)

    @pytest.mark.parametrize(
        "impossible",
        [
            opened(3, round=2**53 - 1),
            opened(3, epoch=2**53 - 1),
            opened(9),
            restarted(2**53 - 1, 2),
            restarted(2, 2**53 - 1),
            restarted(2, 2, since=2**53 - 1),
            closed(3, [("c0", 10)], round=4),
            closed(3, [("c0", 10)], epoch=2**53 - 1),
        ],
    )
    def test_numbers_that_no_ledger_can_have_are_left_out(self, impossible):
        history = heard(closed(1, [("c0", 10)]), closed(2, [("c0", 10)]))
        before = copy.deepcopy(history.now)
        heard(impossible, history=history)
        assert (history.now, history.out_of_order) == (before, 1)
        assert heard(closed(3, [("c0", 10)]), history=history).now.entry == 3

    def test_what_came_before_the_first_entry_is_forgotten_if_it_cannot_be(self):
        found = heard(
            joined("c0"), opened(2**53 - 1, epoch=2**53 - 1), refused("c0"), restarted(2**53 - 1, 9),
            restarted(4, 2), closed(5, [("c0", 1)], epoch=2),
        ).now  # fmt: skip
        assert [one.epoch for one in found.epochs] == [2]
        assert [card.change.round for card in found.cards] == [4]
        assert found.clients["c0"].refused_in == 5

    def test_a_flood_beside_an_entry_is_bounded(self, monkeypatch):
        monkeypatch.setattr(bounds, "BESIDE", 10)
        history = heard(closed(1, [("c0", 1)]), *(refused("c0") for _ in range(15)))
        assert (history.beyond, history.now.clients["c0"].refused) == (5, 10)
        heard(*[one for n in (7, 1, 9) for one in (closed(n, []), refused("c0"))], history=history)
        assert history.now.clients["c0"].refused == 10, "entries that do not follow make no room"
        heard(closed(2, [("c0", 1)]), refused("c0"), history=history)
        assert history.now.clients["c0"].refused == 11


def test_each_event_changes_the_number_of_changes():
    history, seen = heard(), set()
    for message in (joined("c0"), opened(1), closed(1, [("c0", 1)])):
        history.hear(message)
        seen.add(history.changes)
    assert len(seen) == 3


def test_messages_that_only_machines_need_change_nothing():
    history = heard(Fenced(client="c0", nonce="a", after=0, incarnation=2))
    assert history.changes == 0
