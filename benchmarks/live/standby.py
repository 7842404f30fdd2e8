"""Two coordinators, one of which stands by: how long a federation stops when the other is killed, and how often the
one takes over without need while other programs want all cores.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from live.federation import Federation, World, everything, federation, logged
from live.processes import Process
from live.records import arriving, clients
from live.recovery import CLIENTS, RATE, TABLES

MOST = 1_000_000  # records a client: enough for eighty minutes
ROUNDS_BETWEEN = 6  # between two kills
LATE = 0.15  # seconds between two heartbeats: half of `silence`
HEARD = "no other coordinator is heard"


@contextmanager
def pair(live: Federation) -> Iterator[tuple[Process, Process]]:
    """Run a federation with a coordinator that serves and one that stands by, while records arrive."""
    with arriving(live, clients(CLIENTS), MOST, RATE):
        serves = live.start("coordinator", "--standby")
        live.start("client")
        live.when("RoundClosed", 60)
        stands_by = live.start("coordinator", "--standby")
        _until_it_stands_by(stands_by)
        yield serves, stands_by


# --- kills -----------------------------------------------------------------------------------------------------


def takeover(world: World, runs: int, done: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the time of each kill of the coordinator while another one stands by, one federation for all of them.

    `unwanted` counts takeovers that no kill has caused, since the last one.
    """
    wanted = [f"kill {run}" for run in range(1, runs + 1) if f"kill {run}" not in done]
    if not wanted:
        return
    with federation(world, TABLES) as live, pair(live) as both:
        serves, stands_by = both
        expected = _takeovers(serves)
        for name in wanted:
            for _ in range(ROUNDS_BETWEEN):
                live.when("RoundClosed", 60)
            unwanted = _takeovers(serves) + _takeovers(stands_by) - expected
            killed = time.time()
            serves.kill()
            live.processes.remove(serves)
            closed = live.when("RoundClosed", 60, after=killed)
            heard, resumed = (logged(stands_by.log, event)[-1][0] - killed for event in (HEARD, "resumed"))
            serves, stands_by = stands_by, live.start("coordinator", "--standby")
            _until_it_stands_by(stands_by)
            expected = _takeovers(serves)
            phases = {"silent": heard, "resumed": resumed, "from_kill": closed.at - killed}
            yield name, phases | {"unwanted": unwanted}


def _takeovers(process: Process) -> int:
    return len(logged(process.log, HEARD))


def _until_it_stands_by(process: Process) -> None:
    until = time.monotonic() + 60.0
    while not logged(process.log, "standing by"):
        process.require_alive()
        if time.monotonic() > until:
            raise TimeoutError("a coordinator does not come to stand by")
        time.sleep(0.1)


def takeover_table(done: dict[str, Any]) -> list[str]:
    kills = [one for name, one in done.items() if name.startswith("kill ")]
    if not kills:
        return []
    rows = [
        "| from the kill, s | median | 90% | 99% | longest |",
        "| --- | --- | --- | --- | --- |",
    ]
    names = {"silent": "until nobody is heard", "resumed": "until the state is read", "from_kill": "to RoundClosed"}
    for phase, name in names.items():
        seconds = sorted(one[phase] for one in kills if phase in one)
        if seconds:
            late = np.quantile(seconds, [0.9, 0.99], method="inverted_cdf").tolist()
            figures = (median(seconds), *late, seconds[-1])
            rows.append(f"| {name} | " + " | ".join(f"{one:.2f}" for one in figures) + " |")
    unwanted = sum(one["unwanted"] for one in kills)
    return [*rows, "", f"{len(kills)} kills; takeovers without one: {unwanted}"]


# --- no kills --------------------------------------------------------------------------------------------------


def loaded(world: World, _: int, done: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield how often a coordinator was taken over that nobody has killed, while busy loops run."""
    busy = os.cpu_count() or 1 if world.load is None else world.load
    name = f"{world.minutes:g} minutes beside {busy} busy loops"
    if name in done:
        return
    with federation(world, TABLES) as live, pair(live) as (serves, stands_by):
        before, rounds, began = _takeovers(serves), 0, time.time()
        for number in range(busy):
            log = world.folder / f"{live.name}.busy.{number}.log"
            live.processes.append(Process(["python", "-c", "while True: pass"], log))
        while time.time() - began < 60 * world.minutes:
            live.when("RoundClosed", 60)
            rounds += 1
        unwanted = _takeovers(serves) + _takeovers(stands_by) - before
        gaps = _gaps(world.bootstrap, live.topics.heartbeats)
        yield (
            name,
            {
                "rounds": rounds,
                "unwanted": unwanted,
                "longest_gap": max(gaps),
                "gaps_over_half": sum(gap > LATE for gap in gaps),
            },
        )


def _gaps(bootstrap: str, topic: str) -> list[float]:
    """Return the seconds between heartbeats of the last minutes that the topic keeps."""
    return [
        after - before for before, after in pairwise(one.timestamp / 1000 for one in everything(bootstrap, topic))
    ]


def loaded_table(done: dict[str, Any]) -> list[str]:
    rows = [
        f"| {name} | {one['rounds']} | {one['unwanted']} | {one['longest_gap']:.2f} | {one['gaps_over_half']} |"
        for name, one in done.items()
    ]
    head = [
        "| time | rounds | takeovers | longest gap of heartbeats, s | gaps over 0.15 s |",
        "| --- | --- | --- | --- | --- |",
    ]
    return head + rows if rows else []
