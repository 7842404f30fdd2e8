"""The mutations can be made, and what is written about them is about these."""

from pathlib import Path

import pytest

from mutations import copy, report
from mutations.table import MUTATIONS, Mutation
from mutations.text import changed, with_calls
from mutations.trials import instrumented

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_still_applies_and_is_python(mutation):
    mutated = changed((ROOT / mutation.file).read_text(), mutation)
    compile(mutated, mutation.file, "exec")
    assert mutated != (ROOT / mutation.file).read_text()


def test_mutations_have_names_of_their_own():
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) == 67
    assert len({mutation.digest for mutation in MUTATIONS}) == 67


def test_every_place_of_a_mutation_can_be_watched():
    for file, text in instrumented(ROOT).items():
        compile(text, file, "exec")
        assert text.count('__import__("tripped").at(') >= 1


def test_a_text_that_is_not_there_once_is_refused():
    mutation = Mutation("x is y", "a.py", "x", "y", "")
    assert changed("1 + x", mutation) == "1 + y"
    for source in ("x + x", "1"):
        with pytest.raises(ValueError, match="not once"):
            changed(source, mutation)


def test_a_call_comes_before_the_innermost_statement():
    source = """
def f(a):
    match a:
        case 1 if a > 0:
            return 2
    try:
        g()
    except E:
        h(
            3)
"""
    calls = {"case 1": "one()", "return": "two()", "3": "three()", "try": "four()"}
    assert with_calls(source, calls).splitlines() == [
        "",
        "def f(a):",
        "    one()",
        "    match a:",
        "        case 1 if a > 0:",
        "            two()",
        "            return 2",
        "    four()",
        "    try:",
        "        g()",
        "    except E:",
        "        three()",
        "        h(",
        "            3)",
    ]


def test_a_file_gets_its_text_back_also_after_a_kill(tmp_path):
    file = tmp_path / "streamfl" / "a.py"
    file.parent.mkdir()
    file.write_text("1")
    before = file.stat().st_mtime_ns
    with copy.written(file, "2"):
        assert (file.read_text(), file.stat().st_mtime_ns == before) == ("2", False)
    assert (file.read_text(), file.stat().st_mtime_ns) == ("1", before)
    with pytest.raises(FileNotFoundError), copy.written(file, "3"):
        copy.mend(tmp_path)  # as if this process had been killed; it finds nothing more to give back
    assert (file.read_text(), [*tmp_path.rglob("*.before")]) == ("1", [])


def test_what_is_kept_is_about_the_present_mutations():
    caught = report.read()
    assert report.PAGE.read_text() == report.page(caught)
    assert caught.keys() <= {mutation.name for mutation in MUTATIONS}
