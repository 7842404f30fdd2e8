"""Streams of good and bad records in several partitions, and every way to cut them into batches."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from streamfl.protocol.records import Batch, Rejection, Span

FEATURES, LABELS = ("a", "b"), ("u", "v", "w")


@dataclass(frozen=True)
class Recorded:
    """One record: its place, and whether it is good."""

    partition: str
    position: int
    good: bool

    @property
    def row(self) -> list[float]:
        return [float(self.position), float(ord(self.partition))]

    @property
    def code(self) -> float:
        return float(self.position % 3)


@st.composite
def recordings(draw: st.DrawFn, most: int = 40, gaps: bool = True) -> list[Recorded]:
    """Return records in the order read; positions of a partition grow, with gaps where nothing was."""
    places: dict[str, int] = {}
    records = []
    for partition, good, gap in draw(
        st.lists(
            st.tuples(st.sampled_from("pq"), st.booleans() | st.just(value=True), st.sampled_from([0, 0, 0, 2])),
            max_size=most,
        )
    ):
        position = places.get(partition, 5) + (gap if gaps else 0)
        places[partition] = position + 1
        records.append(Recorded(partition, position, good))
    return records


def cuts() -> st.SearchStrategy[set[int]]:
    """Return where batches end besides the places where the partition changes."""
    return st.sets(st.integers(1, 40), max_size=12)


def batches_of(records: list[Recorded], cut: set[int]) -> list[Batch]:
    """Return the records as batches that end at the cuts and where the partition changes."""
    groups: list[list[Recorded]] = []
    for i, record in enumerate(records):
        if not groups or i in cut or groups[-1][-1].partition != record.partition:
            groups.append([])
        groups[-1].append(record)
    ends: dict[str, int] = {}
    batches = []
    for group in groups:
        partition, end = group[0].partition, group[-1].position + 1
        good = [r for r in group if r.good]
        batches.append(
            Batch(
                span=Span(partition, ends.get(partition, 5), end),
                positions=np.array([r.position for r in good], dtype=np.int64),
                features=FEATURES,
                X=np.array([r.row for r in good]).reshape(len(good), 2),
                y=np.array([r.code for r in good]),
                labels=LABELS,
                rejected=tuple(Rejection(r.position, "bad") for r in group if not r.good),
            )
        )
        ends[partition] = end
    return batches


def recorded_in(batches: list[Batch] | tuple[Batch, ...]) -> list[Recorded]:
    """Return the records of batches in the order of their positions, checking that their columns belong together."""
    found = []
    for batch in batches:
        name = batch.span.partition
        assert len(batch.positions) == len(batch.X) == len(batch.y) == len(batch)
        records = [Recorded(name, int(p), good=True) for p in batch.positions]
        assert [r.row for r in records] == batch.X.tolist()
        assert [r.code for r in records] == batch.y.tolist()
        records += [Recorded(name, r.position, good=False) for r in batch.rejected]
        assert all(batch.span.start <= r.position < batch.span.end for r in records)
        found += sorted(records, key=lambda r: r.position)
    return found
