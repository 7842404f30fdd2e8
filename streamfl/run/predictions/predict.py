"""The command `predict`: predictions of a saved model for the records of a file, in batches."""

import csv
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO, TypeVar

import msgspec
import numpy as np
from rich.console import Console

from streamfl.arrays import FloatArray, IntArray
from streamfl.errors import UsageError
from streamfl.protocol.records import Rejection
from streamfl.records.assembly import Blocks, RowBlock
from streamfl.records.columns import NumberColumn, decimals
from streamfl.records.files.readers import STDIN, blocks
from streamfl.records.past_features import PastOfClients
from streamfl.records.request import Request
from streamfl.records.unusable_cells import UnusableCells
from streamfl.records.values.cells import NAMES, CellRules, Cells, listed, numbers, words
from streamfl.records.values.dates import Order
from streamfl.records.values.missing import Missing as MissingValues
from streamfl.records.values.numerals import Decimal
from streamfl.records.values.times import Notation
from streamfl.run.evaluation.errors import Errors
from streamfl.run.model_file import Missing, ServedModel, Unknown
from streamfl.run.report.terminal import print_line, standard_output
from streamfl.run.report.words import count, counted, quantity, share
from streamfl.run.saved.provenance import Provenance
from streamfl.runtime.clock import stopwatch

T = TypeVar("T")
R = TypeVar("R")

# Reasons of bad records that are shown.
SHOWN = 5


@dataclass(frozen=True)
class PredictRequest:
    """What `streamfl predict` was asked for."""

    request: Request  # the file to read
    model: Path  # the model file
    # Where predictions go: a path, `-` for standard output, or None.
    csv: str | None = None
    json: str | None = None
    # What becomes of columns that the file lacks, or that the model does not know: see `ServedModel.predict`.
    missing: Missing = "warn"
    unknown: Unknown = "raise"
    # The client of all records; None: the file says whose each record is, as in `ServedModel.predict`.
    client: str | None = None
    # How times are written; None: as in training.
    timezone: str | None = None
    date_order: Order | None = None

    def notation(self, model: ServedModel) -> Notation | None:
        """Return how the times are written that become features of a model; None: as in training.

        Raises
        ------
        UsageError
            Something was said of them, and the model takes no times.
        """
        given = {"zone": self.timezone, "order": self.date_order}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if changes and model.time_features is None:
            raise UsageError("the model takes no times; leave --timezone and --date-order out")
        return replace(model.time_features.notation, **changes) if changes and model.time_features else None

    @property
    def outputs(self) -> dict[str, str]:
        """Return where predictions go, by form: CSV to standard output if nothing else was asked for."""
        named = {form: to for form, to in (("csv", self.csv), ("json", self.json)) if to is not None}
        return named or ({} if self.request.labelled else {"csv": STDIN})

    def check(self) -> None:
        """Refuse, before anything is read, a path that cannot be written to, or that is in use.

        Raises
        ------
        UsageError
            The message names the first such path.
        """
        taken = {
            Path(self.request.source).resolve(): "this is the input file",
            self.model.resolve(): "this is the model file",
        }
        used: list[str] = []
        for form, to in self.outputs.items():
            if not to:
                raise UsageError(f"--{form}: the file name is empty; name a file, or - for standard output")
            path = Path(to)
            if to != STDIN and (path.is_dir() or not path.absolute().parent.is_dir()):
                raise UsageError(f"{to}: no file can be written there; name a file in a directory that exists")
            if to != STDIN and path.resolve() in taken:
                raise UsageError(f"{to}: {taken[path.resolve()]}; name another file")
            if to in used:
                raise UsageError(f"--csv and --json are both written to {to}; name two files")
            used.append(to)


@dataclass
class PredictionQuality:
    """How good the predictions are, next to NoChange: it repeats the label, or the target, of the record before."""

    task: str
    records: int = 0
    right: int = 0
    repeated: int = 0
    errors: Errors = field(default_factory=Errors)
    no_change: Errors = field(default_factory=Errors)
    _last: list[object] = field(default_factory=lambda: [None])

    def add(self, truth: Sequence[object], predicted: Sequence[object]) -> None:
        """Add predictions of consecutive records; the first record of all counts as wrong for NoChange."""
        if not truth:
            return
        before, self._last = [*self._last, *truth[:-1]], [truth[-1]]
        if self.task == "classification":
            self.right += sum(map(eq, truth, predicted))
            self.repeated += sum(map(eq, truth, before))
        else:
            y = np.array(truth, np.float64)
            first = before[0] is None
            self.errors.add(y, np.array(predicted, np.float64))
            self.no_change.add(y[first:], np.array(before[first:], np.float64))
        self.records += len(truth)

    def __str__(self) -> str:
        """Return the figures as one line."""
        if self.task == "classification":
            right, repeated = self.right / self.records, self.repeated / self.records
            return f"accuracy   {share(right)}  NoChange {share(repeated)}"
        mae, other = (quantity(mae) if mae is not None else "-" for mae in (self.errors.mae, self.no_change.mae))
        return f"MAE        {mae}  NoChange {other}"


def run_predict(asked: PredictRequest, console: Console) -> None:
    """Predict every record of a file, write the predictions, and tell how many there were.

    Raises
    ------
    UsageError
        The model, the file, a column or an output cannot be used.
    """
    asked.check()
    model, began = ServedModel.load(asked.model), stopwatch()
    if asked.client and model.clients_of_records.strangers([asked.client]):
        raise UsageError(
            f"--client {asked.client}: the run had no such client; its clients are {listed(model.clients)}"
        )
    notation = asked.notation(model)
    asked = replace(asked, request=replace(asked.request, wanted=frozenset(model.encoding.times)))
    with blocks(asked.request) as opened, _written(asked, model) as to:
        run = _Run(asked, model, opened, console, notation)
        for records, decided, probabilities, truth in run.predictions():
            for writer in to:
                writer.write(records, decided, probabilities, truth)
    run.tell(stopwatch() - began)


class _Part(NamedTuple):
    """Records that can be predicted: their numbers in the file, truths, features and values."""

    records: IntArray
    truth: list[object]
    features: tuple[str, ...]
    X: FloatArray
    by_branch: dict[str, IntArray]


def ahead(pool: Executor, function: Callable[[T], R], items: Iterable[T], most: int) -> Iterator[tuple[T, R]]:
    """Yield each item with what a function returns for it, in order, with at most this many under way."""
    waiting: deque[tuple[T, Future[R]]] = deque()
    for item in items:
        waiting.append((item, pool.submit(function, item)))
        if len(waiting) > most:
            first, future = waiting.popleft()
            yield first, future.result()
    for item, future in waiting:
        yield item, future.result()


@dataclass
class _Run:
    """One pass over a file."""

    asked: PredictRequest
    model: ServedModel
    opened: Blocks
    console: Console
    notation: Notation | None  # how times are written; None: as in training
    score: PredictionQuality = field(init=False)
    predicted: int = 0
    rejected: int = 0
    first: list[Rejection] = field(default_factory=list)
    _columns: set[str] = field(default_factory=set)
    _past: PastOfClients | None = None
    _warned: bool = False
    _unusable: UnusableCells = field(init=False)
    _decimals: dict[str, Decimal | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.score = PredictionQuality(self.model.task)
        self._unusable = UnusableCells(self.opened.unit)

    def predictions(self) -> Iterator[tuple[IntArray, Sequence[object], FloatArray, list[object]]]:
        """Yield the numbers of records in the file, predictions, their probabilities, and truths if there are any.

        Compiled loops let other threads run, so that each core predicts a block while the next one is read.
        """
        with ThreadPoolExecutor(cores := os.cpu_count() or 1) as pool:
            for part, predictions in ahead(pool, self._predicted, self._parts(), cores + 1):
                codes = self.model.codes_decided(predictions)
                told = predictions[np.arange(len(predictions)), codes]
                decided = self.model.named(codes) if self.model.labels else told.tolist()
                self.score.add(part.truth, decided)
                self.predicted += len(part.records)
                yield part.records, decided, told, part.truth
        if not self.predicted:
            raise self._nothing()

    def _predicted(self, part: "_Part") -> FloatArray:
        return self.model.predictions(part.features, part.X, part.by_branch)

    def _parts(self) -> Iterator["_Part"]:
        """Yield the good records of each block."""
        for block in self.opened.each:
            columns = self.model.with_client(block.features, len(block.places), self.asked.client)
            self._check_names(columns)
            features, X, odd = self._encoded(block, columns)
            truth, unusable = self._truth(block.label)
            self._reject(block, unusable | odd)
            good = np.array([i for i in range(len(block.places)) if i not in unusable], np.intp)
            whole = len(good) == len(block.places)
            X = X if whole else X[good]
            if self._past is not None:
                features, X = self._past.extended(self._clients(columns, good), features, X)
            truth = truth if whole else [truth[i] for i in good.tolist()] if truth else []
            by_branch = self.model.clients_of_records.rows(columns, len(block.places), self.asked.client)
            if not whole:
                by_branch = {client: np.flatnonzero(np.isin(good, rows)) for client, rows in by_branch.items()}
            yield _Part(block.places[good], truth, features, X, by_branch)

    def _encoded(
        self, block: RowBlock, columns: Mapping[str, Cells]
    ) -> tuple[tuple[str, ...], FloatArray, dict[int, str]]:
        """Return features and values, and, if bad records are to stop all, why records have cells that are odd."""
        request = self.asked.request
        if new := {name: cells for name, cells in columns.items() if name not in self._decimals}:
            self._decimals |= decimals(new, request.usual_decimal)
        reading = self._reading()
        features, X, odd = self.model.encoding.encoded(columns, reading, self._decimals, self.notation)
        for name, wrong in odd.items():
            times = name in self.model.encoding.times
            self._unusable.add(NumberColumn(name), columns[name], wrong, block.lines, times=times)
        if request.on_bad_record != "stop":
            return features, X, {}
        return features, X, {i: f'column "{name}": {why}' for name, wrong in odd.items() for i, why in wrong.items()}

    def _reading(self) -> CellRules:
        """Return how cells are read: as in training, unless the caller says what is missing."""
        request = self.asked.request
        changes = request.missing_values or self.model.missing_values
        return CellRules(MissingValues.of(changes), request.decimal)

    def _clients(self, columns: Mapping[str, Cells], rows: IntArray) -> list[str]:
        """Return whose records are, for what is made of those before: of one client, if nothing says."""
        column = self.model.client_column
        if self.asked.client is not None or column not in columns:
            return [""] * len(rows)
        names = words(columns[column], NAMES)
        return [names[i].removeprefix(f"{column}=") for i in rows.tolist()]

    def _begin_past(self, columns: Mapping[str, Cells]) -> None:
        """Begin to make the features of records before, unless the file has them."""
        past, encoding = self.model.past, self.model.encoding
        if past is None or {*columns} & {*past.names(encoding.features)}:
            return
        self._past = PastOfClients(past)
        column = self.model.client_column
        if column and column not in columns and self.asked.client is None:
            what = f"there is no column {column!r}, which would name their clients"
            self._say(f"{what}: all records count as those of one client, one after another", "yellow")

    def _with_past(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return columns with those features of the model that are made of records before."""
        made = () if self._past is None else {*self._past.past.names(columns)}
        return (*columns, *(name for name in self.model.encoding.features if name in made))

    def _check_names(self, columns: Mapping[str, Cells]) -> None:
        """Check all names of the first block, and those that are new in later ones."""
        if not self._columns:
            self._begin_past(columns)
        new = [name for name in columns if name not in self._columns]
        if not self._columns:
            lacking = self.model.check_names(self._with_past(new), self.asked.missing, self.asked.unknown, flags=True)
            if lacking:
                self._say(f"{lacking}; add --missing-columns mean if this is intended", "yellow")
        elif new and self.asked.unknown == "raise" and (others := self.model.encoding.unknown(new)):
            self.model.check_names((*self.model.encoding.columns, *others), flags=True)
        self._columns.update(new)
        if not self._warned and (unnamed := self.model.clients_of_records.warning(columns, self.asked.client)):
            remedy = "; if all records belong to one client, add --client" if self.asked.client is None else ""
            self._say(unnamed + remedy, "yellow")
            self._warned = True

    def _truth(self, cells: Cells) -> tuple[list[object], dict[int, str]]:
        """Return labels as text, or targets; and why some are none."""
        if not len(cells):
            return [], {}
        reading = self._reading()
        if self.model.task == "classification":
            labels: list[object] = [*words(cells, reading.keeping(self.model.labels))]
            return labels, {i: self._of_label("the label is missing") for i, label in enumerate(labels) if not label}
        mark = (
            reading.decimal
            or decimals({self.opened.label: cells}, self.asked.request.usual_decimal)[self.opened.label]
        )
        unit = self.model.units.get(self.model.label, "")
        targets, reasons = numbers(cells, replace(reading, decimal=mark, unit=unit))
        wrong = {i: self._of_label(why) for i, why in reasons.items()}
        none = "the target is missing or infinite"
        wrong |= {i: self._of_label(none) for i in np.flatnonzero(~np.isfinite(targets)).tolist() if i not in wrong}
        return targets.tolist(), wrong

    def _of_label(self, why: str) -> str:
        return f'column "{self.opened.label}": {why}'

    def _reject(self, block: RowBlock, reasons: dict[int, str]) -> None:
        unit = self.opened.unit
        found = [
            *block.rejected,
            *(Rejection(int(block.places[i]), f"{unit} {block.lines[i]}, {why}") for i, why in reasons.items()),
        ]
        found.sort(key=lambda rejection: rejection.position)
        if found and self.asked.request.on_bad_record == "stop":
            remedy = "correct it, or add --on-bad-record reject to go on without it"
            raise self.asked.request.refusal(found[0].reason, remedy)
        self.rejected += len(found)
        self.first.extend(found[: SHOWN - len(self.first)])

    def _nothing(self) -> Exception:
        if not self.first:
            return self.asked.request.refusal("it has no records", "give a file with at least one")
        what = (
            f"none of its {self.rejected} records can be used; the reason for the first one: {self.first[0].reason}"
        )
        return self.asked.request.refusal(what, "correct the file")

    def tell(self, seconds: float) -> None:
        """Print what was done."""
        if (made := self.model.provenance) is not None:
            worth = "" if made.file is None else f"; there its {made.measure} was {_worth(made)} on the last rounds"
            self._say(f"model      from {made.source}, {counted(made.records, 'record')}{worth}")
        rate = f", {count(round(self.predicted / seconds))} per second" if seconds > 0.0 else ""
        self._say(f"predicted  {counted(self.predicted, 'record')} in {seconds:.1f} s{rate}")
        for note in self._unusable.notes():
            self._say(f"           {note}", "yellow")
        if self.rejected:
            self._say(f"rejected   {counted(self.rejected, 'record')}", "yellow")
            for rejection in self.first:
                self._say(f"           {rejection.reason}", "yellow")
        if self.score.records:
            self._say(str(self.score))

    def _say(self, line: str, style: str = "") -> None:
        print_line(self.console, line, style)


def _worth(made: Provenance) -> str:
    return "-" if made.file is None else share(made.file) if made.measure == "accuracy" else quantity(made.file)


class _PredictionWriter(Protocol):
    def write(
        self, records: IntArray, decided: Sequence[object], probabilities: FloatArray, truth: Sequence[object]
    ) -> None:
        """Write the predictions of some records."""


@dataclass
class _Csv:
    """A CSV line a record: its number in the file, its label or target if given, the prediction, its probability."""

    to: TextIO
    labelled: bool
    is_classification: bool
    _begun: bool = False

    def __post_init__(self) -> None:
        self._csv = csv.writer(self.to, lineterminator="\n")

    def write(
        self, records: IntArray, decided: Sequence[object], probabilities: FloatArray, truth: Sequence[object]
    ) -> None:
        """Write the predictions of some records."""
        if not self._begun:  # an error before the first prediction leaves no half of a table
            names = ["label"] * self.labelled, ["predicted"], ["probability"] * self.is_classification
            self._csv.writerow(["record", *chain(*names)])
            self._begun = True
        label = [truth] if self.labelled else []
        probability = [_rounded(probabilities)] if self.is_classification else []
        self._csv.writerows(zip(records.tolist(), *label, decided, *probability, strict=True))


@dataclass
class _JsonLines:
    """A JSON object a record and line, with the same names as the columns of the CSV file."""

    to: TextIO
    labelled: bool
    is_classification: bool

    def write(
        self, records: IntArray, decided: Sequence[object], probabilities: FloatArray, truth: Sequence[object]
    ) -> None:
        """Write the predictions of some records."""
        columns: dict[str, Sequence[object]] = {"record": records.tolist()}
        columns |= {"label": truth} if self.labelled else {}
        columns |= {"predicted": decided}
        columns |= {"probability": _rounded(probabilities)} if self.is_classification else {}
        lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        self.to.writelines(
            f"{line}\n" for line in msgspec.json.Encoder().encode_lines(lines).decode().split("\n")[:-1]
        )


def _rounded(probabilities: FloatArray) -> list[float]:
    """Return probabilities in six decimals."""
    rounded: list[float] = probabilities.round(6).tolist()
    return rounded


@contextmanager
def _written(asked: PredictRequest, model: ServedModel) -> Iterator[list[_PredictionWriter]]:
    """Open the outputs."""
    labelled, is_classification = asked.request.labelled, model.task == "classification"
    with ExitStack() as stack:
        files = {form: stack.enter_context(_opened(to)) for form, to in asked.outputs.items()}
        yield [
            (_Csv if form == "csv" else _JsonLines)(file, labelled, is_classification) for form, file in files.items()
        ]


@contextmanager
def _opened(to: str) -> Iterator[TextIO]:
    """Open an output; an error of writing becomes a UsageError, but for a pipe that nothing reads any more."""
    try:
        if to == STDIN:
            yield standard_output()
            sys.stdout.flush()
        else:
            with Path(to).open("w", encoding="utf-8", newline="") as file:
                yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{to}: cannot be written: {error.strerror}") from error
