"""`streamfl bench`: streamfl and other methods on the same streams. Commands import dependencies when they run."""

import math
import sys
from pathlib import Path
from typing import Any

import click

from streamfl.errors import UsageError
from streamfl_benchmarks.arguments import (
    check_place,
    check_places,
    names,
    numbers,
    processes,
    renew_option,
    run_options,
    write,
)
from streamfl_benchmarks.paper_command import paper
from streamfl_benchmarks.regret_command import regret


@click.group()
def bench() -> None:
    """Compare methods on the same records."""


bench.add_command(regret)
bench.add_command(paper)


@bench.command()
@click.option(
    "--runs", type=click.IntRange(1), default=7, show_default=True, help="Number of interleaved pairs of runs."
)
@click.option("--rounds", type=click.IntRange(2), default=60, show_default=True, help="Rounds per run.")
@click.option(
    "--json", "json_to", type=click.Path(path_type=Path), metavar="F", help="Also write the figures to this file."
)
def speed(runs: int, rounds: int, json_to: Path | None) -> None:
    """Measure client-rounds per second, next to a plain NumPy loop with the same scores and steps."""
    import json  # noqa: PLC0415
    from dataclasses import asdict  # noqa: PLC0415

    from streamfl_benchmarks.speed import speeds  # noqa: PLC0415

    check_place(json_to)
    measured = []
    for one in speeds(runs, rounds):
        click.echo(
            f"{one.profile}, {one.live} live: {one.ours:,.0f} client-rounds/s, plain NumPy {one.plain:,.0f},"
            f" ratio {one.ratio:.2f} [{one.least:.2f}, {one.largest:.2f}]; {one.peak_mb:.0f} MB above the data"
        )
        measured.append(asdict(one))
    write(json_to, json.dumps(measured, indent=1) + "\n")


@bench.command()
@click.option(
    "--stream", "streams", metavar="NAME,...", default="covtype", show_default=True,
    help="covtype, mnist, mnist14, or a file as replay reads it.",
)  # fmt: skip
@click.option(
    "--drift", "drifts", metavar="KIND,...", default="class-swap", show_default=True,
    help="class-swap, class-introduction, permutation, rare-swap, gradual, recurring, local, none, or recorded: the"
    " records of the file in order, without an imposed drift.",
)  # fmt: skip
@click.option(
    "--at",
    metavar="R,...",
    help="First rounds of new concepts. Default: those of the paper, or of the kind of drift.",
)
@click.option(
    "--condition", "conditions", metavar="NAME,...", default="plain", show_default=True,
    help="plain, skew, absent, exchange, sizes or class-mix.",
)  # fmt: skip
@click.option(
    "--method",
    "methods",
    metavar="NAME,...",
    required=True,
    help="Methods, such as adaptive,paper,fedavg; an unknown name lists all.",
)
@click.option("--clients", type=click.IntRange(1), default=20, show_default=True, help="Number of clients at a time.")
@click.option(
    "--round-size", type=click.IntRange(1), default=1000, show_default=True, help="Mean records per client and round."
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=500,
    show_default=True,
    help="Number of rounds; the most of a recorded stream.",
)
@click.option(
    "--l2",
    type=click.FloatRange(0.0),
    help="Weight of the L2 penalty, for all methods. Default: that of the paper, 0.0002.",
)
@click.option("--seeds", metavar="N,...", default="1", show_default=True, help="Seeds; one run each.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory with mnist.npz, and optionally covtype.npz.",
)
@run_options("Draw the loss over rounds")
@renew_option
def drift(**options: Any) -> None:
    """Run methods x streams x seeds on the same records, drawn afresh in every round or as recorded."""
    from rich.console import Console  # noqa: PLC0415

    from streamfl_benchmarks.comparison import settings  # noqa: PLC0415
    from streamfl_benchmarks.drift import run_all  # noqa: PLC0415
    from streamfl_benchmarks.markdown import tables  # noqa: PLC0415
    from streamfl_benchmarks.results import Results  # noqa: PLC0415

    check_places(options[name] for name in ("json_to", "markdown", "figure"))
    jobs = _plan(options).jobs()
    results = Results.read(options["json_to"], renew=options["renew"])
    runs = run_all(
        jobs,
        results,
        Console(stderr=True),
        processes=processes(options["jobs"]),
        losses=options["figure"] is not None,
    )
    compared = settings(runs)
    sys.stdout.write(tables(compared))
    write(options["markdown"], tables(compared))
    if options["figure"] is not None:
        from streamfl_benchmarks.figure import figure  # noqa: PLC0415

        write(options["figure"], figure(compared, results.losses))


@bench.command()
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory with more federations, as files .npz: see streamfl_benchmarks/natural/sources.py.",
)
@click.option("--only", metavar="NAME,...", help="Federations; an unknown name lists all. Default: all at hand.")
@click.option(
    "--records",
    default="8000",
    show_default=True,
    metavar="N|all",
    help="Take the first N records of those that packages bring; files are used whole.",
)
@click.option("--seeds", metavar="N,...", default="0", show_default=True, help="Seeds; one run each.")
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path),
    metavar="F",
    required=True,
    help="File of finished runs; those in it are skipped.",
)
@click.option("--renew", is_flag=True, help="Make those again that other code has made.")
def federations(data: Path | None, only: str | None, records: str, seeds: str, path: Path, *, renew: bool) -> None:
    """Run federations whose clients are real: federated, each client alone, in one place, and peers."""
    from streamfl_benchmarks.natural.runs import ALL, make  # noqa: PLC0415
    from streamfl_benchmarks.natural.sources import sources  # noqa: PLC0415

    check_place(path)
    known = sources(data)
    chosen = names("--only", only) if only else tuple(known)
    for name in chosen:
        if name not in known:
            raise UsageError(f"--only {name}: there is no such federation; there are: {', '.join(known)}")
    first, of_packages = None if records == ALL else max(numbers("--records", records)), sources(None)
    for name in chosen:
        taken = first if name in of_packages else None
        for line in make([known[name]], numbers("--seeds", seeds), taken, path, renew=renew):
            click.echo(line)


def _plan(options: dict[str, Any]) -> Any:
    from streamfl_benchmarks.drift import Plan  # noqa: PLC0415
    from streamfl_benchmarks.run import PENALTY  # noqa: PLC0415

    l2 = PENALTY if options["l2"] is None else options["l2"]
    if not math.isfinite(l2):
        raise UsageError(f"--l2 {l2}: a penalty is a number; give 0 or more")
    return Plan(
        streams=names("--stream", options["streams"]),
        drifts=names("--drift", options["drifts"]),
        conditions=names("--condition", options["conditions"]),
        methods=names("--method", options["methods"]),
        seeds=tuple(dict.fromkeys(numbers("--seeds", options["seeds"]))),
        at=None if options["at"] is None else numbers("--at", options["at"]),
        clients=options["clients"],
        round_size=options["round_size"],
        rounds=options["rounds"],
        l2=l2,
        data=options["data"],
    )
