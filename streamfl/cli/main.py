"""The command line. Commands import their dependencies when they run, so that `--help` is fast."""

import math
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamfl import __version__
from streamfl.bounds import LONGEST, MOST, MOST_DELAY, SHORTEST
from streamfl.cli.arguments import SAVED, WRITTEN, among_clients, seeded
from streamfl.cli.live import live
from streamfl.cli.names import NamingCommand
from streamfl.cli.reading import (
    knows_how_times_are_written,
    reading,
    reads_a_table,
    reads_times,
    rejects_records,
    takes_past,
    takes_time_features,
)
from streamfl.errors import StreamflError, UsageError
from streamfl.printable import printable
from streamfl.run.report.terminal import echo_line, terminal

if TYPE_CHECKING:
    from polars import DataFrame
    from rich.console import Console

    from streamfl.records.table import Table
    from streamfl.run.replay import Replayed

# BLAS reads these when NumPy is loaded. One thread is faster on small matrices and always gives the same bits.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

DEMO_SWAPS = "class-swap@30,55,80"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, package_name="streamfl", message="streamfl %(version)s")
def cli() -> None:
    """Federated learning on streams that drift."""


for _command in live.commands.values():
    cli.add_command(_command)
if find_spec("streamfl_benchmarks") is not None:  # only a checkout has benchmarks, not an installed package
    cli.add_command(import_module("streamfl_benchmarks.commands").bench)


def _outputs(command: Any) -> Any:
    """Add the options that `demo` and `replay` share: models, profile, seed, and the files to write."""
    for option in (
        seeded,
        click.option("--predictions", type=WRITTEN, help="Write every prediction (CSV)."),
        click.option("--model-out", type=WRITTEN, help="Write the final model (safetensors)."),
        click.option(
            "--own-models-out",
            type=WRITTEN,
            metavar="DIR",
            help="Write for each client a model file with what it alone knows.",
        ),
        click.option("--per-round", is_flag=True, help="Include every round in the JSON."),
        click.option("--json", "json_to", metavar="F", help="Write the result (JSON); - is standard output."),
        click.option("--report", type=WRITTEN, metavar="F", help="Write a report (HTML)."),
        click.option(
            "--page",
            is_flag=False,
            flag_value="127.0.0.1:8080",
            metavar="[[HOST:]PORT]",
            help="Show the run as a web page while it runs, and afterwards until Ctrl-C. Default: port 8080.",
        ),
        click.option(
            "--profile",
            metavar="NAME",
            default="adaptive",
            show_default=True,
            help="How drift is handled: {profiles}.",
        ),
        click.option(
            "--features",
            type=click.Choice(["auto", "linear", "ferns", "rounds"]),
            help="Which models learn and predict record by record: linear models, ferns (fast random trees), or both "
            "(auto). With rounds there are none, and the model of the last round predicts. Default: auto; but rounds "
            "if the profile is not adaptive, or if --model, --algorithm, --l2, --local-batch, --gamma or --step is "
            "given.",
        ),
    ):
        command = option(command)
    return command


@cli.command(cls=NamingCommand)
@_outputs
def demo(**options: Any) -> None:
    """Run 20 clients on real forest records; classes are swapped in rounds 30, 55 and 80.

    The records have no natural order; --seed shuffles them.
    """
    from streamfl.cli.replay import run_replay  # noqa: PLC0415
    from streamfl.records.files.covtype import covtype  # noqa: PLC0415
    from streamfl.records.table import shuffled  # noqa: PLC0415
    from streamfl.run.dealing.imposed_drift import parse  # noqa: PLC0415
    from streamfl.run.replay import ReplaySettings  # noqa: PLC0415
    from streamfl.run.settings import LearningSettings, ProfileSettings  # noqa: PLC0415

    run_replay(
        shuffled(covtype(), options["seed"]),
        clients=20,
        split="round-robin",
        round_size=45,
        settings=ReplaySettings(
            seed=options["seed"],
            learning=LearningSettings.model_validate(_given(options, ("features",))),
            profile=ProfileSettings.model_validate(_given(options, ("profile",))),
        ),
        injection=parse(DEMO_SWAPS),
        outputs=_named_outputs(options),
        console=_console(),
        page=options["page"],
    )


@cli.command(cls=NamingCommand)
@click.argument("file")
@click.option(
    "--label",
    metavar="COL",
    help="The label column. Default: a column named label, y, target or class, else the last one.",
)
@reads_a_table
@reads_times
@takes_time_features
@takes_past
@click.option(
    "--task",
    type=click.Choice(["auto", "classification", "regression"]),
    default="auto",
    show_default=True,
    help="auto: regression if labels are numbers and some have a fractional part.",
)
@among_clients
@click.option(
    "--split",
    default="round-robin",
    show_default=True,
    help="How to divide the records among clients. round-robin: in turn. column:NAME: one client per value of a "
    "column. dirichlet:A: clients with different class proportions, drawn from a Dirichlet(A) distribution.",
)
@click.option(
    "--round-size",
    type=click.IntRange(1, MOST),
    help="Records per client and round, on average if clients have records at different rates. Default: chosen for "
    "about 100 rounds; a round has at least 20 records in total, unless --inject is given.",
)
@click.option(
    "--interval",
    type=click.FloatRange(SHORTEST, LONGEST),
    metavar="SECONDS",
    help="Rounds by event time: each round takes the records of this many seconds, according to --time. Replaces "
    "--round-size. Default: chosen if clients have records at different rates.",
)
@click.option(
    "--min-records",
    type=click.IntRange(1, MOST),
    default=10,
    show_default=True,
    help="Minimum number of valid records in an update of a client. If a client has fewer left at the end, they stay "
    "pending: the client predicts them, but nobody else learns them.",
)
@click.option(
    "--label-delay",
    type=click.IntRange(0, MOST_DELAY),
    metavar="N",
    default=0,
    show_default=True,
    help="Delay every label: it arrives N records of the same client after its own record (at most 1,000,000). Each "
    "record is predicted when it arrives, scored by that prediction, and learnt when its label arrives. With 0 or 1 "
    "the label arrives before the client's next record.",
)
@click.option(
    "--answers",
    type=SAVED,
    metavar="FILE",
    help="With --label-delay: score these predictions instead of the replay's own. FILE has the messages of a live "
    "federation's topic NAME.predictions for the same records, one per line.",
)
@click.option(
    "--aggregation",
    metavar="NAME",
    default="mean",
    show_default=True,
    help="How the coordinator combines the model changes that clients send each round: {aggregations}. What "
    "each client can change is bounded before; none was measured to withstand malicious clients better than mean.",
)
@click.option(
    "--secure-aggregation",
    type=click.Choice(["off", "pooled", "masked"]),
    default="off",
    show_default=True,
    help="What the coordinator sees of the numbers that clients compute from their records. off: the numbers of "
    "each client. masked: only sums over all clients (secure aggregation). pooled: the same sums without masks, "
    "for comparison; it protects nothing.",
)
@click.option(
    "--noise",
    type=click.FloatRange(0.0),
    default=0.0,
    show_default=True,
    help="With --secure-aggregation masked: the noise multiplier of differential privacy; more noise hides each "
    "record better. Needs --no-scaling, so scale the features beforehand.",
)
@click.option(
    "--radius",
    type=click.FloatRange(0.0, min_open=True),
    default=1.0,
    show_default=True,
    help="With --noise: clip each record's features, together with the constant 1, to this norm.",
)
@click.option(
    "--delta",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=1e-6,
    show_default=True,
    help="With --noise: the delta for which epsilon is reported.",
)
@click.option(
    "--scaling/--no-scaling",
    default=True,
    show_default=True,
    help="Whether to standardise the features by the mean and deviation over all clients.",
)
@click.option(
    "--inject",
    metavar="KIND@R,...",
    help="Impose artificial drifts that begin in rounds R. KIND is class-swap, class-introduction or permutation.",
)
@click.option(
    "--compare",
    is_flag=True,
    help="Does federating help? Compare it with the same learner alone at each client, with all records in one "
    "place, and stopped after the first tenth; with each client's most frequent label, or mean target, so far; and "
    "with NoChange. Takes about three times the CPU time.",
)
@rejects_records
@click.option(
    "--model",
    metavar="NAME",
    default="auto",
    show_default=True,
    help="{models}. A River model to federate is named like "
    "'river:preprocessing.StandardScaler|linear_model.SoftmaxRegression'. auto: softmax for labels, squared for "
    "numbers.",
)
@click.option(
    "--algorithm",
    metavar="NAME",
    default="fedavg",
    show_default=True,
    help="The base algorithm that clients run in a round: {algorithms}.",
)
@click.option(
    "--mirror",
    metavar="NAME",
    help="fedomd: the mirror map: {mirrors}. Default: p-norm. With euclidean it is fedavg.",
)
@click.option(
    "--average",
    type=click.Choice(["primal", "dual"]),
    help="fedomd: average the clients' models in the primal or the dual space. Default: primal, as in the paper.",
)
@click.option("--l1", type=click.FloatRange(0.0, 1e6), help="fedomd: weight of the L1 penalty. Default: 0.")
@click.option("--mu", type=click.FloatRange(0.0, 1e6), help="fedprox: pull to the round's model. Default: 0.01.")
@click.option("--l2", type=click.FloatRange(0.0, 1e6), help="Weight of the squared penalty. Default: 0.")
@click.option(
    "--local-batch", type=click.IntRange(1, MOST), help="Records per local step. Default: one step per round."
)
@click.option(
    "--gamma",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    help="Share of a round's records that a client trains on. Default: 1.",
)
@click.option(
    "--step",
    type=click.FloatRange(0.0, 1e6, min_open=True),
    help="The profile's largest step size. Default: 1 for paper, 16 for adaptive with whitened steps.",
)
@click.option(
    "--detector",
    metavar="NAME",
    help="Profile adaptive: the drift detector: {detectors}, which is one of river.drift. Default: excess; glr with "
    "--secure-aggregation masked or pooled.",
)
@click.option(
    "--rho-scale",
    type=click.FloatRange(0.0, 1e6),
    default=1.0,
    show_default=True,
    help="Profile paper: factor by which the thresholds of its tests are multiplied; smaller values make the tests "
    "more sensitive.",
)
@click.option(
    "--optimistic",
    type=click.Choice(["history", "regret"]),
    default="history",
    show_default=True,
    help="Profile paper: estimate the lowest possible loss from old records (history) or from the regret bound "
    "(regret).",
)
@click.option(
    "--start",
    type=click.Choice(["scratch", "warm"]),
    help="Start new models untrained (scratch), or from the model that predicted last (warm). Default: scratch for "
    "paper, warm for experts.",
)
@click.option(
    "--order-after-alarm",
    type=click.Choice(["reset", "continue"]),
    default="reset",
    show_default=True,
    help="Profile paper: after an alarm the order of blocks starts again at 0 (reset), or continues.",
)
@click.option(
    "--max-order",
    metavar="N|none",
    help="Profiles paper and experts: blocks have at most 2^N rounds, N up to 20. Default: 8. none: no cap, as in "
    "the theorems.",
)
@click.option(
    "--bytes",
    metavar="N|raw|auto",
    default="auto",
    show_default=True,
    help="Limit the size of each client's updates to N bytes per record, from round 5 on. To stay below the limit, "
    "clients round what their models have learnt more coarsely. raw: the bytes of the features as float32. auto: no "
    "limit.",
)
@click.option(
    "--objective",
    type=click.Choice(["accuracy", "balanced", "kappa", "cost"]),
    help="What predicted labels are to be good at. accuracy: as many right ones as possible. balanced: the mean "
    "recall of the labels. kappa: agreement beyond chance. cost: the price of wrong ones, see --costs. "
    "Default: accuracy.",
)
@click.option(
    "--costs",
    metavar="LABEL=PRICE,..",
    help="With --objective cost: the price of missing a record of a label, such as failure=20. Default: 1.",
)
@_outputs
def replay(file: str, **options: Any) -> None:
    """Replay a recorded stream as a federation, and report accuracy and drifts.

    FILE is {endings} (arrays X and y in .npz); or river:NAME for a data set of River; or - for CSV from standard
    input.
    """
    run_named(file, options, _console())


def run_named(source: "str | DataFrame", options: dict[str, Any], console: "Console") -> "Replayed":
    """Replay a file or a data frame by the options of `replay`, which printed lines go to a console."""
    from streamfl.cli.replay import run_replay  # noqa: PLC0415
    from streamfl.run.dealing.imposed_drift import parse  # noqa: PLC0415

    injection, settings = parse(options["inject"]) if options["inject"] else None, _settings(options)
    return run_replay(
        table_named(source, options, console),
        settings=settings,
        injection=injection,
        outputs=_named_outputs(options),
        console=console,
        source=source if isinstance(source, str) else "",
        **{name: options[name] for name in ("clients", "split", "round_size", "page", "answers", "compare")},
    )


@cli.command()
@click.argument("result", type=SAVED)
@click.argument("round", type=click.IntRange(1, MOST), required=False)
def explain(result: Path, round: int | None) -> None:  # noqa: A002  the user's word
    """Describe in sentences what happened in a run, or in one ROUND of it.

    RESULT is the file that replay or demo wrote with --json.
    """
    from streamfl.run.evaluation.result import read_result  # noqa: PLC0415
    from streamfl.run.report.explain import explained  # noqa: PLC0415

    try:
        sentences = explained(read_result(result), round)
    except ValueError as error:
        raise UsageError(str(error)) from None
    for sentence in sentences:
        echo_line(sentence)


@cli.command(cls=NamingCommand)
@click.argument("file")
@click.option(
    "--model",
    type=WRITTEN,
    required=True,
    metavar="M",
    help="The model: a file that --model-out wrote.",
)
@click.option("--csv", "csv_to", metavar="F", help="Write the predictions as CSV. Default: -, standard output.")
@click.option(
    "--json", "json_to", metavar="F", help="Write the predictions as JSON, one object per line; - is standard output."
)
@click.option(
    "--label",
    metavar="COL",
    help="The column of labels or targets. Reports the accuracy next to that of the baseline NoChange.",
)
@reads_a_table
@knows_how_times_are_written
@click.option(
    "--missing-columns",
    type=click.Choice(["warn", "mean", "refuse"]),
    default="warn",
    show_default=True,
    help="If the file lacks columns that the model needs. warn: use their means, with a warning. mean: use their "
    "means. refuse: end with an error.",
)
@click.option(
    "--unknown",
    type=click.Choice(["refuse", "ignore"]),
    default="refuse",
    show_default=True,
    help="If the file has columns that the model does not know: end with an error, or ignore them. The label column "
    "of the training is always ignored.",
)
@rejects_records
@click.option(
    "--client",
    metavar="NAME",
    help="The client to which all records belong; clients that drifted alone have models of their own. Default: the "
    "column that --split named in training tells each record's client.",
)
def predict(file: str, **options: Any) -> None:
    """Predict the records of a file with a saved model.

    FILE is {endings}; or - for CSV from standard input. It needs no labels. Records are read and predicted in
    batches, so the file may be larger than memory, except .npz.
    """
    from streamfl.records.request import Request  # noqa: PLC0415
    from streamfl.run.predictions.predict import PredictRequest, run_predict  # noqa: PLC0415

    request = Request(file, labelled=options["label"] is not None, **reading(options))
    raises = {"refuse": "raise"}
    asked = PredictRequest(
        request,
        options["model"],
        csv=options["csv_to"],
        json=options["json_to"],
        missing=raises.get(options["missing_columns"], options["missing_columns"]),
        unknown=raises.get(options["unknown"], options["unknown"]),
        client=options["client"],
        timezone=options["timezone"],
        date_order=options["date_order"],
    )
    run_predict(asked, _console())


def table_named(source: "str | DataFrame", options: dict[str, Any], console: "Console") -> "Table":
    """Read a file or a data frame by the options of `replay`."""
    from rich.text import Text  # noqa: PLC0415

    from streamfl.records.files.readers import read  # noqa: PLC0415
    from streamfl.run.dealing.dealing import client_column  # noqa: PLC0415

    name = printable(source) if isinstance(source, str) else "a data frame"
    with console.status(Text(f"reading {name}")) as status:  # on a terminal alone
        return read(
            source,
            keep=client_column(options["split"]) or None,
            watch=lambda n: status.update(Text(f"reading {name}: {n:,} records")),
            **reading(options),
        )


# Options that only some profiles use.
OF_SOME_PROFILES = ("rho_scale", "optimistic", "start", "detector", "order_after_alarm", "max_order")

# Options with the same names in the settings, which also have the defaults.
LEARNING = (
    *("features", "bytes", "model", "algorithm", "mirror", "average", "l1", "mu", "l2", "local_batch", "gamma"),
    *("objective", "costs"),
)
PRIVACY = ("secure_aggregation", "noise", "radius", "delta")
PROFILE = ("profile", "detector", "rho_scale", "optimistic", "start", "step", "order_after_alarm", "max_order")
REPLAY = ("min_records", "seed", "label_delay", "aggregation", "scaling", "interval")


def _check_profile(profile: str) -> None:
    """Refuse an option that the chosen profile does not use: it would change nothing."""
    from streamfl.plugins.profiles import PROFILES  # noqa: PLC0415

    source, takes = click.get_current_context().get_parameter_source, PROFILES.find(profile).takes
    for name in OF_SOME_PROFILES:
        if name not in takes and source(name) is click.core.ParameterSource.COMMANDLINE:
            flag, of = name.replace("_", "-"), [one for one, kind in PROFILES.items() if name in kind.takes]
            raise UsageError(
                f"--{flag} works only with profile {' or '.join(of)}; add --profile {of[0]}, or leave --{flag} out"
            )


def _settings(options: dict[str, Any]) -> Any:
    from streamfl.run.replay import ReplaySettings  # noqa: PLC0415
    from streamfl.run.settings import LearningSettings, PrivacySettings, ProfileSettings  # noqa: PLC0415

    _check_profile(options["profile"])
    _check_learning(options)
    return ReplaySettings(
        **_given(options, REPLAY),
        privacy=PrivacySettings.model_validate(_given(options, PRIVACY)),
        learning=LearningSettings.model_validate(_given(options, LEARNING)),
        profile=ProfileSettings.model_validate(_given(options, PROFILE)),
    )


def _given(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: options[name] for name in names if options.get(name) is not None}


def _check_learning(options: dict[str, Any]) -> None:
    """Refuse NaN, options without an effect, and combinations that contradict each other."""
    for name in ("rho_scale", "l1", "mu", "l2", "gamma", "step"):
        if options[name] is not None and math.isnan(options[name]):
            raise UsageError(f"--{name.replace('_', '-')} is not a number; give a number, or leave it out")
    if options["mirror"] == "euclidean" and options["average"] is not None:
        raise UsageError(
            "--average has no effect with --mirror euclidean, where both averages are the same; leave it out"
        )
    parts = {"local-batch": options["local_batch"], "gamma": None if options["gamma"] == 1.0 else options["gamma"]}
    for flag, given in parts.items():
        if options["optimistic"] == "regret" and given is not None:
            raise UsageError(f"--optimistic regret assumes one full-batch step per round; leave --{flag} out")


def _named_outputs(options: dict[str, Any]) -> Any:
    from streamfl.cli.replay import Outputs  # noqa: PLC0415

    return Outputs(**{one.name: options[one.name] for one in fields(Outputs)})


def _console() -> "Console":
    """Return a console on standard error, as standard output is for machine-readable results."""
    return terminal(errors=True)


def _without_a_secret(error: click.ClickException) -> click.ClickException:
    """Return an error without the argument that it names, where that may be the secret of a setting."""
    if "--set" in sys.argv and isinstance(error, click.UsageError) and "unexpected extra argument" in error.message:
        return click.UsageError(
            "there is an argument that no option takes; write --set TABLE.NAME=VALUE without spaces", error.ctx
        )
    return error


def _show_warning(show: Callable[..., None], message: Warning | str, category: type[Warning], *at: Any) -> None:
    """Print what will change for the user as one line, and all else as Python does."""
    if issubclass(category, FutureWarning):
        echo_line(f"streamfl: warning: {message}", errors=True)
    else:
        show(message, category, *at)


def main() -> None:
    """Run a command. An expected error is printed as one line, without a traceback."""
    warnings.showwarning = partial(_show_warning, warnings.showwarning)
    try:
        cli(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        echo_line("streamfl: stopped", errors=True)
        sys.exit(130)
    except click.ClickException as error:
        _without_a_secret(error).show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except StreamflError as error:
        echo_line(f"streamfl: error: {error}", errors=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except BrokenPipeError:
        sys.exit(0)
