"""What a sample of records and labels says of a federation that repartitions them: clients, and which labels fit."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from streamfl.runtime.log.repartitioning.ids import partition_of_client
from streamfl.runtime.log.repartitioning.whose import Whose
from streamfl.runtime.log.sample import listed
from streamfl.runtime.ports import CheckResult

Read = Sequence[tuple[Whose, int]]
"""Whose each message is, and when it was written, in milliseconds."""

# The most clients that a finding names, the share of records of no client above which it warns, and that of labels
# with a record below which it warns.
CLIENTS_LISTED, FEW, ENOUGH = 100, 0.01, 0.5

# How many times later than the latest that finds its record, or sooner than the soonest, another label may come:
# among few records only labels with a short delay find theirs. docs/choices.md, "What init takes from messages".
WIDER = 2

# Seconds for which records wait beyond the delay of labels: see docs/kafka.md.
GRACE = 60.0


@dataclass(frozen=True, slots=True)
class Matched:
    """Records that were looked at, and labels."""

    # How many there are with an id.
    records: int
    labels: int
    delays: tuple[float, ...]  # how many seconds after its record each label came that found one, sorted
    missing: int  # how many labels find no record, although theirs would be among those looked at
    rate: float  # the records a second
    examples: tuple[str, str]  # the ids of a record and of a label, or "" for none

    @property
    def share(self) -> float:
        """Return the share of labels that find a record, of those whose record would be among those looked at."""
        return len(self.delays) / (len(self.delays) + self.missing) if len(self.delays) + self.missing else 0.0

    def __str__(self) -> str:
        """Return how many labels find their records, and how late they come."""
        found = len(self.delays)
        text = f"{found:,} of {found + self.missing:,} labels find their record among {self.records:,} records"
        if self.delays:
            first, half, last = self.delays[0], median(self.delays), self.delays[-1]
            text += f", {first:.3g} to {last:.3g} s after it (half of them within {half:.3g} s)"
        more = self.labels - found - self.missing
        return text + (f"; the records of {more:,} more were probably not looked at" if more else "")


def rate_of(partitions: Iterable[Sequence[float]]) -> float:
    """Return the messages a second, from when those of each partition were written, in milliseconds.

    Those of less than a second tell nothing: they may have been written at once.

    >>> rate_of([[0, 1000, 2000], [0, 500, 2000], [0, 7], [7], []])
    2.0
    """
    spans = [(len(times), max(times) - min(times)) for times in partitions if times]
    return sum(1000 * (count - 1) / span for count, span in spans if span >= 1000)


def unseen_span(oldest: Iterable[Sequence[float]], newest: Iterable[Sequence[float]]) -> tuple[float, float]:
    """Return since when and until when some partition has records that were not looked at; (0, 0) for never.

    Parameters
    ----------
    oldest, newest
        When those were written that were looked at, partition by partition; if all were, they are the newest.

    >>> unseen_span([[0, 1], [0, 3], []], [[7, 9], [5, 9], [2, 9]]), unseen_span([[]], [[0, 9]])
    ((1, 7), (0, 0))
    """
    between = [(max(first), min(last)) for first, last in zip(oldest, newest, strict=True) if first and last]
    return (min(since for since, _ in between), max(until for _, until in between)) if between else (0, 0)


def match(records: Read, labels: Read, rate: float = 0.0, without: tuple[float, float] = (0, 0)) -> Matched:
    """Join labels to records by their ids.

    Parameters
    ----------
    rate
        The records a second.
    without
        Since when and until when there are records that were not looked at, in milliseconds.

    >>> found = match([(Whose("m1", "P1"), 0), (Whose("m2", "P2"), 1000)], [(Whose("", "P2"), 5000)])
    >>> found.labels, found.delays, found.missing
    (1, (4.0,), 0)
    """
    at: dict[str, int] = {}
    for one, time in records:
        at.setdefault(one.id, time)
    ids = [(one.id, time) for one, time in labels if one.id]
    delays = sorted(time - at[key] for key, time in ids if key in at)
    lonely = [time for key, time in ids if key not in at]
    span = (min(time for _, time in records), max(time for _, time in records)) if delays else None
    first = next((one.id for one, _ in records if one.id), "")
    return Matched(
        sum(bool(one.id) for one, _ in records),
        len(ids),
        tuple(delay / 1000 for delay in delays),
        len([*_missing(lonely, delays, span, without)]),
        rate,
        (first, ids[0][0] if ids else ""),
    )


def _missing(
    lonely: Iterable[int], delays: Sequence[int], span: tuple[int, int] | None, without: tuple[float, float]
) -> Iterator[int]:
    """Yield when those labels came whose record would be among those looked at, if its delay is like the others'.

    Parameters
    ----------
    lonely
        When labels came that find no record.
    delays, span
        The delays of the others, sorted, and when the first and the last record came; none without others.
    """
    ends = [delay * times for delay in (*delays[:1], *delays[-1:]) for times in (1 / WIDER, WIDER)] or [0]
    soonest, latest = min(ends), max(ends)
    for time in lonely:
        first, last = time - latest, time - soonest
        is_within = span is None or (span[0] <= first and last <= span[1])
        if is_within and (last <= without[0] or without[1] <= first):
            yield time


def clients_seen(records: Read) -> CheckResult:
    """Return the finding on the clients that some records name.

    >>> clients_seen([(Whose("m2"), 0), (Whose("m1"), 0), (Whose(reason="the client is missing"), 0)]).found
    '2 clients in 3 records: m1, m2; 1 names none: the client is missing'
    """
    names = sorted({one.client for one, _ in records} - {""})
    nobodys = [one.reason for one, _ in records if not one.client]
    if not records:
        remedy = "start what writes there; round 1 begins with min_clients clients"
        return CheckResult("clients", "warning", "no record yet", remedy)
    found = f"{len(names)} clients in {len(records):,} records: {listed(names, CLIENTS_LISTED)}"
    if not nobodys:
        return CheckResult("clients", "ok", found)
    found += f"; {len(nobodys):,} name{'s' * (len(nobodys) == 1)} none: {nobodys[0]}"
    if names and len(nobodys) <= FEW * len(records):
        return CheckResult("clients", "ok", found)
    remedy = "correct clients in [records]; records without a client go to the dead-letter topic"
    return CheckResult("clients", "warning" if names else "error", found, remedy)


def labels_fit(found: Matched, needed: int, window: int) -> CheckResult:
    """Return the finding on labels.

    Parameters
    ----------
    needed, window
        How many records of a partition come until a label does, and how many the settings allow for.
    """
    if not found.labels:
        remedy = "start what writes there; nothing is learnt without labels"
        return CheckResult("labels", "warning", "no label with an id yet", remedy)
    if not found.delays and not found.missing:
        return CheckResult("labels", "warning", f"{found}", "check again when labels of newer records have come")
    if not found.delays:
        record, label = found.examples
        remedy = (
            f'name the field with the same in both as key in [labels]: a label has "{label}", a record "{record}"; '
            "if that is the same field, the labels are of records that were not looked at: check again later"
        )
        return CheckResult("labels", "error", f"{found}", remedy)
    text = f"{found}; `window` is {window:,}; {needed:,} records are enough"
    if needed > window:
        remedy = (
            f"raise window in [labels] to {needed} or more: so many records of a partition come until a label does"
        )
        return CheckResult("labels", "warning", f"{found}; window is {window:,}", remedy)
    if found.share < ENOUGH:
        remedy = "the others go to the dead-letter topic; see that each label has the id of its record"
        return CheckResult("labels", "warning", text, remedy)
    return CheckResult("labels", "ok", text)


def busiest(records: Read, partitions: int) -> float:
    """Return the share of the records that the busiest of so many partitions gets when they are repartitioned.

    >>> busiest([(Whose("m07"), 0), (Whose("m07"), 1), (Whose("m08"), 0)], partitions=12)
    0.6666666666666666
    """
    each = Counter(partition_of_client(one.client, partitions) for one, _ in records if one.client)
    return max(each.values()) / each.total() if each else 1.0


def needed_window(found: Matched, share: float) -> int:
    """Return how many records of the busiest partition come until all these labels have, and in a minute more.

    Parameters
    ----------
    share
        The share of the records that this partition gets.

    >>> needed_window(match([(Whose("m1", "P1"), 0)], [(Whose("", "P1"), 4000)], rate=2.0), share=0.5)
    384
    """
    # One position more for each transaction, of which there are at most five a second.
    each = found.rate * share + 5.0
    return ceil(each * (max(0.0, found.delays[-1] if found.delays else 0.0) + GRACE))
