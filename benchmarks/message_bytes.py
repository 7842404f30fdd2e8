"""What the messages of a federation are made of, in bytes a record and by part, and what encoding them takes.

    python benchmarks/message_bytes.py covtype|FILE.npz... [--clients 20] [--size 100] [--rounds 24] [--records N]
        [--features auto] [--from 5] [--parts 12]

A file has `X` and `y`, whose records are dealt in turn, or what `bench federations --data` reads: these are split by
their clients, with the rounds of `replay` and the first `--records`. Bytes are those of all messages from round
`--from` on: what clients send, and what one client reads of what is published, both over its own records; JSON as
gzip makes it. Milliseconds are of one core: the median over the updates of the run.
"""

import argparse
import json
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from streamfl.protocol.messages import FromClient, FromCoordinator, RoundClosed, RoundOpened, Update
from streamfl.records.files.covtype import covtype
from streamfl.records.files.readers import read
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import Log, deal, usual_size
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.runtime.transport.traffic import Traffic
from streamfl.wire import array_bytes, compact, messages
from streamfl.wire.primitives import Bytes, floats_read, inflated, whole_read
from streamfl_benchmarks.natural.sources import sources

# The fields of whose parts each is counted apart.
GROUPS = ("numbers", "learnt", "agreed", "moments", "mixture", "far", "kept")


@dataclass
class Counted(Traffic):
    """The bytes of all messages from some round on, by part."""

    first: int = 1
    sent: Counter[str] = field(default_factory=Counter)
    published: Counter[str] = field(default_factory=Counter)
    milliseconds: list[float] = field(default_factory=list)
    entry: int = 0

    def shares(self, clients: int) -> tuple[Counter[str], Counter[str]]:
        """Return the bytes of each part over the records: sent, and read by a client over its own."""
        scaled = ((self.sent, 1.0), (self.published, float(clients)))
        up, reads = (Counter({part: by * n / self.records for part, n in each.items()}) for each, by in scaled)
        return up, reads

    def add(self, message: FromClient | FromCoordinator) -> None:
        """Count a message."""
        if isinstance(message, RoundOpened):
            self.entry = message.entry
        if self.entry < self.first:
            return
        began = process_time()
        data = messages.encode(message)
        if isinstance(message, RoundClosed):
            self.records += message.records
        if isinstance(message, Update) and message.records:
            self.milliseconds.append(1e3 * (process_time() - began))
        into, kind = self.sent if isinstance(message, FromClient) else self.published, type(message).__name__
        if isinstance(message, messages.MANY):
            into.update({f"{kind} {part}": size for part, size in parts_of(data).items()})
        else:
            into[kind] += messages.size_on_log(message, data)


def parts_of(data: bytes) -> dict[str, int]:
    """Return the bytes of each part of a message of the compact form."""
    left = Bytes(data)
    left.take(len(compact.MAGIC))
    packed = left.take(left.varint())
    text = inflated(packed, 10**7, compact.DICTIONARY)
    sizes = Counter({"text": left.at})
    for name, numbers in (("floats", floats_read), ("whole", whole_read)):
        at = left.at
        numbers(left)
        sizes[name] += left.at - at
    before: dict[tuple[int, ...], Any] = {}
    for name in _arrays(json.loads(text), ""):
        at = left.at
        x = array_bytes.read(left, before, 2**25)
        before.setdefault(x.shape, []).append(x)
        sizes[name] += left.at - at
    return dict(sizes)


def _arrays(plain: Any, name: str) -> Iterator[str]:
    if plain == compact.ARRAY:
        yield name
    elif isinstance(plain, dict):
        for key, item in plain.items():
            inner = key if name.rsplit(".", maxsplit=1)[-1] in ("", *GROUPS) else name
            yield from _arrays(item, f"{name}.{key}".lstrip(".") if inner == key else name)
    elif isinstance(plain, list):
        for item in plain:
            yield from _arrays(item, name)


def dealt(name: str, options: argparse.Namespace) -> tuple[Table, dict[str, Log], int]:
    """Return the records of a federation, the logs of its clients, and the records of a round."""
    path = Path(name)
    if path.suffix == ".npz" and "client" in np.load(path).files:
        table, logs = sources(path.parent)[path.stem.removeprefix("fed_")].dealt(options.records)
        return table, logs, usual_size(len(table.y), len(logs), min_records=10)
    table = read(name, label="y") if path.suffix else shuffled(covtype(), 0)
    n = options.size * options.rounds
    logs = deal(table, options.clients, "round-robin", 0)
    return table, {client: Log(log.rows[:n], log.y[:n]) for client, log in logs.items()}, options.size


def run(name: str, options: argparse.Namespace) -> None:
    """Run one federation, and print what its messages are made of."""
    table, logs, size = dealt(name, options)
    counted = Counted(first=options.first)
    learning = LearningSettings(features=options.features)
    replayed = Replay(table, logs, ReplaySettings(round_size=size, learning=learning), _traffic=counted).run()
    shares = counted.shares(len(logs))
    told = replayed.result.accuracy or replayed.result.mae
    right = "" if told is None else f"{'accuracy' if table.labels else 'MAE'} {told.prequential:.4f}"
    raw, (up, reads) = 4 * len(table.features), (sum(each.values()) for each in shares)
    print(
        f"{Path(name).stem}: {len(logs)} clients of {size}, raw {raw}, up {up:.1f}, read {reads:.1f}, {right}; "
        f"encoding {statistics.median(counted.milliseconds):.1f} ms an update",
        flush=True,
    )
    for way, each in zip(("up", "read"), shares, strict=True):
        print("   ", way, ", ".join(f"{part} {share:.2f}" for part, share in each.most_common(options.parts)))


def main() -> None:
    """Run all federations that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("federations", nargs="+")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--records", type=int, default=None)
    parser.add_argument("--features", default="auto")
    parser.add_argument("--from", type=int, default=5, dest="first")
    parser.add_argument("--parts", type=int, default=12)
    options = parser.parse_args()
    for name in options.federations:
        run(name, options)


if __name__ == "__main__":
    main()
