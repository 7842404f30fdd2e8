"""How long a federation stops when one of its processes is killed, and started again at once."""

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from live.federation import Federation, Timed, World, federation
from live.records import arriving, clients
from streamfl.protocol.messages import RoundClosed

CLIENTS = 10
SIZE, RATE = 50, 2000.0  # four rounds a second
TABLES: dict[str, dict[str, Any]] = {
    "federation": {"min_clients": CLIENTS},
    "rounds": {"clock": "records", "size": SIZE, "quorum": "all", "deadline": 0},
}
KINDS = ("coordinator", "client")
BETWEEN = 24  # rounds between two kills: time to catch up
MOST = 100_000  # records a client: enough for eight minutes


def recovery(world: World, runs: int, done: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the times of each kill, one federation for all of them."""
    wanted = [(kind, run) for run in range(1, runs + 1) for kind in KINDS]
    wanted = [(kind, run) for kind, run in wanted if f"{kind} | run {run}" not in done]
    if not wanted:
        return
    with federation(world, TABLES) as live, arriving(live, clients(CLIENTS), MOST, RATE):
        running = {kind: live.start(kind) for kind in KINDS}
        live.when("RoundClosed", 60)
        for kind, run in wanted:
            for _ in range(BETWEEN):
                live.when("RoundClosed", 60)
            yield f"{kind} | run {run}", _killed(live, running, kind)


def _killed(live: Federation, running: dict[str, Any], kind: str) -> dict[str, Any]:
    victim, before = running[kind], _incarnations(live)
    killed = time.time()
    victim.kill()
    live.processes.remove(victim)
    started = time.time()
    running[kind] = live.start(kind)
    closed = _next_round(live, kind, killed, before)
    return {"from_kill": closed.at - killed, "from_start": closed.at - started}


def _incarnations(live: Federation) -> dict[str, int]:
    """Return the incarnations of the clients whose records a new round has accepted."""
    closed = live.when("RoundClosed", 60, lambda closed: closed.records).message
    assert isinstance(closed, RoundClosed)
    return {one.client: int(one.attempt.partition("-")[0]) for one in closed.accepted}


def _next_round(live: Federation, kind: str, killed: float, before: dict[str, int]) -> Timed:
    """Return the first round closed with the new process."""
    if kind == "coordinator":
        return live.when("RoundClosed", 60, after=killed)

    def by_the_new(closed: Any) -> bool:
        new = {one.client: int(one.attempt.partition("-")[0]) for one in closed.accepted if one.records}
        return bool(new) and all(number > before.get(client, 0) for client, number in new.items())

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
