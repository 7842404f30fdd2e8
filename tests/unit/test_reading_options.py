"""Every command that reads a file of records takes every option that says how it is written."""

import click
import pytest

from streamfl.cli.main import cli

TABLE = {"--label", "--drop", "--separator", "--encoding", "--missing-values", "--decimal"}
TIMES = {"--time", "--timezone", "--date-order"}
READERS = {
    name: {opt for parameter in command.params for opt in parameter.opts}
    for name, command in cli.commands.items()
    if isinstance(command, click.Command) and any(one.name == "file" for one in command.params)
}


def test_these_commands_read_a_file():
    assert READERS.keys() >= {"replay", "predict", "init", "produce"}


@pytest.mark.parametrize("name", READERS)
def test_a_command_that_reads_a_file_has_all_options_of_reading(name):
    times = TIMES - {"--time"} if name == "predict" else TIMES  # a model knows which column holds its times
    assert (TABLE | times) - READERS[name] == set()


@pytest.mark.parametrize("name", sorted(READERS.keys() - {"replay"}))
def test_an_option_of_reading_has_the_same_help_everywhere(name):
    def helps(command):
        return {one.opts[0]: one.help for one in cli.commands[command].params if isinstance(one, click.Option)}

    of_replay, here = helps("replay"), helps(name)
    shared = ((TABLE - {"--label"}) | TIMES) & here.keys()
    assert {option: here[option] for option in shared} == {option: of_replay[option] for option in shared}
