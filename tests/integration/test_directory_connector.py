"""A second connector, tests/directory_connector: federations run on it, and nothing outside knows of it."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import streamfl
from streamfl.errors import PeerError
from streamfl.live.coordinator import serve_coordinator
from streamfl.live.settings.connectors import connect
from streamfl.live.settings.loading import load
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.stopping import Stop
from streamfl.protocol.messages import Ended, Left
from streamfl.records.formats import FieldMap, record_format
from streamfl.run.model_file import ServedModel
from streamfl.run.summary import RoundSummary
from streamfl.testing import Kit, check_transport
from streamfl.testing.transport import CHECKS

FOLDER = Path(__file__).parents[1] / "directory_connector"
COMMAND = Path(sys.executable).parent / "streamfl"

CLIENTS, SIZE, ROUNDS, SWAP = 3, 20, 30, 15
PATIENCE = 90.0

SETTINGS = """
[federation]
name = "pond"
min_clients = 3
connector = "directory"

[learning]
features = "rounds"

[rounds]
clock = "records"
size = 20
deadline = 0

[records]
topics = ["pond.records.*"]

[client]
retry = 1.0
stop_within = 5.0

[logs]
form = "json"
"""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A settings file whose directory is there."""
    (tmp_path / "log").mkdir()
    path = tmp_path / "federation.toml"
    path.write_text(f'{SETTINGS}\n[directory]\npath = "{tmp_path / "log"}"\n')
    return path


@pytest.fixture
def loaded(settings: Path, monkeypatch: pytest.MonkeyPatch) -> FederationSettings:
    """The same, read in this process."""
    monkeypatch.syspath_prepend(FOLDER)
    return load(settings)


class TestTransport:
    @pytest.fixture
    def kit(self, loaded: FederationSettings) -> Callable[[], Kit]:
        """Make a kit of a directory of its own."""
        made = iter(range(len(CHECKS)))

        def fresh() -> Kit:
            path = loaded.section.path / f"check-{next(made)}"
            path.mkdir()
            alone = loaded.model_copy()
            alone._section = type(loaded.section)(path=path)
            connector, placement, form = connect(alone), loaded.placement, record_format("json", FieldMap())
            return Kit(
                lambda name: connector.host(name, placement, form).link(name),
                lambda: connector.coordinator(placement, form),
            )

        return fresh

    def test_the_directory_connector_passes_each_conformance_check(self, kit: Callable[[], Kit]) -> None:
        check_transport(kit)

    def test_a_coordinator_that_slept_is_fenced_by_a_later_one(self, kit: Callable[[], Kit]) -> None:
        links = kit()
        sleeper = links.coordinator()
        links.coordinator()
        with pytest.raises(PeerError, match="taken over"):
            sleeper.publish([])


def test_a_host_that_begins_after_the_end_is_told_of_it_first(loaded: FederationSettings) -> None:
    connector, placement, form = connect(loaded), loaded.placement, record_format("json", FieldMap())
    (loaded.section.path / "pond.records.c0").mkdir()

    def told() -> list[object]:
        with closing(connector.host("late", placement, form)) as host:
            return [*host.receive(), *host.receive()]

    left, ended = Left(client="c0", nonce="1"), Ended(entry=3)
    coordinator = connector.coordinator(placement, form)
    coordinator.publish((left, ended))
    assert told() == [ended]
    coordinator.publish((left,))
    assert told() == []


class Federation:
    """Processes of a federation, as its user starts them."""

    def __init__(self, settings: Path) -> None:
        self.settings = settings
        self.model = settings.parent / "live.safetensors"
        self.running: list[subprocess.Popen[bytes]] = []

    def command(self, *words: object, told: bool = True) -> list[str]:
        return [str(COMMAND), *map(str, words), *(("--settings", str(self.settings)) if told else ())]

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMFL_")}
        return kept | {"PYTHONPATH": os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])}

    def run(self, *words: object, told: bool = True, code: int = 0) -> str:
        """Run a command to its end, which must have this exit code, and return what it wrote."""
        command = self.command(*words, told=told)
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a process that logs into a file of its name."""
        with (self.settings.parent / f"{name}.log").open("ab") as file:
            process = subprocess.Popen(self.command(*words), env=self.environment, stdout=file, stderr=file)
        self.running.append(process)
        return process

    def start_both(self, host: str) -> None:
        self.start("coordinator", "coordinator", "--until-end", "--model-out", str(self.model))
        self.start(host, "client", "--host", host, "--until-end")

    def kill_all(self) -> None:
        for process in self.running:
            process.kill()
            process.wait(PATIENCE)
        self.running.clear()

    def said(self, name: str) -> list[dict[str, object]]:
        text = (self.settings.parent / f"{name}.log").read_text()
        assert "Traceback" not in text, text[-3000:]
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def shown(self) -> dict[str, object]:
        """Return the headline of the page that runs."""
        told = self.said("page")
        if not told:
            return {}
        with urllib.request.urlopen(f"{told[0]['url']}view", timeout=20) as reply:
            headline: dict[str, object] = json.load(reply)["headline"]
        return headline

    def until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < until, self.said("coordinator")[-5:]
            time.sleep(0.05)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Records of two kinds, which swap their names halfway."""
    rng, n = np.random.default_rng(7), CLIENTS * SIZE * ROUNDS
    X = rng.integers(0, 100, (n, 3))
    kind = (X[:, 0] > 50) ^ (np.arange(n) >= CLIENTS * SIZE * SWAP)
    lines = [f"{a},{b},{c},{'oak' if k else 'fir'}" for (a, b, c), k in zip(X, kind, strict=True)]
    path = tmp_path / "trees.csv"
    path.write_text("height,slope,shade,label\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.process
@pytest.mark.full
def test_a_federation_on_it_is_what_a_replay_is_also_when_all_of_it_was_killed(settings: Path, table: Path) -> None:
    federation = Federation(settings)
    replay, model = settings.parent / "replay.json", settings.parent / "replay.safetensors"
    federation.run(
        *("replay", table, "--clients", CLIENTS, "--round-size", SIZE, "--features", "rounds", "--json", replay),
        *("--model-out", model),
        told=False,
    )
    expected = json.loads(replay.read_text())
    assert len(expected["restarts"]) == 1
    federation.run("produce", table, "--clients", CLIENTS, "--end")
    assert federation.run("check").count("600 records, 3 features, labels fir, oak") == CLIENTS
    try:
        federation.start_both("a")
        federation.until(lambda: sum(line["event"] == "round" for line in federation.said("coordinator")) >= 4)
        federation.kill_all()
        federation.start_both("b")
        federation.until(lambda: all(process.poll() is not None for process in federation.running))
        assert [process.returncode for process in federation.running] == [0, 0]
    finally:
        federation.kill_all()
    ended = federation.said("coordinator")[-1]
    assert (ended["event"], ended["accepted"], ended["rejected"]) == ("ended", CLIENTS * SIZE * ROUNDS, 0)
    assert (ended["model_sha256"], ended["restarts"]) == (expected["model_sha256"], 1)
    bytes_ = ended["bytes"]
    assert isinstance(bytes_, dict)
    # These are of the second coordinator alone, and a log has every message, also those that are sent again.
    assert bytes_["raw"] == expected["bytes"]["raw"] == 12.0
    assert 0.5 * expected["bytes"]["up"] < bytes_["up"] < 2.0 * expected["bytes"]["up"]
    X = np.random.default_rng(3).integers(0, 100, (200, 3))
    live, replayed = (ServedModel.load(path) for path in (federation.model, model))
    names = ("height", "slope", "shade")
    assert np.array_equal(live.predict_proba(X, names), replayed.predict_proba(X, names))
    assert live.provenance is not None
    assert (live.provenance.source, live.provenance.records) == ("pond", CLIENTS * SIZE * ROUNDS)
    assert live.sha256 == live.provenance.sha256 == expected["model_sha256"]
    asked = ("--set", 'score.topics=["pond.asked"]')
    federation.run("produce", table, "--clients", CLIENTS, "--unlabelled", *asked)
    answers = settings.parent / "log" / "pond.predictions" / "0"
    try:
        federation.start("scorer", "score", *asked)
        federation.until(lambda: len(list(answers.glob("0*"))) == CLIENTS * SIZE * ROUNDS)
    finally:
        federation.kill_all()
    rows = [[int(x) for x in line.split(",")[:3]] for line in table.read_text().splitlines()[1:]]
    told = Counter(json.loads(path.read_bytes())["prediction"] for path in answers.glob("0*"))
    assert told == Counter(live.predict(rows, names))
    watched = federation.run("watch", "--from-start", "--rounds", ROUNDS).splitlines()
    assert sum(f"records of {CLIENTS} clients" in line for line in watched) == ROUNDS
    check_page(federation)


def check_page(federation: Federation) -> None:
    """Check that a page shows what ran."""
    try:
        federation.start("page", "page", "--address", "0")
        federation.until(lambda: federation.shown().get("rounds") == ROUNDS)
        shown = federation.shown()
    finally:
        federation.kill_all()
    assert (shown["records"], shown["restarts"], shown["ended"]) == (CLIENTS * SIZE * ROUNDS, 1, True)


def test_a_bad_record_is_a_dead_letter_and_the_others_are_read(loaded: FederationSettings) -> None:
    connector = connect(loaded)
    writer = connector.writer(loaded.placement, ["c0"])
    for value in (b'{"x": 1, "label": "a"}', b"junk", b'{"x": 2, "label": "b"}'):
        writer.write("c0", value)
    with closing(connector.host("a", loaded.placement, loaded.record_format)) as host:
        (source,) = host.poll_clients().values()
        (batch,) = source.poll(10)
        assert (batch.X.ravel().tolist(), len(batch.rejected), host.counts.dead_letters) == ([1.0, 2.0], 1, 1)
        (again,) = source.fetch({"pond.records.c0/0": [2]})
        assert again.X.tolist() == [[2.0]]
    (letter,) = (loaded.section.path / "pond.dead-letter" / "0").glob("0*")
    assert b"junk" in letter.read_bytes()


def test_two_hosts_share_the_partitions(loaded: FederationSettings) -> None:
    connector = connect(loaded)
    connector.writer(loaded.placement, ["c0"]).write("c0", b'{"x": 1, "label": "a"}')
    first, second = (connector.host(name, loaded.placement, loaded.record_format) for name in "ab")
    with closing(second):
        with closing(first):
            assert (list(first.poll_clients()), list(second.poll_clients())) == (["c0"], [])
        assert list(second.poll_clients()) == ["c0"]


@pytest.mark.process
def test_a_misspelt_setting_or_a_missing_directory_is_reported_with_the_remedy(settings: Path) -> None:
    federation = Federation(settings)
    for text, why in (
        ("pth = 'x'", "[directory] pth: there is no such setting; did you mean path?"),
        ("path = '/nowhere'", "[directory] path: there is no directory /nowhere; make it, or correct path"),
    ):
        settings.write_text(f"{SETTINGS}\n[directory]\n{text}\n")
        assert why in federation.run("coordinator", code=2)


def test_functions_of_a_program_read_messages_on_a_log_as_they_do_in_memory(
    loaded: FederationSettings, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamfl.live.host_node.FOR_GOOD", 0.0)

    def features(message: list[float]) -> dict[str, object]:
        return {"x": message[0], "twice": 2.0 * message[1], "label": "oak" if message[0] > 0.0 else "fir"}

    own = {"deserialize": lambda message: json.loads(message[2:]), "features": features}
    heard: list[RoundSummary] = []
    memory = streamfl.Federation(settings, **own, on_round=heard.append, clock=streamfl.ManualClock())
    rng = np.random.default_rng(1)
    writer = connect(loaded).writer(loaded.placement, [f"c{i}" for i in range(CLIENTS)])
    for _ in range(3 * SIZE):
        for client in (f"c{i}" for i in range(CLIENTS)):
            message = b"v1" + json.dumps(rng.normal(size=2).tolist()).encode()
            writer.write(client, message)
            memory.learn(client, message)
    writer.end()
    stop, model = Stop(), settings.parent / "live.safetensors"
    served = {"until_end": True, "model_out": model, "standby": False}
    coordinator = Thread(target=serve_coordinator, args=(loaded, connect(loaded), stop), kwargs=served)
    coordinator.start()
    try:
        streamfl.Federation(settings, **own).run(until_end=True)
    finally:
        stop.requested = True
        coordinator.join()
    assert len(heard) == 3
    assert ServedModel.load(model).sha256 == heard[-1].model
    asked = [b"v1" + json.dumps(rng.normal(size=2).tolist()).encode() for _ in range(30)]
    assert scored(settings, loaded, monkeypatch, own, [*asked, b"v1{"]) == memory.predict("c0", asked)


def scored(
    settings: Path,
    loaded: FederationSettings,
    monkeypatch: pytest.MonkeyPatch,
    own: dict[str, object],
    messages: list[bytes],
) -> list[str]:
    """Return what `Federation.run("score")` answers to the messages that can be read, in their order."""
    asked, answers = (loaded.section.path / f"pond.{topic}" / "0" for topic in ("asked", "predictions"))
    asked.mkdir(parents=True)
    for i, message in enumerate(messages):
        (asked / f"{i:020d}").write_bytes(message)
    stop = Stop()

    @contextmanager
    def until_answered() -> Iterator[Stop]:
        yield stop

    def watch() -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and len(list(answers.glob("0*"))) < len(messages) - 1:
            time.sleep(0.01)
        stop.requested = True

    monkeypatch.setattr("streamfl.cli.federation.stopped_by_signals", until_answered)
    Thread(target=watch).start()
    text = settings.read_text()
    settings.write_text(f'{text}\n[score]\ntopics = ["pond.asked"]\n')
    streamfl.Federation(settings, **own).run("score")
    return [json.loads(path.read_bytes())["prediction"] for path in sorted(answers.glob("0*"))]


@pytest.mark.process
@pytest.mark.full
def test_a_federation_by_event_time_of_clients_with_unequal_rates_is_what_a_replay_is(
    settings: Path, tmp_path: Path
) -> None:
    """Rows count as times; some periods of a client have too few records, and its last ones are never sent."""
    rng, n = np.random.default_rng(8), 900
    site = rng.choice(["a", "b", "c"], n, p=[0.7, 0.2, 0.1])
    X = rng.integers(0, 100, (n, 2))
    lines = [f"{x},{z},{s},{'oak' if x > 50 else 'fir'}" for (x, z), s in zip(X, site, strict=True)]
    table, replay = tmp_path / "trees.csv", tmp_path / "replay.json"
    table.write_text("height,slope,site,label\n" + "\n".join(lines) + "\n")
    by_time = SETTINGS.replace('clock = "records"', 'clock = "event_time"\ninterval = 60')
    settings.write_text(settings.read_text().replace(SETTINGS, f'{by_time}\n[records.fields]\ntime = "row"\n'))
    federation = Federation(settings)
    dealt = ("--split", "column:site")
    federation.run(
        *("replay", table, *dealt, "--round-size", SIZE, "--features", "rounds", "--json", replay), told=False
    )
    expected = json.loads(replay.read_text())
    assert (expected["ahead"], expected["pending"]) == (0, expected["answered"])
    federation.run("produce", table, *dealt, "--end")
    try:
        federation.start_both("a")
        federation.until(lambda: all(process.poll() is not None for process in federation.running))
    finally:
        federation.kill_all()
    ended = federation.said("coordinator")[-1]
    assert (ended["model_sha256"], ended["accepted"]) == (expected["model_sha256"], expected["accepted"])
