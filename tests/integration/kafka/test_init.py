"""`streamfl init` on a real broker: what it writes passes `check`, and is enough for a federation that learns."""

import json
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

pytestmark = pytest.mark.full

COMMAND = str(Path(sys.executable).parent / "streamfl")
SMALL = ("--set", "learning.features=rounds", "--set", "kafka.patience=30")


@pytest.fixture
def run(tmp_path):
    """Run a command in a folder of its own."""

    def streamfl(*words):
        return subprocess.run(
            [COMMAND, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )

    return streamfl


@pytest.fixture
def name():
    return f"init-{uuid.uuid4().hex[:8]}"


def write(broker, topic, partitions, records):
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}}, wait_for_metadata=True)
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for i, record in enumerate(records):
            producer.send(topic, json.dumps(record).encode(), partition=i % partitions)


def sensor(i):
    inner = {"at": f"2026-11-25T08:{i // 60 % 60:02}:{i % 60:02}Z", "id": f"r{i}", "trace": [i]}
    return {
        "meta": inner,
        "position": {"x": i % 50 / 7, "y": None},
        "paint": "red",
        "quality": {"label": "ab"[i % 2]},
    }


def test_a_topic_of_nested_records_gets_settings_that_pass_the_check(broker, name, run):
    write(broker, name, 3, map(sensor, range(300)))
    made = run("init", "--topic", name, "--broker", broker.bootstrap)
    assert made.returncode == 0, made.stderr
    assert "3 clients, label 'quality.label' (2 labels, guessed by its name)" in made.stdout
    assert "time 'meta.at'; 2 fields left out" in made.stdout
    checked = run("check", "--settings", "federation.toml")
    assert checked.returncode == 0, checked.stdout
    for partition in range(3):
        # x, y without any value, and paint=red.
        assert f"ok       {name}/{partition}: 100 records, 2 features, labels a, b" in checked.stdout


def test_a_file_gets_settings_with_which_it_is_learnt_to_its_end(broker, name, run, tmp_path):
    lines = [
        f"{i},2026-11-25 08:{i // 60 % 60:02}:{i % 60:02},{'red' if i % 3 else 'blue'},{i // 2 % 2}"
        for i in range(400)
    ]
    (tmp_path / "plant.csv").write_text("id,at,colour,state\n" + "\n".join(lines))
    words = ("--name", name, "--clients", "2", "--broker", broker.bootstrap)
    made = run("init", "plant.csv", *words)
    assert made.returncode == 0, made.stderr
    *_, check, coordinator, client, produce = (line.split()[1:] for line in made.stdout.splitlines())
    assert run(*produce).returncode == 0
    checked = run(*check)
    assert checked.returncode == 0, checked.stdout
    for number in range(2):
        assert f"ok       {name}.records.c{number}/0: 199 records, 2 features, labels 0, 1" in checked.stdout
    with subprocess.Popen(
        [COMMAND, *coordinator, *SMALL], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as running:
        learnt = run(*client, *SMALL)
        _, log = running.communicate(timeout=60)
    assert (learnt.returncode, running.returncode) == (0, 0), learnt.stderr + log
    last = json.loads(learnt.stderr.splitlines()[-1])
    assert (last["event"], last["read"], last["accepted"], last["rejected"]) == ("ended", 400, 400, 0)


def test_init_names_a_missing_topic_and_the_topics_that_exist(broker, name, run, tmp_path):
    write(broker, f"{name}.there", 1, [])
    made = run("init", "--topic", f"{name}.no", "--broker", broker.bootstrap)
    assert made.returncode == 2
    assert made.stderr.startswith(f"streamfl: error: no topic is named {name}.no; there are ")
    empty = run("init", "--topic", f"{name}.*", "--broker", broker.bootstrap)
    assert "no messages yet; start the program that writes there" in empty.stderr
    assert not (tmp_path / "federation.toml").exists()
