"""Runs a broker in the foreground, without Docker."""

import signal
import sys
from pathlib import Path

import click

from deploy.broker.jars import folder_of_jars
from deploy.broker.node import Broker
from streamfl.core.errors import UsageError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--port", type=click.IntRange(0, 65535), default=9092, show_default=True, help="0 draws a free one.")
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=".kafka",
    show_default=True,
    help="The folder for jars, data and log.",
)
@click.option("--fresh", is_flag=True, help="Delete the data first.")
def main(port: int, folder: Path, fresh: bool) -> None:
    """Run Apache Kafka on 127.0.0.1 until Ctrl-C. Its data stay for the next run."""
    # Both signals: a shell makes background processes ignore Ctrl-C.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    try:
        _run(port, folder, fresh=fresh)
    except KeyboardInterrupt:
        click.echo("Stopped.")
    except UsageError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)


def _run(port: int, folder: Path, *, fresh: bool) -> None:
    libs = folder / "libs"
    if not folder_of_jars(libs).is_dir():
        click.echo("Fetching Apache Kafka's jars, once ...", err=True)
    with Broker.start(folder, port, libs=libs, fresh=fresh) as broker:
        click.echo(f"Apache Kafka {broker.version} on {broker.bootstrap}; data in {broker.data}; stop with Ctrl-C")
        broker.wait()


if __name__ == "__main__":
    main()
