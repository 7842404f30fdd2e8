"""Terminal output of a run: a live progress line, plain lines in a log, and a closing summary."""

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streamfl.run.evaluation.result import (
    BytesARecord,
    BytesBudget,
    Dated,
    DatedInputsMoved,
    DatedInputsStuck,
    DatedLocalDrift,
    DatedNotice,
    DatedRestart,
    Figures,
    Privacy,
    Result,
)
from streamfl.run.report.changes import moved_sentence, sentence, stuck_sentence
from streamfl.run.report.compared import texts
from streamfl.run.report.story import drifts_found, ledger, looks_ahead, unaccounted, useless
from streamfl.run.report.terminal import print_line
from streamfl.run.report.words import (
    again,
    beginning,
    count,
    counted,
    evidence,
    listed,
    model_named,
    outcome_text,
    quantity,
    same_drift,
    serves,
    share,
)
from streamfl.run.summary import RoundLine

_MISSING = "-"  # a terminal may support ASCII only
_LISTED = 5
_KEY = 11
_COLUMN = 13


class Progress:
    """Shows the progress of a run. Use it as a context manager and report every round to it.

    An interactive terminal shows one live line, with restarts and drifts printed above it. Any other output (a file,
    a pipe, a dumb terminal) gets one plain line for about every tenth of the run.

    Parameters
    ----------
    console
        Where to write; its clock gives the rate.
    rounds
        The number of rounds of the run; None if unknown.

    >>> import sys
    >>> console = Console(file=sys.stdout, force_terminal=False, get_time=lambda: 0.0)
    >>> with Progress(console, 1, "replay of covtype") as progress:
    ...     progress.drift(1, "class-swap")
    ...     progress.round(RoundLine(round=1, epoch=1, block=1, records=20, loss=0.25, accuracy=0.5))
    replay of covtype
    round 1  drift imposed: class-swap
    round 1/1  epoch 1  loss 0.250  accuracy 0.500  - records/s
    """

    def __init__(self, console: Console, rounds: int | None, title: str) -> None:
        self._console = console
        self._rounds = rounds
        self._title = title
        self._records = 0
        self._most = 0
        self._started = 0.0
        self._last: RoundLine | None = None
        self._printed = True
        self._live: Live | None = None

    def __enter__(self) -> Self:
        print_line(self._console, self._title, "bold")
        self._started = self._console.get_time()
        if self._console.is_interactive:
            self._live = self._started_live()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
        # Show the last round, above all if an error ended the run.
        if not self._printed:
            self._print_round()

    def __rich__(self) -> RenderableType:
        """Return the live line as it is now."""
        # The full line takes 98 columns. With 80 the bar is shorter and NoChange is left out; the summary has it.
        roomy = self._console.width >= 100
        text = Text(self._text(no_change=roomy), no_wrap=True, overflow="ellipsis")
        if not self._rounds:
            return text
        done = self._last.round if self._last else 0
        line = Table.grid(padding=(0, 1))
        line.add_row(ProgressBar(total=self._rounds, completed=done, width=12 if roomy else 8), text)
        return line

    def begin(self) -> None:
        """Start the clock of the rate: earlier work, such as compiling, does not count."""
        self._started = self._console.get_time()

    def round(self, line: RoundLine) -> None:
        """Report a closed round."""
        self._last, self._printed = line, False
        self._records += line.records
        self._most = max(self._most, line.records)
        if self._live is None and _due(line.round, self._rounds):
            self._print_round()

    def restart(self, restart: DatedRestart) -> None:
        """Print a restart."""
        print_line(self._console, restart_text(restart), "yellow")

    def announce(self, text: str) -> None:
        """Print an announcement other than a restart."""
        print_line(self._console, text, "yellow")

    def drift(self, at: int, kind: str = "") -> None:
        """Print that a drift is imposed."""
        print_line(self._console, f"round {count(at)}  drift imposed" + (f": {kind}" if kind else ""), "magenta")

    def _started_live(self) -> Live:
        # Standard output may carry the result as JSON, so it must not be redirected to the progress display.
        live = Live(
            self,
            console=self._console,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        return live

    def _print_round(self) -> None:
        self._printed = True
        print_line(self._console, self._text())

    def _text(self, *, no_change: bool = True) -> str:
        if self._last is None:
            return "waiting for the first round"
        seconds = self._console.get_time() - self._started
        line = self._last if no_change else replace(self._last, no_change=None)
        text = round_text(line, self._rounds, self._records / seconds if seconds > 0 else None)
        few = 2 * line.records < self._most  # figures of a few records are mostly chance
        return f"{text}  (only {counted(line.records, 'record')})" if few else text


def _due(at: int, rounds: int | None) -> bool:
    if rounds is None:  # 1, 2, ... 9, 10, 20, ... 90, 100, 200, ...: nine lines for each power of ten
        return set(str(at)[1:]) <= {"0"}
    return at == rounds or at % max(1, -(-rounds // 10)) == 0


def round_text(line: RoundLine, rounds: int | None, rate: float | None) -> str:
    """Return one round as a line.

    Parameters
    ----------
    rounds
        The number of rounds of the run; None if unknown.
    rate
        Records per second since the start; None before any time has passed.

    Returns
    -------
    str
        Round numbers are padded, so that lines are aligned.

    >>> line = RoundLine(round=7, epoch=1, block=1, records=9, loss=0.2, accuracy=0.7, no_change=0.38)
    >>> round_text(line, 103, 30000.0)
    'round   7/103  epoch 1  loss 0.200  accuracy 0.700  NoChange 0.380  30,000 records/s'
    """
    text = share if line.mae is None else quantity
    of = "" if rounds is None or line.round > rounds else f"/{rounds}"  # bad records may make a run longer
    parts = [f"round {line.round:>{max(len(of) - 1, 0)}}{of}", f"epoch {line.epoch}"]
    parts.append(f"loss {share(line.loss, _MISSING)}")
    named = (("accuracy", line.accuracy), ("MAE", line.mae), ("NoChange", line.no_change))
    parts += [f"{name} {text(value, _MISSING)}" for name, value in named if value is not None]
    parts.append(f"{_MISSING if rate is None else count(rate)} records/s")
    return "  ".join(parts)


def restart_text(restart: DatedRestart) -> str:
    r"""Return one restart as a line.

    Returns
    -------
    str
        The round, the new epoch, the evidence of the alarm, the model that the epoch starts with, and whether online
        models begin again.

    >>> text = restart_text(DatedRestart(round=32, epoch=2, cause="excess", statistic=113.8, threshold=9.21,
    ...                        chosen="scratch", since=32, clients=("c0", "c1"), labels=()))
    >>> print(*text.split("; "), sep="\n")
    round 32  drift since round 32, certain at 2 clients: drift score 114 (alarm at 9.2)
    epoch 2 begins with an untrained model (scratch)
    """
    where = f", certain at {counted(len(restart.clients), 'client')}" if restart.clients else ""
    time = f"  {restart.time}" if restart.time else ""
    what = "restart" if restart.cause in ("operator", "new-label") else "drift"
    return (
        f"round {count(restart.round)}{time}  {what} since {beginning(restart)}{where}{_labels(restart.labels)}"
        f"{same_drift(restart)}: {evidence(restart)}; epoch {restart.epoch} begins with {model_named(restart.chosen)}"
        f"{again(restart, '; ')}"
    )


def local_text(drift: DatedLocalDrift) -> str:
    r"""Return a local drift as a line; only the first one, state `latched`, comes with the evidence.

    >>> text = local_text(DatedLocalDrift(round=65, epoch=1, clients=("c3", "c7"), labels=("0", "1"), since=64,
    ...                                state="latched", statistic=23.4, threshold=9.21))
    >>> print(*text.split(": "), sep="\n")
    round 65  local drift, latched
    c3, c7 drifted alone (labels 0, 1) since round 64
    drift score 23.4 (alarm at 9.2)
    """
    if drift.state == "corrected":
        same = f"other clients have the same drift, first reported in round {count(drift.drift)}"
        return f"round {count(drift.round)}  not a local drift: {listed(drift.clients)} did not drift alone; {same}"
    why = ""
    if drift.state == "latched":
        why = f" since {beginning(drift)}{same_drift(drift)}: {evidence(drift)}"
        if drift.behind:
            why += f"; {counted(drift.behind, 'other client')} had no records of that time yet"
    what = f"{listed(drift.clients)} {outcome_text(drift.state, len(drift.clients))}".rstrip()
    labels = f" (labels {listed(drift.labels)})" if drift.labels else ""
    return f"round {count(drift.round)}  local drift, {drift.state}: {what}{labels}{why}"


def notice_text(notice: DatedNotice) -> str:
    """Return a change that is not a concept drift, such as a new class mix, as a line.

    >>> notice_text(DatedNotice(round=70, epoch=1, cause="class-mix", since=66, statistic=30.0, threshold=20.0,
    ...                              labels=("0",)))
    'round 70  the mix of classes has changed since round 66, labels 0 (class-mix): no drift, so no restart'
    """
    since = f"has changed since {beginning(notice)}{_labels(notice.labels)} ({notice.cause})"
    return f"round {count(notice.round)}  the mix of classes {since}: no drift, so no restart"


def announcement(found: Dated, clients: int | None = None) -> str:
    """Return an announcement as one sentence, in a federation of so many clients if that is known."""
    match found:
        case DatedNotice():
            return notice_text(found)
        case DatedInputsMoved():
            return moved_sentence(found, clients)
        case DatedInputsStuck():
            return stuck_sentence(found)
    return sentence(found, clients=clients)


def _labels(labels: Sequence[str]) -> str:
    return f", labels {listed(labels)}" if labels else ""


def summary(console: Console, result: Result, rejections: Sequence[str] = ()) -> None:
    """Print the result of a run, with NoChange next to every accuracy.

    Parameters
    ----------
    rejections
        The reasons of the first rejected records; `result.rejected` is their total. At most five are printed.
    """
    for heading in _measures(result):
        print_line(console, heading)
    for key, value in _lines(result):
        alarming = (key == "records" and unaccounted(result)) or (key == "unlearnt" and useless(result))
        print_line(console, f"{key:<{_KEY}}{value}", "red" if alarming else "")
        if key == "records":
            _list_rejections(console, rejections, result.rejected)
            if result.pending:
                print_line(
                    console,
                    f"{'':<{_KEY}}pending: a client's last records are not sent if they are fewer than --min-records"
                    + (f"; {count(result.answered)} of them predicted where they are" if result.answered else ""),
                )
            if result.ahead:
                print_line(console, f"{'':<{_KEY}}{looks_ahead(result.ahead)}", "yellow")
    for line in texts(result.comparison) if result.comparison else ():
        print_line(console, line)


def _list_rejections(console: Console, reasons: Sequence[str], total: int) -> None:
    for reason in reasons[:_LISTED]:
        print_line(console, f"{'':<{_KEY}}rejected: {reason}")
    rest = total - len(reasons[:_LISTED])
    if reasons and rest > 0:
        print_line(console, f"{'':<{_KEY}}... and {count(rest)} more")


def _measures(result: Result) -> list[str]:
    named = (("accuracy", result.accuracy, share), ("MAE", result.mae, quantity), ("RMSE", result.rmse, quantity))
    rows = [_row(name, *(text(v, _MISSING) for v in _moments(f))) for name, f, text in named if f is not None]
    return [_row("", "prequential", "round_start", "post_update", "NoChange"), *rows] if rows else []


def _moments(figures: Figures) -> tuple[float | None, ...]:
    return figures.prequential, figures.round_start, figures.post_update, figures.no_change


def _row(name: str, *cells: str) -> str:
    return f"{name:<{_KEY}}" + "".join(f"{cell:<{_COLUMN}}" for cell in cells).rstrip()


def _lines(result: Result) -> list[tuple[str, str]]:
    lines = [("loss", share(result.loss.prequential, _MISSING))]
    if result.kappa is not None:
        cohen, temporal = (share(k, _MISSING) for k in (result.kappa.cohen, result.kappa.temporal))
        lines.insert(0, ("kappa", f"Cohen {cohen}, temporal {temporal}"))
    rate = f"{result.seconds:,.1f} s, {count(result.records_per_second)} records/s"
    serving = [("serving", serves(result.serving))] if result.serving else []
    label = [("label", f'column "{result.label}"')] if result.label else []
    objective = [("objective", result.objective)] if result.objective else []
    return [
        *lines,
        *label,
        *objective,
        *serving,
        ("drifts", drifts_found(result)),
        ("restarts", _restarts(result.restarts)),
        ("records", ledger(result)),
        *([("labels", _late(result))] if result.label_delay else []),
        *([("infinite", f"{counted(result.infinite, 'value')}, treated as missing")] if result.infinite else []),
        *([("unlearnt", useless(result) or counted(result.unlearnt, "record"))] if result.unlearnt else []),
        ("rounds", count(result.rounds)),
        ("clients", count(result.clients)),
        *([("bytes", _bytes(result.bytes, result.clients))] if result.bytes else []),
        *([("budget", _budget(result.budget))] if result.budget else []),
        *([("privacy", _privacy(result.privacy))] if result.privacy else []),
        ("time", rate),
        ("model", f"sha256 {result.model_sha256}"),
    ]


def _bytes(bytes_: BytesARecord, clients: int) -> str:
    read = f"{bytes_.read_by_each(clients):.1f} read by its client ({bytes_.down:.1f} published, once for all)"
    return f"per record: {bytes_.up:.1f} sent, {read}; raw float32 would be {bytes_.raw:.0f}"


def _late(result: Result) -> str:
    late = f"{counted(result.label_delay or 0, 'record')} late"
    counts = f"{count(result.waiting or 0)} still waiting, {count(result.expired or 0)} expired"
    return f"{late}: {count(result.unanswered or 0)} answered before any model, {counts}"


def _privacy(privacy: Privacy) -> str:
    hidden = (
        "masked sums over at least"
        if privacy.secure_aggregation == "masked"
        else "sums without masks, as if over at least"
    )
    told = f"{hidden} {privacy.min_clients_per_sum} clients"
    if privacy.epsilon is None:
        return told
    about = counted(privacy.messages or 1, "message")
    return f"{told}; epsilon {privacy.epsilon:.2f} at delta {privacy.delta:g} for each record, which is in {about}"


def _budget(budget: BytesBudget) -> str:
    kept = f"exceeded {counted(budget.exceeded, 'time')}" if budget.exceeded else "kept"
    made = f"{counted(budget.coarser, 'update')} made coarser" if budget.coarser else "no update made coarser"
    return f"{budget.a_record:g} bytes per record of an update: {kept}; {made}"


def _restarts(restarts: Sequence[DatedRestart]) -> str:
    if not restarts:
        return "none"
    shown = ", ".join(f"round {count(r.round)} ({r.cause}, {r.chosen}{again(r, ', ')})" for r in restarts[:_LISTED])
    rest = len(restarts) - _LISTED
    return f"{count(len(restarts))}: {shown}" + (f" and {count(rest)} more" if rest > 0 else "")
