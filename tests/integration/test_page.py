"""`--page` of a replay shows what runs."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.full, pytest.mark.process]

COMMAND = str(Path(sys.executable).parent / "streamfl")


@pytest.fixture
def table(tmp_path):
    """A file of 1,200 records whose two classes change their meaning in the middle."""
    rng = np.random.default_rng(3)
    rows = ["width,height,kind"]
    for i in range(1200):
        y = int(rng.integers(0, 2))
        width, height = rng.normal(size=2) + 3 * (y if i < 600 else 1 - y)
        rows.append(f"{width:.6f},{1000 * height:.6f},{('round', 'square')[y]}")
    path = tmp_path / "blobs.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def read(url):
    with urllib.request.urlopen(url, timeout=20) as reply:
        return json.load(reply)


def test_a_replay_is_shown_and_stays_until_it_is_interrupted(table):
    words = [COMMAND, "replay", str(table), "--features", "rounds", "--clients", "3", "--json", "-", "--per-round"]
    # Tests that a shell has started in the background ignore Ctrl-C, and so would the process.
    heeds = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*words, "--page", "0"], **pipes, text=True, preexec_fn=heeds) as process:  # noqa: PLW1509
        lines = iter(process.stderr.readline, "")
        url = next(
            found[1] for line in lines if (found := re.search(r"stays available at (http\S+/) until Ctrl-C", line))
        )
        shown = read(f"{url}view")
        with urllib.request.urlopen(f"{url}events", timeout=20) as stream:
            assert stream.readline() == b"event: view\n"
            process.send_signal(signal.SIGINT)
            result = json.loads(process.stdout.read())
            assert process.wait(20) == 0
    head = shown["headline"]
    assert head["phase"] == "the federation has ended"
    assert (head["rounds"], head["records"], head["restarts"]) == (result["rounds"], 1200, len(result["restarts"]))
    assert head["restarts"] == 1
    rounds = [
        (line["round"], line["records"], pytest.approx(line["accuracy"], abs=1e-5)) for line in result["per_round"]
    ]
    assert [(point[1], point[4], point[5]) for point in shown["rounds"]] == rounds
    assert shown["drifts"][0]["sentence"].split(";")[0].rstrip(".") in result["changes"][0]["sentence"]
