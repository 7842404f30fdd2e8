"""What was saved by earlier versions is read, and goes on to the same bytes."""

import json

import pytest

from golden import saves
from golden.arithmetic import told_by

pytestmark = [pytest.mark.full, pytest.mark.process]

NOTED: dict[str, str] = json.loads(saves.NOTED.read_text())


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    told: dict[str, str] = told_by(saves.__file__)
    return told


@pytest.mark.parametrize("name", NOTED)
def test_a_saved_file_goes_on_as_it_did(name: str, answers: dict[str, str]) -> None:
    assert answers[name] == NOTED[name]
    assert answers.keys() == NOTED.keys()
