"""The comparison as Markdown tables."""

from collections.abc import Sequence
from statistics import fmean

from streamfl_benchmarks.comparison import Line, Setting

HEADINGS = (
    "method", "accuracy", "vs adaptive", "loss", "detected", "delay", "false alarms", "restarts", "seconds"
)  # fmt: skip
LOCAL = ("precision", "recall", "accuracy, affected", "accuracy, others")


def tables(settings: Sequence[Setting]) -> str:
    """Return one table for each setting, and under them what the columns mean."""
    return "\n".join([*map(_table, settings), _note(max((s.lines[0].seeds for s in settings), default=0))])


def _table(setting: Setting) -> str:
    local = any(line.local for line in setting.lines)
    headings = [*HEADINGS[:-1], *(LOCAL if local else ()), HEADINGS[-1]]
    rows = [_row(_cells(line, local=local)) for line in setting.lines]
    ruler = _row(["---", *["---:"] * (len(headings) - 1)])
    beside = f"NoChange: {setting.no_change:.4f}"
    return "\n".join([f"### {setting.title}\n", _row(headings), ruler, *rows, "", beside, ""])


def _cells(line: Line, *, local: bool) -> list[str]:
    constants = f" ({'; '.join(line.variants)})" if line.variants else ""
    return [
        f"{line.method}{constants}",
        line.accuracy.text,
        "" if line.against is None else f"{line.against.mean:+.4f}{_half(line)}",
        f"{line.loss:.4f}",
        f"{len(line.delays)} of {line.drifts}",
        f"{fmean(line.delays):.1f}" if line.delays else "-",
        "-" if line.false_alarms is None else f"{line.false_alarms:.1f}",
        f"{line.restarts:.1f}",
        *(("-" if x is None else f"{x:.3f}" for x in line.local or (None,) * 4) if local else ()),
        f"{line.seconds:.1f}",
    ]


def _half(line: Line) -> str:
    spread = line.against.spread if line.against else None
    return "" if spread is None else f" ± {spread:.4f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _note(seeds: int) -> str:
    spread = (
        f"Means over {seeds} seeds. Accuracy: ± one standard deviation; vs adaptive: paired by seed, ± half of a 95% "
        "t-interval."
        if seeds > 1
        else "One seed: no spread is known."
    )
    return (
        f"{spread} In brackets: the constants that were best in hindsight. Detected: drifts found up to 5 rounds "
        "late (gradual: 50 after its end); delay: rounds, 0 is the first. False alarms and restarts: per run.\n"
    )
