"""Records per second from the log until learnt, next to a consumer that only reads, decodes and keeps them."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from live.federation import Federation, World, delete, federation, fresh, logged
from live.processes import Process
from live.records import clients, produced
from streamfl.protocol.messages import RoundClosed, RoundOpened

BARE = Path(__file__).with_name("bare.py")
CLIENTS = 10
PATIENCE = 600.0  # seconds for one run

# Records a client: a run of a few seconds in either format.
EACH = {"json": 20_000, "packed": 60_000}


@dataclass(frozen=True)
class Case:
    """One federation: the form of the records, the size of a client's part of a round, and the profile."""

    form: str
    size: int
    profile: str = "adaptive"

    @property
    def key(self) -> str:
        return f"{self.form}, rounds of {self.size}, {self.profile}"


CASES = (
    Case("json", 1000),
    Case("json", 100),
    Case("json", 1000, "paper"),
    Case("packed", 1000),
    Case("packed", 100),
    Case("packed", 1000, "paper"),
)


def measure(world: World, runs: int, done: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each run of each case and of the bare consumer, in turn, so that all see the same machine."""
    prefix = fresh("bench-records")
    written: set[str] = set()
    try:
        for run in range(1, runs + 1):
            for form in EACH:
                cases = [case for case in CASES if case.form == form]
                jobs = {f"{form}, bare": None} | {case.key: case for case in cases}
                missing = {key: job for key, job in jobs.items() if f"{key} | run {run}" not in done}
                if missing and form not in written:
                    _write(world, prefix, form)
                    written.add(form)
                for key, case in missing.items():
                    found = _bare(world, prefix, form) if case is None else _live(world, prefix, case)
                    yield f"{key} | run {run}", found
    finally:
        delete(world.bootstrap, lambda topic: topic.startswith(prefix))


def _each(world: World, form: str) -> int:
    return world.size(EACH[form])


def _topics(prefix: str, form: str) -> str:
    return f"{prefix}.{form}."


def _write(world: World, prefix: str, form: str) -> None:
    with federation(world, {"records": {"topics": [_topics(prefix, form) + "*"], "format": form}}) as writer:
        produced(writer, clients(CLIENTS), _each(world, form), end=True)


def _bare(world: World, prefix: str, form: str) -> dict[str, Any]:
    log = world.folder / f"{fresh('bare')}.log"
    records = CLIENTS * _each(world, form)
    process = Process([sys.executable, str(BARE), world.bootstrap, _topics(prefix, form), form, str(records)], log)
    process.wait(PATIENCE)
    found: dict[str, Any] = json.loads(log.read_text().splitlines()[-1])
    return found | {"rate": found["records"] / found["seconds"]}


def _live(world: World, prefix: str, case: Case) -> dict[str, Any]:
    tables: dict[str, dict[str, Any]] = {
        "federation": {"min_clients": CLIENTS},
        "rounds": {"clock": "records", "size": case.size, "quorum": "all", "deadline": 0},
        "records": {"topics": [_topics(prefix, case.form) + "*"], "format": case.form},
        "profile": {"profile": case.profile},
    }
    with federation(world, tables) as live:
        coordinator = live.start("coordinator", "--until-end")
        client = live.start("client", "--until-end")
        client.wait(PATIENCE)
        coordinator.wait(60)
        return _account(live, coordinator, client)


def _account(live: Federation, coordinator: Process, client: Process) -> dict[str, Any]:
    """Return the rates of one run.

    `rate` counts from the assignment of the first partition, that of the bare consumer from its first poll.
    `rounds` counts from the first RoundOpened, when the first buffers are full already. `steady` leaves out the first
    round and what came before it.
    """
    published = live.messages()
    closed = [
        (t.at, t.message.records) for t in published if isinstance(t.message, RoundClosed) and t.message.records
    ]
    opened = next(t.at for t in published if isinstance(t.message, RoundOpened))
    records = sum(count for _, count in closed)
    taken = min(at for at, _ in logged(client.log, "partition taken"))
    (first, count), (last, _) = closed[0], closed[-1]
    return {
        "records": records,
        "rounds_closed": len(closed),
        "rate": records / (last - taken),
        "rounds": records / (last - opened),
        "steady": (records - count) / (last - first) if len(closed) > 1 else None,
        "whole_seconds": last - min(coordinator.began, client.began),
        "client_cpu": client.cpu,
        "coordinator_cpu": coordinator.cpu,
    }


def table(done: dict[str, Any]) -> list[str]:
    """Return the lines of the results."""
    head = [
        "| records | a second | bare consumer | ratio | from the first RoundOpened | whole, s | CPU of both, s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines: list[str] = []
    for case in CASES:
        runs = _runs(done, case.key)
        bare = _runs(done, f"{case.form}, bare")
        both = sorted(runs.keys() & bare.keys())
        if not both:
            continue
        ratios = sorted(runs[i]["rate"] / bare[i]["rate"] for i in both)
        of = {name: median(runs[i][name] for i in both) for name in runs[both[0]] if runs[both[0]][name] is not None}
        lines.append(
            f"| {case.key} | {of['rate']:,.0f} | {median(bare[i]['rate'] for i in both):,.0f}"
            f" | {median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}], {len(both)} runs"
            f" | {of['rounds']:,.0f} | {of['whole_seconds']:.1f}"
            f" | {of['client_cpu']:.1f} + {of['coordinator_cpu']:.1f} |"
        )
    return [*head, *lines, *_packed_beside_json(done)] if lines else []


def _packed_beside_json(done: dict[str, Any]) -> list[str]:
    lines = []
    for name in ("bare", *(f"rounds of {c.size}, {c.profile}" for c in CASES if c.form == "json")):
        ours, theirs = _runs(done, f"packed, {name}"), _runs(done, f"json, {name}")
        ratios = sorted(ours[i]["rate"] / theirs[i]["rate"] for i in ours.keys() & theirs.keys())
        if ratios:
            lines.append(f"Packed beside JSON, {name}: {median(ratios):.1f} [{ratios[0]:.1f}, {ratios[-1]:.1f}].")
    return ["", *lines] if lines else []


def _runs(done: dict[str, Any], key: str) -> dict[int, dict[str, Any]]:
    return {int(name.rpartition(" ")[2]): found for name, found in done.items() if name.startswith(f"{key} | run ")}
