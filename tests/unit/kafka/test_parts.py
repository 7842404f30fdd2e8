"""Values in parts: in any order they come together again, and nothing else ever does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.core.errors import PeerError
from streamfl_connectors.kafka.parts import DIGEST, MOST_UNDER_WAY, PART, Assembly, cut

DATA, OTHER = b"abcdefgh", b"ABCDEFGHIJ"


def added(assembly, *parts, name="c0"):
    """Add parts, and return what came out of each."""
    return [assembly.add(name, part.headers, part.value) for part in parts]


def under_way(name="c0", count=2):
    """A part of a whole that is never completed."""
    return name, ((PART, f"0/{count}".encode()), (DIGEST, name.encode())), b""


@pytest.fixture
def assembly():
    return Assembly(most_bytes=1000)


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

    def test_a_whole_that_is_sent_again_comes_together_again(self, assembly):
        assert added(assembly, *cut(DATA, 4), *cut(DATA, 4)) == [None, DATA, None, DATA]

    def test_a_newer_whole_takes_the_place_of_an_older(self, assembly):
        first, second = cut(DATA, 4)
        new = cut(OTHER, 5)
        assert added(assembly, first, *new, second) == [None, None, OTHER, None]
        assert added(assembly, first) == [DATA]

    def test_parts_of_two_wholes_are_never_mixed(self, assembly):
        one, other = cut(DATA, 4), cut(DATA[:4] + b"EFGH", 4)
        assert added(assembly, one[0], other[1]) == [None, None]
        assert added(assembly, one[0], one[1]) == [None, DATA]

    def test_the_same_value_in_other_parts_is_another_whole(self, assembly):
        halves, thirds = cut(DATA, 4), cut(DATA, 3)
        assert added(assembly, halves[0], thirds[1], thirds[2]) == [None, None, None]
        assert added(assembly, thirds[0]) == [DATA]

    def test_every_name_has_its_own(self, assembly):
        one, other = cut(DATA, 4), cut(OTHER, 5)
        assert added(assembly, one[0], name="c0") + added(assembly, other[0], name="c1") == [None, None]
        assert added(assembly, one[1], name="c0") + added(assembly, other[1], name="c1") == [DATA, OTHER]

    def test_a_whole_that_is_too_large_is_refused_before_it_is_there_and_forgotten(self):
        assembly = Assembly(most_bytes=6)
        first, second, third = cut(DATA, 3)
        assert added(assembly, first, second) == [None, None]
        with pytest.raises(PeerError, match="'c0' sends more than 6 bytes"):
            added(assembly, third)
        assert added(assembly, first, *cut(b"abcdef", 3)) == [None, None, b"abcdef"]

    def test_what_is_not_what_its_digest_says_is_refused_and_forgotten(self, assembly):
        first, second = cut(DATA, 4)
        added(assembly, first)
        with pytest.raises(PeerError, match="not what its digest says"):
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

    def test_wholes_under_way_are_bounded_and_the_oldest_goes(self, assembly):
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
def test_what_was_cut_comes_together_however_the_parts_of_all_names_are_shuffled(values, data):
    parts = [(f"c{i}", part) for i, (value, size) in enumerate(values) for part in cut(value, size)]
    assembly, whole = Assembly(most_bytes=40), {}
    for name, part in data.draw(st.permutations(parts)):
        assert len(part.value) <= values[int(name[1:])][1]
        came = assembly.add(name, part.headers, part.value)
        if came is not None:
            assert name not in whole
            whole[name] = came
    assert whole == {f"c{i}": value for i, (value, _) in enumerate(values)}
