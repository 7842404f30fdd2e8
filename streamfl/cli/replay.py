"""The commands `demo` and `replay`: deal a stream to clients, replay it, show progress, and write the outputs."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import numpy as np
from rich.console import Console

from streamfl.errors import UsageError
from streamfl.learning.model import Task
from streamfl.protocol.decisions import PostUpdate, Predicted, Refused
from streamfl.protocol.messages import (
    Ended,
    FromCoordinator,
    InputsMoved,
    InputsStuck,
    LocalDrift,
    Noticed,
    Restarted,
    RoundClosed,
    RoundOpened,
)
from streamfl.records.labels import doubt
from streamfl.records.table import Table
from streamfl.run.compare import Alternatives, RecordErrors
from streamfl.run.dealing.dealing import FEWEST, Log, client_column, deal
from streamfl.run.dealing.imposed_drift import Injection, inject
from streamfl.run.dealing.order import follow_each_other, row_times, usual_rounds
from streamfl.run.evaluation.result import Result
from streamfl.run.page.report import render
from streamfl.run.predictions.answers_file import AnswersFile
from streamfl.run.predictions.predictions_file import PredictionsFile
from streamfl.run.replay import Replay, Replayed, ReplaySettings
from streamfl.run.report.display import Progress, announcement, local_text, summary
from streamfl.run.report.story import file_text
from streamfl.run.report.terminal import print_line, write_output
from streamfl.run.report.words import counted
from streamfl.run.saved.own_files import check_own_files
from streamfl.run.settings import LearningSettings
from streamfl.runtime.log.recorded import Recorded

ALONE = "--min-records 1: an update may concern a single record, and the record can be computed from such an update"

COMPARING = "comparing with each client alone and with all records in one place: this takes about twice as long again"

ONE_BY_ONE = (
    "the rows of one client follow those of another, as if it had begun after the other had ended; if both recorded "
    "at the same time, name the column of times with --time"
)


@dataclass(frozen=True)
class Outputs:
    """The files that a command writes; None writes nothing."""

    json_to: str | None = None  # the result; `-` is standard output
    per_round: bool = False  # whether the JSON lists every round
    report: Path | None = None  # the HTML report
    model_out: Path | None = None  # the final model
    own_models_out: Path | None = None  # the folder for a file of each client, with what it alone knows
    # A CSV line per record: its number in the file, client, round, label and prediction.
    predictions: Path | None = None

    def files(self) -> list[tuple[str, Path]]:
        """Return the kind and path of each file that is written."""
        named = Path(self.json_to) if self.json_to not in (None, "-") else None
        places = {"json": named, "report": self.report, "model file": self.model_out, "predicted": self.predictions}
        return [(what, path) for what, path in places.items() if path is not None]

    def check(self, source: str) -> None:
        """Refuse, before anything runs, a path that cannot be written to, or that is in use.

        Raises
        ------
        UsageError
            The message names the first such path.
        """
        if self.json_to == "":
            raise UsageError("--json: the file name is empty; name a file, or - for standard output")
        taken = {Path(source).resolve(): "this is the input file"}
        for what, path in self.files():
            if path == Path("-"):
                raise UsageError(f"{what}: only --json can write to standard output; name a file")
            if path.is_dir() or not path.absolute().parent.is_dir():
                raise UsageError(f"{path}: no file can be written there; name a file in a directory that exists")
            if path.resolve() in taken:
                raise UsageError(f"{path}: {taken[path.resolve()]}; name another file")
            taken[path.resolve()] = "another output already writes this file"

    def check_models(self, learning: LearningSettings, task: Task) -> None:
        """Refuse files of models that have none.

        Raises
        ------
        UsageError
            The model is not one of streamfl's own, or clients have nothing of their own.
        """
        external = learning.external_model(task)
        if external is not None and self.model_out is not None:
            what = f"--model-out cannot save {external.name}, a model that is not streamfl's own"
            raise UsageError(f"{what}; leave it out")
        if self.own_models_out is not None:
            check_own_files(self.own_models_out, learning, task)


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
    answers: Path | None = None,
    page: str | None = None,
    compare: bool = False,
) -> Replayed:
    """Replay a table, with progress and a closing summary on the console, and write the outputs.

    With a page, which is the address of one, the run is shown there, and afterwards until Ctrl-C. With `compare` the
    result says how well others predict the same records: see `streamfl.run.compare`.

    Raises
    ------
    UsageError
        The split, the injection, an output or the address cannot be used.
    """
    outputs.check(source)
    outputs.check_models(settings.learning, "classification" if table.labels else "regression")
    if table.labels and (remark := doubt(table.label or "label", table.labels, table.y)):
        print_line(console, remark, "yellow")
    logs, asked = deal(table, clients, split, settings.seed), settings
    _check_size(table, logs, round_size, settings.min_records)
    fewest = FEWEST if injection is None else 1  # with --inject all rounds exist that it names
    size, period = usual_rounds(table, logs, round_size, min_records=settings.min_records, fewest=fewest)
    if settings.min_records == 1:
        print_line(console, ALONE)
    if settings.interval is not None:
        _check_interval(table, is_idle=round_size is not None or injection is not None)
    if injection is not None:
        logs = inject(table, logs, injection, size, settings.seed)
    elif settings.interval is None and answers is None and period is not None:
        _tell_period(table, logs, period, console)
        settings = replace(settings, interval=period)
    ways = Alternatives(table, logs, asked, round_size) if compare else None
    replay = Replay(
        table,
        logs,
        replace(settings, round_size=size),
        client_column=client_column(split),
        answers=_recorded(table, logs, settings, answers),
    )
    if injection is not None:
        _check_rounds(injection, replay, size)
    _remark(replay, console)
    with _page(table.name, page, console) as show:
        replayed = _watched(replay, injection, outputs, console, show, ways)
        if outputs.own_models_out is not None:
            replay.save_own_models(replayed, outputs.own_models_out)
        _finish(replayed, table, injection, outputs, console)
    return replayed


def _remark(replay: Replay, console: Console) -> None:
    """Print what is known of the profile and of the table before anything runs."""
    if outlook := replay.profile().outlook():
        print_line(console, outlook)
    for note in replay.table.notes:
        print_line(console, f"{replay.table.name}: {note}", "yellow")


def _finish(
    replayed: Replayed, table: Table, injection: Injection | None, outputs: Outputs, console: Console
) -> None:
    """Print the summary and write the outputs."""
    summary(console, replayed.result, rejections=[r.reason for r in table.rejected[:5]])
    _write(replayed, injection, outputs)
    for what, path in outputs.files():
        print_line(console, f"{what:<11}{path}")
    if outputs.own_models_out is not None:
        print_line(console, f"own files   {outputs.own_models_out}")
    if outputs.model_out is not None or outputs.own_models_out is not None:
        told, is_worse = file_text(replayed.result)
        print_line(console, told, "yellow" if is_worse else "")


@contextmanager
def _page(name: str, address: str | None, console: Console) -> Iterator[Callable[[FromCoordinator], None]]:
    """Show a run as a page, if there is an address: while the block continues, and until Ctrl-C after it.

    Yields
    ------
    What is to be called with every message of the coordinator.
    """
    if address is None:
        yield lambda message: None
        return
    from streamfl.live.page.service import shown  # noqa: PLC0415  needs the extra page
    from streamfl.live.page.source import PageSource  # noqa: PLC0415

    source = PageSource(name)
    with shown(source, address) as url:
        print_line(console, f"page        {url}")
        yield source.history.hear
        source.history.hear(Ended(entry=source.history.now.entry + 1))
        print_line(console, f"the page stays available at {url} until Ctrl-C")
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(1.0)


def _recorded(
    table: Table, logs: dict[str, Log], settings: ReplaySettings, answers: Path | None
) -> dict[str, Recorded]:
    """Return the answers that count, by client; nothing without a file of answers.

    Raises
    ------
    UsageError
        The answers are not those to these records, or labels come with their records.
    """
    if answers is None:
        return {}
    if not settings.label_delay:
        raise UsageError("--answers needs delayed labels; add --label-delay N, with N at least 1")
    return AnswersFile.load(answers, targets=not table.labels).recorded(logs)


def _check_size(table: Table, logs: dict[str, Log], given: int | None, min_records: int) -> None:
    """Check that rounds can have so many records, and clients have them.

    Raises
    ------
    UsageError
        A round, or all records of every client, are fewer than `min_records`.
    """
    if given is not None and given < min_records:
        what = (
            f"--round-size {given} is below --min-records {min_records}, the minimum number of records in an update"
        )
        raise UsageError(f"{what}; choose larger rounds or a smaller --min-records")
    if max(len(log.rows) for log in logs.values()) < min_records:
        what = f"no client has {min_records} valid records, the minimum for an update (--min-records)"
        raise UsageError(f"{table.name}: {what}; choose fewer --clients or a smaller --min-records")


def _check_rounds(injection: Injection, replay: Replay, size: int) -> None:
    """Check that the run is long enough for all imposed drifts."""
    if injection.rounds[-1] > replay.horizon:
        what = f"{replay.table.name} has only {replay.horizon} rounds of {size} records per client"
        raise UsageError(f"--inject wants a drift at round {injection.rounds[-1]}, but {what}; name earlier rounds")


def _check_interval(table: Table, *, is_idle: bool) -> None:
    """Check that rounds by event time can be made, and that no option is given which has no effect then."""
    if not len(table.times):
        raise UsageError(
            f"{table.name}: rounds by event time need the times of the records; name their column with --time"
        )
    if np.isnan(table.times).all():
        why = next((note for note in table.notes if "cannot be read" in note), "they are all missing")
        raise UsageError(
            f"{table.name}: rounds by event time need the times of the records, and none can be read: {why}"
        )
    if is_idle:
        raise UsageError(
            "--interval makes rounds by event time, so --round-size and --inject have no effect; leave them out"
        )


def _tell_period(table: Table, logs: dict[str, Log], period: float, console: Console) -> None:
    """Say how long a round by time is, where rounds of equal size would let models learn ahead."""
    at = row_times(table, logs)
    length = f"{period:g} seconds" if at is table.times else f"{period:g} rows of the file"
    print_line(console, f"clients have records at different rates, so a round takes those of {length}")
    if at is not table.times and follow_each_other(logs, at):
        print_line(console, ONE_BY_ONE, "yellow")


def _title(replay: Replay) -> str:
    """Return source, number of clients and task; a task that was guessed wrong is seen at once."""
    labels = replay.table.labels
    task = f"classification, {counted(len(labels), 'label')}" if labels else "regression"
    return f"{replay.table.name}: {counted(len(replay.logs), 'client')}, {task}"


def _watched(
    replay: Replay,
    injection: Injection | None,
    outputs: Outputs,
    console: Console,
    show: Callable[[FromCoordinator], None],
    ways: Alternatives | None,
) -> Replayed:
    missed = None if ways is None else RecordErrors()
    told, drifts = replay.history, dict.fromkeys(injection.rounds, injection.kind) if injection else {}
    with (
        Progress(console, replay.horizon, _title(replay)) as progress,
        _predictions(replay, outputs.predictions) as predictions,
    ):

        def observe(event: FromCoordinator | Refused | Predicted | PostUpdate) -> None:
            if isinstance(event, FromCoordinator):
                show(event)
            if missed is not None:
                missed.add(event)
            match event:
                case RoundOpened() if event.entry == 1:
                    progress.begin()
                case RoundClosed() if event.records:
                    if event.round in drifts:
                        progress.drift(event.round, drifts[event.round])
                    progress.round(told.rounds[-1])
                case Restarted():
                    progress.restart(told.restarts[-1])
                    progress.announce(told.changes[-1].sentence)
                case LocalDrift():
                    progress.announce(local_text(told.local_drifts[-1]))
                    if event.state == "latched":
                        progress.announce(told.changes[-1].sentence)
                case InputsMoved() | InputsStuck() | Noticed():
                    progress.announce(announcement(told.findings[-1], len(replay.logs)))
                case Predicted() if predictions is not None:
                    predictions.add(event)
                case _:
                    pass

        replay.observe = observe
        replayed = replay.run()
    if ways is None or missed is None:
        return replayed
    print_line(console, COMPARING)
    comparison = ways.compare(missed.of(replay.logs))
    return replace(replayed, result=replayed.result.model_copy(update={"comparison": comparison}))


@contextmanager
def _predictions(replay: Replay, path: Path | None) -> Iterator[PredictionsFile | None]:
    with _opened(path) if path else nullcontext() as file:
        yield PredictionsFile(replay.table, dict(replay.logs), file) if file else None


def _write(replayed: Replayed, injection: Injection | None, outputs: Outputs) -> None:
    result = replayed.result
    if outputs.model_out is not None:
        replayed.model.save(outputs.model_out)
    if outputs.report is not None:
        drifts = injection.rounds if injection else ()
        page = render(result, drifts=drifts, title=f"streamfl: {result.source}")
        with _opened(outputs.report) as file:
            file.write(page)
    if outputs.json_to == "-":
        write_output(as_json(result, per_round=outputs.per_round).rstrip())
    elif outputs.json_to is not None:
        with _opened(Path(outputs.json_to)) as file:
            file.write(as_json(result, per_round=outputs.per_round))


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open a text file for writing; an OSError becomes a UsageError."""
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def as_json(result: Result, *, per_round: bool) -> str:
    """Return the result as `--json` writes it, without the keys that do not apply to the task."""
    plain = {key: value for key, value in result.model_dump(mode="json").items() if value is not None}
    if not per_round:
        plain["per_round"] = []
    return json.dumps(plain, indent=1) + "\n"
