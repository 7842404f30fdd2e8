"""A plant of many machines on a real broker, for an hour or less: what was learnt, what was told, what it cost.

    PYTHONPATH=benchmarks python -m live.plant BOOTSTRAP --minutes 60 --json plant.json

Readings are keyed by machine in one topic, results by part in another; results come later. Within the time one sensor
is recalibrated at all machines, one machine drifts alone, two results swap their meaning at all machines, machines
come and go, a field is added, and every process is killed in turn. Nothing of streamfl writes the records.
"""

import argparse
import heapq
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from live.federation import Federation, World, delete, everything, federation, fresh
from live.processes import Process
from streamfl.protocol.messages import LocalDrift, Restarted, RoundClosed

MACHINES, READINGS, RESULTS = 30, 12, 8

# Mean and deviation of each sensor; `quality` depends on the first four.
SENSORS = {
    "spindle_temperature": (61.0, 5.0),
    "coolant_temperature": (23.0, 2.0),
    "vibration": (0.9, 0.25),
    "pressure": (6.0, 0.4),
    "flow": (14.0, 1.5),
    "torque": (37.0, 6.0),
    "speed": (3100.0, 240.0),
    "humidity": (44.0, 9.0),
}
WEIGHTS = (1.1, -0.6, 1.3, 0.8)
GOOD, BAD, WORN = "good", "rework", "scrap"

# What happens, as a share of the time.
ADDED, RECALIBRATED, NEW_FIELD, ALONE, REMOVED, SWAPPED = 0.15, 0.3, 0.4, 0.5, 0.6, 0.75
SHIFT = 14.0  # degrees, by which the recalibrated sensor reads lower
DRIFTER = 7
BROKEN, NEVER = 0.005, 0.01  # shares of readings that are no JSON, and of parts without a result


@dataclass(frozen=True)
class Course:
    """How long and how fast a plant runs.

    Parameters
    ----------
    minutes, rate
        How long, and readings a second of all machines.
    interval
        Seconds of a round.
    features
        What models learn: `[learning] features`.
    kill_every
        Seconds after which the next process is killed, and started again after one.
    least
        The fewest records of an update: those of a client that has fewer wait.
    latest
        How late a result may come, as a share of the time.
    """

    minutes: float
    rate: float
    interval: float = 10.0
    features: str = "auto"
    kill_every: float = 60.0
    least: int = 5
    latest: float = 1 / 6


@dataclass
class Plant:
    """Writes what machines and the laboratory would write.

    Parameters
    ----------
    bootstrap, readings, results
        The broker and the topics.
    seconds, rate
        How long, and readings a second in all.
    delays
        The least and the largest delay of a result, in seconds.
    seed
        The seed of everything that is drawn.
    """

    bootstrap: str
    readings: str
    results: str
    seconds: float
    rate: float
    delays: tuple[float, float]
    seed: int = 1
    written: Counter[str] = field(default_factory=Counter)
    happened: dict[str, float] = field(default_factory=dict)
    _due: list[tuple[float, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._offsets = [[self._rng.gauss(0, 0.4) for _ in SENSORS] for _ in range(MACHINES + 1)]
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.create_topics([NewTopic(self.readings, READINGS, 1), NewTopic(self.results, RESULTS, 1)])
        admin.close()
        self._producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", linger_ms=5)

    def run(self) -> Iterator[float]:
        """Write until the time is over, and then the last results; yield the seconds so far, about ten times each."""
        began, number = time.monotonic(), 0
        while (now := time.monotonic() - began) < self.seconds + self.delays[1]:
            while number < min(now, self.seconds) * self.rate:
                self._reading(number, now)
                number += 1
            while self._due and self._due[0][0] <= now:
                _, part, result = heapq.heappop(self._due)
                self._send(self.results, part, {"part": part, "quality": result})
                self.written["results"] += 1
            yield now
            time.sleep(0.1)
        self._producer.flush()
        self._producer.close()

    def _reading(self, number: int, now: float) -> None:
        share = now / self.seconds
        machines = [*range(MACHINES - (share >= REMOVED)), *([MACHINES] if share >= ADDED else [])]
        machine = self._rng.choice(machines)
        z = [self._rng.gauss(own, 1.0) for own in self._offsets[machine]]
        result = self._result(z, machine, share)
        values = {name: mean + dev * each for (name, (mean, dev)), each in zip(SENSORS.items(), z, strict=True)}
        if self._is_on("recalibrated", share >= RECALIBRATED, now):
            values["spindle_temperature"] -= SHIFT
        part = f"p{number:07}"
        told = {
            "part": part,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "sensors": {name: round(value, 4) for name, value in values.items()},
        }
        if self._is_on("new field", share >= NEW_FIELD, now):
            told["sensors"]["oil_level"] = round(self._rng.uniform(0.2, 1.0), 3)
        broken = self._rng.random() < BROKEN
        self._send(self.readings, f"m{machine:02}", "sensor offline" if broken else told)
        self.written["broken" if broken else "readings"] += 1
        if not broken and self._rng.random() >= NEVER:
            heapq.heappush(self._due, (now + self._rng.uniform(*self.delays), part, result))

    def _result(self, z: list[float], machine: int, share: float) -> str:
        score = sum(w * each for w, each in zip(WEIGHTS, z, strict=False)) + self._rng.gauss(0, 0.3)
        if self._is_on("alone", share >= ALONE, share * self.seconds) and machine == DRIFTER:
            score = -score
        result = WORN if score > 1.6 else BAD if score > 0 else GOOD
        if self._is_on("swapped", share >= SWAPPED, share * self.seconds):
            result = {GOOD: BAD, BAD: GOOD}.get(result, result)
        return result

    def _is_on(self, what: str, is_so: bool, now: float) -> bool:
        if is_so:
            self.happened.setdefault(what, now)
        return is_so

    def _send(self, topic: str, key: str, told: object) -> None:
        value = told if isinstance(told, str) else json.dumps(told)
        self._producer.send(topic, value.encode(), key=key.encode())


@dataclass
class Watch:
    """What processes cost, and which were killed."""

    running: dict[str, Process]
    killed: list[tuple[float, str]] = field(default_factory=list)
    memory: dict[str, list[float]] = field(default_factory=dict)
    cpu: Counter[str] = field(default_factory=Counter)

    def look(self) -> None:
        """Note the memory of each process, in MB."""
        for name, process in self.running.items():
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            self.memory.setdefault(name, []).append(round(pages * 4096 / 1e6, 1))

    def kill(self, now: float, name: str, live: Federation, start: list[str]) -> None:
        """Kill a process, and start it again."""
        old = self.running[name]
        self.cpu[name] += old.usage().seconds
        old.kill()
        live.processes.remove(old)
        self.killed.append((round(now, 1), name))
        time.sleep(1.0)
        self.running[name] = live.start(*start)


def measured(world: World, course: Course) -> dict[str, Any]:
    """Run the plant and a federation of it; return what was learnt, told and used."""
    readings, results = fresh("readings"), fresh("results")
    seconds = 60.0 * course.minutes
    delays = seconds / 60.0, seconds * course.latest
    plant = Plant(world.bootstrap, readings, results, seconds, course.rate, delays)
    tables: dict[str, dict[str, Any]] = {
        "federation": {"min_clients": MACHINES},
        "rounds": {"clock": "interval", "interval": course.interval, "min_records": course.least},
        "records": {"topics": [readings], "clients": "message-key"},
        "records.fields": {"label": "quality", "time": "at"},
        "labels": {"topic": results, "key": "part", "window": int(course.rate * delays[1] * 1.5) + 1000},
        "learning": {"features": course.features},
    }
    commands = {"coordinator": ["coordinator"], "a": ["client", "--host", "a"], "b": ["client", "--host", "b"]}
    try:
        with federation(world, tables) as live:
            watch = Watch({name: live.start(*words) for name, words in commands.items()})
            next_kill, next_look, order = course.kill_every, 0.0, [*commands]
            began = time.time()
            for now in plant.run():
                if now >= next_look:
                    watch.look()
                    next_look = now + max(10.0, seconds / 60.0)
                if next_kill <= now < seconds:
                    name = order[len(watch.killed) % len(order)]
                    watch.kill(now, name, live, commands[name])
                    next_kill = now + course.kill_every
            settled(live, plant.written["results"], course.interval)
            for name, process in watch.running.items():
                watch.cpu[name] += process.usage().seconds
            return told(live, plant, watch, began)
    finally:
        delete(world.bootstrap, lambda topic: topic in (readings, results))


def settled(live: Federation, results: int, interval: float, within: float = 180.0) -> None:
    """Wait until the ledger has all results that were written, or nothing has moved for three rounds."""
    until, before, still = time.monotonic() + within, -1, 0
    while time.monotonic() < until and still < 3:
        closed = [one.message for one in live.messages() if isinstance(one.message, RoundClosed)]
        done = sum(entry.records + entry.rejected for entry in closed)
        if done >= results:
            return
        still, before = (still + 1 if done == before else 0), done
        time.sleep(interval)


def letters(live: Federation) -> list[Any]:
    """Return the dead letters."""
    return everything(live.world.bootstrap, live.topics.dead_letters)


def told(live: Federation, plant: Plant, watch: Watch, began: float) -> dict[str, Any]:
    """Return the figures."""
    heard = live.messages()
    closed = [one.message for one in heard if isinstance(one.message, RoundClosed)]
    learnt, right, answered = Counter[str](), Counter[str](), Counter[str]()
    ends: dict[str, int] = {}
    gaps = 0
    for entry in closed:
        for one in entry.accepted:
            learnt[one.client] += one.records
            if one.measured is not None and entry.served.records == entry.records:  # all were predicted
                right[one.client] += one.measured[0]
                answered[one.client] += one.records
            for span in one.spans:
                place = f"{one.client} {span.partition}"
                gaps += span.start < ends.get(place, 0)
                ends[place] = span.end
    drifts = [
        {
            "after": round(one.at - began, 1),
            "round": one.message.round,
            "since": one.message.since,
            "kind": "all" if isinstance(one.message, Restarted) else one.message.state,
            "clients": list(one.message.clients)[:3],
        }
        for one in heard
        if isinstance(one.message, Restarted | LocalDrift)
    ]
    kept = {_place(told): told for told in (dict(letter.headers or ()) for letter in letters(live))}  # once each
    reasons = Counter(told.get("reason", b"").decode()[:60] for told in kept.values())
    served = [entry.served for entry in closed]
    total = max(1, sum(one.records for one in served))
    return {
        "written": dict(plant.written),
        "happened": {what: round(at, 1) for what, at in plant.happened.items()},
        "entries": len(closed),
        "rounds": max((entry.round for entry in closed), default=0),
        "learnt": sum(learnt.values()),
        "rejected": sum(entry.rejected for entry in closed),
        "dead letters": dict(reasons),
        "clients": len(learnt),
        "learnt twice": gaps,
        "by round": [round(one.correct / one.records, 2) for one in served if one.records],
        "accuracy": round(sum(one.correct for one in served) / total, 4),
        "NoChange": round(sum(one.no_change for one in served) / total, 4),
        "worst clients": sorted((round(right[c] / answered[c], 3), c) for c in answered if answered[c])[:3],
        "drifts": drifts,
        "killed": watch.killed,
        "cpu seconds": {name: round(seconds, 1) for name, seconds in watch.cpu.items()},
        "memory": {name: [sizes[0], max(sizes), sizes[-1]] for name, sizes in watch.memory.items()},
    }


def _place(told: dict[str, bytes]) -> tuple[bytes | None, ...]:
    """Return where the message of a dead letter was read: after a kill the same one may be written again."""
    return tuple(told.get(name) for name in ("topic", "partition", "offset"))


def main() -> None:
    """Measure, and write a JSON file."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("bootstrap")
    words.add_argument("--minutes", type=float, default=60.0)
    words.add_argument("--rate", type=float, default=20.0, help="readings a second, of all machines")
    words.add_argument("--json", type=Path, required=True)
    words.add_argument("--folder", type=Path, default=Path("results"))
    given = words.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    world = World(given.bootstrap, given.folder, tenth=False, minutes=given.minutes)
    found = {"minutes": given.minutes, "rate": given.rate, **measured(world, Course(given.minutes, given.rate))}
    given.json.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
