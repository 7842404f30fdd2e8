"""`streamfl bench paper`."""

from pathlib import Path
from typing import Any

import click

from streamfl_benchmarks.arguments import check_places, names, numbers, processes, renew_option, run_options, write


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
@run_options("Draw the losses over rounds")
@renew_option
def paper(**options: Any) -> None:
    """Run the experiment of the paper, and show its table of accuracies next to ours."""
    from rich.console import Console  # noqa: PLC0415

    from streamfl_benchmarks.comparison import settings  # noqa: PLC0415
    from streamfl_benchmarks.drift import run_all  # noqa: PLC0415
    from streamfl_benchmarks.figure import figure  # noqa: PLC0415
    from streamfl_benchmarks.paper import DRAWN, METHODS, plan, table  # noqa: PLC0415
    from streamfl_benchmarks.results import Results  # noqa: PLC0415

    check_places(options[name] for name in ("json_to", "markdown", "figure"))
    chosen = METHODS if options["methods"] is None else names("--method", options["methods"])
    sizes = {name: options[name] for name in ("clients", "round_size", "rounds")}
    jobs = plan(options["data"], **sizes, seeds=numbers("--seeds", options["seeds"]), methods=chosen).jobs()
    results, console = Results.read(options["json_to"], renew=options["renew"]), Console(stderr=True)
    drawn = [job for job in jobs if job.method in DRAWN] if options["figure"] is not None else []
    at_once = processes(options["jobs"])
    of_figure = run_all(drawn, results, console, processes=at_once, losses=True)
    text = table(run_all(jobs, results, console, processes=at_once)) + "\n"
    click.echo(text, nl=False)
    write(options["markdown"], text)
    write(options["figure"], figure(settings(of_figure), results.losses) if of_figure else None)
