"""How soon the rounds of a federation of many clients close, if all of them join at once, and what each costs.

    PYTHONPATH=benchmarks python -m live.wide BOOTSTRAP --features rounds,auto --json wide.json

Each client has a backlog of records in one topic, keyed by client, when the coordinator and the hosts start; more
come at a steady rate. Seconds count from the start of the processes, by the times of messages. The CPU seconds of the
coordinator and of each host are read when the message of a closed round comes.
"""

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from growth import made
from live.federation import Federation, World, everything, federation, fresh
from live.processes import Process
from live.records import arriving, clients, produced
from streamfl.errors import PeerError
from streamfl.protocol.messages import Joined, RoundClosed
from streamfl_benchmarks import run_file
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Kept

FEATURES, LABELS, PARTITIONS = 10, 3, 16
BACKLOG = 20  # records of each client when the processes start
MOST = 1000  # more that it may get


@dataclass(frozen=True)
class Width:
    """How many clients there are, on how many hosts, what they learn, and how fast they get records."""

    features: str  # what models learn: `[learning] features`
    clients: int = 1000
    hosts: int = 2
    interval: float = 10.0  # seconds of a round
    rate: float = 1.5  # records a second of each client


def tables(width: Width) -> dict[str, dict[str, Any]]:
    """Return the settings; what they do not name is as by default."""
    return {
        "federation": {"min_clients": width.clients},
        "rounds": {"clock": "interval", "interval": width.interval},
        "records": {"topics": [fresh("records")], "clients": "message-key", "partitions": PARTITIONS},
        "learning": {"features": width.features},
    }


def measured(world: World, width: Width, rounds: int) -> dict[str, Any]:
    """Run a federation until so many rounds have closed, or the time is over; return what was heard and used."""
    names = clients(width.clients)
    table = made(width.clients * (BACKLOG + 100), FEATURES, LABELS, seed=1)
    with federation(world, tables(width)) as live:
        produced(live, names, BACKLOG, end=False, table=table)
        with arriving(live, names, MOST, width.rate * width.clients, table):
            began = time.time()
            hosts = [live.start("client", "--host", f"h{i}") for i in range(width.hosts)]
            found = heard(live, [live.start("coordinator"), *hosts], began, rounds)
        sizes = {of: size(world, topic) for of, topic in (("up", live.topics.updates), ("down", live.topics.control))}
    return {**vars(width), "seed": 1, **found, "bytes": sizes, "load": round(os.getloadavg()[1], 1)}


def heard(live: Federation, processes: Sequence[Process], began: float, rounds: int) -> dict[str, Any]:
    """Return when clients joined and rounds closed, and CPU seconds and memory of the coordinator and the hosts."""
    joined: list[float] = []
    closed: list[dict[str, Any]] = []
    try:
        for one in live.new_messages(60.0 * live.world.minutes):
            at = round(one.at - began, 2)
            if isinstance(one.message, Joined):
                joined.append(at)
            if isinstance(one.message, RoundClosed):
                accepted = one.message.accepted
                cpu = [round(process.usage().seconds, 2) for process in processes]
                closed.append({"at": at, "clients": len(accepted), "records": one.message.records, "cpu": cpu})
                print(closed[-1], flush=True)
            if len(closed) == rounds:
                break
    except PeerError as error:
        print(error)
    memory = [peak(process) for process in processes]
    return {
        "joined": [len(joined), min(joined, default=0.0), max(joined, default=0.0)],
        "closed": closed,
        "mb": memory,
    }


def peak(process: Process) -> int:
    """Return the most memory that a process has had, in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) // 1024


def size(world: World, topic: str) -> int:
    """Return the bytes of the values in a topic."""
    return sum(len(message.value or b"") for message in everything(world.bootstrap, topic))


def main() -> None:
    """Measure, and write a file of runs."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("bootstrap")
    words.add_argument("--features", default="rounds,auto")
    words.add_argument("--rounds", type=int, default=10)
    words.add_argument("--minutes", type=float, default=5.0, help="the most for each")
    words.add_argument("--json", type=Path, required=True)
    words.add_argument("--folder", type=Path, default=Path("results"))
    given = words.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    world = World(given.bootstrap, given.folder, tenth=False, minutes=given.minutes)
    found: list[Kept] = []
    for features in given.features.split(","):
        found.append(Kept(Origin.now("wide"), measured(world, Width(features), given.rounds)))
        run_file.write(given.json, found)


if __name__ == "__main__":
    main()
