"""What `demo` and `replay` do: read a stream, deal it to clients, replay it, show and write what came of it."""

import csv
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from rich.console import Console

from streamfl.core.errors import UsageError
from streamfl.core.protocol.decisions import PostUpdate, Predicted, Refused
from streamfl.core.protocol.messages import FromCoordinator, LocalDrift, Noticed, Restarted, RoundClosed, RoundOpened
from streamfl.display import Progress, file_text, local_text, notice_text, summary
from streamfl.evaluation.result import Result
from streamfl.replay import Replay, Replayed, ReplaySettings, restart_line, round_line
from streamfl.report.html import render
from streamfl.report.words import counted
from streamfl.streams.dealing import Log, deal
from streamfl.streams.drift import Injection, inject
from streamfl.streams.labels import identifier
from streamfl.streams.table import Table

# More numbers than that are likely to be amounts, not labels.
MANY_LABELS = 50

# With no --round-size, a file is replayed in about so many rounds, of at least so many records in all, and --least a
# client: of fewer the detector sees little. Where --inject names rounds, there are as many as its user counts on.
ROUNDS_WANTED, FEWEST = 100, 20

ALONE = "--least 1: records may leave a client alone, and what is told of a single one can be solved for it"


@dataclass(frozen=True)
class Outputs:
    """Where a command writes, besides the terminal; None writes nothing.

    Parameters
    ----------
    json
        The result; `-` is standard output.
    per_round
        Whether the JSON lists every round.
    report
        The HTML page.
    model
        The model that serves at the end.
    predictions
        A CSV line for every record: its number in the file, client, round, label and served prediction.
    """

    json: str | None = None
    per_round: bool = False
    report: Path | None = None
    model: Path | None = None
    predictions: Path | None = None

    def files(self) -> list[tuple[str, Path]]:
        """Return what is written where."""
        named = Path(self.json) if self.json not in (None, "-") else None
        places = {"json": named, "report": self.report, "model file": self.model, "predicted": self.predictions}
        return [(what, path) for what, path in places.items() if path is not None]

    def check(self, source: str) -> None:
        """Refuse, before anything runs, a place that cannot be written to, or that holds something else.

        Parameters
        ----------
        source
            The file that is read.

        Raises
        ------
        UsageError
            Names the first such place.
        """
        if self.json == "":
            raise UsageError("--json: it names no file; name one, or - for standard output")
        taken = {Path(source).resolve(): "is the file that is read"}
        for what, path in self.files():
            if path == Path("-"):
                raise UsageError(f"{what}: - is no file, and standard output is for --json alone; name a file")
            if path.is_dir() or not path.absolute().parent.is_dir():
                raise UsageError(f"{path}: cannot be written there; name a file in a directory that exists")
            if path.resolve() in taken:
                raise UsageError(f"{path}: {taken[path.resolve()]}; name another file")
            taken[path.resolve()] = "is written to already"


@dataclass
class PredictionsFile:
    """Writes the served predictions of a replay as they are made.

    Parameters
    ----------
    table, logs
        Tell which record of the file a client's next one is.
    to
        An open text file.
    """

    table: Table
    logs: dict[str, Log]
    to: TextIO
    _written: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._csv = csv.writer(self.to, lineterminator="\n")
        self._csv.writerow(["record", "client", "round", "label", "predicted"])

    def take(self, told: Predicted) -> None:
        """Write the predictions of one client's round."""
        done = self._written[told.client]
        self._written[told.client] += len(told.truth)
        rows = self.logs[told.client].rows[done : done + len(told.truth)]
        records = self.table.places[rows].tolist()
        truth, served = _named(told.truth.tolist(), told), _named(told.served.tolist(), told)
        for record, label, predicted in zip(records, truth, served, strict=True):
            self._csv.writerow([record, told.client, told.round, label, predicted])


def _named(values: list[float], told: Predicted) -> list[str] | list[float]:
    return [told.labels[int(v)] if v >= 0 else "" for v in values] if told.labels else values


def run_replay(
    table: Table,
    *,
    clients: int | None,
    split: str,
    round_size: int | None,
    settings: ReplaySettings,
    injection: Injection | None,
    outputs: Outputs,
    console: Console,
    source: str = "",
) -> Replayed:
    """Replay a table, with progress and a closing summary on the console, and write the outputs.

    Raises
    ------
    UsageError
        The split, the injection or an output does not fit.
    """
    outputs.check(source)
    river = settings.learning.river_model("classification" if table.labels else "regression")
    if river is not None and outputs.model is not None:
        raise UsageError(f"--model-out writes streamfl's own models, and {river.name} is River's: leave it out")
    remark = identifier(table.label or "label", table.y) if table.labels else ""
    if remark:
        console.print(f"{remark}; name another with --label", highlight=False, soft_wrap=True, markup=False)
    logs = deal(table, clients, split, settings.seed)
    size = _size(table, logs, round_size, FEWEST if injection is None else 1, settings.least)
    if settings.least == 1:
        console.print(ALONE, highlight=False, soft_wrap=True)
    if injection is not None:
        logs = inject(table, logs, injection, size, settings.seed)
    replay = Replay(table, logs, replace(settings, round_size=size))
    if injection is not None and injection.rounds[-1] > replay.horizon:
        what = f"{table.name} has {replay.horizon} rounds of {size} records a client"
        raise UsageError(f"--inject: a drift at round {injection.rounds[-1]}, but {what}; name earlier rounds")
    if outlook := replay.master().outlook():
        console.print(outlook, highlight=False, soft_wrap=True)
    for note in table.notes:
        console.print(f"{table.name}: {note}", style="yellow", highlight=False, soft_wrap=True, markup=False)
    replayed = _watched(replay, injection, outputs, console)
    summary(console, replayed.result, rejections=[r.reason for r in table.rejected[:5]])
    _write(replayed, injection, outputs)
    for what, path in outputs.files():
        console.print(f"{what:<11}{path}", highlight=False, soft_wrap=True, markup=False)
    if outputs.model is not None and (warning := file_text(replayed.result)):
        console.print(warning, style="yellow", highlight=False, soft_wrap=True, markup=False)
    return replayed


def _size(table: Table, logs: dict[str, Log], given: int | None, fewest: int, least: int) -> int:
    """Return the records a client and round: those given, or what makes about 100 rounds.

    Raises
    ------
    UsageError
        A round, or all that any client has, is less than what may leave a client.
    """
    if given is not None and given < least:
        what = f"--round-size {given} is below --least {least}, and of fewer records nothing leaves a client"
        raise UsageError(f"{what}; take larger rounds or a smaller --least")
    if max(len(log.rows) for log in logs.values()) < least:
        what = f"no client has {least} good records, and of fewer nothing leaves a client (--least)"
        raise UsageError(f"{table.name}: {what}; take fewer --clients or a smaller --least")
    return given or max(least, math.ceil(fewest / len(logs)), min(1000, len(table) // (len(logs) * ROUNDS_WANTED)))


def _title(replay: Replay) -> str:
    """Return what is learnt, by how many: a task that was guessed wrong should be seen at once."""
    labels = replay.table.labels
    task = f"classification, {counted(len(labels), 'label')}" if labels else "regression"
    amounts = len(labels) > MANY_LABELS and all(label.lstrip("-").isdecimal() for label in labels)
    hint = "; if they are amounts, say --task regression" if amounts else ""
    return f"{replay.table.name}: {counted(len(replay.logs), 'client')}, {task}{hint}"


def _watched(replay: Replay, injection: Injection | None, outputs: Outputs, console: Console) -> Replayed:
    drifts = dict.fromkeys(injection.rounds, injection.kind) if injection else {}
    with (
        Progress(console, replay.horizon, _title(replay)) as progress,
        _predictions(replay, outputs.predictions) as predictions,
    ):

        def observe(event: FromCoordinator | Refused | Predicted | PostUpdate) -> None:
            match event:
                case RoundOpened() if event.entry == 1:
                    progress.begin()
                case RoundClosed() if event.records:
                    if event.round in drifts:
                        progress.drift(event.round, drifts[event.round])
                    progress.round(round_line(event, replay.task))
                case Restarted():
                    progress.restart(restart_line(event, replay.time))
                case LocalDrift():
                    progress.told(local_text(event))
                case Noticed():
                    progress.told(notice_text(event.round, event.cause, event.since, event.labels))
                case Predicted() if predictions is not None:
                    predictions.take(event)
                case _:
                    pass

        replay.observe = observe
        return replay.run()


@contextmanager
def _predictions(replay: Replay, path: Path | None) -> Iterator[PredictionsFile | None]:
    with _opened(path) if path else nullcontext() as file:
        yield PredictionsFile(replay.table, dict(replay.logs), file) if file else None


def _write(replayed: Replayed, injection: Injection | None, outputs: Outputs) -> None:
    result = replayed.result
    if outputs.model is not None:
        replayed.model.save(outputs.model)
    if outputs.report is not None:
        drifts = injection.rounds if injection else ()
        page = render(result, drifts=drifts, title=f"streamfl: {result.source}")
        with _opened(outputs.report) as file:
            file.write(page)
    if outputs.json == "-":
        sys.stdout.write(as_json(result, per_round=outputs.per_round))
    elif outputs.json is not None:
        with _opened(Path(outputs.json)) as file:
            file.write(as_json(result, per_round=outputs.per_round))


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open a text file for writing; what the disk refuses is a UsageError."""
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def as_json(result: Result, *, per_round: bool) -> str:
    """Return the result as `--json` writes it: what does not apply to the task is left out."""
    plain = {key: value for key, value in result.model_dump(mode="json").items() if value is not None}
    for key, figures in result.measures.items():
        of_ours = result.unlearnt is None  # River's have no file
        plain[key]["model_file"] = figures.model_file if of_ours else None
    if not per_round:
        plain["per_round"] = []
    return json.dumps(plain, indent=1) + "\n"
