"""A federation whose processes are killed learns what an undisturbed one learns, and every record once."""

import json
import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from kafka_federation import CONNECTORS, HOSTS, Federation, Process, check_ledger
from kafka_stream import ROUNDS, Recorded, Stages, check_as_undisturbed

from deploy.broker.jars import fetched

ROOT = Path(__file__).parents[3]

# Rounds that must follow the last kill.
AFTERWARDS = 5

Make = Callable[..., Federation]


@pytest.fixture
def make(broker, stream, tmp_path) -> Iterator[Make]:
    made: list[Federation] = []

    def federation(**options: object) -> Federation:
        told = {"topics": stream.topics} | options
        made.append(Federation(broker.bootstrap, tmp_path / f"federation-{len(made)}", **told))
        return made[-1]

    yield federation
    for one in made:
        one.close()


def start(federation: Federation, victims: Mapping[str, str] | None = None) -> dict[str, Process]:
    """Start all processes; the coordinator when every host has clients: one that is late might get none."""
    dies_at = victims or {}
    hosts = {name: federation.start(name, dies_at=dies_at.get(name, "")) for name in HOSTS}
    federation.until("every host has clients", lambda: all(host.serves() for host in hosts.values()))
    return hosts | {"coordinator": federation.start("coordinator", dies_at=dies_at.get("coordinator", ""))}


def check_accounts(federation: Federation, stream: Recorded) -> None:
    """Compare the closing lines of all processes: records read = accepted + rejected + pending."""
    ended = {process.name: process.said("ended")[-1] for process in federation.running if process.said("ended")}
    for line in ended.values():
        assert line["read"] == line["accepted"] + line["rejected"] + line.get("pending", 0)
    assert ended["coordinator"]["accepted"] == sum(stream.each.values())
    assert sum(ended[host]["accepted"] for host in HOSTS) == sum(stream.each.values())


@pytest.mark.full
def test_separate_processes_learn_what_the_replay_learns(make, stream, request):
    federation = make()
    start(federation)
    check_as_undisturbed(federation, stream)
    assert len(stream.restarts) == 2
    assert [process.ended() for process in federation.running] == [0, 0, 0, 0]
    check_accounts(federation, stream)
    if not os.environ.get("STREAMFL_TEST_BOOTSTRAP"):
        check_console(federation, stream, request.getfixturevalue("libs"))


def check_console(federation: Federation, stream: Recorded, libs: Path) -> None:
    """Read the control topic by Kafka's own console consumer, as somebody without streamfl would."""
    jars = fetched(libs)
    topic = f"{federation.name}.control"
    options = [
        "--bootstrap-server",
        federation.bootstrap,
        "--topic",
        topic,
        "--from-beginning",
        "--timeout-ms",
        "5000",
    ]
    lines = subprocess.run(
        ["java", "-cp", f"{jars}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer", *options],
        capture_output=True,
        text=True,
        check=False,  # its way to say that nothing more came is an exit code
    ).stdout.splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]  # its own log comes the same way
    restarts = [message for message in told if message["type"] == "restarted"]
    assert [(r["round"], r["epoch"], r["cause"]) for r in restarts] == [r[:3] for r in stream.restarts]


CLIENT_POINTS = ("after_polling:9", "update_sent:30", "scores_sent:2")
COORDINATOR_POINTS = ("between_parts:12", "inside_transaction:8", "round_closed:9")


def disturbed(federation: Federation, *points: tuple[str, str]) -> None:
    """Run with processes that are killed at their points; start them again as soon as they are."""
    victims = dict(points)
    start(federation, victims)
    for process in [process for process in federation.running if process.name in victims]:
        federation.until(f"{process.name} is killed", lambda process=process: process.popen.poll() is not None)
        assert process.was_killed_at(victims[process.name]), federation.last_words()
        round_open = federation.round_is_open()
        assert 1 < round_open <= ROUNDS - AFTERWARDS
        federation.start(process.name)


@pytest.mark.full
@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("point", CLIENT_POINTS)
def test_a_client_host_killed_at_any_point_changes_nothing_that_is_learnt(point, connector, make, stream):
    federation = make()
    disturbed(federation, ("b", point))
    check_as_undisturbed(federation, stream)


@pytest.mark.full
@pytest.mark.parametrize("point", COORDINATOR_POINTS)
def test_a_coordinator_killed_at_any_point_changes_nothing_that_is_learnt(point, make, stream):
    federation = make()
    disturbed(federation, ("coordinator", point))
    check_as_undisturbed(federation, stream)


def test_a_coordinator_and_a_host_killed_in_one_round_change_nothing_that_is_learnt(make, stream):
    federation = make()
    disturbed(federation, ("b", "update_sent:30"), ("coordinator", "inside_transaction:8"))
    check_as_undisturbed(federation, stream)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_five_kills_at_random_times_change_nothing_that_is_learnt(seed, broker, make, stream, request):
    rng, stages = random.Random(seed), Stages(broker.bootstrap, stream)
    request.addfinalizer(stages.close)
    federation = make(topics=stages.topics)
    processes = start(federation)
    for kill in range(1, 6):
        stages.write(rounds=6)
        federation.until("some of these rounds", lambda kill=kill: federation.rounds() >= 6 * kill - 5)
        name = rng.choice([*HOSTS, "coordinator", "coordinator"])
        time.sleep(rng.uniform(0.0, 0.3))
        processes[name].kill()
        assert 1 < federation.round_is_open() <= ROUNDS - AFTERWARDS
        processes[name] = federation.start(name)
    stages.write(rounds=6)
    federation.running = list(processes.values())
    check_as_undisturbed(federation, stream)


SAFEGUARDS = {
    "the ledger seek": (
        "machines/client/machine.py",
        "decisions.append(Seek({**self._begun, **joined.positions, **again_at}, needed))",
        "pass",
        "positions of .* do not follow the ledger",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_without_a_safeguard_the_same_kill_is_noticed(safeguard, make, stream, tmp_path):
    file, there, instead, symptom = SAFEGUARDS[safeguard]
    shutil.copytree(ROOT / "streamfl", tmp_path / "broken" / "streamfl")
    source = tmp_path / "broken" / "streamfl" / file
    text = source.read_text()
    assert text.count(there) == 1, f"{safeguard} is written otherwise now: follow it"
    source.write_text(text.replace(there, instead))

    federation = make(package=tmp_path / "broken")
    with pytest.raises(AssertionError):  # on a slow machine clients ask twice, and it breaks before the kill
        disturbed(federation, ("b", "update_sent:30"))
        federation.until("the end", lambda: federation.rounds() >= ROUNDS, patience=20.0)
        check_as_undisturbed(federation, stream)
    with pytest.raises(AssertionError) as failure:
        check_ledger(federation.closed(), stream.each)
    coordinator_log = (federation.folder / "coordinator.log").read_text()
    assert re.search(symptom, f"{failure.value}{coordinator_log}")
