"""How long a federation stops when one of its processes is killed and restarted at once."""

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from live.federation import Federation, Timed, World, federation
from live.records import arriving, clients

CLIENTS = 10
SIZE, RATE = 50, 2000.0  # four rounds a second
KINDS = ("coordinator", "client")
BETWEEN = 24  # rounds between two kills: time to catch up
MOST = 100_000  # records a client: enough for eight minutes


def recovery(world: World, runs: int, done: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the times of each kill, one federation for all of them."""
    wanted = [(kind, run) for run in range(1, runs + 1) for kind in KINDS]
    wanted = [(kind, run) for kind, run in wanted if f"{kind} | run {run}" not in done]
    if not wanted:
        return
    tables = {
        "federation": {"expect": CLIENTS},
        "rounds": {"clock": "records", "size": SIZE, "quorum": "all", "deadline": 0},
    }
    with federation(world, tables) as live, arriving(live, clients(CLIENTS), MOST, RATE):
        running = {kind: live.start(kind) for kind in KINDS}
        live.when("RoundClosed", 60)
        for kind, run in wanted:
            for _ in range(BETWEEN):
                live.when("RoundClosed", 60)
            yield f"{kind} | run {run}", _killed(live, running, kind)


def _killed(live: Federation, running: dict[str, Any], kind: str) -> dict[str, Any]:
    victim = running[kind]
    killed = time.time()
    victim.kill()
    live.processes.remove(victim)
    started = time.time()
    running[kind] = live.start(kind)
    closed = _next_round(live, kind, killed)
    return {"from_kill": closed.at - killed, "from_start": closed.at - started}


def _next_round(live: Federation, kind: str, killed: float) -> Timed:
    """Return the first round closed with the new process."""
    if kind == "coordinator":
        return next(t for t in live.new_messages(60) if type(t.message).__name__ == "RoundClosed" and t.at > killed)

    def by_the_new(closed: Any) -> bool:  # an attempt begins with the start time of the client in microseconds
        return closed.records and all(int(a.attempt.partition(".")[0]) > 1e6 * killed for a in closed.accepted)

    return live.when("RoundClosed", 60, by_the_new)


def table(done: dict[str, Any]) -> list[str]:
    lines = []
    for kind in KINDS:
        found = [one for name, one in done.items() if name.startswith(f"{kind} | run ")]
        if not found:
            continue
        kill, start = (sorted(one[name] for one in found) for name in ("from_kill", "from_start"))
        lines.append(
            f"| {kind} | {median(kill):.2f} [{kill[0]:.2f}, {kill[-1]:.2f}]"
            f" | {median(start):.2f} [{start[0]:.2f}, {start[-1]:.2f}] | {len(found)} |"
        )
    head = [
        "| killed and started again | from the kill to the next RoundClosed, s | from the start | kills |",
        "| --- | --- | --- | --- |",
    ]
    return head + lines if lines else []
