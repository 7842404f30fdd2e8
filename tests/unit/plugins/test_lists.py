"""Lists of names in pages and help are those of the registries."""

from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import pytest
from click.testing import CliRunner

from streamfl.cli.main import cli
from streamfl.cli.names import REGISTRIES, registry
from streamfl.protocol.messages import LOCAL_STATES
from streamfl.records.files.known import FILE_FORMATS
from streamfl.records.request import Request
from streamfl.records.values.dates import Order
from streamfl.run.dealing.imposed_drift import KINDS
from streamfl.run.report.words import LOCAL
from streamfl.run.settings import LearningSettings, PrivacySettings, ProfileSettings
from streamfl_connectors.kafka.access.rights import ROLES

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


def test_help_names_every_drift_that_can_be_imposed_and_every_role_of_a_log_in():
    assert all(kind in help_of("replay").replace("- ", "-") for kind in KINDS)
    assert all(role in help_of("acls") for role in ROLES)


def test_every_state_of_a_local_drift_has_words():
    assert {*LOCAL, "corrected"} == {*LOCAL_STATES, "restarted"}


def texts_in(kind: Any) -> set[str]:
    """Return the texts that a type allows."""
    return {kind} if isinstance(kind, str) else {text for one in get_args(kind) for text in texts_in(one)}


def test_an_option_with_choices_takes_those_of_its_setting():
    settings: dict[str, Any] = {"date_order": Order} | {
        name: kind
        for table in (LearningSettings, PrivacySettings, ProfileSettings, Request)
        for name, kind in get_type_hints(table).items()
    }
    options = [one for one in cli.commands["replay"].params if isinstance(one.type, click.Choice)]
    told = {one.name: set(one.type.choices) for one in options}
    assert len(told) > 8
    assert told == {name: texts_in(settings[name]) for name in told}
