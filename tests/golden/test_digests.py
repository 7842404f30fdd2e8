"""Small runs of every kind give the bytes that they gave before names and places were changed."""

import json
import os
import subprocess
import sys

import pytest

from golden import runs


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, str]]:
    command = [sys.executable, runs.__file__]
    told = subprocess.run(command, env=os.environ | runs.ARITHMETIC, capture_output=True, text=True, check=True)
    digests: dict[str, dict[str, str]] = json.loads(told.stdout)
    return digests


@pytest.mark.parametrize("name", runs.RUNS)
def test_a_run_gives_the_bytes_that_it_gave(name: str, found: dict[str, dict[str, str]]) -> None:
    noted = json.loads(runs.NOTED.read_text())
    assert found[name] == noted[name]
    assert noted.keys() == runs.RUNS.keys()
