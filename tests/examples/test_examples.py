"""Every example runs as it stands, as its reader would run it."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def test_the_examples_are_the_three_that_are_tested():
    assert [path.stem for path in EXAMPLES] == ["embed_in_river", "federate_river_model", "replay_a_csv"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs_and_prints_something(path: Path, tmp_path: Path):
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip()
