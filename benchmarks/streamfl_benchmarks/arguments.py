"""Arguments of `streamfl bench`: what its commands share, lists, and places of files."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from streamfl.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])


def run_options(figure: str = "") -> Callable[[Command], Command]:
    """Return what adds the options of a command that makes runs: how many at a time, and its files.

    Parameters
    ----------
    figure
        What `--figure` draws; the command has no such option if it is empty.
    """
    file = click.Path(path_type=Path)
    options = [
        click.option("--jobs", type=click.IntRange(1), help="Parallel runs. Default: one per core."),
        click.option(
            "--json",
            "json_to",
            type=file,
            metavar="F",
            help="File of finished runs; those in it are skipped, also if a method has changed since.",
        ),
        click.option("--markdown", type=file, metavar="F", help="Also write the table to this file."),
    ]
    if figure:
        options.append(click.option("--figure", type=file, metavar="F", help=f"{figure} (SVG)."))

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


renew_option = click.option(
    "--renew",
    is_flag=True,
    help="Make those again that other code has made, with the constants that were the best of their grid.",
)


def processes(jobs: int | None) -> int:
    """Return how many runs are made at a time."""
    return jobs or os.cpu_count() or 1


def check_places(places: Iterable[Path | None]) -> None:
    """Check before a long run that its output files can be written."""
    for place in places:
        check_place(place)


def names(flag: str, text: str) -> tuple[str, ...]:
    """Return a list of names, each once.

    >>> names("--method", "paper, adaptive,paper")
    ('paper', 'adaptive')
    """
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not found:
        raise UsageError(f"{flag} is empty; give at least one name")
    return found


def numbers(flag: str, text: str) -> tuple[int, ...]:
    """Return a list of whole numbers, at least 0.

    >>> numbers("--seeds", "1,2,3")
    (1, 2, 3)
    """
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{flag} {text}: not a list of whole numbers; write 1,2,3") from None
    if min(found) < 0:
        raise UsageError(f"{flag} {text}: a negative number; give 0 or more")
    return found


def check_place(path: Path | None) -> None:
    """Check before a long run that its output file can be written."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise UsageError(f"{path}: cannot be written there; name a file in a directory that exists")


def write(path: Path | None, text: str | None) -> None:
    """Write a text, if there is one and a place for it."""
    if path is None or text is None:
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
