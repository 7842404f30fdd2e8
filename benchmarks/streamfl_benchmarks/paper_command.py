"""`streamfl bench paper`."""

import os
from pathlib import Path
from typing import Any

import click

from streamfl_benchmarks.arguments import check_place, names, numbers, write


@click.command()
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory with mnist.npz: X of shape (70000, 784), pixels from 0 to 255, and y; no package has it. Also"
    " with covtype.npz, if it should not be the sample of 92,962 records that ships with streamfl.",
)
@click.option("--clients", type=click.IntRange(1), default=20, show_default=True, help="Number of clients.")
@click.option(
    "--round-size",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Mean records per client and round; the standard deviation is a fifth of it.",
)
@click.option("--rounds", type=click.IntRange(65), default=500, show_default=True, help="Number of rounds.")
@click.option("--seeds", metavar="N,...", default="1", show_default=True, help="Seeds; one run each.")
@click.option("--method", "methods", metavar="NAME,...", help="Only these methods of the table. Default: all.")
@click.option("--jobs", type=click.IntRange(1), help="Parallel runs. Default: one per core.")
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path),
    metavar="F",
    required=True,
    help="File of finished runs; those in it are skipped.",
)
@click.option("--markdown", type=click.Path(path_type=Path), metavar="F", help="Also write the table to this file.")
@click.option("--figure", type=click.Path(path_type=Path), metavar="F", help="Draw the losses over rounds (SVG).")
def paper(**options: Any) -> None:
    """Run the experiment of the paper, and show its table of accuracies next to ours."""
    from rich.console import Console  # noqa: PLC0415

    from streamfl_benchmarks.comparison import settings  # noqa: PLC0415
    from streamfl_benchmarks.drift import run_all  # noqa: PLC0415
    from streamfl_benchmarks.figure import figure  # noqa: PLC0415
    from streamfl_benchmarks.paper import DRAWN, METHODS, plan, table  # noqa: PLC0415
    from streamfl_benchmarks.results import Results  # noqa: PLC0415

    for place in (options["path"], options["markdown"], options["figure"]):
        check_place(place)
    chosen = METHODS if options["methods"] is None else names("--method", options["methods"])
    sizes = {name: options[name] for name in ("clients", "round_size", "rounds")}
    jobs = plan(options["data"], **sizes, seeds=numbers("--seeds", options["seeds"]), methods=chosen).jobs()
    results, console = Results.read(options["path"]), Console(stderr=True)
    drawn = [job for job in jobs if job.method in DRAWN] if options["figure"] is not None else []
    processes = options["jobs"] or os.cpu_count() or 1
    of_figure = run_all(drawn, results, console, processes=processes, losses=True)
    text = table(run_all(jobs, results, console, processes=processes)) + "\n"
    click.echo(text, nl=False)
    write(options["markdown"], text)
    write(options["figure"], figure(settings(of_figure), results.losses) if of_figure else None)
