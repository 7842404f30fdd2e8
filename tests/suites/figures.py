"""How large and how tidy the code is: `python tests/suites/figures.py` prints it, `--check` fails at what may not be.

What may not be: a folder whose own files have too many lines, a function that is too long, two classes of one name
without a reason, too many loose files at the top.
"""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT, TESTS = ("streamfl", "connectors"), ("tests",)

FOLDER, FUNCTION, LOOSE = 2500, 50, 8  # lines, lines without the docstring, files

# Classes that may have one name, each with the reason.
SHARED = {"Phase": "each of the two machines has its phases, which docs and logs name so"}


@dataclass(frozen=True)
class Figures:
    """The figures of a checkout; places are relative to it.

    Parameters
    ----------
    product, tests
        Lines of Python, of the package with its connectors and of the tests.
    folders
        The lines of each folder's own files, where they are too many.
    functions
        The lines of each function that is too long, without its docstring.
    classes
        The files of each name of several classes for which there is no reason.
    loose
        The files at the top of the package.
    """

    product: int
    tests: int
    folders: dict[str, int]
    functions: dict[str, int]
    classes: dict[str, list[str]]
    loose: list[str]

    @classmethod
    def of(cls, root: Path) -> "Figures":
        """Return the figures of a checkout."""
        product, tests = _files(root, PRODUCT), _files(root, TESTS)
        folders: Counter[str] = Counter()
        functions: dict[str, int] = {}
        classes: dict[str, list[str]] = defaultdict(list)
        for path in product:
            text, place = path.read_text(), path.relative_to(root)
            folders[str(place.parent)] += _lines(path)
            for node in ast.walk(tree := ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    functions[f"{place} {node.name}"] = _length(node)
            for name in [node.name for node in tree.body if isinstance(node, ast.ClassDef)]:
                classes[name].append(str(place))
        return cls(
            product=sum(map(_lines, product)),
            tests=sum(map(_lines, tests)),
            folders={folder: lines for folder, lines in sorted(folders.items()) if lines > FOLDER},
            functions={f: lines for f, lines in sorted(functions.items()) if lines > FUNCTION},
            classes={
                name: places for name, places in sorted(classes.items()) if len(places) > 1 and name not in SHARED
            },
            loose=sorted(path.name for path in (root / PRODUCT[0]).glob("*.py")),
        )

    def wrong(self) -> list[str]:
        """Return what may not be, a line each."""
        return [
            *(f"{folder}: {lines} lines in its own files, of {FOLDER}" for folder, lines in self.folders.items()),
            *(f"{name}: {lines} lines, of {FUNCTION}" for name, lines in self.functions.items()),
            *(f"class {name}: in {' and '.join(places)}" for name, places in self.classes.items()),
            *([f"{len(self.loose)} loose files in {PRODUCT[0]}, of {LOOSE}"] if len(self.loose) > LOOSE else []),
        ]

    def told(self) -> Iterator[str]:
        """Yield all figures, a line each."""
        yield f"product {self.product:,} lines, tests {self.tests:,}"
        yield f"folders above {FOLDER:,} lines of their own files: {len(self.folders)}"
        yield f"functions above {FUNCTION} lines: {len(self.functions)}"
        yield f"names of several classes without a reason: {len(self.classes)}"
        yield f"loose files at the top: {len(self.loose)}"
        yield from self.wrong()


def _files(root: Path, folders: tuple[str, ...]) -> list[Path]:
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without its docstring and its decorators."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is None:
        return lines
    return lines - ((first.end_lineno or first.lineno) - first.lineno + 1)


if __name__ == "__main__":
    figures = Figures.of(ROOT)
    wrong = figures.wrong()
    sys.stdout.write("".join(f"{line}\n" for line in (wrong if "--check" in sys.argv else figures.told())))
    sys.exit(bool(wrong) and "--check" in sys.argv)
