"""The cost of an idle federation."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from live.federation import Federation, World, federation
from live.processes import Process, Usage
from live.records import clients, produced

CLIENTS = 10
SIZE = 100
HOT = 3.0  # percent of a core above which threads are listed

# Records that each client learns first, as a process that has worked may idle differently.
BEFORE = 10_000

CLOCKS: dict[str, dict[str, Any]] = {
    "interval": {"clock": "interval", "interval": 10.0, "size": SIZE, "deadline": 1.0},
    "records": {"clock": "records", "size": SIZE, "deadline": 0},
}


def idle(world: World, _: int, done: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the CPU of each process, in percent of a core; both federations idle at the same time."""
    missing = [clock for clock in CLOCKS if f"clock {clock}" not in done]
    with ExitStack() as stack:
        running: dict[str, dict[str, Process]] = {}
        for clock in missing:
            tables = {"federation": {"min_clients": CLIENTS}, "rounds": CLOCKS[clock]}
            live = stack.enter_context(federation(world, tables))
            running[clock] = _started(live, world.size(BEFORE))
        if not missing:
            return
        time.sleep(5.0)
        before = {clock: {name: p.usage() for name, p in both.items()} for clock, both in running.items()}
        began = time.monotonic()
        _watch(running, 60 * world.minutes)
        seconds = time.monotonic() - began
        for clock, both in running.items():
            yield f"clock {clock}", {name: _cost(p, before[clock][name], seconds) for name, p in both.items()}


def _started(live: Federation, each: int) -> dict[str, Process]:
    """Return the processes of a federation that has learnt all its records."""
    produced(live, clients(CLIENTS), each, end=False)
    both = {"coordinator": live.start("coordinator"), "client": live.start("client")}
    seen = 0
    for published in live.new_messages(300):
        seen += getattr(published.message, "records", 0)
        if seen == CLIENTS * each:
            break
    return both


def _watch(running: dict[str, dict[str, Process]], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(min(1.0, max(0.0, until - time.monotonic())))
        for both in running.values():
            for process in both.values():
                process.require_alive()


def _cost(process: Process, before: Usage, seconds: float) -> dict[str, Any]:
    after = process.usage()
    percent = 100 * (after.seconds - before.seconds) / seconds
    of_threads = {t: 100 * (used - before.threads.get(t, 0.0)) / seconds for t, used in after.threads.items()}
    names = process.names() if percent > HOT else {}
    threads = [(names.get(t, str(t)), round(p, 2)) for t, p in sorted(of_threads.items(), key=lambda item: -item[1])]
    return {"percent": percent, "seconds": seconds, "hot": bool(names), "threads": threads}


def table(done: dict[str, Any]) -> list[str]:
    lines = []
    for clock in CLOCKS:
        if found := done.get(f"clock {clock}"):
            for name, cost in found.items():
                threads = "; ".join(f"{thread}: {p:.1f}" for thread, p in cost["threads"][:3] if cost["hot"])
                lines.append(f"| {name}, clock {clock} | {cost['percent']:.2f} | {cost['seconds']:.0f} | {threads} |")
    head = ["| idle | percent of a core | seconds | threads, if hot |", "| --- | --- | --- | --- |"]
    return head + lines if lines else []
