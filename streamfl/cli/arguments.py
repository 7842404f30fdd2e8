"""Options of several commands, and kinds of values that options have."""

from pathlib import Path

import click

from streamfl.bounds import MOST

# A file or folder that is written, and a file that is there already.
WRITTEN = click.Path(path_type=Path)
SAVED = click.Path(exists=True, dir_okay=False, path_type=Path)

among_clients = click.option(
    "--clients",
    type=click.IntRange(1, MOST),
    help="Number of clients. Default: 10, or the number of values with --split column:NAME.",
)
seeded = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all random draws."
)
