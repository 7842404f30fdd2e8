"""Compares the findings of a method with the imposed drifts."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from streamfl.run.evaluation.result import DatedLocalDrift
from streamfl_benchmarks.drawn import BLEND, DrawnStream, affected
from streamfl_benchmarks.meter import Meter

LATE = 5  # rounds after a drift in which finding it is no false alarm
LATE_AFTER_BLEND = 50
NAMED_WITHIN = 2
NAMES = {"latched", "branched", "returned"}  # states of clients that surely drifted, or drifted back


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Found(_Part):
    """A restart or a local finding: its round, and its cause (`local`: some clients only)."""

    round: int
    cause: str
    chosen: str | None = None
    since: int | None = None


class Local(_Part):
    """The quality of local findings.

    `precision`, `recall`: of the clients named two rounds after each drift; None if there are none to divide by.
    `affected`, `others`: accuracy on the records of those concerned by the latest drift, and of all others.
    """

    precision: float | None
    recall: float | None
    affected: float | None
    others: float | None


def window(stream: DrawnStream, drift: int) -> range:
    """Return the rounds in which a drift, counted from 0, may be found: up to 5 rounds late, or to the next one.

    >>> window(DrawnStream("covtype", "class-swap", (10, 12)), 0), window(DrawnStream("covtype", "gradual", (10,)), 0)
    (range(10, 12), range(10, 160))
    """
    begins = stream.at[drift]
    late = BLEND - 1 + LATE_AFTER_BLEND if stream.drift == "gradual" else LATE
    following = stream.at[drift + 1] if drift + 1 < len(stream.at) else stream.rounds + 1
    return range(begins, min(begins + late + 1, following))


def detections(stream: DrawnStream, found: Sequence[Found]) -> tuple[int | None, ...]:
    """Return the delay of each drift in rounds, 0 for its first round; None if it was not found.

    A change of the class mix is not a concept drift, so finding one is not a detection.

    >>> stream = DrawnStream("covtype", "class-swap", (65, 187))
    >>> detections(stream, [Found(round=t, cause="glr") for t in (67, 68, 193)])
    (2, None)
    """
    rounds = sorted(f.round for f in found if f.cause != "class-mix")
    firsts = (next((t for t in rounds if t in window(stream, i)), None) for i in range(len(stream.at)))
    return tuple(None if t is None else t - at for t, at in zip(firsts, stream.at, strict=True))


def false_alarms(stream: DrawnStream, found: Sequence[Found]) -> int:
    """Count the rounds with a finding and no drift in them or the 5 before (gradual: in its course or the 50 after).

    New labels and changes of the class mix are reported as such and do not count.

    >>> stream = DrawnStream("covtype", "class-swap", (65,))
    >>> false_alarms(stream, [Found(round=t, cause="glr") for t in (64, 65, 70, 71, 71)])
    2
    """
    rounds = {f.round for f in found if f.cause not in {"class-mix", "new-label"}}
    return len(rounds.difference(*(window(stream, i) for i in range(len(stream.at)))))


def local_findings(drifts: Sequence[DatedLocalDrift]) -> list[Found]:
    """Return the rounds in which clients were named, or found to be back; a branch was already named when latched.

    >>> def line(t, state):
    ...     return DatedLocalDrift(
    ...         round=t, epoch=1, clients=("c3",), labels=(), since=t, state=state, statistic=11.0, threshold=9.2)
    >>> [f.round for f in local_findings([line(65, "latched"), line(68, "branched"), line(90, "merged")])]
    [65]
    """
    latched: set[str] = set()
    found = []
    for line in drifts:
        if line.state in {"latched", "returned"} or (line.state == "branched" and set(line.clients) - latched):
            found.append(Found(round=line.round, cause="local", since=line.since))
        latched = latched | set(line.clients) if line.state == "latched" else latched - set(line.clients)
    return found


def local_figures(stream: DrawnStream, drifts: Sequence[DatedLocalDrift], meter: Meter) -> Local:
    """Return the quality of findings on a stream of kind `local`."""
    named = [named_by(drifts, at, at + NAMED_WITHIN) for at in stream.at]
    true = [affected(stream, drift + 1) for drift in range(len(stream.at))]
    hits = sum(len(n & t) for n, t in zip(named, true, strict=True))
    theirs, others = (0, 0), (0, 0)
    for drift, concerned in enumerate(true):
        ends = stream.at[drift + 1] if drift + 1 < len(stream.at) else stream.rounds + 1
        rounds = range(stream.at[drift], ends)
        theirs = _added(theirs, meter.accuracy(concerned, rounds))
        others = _added(others, meter.accuracy(set(meter.names) - concerned, rounds))
    return Local(
        precision=_share(hits, sum(map(len, named))),
        recall=_share(hits, sum(map(len, true))),
        affected=_share(*theirs),
        others=_share(*others),
    )


def named_by(drifts: Sequence[DatedLocalDrift], first: int, last: int) -> frozenset[str]:
    """Return the clients named, or found to be back, from round `first` to `last`, released again or not.

    Both a false finding and a drift back end with a release, so releases are ignored.
    """
    named = [line.clients for line in drifts if first <= line.round <= last and line.state in NAMES]
    return frozenset(client for clients in named for client in clients)


def _added(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
