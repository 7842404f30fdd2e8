"""What a sample of records and labels says of a federation that repartitions them: clients, and which labels fit."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from streamfl.runtime.log.repartitioning.whose import Whose
from streamfl.runtime.log.sample import listed
from streamfl.runtime.ports import CheckResult

Read = Sequence[tuple[Whose, int]]
"""Whose each message is, and when it was written, in milliseconds."""

# The most clients that a finding names, the share of records of no client above which it warns, and that of labels
# with a record below which it warns.
CLIENTS_LISTED, FEW, ENOUGH = 100, 0.01, 0.5

# Seconds for which records wait beyond the delay of labels: see docs/kafka.md.
GRACE = 60.0


@dataclass(frozen=True, slots=True)
class Matched:
    """Records and labels at one end of their topics."""

    # How many there are with an id.
    records: int
    labels: int
    delays: tuple[float, ...]  # how many seconds after its record each label came that found one, sorted
    rate: float  # the records a second
    examples: tuple[str, str]  # the ids of a record and of a label, or "" for none

    @property
    def share(self) -> float:
        """Return the share of labels that find a record."""
        return len(self.delays) / self.labels if self.labels else 0.0


def rate_of(partitions: Iterable[Sequence[float]]) -> float:
    """Return the messages a second, from when those of each partition were written, in milliseconds.

    Those of less than a second tell nothing: they may have been written at once.

    >>> rate_of([[0, 1000, 2000], [0, 500, 2000], [0, 7], [7], []])
    2.0
    """
    spans = [(len(times), max(times) - min(times)) for times in partitions if times]
    return sum(1000 * (count - 1) / span for count, span in spans if span >= 1000)


def matched(records: Read, labels: Read, rate: float = 0.0) -> Matched:
    """Join labels to records by their ids.

    >>> found = matched([(Whose("m1", "P1"), 0), (Whose("m2", "P2"), 1000)], [(Whose("", "P2"), 5000)])
    >>> found.labels, found.delays
    (1, (4.0,))
    """
    at: dict[str, int] = {}
    for one, time in records:
        at.setdefault(one.id, time)
    ids = [(one.id, time) for one, time in labels if one.id]
    delays = sorted((time - at[key]) / 1000 for key, time in ids if key in at and key)
    first = next((one.id for one, _ in records if one.id), "")
    return Matched(
        sum(bool(one.id) for one, _ in records), len(ids), tuple(delays), rate, (first, ids[0][0] if ids else "")
    )


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


def labels_fit(newest: Matched, oldest: Matched, window: int, partitions: int) -> Iterator[CheckResult]:
    """Yield findings on labels at both ends of their topics."""
    best = max(newest, oldest, key=lambda one: one.share)
    if not best.labels:
        remedy = "start what writes there; nothing is learnt without labels"
        yield CheckResult("labels", "warning", "no label with an id yet", remedy)
        return
    told = " and ".join(
        f"{len(end.delays)} of the {name} {end.labels} labels find a record among the {name} {end.records:,}"
        for name, end in (("newest", newest), ("oldest", oldest))
        if end.labels
    )
    if not best.delays:
        record, label = best.examples
        remedy = (
            f'name the field with the same in both as key in [labels]: a label has "{label}", a record "{record}"'
        )
        yield CheckResult("labels", "error", told, remedy)
        return
    first, half, last = best.delays[0], median(best.delays), best.delays[-1]
    late = f"{told}, {first:.3g} to {last:.3g} s later (half of them within {half:.3g} s)"
    needed = needed_window(best, partitions)
    if needed > window:
        remedy = (
            f"raise window in [labels] to {needed} or more: so many records of a partition come until a label does"
        )
        yield CheckResult("labels", "warning", late, remedy)
    elif best.share < ENOUGH:
        remedy = "the others go to the dead-letter topic, unless their records are older than those looked at"
        yield CheckResult("labels", "warning", late, remedy)
    else:
        yield CheckResult("labels", "ok", late)


def needed_window(found: Matched, partitions: int) -> int:
    """Return how many records of a partition come until nearly all labels have, and in a minute more.

    >>> needed_window(matched([(Whose("m1", "P1"), 0)], [(Whose("", "P1"), 4000)], rate=1.0), partitions=1)
    384
    """
    # One position more for each transaction, of which there are at most five a second.
    each = found.rate / partitions + 5.0
    return int(each * ((found.delays[-1] if found.delays else 0.0) + GRACE))
