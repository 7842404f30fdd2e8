"""`streamfl bench regret`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamfl.errors import UsageError

if TYPE_CHECKING:
    from streamfl_benchmarks.regret import Measured


Name = TypeVar("Name", bound=str)


@click.command()
@click.option(
    "--stream",
    "streams",
    metavar="NAME,...",
    default="abrupt,moving",
    show_default=True,
    help="Streams: abrupt, moving, still.",
)
@click.option("--method", "methods", metavar="NAME,...", help="Methods, such as adaptive,fedavg. Default: all.")
@click.option(
    "--from", "first", type=click.IntRange(4), default=7, show_default=True, help="The smallest T is 2 to this power."
)
@click.option(
    "--to", "last", type=click.IntRange(5), default=14, show_default=True, help="The largest T is 2 to this power."
)
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True, help="Number of seeds.")
@click.option("--jobs", type=click.IntRange(1), help="Parallel runs. Default: one per core.")
@click.option(
    "--json", "json_to", type=click.Path(path_type=Path), metavar="F",
    help="File of finished runs; those in it are skipped. Use a new file when a method has changed.",
)  # fmt: skip
@click.option("--markdown", type=click.Path(path_type=Path), metavar="F", help="Also write the tables to this file.")
@click.option("--figure", type=click.Path(path_type=Path), metavar="F", help="Draw regret over T (SVG).")
def regret(**options: Any) -> None:
    """Measure dynamic regret with exact losses over T = 2^7 .. 2^14, next to its theoretical bounds.

    The abrupt stream has L = T^0.4 segments, each with its own loss; the moving one changes in every round, by T^0.4
    in total; the still one never changes. Only FedAvg with step 1/sqrt(T), the oracle and paper know T. The constant
    step is the best of six in hindsight. Violated bounds are marked.
    """
    from streamfl_benchmarks.regret import grid, measure_all  # noqa: PLC0415
    from streamfl_benchmarks.regret_figure import figure  # noqa: PLC0415
    from streamfl_benchmarks.regret_players import METHODS  # noqa: PLC0415
    from streamfl_benchmarks.regret_slopes import curves  # noqa: PLC0415
    from streamfl_benchmarks.regret_streams import STREAMS  # noqa: PLC0415
    from streamfl_benchmarks.regret_table import tables  # noqa: PLC0415

    if options["last"] <= options["first"]:
        raise UsageError(f"--to {options['last']}: a slope needs two horizons; give more than --from")
    for place in ("json_to", "markdown", "figure"):
        _check(options[place])
    cases = grid(
        range(options["first"], options["last"] + 1),
        range(options["seeds"]),
        _chosen("--method", options["methods"], METHODS),
        _chosen("--stream", options["streams"], STREAMS),
    )
    measured = measure_all(cases, options["json_to"], jobs=options["jobs"] or os.cpu_count() or 1, report=_report)
    found = curves(measured)
    sys.stdout.write(tables(found))
    if options["markdown"] is not None:
        options["markdown"].write_text(tables(found), encoding="utf-8")
    if options["figure"] is not None:
        options["figure"].write_text(figure(found), encoding="utf-8")


def _chosen(flag: str, text: str | None, known: tuple[Name, ...]) -> list[Name]:
    if text is None:
        return list(known)
    wanted = [name.strip() for name in text.split(",")]
    for name in wanted:
        if name not in known:
            raise UsageError(f"{flag} {name}: unknown; take some of {', '.join(known)}")
    return [name for name in known if name in wanted]


def _check(place: Path | None) -> None:
    if place is not None and (place.is_dir() or not place.absolute().parent.is_dir()):
        raise UsageError(f"{place}: cannot be written there; name a file in a directory that exists")


def _report(measured: "Measured", done: int, of: int) -> None:
    case = measured.case
    what = f"{case.stream}, T = {case.rounds}, {case.method}, seed {case.seed}"
    click.echo(f"{done}/{of}  {what}: regret {measured.regret:.3g} in {measured.seconds:.1f} s", err=True)
