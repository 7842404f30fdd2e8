"""Whether all is well with a federation, and why not, in one line."""

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from streamfl.records.values.times import iso
from streamfl.run.page.view import ClientView, View
from streamfl.run.report.words import count, counted, ending, listed, measured

# A federation has stalled if its log is silent for this many times as long as usual, or as clients gather records
# for the open round, and for a minute at least.
TIMES, MINUTE = 10, 60_000

# A client is missing after this many rounds; so large a part of rejected records is worth a look.
MISSING, REJECTED = 3, 0.1

# Clients that are named.
NAMED = 3


def stalled_minutes(view: View, now: int | None) -> int:
    """Return for how many minutes a federation has stalled; 0 if it has not, or if nobody can tell.

    Parameters
    ----------
    now
        Milliseconds since 1970; None in a view of the past.
    """
    if now is None or not view.time or view.phase == "ended":
        return 0
    silence = now - view.time
    return silence // MINUTE if silence > max(MINUTE, TIMES * _usual(view)) else 0


def usually(view: View) -> float | None:
    """Return how many milliseconds usually lie between two entries; None if there are too few to tell."""
    times = [line.time for line in view.lines if line.time]
    return median(later - sooner for sooner, later in pairwise(times)) if len(times) > 2 else None


def _usual(view: View) -> float:
    known = usually(view)
    return max(MINUTE if known is None else known, view.closes)


def health(view: View, now: int | None = None, *, is_silent: bool = False) -> tuple[str, str]:
    """Return in one line whether all is well, and how it is marked: `well`, `warns` or `stalled`.

    Nothing is said before the first round and after the last. That nothing is learnt any more is said by the rule by
    which the coordinator is not ready.

    Parameters
    ----------
    now
        Milliseconds since 1970; None in a view of the past.
    is_silent
        Whether the log does not answer.
    """
    if is_silent:
        return "Unknown: the log does not answer; look at the brokers.", "stalled"
    if minutes := stalled_minutes(view, now):
        usual = f"usually one comes every {length(_usual(view))}"
        what = f"no entry has come since {iso(view.time / 1000.0)}, for {counted(minutes, 'minute')}; {usual}"
        return f"Stalled: {what}. {_waits(view)}", "stalled"
    if view.phase == "ended" or not view.entry:
        return "", ""
    if (reason := view.barren.reason) is not None:
        return f"Stalled: {reason}.", "stalled"
    if not view.closed:
        return "", ""
    if troubles := list(_troubles(view)):
        return f"Not all is well: {'; '.join(troubles)}.", "warns"
    return (
        f"All is well: {counted(view.present, 'client')} took part; predictions are no worse than NoChange.",
        "well",
    )


def length(milliseconds: float) -> str:
    """Return a time in seconds or minutes.

    >>> length(400.0), length(10_800.0), length(300_000.0)
    ('1 second', '11 seconds', '5 minutes')
    """
    seconds = max(1, round(milliseconds / 1000.0))
    return counted(seconds, "second") if seconds < 120 else counted(round(seconds / 60), "minute")


def _waits(view: View) -> str:
    if not view.present:
        return "No client takes part."
    what = "clients to score candidate models" if view.phase == "scoring" else "updates of clients"
    return f"Round {count(view.open_round)} waits for {what}; look at their processes, and at the coordinator's."


def _troubles(view: View) -> Iterator[str]:
    """Yield what is not well, the most urgent first."""
    clients = view.clients.values()
    if out := [one for one in clients if one.state == "evicted" or (one.state == "present" and _is_refused(one))]:
        yield f"the coordinator refuses {_named([one.name for one in out])}"
    if (late := view.lateness.reason) is not None:
        yield late
    if gone := [one for one in clients if one.state == "present" and view.closed - one.waits_since >= MISSING]:
        yield f"{_named([one.name for one in gone])} missed the last {MISSING} rounds or more"
    if alone := [card.change for card in view.cards if card.is_apart]:
        names = [name for change in alone for name in change.clients]
        yield f"{_named(names, sum(change.of_clients for change in alone))} drifted alone"
    if not view.present:
        yield "no client takes part"
    ours, naive = view.mean_lately
    if ours is not None and naive is not None and (ours > naive if view.is_regression else ours < naive):
        model, baseline = (measured(value, of_errors=view.is_regression) for value in (ours, naive))
        rounds = counted(len(view.lately), "round")
        yield f"predictions of the last {rounds} are worse than NoChange ({model}, NoChange {baseline})"
    bad, good = (sum(getattr(line.summary, name) for line in view.lines) for name in ("rejected", "records"))
    if bad > REJECTED * (bad + good):
        yield f"{bad / (bad + good):.0%} of the newest records were rejected"


def _is_refused(client: ClientView) -> bool:
    return client.refused > 0 and client.refused_in > client.learnt


def _named(names: list[str], of: int = 0) -> str:
    """Return clients by the ends of their names; they may be the first ones of more."""
    others = [""] * (of - len(names))
    return f"{counted(len(names + others), 'client')} ({listed([*map(ending, names), *others], NAMED)})"
