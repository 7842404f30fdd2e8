"""`streamfl bench regret`."""

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamfl.errors import UsageError
from streamfl_benchmarks.arguments import check_places, names, processes, run_options, write

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
@run_options()
def regret(**options: Any) -> None:
    """Measure dynamic regret with exact losses over T = 2^7 .. 2^14, next to its theoretical bounds.

    The abrupt stream has L = T^0.4 segments, each with its own loss; the moving one changes in every round, by T^0.4
    in total; the still one never changes. Only FedAvg with step 1/sqrt(T), the oracle and paper know T. The constant
    step is the best of six in hindsight. Violated bounds are marked.
    """
    from streamfl_benchmarks.regret import grid, measure_all  # noqa: PLC0415
    from streamfl_benchmarks.regret_players import METHODS  # noqa: PLC0415
    from streamfl_benchmarks.regret_slopes import curves  # noqa: PLC0415
    from streamfl_benchmarks.regret_streams import STREAMS  # noqa: PLC0415
    from streamfl_benchmarks.regret_table import tables  # noqa: PLC0415

    if options["last"] <= options["first"]:
        raise UsageError(f"--to {options['last']}: a slope needs two horizons; give more than --from")
    check_places(options[name] for name in ("json_to", "markdown"))
    cases = grid(
        range(options["first"], options["last"] + 1),
        range(options["seeds"]),
        _chosen("--method", options["methods"], METHODS),
        _chosen("--stream", options["streams"], STREAMS),
    )
    measured = measure_all(cases, options["json_to"], jobs=processes(options["jobs"]), report=_report)
    found = curves(measured)
    sys.stdout.write(tables(found))
    write(options["markdown"], tables(found))


def _chosen(flag: str, text: str | None, known: tuple[Name, ...]) -> list[Name]:
    if text is None:
        return list(known)
    wanted = names(flag, text)
    for name in wanted:
        if name not in known:
            raise UsageError(f"{flag} {name}: unknown; take some of {', '.join(known)}")
    return [name for name in known if name in wanted]


def _report(measured: "Measured", done: int, of: int) -> None:
    case = measured.case
    what = f"{case.stream}, T = {case.rounds}, {case.method}, seed {case.seed}"
    click.echo(f"{done}/{of}  {what}: regret {measured.regret:.3g} in {measured.seconds:.1f} s", err=True)
