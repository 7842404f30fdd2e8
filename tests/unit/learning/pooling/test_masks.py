"""Masks cancel for whoever stays, and hide whoever does not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.arrays import IntArray
from streamfl.errors import PeerError
from streamfl.learning.pooling.masks import (
    OF_LOW_ORDER,
    PEERS,
    PRIME,
    Masks,
    absent_peers,
    is_key,
    peers,
    plain_total,
    total_of,
)
from streamfl.protocol.messages import Roster, Unmask
from streamfl.protocol.records import Span
from streamfl.wire.masking import MaskKeys, expand

ANY = st.integers(-(2**62), 2**62)


def federation(n: int, *, entry: int = 7, min_clients_per_sum: int = 2) -> dict[str, Masks]:
    """Return the masks of n clients, whose keys follow from their numbers."""
    keys = {f"c{i}": MaskKeys(bytes([i % 256, i // 256]) + bytes(62)) for i in range(n)}
    roster = Roster(version=1, keys={name: key.public for name, key in keys.items()})
    return {name: Masks(name, key, roster, entry, min_clients_per_sum) for name, key in keys.items()}


def asked(*names: str, entry: int = 7, stage: int = 0, attempt: str = "1-1") -> Unmask:
    return Unmask(entry=entry, stage=stage, attempts=dict.fromkeys(names, attempt))


def masked(masks: Masks, sums: IntArray, attempt: str = "1-1") -> IntArray:
    made = masks.masked(sums, 0, attempt)
    assert made is not None
    return made


def test_a_key_is_none_if_nobody_has_a_secret_with_its_owner():
    points = {*OF_LOW_ORDER, PRIME, PRIME + 1}
    keys = [(point + high).to_bytes(32, "little").hex() for point in points for high in (0, 2**255)]
    for key in keys:
        with pytest.raises(PeerError, match="not a key for masks"):
            MaskKeys(bytes(64)).shared(key)
    assert not any(map(is_key, keys))
    assert all(is_key(MaskKeys(bytes([i] * 64)).public) for i in range(20))


@given(st.data())
def test_the_total_of_those_who_stay_is_exact_whoever_is_absent(data):
    n = data.draw(st.integers(2, 7))
    here = federation(n)
    sums = {name: np.array(data.draw(st.lists(ANY, min_size=3, max_size=3)), np.int64) for name in here}
    stay = data.draw(st.sets(st.sampled_from(sorted(here)), min_size=2))
    sent = {name: masked(here[name], sums[name]) for name in here}
    answers = [here[name].unmasked(asked(*stay)) for name in sorted(stay)]
    assert None not in answers
    total = total_of([sent[name] for name in sorted(stay)], answers, expand)
    assert total.tolist() == plain_total([sums[name] for name in sorted(stay)]).tolist()


def test_the_total_is_exact_where_a_client_has_only_some_peers_and_a_third_is_absent():
    here = federation(100)
    assert {len(peers(masks.roster, name)) for name, masks in here.items()} == {PEERS}
    stay = sorted(name for name in here if int(name[1:]) % 3)
    sent = {name: masked(here[name], np.full(5, int(name[1:]))) for name in here}
    answers = [here[name].unmasked(asked(*stay)) for name in stay]
    assert all(answer.shared for answer in answers)
    total = total_of([sent[name] for name in stay], answers, expand)
    assert total.tolist() == [sum(int(name[1:]) for name in stay)] * 5


def test_what_an_absent_client_sends_later_stays_hidden_by_its_own_mask():
    here = federation(4)
    sums = np.arange(1000)
    late = masked(here["c3"], sums)
    stay = ("c0", "c1", "c2")
    for name in stay:
        masked(here[name], sums)
    answers = [here[name].unmasked(asked(*stay)) for name in stay]
    # Everything that was told: the masks that c3 shares with each of the others.
    bare = late.astype(np.uint64)
    for answer in answers:
        mask = expand(bytes.fromhex(answer.shared["c3"]), 1000).astype(np.uint64)
        bare = bare + mask if answer.client < "c3" else bare - mask
    hidden = bare.astype(np.int64) - sums
    own = MaskKeys(bytes([3, 0]) + bytes(62)).own
    assert len(np.unique(hidden)) == 1000
    assert own.hex() not in {answer.own for answer in answers}


def test_numbers_that_are_masked_look_like_any_others():
    here = federation(3)
    made = masked(here["c0"], np.zeros(40_000, np.int64))
    bits = np.unpackbits(made.view(np.uint8))
    assert abs(bits.mean() - 0.5) < 0.002
    again = masked(here["c0"], np.zeros(40_000, np.int64), attempt="1-2")
    assert (made != again).all()  # not even that they are the same shows


def test_a_client_masks_each_attempt_once():
    here = federation(3)
    masked(here["c0"], np.zeros(2, np.int64))
    assert here["c0"].masked(np.ones(2, np.int64), 0, "1-1") is None


def test_seeds_are_told_of_one_attempt_and_one_set_of_clients():
    here = federation(4)
    for attempt in ("1-1", "1-2"):
        masked(here["c0"], np.zeros(2, np.int64), attempt)
    first = here["c0"].unmasked(asked("c0", "c1", "c2"))
    assert first is not None
    assert here["c0"].unmasked(asked("c0", "c1", "c2")) == first
    assert here["c0"].unmasked(asked("c0", "c1", "c2", "c3")) is None
    assert here["c0"].unmasked(asked("c0", "c1")) is None
    assert here["c0"].unmasked(asked("c0", "c1", "c2", attempt="1-2")) is None


def test_seeds_of_scores_are_told_for_the_clients_whose_updates_were_added_up_and_for_no_others():
    here = federation(4)
    for stage in (0, 1):
        here["c0"].masked(np.zeros(2, np.int64), stage, "1-1")
    assert here["c0"].unmasked(asked("c0", "c1", "c2", stage=1)) is None  # its update is in no total
    assert here["c0"].unmasked(asked("c0", "c1", "c2")) is not None
    for others in (("c1",), ("c1", "c3"), ("c1", "c2", "c3")):
        assert here["c0"].unmasked(asked("c0", *others, stage=1)) is None
    assert here["c0"].unmasked(asked("c0", "c1", "c2", stage=1)) is not None


def test_seeds_of_scores_are_told_for_newer_attempts_about_the_same_records_and_for_one_set_of_them():
    for end, tells in ((9, True), (10, False)):
        masks = federation(4)["c0"]
        for stage, attempt, upto in ((0, "1-1", 9), (0, "1-2", end), (1, "1-2", end), (1, "1-3", end)):
            masks.masked(np.zeros(2, np.int64), stage, attempt, (Span("p", 0, upto),))
        assert masks.unmasked(asked("c0", "c1", "c2")) is not None
        assert masks.told_about == (Span("p", 0, 9),)
        newer = asked("c0", "c1", "c2", stage=1, attempt="1-2")
        assert (masks.unmasked(newer) is not None) is tells
        assert (masks.unmasked(newer) is not None) is tells
        assert masks.unmasked(asked("c0", "c1", "c2", stage=0, attempt="1-2")) is None
        assert not tells or masks.unmasked(asked("c0", "c1", "c2", stage=1, attempt="1-3")) is None
        sums = masks.masked(np.zeros(2, np.int64), 2, "1-2", (Span("p", 0, end),))
        assert (sums is not None) is tells  # scores without sums, for which nobody is asked for seeds


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (asked("c0", "c1"), "fewer than three"),
        (asked("c1", "c2", "c3"), "it is not among them"),
        (asked("c0", "c1", "c2", entry=8), "another entry"),
        (asked("c0", "c1", "c2", stage=1), "scores that it has not sent"),
        (asked("c0", "c1", "c2", attempt="1-9"), "an attempt that it has not made"),
        (asked("c0", "c1", "stranger"), "a client that has no key"),
    ],
)
def test_a_client_gives_no_seed_for_a_question_that_no_honest_coordinator_asks(ask, why):
    here = federation(4, min_clients_per_sum=3)
    masked(here["c0"], np.zeros(2, np.int64))
    assert here["c0"].unmasked(ask) is None, why
    assert here["c0"].unmasked(asked("c0", "c1", "c2")) is not None


def test_no_seed_is_told_if_few_of_a_clients_peers_stay_however_many_others_do():
    here = federation(200, min_clients_per_sum=3)
    masked(here["c0"], np.zeros(2, np.int64))
    mine = set(peers(here["c0"].roster, "c0"))
    others = sorted(set(here) - mine)
    assert len(others) > 100
    assert here["c0"].unmasked(asked("c0", *others)) is None
    assert absent_peers(here["c0"].roster, "c0", others) == mine


def test_seeds_of_another_entry_or_stage_are_others():
    told = []
    for entry, stage in ((7, 0), (8, 0), (7, 1)):
        masks = replace(federation(3, entry=entry)["c0"])
        for each in range(stage + 1):
            masks.masked(np.zeros(1, np.int64), each, "1-1")
            answer = masks.unmasked(asked("c0", "c1", entry=entry, stage=each))
        told += [answer.own, *answer.shared.values()]
    assert len(set(told)) == 6


def test_a_text_that_is_no_key_is_refused():
    for text in ("", "zz" * 32, "00" * 31, "00" * 32):
        with pytest.raises(PeerError, match="not a key for masks"):
            MaskKeys().shared(text)


def test_secrets_are_neither_shown_nor_copied():
    keys = MaskKeys(bytes(64))
    assert repr(keys) == f"MaskKeys(of {keys.public})"
    with pytest.raises(TypeError, match="not to be copied"):
        keys.__reduce__()
