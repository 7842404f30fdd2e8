"""The pages of a repository next to their runs: where they differ, and how they are made again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path

from streamfl.errors import UsageError
from streamfl_benchmarks.pages.made import Made
from streamfl_benchmarks.pages.markers import NOT_KEPT, filled, sections, without_runs

# Pages in which every table is made from runs, or says that these are not kept.
OF_RESULTS = frozenset({"docs/results.md", "docs/more-results.md"})


@dataclass(frozen=True, slots=True)
class Site:
    """The pages of a repository, and what makes their figures.

    Parameters
    ----------
    root
        The folder of the repository.
    made
        What the templates make.
    """

    root: Path
    made: Made

    @property
    def pages(self) -> list[Path]:
        """Return the pages that may show results."""
        return [self.root / "README.md", *sorted((self.root / "docs").rglob("*.md"))]

    def name(self, page: Path) -> str:
        """Return how a page is called in messages."""
        return page.relative_to(self.root).as_posix()

    def faults(self) -> Iterator[str]:
        """Yield every difference between pages and runs, and every table without a source."""
        shown: set[str] = set()
        for page in self.pages:
            lines = page.read_text(encoding="utf-8").split("\n")
            try:
                shown |= {section.name for section in sections(lines)}
                yield from self._of_page(self.name(page), lines)
            except UsageError as error:
                yield f"{self.name(page)}, {error}"
        for name in self.made.names(".md.j2"):
            if name not in shown:
                yield f"results {name}: no page shows them; add <!-- results: {name} --> and <!-- end --> to one"
        yield from self._pictures()

    def _of_page(self, page: str, lines: list[str]) -> Iterator[str]:
        for section in sections(lines):
            try:
                made = ["", *self.made.text(section.name).split("\n"), ""]
            except UsageError as error:
                yield f"{page}:{section.first}: {error}"
                continue
            own = lines[section.first : section.after]
            yield from (
                f"{page}:{section.first + at + 1}: results {section.name}\n{told}" for at, told in unlike(own, made)
            )
        if page in OF_RESULTS:
            for i in without_runs(lines):
                yield (
                    f"{page}:{i + 1}: a table that no runs make: {lines[i]}\n  Mark it with <!-- results: NAME -->"
                    f" (CONTRIBUTING.md), or write {NOT_KEPT} on a line above it"
                )

    def _pictures(self) -> Iterator[str]:
        for name in self.made.names(".svg.j2"):
            place = self.root / "docs" / f"{name}.svg"
            try:
                made = self.made.text(name, ".svg.j2") + "\n"
            except UsageError as error:
                yield f"{self.name(place)}: {error}"
                continue
            if not place.exists() or place.read_text(encoding="utf-8") != made:
                yield f"{self.name(place)}: not the picture that the runs make"

    def make(self) -> list[str]:
        """Make all results again, and return the names of the pages and pictures that have changed.

        Raises
        ------
        UsageError
            If one of them cannot be made; then none is written.
        """
        wanted = {}
        for page in self.pages:
            try:
                wanted[page] = filled(page.read_text(encoding="utf-8"), self.made.text)
            except UsageError as error:
                raise UsageError(f"{self.name(page)}, {error}") from error
        for name in self.made.names(".svg.j2"):
            wanted[self.root / "docs" / f"{name}.svg"] = self.made.text(name, ".svg.j2") + "\n"
        changed = [p for p, text in wanted.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
        for place in changed:
            place.write_text(wanted[place], encoding="utf-8")
        return [self.name(place) for place in changed]


def unlike(own: Sequence[str], made: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield where a line of a page differs from what the runs make, and both.

    >>> list(unlike(["| a | 0.7 |", "| b | 0.6 |"], ["| a | 0.7 |", "| b | 0.5 |"]))
    [(1, '  the page: | b | 0.6 |\\n  the runs: | b | 0.5 |')]
    """
    for kind, a, b, c, d in SequenceMatcher(None, own, made, autojunk=False).get_opcodes():
        if kind != "equal":
            pairs = zip_longest(own[a:b], made[c:d])
            yield from ((min(a + i, b), "\n".join(_told(*pair))) for i, pair in enumerate(pairs))


def _told(page: str | None, runs: str | None) -> Iterator[str]:
    yield f"  the page: {page}" if page is not None else "  the page lacks:"
    yield f"  the runs: {runs}" if runs is not None else "  the runs do not give it"
