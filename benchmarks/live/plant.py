"""A plant of many machines on a real broker, for an hour or less: what was learnt, what was told, what it cost.

    PYTHONPATH=benchmarks python -m live.plant BOOTSTRAP --minutes 60 --json plant.json

Readings are keyed by machine in one topic, results by part in another; results come later. Within the time one sensor
is recalibrated at all machines, one machine drifts alone, two results swap their meaning at all machines, machines
come and go, a field is added, every process is killed in turn, and once all of them are for a twelfth of the time.
Nothing of streamfl writes the records. Afterwards each machine's records are given, in the same order and with labels
as late, to a learner that has no others.
"""

import argparse
import heapq
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from live.federation import Federation, Timed, World, delete, everything, federation, fresh
from live.processes import Process
from streamfl import MasterFLClassifier
from streamfl.protocol.messages import InputsMoved, LocalDrift, Restarted, RoundClosed
from streamfl_benchmarks import run_file
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Kept

MACHINES, READINGS, RESULTS = 30, 12, 8
ROUND_ALONE = 7  # records of a round of a learner alone: those of a machine in ten seconds

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
ADDED, RECALIBRATED, NEW_FIELD, ALONE, REMOVED, STOPPED, SWAPPED = 0.15, 0.3, 0.4, 0.5, 0.6, 0.62, 0.75
STOP = 1 / 12  # how long all processes are stopped
CHANGES = ("recalibrated", "alone", "swapped")  # those that are to be told
SHIFT = 14.0  # degrees, by which the recalibrated sensor reads lower
DRIFTER = 7
BROKEN, NEVER = 0.005, 0.01  # shares of readings that are no JSON, and of parts without a result


@dataclass(frozen=True)
class Course:
    """How long and how fast a plant runs.

    Parameters
    ----------
    minutes, rate
        How long, until the last result, and readings a second of all machines.
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
    machines
        How many there are in the beginning.
    alone
        Whether each machine's records are also given to a learner of its own, which takes CPU time.
    """

    minutes: float
    rate: float
    interval: float = 10.0
    features: str = "auto"
    kill_every: float = 60.0
    least: int = 1
    latest: float = 1 / 6
    machines: int = MACHINES
    alone: bool = True


@dataclass(frozen=True)
class Part:
    """A part whose result was written: when it was read and when its result came, in seconds, and what they say."""

    read: float
    told: float
    machine: str
    sensors: dict[str, float]
    result: str


@dataclass
class Alone:
    """A learner for each machine that has its records alone: it answers as early, and its results come as late."""

    features: str
    learners: dict[str, MasterFLClassifier] = field(default_factory=dict)
    answers: dict[int, object] = field(default_factory=dict)
    right: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)

    def read(self, part: Part) -> None:
        """Answer a part, as soon as it is read."""
        if part.machine not in self.learners:
            self.learners[part.machine] = MasterFLClassifier(round_size=ROUND_ALONE, features=self.features)
        self.answers[id(part)] = self.learners[part.machine].predict_one(part.sensors)

    def take(self, part: Part) -> None:
        """Learn a part, whose result has come."""
        self.right[part.machine] += self.answers.pop(id(part)) == part.result
        self.told[part.machine] += 1
        self.learners[part.machine].learn_one(part.sensors, part.result)

    @property
    def accuracy(self) -> dict[str, float]:
        return {name: round(self.right[name] / self.told[name], 4) for name in sorted(self.told)}


class Nobody(Alone):
    """No learner."""

    def read(self, part: Part) -> None:
        """Do nothing."""

    def take(self, part: Part) -> None:
        """Do nothing."""


@dataclass
class Plant:
    """Writes what machines and the laboratory would write.

    Parameters
    ----------
    bootstrap, readings, results
        The broker and the topics.
    seconds, rate
        How long there are readings, and how many a second in all.
    delays
        The least and the largest delay of a result, in seconds.
    alone
        What learns each machine's records alone.
    machines
        How many there are in the beginning.
    seed
        The seed of everything that is drawn.
    """

    bootstrap: str
    readings: str
    results: str
    seconds: float
    rate: float
    delays: tuple[float, float]
    alone: Alone
    machines: int = MACHINES
    seed: int = 1
    written: Counter[str] = field(default_factory=Counter)
    happened: dict[str, float] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    _due: list[tuple[float, str, Part]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._offsets = [[self._rng.gauss(0, 0.4) for _ in SENSORS] for _ in range(self.machines + 1)]
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
                _, key, part = heapq.heappop(self._due)
                self._send(self.results, key, {"part": key, "quality": part.result})
                self.parts.append(part)
                self.alone.take(part)
            yield now
            time.sleep(0.1)
        self._producer.flush()
        self._producer.close()

    def _reading(self, number: int, now: float) -> None:
        share = now / self.seconds
        there = self.machines
        machines = [*range(there - (share >= REMOVED)), *([there] if share >= ADDED else [])]
        machine = self._rng.choice(machines)
        z = [self._rng.gauss(own, 1.0) for own in self._offsets[machine]]
        result = self._result(z, machine, share)
        values = {name: mean + dev * each for (name, (mean, dev)), each in zip(SENSORS.items(), z, strict=True)}
        if self._is_on("recalibrated", share >= RECALIBRATED, now):
            values["spindle_temperature"] -= SHIFT
        part = f"p{number:07}"
        sensors = {name: round(value, 4) for name, value in values.items()}
        if self._is_on("new field", share >= NEW_FIELD, now):
            sensors["oil_level"] = round(self._rng.uniform(0.2, 1.0), 3)
        told = {"part": part, "at": datetime.now(UTC).isoformat(timespec="milliseconds"), "sensors": sensors}
        broken = self._rng.random() < BROKEN
        self._send(self.readings, f"m{machine:02}", "sensor offline" if broken else told)
        self.written["broken" if broken else "readings"] += 1
        if not broken and self._rng.random() >= NEVER:
            due = now + self._rng.uniform(*self.delays)
            read = Part(now, due, f"m{machine:02}", sensors, result)
            heapq.heappush(self._due, (due, part, read))
            self.alone.read(read)

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
    """What processes cost, and which were killed.

    Parameters
    ----------
    live, commands
        The federation, and the words that start each process.
    """

    live: Federation
    commands: dict[str, list[str]]
    running: dict[str, Process] = field(default_factory=dict)
    killed: list[tuple[float, str]] = field(default_factory=list)
    failed: list[tuple[float, str]] = field(default_factory=list)  # those that ended by themselves
    used: list[tuple[float, dict[str, tuple[float, float]]]] = field(default_factory=list)
    ended: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        for name in self.commands:
            self.start(name)

    def start(self, name: str) -> None:
        self.running[name] = self.live.start(*self.commands[name])

    def look(self, now: float) -> None:
        """Note the memory of each process, in MB, and the CPU seconds of all that have had its name."""
        found = {}
        for name, process in self.running.items():
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            found[name] = round(pages * 4096 / 1e6, 1), round(self.ended[name] + process.usage().seconds, 1)
        self.used.append((round(now, 1), found))

    def attend(self, now: float) -> None:
        """Start processes again that have ended by themselves, as a supervisor does."""
        for name in [name for name, process in self.running.items() if process.has_ended()]:
            self.failed.append((round(now, 1), name))
            self.kill(name)
            self.start(name)

    def kill(self, name: str) -> None:
        """Kill a process, as a power cut would."""
        old = self.running.pop(name)
        self.ended[name] += old.usage().seconds
        old.kill()
        self.live.processes.remove(old)

    def next(self, now: float) -> None:
        """Kill the next process, and start it again a second later."""
        name = [*self.commands][len(self.killed) % len(self.commands)]
        self.killed.append((round(now, 1), name))
        self.kill(name)
        time.sleep(1.0)
        self.start(name)


COMMANDS = {"coordinator": ["coordinator"], "a": ["client", "--host", "a"], "b": ["client", "--host", "b"]}


def tables(plant: Plant, course: Course) -> dict[str, dict[str, Any]]:
    """Return the settings of a plant's federation; what they do not name is as by default."""
    window = int(course.rate * plant.delays[1] * 1.5) + 1000
    return {
        "federation": {"min_clients": plant.machines},
        "rounds": {"clock": "interval", "interval": course.interval, "min_records": course.least},
        "records": {"topics": [plant.readings], "clients": "message-key"},
        "records.fields": {"label": "quality", "time": "at"},
        "labels": {"topic": plant.results, "key": "part", "window": window},
        "learning": {"features": course.features},
    }


def measured(world: World, course: Course) -> dict[str, Any]:
    """Run the plant and a federation of it; return what was learnt, told and used."""
    readings, results = fresh("readings"), fresh("results")
    seconds = 60.0 * course.minutes
    delays = seconds / 60.0, seconds * course.latest
    alone = Alone(course.features) if course.alone else Nobody(course.features)
    lasts = seconds - delays[1]
    plant = Plant(world.bootstrap, readings, results, lasts, course.rate, delays, alone, course.machines)
    try:
        with federation(world, tables(plant, course)) as live:
            watch = Watch(live, COMMANDS)
            began = time.time()
            attended(plant, watch, course, seconds)
            settled(live, len(plant.parts), course.interval)
            watch.look(time.time() - began)
            parts = json.dumps([asdict(part) for part in plant.parts])
            (world.folder / "parts.json").write_text(parts)  # for other questions than these
            return told(live, plant, watch, began)
    finally:
        delete(world.bootstrap, lambda topic: topic in (readings, results))


def attended(plant: Plant, watch: Watch, course: Course, seconds: float) -> None:
    """Let the plant run; look at the processes, kill one after the other, and stop all once."""
    next_kill, next_look = course.kill_every, 0.0
    stop, go = STOPPED * plant.seconds, STOPPED * plant.seconds + STOP * seconds
    for now in plant.run():
        watch.attend(now)
        if now >= next_look and watch.running:
            watch.look(now)
            next_look = now + max(10.0, seconds / 60.0)
        if stop <= now < go:
            for name in [*watch.running]:
                watch.kill(name)
                plant.happened["stopped"] = now
        elif not watch.running:
            plant.happened["started again"] = now
            for name in watch.commands:
                watch.start(name)
        elif next_kill <= now < plant.seconds:
            watch.next(now)
            next_kill += course.kill_every


def settled(live: Federation, results: int, interval: float, within: float = 300.0, quiet: float = 60.0) -> None:
    """Wait until the ledger has all results that were written, or nothing has moved for a minute and three rounds."""
    until, before, still = time.monotonic() + within, -1, 0
    while time.monotonic() < until and still < max(3.0, quiet / interval):
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
    learnt, answered, right = Counter[str](), Counter[str](), defaultdict[str, float](float)
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
    buried = [dict(letter.headers or ()) for letter in letters(live)]
    kept = {_place(told): told for told in buried}  # once each
    reasons = Counter(told.get("reason", b"").decode()[:60] for told in kept.values())
    served = [entry.served for entry in closed]
    total = max(1, sum(one.records for one in served))
    return {
        "written": {**plant.written, "results": len(plant.parts)},
        "happened": {what: round(at, 1) for what, at in plant.happened.items()},
        "first results": first_results(plant),
        "entries": len(closed),
        "rounds": max((entry.round for entry in closed), default=0),
        "learnt": sum(learnt.values()),
        "rejected": sum(entry.rejected for entry in closed),
        "dead letters": dict(reasons),
        "dead letters written": len(buried),
        "clients": len(learnt),
        "learnt twice": gaps,
        "closed": [round(one.at - began, 1) for one in heard if isinstance(one.message, RoundClosed)],
        "by round": [round(one.correct / one.records, 2) for one in served if one.records],
        "accuracy": round(sum(one.correct for one in served) / total, 4),
        "NoChange": round(sum(one.no_change for one in served) / total, 4),
        "alone": round(plant.alone.right.total() / max(1, plant.alone.told.total()), 4),
        "by machine": {name: round(right[name] / answered[name], 4) for name in sorted(answered) if answered[name]},
        "by machine alone": plant.alone.accuracy,
        "drifts": [announced(one, plant, began) for one in heard if isinstance(one.message, Announcement)],
        "killed": watch.killed,
        "failed": watch.failed,
        "used": watch.used,
    }


def first_results(plant: Plant) -> dict[str, float]:
    """Return for each change when the first result came of a later part."""
    came = {
        what: [part.told for part in concerned(plant, what) if part.read >= plant.happened[what]]
        for what in CHANGES
        if what in plant.happened
    }
    return {what: round(min(times), 1) for what, times in came.items() if times}


def later(plant: Plant, what: str, until: float, lately: float = 30.0) -> float:
    """Return the share of later parts among those whose results came lately: of a change, at its machines."""
    parts = [part for part in concerned(plant, what) if until - lately < part.told <= until]
    return round(sum(part.read >= plant.happened[what] for part in parts) / max(1, len(parts)), 3)


def concerned(plant: Plant, what: str) -> list[Part]:
    """Return the parts of the machines that a change concerns."""
    return [part for part in plant.parts if what != "alone" or part.machine == f"m{DRIFTER:02}"]


Announcement = Restarted | LocalDrift | InputsMoved


def announced(timed: Timed, plant: Plant, began: float) -> dict[str, Any]:
    """Return when a change was announced, what it says, and what share of the results was of later parts by then."""
    found, after = timed.message, timed.at - began
    assert isinstance(found, Announcement)
    kinds = {Restarted: "all", InputsMoved: "inputs"}
    return {
        "after": round(after, 1),
        "round": found.round,
        "since": found.since,
        "kind": found.state if isinstance(found, LocalDrift) else kinds[type(found)],
        "cause": found.cause if isinstance(found, Restarted) else "",
        "clients": list(found.clients)[:3],
        "moved": [[one.feature, one.before, one.after, list(one.clients)[:3]] for one in found.moved],
        "later": {what: later(plant, what, after) for what in CHANGES if plant.happened.get(what, after) < after},
    }


def _place(told: dict[str, bytes]) -> tuple[bytes | None, ...]:
    """Return where the message of a dead letter was read: after a kill the same one may be written again."""
    return tuple(told.get(name) for name in ("topic", "partition", "offset"))


def main() -> None:
    """Measure, and write a file of runs."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("bootstrap")
    words.add_argument("--minutes", type=float, default=60.0)
    words.add_argument("--rate", type=float, default=20.0, help="readings a second, of all machines")
    words.add_argument("--kill-every", type=float, default=300.0, help="seconds from one kill to the next")
    words.add_argument("--json", type=Path, required=True)
    words.add_argument("--folder", type=Path, default=Path("results"))
    words.add_argument("--machines", type=int, default=MACHINES)
    words.add_argument("--no-alone", action="store_true", help="without a learner for each machine alone")
    given = words.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    world = World(given.bootstrap, given.folder, tenth=False, minutes=given.minutes)
    course = Course(
        given.minutes, given.rate, kill_every=given.kill_every, machines=given.machines, alone=not given.no_alone
    )
    found = {"seed": 1, "minutes": given.minutes, "rate": given.rate, **measured(world, course)}
    run_file.write(given.json, [Kept(Origin.now("plant"), found)])
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
