"""Answers of `streamfl score`: how many a second, next to a loop that reads, decodes and writes; and how late."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from live.federation import Federation, World, delete, federation, fresh, logged
from live.processes import Process
from live.records import arriving, clients, produced
from streamfl.errors import PeerError
from streamfl.records.files.covtype import covtype
from streamfl.records.formats import Packed
from streamfl.records.table import shuffled

BARE = Path(__file__).with_name("bare_answers.py")
CLIENTS, SIZE, ROUNDS = 4, 250, 30  # what is learnt before
PARTITIONS = 4
RECORDS = {"json": 40_000, "packed": 120_000}  # of one measurement of the rate
PACK = 64  # records of a packed message
ANSWER = 245  # bytes of the bare loop's answer: the mean of the scorers'
RATE, SECONDS, WARM = 1000, 17, 2  # of a measurement of delays; its first seconds do not count
ARRIVING = 500  # records a second that the federation learns while others are answered
PATIENCE = 300.0


@dataclass(frozen=True)
class Case:
    """A scorer, or the bare loop if `features` is empty.

    Parameters
    ----------
    features, exactly_once, form
        Its settings.
    learning
        Whether rounds go on.
    """

    features: str
    exactly_once: bool = False
    form: str = "json"
    learning: bool = False

    @property
    def key(self) -> str:
        words = (
            self.features or "bare loop",
            self.form,
            "transactions" if self.exactly_once else "",
            "while learning" if self.learning else "",
        )
        return ", ".join(word for word in words if word)


KINDS = ("", "rounds", "auto")
RATES = (
    *(Case(features, once) for features in KINDS for once in (False, True)),
    *(Case(features, form="packed") for features in KINDS),
)
DELAYS = (
    *(Case(features, once) for features in KINDS for once in (False, True)),
    *(Case(features, once, learning=True) for features in KINDS[1:] for once in (False, True)),
)


# --- answers -------------------------------------------------------------------------------------------------------


def rates(world: World, runs: int, done: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each run of each case, in turn, so that all see the same machine."""
    missing = [(run, case) for run in range(1, runs + 1) for case in RATES if f"{case.key} | run {run}" not in done]
    with ExitStack() as stack:
        idle: dict[str, Federation] = {}
        for run, case in missing:
            yield f"{case.key} | run {run}", _rate(_idle(stack, world, idle, case.features or "rounds"), case)


def _rate(of: Federation, case: Case) -> dict[str, Any]:
    topic, to = _made(of, case)
    messages = _write(of, topic, of.world.size(RECORDS[case.form]), case.form)
    before, load = _ends(of, to), os.getloadavg()[0]
    process = _started(of, case, topic, messages)
    _until_committed(of, of.topics.scorers_group if case.features else to, topic, messages)
    _ended(of, process)
    answers = _read(of, to, before)
    delete(of.world.bootstrap, lambda name: name.startswith(topic))
    times = np.array([message.timestamp for message in answers]) / 1000
    first, last = times.min(), times.max()
    return {
        "records": len(answers),
        "rate": float((times > first).sum() / (last - first)),
        "bytes": float(np.mean([len(message.value) for message in answers])),
        "cpu": process.cpu,
        "load": load,
    }


def _write(of: Federation, topic: str, n: int, form: str) -> int:
    """Write so many records, and return the number of messages."""
    values = list(islice(_packed() if form == "packed" else _json(), -(-n // PACK) if form == "packed" else n))
    with KafkaProducer(bootstrap_servers=of.world.bootstrap, linger_ms=5, batch_size=256 * 1024) as producer:
        for i, value in enumerate(values):
            producer.send(topic, value, key=str(i).encode(), partition=i % PARTITIONS)
        producer.flush()
    return len(values)


def _json() -> Iterator[bytes]:
    """Yield covtype as JSON, again and again, without labels."""
    table = shuffled(covtype(), 1)
    while True:
        for x in table.X:
            yield msgspec.json.encode(dict(zip(table.features, x.tolist(), strict=True)))


def _packed() -> Iterator[bytes]:
    table, form = shuffled(covtype(), 1), Packed("classification")
    while True:
        for start in range(0, len(table.X) - PACK, PACK):
            X = table.X[start : start + PACK]
            yield form.encode(table.features, X, np.zeros(len(X)), ("none",))


def _until_committed(of: Federation, group: str, topic: str, messages: int) -> None:
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    reader = KafkaConsumer(bootstrap_servers=of.world.bootstrap, group_id=group, enable_auto_commit=False)
    until = time.monotonic() + PATIENCE
    try:
        while sum(reader.committed(partition) or 0 for partition in partitions) < messages:
            if time.monotonic() > until:
                raise PeerError(f"{topic} was not answered within {PATIENCE:.0f} s")
            time.sleep(0.3)
    finally:
        reader.close()


def rate_table(done: dict[str, Any]) -> list[str]:
    """Return the lines of the results."""
    lines = []
    for case in RATES:
        runs = _runs(done, case.key)
        bare = _runs(done, Case("", form=case.form).key)
        both = sorted(runs.keys() & bare.keys())
        if not both:
            continue
        ratios = sorted(runs[i]["rate"] / bare[i]["rate"] for i in both)
        of = {name: median(runs[i][name] for i in both) for name in ("rate", "cpu", "bytes")}
        lines.append(
            f"| {case.key} | {of['rate']:,.0f} | {median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]"
            f" | {of['cpu']:.1f} | {of['bytes']:.0f} | {len(both)} |"
        )
    head = [
        "| answers | a second | beside the bare loop | CPU, s | bytes | runs |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    return [*head, *lines] if lines else []


# --- answer-delay --------------------------------------------------------------------------------------------------


def delays(world: World, runs: int, done: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the delays of each case, in turn."""
    missing = [(run, case) for run in range(1, runs + 1) for case in DELAYS if f"{case.key} | run {run}" not in done]
    with ExitStack() as stack:
        idle: dict[str, Federation] = {}
        for run, case in missing:
            if case.learning:
                with _learnt(world, case.features) as of, arriving(of, clients(CLIENTS), 10**6, ARRIVING):
                    yield f"{case.key} | run {run}", _delays(of, case)
            else:
                of = _idle(stack, world, idle, case.features or "rounds")
                yield f"{case.key} | run {run}", _delays(of, case)


def _delays(of: Federation, case: Case) -> dict[str, Any]:
    topic, to = _made(of, case)
    n = of.world.size(SECONDS, 4) * RATE
    process = _started(of, case, topic, n)
    until = time.monotonic() + PATIENCE
    while not _is_ready(process, case):
        process.require_alive()
        if time.monotonic() > until:
            raise PeerError(f"{process.log.stem} is not ready:\n{process.last_words()}")
        time.sleep(0.2)
    load = os.getloadavg()[0]
    appended, answered, seen, rounds = _asked_evenly(of, topic, to, n)
    _ended(of, process)
    delete(of.world.bootstrap, lambda name: name.startswith(topic))
    counted = slice(WARM * RATE, None)
    return {
        **_told("log", (answered - appended)[counted]),
        **_told("seen", (seen - appended)[counted]),
        "rounds": rounds,
        "load": load,
        "cpu": process.cpu,
    }


def _is_ready(process: Process, case: Case) -> bool:
    if not case.features:
        return "ready" in process.log.read_text()
    return len(logged(process.log, "partition taken")) >= PARTITIONS and bool(logged(process.log, "ready"))


def _asked_evenly(of: Federation, topic: str, to: str, n: int) -> tuple[Any, Any, Any, int]:
    """Return when each record and its answer were in the log, when the answer was read; and the number of rounds."""
    values = list(islice(_json(), n))
    reader, partitions = _reader(of, to)
    reader.seek_to_end(*partitions)
    for partition in partitions:
        reader.position(partition)
    sent: list[Any] = []
    answered, seen, rounds = np.zeros(n), np.zeros(n), set()
    with KafkaProducer(bootstrap_servers=of.world.bootstrap, linger_ms=0) as producer:
        began = time.monotonic()
        while not seen.all():
            passed = time.monotonic() - began
            if passed > n / RATE + PATIENCE:
                raise PeerError(f"{topic}: {np.count_nonzero(seen == 0)} records were not answered")
            for i in range(len(sent), min(n, int(passed * RATE))):
                sent.append(producer.send(topic, values[i], key=str(i).encode(), partition=i % PARTITIONS))
            for batch in reader.poll(timeout_ms=1).values():
                now = time.time()
                for message in batch:
                    i = int(message.key)
                    if not seen[i]:
                        answered[i], seen[i] = message.timestamp / 1000, now
                rounds.add(msgspec.json.decode(batch[-1].value).get("round"))
        appended = np.array([one.get(10).timestamp for one in sent]) / 1000
    reader.close()
    return appended, answered, seen, len(rounds)


def _told(name: str, seconds: Any) -> dict[str, float]:
    p50, p99, most = np.quantile(1000 * seconds, [0.5, 0.99, 1.0]).tolist()
    return {f"{name}_p50": p50, f"{name}_p99": p99, f"{name}_most": most}


def delay_table(done: dict[str, Any]) -> list[str]:
    """Return the lines of the results, in milliseconds."""
    lines = []
    for case in DELAYS:
        runs = list(_runs(done, case.key).values())
        if not runs:
            continue
        cells = []
        for name in ("log_p50", "log_p99", "log_most", "seen_p50", "seen_p99", "seen_most", "rounds"):
            found = sorted(run[name] for run in runs)
            cells.append(f"{median(found):.0f} [{found[0]:.0f}, {found[-1]:.0f}]")
        lines.append(f"| {case.key} | {' | '.join(cells)} | {len(runs)} |")
    head = [
        "| answers | to the log: median | 99% | most | until read: median | 99% | most | rounds | runs |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | ---: |",
    ]
    return [*head, *lines] if lines else []


# --- both ----------------------------------------------------------------------------------------------------------


@contextmanager
def _learnt(world: World, features: str) -> Iterator[Federation]:
    """Run a federation that has learnt all that there is, and waits for more."""
    tables = {
        "federation": {"min_clients": CLIENTS},
        "rounds": {"clock": "records", "size": SIZE, "quorum": "all", "deadline": 0},
        "learning": {"features": features},
    }
    with federation(world, tables) as of:
        produced(of, clients(CLIENTS), SIZE * ROUNDS, end=False)
        of.start("coordinator")
        of.start("client")
        of.when("RoundClosed", PATIENCE, lambda closed: closed.round == ROUNDS)
        yield of


def _idle(stack: ExitStack, world: World, idle: dict[str, Federation], features: str) -> Federation:
    """Return a federation of which only the models are left, in the log."""
    if features not in idle:
        idle[features] = stack.enter_context(_learnt(world, features))
        for process in list(idle[features].processes):
            _ended(idle[features], process)
    return idle[features]


def _started(of: Federation, case: Case, topic: str, messages: int) -> Process:
    """Start what answers so many messages of a topic."""
    if not case.features:
        ends = [str(messages), f"{topic}.answers", str(ANSWER), "once" if case.exactly_once else "twice"]
        words = [sys.executable, str(BARE), of.world.bootstrap, topic, case.form, *ends]
        process = Process(words, of.world.folder / f"{topic}.log")
        of.processes.append(process)
        return process
    settings = (
        f'score.topics=["{topic}"]',
        f"score.exactly_once={str(case.exactly_once).lower()}",
        f'records.format="{case.form}"',
    )
    return of.start("score", "--name", "scorer", *(word for one in settings for word in ("--set", one)))


def _ended(of: Federation, process: Process) -> None:
    process.stop()
    of.processes.remove(process)


def _made(of: Federation, case: Case) -> tuple[str, str]:
    """Make the topics of records and of answers, and return them."""
    topic = f"{of.name}.{fresh('asked')}"
    to = of.topics.predictions if case.features else f"{topic}.answers"
    _make(of, topic)
    _make(of, to)
    return topic, to


def _make(of: Federation, topic: str) -> None:
    """Make a topic, unless it is there, whose messages have the times at which they are in the log."""
    admin = KafkaAdminClient(bootstrap_servers=of.world.bootstrap)
    try:
        if topic not in admin.list_topics():
            times = {"message.timestamp.type": "LogAppendTime"}
            admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs=times)])
    finally:
        admin.close()


def _reader(of: Federation, topic: str) -> tuple[KafkaConsumer, list[TopicPartition]]:
    reader = KafkaConsumer(
        bootstrap_servers=of.world.bootstrap, isolation_level="read_committed", enable_auto_commit=False
    )
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    reader.assign(partitions)
    return reader, partitions


def _ends(of: Federation, topic: str) -> dict[TopicPartition, int]:
    reader, partitions = _reader(of, topic)
    ends: dict[TopicPartition, int] = reader.end_offsets(partitions)
    reader.close()
    return ends


def _read(of: Federation, topic: str, begins: dict[TopicPartition, int]) -> list[Any]:
    """Return the messages from some offsets on."""
    reader, partitions = _reader(of, topic)
    for partition, offset in begins.items():
        reader.seek(partition, offset)
    ends, found = reader.end_offsets(partitions), []
    while any(reader.position(partition) < ends[partition] for partition in partitions):
        for batch in reader.poll(timeout_ms=500, max_records=10_000).values():
            found += batch
    reader.close()
    return found


def _runs(done: dict[str, Any], key: str) -> dict[int, dict[str, Any]]:
    return {int(name.rpartition(" ")[2]): found for name, found in done.items() if name.startswith(f"{key} | run ")}
