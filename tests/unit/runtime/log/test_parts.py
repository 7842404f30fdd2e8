"""Values in parts: in any order they come together again, and nothing else ever does."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.errors import PeerError
from streamfl.runtime.log.parts import DIGEST, EXPIRES_AFTER, MOST_UNDER_WAY, OVERHEAD, PART, PartAssembly, cut

DATA, OTHER = b"abcdefgh", b"ABCDEFGHIJ"


def added(assembly, *parts, name="c0"):
    """Add parts, and return what came out of each."""
    return [assembly.add(name, part.headers, part.value) for part in parts]


def under_way(name="c0", count=2):
    """A part of a whole that is never completed."""
    return name, ((PART, f"0/{count}".encode()), (DIGEST, name.encode())), b"x"


@pytest.fixture
def assembly():
    return PartAssembly(most_bytes=1000)


class TestCut:
    def test_parts_are_no_larger_than_asked_for_and_numbered(self):
        parts = cut(DATA, 3)
        assert [(part.number, part.value) for part in parts] == [(0, b"abc"), (1, b"def"), (2, b"gh")]
        assert [dict(part.headers)[PART] for part in parts] == [b"0/3", b"1/3", b"2/3"]
        assert len({dict(part.headers)[DIGEST] for part in parts}) == 1

    @pytest.mark.parametrize(("size", "count"), [(7, 2), (8, 1), (9, 1)])
    def test_a_value_that_just_fits_is_one_part(self, size, count):
        assert len(cut(DATA, size)) == count

    def test_an_empty_value_is_a_part_too(self, assembly):
        assert added(assembly, *cut(b"", 3)) == [b""]


class TestAssembly:
    def test_parts_come_together_in_any_order(self, assembly):
        first, second, third = cut(DATA, 3)
        assert added(assembly, third, first, second) == [None, None, DATA]

    def test_a_part_that_comes_twice_does_no_harm(self, assembly):
        first, second, third = cut(DATA, 3)
        assert added(assembly, first, first, second, third) == [None, None, None, DATA]

    def test_a_value_that_is_sent_again_comes_together_again(self, assembly):
        assert added(assembly, *cut(DATA, 4), *cut(DATA, 4)) == [None, DATA, None, DATA]

    def test_a_newer_value_takes_the_place_of_an_older_unfinished_one(self, assembly):
        first, second = cut(DATA, 4)
        new = cut(OTHER, 5)
        assert added(assembly, first, *new, second) == [None, None, OTHER, None]
        assert added(assembly, first) == [DATA]

    def test_parts_of_two_values_are_never_mixed(self, assembly):
        one, other = cut(DATA, 4), cut(DATA[:4] + b"EFGH", 4)
        assert added(assembly, one[0], other[1]) == [None, None]
        assert added(assembly, one[0], one[1]) == [None, DATA]

    def test_parts_of_the_same_value_cut_otherwise_are_not_mixed(self, assembly):
        halves, thirds = cut(DATA, 4), cut(DATA, 3)
        assert added(assembly, halves[0], thirds[1], thirds[2]) == [None, None, None]
        assert added(assembly, thirds[0]) == [DATA]

    def test_every_name_has_a_value_of_its_own(self, assembly):
        one, other = cut(DATA, 4), cut(OTHER, 5)
        assert added(assembly, one[0], name="c0") + added(assembly, other[0], name="c1") == [None, None]
        assert added(assembly, one[1], name="c0") + added(assembly, other[1], name="c1") == [DATA, OTHER]

    def test_a_value_that_is_too_large_is_refused_before_all_parts_are_there_and_forgotten(self):
        assembly = PartAssembly(most_bytes=6)
        first, second, third = cut(DATA, 3)
        assert added(assembly, first, second) == [None, None]
        with pytest.raises(PeerError, match="'c0' sends more than 6 bytes"):
            added(assembly, third)
        assert added(assembly, first, *cut(b"abcdef", 3)) == [None, None, b"abcdef"]

    def test_a_value_that_does_not_match_its_digest_is_refused_and_forgotten(self, assembly):
        first, second = cut(DATA, 4)
        added(assembly, first)
        with pytest.raises(PeerError, match="does not match its digest"):
            assembly.add("c0", second.headers, b"EFGH")
        assert added(assembly, first, second) == [None, DATA]

    @pytest.mark.parametrize(
        "headers",
        [
            (),
            ((PART, b"0/1"),),
            ((DIGEST, b"d"),),
            ((PART, b"0"), (DIGEST, b"d")),
            ((PART, b"0/1/2"), (DIGEST, b"d")),
            ((PART, b"a/b"), (DIGEST, b"d")),
            ((PART, b"\xff/2"), (DIGEST, b"d")),
            ((PART, None), (DIGEST, b"d")),
            ((PART, b"0/1"), (DIGEST, None)),
            ((PART, b"2/2"), (DIGEST, b"d")),
            ((PART, b"-1/2"), (DIGEST, b"d")),
            ((PART, b"0/0"), (DIGEST, b"d")),
            ((PART, b"9" * 5000 + b"/2"), (DIGEST, b"d")),
        ],
    )
    def test_a_message_without_the_headers_of_a_part_is_refused(self, assembly, headers):
        with pytest.raises(PeerError):
            assembly.add("c0", headers, b"")

    def test_unfinished_values_are_bounded_and_the_oldest_goes(self, assembly):
        first, second = cut(DATA, 4)
        added(assembly, first, name="oldest")
        added(assembly, first, name="second oldest")
        for i in range(MOST_UNDER_WAY - 1):
            assembly.add(*under_way(f"c{i}"))
        assert added(assembly, second, name="second oldest") == [DATA]
        assert added(assembly, second, name="oldest") == [None]

    def test_a_name_that_starts_anew_is_the_youngest_and_costs_nobody_his_place(self, assembly):
        first, second = cut(DATA, 4)
        added(assembly, first, name="b")
        added(assembly, cut(OTHER, 5)[0], name="a")
        for i in range(MOST_UNDER_WAY - 2):
            assembly.add(*under_way(f"c{i}"))
        added(assembly, first, name="a")
        assert added(assembly, second, name="b") == [DATA]
        assembly.add(*under_way("d"))
        assembly.add(*under_way("e"))  # takes the place of c0
        assert added(assembly, second, name="a") == [DATA]


@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 9)), min_size=1, max_size=4), st.data())
def test_values_come_together_however_the_parts_of_all_names_are_shuffled(values, data):
    parts = [(f"c{i}", part) for i, (value, size) in enumerate(values) for part in cut(value, size)]
    assembly, whole = PartAssembly(most_bytes=40), {}
    for name, part in data.draw(st.permutations(parts)):
        assert len(part.value) <= values[int(name[1:])][1]
        came = assembly.add(name, part.headers, part.value)
        if came is not None:
            assert name not in whole
            whole[name] = came
    assert whole == {f"c{i}": value for i, (value, _) in enumerate(values)}


def part(number, count, value, digest=b"d"):
    return ((PART, f"{number}/{count}".encode()), (DIGEST, digest)), value


class TestBounds:
    def test_all_unfinished_values_share_one_budget_and_who_was_silent_longest_goes(self):
        assembly = PartAssembly(most_bytes=5000, budget=3 * (1000 + OVERHEAD))
        wholes = {name: cut(name.encode() * 1000, 1000) for name in ("ab", "cd", "ef", "gh")}
        assert [added(assembly, wholes[name][0], name=name) for name in ("ab", "cd", "ef")] == [[None]] * 3
        assert assembly.held == 3 * (1000 + OVERHEAD)
        added(assembly, wholes["ab"][0], name="ab")  # heard of again: now cd is the one silent longest
        added(assembly, wholes["gh"][0], name="gh")
        assert assembly.held == 3 * (1000 + OVERHEAD)
        assert added(assembly, wholes["ab"][1], name="ab") == [b"ab" * 1000]
        assert added(assembly, wholes["cd"][1], name="cd") == [None]

    def test_non_members_cannot_use_up_the_members_room_for_parts(self):
        members = {"c0"}
        assembly = PartAssembly(most_bytes=5000, budget=5000, strangers=2000, allows=members.__contains__)
        first, second = cut(b"m" * 2000, 1000)
        added(assembly, first, name="c0")
        for i in range(100):
            added(assembly, cut(bytes([i]) * 1500, 1000)[0], name=f"stranger {i}")
        assert assembly.held == 1000 + OVERHEAD + 1000 + OVERHEAD
        assert added(assembly, second, name="c0") == [b"m" * 2000]

    def test_a_newcomer_may_introduce_itself_in_parts_of_so_many_bytes_in_all(self):
        assembly = PartAssembly(most_bytes=50_000, strangers=3000, allows=lambda _: False)
        assert added(assembly, *cut(b"j" * 2000, 1000), name="new") == [None, b"j" * 2000]
        with pytest.raises(PeerError, match="'new' sends more than 3000 bytes"):
            added(assembly, *cut(b"j" * 4000, 1000), name="new")
        assert assembly.held == 0
        assert added(assembly, *cut(b"j" * 40_000, 40_000), name="new") == [b"j" * 40_000]

    def test_all_parts_but_the_last_have_a_least_size(self):
        assembly = PartAssembly(most_bytes=1000, least=100)
        with pytest.raises(PeerError, match="'c0' sends a part of 99 bytes; all but the last have at least 100"):
            assembly.add("c0", *part(0, 3, b"x" * 99))
        assert assembly.held == 0
        assert added(assembly, *cut(b"x" * 201, 100)) == [None, None, b"x" * 201]

    def test_a_value_has_no_more_parts_than_its_bytes_allow(self):
        assembly = PartAssembly(most_bytes=1000, least=100)
        with pytest.raises(PeerError, match="in 12 parts; at most 11"):
            assembly.add("c0", *part(11, 12, b"x"))
        assert assembly.add("c0", *part(10, 11, b"x")) is None

    def test_a_value_of_one_part_that_is_too_large_is_refused_at_once(self):
        with pytest.raises(PeerError, match="more than 3 bytes"):
            added(PartAssembly(most_bytes=3), *cut(DATA, 100))

    def test_an_unfinished_value_that_had_no_part_for_long_is_forgotten(self):
        assembly = PartAssembly(most_bytes=1000)
        first, second = cut(DATA, 4)
        added(assembly, first)
        for _ in range(EXPIRES_AFTER):
            added(assembly, *cut(b"x", 4), name="other")
        assert assembly.held == 4 + OVERHEAD
        assert added(assembly, *cut(b"x", 4), name="other") == [b"x"]
        assert assembly.held == 0
        assert added(assembly, second) == [None]

    def test_an_unfinished_value_of_an_unknown_name_that_had_no_part_for_long_is_forgotten(self):
        assembly = PartAssembly(most_bytes=1000, allows=lambda name: name == "c0")
        added(assembly, cut(DATA, 4)[0], name="stranger")
        for _ in range(EXPIRES_AFTER):
            added(assembly, *cut(b"x", 4))
        assert assembly.held == 4 + OVERHEAD
        added(assembly, *cut(b"x", 4))
        assert assembly.held == 0

    def test_the_cost_of_a_part_does_not_depend_on_how_many_are_held(self):
        looked = 0

        class Measured(bytes):
            def __len__(self):
                nonlocal looked
                looked += 1
                return super().__len__()

        assembly = PartAssembly(most_bytes=10**6)
        for number in range(40_000):
            assembly.add("c0", *part(number, 40_001, Measured(b"x")))
        assert 40_000 <= looked <= 5 * 40_000


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdefgh"),
            st.integers(0, 5),
            st.integers(1, 6),
            st.binary(max_size=90),
            st.binary(max_size=2),
        ),
        max_size=60,
    )
)
def test_parts_held_stay_within_their_budgets_and_are_counted_right_whatever_comes(told):
    assembly = PartAssembly(most_bytes=300, least=3, budget=800, strangers=700, allows="abcd".__contains__)
    for name, number, count, value, digest in told:
        with suppress(PeerError):
            assembly.add(name, *part(number, count, value, digest))
        for pool, budget in ((assembly._known, 800), (assembly._others, 700)):
            held = [len(value) + OVERHEAD for one in pool.under_way.values() for value in one.parts.values()]
            assert pool.held == sum(held) <= budget
