"""A whole federation as separate processes on a real broker, for tests that kill them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kafka import KafkaConsumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from suites.parameters import full

from streamfl.errors import PeerError
from streamfl.protocol.events import Signed, Unusable
from streamfl.protocol.messages import FromClient, FromCoordinator, Restarted, RoundClosed, RoundOpened
from streamfl.runtime.log.control import ControlReader
from streamfl.runtime.log.parts import PartAssembly
from streamfl.runtime.log.updates import completed
from streamfl.wire import messages as wire
from streamfl.wire.signing import Verifier
from streamfl_connectors.kafka.batches import read_leniently

read_leniently()  # tests read what they spoil

HERE = Path(__file__).parent
COMMAND = str(Path(sys.executable).parent / "streamfl")

CLIENTS = 12
ROUND = 50
HOSTS = ("a", "b", "c")

# With "confluent" all federations here read records through librdkafka.
CONNECTOR = os.environ.get("STREAMFL_TEST_CONNECTOR", "kafka")

# Connectors that tests are tried with.
CONNECTORS = [CONNECTOR, full("confluent")]

# No test waits longer for anything (seconds): a federation that has not come so far has got stuck.
PATIENCE = 90.0

SETTINGS = """
[federation]
name = "{name}"
connector = "{connector}"
min_clients = {clients}

[rounds]
clock = "records"
size = {size}
quorum = "all"
deadline = 0

[records]
topics = ["{topics}"]

[learning]
features = "rounds"

[client]
retry = 1.0
stop_within = 5.0

[logs]
form = "json"
level = "info"

[{connector}]
bootstrap_servers = "{bootstrap}"
part_bytes = 1000
session_timeout_ms = 6000
patience = 30
"""


M = TypeVar("M", RoundClosed, Restarted)


@dataclass
class Process:
    """One process of a federation.

    Parameters
    ----------
    name, popen
        Its name, and what runs.
    log
        The lines of all starts of the same name.
    hit
        The file that it writes when it is killed at its point, see killable.py.
    """

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    hit: Path

    def was_killed_at(self, point: str) -> bool:
        """Tell whether it was killed at this point, of which `point:3` is the third passage."""
        return (
            self.popen.poll() == -signal.SIGKILL
            and self.hit.exists()
            and self.hit.read_text(encoding="utf-8") == point.partition(":")[0]
        )

    def kill(self) -> None:
        """End it as a power cut does."""
        self.popen.kill()
        self.popen.wait(PATIENCE)

    def terminate(self) -> int:
        """Ask it to end, and return its exit code."""
        self.popen.terminate()
        return self.popen.wait(PATIENCE)

    def ended(self) -> int:
        """Wait for its end, and return its exit code."""
        return self.popen.wait(PATIENCE)

    def lines(self) -> list[dict[str, object]]:
        """Return what it has logged."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def serves(self) -> set[str]:
        """Return the clients that a host has now."""
        return self._there("client taken", "client released")

    def members(self) -> set[str]:
        """Return the clients that take part now, as a coordinator says."""
        return self._there("joined", "left")

    def _there(self, comes: str, goes: str) -> set[str]:
        there: set[str] = set()
        for line in self.lines():
            if line["event"] == comes:
                there.add(str(line["client"]))
            elif line["event"] == goes:
                there.discard(str(line["client"]))
        return there

    def error(self) -> str:
        """Return the one line in which a process that ended says why; fail if it says more than that."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        assert "Traceback" not in text, text[-3000:]
        (line,) = [line for line in text.splitlines() if line.startswith("streamfl: ")]
        return line.removeprefix("streamfl: error: ")

    def said(self, event: str) -> list[dict[str, object]]:
        """Return the log lines of one kind of event."""
        return [line for line in self.lines() if line["event"] == event]

    def shows(self, path: str) -> tuple[int, str]:
        """Return the status and the text of what its telemetry shows at a path; 0 before it shows anything."""
        told = self.said("telemetry")
        if not told:
            return 0, ""
        try:
            with urllib.request.urlopen(f"http://{told[-1]['address']}{path}", timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def view(self, entry: int | None = None) -> dict[str, Any]:
        """Return the sections of a page, now or as of an entry; nothing before there is one."""
        told = self.said("page")
        if not told:
            return {}
        of = "" if entry is None else f"?entry={entry}"
        with urllib.request.urlopen(f"{told[-1]['url']}view{of}", timeout=10) as reply:
            return json.load(reply)

    def measures(self) -> dict[tuple[str, ...], float]:
        """Return its metrics by name and labels, without that of the federation, which all have."""
        families = text_string_to_metric_families(self.shows("/metrics")[1])
        found = [(one, {**one.labels, "federation": None}.values()) for of in families for one in of.samples]
        return {(one.name, *sorted(filter(None, labels))): one.value for one, labels in found}


@dataclass
class Federation:
    """A federation in a folder: `start` its processes, read what its coordinator tells.

    Parameters
    ----------
    bootstrap, folder
        The broker, and where logs and settings go.
    topics
        Of the records, with a *.
    extra
        Settings, as for `--set`.
    package
        A folder with another `streamfl` to run, broken on purpose.
    verifier
        Checks the coordinator's signatures of what it tells, if it signs.
    connector
        Its name; `kafka.` in `extra` stands for its section.
    """

    bootstrap: str
    folder: Path
    topics: str
    clients: int = CLIENTS
    size: int = ROUND
    extra: Sequence[str] = ()
    package: Path | None = None
    verifier: Verifier | None = None
    connector: str = CONNECTOR
    name: str = field(default_factory=lambda: f"f{uuid.uuid4().hex[:10]}")
    running: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        told = {"name": self.name, "clients": self.clients, "size": self.size, "connector": self.connector}
        text = SETTINGS.format(**told, topics=self.topics, bootstrap=self.bootstrap)
        self.settings.write_text(text, encoding="utf-8")

    @property
    def settings(self) -> Path:
        """Return the settings file."""
        return self.folder / "federation.toml"

    def start(self, name: str, *arguments: str, role: Sequence[str] = (), dies_at: str = "") -> Process:
        """Start a process: `coordinator`, a host's name, or with `role` any command.

        `dies_at` names a point at which it is killed, see killable.py; `point:3` is its third passage.
        """
        roles = {"coordinator": ("coordinator", "--until-end")}
        role = role or roles.get(name, ("client", "--host", name, "--until-end"))
        log, hit = self.folder / f"{name}.log", self.folder / f"{name}.hit"
        hit.unlink(missing_ok=True)
        program = [sys.executable, str(HERE / "killable.py"), dies_at, str(hit)] if dies_at else [COMMAND]
        extra = [re.sub("^kafka[.]", f"{self.connector}.", setting) for setting in self.extra]
        chosen = [word for setting in extra for word in ("--set", setting)]
        with log.open("ab") as file:
            popen = subprocess.Popen(
                [*program, *role, "--settings", str(self.settings), *chosen, *arguments],
                stdout=file,
                stderr=file,
                env=self._environment(),
                cwd=self.folder,
            )
        process = Process(name, popen, log, hit)
        self.running.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("STREAMFL_")}
        if self.package is None:
            return kept
        return kept | {"PYTHONPATH": os.pathsep.join([str(self.package), kept.get("PYTHONPATH", "")])}

    def told(self) -> list[FromCoordinator]:
        """Return all that the coordinator has told so far."""
        reader = ControlReader(verifier=self.verifier)
        found = [understood(reader, record) for record in self._all_of("control")]
        return [message for message in found if message is not None]

    def heard(self) -> list[FromClient | Signed | Unusable]:
        """Return all that clients have sent so far."""
        parts = PartAssembly(2**24)
        found = [completed(parts, r.key, tuple(r.headers), r.value, self.verifier) for r in self._all_of("updates")]
        return [message for message in found if message is not None]

    def _all_of(self, topic: str) -> list[Any]:
        """Return the records so far of one of the federation's topics, one partition after another."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, isolation_level="read_committed", enable_auto_commit=False
        )
        try:
            name, found = f"{self.name}.{topic}", []
            for number in sorted(consumer.partitions_for_topic(name) or ()):
                partition = TopicPartition(name, number)
                consumer.assign([partition])
                consumer.seek_to_beginning(partition)
                end = consumer.end_offsets([partition])[partition]
                while consumer.position(partition) < end:
                    for batch in consumer.poll(timeout_ms=500).values():
                        found += batch
            return found
        finally:
            consumer.close()

    def closed(self) -> list[RoundClosed]:
        """Return the ledger."""
        return self._once([message for message in self.told() if isinstance(message, RoundClosed)])

    def restarts(self) -> list[Restarted]:
        """Return the restarts."""
        return self._once([message for message in self.told() if isinstance(message, Restarted)])

    def _once(self, messages: list[M]) -> list[M]:
        """Return messages without repetitions, if what is told is signed: others may write it again."""
        if self.verifier is None:
            return messages
        return list({wire.encode(message): message for message in messages}.values())

    def round_is_open(self) -> int:
        """Return the round that is open, after checking that the last entry has been followed by an opening."""
        told = self.told()
        opened = [message for message in told if isinstance(message, RoundOpened)]
        closed = [message for message in told if isinstance(message, RoundClosed)]
        assert opened, "no round has been opened yet"
        assert opened[-1].entry == (closed[-1].entry if closed else 0) + 1, "no round is open"
        return opened[-1].round

    def until(self, what: str, holds: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Wait until something holds; fail with the processes' last words if it never does."""
        until = time.monotonic() + patience
        while not holds():
            assert time.monotonic() < until, f"{what}: not within {patience:g} s\n{self.last_words()}"
            time.sleep(0.05)

    def last_words(self) -> str:
        """Return the ends of all logs."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n" + "\n".join(log.read_text().splitlines()[-8:])[:3000] for log in logs)

    def rounds(self) -> int:
        """Return how many rounds have been closed, by the coordinator's log: reading the topic takes long."""
        log = self.folder / "coordinator.log"
        return log.read_bytes().count(b'"event": "round"') if log.exists() else 0

    def close(self) -> None:
        """End whatever still runs."""
        for process in self.running:
            if process.popen.poll() is None:
                process.popen.send_signal(signal.SIGCONT)
                process.kill()


def understood(reader: ControlReader, message: Any) -> FromCoordinator | None:
    """Return what a message completes, or None; also for what is none of the coordinator's: tests write that too."""
    try:
        return reader.read(message.value, message.headers)
    except PeerError:
        return None


def check_ledger(closed: Sequence[RoundClosed], expected: dict[str, int], *, shared: bool = False) -> None:
    """Check that entries follow one another, and that every record of every client was accepted once.

    In a partition that is shared, a client begins where its first record lies, which is not always the start.
    """
    assert [entry.entry for entry in closed] == list(range(1, len(closed) + 1))
    place: dict[str, int] = {}
    count: dict[str, int] = {}
    for entry in closed:
        names = [accepted.client for accepted in entry.accepted]
        assert len(names) == len(set(names)), f"a client twice in entry {entry.entry}"
        for accepted in entry.accepted:
            for span in accepted.spans:
                assert span.start == place.get(accepted.client, span.start), (
                    f"{accepted.client}: {span} does not follow"
                )
                assert shared or accepted.client in place or span.start == 0
                place[accepted.client] = span.end
            read = accepted.records + accepted.rejected
            count[accepted.client] = count.get(accepted.client, 0) + read
    assert count == expected
