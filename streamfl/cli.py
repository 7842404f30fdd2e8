"""The command line. Commands import what they need when they run, so that help is there at once."""

import math
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamfl import __version__
from streamfl.core.errors import StreamflError, UsageError
from streamfl.services.commands import COMMANDS

if TYPE_CHECKING:
    from rich.console import Console

# BLAS reads these when NumPy is loaded: one thread is faster on matrices of this size, and the same everywhere.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

DEMO_SWAPS = "class-swap@30,55,80"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, package_name="streamfl", message="streamfl %(version)s")
def cli() -> None:
    """Federated learning on streams that drift."""


for _command in COMMANDS:
    cli.add_command(_command)
if find_spec("streamfl_benchmarks") is not None:  # a checkout has benchmarks, an installed package has none
    cli.add_command(import_module("streamfl_benchmarks.commands").bench)


def _named(what: str) -> Callable[[click.Context, click.Parameter, str], str]:
    """Return what refuses the name of a profile or an algorithm that there is not; the default is not looked up."""

    def check(context: click.Context, parameter: click.Parameter, name: str) -> str:
        if name != parameter.default:
            find = getattr(import_module(f"streamfl.{what}s"), f"named_{what}")
            try:
                find(name)
            except UsageError as error:
                raise click.BadParameter(str(error)) from error
        return name

    return check


def _outputs(command: Any) -> Any:
    """Add the options for what is written, shared by the commands that run a federation."""
    for option in (
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of everything drawn."),
        click.option("--predictions", type=click.Path(path_type=Path), help="Write every served prediction (CSV)."),
        click.option("--model-out", type=click.Path(path_type=Path), help="Write the final model (safetensors)."),
        click.option("--per-round", is_flag=True, help="List every round in the JSON."),
        click.option("--json", "json_to", metavar="F", help="Write the result as JSON; - is standard output."),
        click.option("--report", type=click.Path(path_type=Path), metavar="F", help="Write a report (HTML)."),
        click.option(
            "--profile",
            metavar="NAME",
            default="adaptive",
            show_default=True,
            callback=_named("profile"),
            help="How drift is handled, by name: such as experts, paper, or one of another package.",
        ),
    ):
        command = option(command)
    return command


@cli.command()
@_outputs
def demo(**options: Any) -> None:
    """Replay real forest records on 20 clients, swapping classes in rounds 30, 55 and 80.

    The sample's order carries no meaning; the seed draws it anew.
    """
    from streamfl.commands import run_replay  # noqa: PLC0415
    from streamfl.replay import ReplaySettings  # noqa: PLC0415
    from streamfl.settings import ProfileSettings  # noqa: PLC0415
    from streamfl.streams.covtype import covtype  # noqa: PLC0415
    from streamfl.streams.drift import parse  # noqa: PLC0415
    from streamfl.streams.table import shuffled  # noqa: PLC0415

    run_replay(
        shuffled(covtype(), options["seed"]),
        clients=20,
        split="round-robin",
        round_size=45,
        settings=ReplaySettings(
            seed=options["seed"], profile=ProfileSettings.model_validate({"profile": options["profile"]})
        ),
        injection=parse(DEMO_SWAPS),
        outputs=_named_outputs(options),
        console=_console(),
    )


@cli.command()
@click.argument("file")
@click.option(
    "--label", metavar="COL", help="The label's column; else one named label, y, target or class, or the last."
)
@click.option("--drop", metavar="COL,...", default="", help="Columns to leave out.")
@click.option(
    "--time",
    metavar="COL",
    help="The column that tells the time: no feature, but told of restarts; the file's order is the stream's.",
)
@click.option(
    "--separator", metavar="CHAR", default=",", show_default=True, help="Between the columns of a CSV file, or tab."
)
@click.option(
    "--task", type=click.Choice(["auto", "classification", "regression"]), default="auto", show_default=True
)
@click.option(
    "--clients", type=click.IntRange(1), help="How many; else 10, or as many as the column of --split has values."
)
@click.option("--split", default="round-robin", show_default=True, help="round-robin, column:NAME or dirichlet:A.")
@click.option(
    "--round-size",
    type=click.IntRange(1),
    help="Records a client and round; else about 100 rounds, without --inject of 20 records or more in all.",
)
@click.option(
    "--least",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Good records below which nothing of a client leaves; what is left of them at the end stays pending.",
)
@click.option("--inject", metavar="KIND@R,...", help="Impose drift: class-swap, class-introduction or permutation.")
@click.option("--on-bad-record", type=click.Choice(["reject", "stop"]), default="reject", show_default=True)
@click.option(
    "--model",
    metavar="NAME",
    default="auto",
    show_default=True,
    help="softmax, logistic, squared, huber, or one of River's to federate: 'river:preprocessing.StandardScaler|"
    "linear_model.SoftmaxRegression'.",
)
@click.option(
    "--algorithm",
    metavar="NAME",
    default="fedavg",
    show_default=True,
    callback=_named("algorithm"),
    help="What a client does in a round, by name: such as fedomd, or one of another package.",
)
@click.option(
    "--mirror",
    type=click.Choice(["euclidean", "hypentropic", "p-norm"]),
    help="Map of fedomd; else p-norm. With the Euclidean one it is fedavg.",
)
@click.option(
    "--average",
    type=click.Choice(["primal", "dual"]),
    help="Where fedomd averages clients; else primal, as the paper.",
)
@click.option("--l1", type=click.FloatRange(0.0, 1e6), help="Of fedomd: L1 penalty; else 0.")
@click.option("--l2", type=click.FloatRange(0.0, 1e6), help="Squared penalty; else 0.")
@click.option("--local-batch", type=click.IntRange(1), help="Records a local step; else a round is one step.")
@click.option(
    "--gamma",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    help="Part of a round's records that a client trains on; else 1.",
)
@click.option(
    "--step",
    type=click.FloatRange(0.0, 1e6, min_open=True),
    help="Largest step of the profile; else its own: 1 of paper, 16 of adaptive with whitened steps.",
)
@click.option(
    "--features",
    type=click.Choice(["auto", "linear", "ferns", "rounds"]),
    help="What learns record by record and answers: linear models, ferns, both (auto); with rounds the model of the "
    "last round answers. Else auto; but rounds for the other profiles than adaptive, and where --model, --algorithm, "
    "--l2, --local-batch, --gamma or --step says what a round's model is.",
)
@click.option(
    "--detector",
    metavar="NAME",
    default="excess",
    show_default=True,
    help="Of profile adaptive: a drift detector by name, such as glr, or river:NAME for one of river.drift.",
)
@click.option(
    "--rho-scale", type=click.FloatRange(0.0, 1e6), default=1.0, show_default=True, help="Of profile paper."
)
@click.option(
    "--optimistic",
    type=click.Choice(["history", "regret"]),
    default="history",
    show_default=True,
    help="Of profile paper: how low losses could be is told by old records, or by the regret bound.",
)
@click.option(
    "--start",
    type=click.Choice(["scratch", "warm"]),
    help="Models begin untrained, or from the one that served last; paper: scratch, experts: warm.",
)
@click.option(
    "--max-order",
    metavar="N|none",
    help="Of profiles paper and experts: blocks have at most 2^N rounds, N to 20; else 8. none: no cap, as in the "
    "theorems.",
)
@_outputs
def replay(file: str, **options: Any) -> None:
    """Replay a recorded stream: FILE is .csv, .csv.gz, .jsonl, .parquet, .npz (X, y), river:NAME, or - for CSV."""
    from streamfl.commands import run_replay  # noqa: PLC0415
    from streamfl.streams.drift import parse  # noqa: PLC0415

    injection = parse(options["inject"]) if options["inject"] else None
    run_replay(
        _table(file, options),
        clients=options["clients"],
        split=options["split"],
        round_size=options["round_size"],
        settings=_settings(options),
        injection=injection,
        outputs=_named_outputs(options),
        console=_console(),
        source=file,
    )


def _table(file: str, options: dict[str, Any]) -> Any:
    from streamfl.streams.readers import read  # noqa: PLC0415

    kind, _, column = options["split"].partition(":")
    return read(
        file,
        label=options["label"],
        drop=[name for name in options["drop"].split(",") if name],
        time=options["time"],
        task=options["task"],
        on_bad_record=options["on_bad_record"],
        keep=column if kind == "column" else None,
        separator="\t" if options["separator"] in {"tab", "\\t"} else options["separator"],
    )


# What only some profiles heed.
OF_SOME_PROFILES = ("rho_scale", "optimistic", "start", "detector", "max_order")

# What the settings know by the same names; what was not given is left to them.
LEARNING = ("model", "algorithm", "mirror", "average", "l1", "l2", "local_batch", "gamma")
PROFILE = ("profile", "detector", "rho_scale", "optimistic", "start", "step", "max_order")


def _check_profile(profile: str) -> None:
    """Refuse an option that was given for a profile that does not run: it would change nothing."""
    from streamfl.profiles import PROFILES, named_profile  # noqa: PLC0415

    source, takes = click.get_current_context().get_parameter_source, named_profile(profile).takes
    for name in OF_SOME_PROFILES:
        if name not in takes and source(name) is click.core.ParameterSource.COMMANDLINE:
            flag, of = name.replace("_", "-"), [one for one, kind in PROFILES.items() if name in kind.takes]
            raise UsageError(f"--{flag} is of profile {' or '.join(of)}; add --profile {of[0]}, or leave it out")


def _settings(options: dict[str, Any]) -> Any:
    from streamfl.replay import ReplaySettings  # noqa: PLC0415
    from streamfl.settings import LearningSettings, ProfileSettings  # noqa: PLC0415

    _check_profile(options["profile"])
    _check_learning(options)
    given = {name: value for name, value in options.items() if value is not None}
    learning = {name: given[name] for name in LEARNING if name in given}
    profile = {name: given[name] for name in PROFILE if name in given}
    return ReplaySettings(
        least=options["least"],
        seed=options["seed"],
        learning=LearningSettings(features=_features(options), **learning),
        profile=ProfileSettings.model_validate(profile),
    )


def _check_learning(options: dict[str, Any]) -> None:
    """Refuse what is no number, and what would change nothing or break what another option needs."""
    if math.isnan(options["rho_scale"]):
        raise UsageError("--rho-scale is not a number; 1 is the paper, less makes the tests more sensitive")
    for name in ("l1", "l2", "gamma", "step"):
        if options[name] is not None and math.isnan(options[name]):
            raise UsageError(f"--{name} is not a number; give one, or leave it out")
    if options["mirror"] == "euclidean" and options["average"] is not None:
        raise UsageError("--average: with --mirror euclidean both averages are the same; leave it out")
    parts = {"local-batch": options["local_batch"], "gamma": None if options["gamma"] == 1.0 else options["gamma"]}
    for flag, given in parts.items():
        if options["optimistic"] == "regret" and given is not None:
            raise UsageError(f"--optimistic regret holds for one full-batch step a round; leave --{flag} out")


def _features(options: dict[str, Any]) -> Any:
    """Return what learns between rounds: by default nothing where the base algorithm itself is what is looked at."""
    if options["features"] is not None:
        return options["features"]
    chosen = options["model"], options["profile"], options["algorithm"]
    plain = all(options[name] is None for name in ("l2", "local_batch", "gamma", "step"))
    return "auto" if plain and chosen == ("auto", "adaptive", "fedavg") else "rounds"


def _named_outputs(options: dict[str, Any]) -> Any:
    from streamfl.commands import Outputs  # noqa: PLC0415

    return Outputs(
        json=options["json_to"],
        per_round=options["per_round"],
        report=options["report"],
        model=options["model_out"],
        predictions=options["predictions"],
    )


def _console() -> "Console":
    """Return the console that people read; standard output is kept for what programs read."""
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=True)


def main() -> None:
    """Run a command; an error that has an owner is one line, without a traceback."""
    try:
        cli(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("streamfl: stopped", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except StreamflError as error:
        click.echo(f"streamfl: error: {error}", err=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except BrokenPipeError:
        sys.exit(0)
