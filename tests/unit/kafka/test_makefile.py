"""`make kafka` and `make console` go to the port that they are told."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.process, pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")]


def would_run(*words):
    """Return what make would run, without the set-up."""
    command = ["make", "--dry-run", "--assume-old=setup", "--assume-old=.venv/.ready", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("words", "port"), [((), "9092"), (("PORT=19092",), "19092")])
def test_make_kafka_and_make_console_use_the_port_that_is_given(words, port):
    assert f"deploy.broker --port {port}\n" in would_run("kafka", *words)
    assert f"--bootstrap-server 127.0.0.1:{port} --topic f.control" in would_run("console", "TOPIC=f.control", *words)


def test_make_kafka_with_secure_starts_a_secure_broker():
    assert "deploy.broker --port 9092 --secure\n" in would_run("kafka", "SECURE=1")


def test_make_console_without_a_topic_says_what_is_missing():
    ran = subprocess.run(["make", "console"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "Which topic? make console TOPIC=forest.control" in ran.stderr
