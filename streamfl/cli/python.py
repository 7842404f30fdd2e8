"""The command `replay` as functions of Python: the same options, checks, sentences and result."""

import html
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import polars as pl
from rich.console import Console

from streamfl.cli.main import replay as command
from streamfl.cli.main import run_named, table_named
from streamfl.errors import UsageError, did_you_mean
from streamfl.records.table import Table
from streamfl.run.dealing.imposed_drift import parse
from streamfl.run.evaluation.result import Result
from streamfl.run.model_file import ServedModel
from streamfl.run.page.report import render

# Options of the command that a program has no use for.
LEFT_OUT = {"page"}


@dataclass(frozen=True)
class Run:
    """A finished replay.

    Parameters
    ----------
    result
        What the command writes with `--json`.
    model
        The final model.
    printed
        What the command prints, also what `print` shows.
    imposed
        The first round of each drift that `inject` imposed.
    """

    result: Result
    model: ServedModel
    printed: str
    imposed: tuple[int, ...] = ()

    def rounds(self) -> pl.DataFrame:
        """Return a row for each round: its numbers, records, loss, and accuracy or error."""
        return pl.DataFrame([asdict(line) for line in self.result.per_round], infer_schema_length=None)

    def clients(self) -> pl.DataFrame:
        """Return a row for each of the 50 clients with the most records: accuracy or error, and that of NoChange."""
        lines = () if self.result.by_client is None else self.result.by_client.clients
        return pl.DataFrame([line.model_dump() for line in lines], infer_schema_length=None)

    def report(self) -> str:
        """Return the HTML page that the command writes with `--report`."""
        return render(self.result, drifts=self.imposed, title=f"streamfl: {self.result.source}")

    def plot(self, axes: Any = None) -> Any:
        """Draw accuracy or error by round, next to NoChange, with a line at each restart; needs matplotlib.

        Parameters
        ----------
        axes
            Where to draw; None: new axes of matplotlib.

        Returns
        -------
        The axes.
        """
        if axes is None:
            axes = _axes()
        rounds, measure = self.rounds(), "mae" if self.result.accuracy is None else "accuracy"
        axes.plot(rounds["round"].to_list(), rounds[measure].to_list(), label=measure)
        axes.plot(rounds["round"].to_list(), rounds["no_change"].to_list(), label="NoChange")
        for restart in self.result.restarts:
            axes.axvline(restart.round, linestyle="--")
        axes.set_xlabel("round")
        axes.legend()
        return axes

    def __str__(self) -> str:
        return self.printed

    def _repr_html_(self) -> str:
        page = html.escape(self.report(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 50em; border: 0"></iframe>'


def replay(source: str | Path | pl.DataFrame, **options: Any) -> Run:
    """Replay a recorded stream as a federation.

    Parameters
    ----------
    source
        A file, `river:NAME`, or a data frame of polars.
    options
        Those of `streamfl replay`, such as `label`, `split`, `time` and `clients`, with `_` for `-`. A list is given
        as a list, and `scaling=False` is `--no-scaling`. `model` may also be a class with weights, or an estimator of
        River.

    Returns
    -------
    The result, with tables of rounds and clients and the report.

    Raises
    ------
    UsageError
        As of the command, which names options with dashes.

    Examples
    --------
    >>> import streamfl
    >>> run = streamfl.replay("river:Phishing", clients=2, round_size=25, features="rounds")
    >>> run.result.rounds, run.rounds().height, run.clients().columns
    (25, 25, ['client', 'records', 'prequential', 'no_change'])
    >>> streamfl.replay("river:Phishing", labels="y")
    Traceback (most recent call last):
    ...
    streamfl.errors.UsageError: there is no option labels; did you mean label?
    """
    written = io.StringIO()
    model = options.get("model")
    named = options if model is None or isinstance(model, str) else {**options, "model": None}
    with _parsed(source, named) as chosen:
        if named is not options:
            chosen["model"] = model
        replayed = run_named(_plain(source), chosen, Console(file=written, width=120))
    imposed = parse(chosen["inject"]).rounds if chosen["inject"] else ()
    return Run(replayed.result, replayed.model, written.getvalue(), imposed)


def read(source: str | Path | pl.DataFrame, **options: Any) -> Table:
    """Read a file or a data frame of records, as `replay` does.

    Parameters
    ----------
    source
        A file, `river:NAME`, or a data frame of polars.
    options
        Those of `streamfl replay` that say how to read: `label`, `drop`, `time`, `timezone`, `date_order`, `task`,
        `separator`, `decimal`, `encoding`, `missing_values`, `on_bad_record`, `time_features`,
        `lags` and `window`; `split` with a column keeps it.

    Returns
    -------
    The features `X` by their names `features`, the labels or targets `y`, `times`, and what was `rejected` and why.

    Raises
    ------
    UsageError
        As of the command.

    Examples
    --------
    >>> import polars
    >>> import streamfl
    >>> table = streamfl.read(polars.DataFrame({"t": [20.5, None], "state": ["hot", "cold"]}), label="state")
    >>> table.features, table.X, table.labels
    (('t',), array([[20.5],
           [ nan]], dtype=float32), ('cold', 'hot'))
    """
    with _parsed(source, options) as chosen:
        return table_named(_plain(source), chosen, Console(file=io.StringIO()))


def _axes() -> Any:
    try:
        return import_module("matplotlib.pyplot").subplots()[1]  # not a dependency
    except ImportError:
        raise UsageError(
            "plot() draws with matplotlib, which is not installed; pip install matplotlib, or see report()"
        ) from None


@contextmanager
def _parsed(source: object, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield options as the command parses them; while the block runs, the command is the one that runs."""
    name = source if isinstance(source, str | Path) else "data frame"
    try:
        with command.make_context("replay", [*_arguments(options), "--", str(name)]) as context:
            chosen = dict(context.params)
            chosen.pop("file")
            yield chosen
    except click.ClickException as error:
        raise UsageError(error.format_message()) from None


def _plain(source: str | Path | pl.DataFrame) -> str | pl.DataFrame:
    if isinstance(source, pl.DataFrame | str):
        return source
    if isinstance(source, Path):
        return str(source)
    raise UsageError(f"{type(source).__name__} cannot be read: give a path, or a data frame of polars")


def _arguments(options: dict[str, Any]) -> list[str]:
    """Return options as the command line has them.

    >>> _arguments({"label": "y", "drop": ["a", "b"], "scaling": False, "per_round": True, "seed": None})
    ['--label=y', '--drop=a,b', '--no-scaling', '--per-round']
    >>> _arguments({"objective": "cost", "costs": {"failure": 20, "wear": 5}})
    ['--objective=cost', '--costs=failure=20,wear=5']
    """
    known = {flag: one for one in command.params for flag in one.opts if one.name not in LEFT_OUT}
    arguments = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if flag not in known:
            names = [one.removeprefix("--").replace("-", "_") for one in known if one.startswith("--")]
            raise UsageError(f"there is no option {name}{did_you_mean(name, names)}")
        if value is None:
            continue
        if isinstance(value, bool):
            arguments += [flag] if value else known[flag].secondary_opts
        elif isinstance(value, Mapping):
            arguments.append(f"{flag}={','.join(f'{key}={one}' for key, one in value.items())}")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            arguments.append(f"{flag}={','.join(map(str, value))}")
        else:
            arguments.append(f"{flag}={value}")
    return arguments
