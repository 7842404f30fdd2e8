"""What commands print for people: one line each, in which no text of others can control the terminal."""

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO, cast

import click

from streamfl.printable import printable

if TYPE_CHECKING:  # to import it takes time, which --help does without
    from rich.console import Console


def terminal(*, errors: bool = False) -> "Console":
    """Return a console on standard output or standard error; a terminal of no columns counts as one of 80."""
    from rich.console import Console  # noqa: PLC0415

    columns = os.environ.get("COLUMNS", "")
    return Console(stderr=errors, width=80 if columns.isdecimal() and int(columns) == 0 else None)


def print_line(console: "Console", text: str, style: str = "") -> None:
    """Print a line. It is not wrapped: a line broken at 80 columns cannot be searched in a log."""
    from rich.text import Text  # noqa: PLC0415

    console.print(Text(printable(text), style=style), soft_wrap=True, highlight=False)


def echo_line(text: str, *, errors: bool = False) -> None:
    """Print a line without a console."""
    click.echo(printable(text), err=errors)


class _Screen(io.TextIOBase):
    """Standard output as a person sees it: what is written in one go is a line."""

    def write(self, text: str) -> int:
        """Write a line."""
        return sys.stdout.write(printable(text.removesuffix("\n")) + "\n")


def standard_output() -> TextIO:
    """Return where lines of data go, which a program gets as they are, and a person as they can be shown."""
    return cast(TextIO, _Screen()) if sys.stdout.isatty() else sys.stdout


def write_output(text: str) -> None:
    """Print text of several lines, which another program may read, as it is."""
    click.echo(text)
