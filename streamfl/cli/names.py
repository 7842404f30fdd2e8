"""Commands whose help names what is registered: what other packages add as well."""

from importlib import import_module
from typing import Any

import click

# What stands for the names of a registry in a help text, and where that registry is.
REGISTRIES = {
    "{models}": "streamfl.plugins.models:MODELS",
    "{algorithms}": "streamfl.plugins.algorithms:ALGORITHMS",
    "{detectors}": "streamfl.plugins.detectors:DETECTORS",
    "{profiles}": "streamfl.plugins.profiles:PROFILES",
    "{mirrors}": "streamfl.learning.algorithms.mirror_maps:MIRROR_MAPS",
    "{aggregations}": "streamfl.machines.coordinator.aggregators:AGGREGATORS",
}
ENDINGS = "{endings}"


def filled(text: str) -> str:
    """Return a help text with the names of registries in place of what stands for them.

    >>> filled("An algorithm: {algorithms}.")
    'An algorithm: fedavg... or ...'
    """
    for mark, place in REGISTRIES.items():
        if mark in text:
            text = text.replace(mark, registry(place).listing())
    if ENDINGS in text:
        from streamfl.records.files.known import endings  # noqa: PLC0415  it is slow, and only help needs it

        text = text.replace(ENDINGS, endings())
    return text


def registry(place: str) -> Any:
    """Return the registry at a place `module:NAME`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class NamingCommand(click.Command):
    """A command with such a help, which still takes old names of its options.

    Registries are imported only when the help is asked for.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; a warning names the new name of an option."""
        from streamfl.run.renamed import arguments_now  # noqa: PLC0415

        return super().parse_args(ctx, arguments_now(args, [name for one in self.params for name in one.opts]))

    def get_help(self, ctx: click.Context) -> str:
        """Return the help."""
        self.help = filled(self.help or "")
        for parameter in self.params:
            if isinstance(parameter, click.Option) and parameter.help:
                parameter.help = filled(parameter.help)
        return super().get_help(ctx)
