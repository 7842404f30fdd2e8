"""Every constant of the method says where docs/choices.md explains it, and that is there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHOICES = (ROOT / "docs" / "choices.md").read_text()
HEADINGS = {line.lstrip("#").strip() for line in CHOICES.splitlines() if line.startswith("#")}
REFERENCE = re.compile(r'docs/choices\.md, ((?:"[^"]+"(?:, )?)+)')


def constants(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names of numbers of a module, each with the comment before it."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign) or not re.match(r"[A-Z][A-Z_0-9]*\b", lines[node.lineno - 1]):
            continue
        if any(
            isinstance(part, ast.Constant) and isinstance(part.value, int | float) for part in ast.walk(node.value)
        ):
            start = node.lineno - 1
            while start and lines[start - 1]:
                start -= 1
            yield ast.unparse(node.targets[0]), " ".join(line.lstrip("# ") for line in lines[start : node.lineno])


LEARNING = ROOT / "streamfl" / "learning"
FILES = sorted(path for path in LEARNING.rglob("*.py") if path.parent.name != "pooling")
FOUND = {f"{path.stem}.{name}": told for path in FILES for name, told in constants(path.read_text())}
REFERRED = [
    (path.name, heading)
    for path in (ROOT / "streamfl").rglob("*.py")
    for reference in REFERENCE.findall(re.sub(r"\n\s*#?\s*", " ", path.read_text()))
    for heading in re.findall(r'"([^"]+)"', reference)
]


@pytest.mark.parametrize("name", FOUND)
def test_a_constant_of_the_method_names_its_place(name: str) -> None:
    assert REFERENCE.search(FOUND[name]), f'{name}: add a comment such as docs/choices.md, "Excess"'


@pytest.mark.parametrize(("file", "heading"), sorted(set(REFERRED)))
def test_the_heading_of_choices_that_a_constant_names_exists(file: str, heading: str) -> None:
    assert heading in HEADINGS


def test_the_test_of_choices_finds_constants_and_headings() -> None:
    assert {"excess.(MARGIN, LEAST_VARIANCE, BORROWED)", "choice.SURE", "second_moments.RIDGE"} <= FOUND.keys()
    assert ("ladder.py", "The ladder") in REFERRED
    assert len(FOUND) > 30
    text = '# Of something.\nLEAST = 3\n\n# docs/choices.md, "Excess".\nMOST, NONE = 4, 0\n\nNAME = "a"\n'
    told = dict(constants(text))
    assert list(told) == ["LEAST", "(MOST, NONE)"]
    assert [bool(REFERENCE.search(line)) for line in told.values()] == [False, True]
