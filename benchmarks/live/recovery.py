"""How long a federation stops when one of its processes is killed: restarted at once, or with one that stands by."""

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from live.federation import Federation, Timed, World, federation, logged
from live.processes import Process
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
    return {one.client: int(one.attempt.partition("-")[0]) for one in closed.accepted}


def _next_round(live: Federation, kind: str, killed: float, before: dict[str, int]) -> Timed:
    """Return the first round closed with the new process."""
    if kind == "coordinator":
        return _next_closed(live, killed)

    def by_the_new(closed: Any) -> bool:
        new = {one.client: int(one.attempt.partition("-")[0]) for one in closed.accepted if one.records}
        return bool(new) and all(number > before.get(client, 0) for client, number in new.items())

    return live.when("RoundClosed", 60, by_the_new)


def _next_closed(live: Federation, killed: float) -> Timed:
    return next(t for t in live.new_messages(60) if type(t.message).__name__ == "RoundClosed" and t.at > killed)


# --- one that stands by ----------------------------------------------------------------------------------------

HEARD = "no other coordinator is heard"
MOST_AT_TAKEOVERS = 300_000  # records a client
ROUNDS_BETWEEN = 6


def takeover(world: World, runs: int, done: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the time of each kill of the coordinator while another one stands by, one federation for all of them.

    `unwanted` counts takeovers that no kill has caused, since the last one.
    """
    wanted = [f"kill {run}" for run in range(1, runs + 1) if f"kill {run}" not in done]
    if not wanted:
        return
    tables = {
        "federation": {"expect": CLIENTS},
        "rounds": {"clock": "records", "size": SIZE, "quorum": "all", "deadline": 0},
    }
    with federation(world, tables) as live, arriving(live, clients(CLIENTS), MOST_AT_TAKEOVERS, RATE):
        serves = live.start("coordinator", "--standby")
        live.start("client")
        live.when("RoundClosed", 60)
        stands_by = live.start("coordinator", "--standby")
        _until_it_stands_by(stands_by)
        expected = _takeovers(serves)
        for name in wanted:
            for _ in range(ROUNDS_BETWEEN):
                live.when("RoundClosed", 60)
            unwanted = _takeovers(serves) + _takeovers(stands_by) - expected
            killed = time.time()
            serves.kill()
            live.processes.remove(serves)
            closed = _next_closed(live, killed)
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
    kills = sorted(one["from_kill"] for name, one in done.items() if name.startswith("kill "))
    if not kills:
        return []
    unwanted = sum(one["unwanted"] for one in done.values())
    p99 = kills[max(0, -(-99 * len(kills) // 100) - 1)]
    return [
        "| from the kill to the next RoundClosed, s: median | 99% | longest | kills | takeovers without a kill |",
        "| --- | --- | --- | --- | --- |",
        f"| {median(kills):.2f} | {p99:.2f} | {kills[-1]:.2f} | {len(kills)} | {unwanted} |",
    ]


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
