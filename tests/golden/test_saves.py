"""What was saved by earlier versions is read, and goes on to the same bytes."""

import json
import os
import subprocess
import sys

import pytest

from golden import saves
from golden.runs import ARITHMETIC

NOTED: dict[str, str] = json.loads(saves.NOTED.read_text())


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    command = [sys.executable, saves.__file__]
    told = subprocess.run(command, env=os.environ | ARITHMETIC, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(told.stdout)
    return found


@pytest.mark.parametrize("name", NOTED)
def test_a_saved_file_goes_on_as_it_did(name: str, answers: dict[str, str]) -> None:
    assert answers[name] == NOTED[name]
    assert answers.keys() == NOTED.keys()
