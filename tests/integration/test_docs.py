"""What the documentation shows is what happens: its site, its links, its commands and its walk-throughs."""

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_lines import parse

from streamfl.protocol.messages import RoundClosed, RoundOpened
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.wire.messages import encode

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
BLOCK = re.compile(r"^```([a-z]*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, *kinds: str) -> list[tuple[str, str]]:
    """Return the blocks of a page that are of these kinds, in order."""
    return [(kind, text) for kind, text in BLOCK.findall(TEXTS[page]) if kind in kinds]


# --- a script that reads what coordinators write --------------------------------------------------------------------


def test_the_script_on_the_ledger_finds_each_record_once_and_an_entry_that_is_missing_or_twice(monkeypatch, capsys):
    rng = np.random.default_rng(1)
    X, entries = rng.normal(size=(190, 2)), list[str]()
    table = Table("t", ("a", "b"), X, (X[:, 0] > 0.0).astype(float), ("no", "yes"), np.arange(190))

    def observe(event: object) -> None:
        if isinstance(event, RoundClosed | RoundOpened):
            entries.append(encode(event).decode())

    settings = ReplaySettings(round_size=20, learning=LearningSettings(features="rounds"))
    Replay(table, deal(table, 2, "round-robin", 0), settings, observe=observe).run()
    closed = [i for i, line in enumerate(entries) if line.startswith('{"type":"round-closed"')]
    script = next(text for _, text in blocks("docs/topics.md", "python") if "round-closed" in text)

    def told(lines: list[str]) -> list[str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        exec(compile(script, "ledger.py", "exec"), {})
        return capsys.readouterr().out.splitlines()

    whole = [f"c{i} 95 records accepted 0 rejected; up to {{'c{i}': 95}}" for i in range(2)]
    assert told(entries) == whole
    assert (
        told([*entries[: closed[1]], *entries[closed[1] + 1 :]])[0] == "c0 c0 expected 20 but the entry begins at 40"
    )
    assert told([*entries, entries[closed[-1]]])[1] == "c1 c1 expected 95 but the entry begins at 80"


# --- the site -------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    site, docs = tmp_path / "site", ROOT / "docs"
    built = {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")} - {Path("404")}
    assert built == {page.relative_to(docs).with_suffix("") for page in docs.rglob("*.md")}
    reference = (site / "api.html").read_text()
    assert "drift_detected" in reference
    assert "check_profile" in reference


# --- links of the pages that are no part of the site, and into it ---------------------------------------------------

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """Return the anchors of a page, as the repository and the site make them from its headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(BLOCK, "", text), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


def wrong_links(page: str) -> list[str]:
    """Return the links of a page that lead nowhere."""
    wrong = []
    for target in LINK.findall(re.sub(BLOCK, "", TEXTS[page])):
        path, _, anchor = target.partition("#")
        if target.startswith(("http://", "https://")):
            continue
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file.read_text())):
            wrong.append(target)
    return wrong


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_of_the_documentation_leads_somewhere(page: str) -> None:
    assert wrong_links(page) == []


def test_the_test_of_links_finds_the_links_of_the_documentation() -> None:
    assert sum(len(LINK.findall(text)) for text in TEXTS.values()) > 200


# --- commands -------------------------------------------------------------------------------------------------------

COMMAND = re.compile(r"^\s*(?:\(as \w+; )?streamfl +([a-z][^#\n]*)", re.MULTILINE)
FILES = (".csv", ".toml", ".safetensors", ".json", ".key", ".npz", ".properties")


def commands() -> list[str]:
    """Return every command line of streamfl in the blocks of all pages, without what follows it in the shell."""
    texts = [text for page in TEXTS for _, text in blocks(page, "", "sh")]
    lines = {re.split(r" [>|&]|\)$|\) &", line)[0].strip() for text in texts for line in COMMAND.findall(text)}
    return sorted(lines)


@pytest.mark.parametrize("line", commands())
def test_every_command_that_the_documentation_shows_can_be_parsed(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word.replace("$ADMIN", "admin.properties") for word in shlex.split(line)]
    for word in [*words, "F", "FILE"]:
        if word.endswith(FILES) or word in {"F", "FILE"}:
            (tmp_path / word.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / word.lstrip("/")).touch()
    assert parse(words) in words


def test_the_test_of_commands_finds_the_commands_of_the_documentation() -> None:
    assert len(commands()) > 40
    assert {line.split()[0] for line in commands()} > {"replay", "rollback", "coordinator", "predict", "init"}


# --- walk-throughs --------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.process
@pytest.mark.compiles
def test_ten_minutes_with_a_csv_go_as_they_are_written(tmp_path: Path) -> None:
    path = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "400"}
    told = ""
    for kind, text in blocks("docs/csv.md", "python", "sh", "text"):
        if kind == "text":
            for line in text.splitlines():
                assert line in told, line
            continue
        command = [sys.executable, "-c", text] if kind == "python" else ["sh", "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=path, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        told = done.stdout + done.stderr
    assert {"plant.csv", "report.html", "result.json", "model.safetensors", "predictions.csv"} == {
        file.name for file in tmp_path.iterdir()
    }


@pytest.mark.compiles
def test_examples_in_river_run_and_give_the_accuracy_that_they_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shared: dict[str, object] = {}
    for _, text in blocks("docs/river.md", "python")[:2]:
        shown = re.findall(r"^(evaluate.*)  # (Accuracy: .*)$", text, re.MULTILINE)
        for call, accuracy in shown:
            text = text.replace(f"{call}  # {accuracy}", f"result = {call}")  # noqa: PLW2901
        exec(text, shared)  # the page's own code
        assert [str(shared["result"])] == [accuracy for _, accuracy in shown]
