"""Which tests run where: every test is in one shard, what is not reached is named, what a test needs is marked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from suites.shards import balanced, shard, shard_of_units
from suites.sharing import unit_of

pytest_plugins = ["pytester"]

SECONDS = st.dictionaries(st.text("abcdef", min_size=1), st.floats(0.0, 1e4), min_size=1)


@given(SECONDS, st.integers(1, 9))
def test_shards_differ_by_no_more_than_the_longest_unit(seconds: dict[str, float], parts: int) -> None:
    part_of = balanced(seconds, parts)
    assert part_of.keys() == seconds.keys()
    load = [sum(seconds[unit] for unit in seconds if part_of[unit] == part) for part in range(1, parts + 1)]
    assert sum(load) == pytest.approx(sum(seconds.values()))
    assert max(load) - min(load) <= max(seconds.values()) * (1.0 + 1e-9)


def test_three_units_in_two_shards_by_hand() -> None:
    assert balanced({"a": 5.0, "b": 3.0, "c": 1.5}, 2) == {"a": 1, "b": 2, "c": 2}


def test_the_order_in_which_tests_are_collected_changes_no_shard() -> None:
    tests = [f"tests/unit/test_{name}.py::test_{i}" for name in "abcde" for i in range(3)]
    assert shard_of_units(tests, 3) == shard_of_units(tests[::-1], 3)


def test_tests_of_a_file_stay_together_and_worlds_do_not() -> None:
    assert unit_of("tests/unit/test_a.py::test_x[1]") == unit_of("tests/unit/test_a.py::test_y")
    assert unit_of("tests/simulation/test_a.py::test_x[1]") != unit_of("tests/simulation/test_a.py::test_x[2]")


@pytest.mark.parametrize("text", ["0/8", "9/8", "3", "a/b", "-1/2", ""])
def test_a_shard_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        shard(text)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Return a project of other tests with these plugins."""
    pytester.makeini(
        "[pytest]\nmarkers =\n process: starts one\naddopts = -p suites.needs -p suites.limit -p suites.costs"
    )
    return pytester


def test_what_is_not_reached_in_time_is_named_and_is_no_failure(project: pytest.Pytester) -> None:
    project.makepyfile(test_a="def test_one(): raise AssertionError\ndef test_two(): raise AssertionError")
    ended = project.runpytest_inprocess("--minutes", "0")
    ended.assert_outcomes(skipped=2)
    ended.stdout.fnmatch_lines(["not reached in time: 2 of test_a.py"])
    assert ended.ret == 0


def test_a_process_that_a_test_starts_without_its_marker_fails_it(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_a="""
        import subprocess, sys
        import pytest

        def starts():
            subprocess.run([sys.executable, "-c", ""], check=True)

        def test_unmarked():
            starts()

        @pytest.mark.process
        def test_marked():
            starts()
        """
    )
    ended = project.runpytest_inprocess()
    ended.assert_outcomes(passed=1, failed=1)
    ended.stdout.fnmatch_lines(["*mark the test `process`*"])


def test_the_seconds_of_a_test_are_noted_with_those_of_the_processes_it_has_ended(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_a="""
        import subprocess, sys
        import pytest

        @pytest.mark.process
        def test_burns():
            subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)

        def test_does_nothing():
            pass
        """
    )
    project.runpytest_inprocess("--costs", "costs.jsonl")
    burns, nothing = (project.path / "costs.jsonl").read_text().splitlines()
    assert '"test": "test_a.py::test_burns"' in burns
    assert '"cpu": 0.0' in nothing
    assert '"cpu": 0.0' not in burns
