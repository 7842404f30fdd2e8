"""How long labels wait, and how many are lost, where some records never come: docs/choices.md has the figures.

    python benchmarks/late_labels.py [RECORDS]

One client reads a record a second. A thousandth of the records cannot be read, one in a hundred comes up to half a
minute late, and three in a hundred have no label. Labels come about 40 seconds after their records, in any order, and
teach in rounds of 20.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from streamfl.machines.client.intake import waiting
from streamfl.machines.client.intake.waiting import Waiting
from streamfl.protocol.delayed import Answers, Half
from streamfl.protocol.records import Batch, Span

WINDOW, ROUND, DELAY = 10_000, 20, 40.0
BAD, LATE, UNLABELLED = 0.001, 0.01, 0.03


class Message(NamedTuple):
    """A record or a label: when it comes, whose it is, and when the log says that it was written."""

    at: float
    is_label: bool
    key: int
    written: float
    is_good: bool


@dataclass(frozen=True)
class World:
    """How clocks are wrong: labels' by so many seconds; records' for half a minute; and whether labels pause."""

    name: str
    labels: float = 0.0
    records: float = 0.0
    pauses: bool = False

    def messages(self, n: int) -> list[Message]:
        """Return all messages in the order in which they come."""
        rng = np.random.default_rng(1)
        found: list[Message] = []
        for key in range(n):
            at = key + (rng.uniform(5.0, 30.0) if rng.random() < LATE else 0.0)
            ahead = self.records if n // 4 <= key < n // 4 + 30 else 0.0
            is_good = rng.random() >= BAD
            found.append(Message(at, False, key, at + ahead, is_good))
            if rng.random() < UNLABELLED or (self.pauses and n // 2 <= key < n // 2 + 600):
                continue
            told = key + float(np.clip(rng.lognormal(math.log(DELAY), 0.4), DELAY / 4, DELAY * 4))
            found.append(Message(told, True, key, told + self.labels, is_good))
        return sorted(found)


WORLDS = (
    World("clocks agree"),
    World("labels' clock an hour behind, 600 records without labels", labels=-3600.0, pauses=True),
    World("labels' clock two minutes behind, the same", labels=-120.0, pauses=True),
    World("records' clock an hour ahead for 30 s, the same", records=3600.0, pauses=True),
)


def half(message: Message, position: int) -> Batch:
    """Return the half that a message holds."""
    kind, n = ("labels", 1) if message.is_label else ("features", int(message.is_good))
    keys = np.array([str(message.key)][:n], dtype=np.object_)
    written = np.array([round(1000.0 * message.written) + 10**9][:n], np.int64)
    columns, labels = (0, ("a",)) if message.is_label else (1, ())
    return Batch(
        Span(kind, position, position + 1),
        np.array([position][:n], np.int64),
        ("x",)[:columns],
        np.ones((n, columns)),
        np.zeros(n),
        labels,
        half=Half("labels" if message.is_label else "features", keys, written),
        answers=None if message.is_label else Answers(np.zeros(n), np.zeros(n), ("a",)),
    )


def run(messages: Sequence[Message]) -> tuple[int, int, float, float]:
    """Return how many labels of good records have taught nothing, of how many; mean and longest wait in seconds."""
    client, pending = Waiting(WINDOW), list[Batch]()
    positions, came, waits, learnt = [0, 0], dict[int, Message](), list[float](), set[int]()
    for message in messages:
        position = positions[message.is_label]
        positions[message.is_label] += 1
        if message.is_label:
            came[position] = message
            client.take_labels(half(message, position))
        else:
            client.take_features(half(message, position))
        joined = client.joined()
        pending += joined
        for batch in joined:
            learnt.update(batch.positions.tolist())
            done = [*batch.positions.tolist(), *(bad.position for bad in batch.rejected)]
            waits += [message.at - came[one].at for one in done]
        if sum(map(len, pending)) >= ROUND and (watermark := client.after(pending)) is not None:
            client.follow(watermark.after(client.watermark), pending[-1].span.end)
            pending = []
    lost = sum(one.is_good for position, one in came.items() if position not in learnt)
    return lost, len(came), float(np.mean(waits)), max(waits)


def main() -> None:
    """Print a row for each world and each choice."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    for world, (slack, near) in product(
        WORLDS, ((60, 100), (30, 100), (120, 100), (60, 50), (60, 200), (10**9, 100))
    ):
        with patch.object(waiting, "SLACK", 1000 * slack), patch.object(waiting, "NEAR", near):
            lost, labels, mean, longest = run(world.messages(n))
        print(f"{world.name}: slack {slack} s, window / {near}: {lost} of {labels} lost, ", end="")
        print(f"waits {mean:.1f} s, {longest:.0f} s at most", flush=True)


if __name__ == "__main__":
    main()
