"""Command lines of streamfl, parsed as the program does."""

from collections.abc import Sequence

import click

from streamfl.cli.main import cli


def parse(words: Sequence[str]) -> str:
    """Parse a command line without carrying it out; return its command, the innermost of a group."""
    command: click.Command = cli
    context, name, rest = click.Context(cli), "", list(words)
    while isinstance(command, click.Group):
        name, *rest = rest
        assert name in command.commands, words
        command = command.commands[name]
    with command.make_context(name, rest, parent=context):
        return name
