"""`streamfl bench`: Master-FL and others on the same streams. Commands import what they need when they run."""

import math
import os
import sys
from pathlib import Path
from typing import Any

import click

from streamfl.core.errors import UsageError
from streamfl_benchmarks.regret_command import regret


@click.group()
def bench() -> None:
    """Compare methods on the same records."""


bench.add_command(regret)


@bench.command()
@click.option("--runs", type=click.IntRange(1), default=7, show_default=True, help="Interleaved pairs of runs.")
@click.option("--rounds", type=click.IntRange(2), default=60, show_default=True, help="Rounds of each.")
@click.option("--json", "json_to", type=click.Path(path_type=Path), metavar="F", help="Write the figures here too.")
def speed(runs: int, rounds: int, json_to: Path | None) -> None:
    """Time client-rounds beside the plainest NumPy loop that does the same scores and steps."""
    import json  # noqa: PLC0415
    from dataclasses import asdict  # noqa: PLC0415

    from streamfl_benchmarks.speed import speeds  # noqa: PLC0415

    _check_place(json_to)
    found = []
    for one in speeds(runs, rounds):
        click.echo(
            f"{one.profile}, {one.live} live: {one.ours:,.0f} client-rounds/s, plain NumPy {one.plain:,.0f},"
            f" ratio {one.ratio:.2f} [{one.least:.2f}, {one.largest:.2f}]; {one.peak_mb:.0f} MB above the data"
        )
        found.append(asdict(one))
    _write(json_to, json.dumps(found, indent=1) + "\n")


@bench.command()
@click.option(
    "--stream", "streams", metavar="NAME,...", default="covtype", show_default=True,
    help="covtype, mnist, mnist14, or a file as replay reads it.",
)  # fmt: skip
@click.option(
    "--drift", "drifts", metavar="KIND,...", default="class-swap", show_default=True,
    help="class-swap, class-introduction, permutation, rare-swap, gradual, recurring, local, none, or recorded: the"
    " file's records in their order.",
)  # fmt: skip
@click.option("--at", metavar="R,...", help="First rounds of new concepts; else the paper's, or what fits the kind.")
@click.option(
    "--condition", "conditions", metavar="NAME,...", default="plain", show_default=True,
    help="plain, skew, absent, exchange, sizes or class-mix.",
)  # fmt: skip
@click.option(
    "--method",
    "methods",
    metavar="NAME,...",
    required=True,
    help="Such as adaptive,paper,fedavg; a wrong one lists all.",
)
@click.option("--clients", type=click.IntRange(1), default=20, show_default=True, help="Clients at a time.")
@click.option("--round-size", type=click.IntRange(1), default=1000, show_default=True, help="Mean records a client.")
@click.option(
    "--rounds", type=click.IntRange(1), default=500, show_default=True, help="At most, of a recorded stream."
)
@click.option("--l2", type=click.FloatRange(0.0), help="Penalty of all methods; else the paper's, 0.0002.")
@click.option("--seeds", metavar="N,...", default="1", show_default=True, help="Each is a run of its own.")
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="DIR", help="Holds mnist.npz, and covtype.npz if wanted."
)
@click.option("--jobs", type=click.IntRange(1), help="Runs at a time; else one for each core.")
@click.option(
    "--json", "json_to", type=click.Path(path_type=Path), metavar="F", help="Keep runs here; those there are skipped."
)
@click.option("--markdown", type=click.Path(path_type=Path), metavar="F", help="Write the table here too.")
@click.option("--figure", type=click.Path(path_type=Path), metavar="F", help="Draw the loss over rounds (SVG).")
def drift(**options: Any) -> None:
    """Run methods x streams x seeds; all get the same records, drawn afresh in every round or as recorded."""
    from rich.console import Console  # noqa: PLC0415

    from streamfl_benchmarks.comparison import settings  # noqa: PLC0415
    from streamfl_benchmarks.drift import run_all  # noqa: PLC0415
    from streamfl_benchmarks.markdown import tables  # noqa: PLC0415
    from streamfl_benchmarks.results import Results  # noqa: PLC0415

    for place in (options["json_to"], options["markdown"], options["figure"]):
        _check_place(place)
    jobs = _plan(options).jobs()
    results = Results.read(options["json_to"])
    runs = run_all(
        jobs,
        results,
        Console(stderr=True),
        processes=options["jobs"] or os.cpu_count() or 1,
        losses=options["figure"] is not None,
    )
    compared = settings(runs)
    sys.stdout.write(tables(compared))
    _write(options["markdown"], tables(compared))
    if options["figure"] is not None:
        from streamfl_benchmarks.figure import figure  # noqa: PLC0415

        _write(options["figure"], figure(compared, results.losses))


def _plan(options: dict[str, Any]) -> Any:
    from streamfl_benchmarks.drift import Plan  # noqa: PLC0415
    from streamfl_benchmarks.run import PENALTY  # noqa: PLC0415

    l2 = PENALTY if options["l2"] is None else options["l2"]
    if not math.isfinite(l2):
        raise UsageError(f"--l2 {l2}: a penalty is a number; give 0 or more")
    return Plan(
        streams=_names("--stream", options["streams"]),
        drifts=_names("--drift", options["drifts"]),
        conditions=_names("--condition", options["conditions"]),
        methods=_names("--method", options["methods"]),
        seeds=tuple(dict.fromkeys(_numbers("--seeds", options["seeds"]))),
        at=None if options["at"] is None else _numbers("--at", options["at"]),
        clients=options["clients"],
        round_size=options["round_size"],
        rounds=options["rounds"],
        l2=l2,
        data=options["data"],
    )


def _names(flag: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UsageError(f"{flag}: it names nothing; give at least one name")
    return names


def _numbers(flag: str, text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{flag} {text}: not a list of whole numbers; write 1,2,3") from None
    if min(numbers) < 0:
        raise UsageError(f"{flag} {text}: a negative number; give 0 or more")
    return numbers


def _check_place(path: Path | None) -> None:
    """Refuse a place that cannot be written to before hours are spent on what is to be written there."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise UsageError(f"{path}: cannot be written there; name a file in a directory that exists")


def _write(path: Path | None, text: str) -> None:
    if path is None:
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
