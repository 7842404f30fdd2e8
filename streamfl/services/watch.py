"""`streamfl watch`: the rounds and restarts of a live federation, in a terminal."""

from collections.abc import Iterable

from rich.console import Console

from streamfl.core.protocol.messages import (
    Ended,
    FromCoordinator,
    Joined,
    Left,
    LocalDrift,
    MemberChanged,
    Noticed,
    Refusal,
    Restarted,
    RoundClosed,
    RoundOpened,
)
from streamfl.display import local_text, notice_text, restart_text
from streamfl.report.changes import sentence
from streamfl.report.words import count


def watch(messages: Iterable[FromCoordinator], console: Console, *, rounds: int | None = None) -> None:
    """Print a line for every round, restart and change of membership, until `rounds` rounds were seen.

    A restart, and clients that drift alone, are also told in a sentence.

    Parameters
    ----------
    messages
        The coordinator's messages, in order.
    console
        Where to print.
    rounds
        How many rounds to show; None continues for ever.
    """
    seen = 0
    for message in messages:
        text, style = line(message)
        if text:
            console.print(text, style=style, highlight=False, soft_wrap=True, markup=False)
        seen += isinstance(message, RoundClosed) and message.records > 0
        if rounds is not None and seen >= rounds:
            return


def standing(name: str, opened: RoundOpened | None) -> str:
    """Return the line with which watching begins: how far the federation is, and what comes next.

    >>> standing("forest", None)
    'forest: no round is open; the coordinator opens the first one when all clients that it expects have joined'
    """
    if opened is None:
        wait = "the coordinator opens the first one when all clients that it expects have joined"
        return f"{name}: no round is open; {wait}"
    return f"{name}: round {count(opened.round)} is open, epoch {opened.epoch}; a line follows when it has closed"


def line(message: FromCoordinator) -> tuple[str, str]:
    """Return the line for a message, and its style; empty for messages that only machines need.

    >>> line(Left(client="c3", nonce="7f"))
    ('c3 left', 'dim')
    """
    match message:
        case RoundClosed() if message.records:
            return _round(message), ""
        case Restarted():
            return f"{restart_text(message)}\n{sentence(message)}", "bold red"
        case LocalDrift(state="latched"):
            return f"{local_text(message)}\n{sentence(message)}", "bold yellow"
        case LocalDrift():
            return local_text(message), "bold yellow"
        case Noticed():
            return notice_text(message), "yellow"
        case Joined():
            return f"{message.client} joined, {count(message.read)} records accounted for", "dim"
        case Left():
            return f"{message.client} left", "dim"
        case MemberChanged():
            about = f"{message.client}: " if message.client else ""
            return f"{about}{message.action}, by an operator, from entry {message.entry} on", "bold yellow"
        case Ended():
            return "the federation has ended", "dim"
        case Refusal():
            return f"{message.client} {refusal_text(message)}", "bold red" if message.evicted else "yellow"
    return "", ""


def refusal_text(refusal: Refusal) -> str:
    r"""Return a refusal as text, on one line whatever the reason contains.

    >>> refusal_text(Refusal(client="c3", incarnation=1, entry=7, reason="a loss of\nNaN"))
    'refused for entry 7: a loss of NaN'
    """
    reason = " ".join(refusal.reason.split())
    return reason if refusal.evicted else f"refused for entry {refusal.entry}: {reason}"


def _round(closed: RoundClosed) -> str:
    served = closed.served
    parts = [f"round {closed.round:>4}", f"epoch {closed.epoch}", f"loss {closed.losses[closed.serves]:.3f}"]
    if served.records and served.absolute_error == 0.0:
        parts.append(
            f"accuracy {served.correct / served.records:.3f}  NoChange {served.no_change / served.records:.3f}"
        )
    elif served.records:
        error, change = served.absolute_error / served.records, served.no_change / served.records
        parts.append(f"error {error:.4g}  NoChange {change:.4g}")
    parts.append(f"{count(closed.records)} records of {len(closed.accepted)} clients")
    if closed.rejected:
        parts.append(f"{count(closed.rejected)} rejected")
    marks = [one.mark for one in closed.accepted if one.mark is not None]
    for name in ("expired", "unmatched", "repeated"):
        if total := sum(getattr(mark, name) for mark in marks):
            parts.append(f"{count(total)} {name}")
    if closed.refused:
        parts.append(f"{count(closed.refused)} messages refused")
    return "  ".join(parts)
