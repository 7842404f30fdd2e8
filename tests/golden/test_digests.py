"""Small runs of every kind give the bytes that they gave before names and places were changed."""

import json

import pytest

from golden import runs
from golden.arithmetic import told_by


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, str]]:
    told: dict[str, dict[str, str]] = told_by(runs.__file__)
    return told


@pytest.mark.parametrize("name", runs.RUNS)
def test_a_run_gives_the_bytes_that_it_gave(name: str, found: dict[str, dict[str, str]]) -> None:
    noted = json.loads(runs.NOTED.read_text())
    assert found[name] == noted[name]
    assert noted.keys() == runs.RUNS.keys()
