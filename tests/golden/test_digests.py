"""Small runs of every kind give the bytes that they gave before names and places were changed."""

import json

import pytest
from suites.parameters import full

from golden import runs
from golden.arithmetic import told_by

NOTED = json.loads(runs.NOTED.read_text())

# One of each profile, task, algorithm and kind of model; the others differ from these in one option.
QUICK = (
    "adaptive",
    "adaptive rounds",
    "adaptive regression",
    "experts",
    "paper history",
    "p-norm",
    "river model",
)


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> dict[str, dict[str, str]]:
    """Run those that are selected."""
    tests = [item for item in request.session.items if item.path == request.path]
    names = [test.callspec.params["name"] for test in tests if hasattr(test, "callspec")]
    told: dict[str, dict[str, str]] = told_by(runs.__file__, names)
    return told


@pytest.mark.process
@pytest.mark.parametrize("name", [name if name in QUICK else full(name) for name in runs.RUNS])
def test_a_run_gives_the_bytes_that_it_gave(name: str, found: dict[str, dict[str, str]]) -> None:
    assert found[name] == NOTED[name]


def test_every_run_is_noted() -> None:
    assert NOTED.keys() == runs.RUNS.keys()
    assert set(QUICK) <= runs.RUNS.keys()
