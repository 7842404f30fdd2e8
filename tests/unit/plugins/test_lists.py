"""Lists of names in pages and help are those of the registries."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from streamfl.cli.main import cli
from streamfl.cli.names import REGISTRIES, registry
from streamfl.records.files.known import FILE_FORMATS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("page", ["README.md", "docs/csv.md"])
def test_pages_name_every_file_format(page: str):
    text = (ROOT / page).read_text()
    assert [name for name in FILE_FORMATS if f"`.{name}`" not in text] == []


def help_of(command: str) -> str:
    return " ".join(CliRunner().invoke(cli, [command, "--help"], terminal_width=100).output.split())


def test_help_names_what_is_registered():
    told = help_of("replay")
    for place in REGISTRIES.values():
        assert registry(place).listing() in told
    assert "{" not in told
    for command in ("replay", "init"):
        assert all(f".{name}" in help_of(command) for name in FILE_FORMATS)


def test_no_command_has_a_list_that_is_not_filled_in():
    for name, command in cli.commands.items():
        texts = [command.help or "", *(one.help or "" for one in command.params if isinstance(one, click.Option))]
        if any("{" in text for text in texts):
            assert "{" not in help_of(name)
