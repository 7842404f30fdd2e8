"""The figures of a checkout say what is too large, and what has the name of something else."""

from pathlib import Path

from suites.figures import FOLDER, FUNCTION, LOOSE, ROOT, SHARED, Figures


def checkout(tmp_path: Path, **files: str) -> Figures:
    """Return the figures of a checkout with these files, `a__b` for a/b."""
    for name, text in {"streamfl____init__": "", "connectors__x": "", "tests__t": "a = 1\n", **files}.items():
        path = tmp_path / f"{name.replace('__', '/', 1)}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Figures.of(tmp_path)


def test_a_small_checkout_has_nothing_wrong(tmp_path: Path):
    figures = checkout(tmp_path, streamfl__a="class A:\n    pass\n")
    assert (figures.product, figures.tests, figures.wrong()) == (2, 1, [])


def test_a_folder_with_too_many_lines_of_its_own_is_named(tmp_path: Path):
    half = (FOLDER // 2) * "a = 1\n"
    assert checkout(tmp_path, streamfl__a=half, streamfl__b=half).wrong() == []
    (wrong,) = checkout(tmp_path, streamfl__c="a = 1\n").wrong()
    assert wrong == f"streamfl: {FOLDER + 1} lines in its own files, of {FOLDER}"


def test_a_function_is_as_long_as_its_lines_without_the_docstring(tmp_path: Path):
    body = (FUNCTION - 1) * "    a = 1\n"
    assert checkout(tmp_path, streamfl__a=f'def f():\n    """One.\n\n    Two.\n    """\n{body}').wrong() == []
    (wrong,) = checkout(tmp_path, streamfl__a=f"def f():\n{body}    b = 1\n").wrong()
    assert wrong == f"streamfl/a.py f: {FUNCTION + 1} lines, of {FUNCTION}"


def test_two_classes_of_one_name_need_a_reason(tmp_path: Path):
    shared = next(iter(SHARED))
    one = f"class A:\n    pass\n\n\nclass {shared}:\n    pass\n"
    assert checkout(tmp_path, streamfl__a=one, connectors__b=one).wrong() == [
        "class A: in connectors/b.py and streamfl/a.py"
    ]


def test_loose_files_are_counted(tmp_path: Path):
    (wrong,) = checkout(tmp_path, **{f"streamfl__f{i}": "" for i in range(LOOSE)}).wrong()
    assert wrong == f"{LOOSE + 1} loose files in streamfl, of {LOOSE}"


def test_every_reason_is_for_a_name_that_occurs_twice():
    names = [line.split()[1].rstrip(":(") for line in _class_lines()]
    assert [name for name in SHARED if names.count(name) < 2] == []


def _class_lines() -> list[str]:
    files = [path for folder in ("streamfl", "connectors") for path in (ROOT / folder).rglob("*.py")]
    return [
        line.split("(")[0] for path in files for line in path.read_text().splitlines() if line.startswith("class ")
    ]
