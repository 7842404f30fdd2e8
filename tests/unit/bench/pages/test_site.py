"""Pages beside their runs: what differs is found, and made again."""

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from streamfl.errors import UsageError
from streamfl_benchmarks.code import ROOT
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.pages.__main__ import main
from streamfl_benchmarks.pages.ages import ages
from streamfl_benchmarks.pages.made import Made
from streamfl_benchmarks.pages.site import Site
from streamfl_benchmarks.run_file import Kept, write

ORIGIN = Origin(command="made", machine="one", date="2026-01-02", version="0.1.0", code=("a.py",), digest="0" * 64)
TEMPLATE = """\
{% set all = runs("small") %}
{% macro row(method) %}
| {{ method }} | {{ all.where(method=method).mean("hit", 2) }} | {{ all.where(method=method).seeds }} |
{% endmacro %}
| method | hit | seeds |
| --- | --- | --- |
{{ row("a") }}
{{ row("b") }}
"""
PAGE = """\
# Results

<!-- results: small -->

| method | hit | seeds |
| --- | --- | --- |
| a | 0.75 | 2 |
| b | 0.25 | 1 |

<!-- end -->

*(runs not kept)*

| other |
| --- |
| 0.5 |
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    for folder in ("docs", "runs", "templates"):
        (tmp_path / folder).mkdir()
    hits = [("a", 1, 0.5), ("a", 2, 1.0), ("b", 1, 0.25)]
    write(tmp_path / "runs" / "small.json.gz", [Kept(ORIGIN, {"method": m, "seed": s, "hit": h}) for m, s, h in hits])
    (tmp_path / "templates" / "small.md.j2").write_text(TEMPLATE)
    (tmp_path / "README.md").write_text("# Nothing of runs\n\n| a |\n| --- |\n")
    (tmp_path / "docs" / "results.md").write_text(PAGE)
    return Site(tmp_path, Made(tmp_path / "runs", tmp_path / "templates"))


def changed(site: Site, old: str, new: str, page: str = "docs/results.md") -> list[str]:
    """Return the faults after a change of a page."""
    text = (site.root / page).read_text()
    assert text.count(old) == 1
    (site.root / page).write_text(text.replace(old, new))
    return list(site.faults())


def test_a_page_that_is_as_its_runs_has_no_fault_and_is_not_written(site: Site) -> None:
    assert list(site.faults()) == []
    assert site.make() == []


def test_a_figure_changed_by_hand_is_found_with_its_row_and_made_again(site: Site) -> None:
    assert changed(site, "| 0.75 | 2 |", "| 0.76 | 2 |") == [
        "docs/results.md:7: results small\n  the page: | a | 0.76 | 2 |\n  the runs: | a | 0.75 | 2 |"
    ]
    assert site.make() == ["docs/results.md"]
    assert (site.root / "docs" / "results.md").read_text() == PAGE


def test_a_row_too_many_or_missing_is_found(site: Site) -> None:
    (fault,) = changed(site, "| b | 0.25 | 1 |\n", "")
    assert "the page lacks:\n  the runs: | b | 0.25 | 1 |" in fault
    (fault,) = changed(site, "| a | 0.75 | 2 |\n", "| a | 0.75 | 2 |\n| b | 0.25 | 1 |\n| c | 1 | 1 |\n")
    assert "the page: | c | 1 | 1 |\n  the runs do not give it" in fault


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<!-- end -->", "", "line 3: results small do not end"),
        ("<!-- results: small -->", "", "ends nothing"),
        ("<!-- results: small -->", "<!-- results: small -->\n<!-- results: small -->", "begin before"),
        ("<!-- results: small -->", "<!-- results: smal -->", "no template smal.md.j2"),
        ("*(runs not kept)*", "", "docs/results.md:14: a table that no runs make: | other |"),
    ],
)
def test_a_marker_that_is_missing_or_unknown_is_found(site: Site, old: str, new: str, said: str) -> None:
    assert any(said in fault for fault in changed(site, old, new))


def test_nothing_is_written_if_one_page_cannot_be_made(site: Site) -> None:
    changed(site, "0.75", "0.76")
    changed(site, "# Nothing", "<!-- results: other -->\n\n<!-- end -->\n\n# Nothing", "README.md")
    with pytest.raises(UsageError, match=r"README\.md, results other: no template"):
        site.make()
    assert "0.76" in (site.root / "docs" / "results.md").read_text()


def test_the_page_of_more_results_says_which_tables_have_no_runs_too(site: Site) -> None:
    (site.root / "docs" / "more-results.md").write_text("| a |\n| --- |\n")
    (fault,) = site.faults()
    assert fault.startswith("docs/more-results.md:1: a table that no runs make: | a |")


def test_a_template_that_no_page_shows_is_found(site: Site) -> None:
    (site.root / "templates" / "unseen.md.j2").write_text("nothing")
    assert [fault.partition(";")[0] for fault in site.faults()] == ["results unseen: no page shows them"]


def test_a_template_that_asks_for_other_runs_than_there_are_is_found(site: Site) -> None:
    (site.root / "templates" / "small.md.j2").write_text(TEMPLATE.replace('row("b")', 'row("c")'))
    (fault,) = site.faults()
    assert "no run of small has method 'c'" in fault
    (site.root / "templates" / "small.md.j2").write_text(TEMPLATE.replace("small", "large"))
    (fault,) = Site(site.root, Made(site.root / "runs", site.root / "templates")).faults()
    assert "large.json.gz: cannot be read" in fault


def test_markers_and_tables_in_blocks_of_code_are_text(site: Site) -> None:
    assert changed(site, "# Results\n", "# Results\n\n```\n<!-- results: x -->\n| a |\n| --- |\n```\n") == []


def test_a_picture_is_made_and_compared_as_well(site: Site) -> None:
    (site.root / "templates" / "hits.svg.j2").write_text(
        '<svg>{{ runs("small").where(method="b").mean("hit", 1) }}</svg>'
    )
    assert list(site.faults()) == ["docs/hits.svg: not the picture that the runs make"]
    assert site.make() == ["docs/hits.svg"]
    assert (site.root / "docs" / "hits.svg").read_text() == "<svg>0.2</svg>\n"
    assert list(site.faults()) == []
    (site.root / "templates" / "hits.svg.j2").write_text("<svg>{{ hits }}</svg>")
    assert list(site.faults()) == ["docs/hits.svg: results hits: 'hits' is undefined"]


def test_runs_of_older_code_are_listed_and_are_no_fault(site: Site) -> None:
    now = Origin.now("regret")
    write(site.root / "runs" / "today.json.gz", [Kept(now, {"seed": 1})])
    assert list(ages(site.root / "runs")) == ["small: 3 runs of older code, 2026-01-02, version 0.1.0: made"]
    assert list(site.faults()) == []


# --- the command, on a copy of the pages ----------------------------------------------------------------------------


def check(root: Path) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["--check", "--root", str(root)])
    return done.exit_code, done.output


def test_the_pages_are_as_their_runs_and_the_command_fails_once_one_is_not(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(ROOT / "benchmarks" / "runs", tmp_path / "benchmarks" / "runs")
    shutil.copy(ROOT / "README.md", tmp_path)
    code, told = check(tmp_path)
    assert code == 0, told
    assert re.search(r"drift: [\d,]+ runs of (unknown|older) code", told)
    text = (tmp_path / "README.md").read_text()
    ours = re.search(r"\| \*\*adaptive\*\* \| \*\*0\.\d+", text)
    assert ours is not None
    (tmp_path / "README.md").write_text(text.replace(ours[0], f"{ours[0]}7"))
    code, told = check(tmp_path)
    assert code == 1
    assert f"the page: {ours[0]}7**" in told
    assert f"the runs: {ours[0]}**" in told
    assert "`make results` makes the pages from their runs again." in told
